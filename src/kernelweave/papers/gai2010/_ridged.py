"""Kernels with a ridge each, K_m + ρ_m I, as a view of a stack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import as_places
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks.defaults import BlockStack
from kernelweave.stacks.identity import Changed
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.rounding import Units


class Ridged(BlockStack):
    """The kernels of ``stack`` with ``ridges`` on their diagonals; nothing is written out."""

    def __init__(self, stack: Stack, ridges: Array) -> None:
        self.stack, self.ridges = stack, ridges
        self.n, self.m = stack.n, stack.m

    @property
    def precision(self) -> np.dtype:
        """That of the stack."""
        return self.stack.precision

    @property
    def units(self) -> Units:  # type: ignore[override]
        """Those of the stack."""
        return self.stack.units

    def diagonals(self) -> Array:
        """All diagonals, (m, n)."""
        return self.stack.diagonals() + self.ridges[:, None]

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns."""
        left, right = as_places(rows, self.n, "rows"), as_places(columns, self.n, "columns")
        return self.stack.block(kernel, left, right) + self.ridges[kernel] * np.equal.outer(
            left, right
        )

    def combined(self, weights: ArrayLike) -> Changed:
        """Σ_k weights_k K_k + τI."""
        w = np.asarray(weights, dtype=float)
        return Changed(self.stack.combined(w), ridge=float(w @ self.ridges))

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """vᵀK_k v + ρ_k‖v‖²."""
        x, chosen = np.asarray(v, dtype=float), as_places(kernels, self.m, "kernels")
        return self.stack.quad_forms(x, chosen) + self.ridges[chosen] * float(x @ x)

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k[rows] v + ρ_k v[rows]."""
        x, chosen = np.asarray(v, dtype=float), as_places(kernels, self.m, "kernels")
        places = as_places(rows, self.n, "rows")
        ridges = np.multiply.outer(self.ridges[chosen], x[places])
        return self.stack.matvecs(x, places, chosen) + ridges

    def expect(self, vectors: Sequence[Array]) -> None:
        """The stack is told."""
        self.stack.expect(vectors)

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """(K_k + ρ_k I)[rows, support]·w in the precision of ``w``."""
        return self.fine_products(np.array([kernel]), rows, support, w)[0]

    def fine_products(
        self, kernels: Places, rows: Places, support: Places, w: np.ndarray
    ) -> np.ndarray:
        """The same of several kernels."""
        full = np.zeros(self.n, w.dtype)
        full[support] = w
        ridges = np.multiply.outer(self.ridges[kernels].astype(w.dtype), full[rows])
        return self.stack.fine_products(kernels, rows, support, w) + ridges

    def threaded(self, n_jobs: int | None) -> Ridged:
        """The same, with threads for the stack."""
        return Ridged(self.stack.threaded(n_jobs), self.ridges)

    def finer(self) -> Ridged | None:
        """The same on a finer stack."""
        stack = self.stack.finer()
        return None if stack is None else Ridged(stack, self.ridges)
