"""The code that makes a model anew: imports, and a call in which nothing is cut."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from typing import Any

from kernelweave.banks.bank import KernelBank
from kernelweave.learners import CLASSES

_CALL = re.compile(r"\b([A-Z]\w*)\(")
_NUMPY = re.compile(r"\bnp\.(?:float|int|bool|str)\w*\(([^()]*)\)")  # a number or word of NumPy's
_FOREIGN = "# Put in the functions and arrays that stand here by name only.\n"


def as_code(model: Any) -> str:
    """Lines to paste; parameters at their defaults are left out."""
    defaults = inspect.signature(type(model)).parameters
    lines = []
    for name, value in model.get_params(deep=False).items():
        text = _written(value, model)
        if text != repr(defaults[name].default):
            lines.append(f"    {name}={text},\n")
    kind = type(model).__name__
    call = f"{kind}(\n{''.join(lines)})" if lines else f"{kind}()"
    foreign = _FOREIGN if _is_foreign(call) else ""
    return f"{_imports(call)}\n{foreign}model = {call}"


def _written(value: Any, model: Any) -> str:
    if isinstance(value, KernelBank) and isinstance(value.views, Mapping):
        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
        views = {view: _columns(columns, names) for view, columns in value.views.items()}
        value = KernelBank(**{**value.get_params(deep=False), "views": views})
    return _NUMPY.sub(r"\1", repr(value))


def _columns(columns: Any, names: list[str]) -> Any:
    """Columns as a list, or as a wildcard where all that begin alike are meant."""
    if isinstance(columns, str | slice) or not hasattr(columns, "__len__") or not len(columns):
        return columns
    found = list(columns)
    view, joined, _ = str(found[0]).partition("__")
    alike = [name for name in names if name.startswith(f"{view}__")]
    return f"{view}__*" if joined and view.isidentifier() and found == alike else found


def _imports(call: str) -> str:
    used = dict.fromkeys(_CALL.findall(call))
    package = __name__.partition(".")[0]
    homes = {package: sys.modules[package].__all__, f"{package}.learners": CLASSES}
    found = {home: sorted(name for name in used if name in names) for home, names in homes.items()}
    return "\n".join(f"from {home} import {', '.join(ns)}" for home, ns in found.items() if ns)


def _is_foreign(call: str) -> bool:
    """Whether something has no text that makes it: a function, an array."""
    try:
        ast.parse(call)
    except SyntaxError:
        return True
    return "array(" in call
