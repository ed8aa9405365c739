"""Linear kernels on sets of columns that overlap: each column is kept once.

    K_k = Σ_j A_kj g_j g_jᵀ        quad_forms(v) = A (Gv)²        K(d) = Gᵀ diag(dᵀA) G

The rows g_j of G are the columns of all sets, and A ≥ 0 is sparse: a number for each column of a
set. Thousands of sets of genes take the memory of the table, and a few numbers for each gene.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import as_places, check_vector
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import frozen
from kernelweave.stacks.defaults import BlockStack
from kernelweave.stacks.dense import DenseCombined
from kernelweave.stacks.factor import JoinedFactor
from kernelweave.stacks.factors import FactorCombined, FactorStack
from kernelweave.stacks.rounding import Units


class ColumnSets(BlockStack):
    """Kernels Gᵀ diag(A_k) G.

    Parameters
    ----------
    G : array (p, n)
        The columns of all sets, one after the other.
    A : CSR array (m, p), not negative
        What each column counts in each kernel.
    """

    def __init__(self, G: Array, A: csr_array) -> None:
        self._G, self._A = G, A

    @property
    def m(self) -> int:
        """Number of kernels."""
        return int(self._A.shape[0])

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self._G.shape[1])

    @cached_property
    def units(self) -> Units:
        """Each entry has as many roundings behind it as the largest set has columns, and one."""
        return Units(operations=int(np.diff(self._A.indptr).max(initial=0)) + 1)

    def _set(self, kernel: int) -> tuple[Array, Array]:
        """What the columns of one kernel count, and these."""
        some = slice(*self._A.indptr[kernel : kernel + 2])
        return self._A.data[some], self._G[self._A.indices[some]]

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, a new array."""
        places = as_places(rows, self.n, "rows"), as_places(columns, self.n, "columns")
        counts, G = self._set(kernel)
        return np.matmul(G[:, places[0]].T * counts, G[:, places[1]])

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n), read-only."""
        return self._diagonals

    @cached_property
    def _diagonals(self) -> Array:
        return frozen(self._A @ self._G**2)

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """A (Gv)², for each of ``kernels``."""
        x = check_vector("v", v, self.n, finite=False)
        return np.asarray(self._of(kernels) @ (self._G @ x) ** 2)

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """A diag(Gv) G at ``rows``, for each of ``kernels``, shape (m', n')."""
        x = check_vector("v", v, self.n, finite=False)
        G = self._G if rows is None else self._G[:, as_places(rows, self.n, "rows")]
        return np.ascontiguousarray(self._of(kernels) @ ((self._G @ x)[:, None] * G))

    def _of(self, kernels: Index | None) -> csr_array:
        return self._A if kernels is None else self._A[as_places(kernels, self.m, "kernels")]

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w in the precision of ``w``."""
        counts, G = self._set(kernel)
        onto = counts * (G[:, support].astype(w.dtype) @ w)
        return np.asarray(onto @ G[:, rows].astype(w.dtype))

    def combined(self, weights: ArrayLike) -> DenseCombined | FactorCombined:
        """K(d): written out where n is small, else as one factor of all columns with a weight."""
        counts = check_vector("weights", weights, self.m, finite=False) @ self._A
        used = np.flatnonzero(counts)
        G = self._G if used.size == counts.size else self._G[used]
        kernel = FactorCombined(JoinedFactor([G], np.ones(used.size)), counts[used])
        if self.n > FactorStack.most_dense:
            return kernel
        return DenseCombined(
            frozen(kernel.written_out()), kernel.factor() if used.size < self.n else None
        )

    def restrict(self, rows: Index) -> ColumnSets:
        """The same kernels on some of the points, in the order of ``rows``."""
        places = as_places(rows, self.n, "rows", empty=False)
        whole = np.array_equal(places, np.arange(self.n))
        return self if whole else ColumnSets(np.ascontiguousarray(self._G[:, places]), self._A)

    def select(self, kernels: Index) -> ColumnSets:
        """Some of the kernels on the same points."""
        return ColumnSets(self._G, self._A[as_places(kernels, self.m, "kernels", empty=False)])

    def threaded(self, n_jobs: int | None) -> ColumnSets:
        """The same: products are those of BLAS."""
        return self
