"""The small problem a learner solves between two SVMs: next weights from what is known of J.

    min_{e ∈ Δ}  max_k (a_k − g_k·e)  +  ½ (e − ē)ᵀ(δI + BᵀB)(e − ē)

The cuts a_k − g_k·e are lower bounds of J from past solutions; the quadratic term keeps e near
the centre ē, with the curvature of J in BᵀB where a learner knows it. A primal-dual interior
point method solves it over the few kernels that matter; kernels whose multiplier says that they
should enter join until none is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ENTER = 20  # kernels that may join the working set at a time


def solve_master(
    a: Array, g: Array, center: Array, delta: float, factor: Array | None = None
) -> tuple[Array, Array]:
    """The minimiser e, and the multipliers λ of the cuts (a convex combination)."""
    unit = max(float(np.ptp(g)), 1e-300)
    pull = -delta * center  # linear part of the quadratic term
    if factor is not None:
        pull -= (factor @ center) @ factor
    working = np.unique(np.concatenate([_largest(cut - pull, _ENTER) for cut in g[-3:]]))
    for _ in range(50):
        hessian = delta * np.eye(working.size)
        if factor is not None:
            part = factor[:, working]
            hessian += part.T @ part
        x, multipliers, level = _interior_point(a, g[:, working], pull[working], hessian, unit)
        price = pull - multipliers @ g + level
        if factor is not None:
            price += (part @ x) @ factor
        price[working] = 0.0
        if price.min() >= -1e-9 * unit:
            break
        working = np.union1d(working, _largest(-price, _ENTER, above=1e-9 * unit))
    e = np.zeros(center.size)
    e[working] = x
    return e, multipliers


def _largest(x: Array, count: int, above: float = -np.inf) -> NDArray[np.intp]:
    """Places of the ``count`` largest entries that exceed ``above``."""
    places = np.argpartition(-x, count)[:count] if count < x.size else np.arange(x.size)
    return places[x[places] > above]


def _interior_point(
    a: Array, g: Array, pull: Array, hessian: Array, unit: float
) -> tuple[Array, Array, float]:
    """Mehrotra's predictor-corrector; returns e, λ and the multiplier of Σe = 1.

    Conditions: He + pull − gᵀλ − w + ν = 0,  Σλ = 1,  s = z − a + ge ≥ 0,  Σe = 1,
    e∘w = 0,  s∘λ = 0. Everything is divided by ``unit``, the spread of g.
    """
    size, cuts = pull.size, a.size
    shift = g.min()
    a, g, hessian, pull = (a - a.max()) / unit, (g - shift) / unit, hessian / unit, pull / unit
    e, w = np.full(size, 1.0 / size), np.ones(size)
    lam = np.full(cuts, 1.0 / cuts)
    z = float((a - g @ e).max()) + 1.0
    s = z - a + g @ e
    nu = 0.0
    matrix = np.zeros((size + 2, size + 2))
    for _ in range(60):
        stationary = hessian @ e + pull - lam @ g - w + nu
        short = z - a + g @ e - s
        mu = float(e @ w + s @ lam) / (size + cuts)
        worst = max(np.abs(stationary).max(), np.abs(short).max(), abs(e.sum() - 1.0))
        if mu < 1e-13 and worst < 1e-11:
            break
        ratio = lam / s
        matrix[:size, :size] = hessian + (g.T * ratio) @ g
        matrix[np.arange(size), np.arange(size)] += w / e
        matrix[:size, size] = matrix[size, :size] = ratio @ g
        matrix[size, size] = ratio.sum()
        matrix[:size, size + 1] = matrix[size + 1, :size] = 1.0

        def direction(ew: Array, sl: Array) -> tuple[Array, ...]:
            # ew, sl: what e∘w and s∘λ still miss
            push = (sl - lam * short) / s
            right = np.empty(size + 2)
            right[:size] = -stationary + ew / e + push @ g
            right[size] = lam.sum() - 1.0 + push.sum()
            right[size + 1] = 1.0 - e.sum()
            x = np.linalg.solve(matrix, right)
            de, dz = x[:size], x[size]
            ds = short + dz + g @ de
            return de, dz, ds, (sl - lam * ds) / s, (ew - w * de) / e, x[size + 1]

        try:
            de, dz, ds, dl, dw, dn = direction(-e * w, -s * lam)
            reach = _reach((e, de), (w, dw), (s, ds), (lam, dl))
            after = (e + reach * de) @ (w + reach * dw) + (s + reach * ds) @ (lam + reach * dl)
            aim = mu * (float(after) / (size + cuts) / mu) ** 3
            de, dz, ds, dl, dw, dn = direction(aim - e * w - de * dw, aim - s * lam - ds * dl)
        except np.linalg.LinAlgError:
            break
        reach = min(1.0, 0.995 * _reach((e, de), (w, dw), (s, ds), (lam, dl)))
        e, z, s = e + reach * de, z + reach * dz, s + reach * ds
        lam, w, nu = lam + reach * dl, w + reach * dw, nu + reach * dn
    e[e < 1e-12] = 0.0
    lam = lam / lam.sum()
    return e / e.sum(), lam, unit * (nu + shift / unit)


def _reach(*pairs: tuple[Array, Array]) -> float:
    """The longest step at most 1/0.995 that keeps every x + step·dx nonnegative."""
    step = 1.0 / 0.995
    for x, dx in pairs:
        falling = dx < 0.0
        if falling.any():
            step = min(step, float((-x[falling] / dx[falling]).min()))
    return step
