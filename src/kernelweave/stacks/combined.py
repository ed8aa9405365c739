"""K(d) = Σ_k d_k K_k as solvers see it: as an array, from blocks on demand, or changed.

DenseCombined     one n × n array
BlockCombined     no array: each block is summed from the kernels' blocks
Changed           a multiple of another combined kernel, plus a ridge
"""

from __future__ import annotations

import numpy as np

from kernelweave._core.types import Array, Index
from kernelweave.stacks.protocol import CombinedKernel, NotDense, Stack, stack_name


class DenseCombined:
    """K(d) as one n × n array, read-only."""

    is_dense = True

    def __init__(self, K: Array) -> None:
        self._K = K

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

    def rows(self, index: Index) -> Array:
        """Whole rows."""
        return self._K[index]

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        every = np.arange(self.n)
        return self._K[np.ix_(every[rows], every[columns])]

    def __matmul__(self, v: Array) -> Array:
        return self._K @ v

    def factor(self) -> tuple[Array, float] | None:
        """None: an array is no factor."""
        return None


class BlockCombined:
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

    def rows(self, index: Index) -> Array:
        """Whole rows."""
        return self.block(index, np.arange(self.n))

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        rows, columns = np.arange(self.n)[rows], np.arange(self.n)[columns]
        total = np.zeros((rows.size, columns.size))
        for k in self._active:
            total += self.weights[k] * self.stack.block(int(k), rows, columns)
        return total

    def __matmul__(self, v: Array) -> Array:
        if not self._active.size:
            return np.zeros(self.n)
        return self.weights[self._active] @ self.stack.matvecs(v, kernels=self._active)

    def factor(self) -> tuple[Array, float] | None:
        """None: blocks are no factors."""
        return None


class Changed:
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
                total.flags.writeable = False
            self._dense = total
        return self._dense

    def diagonal(self) -> Array:
        """All tK(d)_ii + τ."""
        return self.times * self.kernel.diagonal() + self.ridge

    def rows(self, index: Index) -> Array:
        """Whole rows."""
        places = np.arange(self.n)[index]
        total = self.times * self.kernel.rows(places)
        total[np.arange(places.size), places] += self.ridge
        return total

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        rows, columns = np.arange(self.n)[rows], np.arange(self.n)[columns]
        same = rows[:, None] == columns
        return self.times * self.kernel.block(rows, columns) + self.ridge * same

    def __matmul__(self, v: Array) -> Array:
        return self.times * (self.kernel @ v) + self.ridge * v

    def factor(self) -> tuple[Array, float] | None:
        """The factor, where the kernel has one and the multiple is not negative."""
        found = self.kernel.factor()
        if found is None or self.times < 0.0:
            return None
        return np.sqrt(self.times) * found[0], self.times * found[1] + self.ridge
