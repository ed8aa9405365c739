"""How far a model is from the optimum, computed from the data and from nothing else.

    gap = (primal − dual) / max(|primal|, |dual|)

    primal = ½ coefᵀK(d)coef + Σ ℓ_i(c_i − f_i − b),            f = K(d)coef, real slacks
    dual   = cᵀv − ½ρ‖v‖² − ½σ(q),   q_m = vᵀK_m v,             any feasible v

The optimum lies between the two whatever solver found the model; σ is the support function of
the weight set: max_m q_m on the simplex, and for signed weights an upper bound of

    max { d·q :  Σ_m d_m K_m ⪰ 0,  Σ_m d_m tr K_m = c }.

Rounding is charged to both, with sums in extended precision: the optimum lies between them in
exact arithmetic, for the kernels as they are stored. Under a hard margin a slack within rounding
counts as none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_finite, check_vector
from kernelweave._core.tolerances import EPS, IN_SET, LAST, NEGATIVITY, SUM_ROUNDING
from kernelweave._core.types import Array
from kernelweave._solvers.signed.semidefinite_set import Joint
from kernelweave._solvers.signed.support import support
from kernelweave.machines.certified import most_quads, proven_dual, proven_dual_at, quad_bound
from kernelweave.machines.machine import Machine
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.losses import Loss
from kernelweave.problems.problem import Problem, make_problem
from kernelweave.problems.weight_sets import WeightSet
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.rounding import fine_values


@dataclass(frozen=True)
class Certificate:
    """Upper and lower bound of the optimum, and the relative gap between them."""

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """(primal − dual) / max(|primal|, |dual|)."""
        return relative_gap(self.primal, self.dual)


def duality_gap(
    K: ArrayLike | Stack,
    y: ArrayLike | None,
    weights: ArrayLike,
    coef: ArrayLike,
    bias: ArrayLike,
    *,
    C: ArrayLike | str,
    dual_alpha: ArrayLike | None = None,
    loss: str | Loss = "hinge",
    weight_norm: float | GroupNorm = 1,
    trace: float | None = None,
    recenter: bool = False,
    ridge: float = 0.0,
    signed: bool = False,
    sample_weight: ArrayLike | None = None,
    epsilon: float = 0.1,
    quantile: float = 0.5,
) -> Certificate:
    """Certify the model f = Σ_m weights_m K_m coef + bias, wherever it comes from.

    Parameters
    ----------
    K : array (m, n, n) or stack
        The kernels.
    y : array (n,) or (n, k)
        Labels or numbers, as for ``learn``.
    weights, coef, bias
        The model, judged exactly as given; with k columns of y, ``coef`` (k, n) and ``bias`` (k,).
    C, loss, weight_norm, trace, recenter, ridge, sample_weight, epsilon, quantile
        The problem, as for ``learn``. With C="learn", ``ridge`` is the learned 1/C; without it the
        model has to have a hard margin.
    dual_alpha : array (n,), optional
        A point 0 ≤ α ≤ C, yᵀα = 0 that proves the lower bound; it is repaired where it
        violates these. Without it, the one that ``coef`` suggests, at its best scale.
    signed : bool
        Whether weights may be negative, as under ``learner="sdp"``: any with the trace asked for
        and Σ_m weights_m K_m ⪰ 0 on all rows, within the limit that ``sdp`` has where kernels
        differ by very little. The bound then takes a small semidefinite program.
    """
    learned = ridge if isinstance(C, str) else 0.0
    given = 0.0 if isinstance(C, str) else ridge
    if weight_norm is None:
        raise ValueError(
            "weight_norm=None is for learner='radius', whose objective is another: "
            "kernelweave.papers.gai2010.radius_gap judges it"
        )
    problem = make_problem(
        K, y, C, loss, weight_norm=weight_norm, trace=trace, recenter=recenter, ridge=given,
        signed=signed, sample_weight=sample_weight, epsilon=epsilon, quantile=quantile,
    )  # fmt: skip
    return certify(problem, weights, coef, bias, dual_alpha, learned)


def certify(
    problem: Problem,
    weights: ArrayLike,
    coef: ArrayLike,
    bias: ArrayLike,
    dual_alpha: ArrayLike | None = None,
    learned_ridge: float = 0.0,
) -> Certificate:
    """The same for a problem that was built already; several machines have a row of ``coef`` each.

    ``learned_ridge`` is 1/C where C is learned.
    """
    whole, signed = problem.whole, problem.formulation.signed
    if problem.learns_C:
        weights = np.append(check_vector("weights", weights, whole.m - 1), learned_ridge)
    d = check_vector("weights", weights, whole.m)
    if signed:
        check_signed_weights(d, problem)
    else:
        check_weights(d, problem.weight_set)
    coefs = [check_vector("coef", w, whole.n) for w in _machines("coef", coef, problem)]
    biases = [check_finite("bias", b) for b in _machines("bias", bias, problem)]
    triples = zip(problem.qps, coefs, biases, strict=True)
    primal = sum(primal_of(problem, qp, d, w, b) for qp, w, b in triples)
    machine = Machine.of(problem)
    if dual_alpha is None:
        v = machine.feasible(
            np.concatenate(
                [qp.tile(w[problem.rows]) for qp, w in zip(problem.qps, coefs, strict=True)]
            )
        )
    else:
        given = _machines("dual_alpha", dual_alpha, problem)
        alpha = np.stack([check_vector("dual_alpha", a, whole.n)[problem.rows] for a in given])
        v = machine.from_alpha(alpha)
    v = np.clip(v, *machine.limits)
    weight_set = problem.weight_set
    q = most_quads(machine, v, True, weight_set.is_simplex and not signed)
    most = _signed_support(problem, q, d) if signed else weight_set.unit_support(q)
    if dual_alpha is None and not any(qp.total for qp in problem.qps):
        v, most = _best_multiple(problem.qps, v, most)
    return Certificate(primal, proven_dual(machine, v, most))


def certify_given(
    problem: Problem, weights: Array, coef: Array, bias: float | Array, dual_alpha: Array
) -> Certificate:
    """The machine alone, at weights taken as given."""
    machine = Machine.of(problem)
    v = np.clip(machine.from_alpha(dual_alpha[..., problem.rows]), *machine.limits)
    models = _machines("coef", coef, problem), _machines("bias", bias, problem)
    triples = zip(problem.qps, *models, strict=True)
    primal = sum(primal_of(problem, qp, weights, w, float(b)) for qp, w, b in triples)
    return Certificate(primal, proven_dual_at(machine, weights, v))


def dual_under(
    solution: Any, problem: Problem, quads: Callable[[Array], Array | None]
) -> float | None:
    """The lower bound that a solution proves for other kernels, at the best multiple of its point.

    ``quads(w)`` bounds all wᵀK_m w of these kernels, for w on all rows; None if it does not know,
    and for learners with an objective of their own.
    """
    if solution.criterion not in ("margin", "given") or problem.formulation.signed:
        return None
    machine, v = proof_of(solution, problem)
    coefficients = machine.coefficients(v)
    found = [quads(problem.to_all_rows(w)) for w in coefficients]
    known = [q for q in found if q is not None]
    if len(known) < len(found):
        return None
    q = np.sum(known, axis=0)
    if problem.learns_C:
        q = np.append(q, sum(float(w @ w) for w in coefficients))
    given = solution.criterion == "given"
    most = float(solution.weights @ q) if given else problem.weight_set.support(q)
    return proven_at_best(problem, machine, v, most)


def proof_of(solution: Any, problem: Problem) -> tuple[Machine, Array]:
    """The machine, and the feasible point that proves the solution's bound."""
    machine = Machine.of(problem)
    v = machine.from_alpha(solution.dual_alpha[..., problem.rows])
    return machine, np.clip(v, *machine.limits)


