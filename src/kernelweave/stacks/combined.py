"""K(d) = Σ_k d_k K_k as solvers see it: as an array, from blocks on demand, or changed.

DenseCombined     one n × n array
BlockCombined     no array: each block is summed from the kernels' blocks
Changed           a multiple of another combined kernel, plus a ridge
PartCombined      some points of another combined kernel

Those of factors are in ``factors.py``, sums of different kinds in ``mixed.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from kernelweave._core.blocks import blocks
from kernelweave._core.cached import cached_property
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import JITTER
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import add_rows
from kernelweave.stacks.factor import JoinedFactor, beside
from kernelweave.stacks.protocol import (
    CombinedKernel,
    Factor,
    KernelSolver,
    NotDense,
    ShiftedSolver,
    Stack,
)
from kernelweave.stacks.validation import frozen


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


@dataclass(frozen=True)
class CholeskySolver:
    """Systems with A = LLᵀ on the host."""

    L: Array

    @classmethod
    def of(cls, A: Array, ridge: float | Array) -> CholeskySolver | None:
        """Those with A + diag(ridge), in the place of A; None where that is not definite."""
        A[np.diag_indices_from(A)] += ridge
        try:
            return cls(cholesky(A, lower=True, overwrite_a=True, check_finite=False))
        except LinAlgError:
            return None

    def solve(self, B: Array) -> Array:
        """A⁻¹B."""
        return np.asarray(cho_solve((self.L, True), B, check_finite=False))

    def half(self, B: Array) -> Array:
        """L⁻¹B."""
        return np.asarray(solve_triangular(self.L, B, lower=True, check_finite=False))


class DenseCombined(BaseCombined):
    """K(d) as one n × n array, read-only; ``low`` is the factor that it was written out from."""

    is_dense = True

    def __init__(self, K: Array, low: tuple[Factor, float] | None = None) -> None:
        self._K, self._low, self.n = K, low, len(K)

    def dense(self) -> Array:
        """The array, read-only."""
        return self._K

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return np.array(np.diagonal(self._K), dtype=float)

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        every = np.arange(self.n)
        return self._K[np.ix_(every[rows], every[columns])].astype(float, copy=False)

    def __matmul__(self, v: Array) -> Array:
        if self._K.dtype == np.float64:
            return self._K @ v
        out = np.zeros(v.shape)
        for column, total in zip(np.atleast_2d(v.T), np.atleast_2d(out.T), strict=True):
            sums = np.zeros(self.n)
            add_rows(self._K, np.arange(self.n), np.ascontiguousarray(column), sums)
            total[:] = sums
        return out

    def factor(self) -> tuple[Factor, float] | None:
        """The factor that it was written out from, if there is one."""
        return self._low

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """Cholesky's factor of these rows and columns."""
        return CholeskySolver.of(self.block(rows, rows), ridge)


class BlockCombined(BaseCombined):
    """K(d) by blocks of the kernels with a weight; nothing is kept."""

    def __init__(self, stack: Stack, weights: Array) -> None:
        self.stack, self.weights = stack, weights
        self._active = np.flatnonzero(weights)

    @property
    def n(self) -> int:
        """Number of points."""
        return self.stack.n

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


