"""Losses, each lowered to the dual QP.

    hinge            C Σ ξ_i          c = y,  v_i between 0 and C·y_i
    squared_hinge    (C/2) Σ ξ_i²     c = y,  v_i between 0 and ∞·y_i,  ρ = 1/C

C may be one number or one a sample; C = ∞ is the hard margin under either loss.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .dual_qp import DualQP

Array = NDArray[np.float64]


def hinge(y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
    """½‖f‖² + C Σ (1 − y_i(f_i + b))₊ ; with a ridge, the hinge rounded off at its corner."""
    bound = np.broadcast_to(np.asarray(C, dtype=float), y.shape)
    return DualQP(
        linear=y,
        lower=np.where(y > 0.0, 0.0, -bound),
        upper=np.where(y > 0.0, bound, 0.0),
        n=y.size,
        ridge=ridge,
    )


def squared_hinge(y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
    """½‖f‖² + (C/2) Σ (1 − y_i(f_i + b))₊²."""
    if np.ndim(C) > 0:
        raise ValueError("C must be one number with loss='squared_hinge', found an array")
    return hinge(y, np.inf, ridge + 1.0 / float(C))


LOSSES = {"hinge": hinge, "squared_hinge": squared_hinge}
