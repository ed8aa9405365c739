"""Whether the attributes in a file are those that a class declares, and of the right types."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from kernelweave._core.params import Params

_KINDS: dict[Any, str] = {
    np.floating: "f",
    np.float64: "f",
    np.bool_: "b",
    np.intp: "iu",
    np.int64: "iu",
}


def completed(cls: Any, state: dict[str, Any]) -> dict[str, Any]:
    """``state``, with the defaults of what did not exist yet when a file was written."""
    arguments = inspect.signature(cls).parameters.values()
    defaults = {one.name: one.default for one in arguments if one.default is not one.empty}
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        if field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
    new = (_declared(cls).keys() & defaults.keys()) - state.keys()
    return state | {name: defaults[name] for name in sorted(new)}


def check_state(name: str, cls: Any, state: dict[str, Any]) -> None:
    """Raise TypeError unless ``state`` can be the attributes of an object of the class."""
    declared = _declared(cls)
    lacking = declared.keys() - state.keys()
    strange = state.keys() - declared.keys() if dataclasses.is_dataclass(cls) else set()
    if lacking or strange:
        what = f"lacks {min(lacking)!r}" if lacking else f"has no {min(strange)!r}"
        raise TypeError(f"{name} {what}")
    for key, hint in declared.items():
        if not _conforms(state[key], hint):
            raise TypeError(f"{name}.{key} has the wrong type, {type(state[key]).__name__}")
    words = state.get("vocabulary_")
    if words is not None and sorted(words.values()) != list(range(len(words))):
        raise ValueError(f"{name}: its words are not numbered")


def _declared(cls: Any) -> dict[str, Any]:
    """Attributes that every object of the class has, with the types that they may have."""
    if issubclass(cls, Params):
        return dict.fromkeys(cls._param_names(), Any)
    if dataclasses.is_dataclass(cls):
        hints = get_type_hints(cls)
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    if issubclass(cls, tuple):
        return get_type_hints(cls)
    names: list[str] | None = getattr(cls, "_get_param_names", lambda: None)()
    hints = get_type_hints(cls) if cls.__module__.startswith("kernelweave.") else {}
    if names is None:
        return hints
    fitted = getattr(cls, "_kept", ())
    return dict.fromkeys(names, Any) | {key: hints[key] for key in fitted if key in hints}


def _unwrapped(hint: Any) -> Any:
    """What a type that is declared by a ``type`` statement stands for, as numpy 2.5 has them."""
    alias = get_origin(hint) or hint
    if not hasattr(alias, "__value__"):
        return hint
    args = get_args(hint)
    return _unwrapped(alias.__value__[args] if args else alias.__value__)


def _conforms(value: Any, hint: Any) -> bool:
    hint = _unwrapped(hint)
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, str):
        return True
    if origin in (Union, UnionType):
        return any(_conforms(value, one) for one in args)
    if hint in (None, NoneType):
        return value is None
    if origin is np.ndarray:
        kinds = _KINDS.get(next(iter(get_args(args[1])), None))
        return isinstance(value, np.ndarray) and (kinds is None or value.dtype.kind in kinds)
    if origin is tuple:
        inner = args[0] if args[1:] == (...,) else Any
        return isinstance(value, tuple) and all(_conforms(item, inner) for item in value)
    if origin is not None:
        return isinstance(value, Mapping if issubclass(origin, Mapping) else origin)
    if getattr(hint, "_is_protocol", False):  # such as a stack, which no file holds
        return False
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)
