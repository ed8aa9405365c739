"""Learners in the folders of their papers: old paths, pickles and names go on working."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

import kernelweave.learners
from kernelweave._core.moved import MOVED as FIRST_PATHS
from kernelweave.learners import NAMES, make_learner

MOVED = {
    "hessian": "Hessian",
    "qcqp": "Qcqp",
    "radius": "Radius",
    "radius_bound": "RadiusBound",
    "sdp": "Sdp",
    "silp": "Silp",
    "simple": "Simple",
    "skm": "Skm",
    "skm_published": "SkmPublished",
}


@pytest.mark.parametrize("module", MOVED)
def test_old_path_is_the_same_module(module):
    cls = getattr(kernelweave.learners, MOVED[module])
    assert cls.__module__.startswith("kernelweave.papers.")
    old = import_module(f"kernelweave.learners.{module}")
    assert old is sys.modules[cls.__module__] and getattr(old, MOVED[module]) is cls
    assert old.__name__ == old.__spec__.name == cls.__module__


@pytest.mark.parametrize("module", MOVED)
def test_pickles_with_the_old_path_load(module):
    learner = make_learner(module)
    new = pickle.dumps(learner, protocol=0)
    path = type(learner).__module__.encode()
    assert path in new
    old = new.replace(path, f"kernelweave.learners.{module}".encode())
    loaded = pickle.loads(old)
    assert type(loaded) is type(learner) and loaded.get_params() == learner.get_params()


def test_pickles_with_the_old_path_load_in_a_new_process():
    old = b"\x80\x03ckernelweave.learners.simple\nSimple\n)\x81."
    code = f"import pickle; print(type(pickle.loads({old!r})).__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "kernelweave.papers.rakoto2007.simple", done.stderr


@pytest.mark.parametrize(("old", "new"), [pair for pair in FIRST_PATHS.items() if pair[1]])
def test_every_first_path_is_the_module(old, new):
    assert import_module(f"kernelweave.{old}") is import_module(f"kernelweave.{new}")


def test_what_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        import_module("kernelweave.learners.simpler")


def test_papers_load_only_when_they_are_asked_for():
    code = (
        "import sys, numpy as np\n"
        "from kernelweave import learn\n"
        "K = np.array([np.eye(6), np.ones((6, 6))])\n"
        "learn(K, [1, -1, 1, -1, 1, -1])\n"
        "print(*[name for name in sys.modules if name.startswith('kernelweave.papers')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "", done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_a_learner(name):
    assert type(make_learner(name)).__name__ in kernelweave.learners.__all__


def test_balls_have_their_old_path():
    old = import_module("kernelweave._solvers.radius.enclosing_ball")
    assert old.Ball is type(kernelweave.enclosing_ball([[1.0, 0.0], [0.0, 1.0]]))
