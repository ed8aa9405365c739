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
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kernelweave._core.tolerances import EPS, FINER, LAST, LITTLE
from kernelweave._core.types import Array
from kernelweave.machines.evaluator import Bound, Evaluator
from kernelweave.machines.machine import Fit, Machine, Point
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.rounding import (
    Values,
    fine_values,
    plain_values,
    quad_bounds,
    row_norms,
    values_of,
)


def expect(machine: Machine, point: Point, bound: Bound) -> None:
    """Tell the stack which vectors both bounds are made of: one pass may then serve both."""
    scales = point.fits[:, 1]
    models = map(np.multiply, scales, machine.coefficients(point.v))
    proofs = machine.coefficients(np.clip(bound.v, *machine.limits))
    machine.stack.expect([*models, *proofs])


def certified_point(machine: Machine, point: Point, fine: bool, larger: float = 1.0) -> Point:
    """The point with primal values that hold in exact arithmetic.

    What is judged are the coefficients that a user gets, after their last rounding. The norm of f
    counts ``larger`` times.
    """
    d, fits = machine.scale * point.e, point.fits.copy()
    for c, (qp, coef) in enumerate(zip(machine.qps, machine.coefficients(point.v), strict=True)):
        fit = fits[c].tolist()
        if fit[0] < np.inf:
            values, anew = plain_values(machine.stack, d, coef, point.f[c]), fine
            if fine and machine.stack.units.fine >= EPS:  # multiples of such sums are as exact
                values, anew = _of_multiples(machine.stack, d, coef), False
            charge = _Charge(qp, machine.stack, d, coef, values, fit, anew, larger)
            fits[c] = charge.least()
    return replace(point, fits=fits)


def _of_multiples(stack: Stack, d: Array, coef: Array) -> Values:
    """f = K(d)coef in fine sums, and how far t·f may be from K(d) times the rounded t·coef."""
    values, norms = fine_values(stack, d, coef), row_norms(stack, d)
    return Values(values.f, values.error + 2.0 * EPS * norms * float(norms @ np.abs(coef)))


class _Charge(NamedTuple):
    """What the error of f costs the primal value of one machine: that of t·f, for any t.

    ``plain`` is f as it was computed, at t = 1; ``fit`` its primal value, scale and bias.
    """

    qp: DualQP
    stack: Stack
    d: Array
    coef: Array
    plain: Values
    fit: Fit
    fine: bool
    larger: float

    def least(self) -> Fit:
        """At the scale of the fit, or a little above it, whichever is less.

        Where the charge is large, rows at the margin have slacks of the size of the error, each
        times C. With t = 1/(1 − 2ε), ε ≥ |error| of f, they stay on their side for every f within
        the error.
        """
        value, first, _ = self.fit
        found = self.at(first)
        if not self.fine and found[0] - value <= LITTLE * abs(value):
            return found
        error = first * float(self.plain.error.max())
        if self.fine:  # that of extended precision, and of the last rounding to double precision
            terms = (np.count_nonzero(self.d) + 16.0) * EPS
            error = FINER * error + terms * first * float(np.abs(self.plain.f).max())
        if not 0.0 < error < 0.25:
            return found
        return min(found, self.at(first / (1.0 - 2.0 * error)))

    def at(self, t: float) -> Fit:
        """t·f with a bias, and its primal value."""
        qp, coef = self.qp, t * self.coef
        values = Values(t * self.plain.f, t * self.plain.error)
        if self.fine:
            values = fine_values(self.stack, self.d, coef)
        f, error, quad = values.f, values.error, self.larger * quad_bound(coef, values)
        if qp.is_hard:
            plain = f.astype(float)
            bias = qp.best_bias(plain)
            primal = 0.5 * quad if qp.separates(f, error, bias) else np.inf
            if primal == np.inf and t == self.fit[1]:  # a row is on the wrong side: f is scaled up
                more = qp.separate(plain, error + 4.0 * EPS * np.abs(plain), quad)[0]
                return self.at(t * more * (1.0 + LAST))
        else:
            bias = self.fit[2] if t == self.fit[1] else qp.best_bias(f.astype(float))
            primal = qp.primal_bound(f, error, bias, quad)
        size = abs(primal) + 2.0 * abs(qp.total * bias)  # all terms but r·b are positive
        return primal + LAST * size, t, bias


