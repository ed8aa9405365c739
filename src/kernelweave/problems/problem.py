"""The problem as the solvers see it, built from what a user says, with a look at every argument.

    min_{d ∈ D}  J(d),    J(d) = max_v  cᵀv − ½ρ‖v‖² − ½ Σ_m d_m vᵀK_m v

over the feasible v of the loss's dual QP. D is the simplex, an ℓp ball, Σ d_m tr K_m = c
[lanckriet2004, eq. 18], or Σ d_m T(K_m) = c with T(K) = tr K − 1ᵀK1/n [chapelle2008, eq. 1].
With C = "learn" the identity is one kernel more, and its weight is 1/C [lanckriet2004, eq. 47].

Rows with y = 0 have no label: the machine, J, is over the others, D over all rows
[lanckriet2004, eq. 17–18]. Signed weights have the trace constraint and Σ_m d_m K_m ⪰ 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.types import Array
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import check_C, check_labels, lower
from kernelweave.problems.weight_sets import WeightSet, make_weight_set
from kernelweave.stacks.dense import KernelStack, as_stack
from kernelweave.stacks.identity import WithIdentity


@dataclass(frozen=True)
class Problem:
    """Kernels, dual QP and weight set.

    ``whole`` are the kernels on all rows, ``stack`` on the labelled ``rows``; ``learns_C`` says
    that the last kernel is the identity.
    """

    stack: KernelStack | WithIdentity
    qp: DualQP
    weight_set: WeightSet
    learns_C: bool
    whole: KernelStack | WithIdentity
    rows: NDArray[np.intp]

    def spread(self, values: Array) -> Array:
        """One value for every row from one for each labelled row, 0 for the others."""
        everywhere = np.zeros(self.whole.n)
        everywhere[self.rows] = values
        return everywhere


def make_problem(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    C: ArrayLike | str,
    loss: str,
    weight_norm: float | None,
    trace: float | None,
    recenter: bool,
    ridge: float,
    signed: bool = False,
) -> Problem:
    """Build the problem; every argument as ``learn`` documents it, weights ``signed`` or not."""
    if signed and recenter:
        raise ValueError("signed weights go with the trace itself: leave recenter=False")
    kernels = as_stack(K)
    labels = check_labels(y, kernels.n, partly=True)
    rows = np.flatnonzero(labels)
    if not isinstance(C, str) and np.ndim(C) > 0:
        C = np.asarray(check_C(C, kernels.n))[rows]
    qp, learns_C = make_dual_qp(labels[rows], rows.size, C, loss, weight_norm, ridge)
    part = kernels.restrict(rows)
    whole = WithIdentity(kernels) if learns_C else kernels
    stack = WithIdentity(part) if learns_C else part
    traces = None
    if trace is not None or recenter or learns_C or signed:
        traces = whole.traces()
        if recenter:
            full, traces = traces, traces - whole.quad_forms(np.ones(whole.n)) / whole.n
            traces[traces <= 1e-12 * full] = 0.0  # constant kernels, up to rounding
    empty = signed and bool(kernels.traces().any())
    weight_set = make_weight_set(stack.m, weight_norm, trace, traces, empty)
    return Problem(stack, qp, weight_set, learns_C, whole, rows)


def refuse_learnt_C(C: ArrayLike | str) -> None:
    """Complain about C = "learn" where the identity is no kernel."""
    if isinstance(C, str):
        raise ValueError(
            f"C must be a number, or one a row, found {C!r}: only learn has C='learn', and what it "
            "learns is the machine of one more kernel, the identity"
        )


def make_dual_qp(
    y: ArrayLike,
    n: int,
    C: ArrayLike | str,
    loss: str,
    weight_norm: float | None,
    ridge: float = 0.0,
) -> tuple[DualQP, bool]:
    """The dual QP for ``n`` kernel rows, and whether C is to be learnt."""
    if not (isinstance(C, str) and C == "learn"):
        return lower(y, n, C, loss, ridge), False
    if loss != "squared_hinge":
        raise ValueError(f"C='learn' needs loss='squared_hinge', found {loss!r}")
    if weight_norm != 1:
        raise ValueError(f"C='learn' needs weight_norm=1, found {weight_norm!r}")
    if ridge != 0.0:
        raise ValueError(f"C='learn' learns the ridge; leave ridge=0, found {ridge!r}")
    return lower(y, n, np.inf, loss), True
