"""Classes of the user's own that model files may name, once they are registered."""

from __future__ import annotations

from typing import TypeVar

PREFIX = "own:"  # before their import paths, which might be names of kernelweave's classes
_CLASSES: dict[str, type] = {}  # by name in model files


Class = TypeVar("Class", bound=type)


def register(cls: Class) -> Class:
    """Let model files hold objects of a class of your own: a kernel, a learner or a loss.

    Call it both before saving a model and before loading it, in another process, too; it may be
    used as a decorator. A file names the class by its import path and holds attributes alone, no
    code: nothing is imported because a file says so.

    Examples
    --------
    >>> from kernelweave import Loss, io
    >>> @io.register
    ... class Absolute(Loss):
    ...     \"\"\"C Σ |y_i − f_i − b|.\"\"\"
    """
    if not isinstance(cls, type):
        raise TypeError(f"register takes a class, found {cls!r}: pass the class of the object")
    if "<locals>" in cls.__qualname__:
        raise ValueError(
            f"{_path(cls)} has no import path: define the class at the top of a module"
        )
    _CLASSES[PREFIX + _path(cls)] = cls
    return cls


def own_name(cls: type) -> str | None:
    """The name of a registered class in model files; None of others."""
    name = PREFIX + _path(cls)
    return name if _CLASSES.get(name) is cls else None


def own_class(name: str) -> type:
    """The registered class of that name."""
    if name not in _CLASSES:
        path = name.removeprefix(PREFIX)
        raise LookupError(
            f"it holds an object of {path!r}, a class that is not registered: import it, and call "
            f"kernelweave.io.register({path.rpartition('.')[2]}) before loading"
        )
    return _CLASSES[name]


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
