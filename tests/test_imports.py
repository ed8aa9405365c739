"""What loads when: the numeric core is light, and heavy packages come only on use."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelweave

ROOT = Path(kernelweave.__file__).parent
HEAVY = {"sklearn", "pandas", "matplotlib", "clarabel", "highspy", "cvxpy", "torch", "dask"}
HEAVY |= {"jinja2"}
LIGHT = {f"inspection/{name}.py" for name in ("__init__", "alignment", "plotting")}
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(file: str, *, inside_functions: bool) -> Iterator[str]:
    """Absolute dotted names ``file`` imports at run time."""
    package = ["kernelweave", *Path(file).parent.parts]
    todo: list[ast.AST] = [ast.parse((ROOT / file).read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = [*base, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)
        if is_type_checking(node):
            todo.extend(node.orelse)
        elif inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            todo.extend(ast.iter_child_nodes(node))


def packages(file: str, *, inside_functions: bool) -> set[str]:
    return {name.split(".")[0] for name in imports(file, inside_functions=inside_functions)}


@pytest.mark.parametrize(
    "statement", ["import kernelweave", "from kernelweave import learn, KernelStack"]
)
def test_core_loads_no_heavy_package(statement):
    code = f"import sys; {statement}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("file", FILES)
def test_heavy_packages_load_on_use(file):
    mine = file.startswith(("estimators/", "inspection/")) and file not in LIGHT
    base_classes = {"sklearn"} if mine else set()
    assert packages(file, inside_functions=False) & HEAVY <= base_classes


@pytest.mark.parametrize("file", FILES)
def test_who_may_use_scikit_learn(file):
    named = {
        "inspection/_models.py",
        "io/datasets.py",
        "_cli/demo.py",
        "_cli/models.py",
        "_core/warnings.py",
    }  # the last: its warning class
    rooms = ("kernels/", "estimators/", "inspection/")
    adapters = file in named or (file.startswith(rooms) and file not in LIGHT)
    assert adapters or "sklearn" not in packages(file, inside_functions=True)


def test_outputs_see_only_results():
    for file in ("inspection/report.py", "inspection/plotting.py"):
        ours = [n for n in imports(file, inside_functions=True) if n.startswith("kernelweave.")]
        assert {name.split(".")[1] for name in ours} <= {
            "solution",
            "estimators",
            "inspection",
            "_core",
        }


# estimators reach the report that stands above them by this one door
DOORS = {"_cli/main.py", "estimators/_inspected.py"}


@pytest.mark.parametrize("file", sorted(set(FILES) - DOORS))
def test_no_way_round_the_layers(file):
    """The lazy names of the package itself are invisible to import-linter."""
    lazy = {"kernelweave", *(f"kernelweave.{name}" for name in kernelweave._HOME)}
    assert not lazy & set(imports(file, inside_functions=True))


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
