"""Low-rank factors of kernel matrices.

K ≈ F Fᵀ, F with as many columns as K has a numerical rank
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpstrf

from kernelweave._core.types import Array


def factor(K: Array, drop: float) -> Array:
    """F (n, r) such that the diagonal of K − FFᵀ, which is semidefinite, is at most ``drop``.

    Cholesky's method with pivots: a kernel of rank one costs one column.
    """
    L, order, rank, _ = dpstrf(K, tol=drop, lower=1)
    F = np.zeros((len(K), rank))
    F[order - 1] = np.tril(L[:, :rank])
    return F
