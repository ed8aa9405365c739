"""How far a model is from the optimum, computed from the data and from nothing else.

    gap = (primal − dual) / max(|primal|, 1e-12)

    primal = ½ coefᵀK(d)coef + Σ ℓ_i(c_i − f_i − b),            f = K(d)coef, real slacks
    dual   = cᵀv − ½ρ‖v‖² − ½σ(q),   q_m = vᵀK_m v,             any feasible v

The optimum lies between the two whatever solver found the model; σ is the support function of
the weight set: max_m q_m on the simplex, and for signed weights an upper bound of

    max { d·q :  Σ_m d_m K_m ⪰ 0,  Σ_m d_m tr K_m = c }.

Both are computed in double precision. What weights of either sign cancel is charged to them; under
weights ≥ 0 the rounding of f, about 1e-16 Σ_j |K(d)_ij coef_j| in row i, is charged to hard margins
alone: elsewhere it moves the primal by C times as much a row, which shows where C times the
diagonal of K(d) is 10⁷ or more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_finite, check_vector
from kernelweave._core.types import Array
from kernelweave._solvers.signed.semidefinite_set import Joint
from kernelweave._solvers.signed.support import support
from kernelweave.machines.oracle import cancellation
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.problems.problem import Problem, make_problem
from kernelweave.problems.weight_sets import WeightSet, norm
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.validation import NEGATIVITY


@dataclass(frozen=True)
class Certificate:
    """Upper and lower bound of the optimum, and the relative gap between them."""

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """(primal − dual) / max(|primal|, 1e-12)."""
        return relative_gap(self.primal, self.dual)


def duality_gap(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    weights: ArrayLike,
    coef: ArrayLike,
    bias: float,
    *,
    C: ArrayLike | str,
    dual_alpha: ArrayLike | None = None,
    loss: str = "hinge",
    weight_norm: float = 1,
    trace: float | None = None,
    recenter: bool = False,
    ridge: float = 0.0,
    signed: bool = False,
) -> Certificate:
    """Certify the model f = Σ_m weights_m K_m coef + bias, wherever it comes from.

    Parameters
    ----------
    K : array (m, n, n) or KernelStack
        The kernels.
    y : array (n,)
        Labels ±1; 0 for rows without a label.
    weights, coef, bias
        The model, judged exactly as given.
    C, loss, weight_norm, trace, recenter, ridge
        The problem, as for ``learn``. With C="learn", ``ridge`` is the learnt 1/C; without it the
        model has to have a hard margin.
    dual_alpha : array (n,), optional
        A point 0 ≤ α ≤ C, yᵀα = 0 that proves the lower bound; it is repaired where it
        violates these. Without it, the one that ``coef`` suggests, at its best scale.
    signed : bool
        Whether weights may be negative, as under ``learner="sdp"``: any with the trace asked for
        and Σ_m weights_m K_m ⪰ 0 on all rows, within the limit that ``sdp`` has where kernels
        differ by very little. The bound then takes a small semidefinite programme.
    """
    learnt = ridge if isinstance(C, str) else 0.0
    given = 0.0 if isinstance(C, str) else ridge
    if weight_norm is None:
        raise ValueError(
            "weight_norm=None is for learner='radius', whose objective is another: "
            "kernelweave.papers.gai2010.radius_gap judges it"
        )
    problem = make_problem(K, y, C, loss, weight_norm, trace, recenter, given, signed)
    qp, whole, rows = problem.qp, problem.whole, problem.rows
    if problem.learns_C:
        weights = np.append(check_vector("weights", weights, whole.m - 1), learnt)
    d = check_vector("weights", weights, whole.m)
    w = check_vector("coef", coef, whole.n)
    b = check_finite("bias", bias)
    if signed:
        check_signed_weights(d, problem)
    else:
        check_weights(d, problem.weight_set)
    kernel = whole.combine(d)
    f = kernel @ w
    quad, rounding = max(float(w @ f), 0.0), 0.0
    if qp.is_hard:  # terms of f far larger than f leave it few digits
        rounding = 8.0 * np.finfo(float).eps * float((np.abs(kernel) @ np.abs(w)).max())
    if d.min() < 0.0:  # so do weights that cancel
        error = cancellation(whole, d, w)
        quad += float(np.abs(w) @ error)
        f[rows] -= 0.0 if qp.is_hard else qp.linear * error[rows]
    primal = qp.primal_value(f[rows], b, quad, rounding)
    if dual_alpha is None:
        v = qp.feasible(w[rows])
    else:
        v = qp.feasible(qp.linear * check_vector("dual_alpha", dual_alpha, whole.n)[rows])
    q = problem.stack.quad_forms(v)
    most = _signed_support(problem, q, d) if signed else problem.weight_set.support(q)
    if d.min() < 0.0:
        most += float(np.abs(v) @ cancellation(problem.stack, d, v))
    if dual_alpha is None:
        v, most = _best_multiple(qp, v, most)
    return Certificate(primal, qp.dual_value(v, most))


def _signed_support(problem: Problem, q: Array, d: Array) -> float:
    """An upper bound of σ(q) over signed weights, d among them."""
    scale = problem.weight_set.scale
    e = np.divide(d, scale, out=np.zeros_like(d), where=scale > 0.0)
    return support(Joint(problem.whole, scale), scale * q, e)


def _best_multiple(qp: DualQP, v: Array, support: float) -> tuple[Array, float]:
    """The t·v in the box with the greatest dual value, and its σ(q)."""
    bend = qp.ridge * float(v @ v) + support
    rise = float(qp.linear @ v)
    if not (bend > 0.0 and rise > 0.0):
        return v, support
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(v > 0.0, qp.upper / v, np.where(v < 0.0, qp.lower / v, np.inf))
    t = min(rise / bend, float(room.min()))
    return t * v, t * t * support


def check_weights(d: Array, weight_set: WeightSet) -> None:
    """Complain unless the weights lie in their set."""
    if d.min() < 0.0:
        raise ValueError(
            f"weights must be nonnegative, found {d.min():g}; those of learner='sdp' may be "
            "negative: pass signed=True"
        )
    if not weight_set.contains(d, slack=1e-8):
        size = norm(d / weight_set.scale, weight_set.norm)
        raise ValueError(
            f"weights must lie in their set (norm at most 1), found norm {size:g}; pass "
            "weight_norm, trace and signed as the weights were learnt with, or rescale them"
        )


def check_signed_weights(d: Array, problem: Problem) -> None:
    """Complain unless the trace is the one asked for and the combined kernel is semidefinite."""
    whole, scale = problem.whole, problem.weight_set.scale
    used = scale > 0.0
    size = float((d[used] / scale[used]).sum())
    rounding = 1e-14 * float(np.abs(d[used] / scale[used]).sum())
    if abs(size - 1.0) > max(1e-8, rounding):
        raise ValueError(
            f"signed weights must give the combined kernel its trace, found {size:.10g} times that"
        )
    if problem.learns_C and d[-1] < 0.0:
        raise ValueError(f"ridge must be a number ≥ 0, found {d[-1]:g}")
    trace = float(d @ whole.traces())
    if problem.learns_C:
        d = np.append(d[:-1], 0.0)
    check_semidefinite(whole.combine(d), trace, whole.precision)


def check_semidefinite(K: Array, trace: float, precision: np.dtype) -> None:
    """Complain about a combined kernel with eigenvalues that no kernel may have.

    The share of ``trace`` that counts as rounding is that for kernels of this precision.
    """
    least = float(np.linalg.eigvalsh(K)[0])
    if least < -NEGATIVITY[precision] * trace:
        raise ValueError(
            "weights must make the combined kernel positive semidefinite, found an eigenvalue of "
            f"{least:g} (trace {trace:g})"
        )
