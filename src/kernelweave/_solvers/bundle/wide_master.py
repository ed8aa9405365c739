"""The interior point method of the master problem where kernels are many and cuts few.

    min_{e ∈ Δ}  max_k (a_k − g_k·e)  +  ½ eᵀ(diag(δ) + BᵀB)e  +  pull·e

With R = (B, −g) and t = (B de, dλ), a step solves

    D de + Rᵀt + dν = …,    Θt − R de + h dz = …,    h·t = …,    Σde = …

where D = diag(δ + w/e), Θ = diag(1, s/λ), and h is one for a cut and zero for a row of B. D is
diagonal, so the kernels leave first: what remains, Θ + R D⁻¹Rᵀ, is of the order of cuts and rows
of B.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kernelweave._core.types import Array

Solved = tuple[Array, Array, float, float]
Step = Callable[[Array, Array, float, float], Solved]


def follow(
    a: Array,
    g: Array,
    pull: Array,
    damping: Array,
    B: Array,
    e: Array,
    w: Array,
    s: Array,
    lam: Array,
    z: float,
) -> tuple[Array, Array, float] | None:
    """Follow the central path from (e, w, s, λ, z); returns e, λ and ν.

    None where rounding stops it short of the end: kernels many orders of magnitude apart, cuts that
    are nearly the same. Pairs whose products vanish are kept together, (e, s) and (w, λ).
    """
    size, bends = pull.size, len(B)
    R, nu = np.vstack([B, -g]), 0.0
    x, y = np.append(e, s), np.append(w, lam)
    for _ in range(60):
        (e, s), (w, lam) = np.split(x, [size]), np.split(y, [size])
        stationary = pull + damping * e + (B @ e) @ B - lam @ g - w + nu
        short = z - a - s + g @ e
        excess, lack, mu = e.sum() - 1.0, 1.0 - lam.sum(), float(x @ y) / x.size
        worst = max(np.abs(stationary).max(), np.abs(short).max())
        if mu < 1e-13 and max(worst, abs(excess)) < 1e-11:
            return e, lam, nu
        try:
            step = _system(R, bends, damping + w / e, s / lam)
        except LinAlgError:
            return None
        miss, reach = -x * y, 0.0
        for corrector in range(2):
            de, dl, dz, dn = step(
                miss[:size] / e - stationary, miss[size:] / lam - short, lack, excess
            )
            dx = np.append(de, (miss[size:] - s * dl) / lam)
            dy = np.append((miss[:size] - w * de) / e, dl)
            reach = 1.0 / max(0.995, float((-dx / x).max()), float((-dy / y).max()))
            if corrector == 0:
                aim = mu * (float((x + reach * dx) @ (y + reach * dy)) / x.size / mu) ** 3
                if worst > 10.0 * mu:  # stay central until the residuals have caught up
                    aim = max(aim, 0.5 * mu)
                miss = aim - x * y - dx * dy
        reach = min(1.0, 0.995 * reach)
        x, y, z, nu = x + reach * dx, y + reach * dy, z + reach * dz, nu + reach * dn
    return None


def _system(R: Array, bends: int, diagonal: Array, theta: Array) -> Step:
    """The function that turns what the conditions miss into (de, dλ, dz, dν).

    Rows of R less their means, weighted by D⁻¹, make ν independent of t without cancellation. Since
    h·t is given, a multiple of hhᵀ may be added: without it the matrix is singular at a vertex.
    """
    share = 1.0 / diagonal
    total = float(share.sum())
    mean = R @ share / total
    rows = R - mean[:, None]
    matrix = (rows * share) @ rows.T
    among_cuts = matrix[bends:, bends:]
    matrix[np.diag_indices(bends)] += 1.0
    among_cuts[np.diag_indices_from(among_cuts)] += theta
    heavy = float(among_cuts.diagonal().min())  # a larger one would take their digits
    among_cuts += heavy
    scale = 1.0 / np.sqrt(matrix.diagonal())
    matrix *= scale[:, None] * scale
    matrix[np.diag_indices_from(matrix)] += 1e-16 * len(matrix)  # as much as rounding takes
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)

    def solve(side: Array) -> Array:
        found: Array = scale * cho_solve(factor, scale * side, check_finite=False)
        return found

    along_z = solve(np.append(np.zeros(bends), np.ones(theta.size)))

    def step(slopes: Array, cuts: Array, lack: float, excess: float) -> Solved:
        pushed = slopes * share
        side = rows @ pushed - mean * excess
        side[bends:] += cuts
        t = solve(side)
        dz = float(t[bends:].sum() - lack) / float(along_z[bends:].sum())
        t -= dz * along_z
        dn = float(pushed.sum() + excess) / total
        de = (slopes - dn - t @ rows) * share
        return de, t[bends:], dz + heavy * lack, dn - float(mean @ t)

    return step
