"""The code that makes a model anew: imports, and a call in which nothing is cut."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kernelweave.banks.bank import KernelBank
from kernelweave.learners.base import CLASSES

_CALL = re.compile(r"\b([A-Z]\w*)\(")
_NUMPY = re.compile(r"\bnp\.(?:float|int|bool|str)\w*\(([^()]*)\)")  # a number or word of NumPy's
_FOREIGN = "# Import or put in what stands here by name only.\n"


def as_code(model: Any) -> str:
    """Lines to paste; parameters at their defaults are left out."""
    defaults = inspect.signature(type(model)).parameters
    lines = []
    for name, value in model.get_params(deep=False).items():
        if name == "views" and isinstance(value, Mapping):
            value = _named(value, model)
        text = _written(value, model)
        if text != repr(defaults[name].default):
            lines.append(f"    {name}={text},\n")
    kind = type(model).__name__
    call = f"{kind}(\n{''.join(lines)})" if lines else f"{kind}()"
    used = _used(call)
    homes = _homes()
    known = {name for names in homes.values() for name in names} | set(dir(builtins))
    foreign = _FOREIGN if used is None or used - known else ""
    return f"{_imports(used or set(_CALL.findall(call)), homes)}\n{foreign}model = {call}"


def _written(value: Any, model: Any) -> str:
    if isinstance(value, KernelBank) and isinstance(value.views, Mapping):
        value = KernelBank(**{**value.get_params(deep=False), "views": _named(value.views, model)})
    with np.printoptions(threshold=sys.maxsize):
        return _NUMPY.sub(r"\1", repr(value))


def _named(views: Mapping[Any, Any], model: Any) -> dict[Any, Any]:
    """Views with columns as a user writes them."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    return {view: _columns(columns, names) for view, columns in views.items()}


def _columns(columns: Any, names: list[str]) -> Any:
    """Columns as a list, or as a wildcard where all that begin alike are meant."""
    if isinstance(columns, str | slice) or not hasattr(columns, "__len__") or not len(columns):
        return columns
    found = list(columns)
    view, joined, _ = str(found[0]).partition("__")
    alike = [name for name in names if name.startswith(f"{view}__")]
    return f"{view}__*" if joined and view.isidentifier() and found == alike else found


def _homes() -> dict[str, Iterable[str]]:
    """Where the names of a call may be imported from."""
    package = __name__.partition(".")[0]
    names = sys.modules[package].__all__
    return {package: names, f"{package}.learners": CLASSES, "math": ("inf", "nan")}


def _imports(used: set[str], homes: dict[str, Iterable[str]]) -> str:
    found = {home: sorted(used.intersection(names)) for home, names in homes.items()}
    return "\n".join(f"from {home} import {', '.join(ns)}" for home, ns in found.items() if ns)


def _used(call: str) -> set[str] | None:
    """The names that the code reads; None where something has no text that makes it."""
    try:
        tree = ast.parse(call)
    except SyntaxError:
        return None
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
