"""Import rules that import-linter cannot state, and sizes and names; tells what breaks them.

    python .ci/import_rules.py

- Heavy packages are imported inside the functions that need them; scikit-learn's base classes are
  the exception, in ``estimators/`` and ``inspection/``, and PyTorch in ``torch_*.py`` of stacks
  and banks; these are imported inside functions themselves, all but ``torch_storage.py``.
- scikit-learn is used by adapters only.
- Text and plots of results see results only.
- Nobody imports the lazy names of the package itself, which would go round the layers.
- Outside ``tests/benchmarks`` no test imports from ``benchmarks/``, and none sets a constant of a
  module: sizes are arguments, or attributes of ``kernelweave._core.settings.SETTINGS``.
- A file has at most 400 lines, a function 60 beside its docstring, and a class a name of its own.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
ROOT = TREE / "src" / "kernelweave"
HEAVY = {"sklearn", "pandas", "matplotlib", "clarabel", "highspy", "cvxpy", "torch", "dask"}
HEAVY |= {"distributed", "jinja2", "triton"}
PATCHED = re.compile(r"""setattr\((?!numba)[^"']*["'][^"']*?(\b_?[A-Z][A-Z_]+)["']""")
ON_DEVICE = re.compile(r"(stacks|banks)/torch_(?!storage)")
LIGHT = {f"inspection/{name}.py" for name in ("__init__", "alignment", "plotting")}
ADAPTERS = {"inspection/_models.py", "io/datasets.py", "_cli/demo.py", "_cli/models.py"}
ADAPTERS |= {"_core/warnings.py"}  # its warning class
SHOWN = {"inspection/report.py", "inspection/plotting.py"}
LINES, STATEMENTS = 400, 60  # of a file, and of a function without its docstring
SEEN = {"solution", "estimators", "inspection", "_core"}
# estimators reach the report that stands above them by one door
DOORS = {"_cli/main.py", "estimators/_base.py"}


def is_type_checking(node: ast.AST) -> bool:
    """Whether what stands below is for type checkers only."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(path: Path, package: list[str], *, inside_functions: bool) -> Iterator[str]:
    """Absolute dotted names that a file of ``package`` imports at run time."""
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
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


def lazy_names() -> set[str]:
    """Public names, as the package's own file lists them."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if is_type_checking(node))
    names = {alias.asname for node in block.body for alias in node.names}
    return {"kernelweave", *(f"kernelweave.{name}" for name in names)}


def breaches() -> Iterator[str]:
    """One line for each import that breaks a rule."""
    lazy = lazy_names()
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        package = ["kernelweave", *Path(file).parent.parts]
        everywhere = set(imports(path, package, inside_functions=True))
        first = set(imports(path, package, inside_functions=False))
        at_once = {name.split(".")[0] for name in first}
        shell = file.startswith(("estimators/", "inspection/")) and file not in LIGHT
        on_device = ON_DEVICE.match(file) is not None
        allowed = {"sklearn"} if shell else {"torch", "triton"} if on_device else set()
        there = [name for name in first if ON_DEVICE.match(name[12:].replace(".", "/"))]
        if not on_device and there:
            yield f"{file}: import {there[0]} inside the function that needs it"
        for name in sorted(at_once & HEAVY - allowed):
            yield f"{file}: import {name} inside the function that needs it"
        adapter = shell or file.startswith("kernels/") or file in ADAPTERS
        if not adapter and any(name.split(".")[0] == "sklearn" for name in everywhere):
            yield f"{file}: scikit-learn is for adapters"
        ours = {name.split(".")[1] for name in everywhere if name.startswith("kernelweave.")}
        if file in SHOWN and ours - SEEN:
            yield f"{file}: shows results, and may not see {', '.join(sorted(ours - SEEN))}"
        for name in sorted(everywhere & lazy if file not in DOORS else set()):
            yield f"{file}: import {name} from where it is defined, not from the package itself"
    for path in sorted((TREE / "tests").rglob("*.py")):
        file = path.relative_to(TREE).as_posix()
        named = imports(path, [], inside_functions=True)
        if not file.startswith("tests/benchmarks/") and any(
            name.split(".")[0] == "benchmarks" for name in named
        ):
            yield f"{file}: what tests need of benchmarks/ belongs in tests/_helpers"
        for name in PATCHED.findall(path.read_text(encoding="utf-8")):
            yield f"{file}: sets {name}; sizes are in kernelweave._core.settings"


def sizes() -> Iterator[str]:
    """One line for each file or function that is too long, and each class name used twice."""
    classes: dict[str, str] = {}
    for path in sorted(ROOT.rglob("*.py")):
        file, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if len(text.splitlines()) > LINES:
            yield f"{file}: has more than {LINES} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                first = classes.setdefault(node.name, file)
                if first != file:
                    yield f"{file}: class {node.name} is another one in {first}"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                told = node.body[0] if ast.get_docstring(node) else None
                own = 0 if told is None else told.end_lineno - told.lineno + 1
                if node.end_lineno - node.lineno + 1 - own > STATEMENTS:
                    yield f"{file}: {node.name} has more than {STATEMENTS} lines"


if __name__ == "__main__":
    found = [*breaches(), *sizes()]
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
