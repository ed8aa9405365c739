"""K(d) = Σ_k d_k K_k as solvers see it: from blocks on demand, or on some of the points.

BlockCombined     no array: each block is summed from the kernels' blocks
PartCombined      some points of another combined kernel

Arrays are in ``dense.py``, multiples plus a ridge in ``identity.py``, factors in ``factors.py``,
sums of different kinds in ``mixed.py``.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from kernelweave._core.blocks import blocks
from kernelweave._core.cached import cached_property
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import JITTER
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import frozen
from kernelweave.stacks.factor import JoinedFactor
from kernelweave.stacks.protocol import (
    CombinedKernel,
    Factor,
    KernelSolver,
    NotDense,
    ShiftedSolver,
    Stack,
)


class BaseCombined:
    """What a combined kernel has for free, from its blocks, its diagonal and products."""

    is_dense = False
    has_landmarks = False
    squeezes = False

    def rows(self: CombinedKernel, index: Index) -> Array:
        """Whole rows."""
        return self.block(index, np.arange(self.n))

    def dense(self) -> Array:
        """Refused: there is no n × n array."""
        raise NotDense("there is no n × n matrix of this kernel: ask for rows or blocks")

    def factor(self) -> tuple[Factor, float] | None:
        """None: no factor is known."""
        return None

    def quick_product(self: CombinedKernel, V: Array, accuracy: float) -> Array:
        """The product, as exactly as others."""
        return self @ V

    def products_at(self: CombinedKernel, rows: Places, v: Array) -> Array:
        """Some rows of K(d)v."""
        found: Array = (self @ v)[rows]
        return found

    def landmark_factor(self: CombinedKernel, rank: int, seed: int = 0) -> tuple[Factor, Array]:
        """F with FFᵀ = K[:, L] K[L, L]⁻¹ K[L, :] on ``rank`` rows L drawn at random, and the rest.

        That is K_ii − (FFᵀ)_ii.
        """
        places = np.sort(np.random.default_rng(seed).permutation(self.n)[:rank])
        at = self.block(places, places)
        at = 0.5 * (at + at.T)
        at[np.diag_indices_from(at)] += JITTER * float(np.abs(np.diagonal(at)).mean())
        L = np.linalg.cholesky(at)
        F = np.empty((places.size, self.n))
        for some in blocks(self.n, places.size, SETTINGS.computed):
            columns = self.block(places, np.arange(some.start, some.stop))
            F[:, some] = solve_triangular(L, columns, lower=True, check_finite=False)
        diagonal = self.diagonal()
        rest = np.maximum(diagonal - np.einsum("ri,ri->i", F, F), JITTER * np.abs(diagonal))
        return JoinedFactor([F], np.ones(places.size)), rest

    def shifted(
        self, rows: Places, D: Array, low: tuple[Factor, Array], accuracy: float
    ) -> ShiftedSolver | None:
        """None: products serve."""
        return None

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """None: who needs the matrix asks for the block."""
        return None

    def squeezed(
        self, rows: Places, ridges: Array, soft: float, products: Any
    ) -> tuple[Array, Array, Array] | None:
        """None: rows are where they are asked for."""
        return None

    def restrict(self: CombinedKernel, rows: Places) -> CombinedKernel:
        """A view of some of the points."""
        return PartCombined(self, rows)


class BlockCombined(BaseCombined):
    """K(d) by blocks of the kernels with a weight; nothing is kept."""

    def __init__(self, stack: Stack, weights: Array) -> None:
        self.stack, self.weights = stack, weights
        self._active = np.flatnonzero(weights)

    n = property(attrgetter("stack.n"), doc="Number of points.")

    def dense(self) -> Array:
        """Refused: this stack has no n × n array."""
        raise NotDense(
            f"{self.stack.name} computes its kernels on demand and holds no n × n matrix: ask for "
            "rows or blocks"
        )

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return self.weights[self._active] @ self.stack.diagonals()[self._active]

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        rows, columns = np.arange(self.n)[rows], np.arange(self.n)[columns]
        total = np.zeros((rows.size, columns.size))
        for k in self._active:
            total += self.weights[k] * self.stack.block(int(k), rows, columns)
        return total

    def __matmul__(self, v: Array) -> Array:
        return self.products_at(None, v)

    def products_at(self, rows: Places | None, v: Array) -> Array:
        """Some rows of K(d)v, or all: kernels are asked for one vector at a time."""
        if v.ndim == 2:
            return np.column_stack([self.products_at(rows, column) for column in v.T])
        if not self._active.size:
            return np.zeros(self.n if rows is None else rows.size)
        return self.weights[self._active] @ self.stack.matvecs(v, rows, self._active)


class PartCombined(BaseCombined):
    """Some points of another combined kernel, without a copy; points may come twice."""

    def __init__(self, kernel: CombinedKernel, rows: Places) -> None:
        self.kernel, self.n = kernel, rows.size
        self._rows = rows
        self._once = np.unique(rows).size == rows.size

    is_dense = property(attrgetter("kernel.is_dense"), doc="As the whole kernel.")

    def dense(self) -> Array:
        """The array, read-only."""
        return self._dense

    @cached_property
    def _dense(self) -> Array:
        return frozen(self.kernel.dense()[np.ix_(self._rows, self._rows)])

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return self.kernel.diagonal()[self._rows]

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        return self.kernel.block(self._rows[rows], self._rows[columns])

    def __matmul__(self, v: Array) -> Array:
        return self.kernel.products_at(self._rows, spread(v, self._rows, self.kernel.n))

    def quick_product(self, V: Array, accuracy: float) -> Array:
        """That of the whole kernel, at these points."""
        whole = spread(V, self._rows, self.kernel.n)
        return self.kernel.quick_product(whole, accuracy)[self._rows]

    def factor(self) -> tuple[Factor, float] | None:
        """These rows of the whole factor; a ridge is each point's own."""
        found = self.kernel.factor()
        if found is None or (found[1] != 0.0 and not self._once):
            return None
        return found[0].take(self._rows), found[1]

    has_landmarks = property(attrgetter("kernel.has_landmarks"), doc="As the whole kernel.")

    def landmark_factor(self, rank: int, seed: int = 0) -> tuple[Factor, Array]:
        """These rows of the whole one, whose landmarks may be other points."""
        F, rest = self.kernel.landmark_factor(rank, seed)
        return F.take(self._rows), rest[self._rows]

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """That of the whole kernel."""
        return self.kernel.solver(self._rows[rows], ridge)


def spread(v: Array, rows: Places, n: int) -> Array:
    """Values of some of n rows as values of all: 0 elsewhere, added up where a row comes twice."""
    whole = np.zeros((n, *v.shape[1:]))
    np.add.at(whole, rows, v)
    return whole
