"""The Hessian of J from the free support vectors [chapelle2008, eq. 3].

    H = Qᵀ Ā Q = BᵀB,     Q_m = s_m K_m[F] v,     A = K_FF + diag ρ_F

F are the free variables, v all of them (also those at C). Ā is the inverse of A bordered by the
constraint Σv = r. With any M such that MᵀM = A⁻¹ and u = M1/‖M1‖, B = (I − uuᵀ)MQ. H is never
formed. Two such M:

    M = L⁻¹                                  where A = LLᵀ is an array
    M = (I − Z VgVᵀ Zᵀ)D^−½, Z = D^−½F       where A = D + FFᵀ, D diagonal, and F has R columns

In the second, ZᵀZ = V diag(s) Vᵀ is of the order R, and g = 1/(1 + s + √(1 + s)) makes M the
inverse root of I + ZZᵀ, times D^−½.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from kernelweave._core.tolerances import SOFT
from kernelweave._core.types import Array, Places
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks.protocol import CombinedKernel

Half = Callable[[Array], Array]
_MOST = 4000  # free variables whose block is fetched from a kernel that is no array: 128 MB


def hessian_factor(
    K: CombinedKernel, qp: DualQP, free: Places, products: Array, soft: float = SOFT
) -> Array | None:
    """B with H = BᵀB, from the combined kernel K and ``products`` = Q, shape (m, |F|).

    A gets a ridge of ``soft`` times its mean diagonal. Where A is singular and K_m is not within
    its range J has a kink, and H would be infinite: a larger ridge lets e move there. None where
    no variable is free, so that J is linear near these weights, and where too many are for a kernel
    that has neither an array nor a factor.
    """
    half = half_inverse(K, qp, free, soft)
    return None if half is None else rows_of_factor(half, products)


def rows_of_factor(half: Half, products: Array) -> Array:
    """B = (I − uuᵀ)MQ."""
    solved = half(np.column_stack([products.T, np.ones(products.shape[1])]))
    B, u = solved[:, :-1], solved[:, -1]
    B -= np.outer(u, (u @ B) / (u @ u))
    return np.ascontiguousarray(B)


def half_inverse(K: CombinedKernel, qp: DualQP, free: Places, soft: float) -> Half | None:
    """X → MX with MᵀM = A⁻¹, from a factor where that is smaller than the block of A."""
    if free.size < 2:
        return None
    rows, ridges = free % qp.n, qp.ridges[free]
    found = None if K.is_dense else K.factor()
    if found is not None and found[0].shape[1] < free.size:
        F, tau = found[0].array(rows), found[1]
        mean = float(np.einsum("ir,ir->", F, F)) / free.size + tau
        return _from_factor(F, tau + ridges + soft * mean)
    if free.size > _MOST and not K.is_dense:
        return None
    block = K.block(rows, rows)
    block[np.diag_indices_from(block)] += ridges + soft * block.diagonal().mean()
    try:
        L = cholesky(block, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return lambda X: np.asarray(
        solve_triangular(L, X, lower=True, overwrite_b=True, check_finite=False)
    )


def _from_factor(F: Array, D: Array) -> Half | None:
    if not D.min() > 0.0:
        return None
    root = np.sqrt(D)[:, None]
    Z = np.divide(F, root, out=F)
    s, V = eigh(Z.T @ Z, overwrite_a=True, check_finite=False)
    one = 1.0 + np.maximum(s, 0.0)
    W = V / (one + np.sqrt(one))

    def times(X: Array) -> Array:
        X = X / root
        X -= Z @ (W @ (V.T @ (Z.T @ X)))
        return X

    return times
