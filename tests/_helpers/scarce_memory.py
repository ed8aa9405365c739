"""NumPy's memory, of which the k-th large piece cannot be had.

NumPy lets a process bring functions of its own for the data of arrays (NEP 49): those of the C
library, except that one request of ``LARGE`` bytes or more is refused. NumPy then raises
``MemoryError`` wherever that request came from. They are compiled: memory is freed while an
exception is on its way, which code in Python would lose.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, c_char, c_size_t, c_ubyte, c_void_p, py_object
from functools import cache
from typing import Any

import numba
import numpy as np
from numba.types import intp, void, voidptr

LARGE = 8 * 30 * 30  # bytes
_SET_HANDLER = 304  # place of PyDataMem_SetHandler in NumPy's table of functions, since 1.22
_NEVER = 2**62  # bytes that no library has
_counts = np.zeros(2, dtype=np.int64)  # large pieces seen, and the number of the one refused


class _Handler(Structure):
    _fields_ = (
        ("name", c_char * 127),
        ("version", c_ubyte),
        ("counts", c_void_p),
        ("functions", c_void_p * 4),
    )


def _library(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.CDLL(None), name)
    function.restype, function.argtypes = result, arguments
    return function


@cache
def _install() -> tuple[Callable[[Any], Any], Any, Any]:
    """NumPy's function that sets a handler, ours, and what has to outlive all arrays."""
    malloc = _library("malloc", c_void_p, c_size_t)
    calloc = _library("calloc", c_void_p, c_size_t, c_size_t)
    realloc = _library("realloc", c_void_p, c_void_p, c_size_t)
    free = _library("free", None, c_void_p)

    @numba.njit
    def granted(counts, size):  # type: ignore[no-untyped-def]
        seen = numba.carray(counts, 2, np.int64)
        if size >= LARGE:
            seen[0] += 1
        return _NEVER if size >= LARGE and seen[0] == seen[1] else size

    made = [
        numba.cfunc(kind)(function)
        for kind, function in (
            (voidptr(voidptr, intp), lambda counts, size: malloc(granted(counts, size))),
            (
                voidptr(voidptr, intp, intp),
                lambda counts, n, size: calloc(1, granted(counts, n * size)),
            ),
            (
                voidptr(voidptr, voidptr, intp),
                lambda counts, old, size: realloc(old, granted(counts, size)),
            ),
            (void(voidptr, voidptr, intp), lambda counts, old, size: free(old)),
        )
    ]
    places = (c_void_p * 4)(*(function.address for function in made))
    handler = _Handler(b"scarce", 1, _counts.ctypes.data, places)
    make, read = ctypes.pythonapi.PyCapsule_New, ctypes.pythonapi.PyCapsule_GetPointer
    make.restype, make.argtypes = py_object, [c_void_p, ctypes.c_char_p, c_void_p]
    read.restype, read.argtypes = c_void_p, [py_object, ctypes.c_char_p]
    capsule = make(ctypes.addressof(handler), b"mem_handler", None)
    table = ctypes.cast(read(np._core.multiarray._ARRAY_API, None), POINTER(c_void_p))
    install = ctypes.PYFUNCTYPE(py_object, py_object)(table[_SET_HANDLER])
    return install, capsule, (made, handler)


@contextmanager
def refusing(number: int) -> Iterator[Callable[[], int]]:
    """Refuse the large piece of this number; what it yields says how many were asked for."""
    install, capsule, _ = _install()
    _counts[:] = 0, number
    before = install(capsule)
    try:
        yield lambda: int(_counts[0])
    finally:
        install(before)
