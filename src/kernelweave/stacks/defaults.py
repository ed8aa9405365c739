"""The optional part of the stack protocol, computed from ``n``, ``m`` and ``block``.

Nothing here holds more than a few hundred rows of one kernel at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_vector
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks.combined import BlockCombined
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.precision import Units, units_of
from kernelweave.stacks.protocol import FINER, OPTIONAL, CombinedKernel, Stack, is_stack
from kernelweave.stacks.rounding import fine_product

_ROWS = 256  # rows of a kernel at a time


class BlockStack:
    """Methods that a stack with ``n``, ``m`` and ``block`` has for free."""

    n: Any
    m: Any

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns; what a subclass has to define."""
        raise NotImplementedError(f"{type(self).__name__} has no block")

    @property
    def precision(self) -> np.dtype:
        """float64."""
        return np.dtype(np.float64)

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n)."""
        out = np.empty((self.m, self.n))
        for k in range(self.m):
            for rows in _pieces(np.arange(self.n), 32):
                out[k, rows] = np.diagonal(self.block(k, rows, rows))
        return out

    def traces(self) -> Array:
        """All tr K_k."""
        return self.diagonals().sum(axis=1)

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """vᵀK_k v for each of ``kernels``, from the rows where v is not zero."""
        x = check_vector("v", v, self.n, finite=False)
        support = np.flatnonzero(x)
        chosen = np.arange(self.m)[slice(None) if kernels is None else kernels]
        out = np.zeros(chosen.size)
        for place, k in enumerate(chosen):
            for rows in _pieces(support):
                out[place] += x[rows] @ (self.block(int(k), rows, support) @ x[support])
        return out

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k[rows] v for each of ``kernels``, from the columns where v is not zero."""
        x = check_vector("v", v, self.n, finite=False)
        support = np.flatnonzero(x)
        places = np.arange(self.n)[slice(None) if rows is None else rows]
        chosen = np.arange(self.m)[slice(None) if kernels is None else kernels]
        out = np.zeros((chosen.size, places.size))
        for place, k in enumerate(chosen):
            for first in range(0, places.size if support.size else 0, _ROWS):
                some = slice(first, first + _ROWS)
                out[place, some] = self.block(int(k), places[some], support) @ x[support]
        return out

    def combined(self, weights: ArrayLike) -> CombinedKernel:
        """K(d), by blocks."""
        return BlockCombined(self, check_vector("weights", weights, self.m, finite=False))

    def restrict(self, rows: Index) -> Stack:
        """A view of the same kernels on some of the points."""
        places = np.arange(self.n)[rows]
        whole = np.array_equal(places, np.arange(self.n))
        return self if whole else Part(self, places, np.arange(self.m))

    def select(self, kernels: Index) -> Stack:
        """A view of some of the kernels."""
        return Part(self, np.arange(self.n), np.arange(self.m)[kernels])

    def threaded(self, n_jobs: int | None) -> Stack:
        """The stack itself: it has no threads."""
        return self


class Completed(BlockStack):
    """An object that keeps part of the protocol, asked for what it has, else for its blocks."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped, self.n, self.m = wrapped, int(wrapped.n), int(wrapped.m)

    @property
    def precision(self) -> np.dtype:
        """That of the object, if it says so."""
        return np.dtype(getattr(self.wrapped, "precision", np.float64))

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """The object's own block."""
        return np.asarray(self.wrapped.block(kernel, rows, columns), dtype=float)

    def __getattribute__(self, name: str) -> Any:
        if name in OPTIONAL and name != "precision":
            wrapped = object.__getattribute__(self, "wrapped")
            if hasattr(wrapped, name):
                method = getattr(wrapped, name)
                return _completing(method) if name in _VIEWS else method
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name in FINER:
            return getattr(self.wrapped, name)
        raise AttributeError(f"{self.wrapped!r} has no {name}")

    def __repr__(self) -> str:
        return repr(self.wrapped)


_VIEWS = ("restrict", "select", "threaded")  # methods that hand out stacks


def _completing(method: Callable[[Any], Any]) -> Callable[[Any], Stack]:
    """The method, its result a whole stack."""
    return lambda argument: as_stack(method(argument))


class Part(BlockStack):
    """Some points and kernels of a stack, without a copy."""

    def __init__(self, stack: Stack, rows: Places, kernels: Places) -> None:
        self.stack = self.wrapped = stack
        self._rows, self._kernels = rows, kernels
        self.n, self.m = rows.size, kernels.size

    @property
    def precision(self) -> np.dtype:
        """That of the stack."""
        return self.stack.precision

    @property
    def units(self) -> Units:
        """Those of the stack."""
        return units_of(self.stack)

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns."""
        return self.stack.block(int(self._kernels[kernel]), self._rows[rows], self._rows[columns])

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w in the precision of ``w``, as the stack does it."""
        places = self._rows[rows], self._rows[support]
        return fine_product(self.stack, int(self._kernels[kernel]), *places, w)

    def diagonals(self) -> Array:
        """All diagonals."""
        return self.stack.diagonals()[np.ix_(self._kernels, self._rows)]


def as_stack(K: Any) -> Stack:
    """``K`` itself where it is a stack; the stack of an array, validated, where it is one."""
    if not is_stack(K):
        return KernelStack(K)
    return K if all(hasattr(K, name) for name in OPTIONAL) else Completed(K)


def matrices(stack: Stack) -> Iterator[Array]:
    """Each K_k in turn, as an array (n, n): for those who need whole matrices."""
    every = np.arange(stack.n)
    return (stack.block(k, every, every) for k in range(stack.m))


def _pieces(places: Places, size: int = _ROWS) -> list[Places]:
    return [places[start : start + size] for start in range(0, places.size, size)]
