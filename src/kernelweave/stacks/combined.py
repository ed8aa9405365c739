"""K(d) = Σ_k d_k K_k as solvers see it: as an array, from blocks on demand, or changed.

DenseCombined     one n × n array
BlockCombined     no array: each block is summed from the kernels' blocks
FactorCombined    no array: one factor, a number for each of its columns
SumCombined       the sum of combined kernels of different kinds
Changed           a multiple of another combined kernel, plus a ridge
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from kernelweave._core.cached import cached_property
from kernelweave._core.types import Array, Index
from kernelweave.stacks.factor import Factor
from kernelweave.stacks.protocol import CombinedKernel, NotDense, Stack, stack_name
from kernelweave.stacks.validation import frozen


class _Rows:
    """Whole rows, which are blocks of all columns."""

    def rows(self: CombinedKernel, index: Index) -> Array:
        """Whole rows."""
        return self.block(index, slice(None))


class DenseCombined(_Rows):
    """K(d) as one n × n array, read-only; ``low`` is the factor that it was written out from."""

    is_dense = True

    def __init__(self, K: Array, low: tuple[Factor, float] | None = None) -> None:
        self._K, self._low = K, low

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self._K)

    def dense(self) -> Array:
        """The array, read-only."""
        return self._K

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return np.ascontiguousarray(np.diagonal(self._K))

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        every = np.arange(self.n)
        return self._K[np.ix_(every[rows], every[columns])]

    def __matmul__(self, v: Array) -> Array:
        return self._K @ v

    def factor(self) -> tuple[Factor, float] | None:
        """The factor that it was written out from, if there is one."""
        return self._low


class BlockCombined(_Rows):
    """K(d) by blocks of the kernels with a weight; nothing is kept."""

    is_dense = False

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
            f"{stack_name(self.stack)} computes its kernels on demand and holds no n × n "
            "matrix: ask for rows or blocks"
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
        if v.ndim == 2:  # kernels on demand are asked for one vector at a time
            return np.column_stack([self @ column for column in v.T])
        if not self._active.size:
            return np.zeros(self.n)
        return self.weights[self._active] @ self.stack.matvecs(v, kernels=self._active)

    def factor(self) -> tuple[Factor, float] | None:
        """None: blocks are no factors."""
        return None


class FactorCombined(_Rows):
    """K(d) = G diag(w) Gᵀ; G (n, R) holds the factors of the kernels with a weight."""

    is_dense = False

    def __init__(self, G: Factor, w: Array) -> None:
        self._G, self._w = G, w

    @property
    def n(self) -> int:
        """Number of points."""
        return self._G.shape[0]

    def dense(self) -> Array:
        """Refused: factors are kept, no array."""
        raise NotDense("factors are kept, no n × n matrix: ask for rows or blocks")

    def written_out(self) -> Array:
        """The array, for those who know that they can afford it; exactly symmetric."""
        G = self._G.array()
        total = (self._w * G) @ G.T
        return 0.5 * (total + total.T)

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        found = self.factor()
        if found is not None:
            return found[0].sizes()
        return np.einsum("r,ir,ir->i", self._w, *(self._G.array(),) * 2)

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        return np.asarray((self._w * self._G.array(rows)) @ self._G.array(columns).T)

    def __matmul__(self, v: Array) -> Array:
        onto = self._G.onto(v)
        return self._G.times((self._w if v.ndim == 1 else self._w[:, None]) * onto)

    def factor(self) -> tuple[Factor, float] | None:
        """F = G diag(w)^½; None where a weight is negative."""
        return self._found

    @cached_property
    def _found(self) -> tuple[Factor, float] | None:
        if self._w.size and self._w.min() < 0.0:
            return None
        return Factor(self._G.parts, np.sqrt(self._w) * self._G.scale), 0.0


class SumCombined(_Rows):
    """The sum of combined kernels of different kinds, none of them written out."""

    is_dense = False

    def __init__(self, parts: Sequence[CombinedKernel]) -> None:
        self._parts = parts

    @property
    def n(self) -> int:
        """Number of points."""
        return self._parts[0].n

    def dense(self) -> Array:
        """Refused: some part has no array."""
        raise NotDense("some kernels have no n × n matrix: ask for rows or blocks")

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return np.sum([part.diagonal() for part in self._parts], axis=0)

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        total = np.array(self._parts[0].block(rows, columns), dtype=float)
        for part in self._parts[1:]:
            total += part.block(rows, columns)
        return total

    def __matmul__(self, v: Array) -> Array:
        return np.sum([part @ v for part in self._parts], axis=0)

    def factor(self) -> tuple[Factor, float] | None:
        """The factors of all parts side by side, where each has one."""
        found = [part.factor() for part in self._parts]
        known = [pair for pair in found if pair is not None]
        if len(known) < len(found):
            return None
        return reduce(Factor.beside, (F for F, _ in known)), sum(tau for _, tau in known)


class Changed(_Rows):
    """tK(d) + τI, a multiple of another combined kernel plus a ridge."""

    def __init__(self, kernel: CombinedKernel, times: float = 1.0, ridge: float = 0.0) -> None:
        self.kernel, self.times, self.ridge = kernel, times, ridge
        self._dense: Array | None = None

    @property
    def n(self) -> int:
        """Number of points."""
        return self.kernel.n

    @property
    def is_dense(self) -> bool:
        """As the kernel that is changed."""
        return self.kernel.is_dense

    def dense(self) -> Array:
        """The array, read-only; that of the kernel itself where nothing is changed."""
        if self._dense is None:
            total = self.kernel.dense()
            if (self.times, self.ridge) != (1.0, 0.0):
                total = self.times * total
                total[np.diag_indices(self.n)] += self.ridge
                frozen(total)
            self._dense = total
        return self._dense

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

    def factor(self) -> tuple[Factor, float] | None:
        """The factor, where the kernel has one and the multiple is not negative."""
        found = self.kernel.factor()
        if found is None or self.times < 0.0:
            return None
        return found[0].scaled(math.sqrt(self.times)), self.times * found[1] + self.ridge


def between(one: CombinedKernel, other: CombinedKernel, share: float) -> CombinedKernel | None:
    """(1 − share)·one + share·other where both are arrays, with no pass over the kernels."""
    if not (one.is_dense and other.is_dense):
        return None
    K = (1.0 - share) * one.dense() + share * other.dense()
    K.flags.writeable = False
    return DenseCombined(
        K, SumCombined([Changed(one, 1.0 - share), Changed(other, share)]).factor()
    )
