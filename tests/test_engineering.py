"""Where and how it runs: no cache folder, Ctrl-C, threads, forks, compiler flags."""

from __future__ import annotations

import ast
import doctest
import gc
import importlib
import importlib.util
import inspect
import multiprocessing
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from _helpers.references import dense, gaussian, labels, points
from numba.core.dispatcher import Dispatcher

import kernelweave
from kernelweave import KernelStack, learn
from kernelweave._core.jit import FLAGS, jit
from kernelweave._core.settings import SETTINGS

ROOT = Path(kernelweave.__file__).parent


# --- compiler flags -----------------------------------------------------------------------------


def modules() -> list[Any]:
    names = [m.name for m in pkgutil.walk_packages([str(ROOT)], "kernelweave.")]
    needs = {"torch": "torch_", "triton": "torch_fused"}
    left_out = ["__main__", *(needs[one] for one in needs if not importlib.util.find_spec(one))]
    return [
        importlib.import_module(name)
        for name in names
        if not any(word in name for word in left_out)
    ]


def compiled() -> dict[str, Dispatcher]:
    return {
        f"{module.__name__}.{name}": value
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }


def test_no_compiled_function_assumes_finite_numbers_or_runs_parallel() -> None:
    functions = compiled()
    names = set(functions)
    assert {
        "kernelweave._solvers.svm.pairs.iterate",
        "kernelweave.stacks._passes.quad_forms",
    } <= names
    for name, function in functions.items():
        options = function.targetoptions
        assert options["nogil"] is True, name
        assert not options.get("parallel", False), name
        flags = options["fastmath"]
        assert flags is not True, name
        assert not set(flags or ()) & {"fast", "nnan", "ninf"}, name