class Changed(BaseCombined):
    """tK(d) + τI, a multiple of another combined kernel plus a ridge."""

    def __init__(self, kernel: CombinedKernel, times: float = 1.0, ridge: float = 0.0) -> None:
        self.kernel, self.times, self.ridge = kernel, times, ridge

    @property
    def n(self) -> int:
        """Number of points."""
        return self.kernel.n

    @property
    def is_dense(self) -> bool:  # type: ignore[override]
        """As the kernel that is changed."""
        return self.kernel.is_dense

    def dense(self) -> Array:
        """The array, read-only; that of the kernel itself where nothing is changed."""
        return self._dense

    @cached_property
    def _dense(self) -> Array:
        total = self.kernel.dense()
        if (self.times, self.ridge) == (1.0, 0.0):
            return total
        total = np.multiply(self.times, total, dtype=float)
        total[np.diag_indices(self.n)] += self.ridge
        return frozen(total)

    def diagonal(self) -> Array:
        """All tK(d)_ii + τ."""
        return self.times * self.kernel.diagonal() + self.ridge

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        rows, columns = np.arange(self.n)[rows], np.arange(self.n)[columns]
        same = rows[:, None] == columns
        return self.times * self.kernel.block(rows, columns) + self.ridge * same

    def __matmul__(self, v: Array) -> Array:
        return self.times * (self.kernel @ v) + self.ridge * v

    def quick_product(self, V: Array, accuracy: float) -> Array:
        """That of the kernel, changed."""
        return self.times * self.kernel.quick_product(V, accuracy) + self.ridge * V

    def factor(self) -> tuple[Factor, float] | None:
        """The factor, where the kernel has one and the multiple is not negative."""
        found = self.kernel.factor()
        if found is None or self.times < 0.0:
            return None
        return beside([found[0]], [math.sqrt(self.times)]), self.times * found[1] + self.ridge

    @property
    def has_landmarks(self) -> bool:  # type: ignore[override]
        """As the kernel, where the multiple is not negative."""
        return self.times >= 0.0 and self.kernel.has_landmarks

    def landmark_factor(self, rank: int, seed: int = 0) -> tuple[Factor, Array]:
        """That of the kernel, the ridge among what it leaves."""
        if not self.has_landmarks:
            return super().landmark_factor(rank, seed)
        F, rest = self.kernel.landmark_factor(rank, seed)
        return beside([F], [math.sqrt(self.times)]), self.times * rest + self.ridge

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """That of the array itself, or of the kernel: tK + τ + ρ = t(K + (τ + ρ)/t)."""
        if self.is_dense:  # no root of t: what has no unit keeps its digits in every unit
            return CholeskySolver.of(self.block(rows, rows), ridge)
        if not self.times > 0.0:
            return None
        found = self.kernel.solver(rows, (ridge + self.ridge) / self.times)
        return None if found is None else _SolverOfMultiple(found, self.times)

    @property
    def squeezes(self) -> bool:  # type: ignore[override]
        """As the kernel that is changed."""
        return self.kernel.squeezes

    def squeezed(
        self, rows: Places, ridges: Array, soft: float, products: Any
    ) -> tuple[Array, Array, Array] | None:
        """Those of the kernel under D/t: the roots of t go where they belong."""
        if not self.times > 0.0:
            return None
        own = (ridges + (1.0 + soft) * self.ridge) / self.times
        found = self.kernel.squeezed(rows, own, soft, products)
        root = math.sqrt(self.times)
        return None if found is None else (found[0], found[1] / root, found[2] / root)


class _SolverOfMultiple:
    """Systems with tA, by those with A."""

    def __init__(self, solver: KernelSolver, times: float) -> None:
        self._solver, self._times = solver, times

    def solve(self, B: Array) -> Array:
        """(tA)⁻¹B."""
        return self._solver.solve(B) / self._times

    def half(self, B: Array) -> Array:
        """M/√t times B."""
        return self._solver.half(B) / math.sqrt(self._times)


class PartCombined(BaseCombined):
    """Some points of another combined kernel, without a copy; points may come twice."""

    def __init__(self, kernel: CombinedKernel, rows: Places) -> None:
        self.kernel, self.n = kernel, rows.size
        self._rows = rows
        self._once = np.unique(rows).size == rows.size

    @property
    def is_dense(self) -> bool:  # type: ignore[override]
        """As the whole kernel."""
        return self.kernel.is_dense

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

    @property
    def has_landmarks(self) -> bool:  # type: ignore[override]
        """As the whole kernel."""
        return self.kernel.has_landmarks

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
