"""What loads when: the numeric core is light, and heavy packages come only on use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kernelweave

ROOT = Path(kernelweave.__file__).parent
HEAVY = {"sklearn", "pandas", "matplotlib", "clarabel", "highspy", "cvxpy", "torch", "dask"}
HEAVY |= {"jinja2"}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


@pytest.mark.parametrize(
    "statement", ["import kernelweave", "from kernelweave import learn, KernelStack"]
)
def test_core_loads_no_heavy_package(statement):
    code = f"import sys; {statement}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_public_names_are_what_type_checkers_see():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if is_type_checking(node))
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert seen == {name: f"kernelweave.{home}" for name, home in kernelweave._HOME.items()}


@pytest.mark.parametrize("name", kernelweave.__all__)
def test_every_public_name_exists(name):
    assert name in dir(kernelweave)
    assert getattr(kernelweave, name) is not None


def test_unknown_name():
    with pytest.raises(AttributeError, match="'kernelweave' has no attribute 'MKLClasifier'"):
        kernelweave.MKLClasifier  # noqa: B018


def test_learner_classes_are_listed():
    from kernelweave import learners

    assert {"Newton", "Skm", "RadiusBound", "NAMES"} <= set(dir(learners))
    assert all(getattr(learners, name) is not None for name in dir(learners))
