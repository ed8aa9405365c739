"""Pair steps on the regularized dual of the support kernel machine, compiled [bach2004, §4.2].

Two variables at a time move against each other: those that violate (OPT_6) most. Along the pair
vᵀK_j v is a parabola for every kernel, so that G and its derivatives cost O(m) there. Several
kernels with a weight leave no closed form, their θ_j being square roots; Newton's method inside a
bracket finds the minimum, mostly in one step: two looks at a line, where the method of Brent, which
the paper suggests, takes four. Both are here.

A compiled function here calls only compiled functions of this file: the disk cache does not
notice edits elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelweave._core.jit import jit
from kernelweave._core.types import Array, Places

BUDGET, GAP, KKT, UNBOUNDED = 0, 1, 2, 3

_CHECK_EVERY = 16  # steps between looks at the duality gap
_CLOSE = 0.05  # share of its slope that a search along a line may leave
_FAR = 1e15  # no minimum this far along a line is no minimum at all


class Target(NamedTuple):
    """The kernels in play, and how each is regularized: a_j > 0 and d_j ≥ 0."""

    kernels: Places
    a: Array
    d: Array


class Line(NamedTuple):
    """G along a line, but for γ: vᵀK_j v is q_j + 2x·slopes_j + x²·bends_j at x.

    ``rise`` is the slope of the linear part at 0, ``ridge`` its curvature, ``room`` the longest x.
    """

    q: Array
    slopes: Array
    bends: Array
    rise: float
    ridge: float
    room: float


class Variables(NamedTuple):
    """The variables of the points held, with all that steps keep up to date, in place.

    ``products`` are the K_j v, ``q`` the vᵀK_j v, ``gradient`` that of −G. ``offset`` is what
    variables not held add to cᵀv − ½ρ‖v‖².
    """

    linear: Array
    lower: Array
    upper: Array
    ridge: Array
    v: Array
    gradient: Array
    products: Array
    q: Array
    offset: float


# ---- along a line ------------------------------------------------------------------------------


@jit
def _mean_above(sizes, target, gamma):  # type: ignore[no-untyped-def]
    """The γ that would be least if just the kernels above ``gamma`` counted."""
    a, d = target.a, target.d
    top, bottom = 0.0, 1.0
    for j in range(sizes.size):
        if sizes[j] > gamma * d[j]:
            weight = d[j] / (a[j] * a[j])
            top += weight * sizes[j]
            bottom += weight * d[j]
    return top / bottom


@jit
def level(sizes, target, guess):  # type: ignore[no-untyped-def]
    """The minimizing γ, by Newton's method on a concave, piecewise linear function.

    Whatever the guess, one step leads below the root, and further ones up to it.
    """
    gamma = _mean_above(sizes, target, guess)
    while True:
        higher = _mean_above(sizes, target, gamma)
        if not higher > gamma:
            return gamma
        gamma = higher


@jit
def _slope(x, line, target, gamma, sizes):  # type: ignore[no-untyped-def]
    """First and second derivative of the part of G that the kernels make, and γ, at x.

    ``sizes`` are set to the roots of the vᵀK_j v there.
    """
    q, slopes, bends, a, d = line.q, line.slopes, line.bends, target.a, target.d
    for j in range(q.size):
        sizes[j] = np.sqrt(max(q[j] + x * (2.0 * slopes[j] + x * bends[j]), 0.0))
    gamma = level(sizes, target, gamma)
    first, second, mixed, total = 0.0, 0.0, 0.0, 1.0
    for j in range(q.size):
        excess = sizes[j] - gamma * d[j]
        if excess > 0.0:
            weight = 1.0 / (a[j] * a[j])
            growth = (slopes[j] + x * bends[j]) / sizes[j]
            first += weight * excess * growth
            second += weight * (growth * growth + excess * (bends[j] - growth * growth) / sizes[j])
            mixed += weight * d[j] * growth
            total += weight * d[j] * d[j]
    return first, second - mixed * mixed / total, gamma


@jit
def search(line, target, gamma, sizes):  # type: ignore[no-untyped-def]
    """The x in [0, room] where G is least, up to ``_CLOSE``, and γ there; infinite if unbounded."""
    rise, ridge, room = line.rise, line.ridge, line.room
    start, bend, gamma = _slope(0.0, line, target, gamma, sizes)
    start -= rise
    bend += ridge
    if start >= 0.0:
        return 0.0, gamma
    low, high = 0.0, np.inf
    x = min(-start / bend, room) if bend > 0.0 else room
    if x == np.inf:
        x = 1.0
    for _ in range(100):
        slope, bend, gamma = _slope(x, line, target, gamma, sizes)
        slope += ridge * x - rise
        bend += ridge
        if abs(slope) <= -_CLOSE * start or (slope < 0.0 and x == room):
            return x, gamma
        if slope > 0.0:
            high = x
        else:
            low = x
        step = x - slope / bend if bend > 0.0 else np.inf
        if high == np.inf:
            x = min(max(step, 2.0 * x), 10.0 * x, room)
            if x > _FAR:
                return np.inf, gamma
        elif low < step < high:
            x = step
        else:
            x = 0.5 * (low + high)
    return x, gamma


@jit
def brent(line, target, gamma, sizes):  # type: ignore[no-untyped-def]
    """The same by Brent's method: the root of the slope by inverse interpolation or halving.

    The root lies between ``best``, where the slope is least in size, and ``far``; ``old`` is the
    ``best`` before. The bracket begins with the longest x that needs no look.
    """
    rise, ridge, room = line.rise, line.ridge, line.room
    slope, bend, gamma = _slope(0.0, line, target, gamma, sizes)
    start = slope - rise
    if start >= 0.0:
        return 0.0, gamma
    far, far_slope = 0.0, start
    best = min(-start / (bend + ridge), room) if bend + ridge > 0.0 else min(room, 1.0)
    while True:
        slope, _, gamma = _slope(best, line, target, gamma, sizes)
        best_slope = slope + ridge * best - rise
        if best_slope >= 0.0 or best == room:
            break
        far, far_slope = best, best_slope
        best = min(4.0 * best, room)
        if best > _FAR:
            return np.inf, gamma
    old, old_slope, last, before = far, far_slope, best - far, best - far
    for _ in range(100):
        if abs(best_slope) <= -_CLOSE * start or (best == room and best_slope < 0.0):
            break
        if (best_slope > 0.0) == (far_slope > 0.0):
            far, far_slope, last, before = old, old_slope, best - old, best - old
        if abs(far_slope) < abs(best_slope):
            old, best, far = best, far, best
            old_slope, best_slope, far_slope = best_slope, far_slope, best_slope
        half = 0.5 * (far - best)
        step = _interpolated(best, best_slope, old, old_slope, far, far_slope)
        inside = 0.0 < step / half < 1.5 and abs(step) < 0.5 * abs(before)
        before, last = (last, step) if inside else (half, half)
        old, old_slope = best, best_slope
        best += last
        slope, _, gamma = _slope(best, line, target, gamma, sizes)
        best_slope = slope + ridge * best - rise
    return best, gamma


@jit
def _interpolated(best, best_slope, old, old_slope, far, far_slope):  # type: ignore[no-untyped-def]
    """From ``best`` to the root of the inverse parabola through all three, or of the secant."""
    s = best_slope / old_slope
    if old == far:
        return (far - best) * s / (s - 1.0)
    q, r = old_slope / far_slope, best_slope / far_slope
    top = s * ((far - best) * q * (q - r) - (best - old) * (r - 1.0))
    return -top / ((q - 1.0) * (r - 1.0) * (s - 1.0))


# ---- pair steps --------------------------------------------------------------------------------


@jit
def weights(sizes, target, gamma, eta):  # type: ignore[no-untyped-def]
    """eta ← η; the value ½γ² + ½ Σ (θ_j − γd_j)₊²/a_j²."""
    a, d = target.a, target.d
    value = 0.5 * gamma * gamma
    for j in range(sizes.size):
        excess = max(sizes[j] - gamma * d[j], 0.0)
        eta[j] = 0.0
        if excess > 0.0:
            eta[j] = excess / (sizes[j] * a[j] * a[j])
            value += 0.5 * (excess / a[j]) ** 2
    return value


@jit
def value_and_gap(linear, lower, upper, ridge, v, gradient, bias):  # type: ignore[no-untyped-def]
    """cᵀv − ½ρ‖v‖², and the duality gap at the given bias, over these variables."""
    value, gap = 0.0, 0.0
    for k in range(v.size):
        value += linear[k] * v[k] - 0.5 * ridge[k] * v[k] * v[k]
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


@jit
def set_gradient(linear, ridge, v, f, gradient):  # type: ignore[no-untyped-def]
    """gradient ← c − f − ρv, f repeated for every variable of a row."""
    p = f.size
    for base in range(0, v.size, p):
        for k in range(p):
            gradient[base + k] = linear[base + k] - f[k] - ridge[base + k] * v[base + k]


@jit
def iterate(block, target, x, gamma, budget, gap_tol, kkt_tol, by_brent):  # type: ignore[no-untyped-def]
    """At most ``budget`` pair steps on the variables ``x``, in place.

    ``block[j, i]`` is row i of kernel j. Returns the steps taken, why it stopped, and γ.
    """
    linear, lower, upper, ridge = x.linear, x.lower, x.upper, x.ridge
    v, gradient, products, q = x.v, x.gradient, x.products, x.q
    kernels = target.kernels
    m, p = products.shape
    sizes, eta, slopes, bends = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    f = np.empty(p)
    judged = np.inf
    for j in range(m):
        sizes[j] = np.sqrt(max(q[j], 0.0))
    for step in range(budget):
        top, bottom, i, o = -np.inf, np.inf, -1, -1
        for k in range(v.size):
            if gradient[k] > top and v[k] < upper[k]:
                top, i = gradient[k], k
            if gradient[k] < bottom and v[k] > lower[k]:
                bottom, o = gradient[k], k
        if top - bottom <= kkt_tol or i < 0 or o < 0:
            return step, KKT, gamma
        if step % _CHECK_EVERY == 0 and top - bottom < 0.95 * judged:
            judged = top - bottom
            value, gap = value_and_gap(
                linear, lower, upper, ridge, v, gradient, 0.5 * (top + bottom)
            )
            value += x.offset - weights(sizes, target, gamma, eta)
            if gap < np.inf and gap <= gap_tol * abs(value + gap):
                return step, GAP, gamma
        here, there = i % p, o % p
        for j in range(m):
            K = block[kernels[j]]
            slopes[j] = products[j, here] - products[j, there]
            bends[j] = K[here, here] + K[there, there] - 2.0 * K[here, there]
        room = min(upper[i] - v[i], v[o] - lower[o])
        rise = linear[i] - linear[o] - (ridge[i] * v[i] - ridge[o] * v[o])
        line = Line(q, slopes, bends, rise, ridge[i] + ridge[o], room)
        if by_brent:
            move, gamma = brent(line, target, gamma, sizes)
        else:
            move, gamma = search(line, target, gamma, sizes)
        if move == np.inf:
            return step, UNBOUNDED, gamma
        if move == 0.0:
            return step, KKT, gamma
        v[i] = upper[i] if move == upper[i] - v[i] else v[i] + move
        v[o] = lower[o] if move == v[o] - lower[o] else v[o] - move
        weights(sizes, target, gamma, eta)
        f[:] = 0.0
        for j in range(m):
            q[j] += move * (2.0 * slopes[j] + move * bends[j])
            part, weight = products[j], eta[j]
            one, other = block[kernels[j], here], block[kernels[j], there]
            for k in range(p):
                part[k] += move * (one[k] - other[k])
                f[k] += weight * part[k]
        set_gradient(linear, ridge, v, f, gradient)
    return budget, BUDGET, gamma


@jit
def assemble(block, kernels, eta, rows, out):  # type: ignore[no-untyped-def]
    """Lower triangle of out ← that of Σ_j η_j K_j at the given rows and columns."""
    for i in range(rows.size):
        for j in range(eta.size):
            if eta[j] > 0.0:
                row = block[kernels[j], rows[i]]
                for k in range(i + 1):
                    out[i, k] += eta[j] * row[rows[k]]
