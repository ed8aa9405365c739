"""The interior point method behind the master problem: Mehrotra's predictor and corrector.

    min_{e ∈ Δ}  max_k (a_k − g_k·e)  +  ½ eᵀ(diag(δ) + BᵀB)e  +  pull·e

Conditions: He + pull − gᵀλ − w + ν = 0,  Σλ = 1,  s = z − a + ge ≥ 0,  Σe = 1,  e∘w = 0, s∘λ = 0.
A step solves

    (H + diag(w/e)) de − gᵀdλ + dν = …,    diag(s/λ) dλ + g de + dz = …,    Σdλ = …,    Σde = …

in one of two ways: ``NarrowSystem`` is of the order of the kernels, and goes many steps in one
compiled call; ``wide_system.py`` is of the order of the cuts and the rows of B, for many kernels
and few cuts.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from kernelweave._core.jit import ordered_jit
from kernelweave._core.tolerances import LOST_PIVOT, MASTER_PATH, MASTER_RESIDUAL
from kernelweave._core.types import Array

GOES_ON, ENDED, STUCK = range(3)  # what a system says of the path
BACK = 0.995  # share of the way to the boundary that a step may go
_STEPS = 60
_CALL = 10**7  # multiplications in one call, after which Python hears of interrupts
_LIMITS = MASTER_PATH, MASTER_RESIDUAL, LOST_PIVOT  # arguments of compiled functions


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


class Work(NamedTuple):
    """The point of the path and all that a step needs, in place.

    Pairs whose products vanish are kept together: x = (e, s) and y = (w, λ). ``side`` are the right
    sides of the system, ``rest`` what the linear conditions miss, ``miss`` what the products do.
    """

    x: Array
    y: Array
    dx: Array
    dy: Array
    side: Array
    rest: Array
    miss: Array


# What the conditions miss, in short: μ, the largest residual, Σe − 1 and 1 − Σλ. A plain tuple: an
# interrupt while compiled code makes a named one would end the process.
Missed = tuple[float, float, float, float]


class System(Protocol):
    """Goes along the path; its linear system is of the order of the kernels, or of the cuts."""

    def go(self, work: Work, z: float, nu: float, most: int) -> tuple[float, float, int, int]:
        """Make some steps in ``work``, at most ``most``: z, ν, how many, and what of the path."""
        ...


def follow(program: Program, system: System) -> Path:
    """Follow the central path from the middle of the simplex."""
    a, g, pull = program.a, program.g, program.pull
    size, cuts = pull.size, a.size
    work = Work(*np.zeros((7, size + cuts)))
    x, y = work.x, work.y
    e, s, w, lam = x[:size], x[size:], y[:size], y[size:]
    e[:], w[:], lam[:] = 1.0 / size, 1.0, 1.0 / cuts
    s[:] = g @ e - a
    z, nu = 1.0 - float(s.min()), 0.0
    s += z
    left, status = _STEPS, GOES_ON
    while left and status == GOES_ON:
        z, nu, made, status = system.go(work, z, nu, left)
        left -= made
    return Path(e, lam, nu, status == ENDED)


def has_ended(missed: Missed) -> bool:
    """Whether all conditions hold."""
    return bool(_has_ended(missed, _LIMITS))


class NarrowSystem:
    """H + diag(w/e) + gᵀ diag(λ/s) g, of the order of the kernels, by Cholesky's method.

    A pivot lost to rounding (kernels that are nearly the same) becomes huge: that entry of a
    solution is then zero, and its twin moves alone.
    """

    def __init__(self, program: Program) -> None:
        B, g = program.B, np.ascontiguousarray(program.g)
        hessian = np.diag(program.damping) + B.T @ B
        cuts, size = g.shape
        room = np.empty((size, size)), np.empty((size, size)), np.empty(size)
        parts, share = np.empty((3, size)), np.empty(cuts)
        self._arrays = program.a, g, program.pull, hessian, *room, parts, share
        self._steps = max(1, _CALL // (size * size * (size + cuts)))

    def go(self, work: Work, z: float, nu: float, most: int) -> tuple[float, float, int, int]:
        """As many steps as are soon made."""
        return _go(work, self._arrays, _LIMITS, z, nu, min(most, self._steps))


# Loops rather than array expressions: they compile in a tenth of the time.


@ordered_jit
def judge(work, size, z, nu):  # type: ignore[no-untyped-def]
    """What all conditions miss, and the right sides of the first step.

    ``rest`` comes as pull + He − gᵀλ and ge − a.
    """
    x, y, rest, miss, side = work.x, work.y, work.rest, work.miss, work.side
    excess, lack, mu, worst = -1.0, 1.0, 0.0, 0.0
    for i in range(x.size):
        if i < size:
            excess += x[i]
            rest[i] += nu - y[i]
        else:
            lack -= y[i]
            rest[i] += z - x[i]
        worst = max(worst, abs(rest[i]))
        miss[i] = -x[i] * y[i]
        mu -= miss[i]
        side[i] = miss[i] / (x[i] if i < size else y[i]) - rest[i]
    return mu / x.size, worst, excess, lack


@ordered_jit
def _complete(work, size):  # type: ignore[no-untyped-def]
    """dw from de: y∘dx + x∘dy = miss."""
    for i in range(size):
        work.dy[i] = (work.miss[i] - work.y[i] * work.dx[i]) / work.x[i]


@ordered_jit
def _reach(work, back):  # type: ignore[no-untyped-def]
    """The longest step, at most 1/back, that keeps x and y nonnegative."""
    least = back
    for i in range(work.x.size):
        least = max(least, -work.dx[i] / work.x[i], -work.dy[i] / work.y[i])
    return 1.0 / least


@ordered_jit
def correct(work, size, missed, back):  # type: ignore[no-untyped-def]
    """The right sides of the second step, from where the first would lead."""
    x, y, dx, dy, miss, mu = work.x, work.y, work.dx, work.dy, work.miss, missed[0]
    _complete(work, size)
    reach = _reach(work, back)
    after = 0.0
    for i in range(x.size):
        after += (x[i] + reach * dx[i]) * (y[i] + reach * dy[i])
    aim = mu * (after / x.size / mu) ** 3
    if missed[1] > 10.0 * mu:  # stay central until the residuals have caught up
        aim = max(aim, 0.5 * mu)
    for i in range(x.size):
        miss[i] = aim - x[i] * y[i] - dx[i] * dy[i]
        work.side[i] = miss[i] / (x[i] if i < size else y[i]) - work.rest[i]


@ordered_jit
def advance(work, size, back):  # type: ignore[no-untyped-def]
    """Go along the step, short of the boundary; how far."""
    _complete(work, size)
    reach = min(1.0, back * _reach(work, back))
    for i in range(work.x.size):
        work.x[i] += reach * work.dx[i]
        work.y[i] += reach * work.dy[i]
    return reach


@ordered_jit
def _has_ended(missed, limits):  # type: ignore[no-untyped-def]
    """Whether all conditions hold, to limits of μ and of the residuals."""
    return missed[0] < limits[0] and max(missed[1], abs(missed[2])) < limits[1]


@ordered_jit
def _go(work, arrays, limits, z, nu, most):  # type: ignore[no-untyped-def]
    """Judge, factor and move, ``most`` times."""
    a, g, pull, hessian, U, L, row, parts, share = arrays
    cuts, size = g.shape
    for made in range(most):
        missed = _narrow_judge(work, a, g, pull, hessian, z, nu)
        if _has_ended(missed, limits):
            return z, nu, made, ENDED
        for k in range(cuts):
            share[k] = work.y[size + k] / work.x[size + k]
        _factor(work, hessian, g, share, U, L, row, limits[2])
        schur = _bordered(g, share, U, L, parts)
        if not abs(schur[0] * schur[2] - schur[1] * schur[1]) > 0.0:
            return z, nu, made, STUCK
        dz, dn = _narrow_move(work, missed, (g, share, U, L, parts, schur))
        z += dz
        nu += dn
    return z, nu, most, GOES_ON


@ordered_jit
def _narrow_judge(work, a, g, pull, hessian, z, nu):  # type: ignore[no-untyped-def]
    """What the conditions miss, from H itself."""
    cuts, size = g.shape
    rest, x = work.rest[:size], work.x[:size]
    rest[:] = pull
    for i in range(size):
        for j in range(size):
            rest[j] += x[i] * hessian[i, j]
    for k in range(cuts):
        total = -a[k]
        for i in range(size):
            total += g[k, i] * x[i]
        work.rest[size + k] = total
        for i in range(size):
            rest[i] -= work.y[size + k] * g[k, i]
    return judge(work, size, z, nu)


@ordered_jit
def _factor(work, hessian, g, share, U, L, row, lost):  # type: ignore[no-untyped-def]
    """U = Lᵀ with UᵀU = H + diag(w/e) + gᵀ diag(λ/s) g; ``row`` is room.

    A pivot below the share ``lost`` of its diagonal becomes huge. Loops that run from 0 over a
    whole row become vector instructions, which those over half of it do not.
    """
    cuts, size = g.shape
    for i in range(size):
        for j in range(size):
            row[j] = hessian[i, j]
        for k in range(cuts):
            weight = share[k] * g[k, i]
            for j in range(size):
                row[j] += weight * g[k, j]
        row[i] += work.y[i] / work.x[i]
        whole = row[i]
        for k in range(i):
            times = U[k, i]
            for j in range(size):
                row[j] -= times * U[k, j]
        pivot = np.sqrt(row[i]) if row[i] > lost * whole else 1e100
        for j in range(size):
            U[i, j] = row[j] / pivot if j > i else 0.0
            L[j, i] = U[i, j]
        U[i, i] = L[i, i] = pivot


@ordered_jit
def _bordered(g, share, U, L, parts):  # type: ignore[no-untyped-def]
    """Border and solutions along z and ν, in ``parts``; the Schur complement of (z, ν)."""
    cuts, size = g.shape
    border, along_z, along_nu = parts[0], parts[1], parts[2]
    for i in range(size):
        border[i] = 0.0
    zz, zn, nn = 0.0, 0.0, 0.0
    for k in range(cuts):
        zz += share[k]
        for i in range(size):
            border[i] += share[k] * g[k, i]
    for i in range(size):
        along_z[i], along_nu[i] = border[i], 1.0
    _solve(U, L, along_z)
    _solve(U, L, along_nu)
    for i in range(size):
        zz -= border[i] * along_z[i]
        zn -= border[i] * along_nu[i]
        nn -= along_nu[i]
    return zz, zn, nn


@ordered_jit
def _narrow_move(work, missed, solver):  # type: ignore[no-untyped-def]
    """Mehrotra's step of the narrow system; how far z and ν go."""
    size = solver[0].shape[1]
    _narrow_step(work, missed, solver)
    correct(work, size, missed, BACK)
    dz, dn = _narrow_step(work, missed, solver)
    reach = advance(work, size, BACK)
    return reach * dz, reach * dn