def test_compiled_functions_call_none_of_other_files() -> None:
    """The cache on the disk does not see edits there: old code would run."""
    imported = {
        path: {
            alias.asname or alias.name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for path in ROOT.rglob("*.py")
    }
    for name, function in compiled().items():
        python = function.py_func
        known = imported[Path(inspect.getsourcefile(python))]
        used = {each: python.__globals__.get(each) for each in python.__code__.co_names}
        foreign = [
            each for each, value in used.items() if each in known and isinstance(value, Dispatcher)
        ]
        assert not foreign, f"{name} uses {foreign} of another file"


def test_every_compiled_function_goes_through_one_decorator() -> None:
    """numba is imported in one place, so its options are stated once."""
    users = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found = isinstance(node, ast.Import) and any(
                alias.name.split(".")[0] == "numba" for alias in node.names
            )
            found |= isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba")
            if found:
                users.add(path.relative_to(ROOT).as_posix())
    assert users == {"_core/jit.py"}
    assert not FLAGS & {"fast", "nnan", "ninf"}


@jit
def _classify(x: Any, out: Any) -> None:
    for k in range(x.size):
        out[k] = np.isinf(x[k]) + 2 * np.isnan(x[k]) + 4 * (x[k] < np.inf)


def test_infinity_and_nan_survive_compilation() -> None:
    x = np.array([1.0, np.inf, -np.inf, np.nan])
    out = np.empty(4)
    _classify(x, out)
    assert out.tolist() == [4.0, 1.0, 5.0, 2.0]


# --- no folder for the cache --------------------------------------------------------------------

BEGIN = """
import kernelweave, numpy as np
print(kernelweave.__file__)
y = np.repeat([-1.0, 1.0], 10)
X = np.random.default_rng(0).normal(size=(20, 2)) + y[:, None]
K = X.T[:, :, None] * X.T[:, None, :]
"""
FIT = 'print(kernelweave.learn(K, y, learner="uniform", tol=1e-3).gap <= 1e-3)'
PASS = "print(bool((kernelweave.KernelStack(K).quad_forms(y) > 0.0).all()))"


def run_copy(folder: Path, what: str, **environment: str) -> list[Path]:
    """Run FIT or PASS on a copy of the package; all files of compiled code in its ``folder``."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG", "PYTHON"))}
    env |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + what],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    file, right = done.stdout.splitlines()
    assert Path(file).is_relative_to(folder) and right == "True"
    return sorted(folder.rglob("*.nbc"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT, tmp_path / "kernelweave", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_import_and_fit_where_no_cache_folder_is_writable(copy: Path) -> None:
    """A file stands where each cache folder would go: even root cannot write there."""
    for folder in (copy / "kernelweave").rglob("*"):
        if folder.is_dir():
            (folder / "__pycache__").write_text("not a folder")
    (copy / "kernelweave" / "__pycache__").write_text("not a folder")
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache"}
    assert run_copy(copy, FIT, **nowhere) == []


def test_the_cache_is_used_where_there_is_one(copy: Path) -> None:
    files = run_copy(copy, PASS)
    before = {file: file.stat().st_ino for file in files}
    assert before and run_copy(copy, PASS) == files
    assert {file: file.stat().st_ino for file in files} == before  # read, not written again


def test_the_fallback_keeps_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    njit, cached = numba.njit, []

    def no_cache(**options: Any) -> Any:
        if options.get("cache"):
            cached.append(options)
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", no_cache)
    function = jit(lambda x: x + 1.0)
    assert function(1.0) == 2.0 and len(cached) == 1
    assert function.targetoptions["nogil"] is True
    assert set(function.targetoptions["fastmath"]) == FLAGS


# --- Ctrl-C -------------------------------------------------------------------------------------

INTERRUPTED = """
import signal, sys, time
import numpy as np
from kernelweave import KernelStack, learn

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it

rng = np.random.default_rng(0)
n = 1500
y = np.where(np.arange(n) < n // 2, 1.0, -1.0)
X = rng.standard_normal((n, 4)) + 0.05 * y[:, None]
squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
stack = KernelStack(np.stack([np.exp(-squares / w) for w in (5.0, 20.0)]), check=False)
small = stack.restrict(np.r_[:20, n - 20:n])
labels = np.repeat([1.0, -1.0], 20)
before = learn(small, labels, learner="simple")
print("started", flush=True)
try:
    learn(stack, y, C=1e5, learner="simple", tol=1e-9, n_jobs=2)
    print("finished")
except KeyboardInterrupt:
    print(time.time(), flush=True)
after = learn(small, labels, learner="simple", n_jobs=2)
print(bool((before.coef == after.coef).all() and before.gap == after.gap))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupt_during_learn() -> None:
    """Ctrl-C ends a fit of minutes soon, and what comes after is as if nothing had been."""
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        time.sleep(1.0)
        sent = time.time()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0, err
    stopped, usable = out.split()
    assert stopped != "finished"
    assert float(stopped) - sent < 10.0  # a fraction of a second, unless the machine is busy
    assert usable == "True"


# --- threads and forks --------------------------------------------------------------------------


def test_many_threads_learn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some on one stack, each with threads of its own."""
    monkeypatch.setattr(SETTINGS, "worth_threads", 0)
    problem = dense(0, n=40, m=4)
    stack = KernelStack(problem.K)

    def fit(C: float) -> Any:
        return learn(stack, problem.y, C=C, learner="simple", tol=1e-5, n_jobs=2)

    Cs = [0.1, 1.0, 10.0, 100.0] * 2
    expected = [fit(C) for C in Cs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fit, Cs))
    for one, other in zip(expected, found, strict=True):
        assert (one.coef == other.coef).all() and (one.weights == other.weights).all()
        assert one.gap == other.gap <= 1e-5


def _fit_in_a_child(queue: Any, K: np.ndarray, y: np.ndarray) -> None:
    queue.put(learn(K, y, learner="simple", tol=1e-4, n_jobs=2).coef)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system"
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_learn_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "worth_threads", 0)
    problem = dense(0, n=60, m=6)
    expected = learn(problem.K, problem.y, learner="simple", tol=1e-4, n_jobs=2).coef
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_fit_in_a_child, args=(queue, problem.K, problem.y))
    child.start()
    try:
        found = queue.get(timeout=60)
    finally:
        child.join(timeout=10)
        child.kill()
    assert (found == expected).all()


def test_inputs_are_left_alone() -> None:
    rng = np.random.default_rng(0)
    y = labels(rng, 30)
    K = np.stack([gaussian(points(rng, 30, 3, y), width) for width in (1.0, 3.0)])
    C, start = np.full(30, 2.0), np.array([1.0, 3.0])
    for array in (K, y, C, start):
        array.flags.writeable = False
    copies = [array.copy() for array in (K, y, C, start)]
    for learner in ("simple", "silp", "newton", "qcqp", "skm", "uniform"):
        learn(K, y, C=C, learner=learner, start=start, tol=1e-2)
    for array, before in zip((K, y, C, start), copies, strict=True):
        assert (array == before).all()


def test_numpy_random_state_and_error_settings_are_left_alone() -> None:
    problem = dense(0)
    state, settings = np.random.get_state()[1].copy(), np.geterr()  # noqa: NPY002
    learn(problem.K, problem.y, C=np.array(5.0), learner="simple")
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert np.geterr() == settings


@pytest.mark.parametrize("learner", ["newton", "simple", "silp", "alternate", "uniform", "radius"])
def test_a_fit_leaves_no_kernels_behind(learner: str) -> None:
    """Without the cycle collector, which seldom runs while few objects hold much memory."""
    problem = dense(3, n=12, m=3)
    stack = KernelStack(problem.K)
    gc.collect()
    gc.disable()
    try:
        before = sys.getrefcount(stack)
        learn(stack, problem.y, learner=learner)
        assert sys.getrefcount(stack) == before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "module", ["papers.lanckriet2004.bounds", "estimators.classifier", "estimators.transductive"]
)
def test_examples_of_docstrings(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"kernelweave.{module}"))
    assert found.attempted and not found.failed


# --- make quick ---------------------------------------------------------------------------------


def test_a_changed_file_names_its_tests() -> None:
    tree = ROOT.parents[1]
    spec = importlib.util.spec_from_file_location("quick", tree / ".ci" / "quick.py")
    quick = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(quick)
    for file, tests in {
        "kernels/graphs.py": ["tests/kernels/test_graphs.py"],
        "estimators/_fit.py": ["tests/estimators/test_fit.py"],
        "parameters/descent.py": ["tests/test_parameters.py"],
        "papers/rakoto2007/simple.py": ["tests/learners/test_learners.py"],
        "solving.py": [],  # the core that runs always
    }.items():
        assert quick.tests_of(f"src/kernelweave/{file}") == tests
    named = {*quick.CORE, *quick.ELSEWHERE.values()}
    assert not [test for test in named if not (tree / test).exists()]
