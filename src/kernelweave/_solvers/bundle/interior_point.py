"""The interior point method behind the master problem: Mehrotra's predictor and corrector.

    min_{e ∈ Δ}  max_k (a_k − g_k·e)  +  ½ eᵀ(diag(δ) + BᵀB)e  +  pull·e

Conditions: He + pull − gᵀλ − w + ν = 0,  Σλ = 1,  s = z − a + ge ≥ 0,  Σe = 1,  e∘w = 0, s∘λ = 0.
A step solves

    (H + diag(w/e)) de − gᵀdλ + dν = …,    diag(s/λ) dλ + g de + dz = …,    Σdλ = …,    Σde = …

in one of two ways: ``NarrowSystem`` is of the order of the kernels, ``WideSystem`` of the order of
the cuts and the rows of B, for many kernels and few cuts. The driver is the same for both.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kernelweave._core.jit import ordered_jit
from kernelweave._core.tolerances import EPS, LOST_PIVOT, MASTER_PATH, MASTER_RESIDUAL
from kernelweave._core.types import Array

_STEPS = 60
_BACK = 0.995  # share of the way to the boundary that a step may go


class Program(NamedTuple):
    """The data of the problem, divided by the size of its values."""

    a: Array
    g: Array
    pull: Array
    damping: Array
    B: Array


class Path(NamedTuple):
    """Where the path ends: e, λ and ν; not ``ended`` where rounding stopped it before that."""

    e: Array
    lam: Array
    nu: float
    ended: bool


class Miss(NamedTuple):
    """What the linear conditions miss: right sides of the system for a step."""

    slopes: Array
    cuts: Array
    short: Array
    lack: float
    excess: float


Step = tuple[Array, Array, Array, float, float]  # de, ds, dλ, dz, dν


class System(Protocol):
    """Solves for a step at one point of the path.

    The two find ds and dλ in the order that keeps their digits.
    """

    def factor(self, e: Array, w: Array, s: Array, lam: Array) -> None:
        """Prepare for steps from this point; ``LinAlgError`` where rounding forbids."""
        ...

    def step(self, miss: Miss) -> Step:
        """What the conditions miss, turned into a step."""
        ...


def follow(program: Program, system: System) -> Path:
    """Follow the central path from the middle of the simplex.

    Pairs whose products vanish are kept together, x = (e, s) and y = (w, λ).
    """
    a, g, pull, damping, B = program
    size, cuts = pull.size, a.size
    x, y = np.full(size + cuts, 1.0 / size), np.full(size + cuts, 1.0 / cuts)
    y[:size] = 1.0
    level = g @ x[:size] - a
    z, nu = 1.0 - float(level.min()), 0.0
    x[size:] = z + level
    for _ in range(_STEPS):
        e, s, w, lam = x[:size], x[size:], y[:size], y[size:]
        stationary = pull + damping * e + (B @ e) @ B - lam @ g - w + nu
        short = z - a - s + g @ e
        excess, lack, mu = float(e.sum()) - 1.0, 1.0 - float(lam.sum()), float(x @ y) / x.size
        worst = max(float(np.abs(stationary).max()), float(np.abs(short).max()))
        if mu < MASTER_PATH and max(worst, abs(excess)) < MASTER_RESIDUAL:
            return Path(e, lam, nu, True)
        try:
            system.factor(e, w, s, lam)
        except LinAlgError:
            return Path(e, lam, nu, False)
        products = x * y
        miss, reach = -products, 0.0
        for corrector in range(2):
            cut_sides = miss[size:] / lam - short
            sides = Miss(miss[:size] / e - stationary, cut_sides, short, lack, excess)
            de, ds, dl, dz, dn = system.step(sides)
            dx = np.concatenate([de, ds])
            dy = np.concatenate([(miss[:size] - w * de) / e, dl])
            reach = 1.0 / max(_BACK, float((-dx / x).max()), float((-dy / y).max()))
            if corrector == 0:
                aim = mu * (float((x + reach * dx) @ (y + reach * dy)) / x.size / mu) ** 3
                if worst > 10.0 * mu:  # stay central until the residuals have caught up
                    aim = max(aim, 0.5 * mu)
                miss = aim - products - dx * dy
        reach = min(1.0, _BACK * reach)
        x, y, z, nu = x + reach * dx, y + reach * dy, z + reach * dz, nu + reach * dn
    return Path(x[:size], y[size:], nu, False)


class NarrowSystem:
    """H + diag(w/e) + gᵀ diag(λ/s) g, of the order of the kernels, by Cholesky's method.

    A pivot lost to rounding (kernels that are nearly the same) becomes huge: that entry of a
    solution is then zero, and its twin moves alone.
    """

    def __init__(self, program: Program) -> None:
        self.g, B = program.g, program.B
        self.hessian = np.diag(program.damping) + B.T @ B
        self.L = np.empty_like(self.hessian)

    def factor(self, e: Array, w: Array, s: Array, lam: Array) -> None:
        """The factor, and the Schur complement of (z, ν)."""
        self.share = lam / s
        rows = np.sqrt(self.share)[:, None] * self.g
        matrix = self.hessian + rows.T @ rows
        matrix.flat[:: e.size + 1] += w / e
        _factor(matrix, self.L, LOST_PIVOT)
        self.border = self.share @ self.g
        self.along_z, self.along_nu = self.border.copy(), np.ones(e.size)
        _solve(self.L, self.along_z)
        _solve(self.L, self.along_nu)
        self.zz = float(self.share.sum() - self.border @ self.along_z)
        self.zn = -float(self.border @ self.along_nu)
        self.nn = -float(self.along_nu.sum())
        if not abs(self.zz * self.nn - self.zn * self.zn) > 0.0:
            raise LinAlgError("the Schur complement is singular")

    def step(self, miss: Miss) -> Step:
        """What the conditions miss, turned into a step."""
        push = self.share * miss.cuts
        de = miss.slopes + push @ self.g
        _solve(self.L, de)
        right_z = float(push.sum() - self.border @ de) - miss.lack
        right_n = -miss.excess - float(de.sum())
        determinant = self.zz * self.nn - self.zn * self.zn
        dz = (self.nn * right_z - self.zn * right_n) / determinant
        dn = (self.zz * right_n - self.zn * right_z) / determinant
        de -= self.along_z * dz + self.along_nu * dn
        moved = self.g @ de + dz
        return de, miss.short + moved, push - self.share * moved, dz, dn


class WideSystem:
    """With R = (B, −g) and t = (B de, dλ) the kernels leave first: Θ + R D⁻¹Rᵀ is what remains.

    D = diag(δ + w/e), Θ = diag(1, s/λ). Rows of R less their means, weighted by D⁻¹, make ν
    independent of t without cancellation. Since the sum over cuts of t is given, a multiple of its
    square may be added: without it the matrix is singular at a vertex.
    """

    def __init__(self, program: Program) -> None:
        self.damping, self.bends = program.damping, len(program.B)
        self.R = np.vstack([program.B, -program.g])

    def factor(self, e: Array, w: Array, s: Array, lam: Array) -> None:
        """The factor, and the solution along z."""
        bends = self.bends
        theta = self.theta = s / lam
        self.share = 1.0 / (self.damping + w / e)
        self.total = float(self.share.sum())
        self.mean = self.R @ self.share / self.total
        self.rows = self.R - self.mean[:, None]
        matrix = (self.rows * self.share) @ self.rows.T
        among_cuts = matrix[bends:, bends:]
        matrix[np.diag_indices(bends)] += 1.0
        among_cuts[np.diag_indices_from(among_cuts)] += theta
        self.heavy = float(among_cuts.diagonal().min())  # a larger one would take their digits
        among_cuts += self.heavy
        self.scale = 1.0 / np.sqrt(matrix.diagonal())
        matrix *= self.scale[:, None] * self.scale
        matrix[np.diag_indices_from(matrix)] += 0.5 * EPS * len(matrix)  # what rounding takes
        self.L = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        self.along_z = self._solve(np.append(np.zeros(bends), np.ones(theta.size)))

    def _solve(self, side: Array) -> Array:
        found: Array = self.scale * cho_solve(self.L, self.scale * side, check_finite=False)
        return found

    def step(self, miss: Miss) -> Step:
        """What the conditions miss, turned into a step."""
        bends, pushed = self.bends, miss.slopes * self.share
        side = self.rows @ pushed - self.mean * miss.excess
        side[bends:] += miss.cuts
        t = self._solve(side)
        dz = float(t[bends:].sum() - miss.lack) / float(self.along_z[bends:].sum())
        t -= dz * self.along_z
        dn = float(pushed.sum() + miss.excess) / self.total
        de = (miss.slopes - dn - t @ self.rows) * self.share
        dl = t[bends:]
        ds = miss.cuts + miss.short - self.theta * dl
        return de, ds, dl, dz + self.heavy * miss.lack, dn - float(self.mean @ t)


# Loops rather than array expressions: they compile in a tenth of the time.


@ordered_jit
def _factor(matrix, L, lost):  # type: ignore[no-untyped-def]
    """LLᵀ = matrix; a pivot below the share ``lost`` of its diagonal becomes huge."""
    size = matrix.shape[0]
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = total / L[j, j]
            else:
                L[i, i] = np.sqrt(total) if total > lost * matrix[i, i] else 1e100


@ordered_jit
def _solve(L, x):  # type: ignore[no-untyped-def]
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
