"""The optional part of the stack protocol, computed from ``n``, ``m`` and ``block``.

Nothing here holds more than a few hundred rows of one kernel at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import as_places, check_vector
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks.combined import BlockCombined, spread
from kernelweave.stacks.protocol import CombinedKernel, Stack
from kernelweave.stacks.rounding import PlainSums


class BlockStack(PlainSums):
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
        chosen = as_places(kernels, self.m, "kernels")
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
        places = as_places(rows, self.n, "rows")
        chosen = as_places(kernels, self.m, "kernels")
        out = np.zeros((chosen.size, places.size))
        for place, k in enumerate(chosen):
            for first in range(0, places.size if support.size else 0, SETTINGS.rows):
                some = slice(first, first + SETTINGS.rows)
                out[place, some] = self.block(int(k), places[some], support) @ x[support]
        return out

    def combined(self, weights: ArrayLike) -> CombinedKernel:
        """K(d), by blocks."""
        return BlockCombined(self, check_vector("weights", weights, self.m, finite=False))

    def restrict(self, rows: Index) -> Stack:
        """A view of the same kernels on some of the points."""
        places = as_places(rows, self.n, "rows", empty=False)
        whole = np.array_equal(places, np.arange(self.n))
        return self if whole else Part(self, places, np.arange(self.m))

    def select(self, kernels: Index) -> Stack:
        """A view of some of the kernels."""
        return Part(self, np.arange(self.n), as_places(kernels, self.m, "kernels", empty=False))

    def threaded(self, n_jobs: int | None) -> Stack:
        """The stack itself: it has no threads."""
        return self


class Part(BlockStack):
    """Some points and kernels of a stack, which is asked for all of it; points may come twice."""

    def __init__(self, stack: Stack, rows: Places, kernels: Places) -> None:
        self.stack = stack
        self._rows, self._kernels = rows, kernels
        self._has_all_rows = np.array_equal(rows, np.arange(stack.n))
        self.n, self.m = rows.size, kernels.size

    name = property(attrgetter("stack.name"), doc="That of the stack.")
    precision = property(attrgetter("stack.precision"), doc="That of the stack.")
    units = property(attrgetter("stack.units"), doc="Those of the stack.")

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns."""
        return self.stack.block(int(self._kernels[kernel]), self._rows[rows], self._rows[columns])

    def diagonals(self) -> Array:
        """All diagonals."""
        return self.stack.diagonals()[np.ix_(self._kernels, self._rows)]

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """vᵀK_k v for each of ``kernels``."""
        chosen = self._kernels[as_places(kernels, self.m, "kernels")]
        return self.stack.quad_forms(self._spread(v), chosen)

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k[rows] v for each of ``kernels``."""
        chosen = self._kernels[as_places(kernels, self.m, "kernels")]
        places = None  # all of the stack
        if rows is not None or not self._has_all_rows:
            places = self._rows[as_places(rows, self.n, "rows")]
        return self.stack.matvecs(self._spread(v), places, chosen)

    def expect(self, vectors: Sequence[Array]) -> None:
        """The stack is told."""
        self.stack.expect([self._spread(v) for v in vectors])

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w in the precision of ``w``, as the stack does it."""
        places = self._rows[rows], self._rows[support]
        return self.stack.fine_product(int(self._kernels[kernel]), *places, w)

    def fine_products(
        self, kernels: Places, rows: Places, support: Places, w: np.ndarray
    ) -> np.ndarray:
        """The same of several kernels."""
        places = self._rows[rows], self._rows[support]
        return self.stack.fine_products(self._kernels[kernels], *places, w)

    def combined(self, weights: ArrayLike) -> CombinedKernel:
        """These points of the combined kernel of the stack."""
        w = check_vector("weights", weights, self.m, finite=False)
        K = self.stack.combined(spread(w, self._kernels, self.stack.m))
        return K if self._has_all_rows else K.restrict(self._rows)

    def threaded(self, n_jobs: int | None) -> Part:
        """The same, with threads for the stack."""
        return Part(self.stack.threaded(n_jobs), self._rows, self._kernels)

    def finer(self) -> Part | None:
        """The same of a finer stack."""
        stack = self.stack.finer()
        return None if stack is None else Part(stack, self._rows, self._kernels)

    def _spread(self, v: ArrayLike) -> Array:
        """A vector over all points of the stack."""
        x = check_vector("v", v, self.n, finite=False)
        return x if self._has_all_rows else spread(x, self._rows, self.stack.n)


def matrices(stack: Stack) -> Iterator[Array]:
    """Each K_k in turn, as an array (n, n): for those who need whole matrices."""
    every = np.arange(stack.n)
    return (stack.block(k, every, every) for k in range(stack.m))


def _pieces(places: Places, size: int | None = None) -> list[Places]:
    size = size or SETTINGS.rows
    return [places[start : start + size] for start in range(0, places.size, size)]
