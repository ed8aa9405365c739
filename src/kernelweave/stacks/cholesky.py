"""Factors: of kernel matrices, K ≈ FFᵀ, as wide as the numerical rank; of products, AᵀA = RᵀR."""

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


def triangle(columns: Array) -> Array:
    """R, upper triangular, with RᵀR = columnsᵀcolumns: no digit is lost to squares."""
    return np.asarray(np.linalg.qr(columns, mode="r"))
