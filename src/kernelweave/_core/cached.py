"""A cached property that takes no lock.

That of ``functools`` holds one lock per class while it computes, up to Python 3.11: a fork during a
fit would leave it locked for ever. Two threads may compute a value twice; both get the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

Value = TypeVar("Value")


class cached_property(functools.cached_property[Value]):
    """Computed at the first look, and kept in the object's ``__dict__``."""

    def __init__(self, method: Callable[[Any], Value]) -> None:
        super().__init__(method)
        self.lock = nullcontext()
