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

from .._jit import jit

Array = NDArray[np.float64]

_ENTER = 20  # kernels that may join the working set at a time


def solve_master(
    a: Array, g: Array, center: Array, delta: float, factor: Array | None = None
) -> tuple[Array, Array]:
    """The minimiser e, and the multipliers λ of the cuts (a convex combination)."""
    unit = max(float(np.abs((a - g @ center).max())), 1e-300)
    pull = -delta * center  # linear part of the quadratic term
    if factor is not None:
        pull -= (factor @ center) @ factor
    likely = [_largest(cut - pull, _ENTER) for cut in g[-3:]]
    if np.count_nonzero(center) <= 3 * _ENTER:
        likely.append(np.flatnonzero(center))
    working = np.unique(np.concatenate(likely))
    for _ in range(50):
        hessian = delta * np.eye(working.size)
        if factor is not None:
            part = factor[:, working]
            hessian += part.T @ part
        columns = np.ascontiguousarray(g[:, working])
        x, multipliers, level = _interior_point(a, columns, pull[working], hessian, unit)
        price = pull - multipliers @ g + level
        if factor is not None:
            price += (part @ x) @ factor
        price[working] = 0.0
        if price.min() >= -1e-10 * unit:
            break
        working = np.union1d(working, _largest(-price, _ENTER, above=1e-10 * unit))
    e = np.zeros(center.size)
    e[working] = x
    return e, multipliers


def _largest(x: Array, count: int, above: float = -np.inf) -> NDArray[np.intp]:
    """Places of the ``count`` largest entries that exceed ``above``."""
    places = np.argpartition(-x, count)[:count] if count < x.size else np.arange(x.size)
    return places[x[places] > above]


@jit
def _interior_point(a, g, pull, hessian, unit):  # type: ignore[no-untyped-def]
    """Mehrotra's predictor-corrector; returns e, λ and the multiplier of Σe = 1.

    Conditions: He + pull − gᵀλ − w + ν = 0,  Σλ = 1,  s = z − a + ge ≥ 0,  Σe = 1,
    e∘w = 0,  s∘λ = 0. Everything is divided by ``unit``, the size of J.
    """
    size, cuts = pull.size, a.size
    shift = g.min()
    a, g, hessian, pull = (a - a.max()) / unit, (g - shift) / unit, hessian / unit, pull / unit
    e, w = np.full(size, 1.0 / size), np.ones(size)
    lam, ratio = np.full(cuts, 1.0 / cuts), np.empty(cuts)
    z = (a - g @ e).max() + 1.0
    s = z - a + g @ e
    nu = 0.0
    L = np.empty((size, size))
    row = np.empty((size, cuts))
    along_z, along_nu = np.empty(size), np.empty(size)
    for _ in range(60):
        stationary = hessian @ e + pull - lam @ g - w + nu
        short = z - a + g @ e - s
        excess = e.sum() - 1.0
        mu = ((e * w).sum() + (s * lam).sum()) / (size + cuts)
        worst = max(np.abs(stationary).max(), np.abs(short).max(), abs(excess))
        if mu < 1e-13 and worst < 1e-11:
            break
        ratio[:] = lam / s
        # L Lᵀ = H + diag(w/e) + gᵀ diag(λ/s) g
        for i in range(size):
            for k in range(cuts):
                row[i, k] = g[k, i] * np.sqrt(ratio[k])
        for i in range(size):
            for j in range(i + 1):
                total = hessian[i, j]
                for k in range(cuts):
                    total += row[i, k] * row[j, k]
                if i == j:
                    total += w[i] / e[i]
                for k in range(j):
                    total -= L[i, k] * L[j, k]
                if i == j:
                    L[i, i] = np.sqrt(max(total, 1e-300))
                else:
                    L[i, j] = total / L[j, j]
        border = ratio @ g
        along_z[:] = border
        along_nu[:] = 1.0
        _solve_factored(L, along_z)
        _solve_factored(L, along_nu)
        # Schur complement of (z, ν)
        zz = ratio.sum() - border @ along_z
        zn = -(border @ along_nu)
        nn = -along_nu.sum()
        determinant = zz * nn - zn * zn
        if not abs(determinant) > 0.0:
            break
        ew, sl = -e * w, -s * lam  # what e∘w and s∘λ still miss
        reach = 0.0
        for corrector in range(2):
            push = (sl - lam * short) / s
            de = -stationary + ew / e + push @ g
            _solve_factored(L, de)
            right_z = lam.sum() - 1.0 + push.sum() - border @ de
            right_n = -excess - de.sum()
            dz = (nn * right_z - zn * right_n) / determinant
            dn = (zz * right_n - zn * right_z) / determinant
            de = de - along_z * dz - along_nu * dn
            ds = short + dz + g @ de
            dl = (sl - lam * ds) / s
            dw = (ew - w * de) / e
            reach = min(min(_reach(e, de), _reach(w, dw)), min(_reach(s, ds), _reach(lam, dl)))
            if corrector == 0:
                after = ((e + reach * de) * (w + reach * dw)).sum()
                after += ((s + reach * ds) * (lam + reach * dl)).sum()
                aim = mu * (after / (size + cuts) / mu) ** 3
                ew, sl = aim - e * w - de * dw, aim - s * lam - ds * dl
        if not abs(dz + dn + de.sum() + ds.sum() + dl.sum() + dw.sum()) < np.inf:
            break  # rounding has the last word: the point so far is as good as it gets
        reach = min(1.0, 0.995 * reach)
        e, z, s = e + reach * de, z + reach * dz, s + reach * ds
        lam, w, nu = lam + reach * dl, w + reach * dw, nu + reach * dn
    for i in range(size):
        if e[i] < 1e-9:
            e[i] = 0.0
    return e / e.sum(), lam / lam.sum(), unit * nu + shift


@jit
def _solve_factored(L, x):  # type: ignore[no-untyped-def]
    """X ← (LLᵀ)⁻¹ x."""
    size = x.size
    for i in range(size):
        total = x[i]
        for k in range(i):
            total -= L[i, k] * x[k]
        x[i] = total / L[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= L[i, k] * x[i]


@jit
def _reach(x, dx):  # type: ignore[no-untyped-def]
    """The longest step, at most 1/0.995, that keeps x + step·dx nonnegative."""
    step = 1.0 / 0.995
    for k in range(x.size):
        if x[k] + step * dx[k] < 0.0:
            step = -x[k] / dx[k]
    return step
