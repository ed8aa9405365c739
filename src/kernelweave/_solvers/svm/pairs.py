"""Pair steps of sequential minimal optimization, compiled.

    max_v  cᵀv − ½ vᵀKv − ½ Σ ρ_i v_i²    s.t.  Σv = r,  lo ≤ v ≤ hi

Two variables at a time move against each other: i, the one with the steepest ascent among
those that may grow, and j, the one among those that may shrink that promises most to second
order. The loop stops on the duality gap Σ ℓ_i(h_i) − h_i v_i + ½ρv_i², h = c − f − b, which is
computed from the gradient it keeps anyway.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelweave._core.jit import inlined, jit
from kernelweave._core.types import Array

BUDGET, GAP, KKT, UNBOUNDED = 0, 1, 2, 3  # why it stopped

_CHECK_EVERY = 16  # steps between looks at the duality gap


class State(NamedTuple):
    """A dual QP over some rows but for its kernel: c, the bounds, the ridges, v and the gradient.

    ``v`` and ``gradient`` change in place. ``offset`` is the dual value of variables left out.
    """

    linear: Array
    lower: Array
    upper: Array
    ridge: Array
    v: Array
    gradient: Array
    offset: float

    def value(self) -> float:
        """The dual value."""
        return self.offset + 0.5 * float((self.linear + self.gradient) @ self.v)


class Limits(NamedTuple):
    """When to stop: after ``budget`` steps, at the relative gap or the violation given.

    Curvature below the share ``flat`` of the pair's diagonal counts as none; ``tiny`` stands for
    it where the diagonal is zero.
    """

    budget: int
    gap_tol: float
    kkt_tol: float
    flat: float
    tiny: float


@jit
def _largest(x):  # type: ignore[no-untyped-def]
    """Place of the largest number in ``x``.

    Bits of floating point numbers, those below the sign turned round where it is set, sort as
    integers: a maximum that vectorizes without a promise that nothing is NaN.
    """
    bits = x.view(np.int64)
    best = np.int64(-(2**63))
    for k in range(bits.size):
        best = max(best, bits[k] ^ ((bits[k] >> 63) & np.int64(2**63 - 1)))
    best ^= (best >> 63) & np.int64(2**63 - 1)
    place = bits.size
    for k in range(bits.size):
        place = min(place, k if bits[k] == best else bits.size)
    return place


@inlined
def _steepest(gradient, may_grow, scores):  # type: ignore[no-untyped-def]
    """Place of the largest gradient among the variables that may grow; -1 if none may."""
    for k in range(gradient.size):
        scores[k] = gradient[k] if may_grow[k] else -np.inf
    place = _largest(scores)
    return place if may_grow[place] else -1


@inlined
def value_and_gap(state, bias):  # type: ignore[no-untyped-def]
    """Dual value of these variables, and duality gap of v at the given bias."""
    linear, lower, upper, ridge = state.linear, state.lower, state.upper, state.ridge
    v, gradient = state.v, state.gradient
    value = 0.0
    gap = 0.0
    for k in range(v.size):
        value += 0.5 * (linear[k] + gradient[k]) * v[k]
        h = gradient[k] - bias
        if ridge[k] > 0.0:
            h += ridge[k] * v[k]
            u = min(max(h / ridge[k], lower[k]), upper[k])
            gap += h * (u - v[k]) - 0.5 * ridge[k] * (u * u - v[k] * v[k])
        elif h > 0.0:
            gap += h * (upper[k] - v[k])
        elif h < 0.0:
            gap += h * (lower[k] - v[k])
    return value, gap


@inlined
def _gains(top, gradient, may_fall, bend_i, bends, row, gains, limits):  # type: ignore[no-untyped-def]
    """What each variable that may fall promises against the one at ``top``, to second order."""
    for k in range(gradient.size):
        rise = top - gradient[k]
        rise = rise if rise > 0.0 and may_fall[k] else 0.0
        whole = bend_i + bends[k]
        least = limits.flat * whole + limits.tiny
        bend = whole - 2.0 * row[k]
        gains[k] = rise * rise / (bend if bend > least else least)


@jit
def iterate(K, bends, state, limits):  # type: ignore[no-untyped-def]
    """At most ``limits.budget`` pair steps on v and gradient, in place.

    ``bends`` are K_ii + ρ_i, by variable. Returns the steps taken and why it stopped.
    """
    lower, upper, v, gradient = state.lower, state.upper, state.v, state.gradient
    ridge = state.ridge
    n = K.shape[0]
    copies = v.size // n
    judged = np.inf  # the violation when the gap was last looked at
    may_grow, may_fall = np.empty(v.size, np.bool_), np.empty(v.size, np.bool_)
    for k in range(v.size):
        may_grow[k], may_fall[k] = v[k] < upper[k], v[k] > lower[k]
    scores = np.empty(v.size)
    for step in range(limits.budget):
        i = _steepest(gradient, may_grow, scores)
        if i < 0:
            return step, KKT
        top = gradient[i]
        row = i % n
        first = K[row]
        for base in range(copies):
            part = slice(base * n, base * n + n)
            _gains(
                top, gradient[part], may_fall[part], bends[i], bends[part], first, scores[part],
                limits,
            )  # fmt: skip
        j = _largest(scores)
        if scores[j] <= 0.0:
            return step, KKT
        if step % _CHECK_EVERY == 0:
            bottom = top
            for k in range(v.size):
                if may_fall[k] and gradient[k] < bottom:
                    bottom = gradient[k]
            if top - bottom <= limits.kkt_tol:
                return step, KKT
            if top - bottom < 0.95 * judged:
                judged = top - bottom
                value, gap = value_and_gap(state, 0.5 * (top + bottom))
                if gap < np.inf and gap <= limits.gap_tol * abs(value + state.offset + gap):
                    return step, GAP
        other = j % n
        curvature = bends[i] + bends[j] - 2.0 * first[other]
        least = limits.flat * (bends[i] + bends[j])
        room = min(upper[i] - v[i], v[j] - lower[j])
        if curvature <= least:
            if room == np.inf:
                return step, UNBOUNDED
            curvature = max(least, limits.tiny)
        move = min((top - gradient[j]) / curvature, room)
        v[i] = upper[i] if move == upper[i] - v[i] else v[i] + move
        v[j] = lower[j] if move == v[j] - lower[j] else v[j] - move
        may_grow[i], may_fall[i] = v[i] < upper[i], v[i] > lower[i]
        may_grow[j], may_fall[j] = v[j] < upper[j], v[j] > lower[j]
        second = K[other]
        for base in range(copies):
            part = gradient[base * n : base * n + n]
            for k in range(n):
                part[k] -= move * (first[k] - second[k])
        gradient[i] -= ridge[i] * move
        gradient[j] += ridge[j] * move
    return limits.budget, BUDGET
