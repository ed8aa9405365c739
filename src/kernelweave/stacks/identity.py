"""A stack with the identity as one kernel more: its weight is a ridge.

    Σ_k d_k K_k + τI

Learning τ with the other weights learns C = 1/τ of the squared hinge loss
[lanckriet2004, §4.6; chapelle2008, §5].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.types import Array, Index, Mask, Places
from kernelweave.stacks.combined import Changed
from kernelweave.stacks.defaults import Part
from kernelweave.stacks.precision import Units
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.validation import as_places


class WithIdentity:
    """The kernels of ``stack``, and after them the identity, which is never written out."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    @property
    def name(self) -> str:
        """That of the stack."""
        return self.stack.name

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

    @property
    def units(self) -> Units:
        """Those of the stack."""
        return self.stack.units

    def traces(self) -> Array:
        """All tr K_k."""
        return np.append(self.stack.traces(), float(self.n))

    def diagonals(self) -> Array:
        """All diagonals, (m, n)."""
        return np.vstack([self.stack.diagonals(), np.ones(self.n)])

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns."""
        if kernel < self.stack.m:
            return self.stack.block(kernel, rows, columns)
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        return np.equal.outer(left, right).astype(float)

    def expect(self, vectors: Sequence[Array]) -> None:
        """The stack is told."""
        self.stack.expect(vectors)

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w in the precision of ``w``, as the stack does it."""
        return self.fine_products(np.array([kernel]), rows, support, w)[0]

    def fine_products(
        self, kernels: Places, rows: Places, support: Places, w: np.ndarray
    ) -> np.ndarray:
        """The same of several kernels."""
        places = kernels < self.stack.m
        full = np.zeros(self.n, w.dtype)
        full[support] = w
        out = np.empty((places.size, rows.size), w.dtype)
        out[places] = self.stack.fine_products(kernels[places], rows, support, w)
        out[~places] = full[rows]
        return out

    def combined(self, weights: ArrayLike) -> Changed:
        """Σ_k weights_k K_k + τI."""
        w = np.asarray(weights, dtype=float)
        return Changed(self.stack.combined(w[:-1]), ridge=float(w[-1]))

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """vᵀK_k v for all kernels, or those of ``kernels``."""
        x = np.asarray(v, dtype=float)
        ours, places = self._split(kernels)
        out = np.empty(places.size)
        out[places] = self.stack.quad_forms(x, ours)
        out[~places] = x @ x
        return out

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k[rows] v for all kernels, or those of ``kernels``."""
        x = np.asarray(v, dtype=float)
        ours, places = self._split(kernels)
        chosen = None if rows is None else as_places(rows, self.n, "rows")
        at = x if chosen is None else x[chosen]
        out = np.empty((places.size, at.size))
        out[places] = self.stack.matvecs(x, chosen, ours)
        out[~places] = at
        return out

    def restrict(self, rows: Index) -> WithIdentity:
        """The same on some of the points."""
        return WithIdentity(self.stack.restrict(as_places(rows, self.n, "rows", empty=False)))

    def select(self, kernels: Index) -> Stack:
        """Some of the kernels, the identity among them where it is asked for."""
        chosen = as_places(kernels, self.m, "kernels", empty=False)
        if (chosen < self.stack.m).all():
            return self.stack.select(chosen)
        return Part(self, np.arange(self.n), chosen)

    def threaded(self, n_jobs: int | None) -> WithIdentity:
        """The same, with threads for the kernels of the stack."""
        return WithIdentity(self.stack.threaded(n_jobs))

    def finer(self) -> WithIdentity | None:
        """The same on a finer stack."""
        stack = self.stack.finer()
        return None if stack is None else WithIdentity(stack)

    def _split(self, kernels: Index | None) -> tuple[Places | None, Mask]:
        """Which of the kernels asked for the stack has, and where they go."""
        if kernels is None:
            return None, np.arange(self.m) < self.stack.m
        chosen = as_places(kernels, self.m, "kernels")
        return chosen[chosen < self.stack.m], chosen < self.stack.m
