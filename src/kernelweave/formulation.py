"""The problem as the solvers see it, built from what a user says, with a look at every argument.

    min_{d ∈ D}  J(d),    J(d) = max_v  cᵀv − ½ρ‖v‖² − ½ Σ_m d_m vᵀK_m v

over the feasible v of the loss's dual QP. D is the simplex, an ℓp ball, Σ d_m tr K_m = c
[lanckriet2004, eq. 18], or Σ d_m T(K_m) = c with T(K) = tr K − 1ᵀK1/n [chapelle2008, eq. 1].
With C = "learn" the identity is one kernel more, and its weight is 1/C [lanckriet2004, eq. 47].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .kernels.identity import WithIdentity
from .kernels.stack import KernelStack
from .problems.dual_qp import DualQP
from .problems.losses import lower
from .problems.weight_sets import WeightSet, make_weight_set

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Kernels, dual QP and weight set; ``learns_C`` says that the last kernel is the identity."""

    stack: KernelStack | WithIdentity
    qp: DualQP
    weight_set: WeightSet
    learns_C: bool


def make_problem(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    C: ArrayLike | str,
    loss: str,
    weight_norm: float | None,
    trace: float | None,
    recenter: bool,
    ridge: float,
) -> Problem:
    """Build the problem; every argument as ``learn`` documents it."""
    kernels = K if isinstance(K, KernelStack) else KernelStack(K)
    qp, learns_C = make_dual_qp(y, kernels.n, C, loss, ridge)
    if learns_C and weight_norm != 1:
        raise ValueError(f"C='learn' needs weight_norm=1, found {weight_norm!r}")
    stack = WithIdentity(kernels) if learns_C else kernels
    traces = None
    if trace is not None or recenter or learns_C:
        traces = stack.traces()
        if recenter:
            whole, traces = traces, traces - stack.quad_forms(np.ones(stack.n)) / stack.n
            traces[traces <= 1e-12 * whole] = 0.0  # constant kernels, up to rounding
    return Problem(stack, qp, make_weight_set(stack.m, weight_norm, trace, traces), learns_C)


def make_dual_qp(
    y: ArrayLike, n: int, C: ArrayLike | str, loss: str, ridge: float = 0.0
) -> tuple[DualQP, bool]:
    """The dual QP for ``n`` kernel rows, and whether C is to be learnt."""
    if not (isinstance(C, str) and C == "learn"):
        return lower(y, n, C, loss, ridge), False
    if loss != "squared_hinge":
        raise ValueError(f"C='learn' needs loss='squared_hinge', found {loss!r}")
    if ridge != 0.0:
        raise ValueError(f"C='learn' learns the ridge; leave ridge=0, found {ridge!r}")
    return lower(y, n, np.inf, loss), True