@ordered_jit
def _narrow_step(work, missed, solver):  # type: ignore[no-untyped-def]
    """de, ds and dλ of the narrow system in place; dz and dν."""
    g, share, U, L, parts, (zz, zn, nn) = solver
    cuts, size = g.shape
    border, along_z, along_nu = parts[0], parts[1], parts[2]
    right_z, right_n = -missed[3], -missed[2]
    de = work.dx[:size]
    for i in range(size):
        de[i] = work.side[i]
    for k in range(cuts):
        push = share[k] * work.side[size + k]
        right_z += push
        for i in range(size):
            de[i] += push * g[k, i]
    _solve(U, L, de)
    for i in range(size):
        right_z -= border[i] * de[i]
        right_n -= de[i]
    determinant = zz * nn - zn * zn
    dz = (nn * right_z - zn * right_n) / determinant
    dn = (zz * right_n - zn * right_z) / determinant
    for i in range(size):
        de[i] -= along_z[i] * dz + along_nu[i] * dn
    for k in range(cuts):
        moved = dz
        for i in range(size):
            moved += g[k, i] * de[i]
        work.dx[size + k] = work.rest[size + k] + moved
        work.dy[size + k] = share[k] * (work.side[size + k] - moved)
    return dz, dn


@ordered_jit
def _solve(U, L, x):  # type: ignore[no-untyped-def]
    """x ← (UᵀU)⁻¹ x, U = Lᵀ."""
    size = x.size
    for i in range(size):
        found = x[i] / U[i, i]
        for j in range(size):  # U[i, j] = 0 before i
            x[j] -= U[i, j] * found
        x[i] = found
    for i in range(size - 1, -1, -1):
        x[i] /= L[i, i]
        for j in range(i):
            x[j] -= L[i, j] * x[i]