def proven_at_best(problem: Problem, machine: Machine, v: Array, most: float) -> float:
    """The dual value of the best multiple of v, where that may be taken."""
    if not any(qp.total for qp in problem.qps):
        v, most = _best_multiple(problem.qps, v, most)
    return proven_dual(machine, v, most)


def primal_under(
    solution: Any, problem: Problem, values: Callable[[Array, Array], Array | None]
) -> float | None:
    """The primal value of a solution's weights and coefficients under other kernels.

    ``values(weights, coef)`` gives K(d)·coef on all rows; None if it does not know. Scale and bias
    of f are the best.
    """
    if solution.criterion not in ("margin", "given") or problem.learns_C:
        return None
    total = 0.0
    for qp, coef in zip(problem.qps, np.atleast_2d(solution.coef), strict=True):
        f = values(solution.weights, coef)
        if f is None:
            return None
        rows = problem.rows
        total += qp.improve(f[rows], max(float(coef @ f), 0.0))[2]
    return total


def _machines(name: str, values: Any, problem: Problem) -> Sequence[Any]:
    """What each machine has of values: all of them, where y has no columns."""
    if not problem.is_sum:
        return [values]
    if np.ndim(values) == 0 or len(values) != len(problem.qps):
        found = np.shape(values)
        raise ValueError(
            f"{name} must have a row for each of {len(problem.qps)} machines, found shape {found}"
        )
    return list(values)