def quad_bound(coef: Array, values: Values) -> float:
    """An upper bound of coefᵀK(d)coef."""
    quad = float(coef @ values.f) + float(np.abs(coef) @ values.error)
    terms = coef.size * float(np.finfo(values.f.dtype).eps)
    return max(quad + terms * float(np.abs(coef) @ np.abs(values.f)), 0.0)


def certified_bound(evaluator: Evaluator, bound: Bound, fine: bool) -> Bound:
    """The bound that its v proves in exact arithmetic; that of v = 0 where it proves less."""
    machine, weight_set = evaluator.machine, evaluator.weight_set
    v = np.clip(bound.v, *machine.limits)
    known = bound.q if np.array_equal(v, bound.v) else None
    known = machine.quads(v) if known is None else known
    most = most_quads(machine, v, fine, weight_set.is_simplex, known)
    value = proven_dual(machine, v, weight_set.unit_support(most))
    proven = Bound(value, v, bound.by, q=known)
    return _or_first(evaluator, proven) if value < 0.0 else proven


def most_quads(
    machine: Machine, v: Array, fine: bool, largest: bool, q: Array | None = None
) -> Array:
    """Upper bounds of all s_m vᵀK_m v, as given or anew; tight for the ``largest`` at least."""
    q, parts = machine.quads(v) if q is None else q, machine.coefficients(v)
    most = quad_bounds(machine.stack, machine.scale, parts, q, fine, largest)
    return np.maximum(most, machine.least_quad)


def certified_given(evaluator: Evaluator, point: Point, fine: bool) -> Bound:
    """The same at given weights: what the machine alone proves, or v = 0."""
    machine = evaluator.machine
    v = np.clip(point.v, *machine.limits)
    known: Iterable[Array] | None = None
    if not fine:
        same = np.array_equal(v, point.v)
        known = point.f if same else map(point.K.__matmul__, machine.coefficients(v))
    value = proven_dual_at(machine, machine.scale * point.e, v, known)
    proven = Bound(value, v, "machine")
    return _or_first(evaluator, proven) if value < 0.0 else proven


def proven_dual_at(
    machine: Machine, d: Array, v: Array, known: Iterable[Array] | None = None
) -> float:
    """The dual value of v at weights d in exact arithmetic.

    ``known`` are the decision values of each machine; None computes them in extended precision.
    """
    parts, stack = machine.coefficients(v), machine.stack
    pairs = zip(parts, [None] * len(parts) if known is None else known, strict=True)
    most = sum(quad_bound(w, values_of(stack, d, w, f)) for w, f in pairs)
    return proven_dual(machine, v, most, float(np.abs(d @ stack.diagonals()).max()))


def proven_dual(machine: Machine, v: Array, most: float, largest: float | None = None) -> float:
    """The dual value in exact arithmetic, where vᵀKv ≤ ``most`` and all K_ii ≤ ``largest``.

    |(Kv)_i| ≤ √(K_ii vᵀKv) bounds what it costs to bring Σv to r. By default K_ii may be that of
    any weights.
    """
    if largest is None:
        stack = machine.stack
        largest = float((machine.scale * stack.diagonals().max(axis=1)).max()) * stack.m
    slope = math.sqrt(max(largest, 0.0)) * math.sqrt(max(most, 0.0))
    linear = machine.dual_floor(v, slope)
    return linear - 0.5 * most - LAST * (abs(linear) + most)


def _or_first(evaluator: Evaluator, proven: Bound) -> Bound:
    """A bound below 0, or that of v = 0 where this is feasible: it proves 0."""
    first = evaluator.first_bound()
    return proven if first.v.any() else first
