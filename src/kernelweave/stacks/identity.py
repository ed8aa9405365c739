"""A stack with the identity as one kernel more: its weight is a ridge.

    Σ_k d_k K_k + τI

Learning τ with the other weights learns C = 1/τ of the squared hinge loss
[lanckriet2004, §4.6; chapelle2008, §5].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.types import Array, Places
from kernelweave.stacks.dense import KernelStack


class WithIdentity:
    """The kernels of ``stack``, and after them the identity, which is never written out."""

    def __init__(self, stack: KernelStack) -> None:
        self.stack = stack

    @property
    def m(self) -> int:
        """Number of kernels, the identity included."""
        return self.stack.m + 1

    @property
    def n(self) -> int:
        """Number of points."""
        return self.stack.n

    @property
    def precision(self) -> np.dtype:
        """That of the stack."""
        return self.stack.precision

    def traces(self) -> Array:
        """All tr K_k."""
        return np.append(self.stack.traces(), float(self.n))

    def diagonals(self) -> Array:
        """All diagonals, (m, n)."""
        return np.vstack([self.stack.diagonals(), np.ones(self.n)])

    def combine(self, weights: ArrayLike) -> Array:
        """Σ_k weights_k K_k + τI, read-only."""
        w = np.asarray(weights, dtype=float)
        total = self.stack.combine(w[:-1])
        if w[-1] != 0.0:
            total = total.copy()
            total[np.diag_indices(self.n)] += w[-1]
            total.flags.writeable = False
        return total

    def rows(self, weights: ArrayLike, index: Places) -> Array:
        """Rows ``index`` of Σ_k weights_k K_k + τI."""
        w = np.asarray(weights, dtype=float)
        total = self.stack.rows(w[:-1], index)
        total[np.arange(len(index)), index] += w[-1]
        return total

    def quad_forms(self, v: ArrayLike, kernels: Places | None = None) -> Array:
        """vᵀK_k v for all kernels, or those of ``kernels``."""
        x = np.asarray(v, dtype=float)
        ours, places = self._split(kernels)
        out = np.empty(self.m if kernels is None else len(kernels))
        out[places] = self.stack.quad_forms(x, ours)
        out[~places] = x @ x
        return out

    def matvecs(
        self, v: ArrayLike, rows: Places | None = None, kernels: Places | None = None
    ) -> Array:
        """K_k[rows] v for all kernels, or those of ``kernels``."""
        x = np.asarray(v, dtype=float)
        ours, places = self._split(kernels)
        at = x if rows is None else x[rows]
        out = np.empty((self.m if kernels is None else len(kernels), at.size))
        out[places] = self.stack.matvecs(x, rows, ours)
        out[~places] = at
        return out

    def _split(self, kernels: Places | None) -> tuple[Places | None, NDArray[np.bool_]]:
        """Which of the kernels asked for the stack has, and where they go."""
        if kernels is None:
            return None, np.arange(self.m) < self.stack.m
        places = np.asarray(kernels) < self.stack.m
        return np.asarray(kernels)[places], places
