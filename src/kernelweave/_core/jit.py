"""One decorator for every compiled loop of the package.

Compiled code is cached on disk where some cache folder is writable and kept in memory where
none is. Loops release the interpreter lock. Nothing assumes finite numbers, because bounds and
masks are often infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

FLAGS = frozenset({"reassoc", "contract", "arcp", "nsz"})
ORDERED = FLAGS - {"reassoc"}


def jit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on its first call; its sums may be reordered, so that they vectorise."""
    return _compile(function, FLAGS)


def ordered_jit(function: Callable[..., Any]) -> Any:
    """The same with sums in the order written.

    For loops that both sum and store: their vector and scalar forms round differently, and which
    one runs depends on where the arrays lie in memory.
    """
    return _compile(function, ORDERED)


def _compile(function: Callable[..., Any], flags: frozenset[str]) -> Any:
    options: dict[str, Any] = {"nogil": True, "fastmath": set(flags), "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no writable folder for its cache
        return numba.njit(**options)(function)
