"""The small problem a learner solves between two SVMs: next weights from what is known of J.

    min_{e ∈ Δ}  max_k (a_k − g_k·e)  +  ½ (e − ē)ᵀ(diag(δ) + BᵀB)(e − ē)

The cuts a_k − g_k·e are lower bounds of J from past solutions; the quadratic term keeps e near
the centre ē, with the curvature of J in BᵀB where a learner knows it. A primal-dual interior
point method solves it over the few kernels that matter; kernels whose multiplier says that they
should enter join until none is left. A step within the set solves a system of the order of the
kernels in it; where they are many and cuts few, ``wide_master`` takes one of the order of the cuts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.jit import ordered_jit
from kernelweave._core.types import Array
from kernelweave._solvers.bundle import wide_master

_ENTER = 20  # kernels that may join the working set at a time
_WIDE = 100  # kernels from which on it doubles, and array operations are faster than loops


def solve_master(
    a: Array, g: Array, center: Array, delta: float | Array, factor: Array | None = None
) -> tuple[Array, Array]:
    """The minimiser e, and the multipliers λ of the cuts (a convex combination).

    ``delta`` is one number, or one for each kernel.
    """
    unit = max(float(np.abs((a - g @ center).max())), 1e-300)
    damping = np.broadcast_to(np.asarray(delta, dtype=float), center.shape)
    B = np.empty((0, center.size)) if factor is None else factor
    pull = -damping * center - (B @ center) @ B  # linear part of the quadratic term
    likely = [_largest(cut - pull, _ENTER) for cut in g[-3:]]
    if np.count_nonzero(center) <= 3 * _ENTER:
        likely.append(np.flatnonzero(center))
    working = np.unique(np.concatenate(likely))
    while True:
        columns, part = np.ascontiguousarray(g[:, working]), B[:, working]
        x, multipliers, level = _interior_point(
            a, columns, pull[working], damping[working], part, unit
        )
        price = pull - multipliers @ g + (part @ x) @ B + level
        price[working] = 0.0
        if not price.min() < -1e-10 * unit:
            break
        count = _ENTER if working.size < _WIDE else working.size
        working = np.union1d(working, _largest(-price, count, above=1e-10 * unit))
    matters = x * columns.max(axis=0)
    x[matters < 1e-10 * min(unit, float(matters.max()))] = 0.0
    e = np.zeros(center.size)
    e[working] = x / x.sum()
    return e, multipliers


def _largest(x: Array, count: int, above: float = -np.inf) -> NDArray[np.intp]:
    """Places of the ``count`` largest entries that exceed ``above``."""
    places = np.argpartition(-x, count)[:count] if count < x.size else np.arange(x.size)
    return places[x[places] > above]


def _interior_point(
    a: Array, g: Array, pull: Array, damping: Array, B: Array, unit: float
) -> tuple[Array, Array, float]:
    """Mehrotra's predictor-corrector; returns e, λ and the multiplier of Σe = 1.

    Conditions: He + pull − gᵀλ − w + ν = 0,  Σλ = 1,  s = z − a + ge ≥ 0,  Σe = 1,
    e∘w = 0,  s∘λ = 0. Everything is divided by ``unit``, the size of J.
    """
    size, shift = pull.size, float(g.min())
    a, g, pull = (a - a.max()) / unit, (g - shift) / unit, pull / unit
    e, w = np.full(size, 1.0 / size), np.ones(size)
    lam = np.full(a.size, 1.0 / a.size)
    z = float((a - g @ e).max()) + 1.0
    s = z - a + g @ e
    found = None
    if size > max(_WIDE, len(B) + a.size):
        curvature = damping / unit, B / np.sqrt(unit)
        found = wide_master.follow(a, g, pull, *curvature, e, w, s, lam, z)
    if found is None:
        hessian = (np.diag(damping) + B.T @ B) / unit
        found = e, lam, _follow(a, g, pull, hessian, e, w, s, lam, z)
    e, lam, nu = found
    return e / e.sum(), lam / lam.sum(), unit * nu + shift


# Loops rather than array expressions from here on: they compile in a tenth of the time.


@ordered_jit
def _follow(a, g, pull, hessian, e, w, s, lam, z):  # type: ignore[no-untyped-def]
    """Follow the central path from (e, w, s, λ, z), in place; returns ν."""
    size, cuts = pull.size, a.size
    nu = 0.0
    L, rows = np.empty((size, size)), np.empty((size, cuts))
    stationary, border = np.empty(size), np.empty(size)
    along_z, along_nu, de, dw, ew = (
        np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size),
    )  # fmt: skip
    short, push, ds, dl, sl = (
        np.empty(cuts), np.empty(cuts), np.empty(cuts), np.empty(cuts), np.empty(cuts),
    )  # fmt: skip
    for _ in range(60):
        excess, mu, worst, total = -1.0, 0.0, 0.0, 0.0
        for i in range(size):
            excess += e[i]
            mu += e[i] * w[i]
            stationary[i] = pull[i] - w[i] + nu + _dot(hessian[i], e)
            border[i] = 0.0
        for k in range(cuts):
            mu += s[k] * lam[k]
            short[k] = z - a[k] - s[k] + _dot(g[k], e)
            worst = max(worst, abs(short[k]))
            total += lam[k] / s[k]
            root = np.sqrt(lam[k] / s[k])
            for i in range(size):
                stationary[i] -= lam[k] * g[k, i]
                border[i] += lam[k] / s[k] * g[k, i]
                rows[i, k] = root * g[k, i]
        for i in range(size):
            worst = max(worst, abs(stationary[i]))
        mu /= size + cuts
        if mu < 1e-13 and max(worst, abs(excess)) < 1e-11:
            break
        _factor(hessian, rows, e, w, L)
        for i in range(size):
            along_z[i], along_nu[i] = border[i], 1.0
        _solve_factored(L, along_z)
        _solve_factored(L, along_nu)
        # the Schur complement of (z, ν)
        zz, zn, nn = total - _dot(border, along_z), -_dot(border, along_nu), 0.0
        for i in range(size):
            nn -= along_nu[i]
            ew[i] = -e[i] * w[i]  # what e∘w and s∘λ still miss
        for k in range(cuts):
            sl[k] = -s[k] * lam[k]
        determinant = zz * nn - zn * zn
        if not abs(determinant) > 0.0:
            break
        reach, dz, dn = 0.0, 0.0, 0.0
        for corrector in range(2):
            right_z, right_n = -1.0, -excess
            for i in range(size):
                de[i] = ew[i] / e[i] - stationary[i]
            for k in range(cuts):
                push[k] = (sl[k] - lam[k] * short[k]) / s[k]
                right_z += lam[k] + push[k]
                for i in range(size):
                    de[i] += push[k] * g[k, i]
            _solve_factored(L, de)
            right_z -= _dot(border, de)
            for i in range(size):
                right_n -= de[i]
            dz = (nn * right_z - zn * right_n) / determinant
            dn = (zz * right_n - zn * right_z) / determinant
            for i in range(size):
                de[i] -= along_z[i] * dz + along_nu[i] * dn
                dw[i] = (ew[i] - w[i] * de[i]) / e[i]
            for k in range(cuts):
                ds[k] = short[k] + dz + _dot(g[k], de)
                dl[k] = (sl[k] - lam[k] * ds[k]) / s[k]
            reach = min(min(_reach(e, de), _reach(w, dw)), min(_reach(s, ds), _reach(lam, dl)))
            if corrector == 0:
                after = 0.0
                for i in range(size):
                    after += (e[i] + reach * de[i]) * (w[i] + reach * dw[i])
                for k in range(cuts):
                    after += (s[k] + reach * ds[k]) * (lam[k] + reach * dl[k])
                aim = mu * (after / (size + cuts) / mu) ** 3
                if worst > 10.0 * mu:  # stay central until the residuals have caught up
                    aim = max(aim, 0.5 * mu)
                for i in range(size):
                    ew[i] = aim - e[i] * w[i] - de[i] * dw[i]
                for k in range(cuts):
                    sl[k] = aim - s[k] * lam[k] - ds[k] * dl[k]
        reach = min(1.0, 0.995 * reach)
        z, nu = z + reach * dz, nu + reach * dn
        for i in range(size):
            e[i] += reach * de[i]
            w[i] += reach * dw[i]
        for k in range(cuts):
            s[k] += reach * ds[k]
            lam[k] += reach * dl[k]
    return nu


@ordered_jit
def _dot(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@ordered_jit
def _factor(hessian, rows, e, w, L):  # type: ignore[no-untyped-def]
    """LLᵀ = H + diag(w/e) + rows·rowsᵀ.

    A pivot lost to rounding (kernels that are nearly the same) becomes huge: that entry of a
    solution is then zero, and its twin moves alone.
    """
    for i in range(e.size):
        for j in range(i + 1):
            total = hessian[i, j] + _dot(rows[i], rows[j])
            if i == j:
                total += w[i] / e[i]
            whole = total
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = total / L[j, j]
            else:
                L[i, i] = np.sqrt(total) if total > 1e-15 * whole else 1e100


@ordered_jit
def _solve_factored(L, x):  # type: ignore[no-untyped-def]
    """x ← (LLᵀ)⁻¹ x."""
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


@ordered_jit
def _reach(x, dx):  # type: ignore[no-untyped-def]
    """The longest step, at most 1/0.995, that keeps x + step·dx nonnegative."""
    step = 1.0 / 0.995
    for k in range(x.size):
        if x[k] + step * dx[k] < 0.0:
            step = -x[k] / dx[k]
    return step
