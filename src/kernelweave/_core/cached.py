"""A cached property that takes no lock.

That of ``functools`` holds one lock per class while it computes, up to Python 3.11: a fork during a
fit would leave it locked for ever. Two threads may compute a value twice; both get the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class cached_property(Generic[Value]):
    """Computed at the first look, and kept in the object's ``__dict__``."""

    def __init__(self, method: Callable[[Any], Value]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> cached_property[Value] | Value:
        if instance is None:
            return self
        value = self.method(instance)
        instance.__dict__[self.name] = value
        return value
