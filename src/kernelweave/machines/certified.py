"""Both bounds as they hold in exact arithmetic, rounding charged to them.

    primal:  ½(‖f‖² + δ) + Σ_i max(ℓ_i(h_i − e_i), ℓ_i(h_i + e_i)) + r·b       h = c − f − b
    dual:    l(v) − ½σ(q⁺) − |Σv − r|·g

e_i is how exactly f_i is known, δ what that does to ‖f‖², q⁺ ≥ q, and g bounds the slope of the
dual: what it costs to bring Σv to r. A loss is convex: the worst of an interval is one of its ends.
Under a hard margin f is scaled up until no slack is left for any f within the error.

Learners work with plain values; the loop that drives them asks for these before it says "optimal".
``fine`` asks for sums in extended precision (``kernelweave.stacks.rounding``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array
from kernelweave.machines.evaluator import Evaluator, Point
from kernelweave.machines.incumbent import Bound
from kernelweave.machines.machine import QPAnswer, QPMachine
from kernelweave.machines.total import Machine
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.problem import Problem
from kernelweave.problems.weight_sets import WeightSet
from kernelweave.stacks.precision import units_of
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.rounding import (
    Values,
    fine_values,
    plain_values,
    quad_bounds,
    values_of,
)

_LITTLE = 1e-9  # share of the primal that a charge may take without a second look
_FINER = 1e-2  # how much smaller errors are in extended precision, at least
LAST = 64.0 * EPS  # what the last few sums and products may have lost


def certified_point(evaluator: Evaluator, point: Point, fine: bool) -> Point:
    """The point with a primal value that holds in exact arithmetic."""
    d = evaluator.weight_set.scale * point.e

    def certified(machine: QPMachine, answer: QPAnswer) -> QPAnswer:
        return charged(machine.qp, evaluator.stack, d, answer, fine)

    return replace(point, answer=evaluator.machine.mapped(certified, point.answer))


def charged(
    qp: DualQP, stack: Stack, d: Array, answer: QPAnswer, fine: bool, larger: float = 1.0
) -> QPAnswer:
    """``answer`` with the error of its decision values charged to its primal value.

    What is judged are the coefficients that a user gets, after their last rounding. Where it costs
    much, a multiple of f is tried that is a little larger: rows at the margin then stay there for
    every f within the error. The norm of f counts ``larger`` times.
    """
    if not answer.primal < np.inf:
        return answer
    first = answer.scale
    plain = plain_values(stack, d, qp.fold(answer.v), answer.f)

    def values(coef: Array, t: float) -> Values:
        return fine_values(stack, d, coef) if fine else Values(t * plain.f, t * plain.error)

    found = _tried(qp, answer, values, larger, first)
    if not fine and found.primal - answer.primal <= _LITTLE * abs(answer.primal):
        return found
    error = first * float(plain.error.max())
    if fine:
        last = (np.count_nonzero(d) + 16.0) * EPS * first * float(np.abs(answer.f).max())
        error = _FINER * error + last
    if not 0.0 < error < 0.25:
        return found
    more = _tried(qp, answer, values, larger, first / (1.0 - 2.0 * error))
    return min(found, more, key=lambda each: each.primal)


def _tried(
    qp: DualQP, answer: QPAnswer, values_at: Callable[..., Values], larger: float, t: float
) -> QPAnswer:
    """t·f with a bias, and its primal value."""
    coef = t * qp.fold(answer.v)
    values = values_at(coef, t)
    f, quad = values.f, larger * quad_bound(coef, values)
    if qp.is_hard:
        plain = f.astype(float)
        bias = qp.best_bias(plain)
        primal = 0.5 * quad if qp.separates(f, values.error, bias) else np.inf
        if primal == np.inf and t == answer.scale:  # no slack is left at this multiple of f
            more = qp.separate(plain, values.error + 4.0 * EPS * np.abs(plain), quad)[0]
            return _tried(qp, answer, values_at, larger, t * more * (1.0 + LAST))
    else:
        bias = answer.bias if t == answer.scale else qp.best_bias(f.astype(float))
        primal = qp.primal_bound(f, values.error, bias, quad)
    return replace(answer, scale=t, bias=bias, primal=primal + LAST * qp.primal_size(primal, bias))


def quad_bound(coef: Array, values: Values) -> float:
    """An upper bound of coefᵀK(d)coef."""
    quad = float(coef @ values.f) + float(np.abs(coef) @ values.error)
    terms = coef.size * float(np.finfo(values.f.dtype).eps)
    return max(quad + terms * float(np.abs(coef) @ np.abs(values.f)), 0.0)


def certified_bound(evaluator: Evaluator, bound: Bound, fine: bool) -> Bound:
    """The bound that its v proves in exact arithmetic; that of v = 0 where it proves less."""
    machine, stack, weight_set = evaluator.machine, evaluator.stack, evaluator.weight_set
    v = machine.clipped(bound.v)
    parts = machine.coefficients(v)
    q = bound.q if np.array_equal(v, bound.v) else None
    if q is None:
        q = weight_set.scale * machine.quad_forms(stack, v)
    q = quad_bounds(stack, weight_set.scale, parts, q, fine, weight_set.largest_counts)
    most = weight_set.unit_support(np.maximum(q, 0.0))
    value = proven_dual(machine, v, most, largest_diagonal(stack, weight_set))
    return _or_first(evaluator, Bound(value, v, bound.by))


def certified_given(evaluator: Evaluator, point: Point, fine: bool) -> Bound:
    """The same at given weights: what the machine alone proves, or v = 0."""
    machine, d = evaluator.machine, evaluator.weight_set.scale * point.e
    v = machine.clipped(point.v)
    known: Sequence[Array] | None = None
    if not fine:
        same = np.array_equal(v, point.v)
        known = point.answer.values if same else [point.K @ w for w in machine.coefficients(v)]
    value = proven_dual_at(machine, evaluator.stack, d, v, known)
    return _or_first(evaluator, Bound(value, v, "machine"))


def proven_dual_at(
    machine: Machine, stack: Stack, d: Array, v: Array, known: Sequence[Array] | None = None
) -> float:
    """The dual value of v at weights d in exact arithmetic.

    ``known`` are the decision values of each machine; None computes them in extended precision.
    """
    parts = machine.coefficients(v)
    pairs = zip(parts, [None] * len(parts) if known is None else known, strict=True)
    most = sum(quad_bound(w, values_of(stack, d, w, f)) for w, f in pairs)
    return proven_dual(machine, v, most, float(np.abs(d @ stack.diagonals()).max()))


def proven_dual(machine: Machine, v: Array, most: float, largest: float) -> float:
    """The dual value in exact arithmetic, where vᵀKv ≤ ``most`` and all K_ii ≤ ``largest``.

    |(Kv)_i| ≤ √(K_ii vᵀKv) bounds what it costs to bring Σv to r.
    """
    linear = machine.dual_floor(v, math.sqrt(max(largest * most, 0.0)))
    return linear - 0.5 * most - LAST * (abs(linear) + most)


def largest_diagonal(stack: Stack, weight_set: WeightSet) -> float:
    """A bound of K(d)_ii for all weights of the set."""
    return float((weight_set.scale * stack.diagonals().max(axis=1)).max()) * stack.m


def _or_first(evaluator: Evaluator, proven: Bound) -> Bound:
    """The bound, or that of v = 0 where this is feasible and proves more."""
    if proven.value >= 0.0:  # v = 0 proves no more
        return proven
    first = evaluator.first_bound()
    return proven if first.v.any() else first


def charged_ball(
    problem: Problem, answer: QPAnswer, d: Array, beta: Array, radius2: float, fine: bool
) -> QPAnswer:
    """The answer at weights d, whose kernel has a ball around Σ β_i φ_i, charged.

    Its primal is ½R²‖f‖² plus the loss; R² is at most the largest distance² from that center,
    ``radius2`` up to rounding.
    """
    larger = radius_bounds(problem.stack, d, beta, radius2, fine)[0]
    return charged(problem.qp, problem.stack, d, answer, fine, larger)


def radius_bounds(
    stack: Stack, d: Array, beta: Array, radius2: float, fine: bool, ridge: float = 0.0
) -> tuple[float, float]:
    """Upper and lower bound of R²(K(d) + ridge·I), from the ball around Σ β_i φ_i.

    Not ``fine``: both are ``radius2``, up to rounding.
    """
    norms = d @ stack.diagonals() + ridge
    size = float(np.abs(norms).max())
    if not fine:
        error = 4.0 * units_of(stack).of(2 * beta.size + 16) * size
        return radius2 + error, max(radius2 - error, 0.0)
    values = fine_values(stack, d, beta)
    spread = float(beta @ values.f + ridge * (beta @ beta))
    far = norms - 2.0 * (values.f + ridge * beta)
    error = 4.0 * float(values.error.max()) + (d.size + 16.0) * EPS * size
    return float(far.max() + spread) + error, max(float(norms @ beta) - spread - error, 0.0)
