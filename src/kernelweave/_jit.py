"""One decorator for every compiled loop of the package.

Compiled code is cached on disk where some cache folder is writable and kept in memory where
none is. Loops release the interpreter lock. Sums may be reordered and fused (so that they
vectorise); nothing assumes finite numbers, because bounds and masks are often infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

FLAGS = frozenset({"reassoc", "contract", "arcp", "nsz"})


def jit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on its first call, without the interpreter lock."""
    options: dict[str, Any] = {"nogil": True, "fastmath": set(FLAGS), "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no writable folder for its cache
        return numba.njit(**options)(function)
