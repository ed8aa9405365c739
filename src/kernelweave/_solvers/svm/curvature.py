"""The Hessian of J from the free support vectors [chapelle2008, eq. 3].

    H = Qᵀ Ā Q = BᵀB,     Q_m = s_m K_m[F] v,     A = K_FF + diag ρ_F

F are the free variables, v all of them (also those at C). Ā is the inverse of A bordered by the
constraint Σv = r: with A = LLᵀ and u = L⁻¹1/‖L⁻¹1‖, B = (I − uuᵀ)L⁻¹Q. H is never formed.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from kernelweave._core.tolerances import SOFT
from kernelweave._core.types import Array, Places
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks.protocol import CombinedKernel

_MOST = 4000  # free variables whose block is fetched from a kernel that is no array: 128 MB


def hessian_factor(
    K: CombinedKernel, qp: DualQP, free: Places, products: Array, soft: float = SOFT
) -> Array | None:
    """B with H = BᵀB, from the combined kernel K and ``products`` = Q, shape (m, |F|).

    A gets a ridge of ``soft`` times its mean diagonal. Where A is singular and K_m is not within
    its range J has a kink, and H would be infinite: a larger ridge lets e move there. None where
    no variable is free, so that J is linear near these weights, and where too many are for a kernel
    that is computed on demand.
    """
    if free.size < 2 or (free.size > _MOST and not K.is_dense):
        return None
    rows = free % qp.n
    block = K.block(rows, rows)
    block[np.diag_indices_from(block)] += qp.ridges[free] + soft * block.diagonal().mean()
    try:
        factor = cholesky(block, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    sides = np.column_stack([products.T, np.ones(free.size)])
    solved = solve_triangular(factor, sides, lower=True, overwrite_b=True, check_finite=False)
    B, u = solved[:, :-1], solved[:, -1]
    B -= np.outer(u, (u @ B) / (u @ u))
    return np.ascontiguousarray(B)