def primal_of(
    problem: Problem, qp: DualQP, d: Array, w: Array, bias: float, larger: float = 1.0
) -> float:
    """The primal value of one machine, in exact arithmetic but for hard margins.

    There a slack within rounding is none. The norm of f counts ``larger`` times.
    """
    rows, values = problem.rows, fine_values(problem.whole, d, w)
    f, error, quad = values.f[rows], values.error[rows], larger * quad_bound(w, values)
    if qp.origin:  # taken off: exact, if the bias is near it
        bias -= qp.origin
        error = error + 0.5 * EPS * abs(bias)
    if qp.is_hard:
        rounding = float(error.max()) + 8.0 * EPS * float(np.abs(f).max())
        return qp.primal_value(f.astype(float), bias, quad, rounding)
    primal = qp.primal_bound(f, error, bias, quad)
    return primal + LAST * (abs(primal) + 2.0 * abs(qp.total * bias))


def _signed_support(problem: Problem, q: Array, d: Array) -> float:
    """An upper bound of σ(q) over signed weights, d among them, for q times the scale."""
    scale = problem.weight_set.scale
    e = np.divide(d, scale, out=np.zeros_like(d), where=scale > 0.0)
    return support(Joint(problem.whole, scale, identity=problem.learns_C), q, e)


def _best_multiple(qps: Sequence[DualQP], v: Array, support: float) -> tuple[Array, float]:
    """The t·v in the boxes with the greatest dual value, and its σ(q)."""
    parts = np.split(v, np.cumsum([qp.size for qp in qps])[:-1])
    bend = sum(qp.bend(part) for qp, part in zip(qps, parts, strict=True)) + support
    rise = float(np.concatenate([qp.linear for qp in qps]) @ v)
    if not (bend > 0.0 and rise > 0.0):
        return v, support
    lower, upper = (
        np.concatenate([getattr(qp, side) for qp in qps]) for side in ("lower", "upper")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(v > 0.0, upper / v, np.where(v < 0.0, lower / v, np.inf))
    t = min(rise / bend, float(room.min()))
    return t * v, t * t * support


def check_weights(d: Array, weight_set: WeightSet) -> None:
    """Complain unless the weights lie in their set."""
    if d.min() < 0.0:
        raise ValueError(
            f"weights must be nonnegative, found {d.min():g}; those of learner='sdp' may be "
            "negative: pass signed=True"
        )
    if not weight_set.contains(d, slack=IN_SET):
        size = weight_set.size(d / weight_set.scale)
        raise ValueError(
            f"weights must lie in their set (norm at most 1), found norm {size:g}; pass "
            "weight_norm, trace and signed as the weights were learned with, or rescale them"
        )


def check_signed_weights(d: Array, problem: Problem) -> None:
    """Complain unless the trace is the one asked for and the combined kernel is semidefinite."""
    whole, scale = problem.whole, problem.weight_set.scale
    used = scale > 0.0
    size = float((d[used] / scale[used]).sum())
    rounding = SUM_ROUNDING * float(np.abs(d[used] / scale[used]).sum())
    if abs(size - 1.0) > max(IN_SET, rounding):
        raise ValueError(
            f"signed weights must give the combined kernel its trace, found {size:.10g} times that"
        )
    if problem.learns_C and d[-1] < 0.0:
        raise ValueError(f"ridge must be a number ≥ 0, found {d[-1]:g}")
    trace = float(d @ whole.traces())
    if problem.learns_C:
        d = np.append(d[:-1], 0.0)
    check_semidefinite(np.asarray(whole.combined(d).dense(), float), trace, whole.precision)


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
