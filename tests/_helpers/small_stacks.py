"""Two stacks that hold no n × n array: kernels computed when they are asked for, and factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelweave.stacks.cholesky import factor
from kernelweave.stacks.combined import BaseCombined
from kernelweave.stacks.defaults import BlockStack
from kernelweave.stacks.factor import JoinedFactor

Array = np.ndarray


class OnDemand(BlockStack):
    """Gaussian kernels on a table X, one for each width, and xxᵀ for each x of ``lines``.

    The width ∞ is the constant kernel. Blocks are cut out of what was computed once, to be quick
    where a test asks thousands of times. ``largest`` is the size of the largest block asked for so
    far, ``asked`` the number of entries.
    """

    def __init__(self, X: Array, widths: Sequence[float], lines: Sequence[Array] = ()) -> None:
        self.X, self.widths, self.lines = X, tuple(widths), tuple(lines)
        self.n, self.m = len(X), len(self.widths) + len(self.lines)
        self.largest = self.asked = 0
        every = np.arange(self.n)
        self._all = np.stack([self._entries(k, every, every) for k in range(self.m)])

    def block(self, kernel: int, rows: Any, columns: Any) -> Array:
        every = np.arange(self.n)
        rows, columns = every[rows], every[columns]
        self.largest = max(self.largest, rows.size * columns.size)
        self.asked += rows.size * columns.size
        return self._all[kernel][rows[:, None], columns]

    def _entries(self, kernel: int, rows: Array, columns: Array) -> Array:
        if kernel >= len(self.widths):
            x = self.lines[kernel - len(self.widths)]
            return np.outer(x[rows], x[columns])
        apart = np.zeros((rows.size, columns.size))
        for feature in self.X.T:
            apart += (feature[rows][:, None] - feature[columns]) ** 2
        return np.exp(-apart / (2.0 * self.widths[kernel] ** 2))

    def diagonals(self) -> Array:
        """Known without any block."""
        gaussians = np.ones((len(self.widths), self.n))
        return np.vstack([gaussians, *(x**2 for x in self.lines)])

    def matrices(self) -> Array:
        """All kernels as an array (m, n, n), for comparison; not counted."""
        return self._all.copy()


class Factors(BlockStack):
    """K_k = F_k F_kᵀ, the columns of F_k as many as the rank of K_k."""

    def __init__(self, factors: Sequence[Array], n: int | None = None) -> None:
        self.factors = [np.asarray(F, dtype=float) for F in factors]
        self.n, self.m = len(self.factors[0]) if n is None else n, len(self.factors)

    def block(self, kernel: int, rows: Any, columns: Any) -> Array:
        F = self.factors[kernel]
        return F[rows] @ F[columns].T

    def diagonals(self) -> Array:
        return np.array([(F**2).sum(axis=1) for F in self.factors]).reshape(self.m, self.n)

    def quad_forms(self, v: Any, kernels: Any = None) -> Array:
        x = np.asarray(v, dtype=float)
        return np.array([np.sum((F.T @ x) ** 2) for F in self._chosen(kernels)])

    def matvecs(self, v: Any, rows: Any = None, kernels: Any = None) -> Array:
        x, places = (
            np.asarray(v, dtype=float),
            np.arange(self.n)[slice(None) if rows is None else rows],
        )
        found = [F[places] @ (F.T @ x) for F in self._chosen(kernels)]
        return np.stack(found) if found else np.zeros((0, places.size))

    def combined(self, weights: Any) -> FactorsCombined:
        return FactorsCombined(self, np.asarray(weights, dtype=float))

    def restrict(self, rows: Any) -> Factors:
        return Factors([F[rows] for F in self.factors])

    def select(self, kernels: Any) -> Factors:
        return Factors(self._chosen(kernels), self.n)

    def _chosen(self, kernels: Any) -> list[Array]:
        places = np.arange(self.m)[slice(None) if kernels is None else kernels]
        return [self.factors[k] for k in places]


class FactorsCombined(BaseCombined):
    """Σ_k d_k F_k F_kᵀ: all F_k with a weight side by side, and a number for each column."""

    def __init__(self, stack: Factors, weights: Array) -> None:
        active = np.flatnonzero(weights)
        parts = [stack.factors[k] for k in active]
        self.n = stack.n
        self._F = np.hstack([np.zeros((stack.n, 0)), *parts])
        self._d = np.repeat(weights[active], [F.shape[1] for F in parts])

    def diagonal(self) -> Array:
        return self._F**2 @ self._d

    def block(self, rows: Any, columns: Any) -> Array:
        return (self._F[rows] * self._d) @ self._F[columns].T

    def __matmul__(self, v: Array) -> Array:
        return (self._F * self._d) @ (self._F.T @ v)

    def factor(self) -> tuple[JoinedFactor, float] | None:
        return None if (self._d < 0.0).any() else (JoinedFactor.of(self._F * np.sqrt(self._d)), 0.0)


def factors_of(K: Array) -> list[Array]:
    """F_k with F_k F_kᵀ = K_k up to rounding, by Cholesky's method with pivots.

    The factor of a constant kernel is constant, to the last bit.
    """
    return [factor(matrix, 1e-15 * float(np.diagonal(matrix).max())) for matrix in K]
