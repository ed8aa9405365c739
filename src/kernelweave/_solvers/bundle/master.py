"""The small problem a learner solves between two SVMs: next weights from what is known of J.

    min_{e ∈ Δ}  max_k (a_k − g_k·e)  +  ½ (e − ē)ᵀ(diag(δ) + BᵀB)(e − ē)

The cuts a_k − g_k·e are lower bounds of J from past solutions; the quadratic term keeps e near
the center ē, with the curvature of J in BᵀB where a learner knows it. It is solved over the few
kernels that matter; kernels whose multiplier says that they should enter join until none is left.

The method is a primal-dual interior point one, Mehrotra's predictor and corrector. With the linear
part of the quadratic term as pull·e and H = diag(δ) + BᵀB the conditions are

    He + pull − gᵀλ − w + ν = 0,  Σλ = 1,  s = z − a + ge ≥ 0,  Σe = 1,  e∘w = 0, s∘λ = 0.

A step solves

    (H + diag(w/e)) de − gᵀdλ + dν = …,    diag(s/λ) dλ + g de + dz = …,    Σdλ = …,    Σde = …

in one of two ways: ``NarrowSystem`` is of the order of the kernels, and goes many steps in one
compiled call; ``wide_system.py`` is of the order of the cuts and the rows of B, for many kernels
and few cuts.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.jit import inlined, ordered_jit
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import (
    ENTER,
    EPS,
    LOST_PIVOT,
    MASTER_PATH,
    MASTER_RESIDUAL,
    TINY,
)
from kernelweave._core.types import Array

_ENTER = 20  # kernels that may join the working set at a time
GOES_ON, ENDED, STUCK = range(3)  # what a system says of the path
BACK = 0.995  # share of the way to the boundary that a step may go
_STEPS = 60
_CALL = 10**7  # multiplications in one call, after which Python hears of interrupts
_LIMITS = MASTER_PATH, MASTER_RESIDUAL, LOST_PIVOT  # constants of other files are arguments


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


# The point of the path and all that a step needs are the rows of one array, ``work``: compiled code
# takes one argument in a fraction of the time of seven. Pairs whose products vanish are kept
# together: x = (e, s) and y = (w, λ). SIDE are the right sides of the system, REST what the linear
# conditions miss, MISS what the products do.
X, Y, DX, DY, SIDE, REST, MISS = range(7)

# What the conditions miss, in short: μ, the largest residual, Σe − 1 and 1 − Σλ. A plain tuple: an
# interrupt while compiled code makes a named one would end the process.
Missed = tuple[float, float, float, float]


class System(Protocol):
    """Goes along the path; its linear system is of the order of the kernels, or of the cuts."""

    def go(self, work: Array, z: float, nu: float, most: int) -> tuple[float, float, int, int]:
        """Make some steps in ``work``, at most ``most``: z, ν, how many, and what of the path."""
        ...


def solve_master(
    a: Array, g: Array, center: Array, delta: float | Array, factor: Array | None = None
) -> tuple[Array, Array]:
    """The minimizer e, and the multipliers λ of the cuts (a convex combination).

    ``delta`` is one number, or one for each kernel.
    """
    unit = max(float(np.abs((a - g @ center).max())), EPS * float(np.abs(g).max()), TINY)
    damping = np.broadcast_to(np.asarray(delta, dtype=float), center.shape)
    B = np.empty((0, center.size)) if factor is None else factor
    pull = -damping * center - (B @ center) @ B  # linear part of the quadratic term
    working = np.sort(_largest(center * g[-1], 3 * _ENTER, above=0.0))
    for cut in g[-3:]:
        working = np.union1d(working, _largest(cut - pull, _ENTER))
    while True:
        columns, part = np.ascontiguousarray(g[:, working]), B[:, working]
        x, multipliers, level = _interior_point(
            a, columns, pull[working], damping[working], part, unit
        )
        price = pull - multipliers @ g + (part @ x) @ B + level
        price[working] = 0.0
        if not price.min() < -ENTER * unit:
            break
        count = _ENTER if working.size < SETTINGS.wide else working.size
        working = np.union1d(working, _largest(-price, count, above=ENTER * unit))
    matters = x * columns.max(axis=0)
    x[matters < ENTER * min(unit, float(matters.max()))] = 0.0
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
    """The minimizer e, λ and the multiplier of Σe = 1, computed in units of ``unit``."""
    size, shift = pull.size, float(g.min())
    program = Program(
        (a - a.max()) / unit, (g - shift) / unit, pull / unit, damping / unit, B / np.sqrt(unit)
    )
    path = None
    if size > max(SETTINGS.wide, len(B) + a.size):
        from kernelweave._solvers.bundle.wide_system import WideSystem  # which builds on this file

        path = follow(program, WideSystem(program))
    if path is None or not path.ended:
        path = follow(program, NarrowSystem(program))
    return path.e / path.e.sum(), path.lam / path.lam.sum(), unit * path.nu + shift


def follow(program: Program, system: System) -> Path:
    """Follow the central path from the middle of the simplex."""
    a, g, pull = program.a, program.g, program.pull
    size, cuts = pull.size, a.size
    work = np.zeros((7, size + cuts))
    x, y = work[X], work[Y]
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
    mu, worst, excess, _ = missed
    return mu < MASTER_PATH and max(worst, abs(excess)) < MASTER_RESIDUAL


class NarrowSystem:
    """H + diag(w/e) + gᵀ diag(λ/s) g, of the order of the kernels, by Cholesky's method.

    A pivot lost to rounding (kernels that are nearly the same) becomes huge: that entry of a
    solution is then zero, and its twin moves alone.
    """

    def __init__(self, program: Program) -> None:
        B, g = program.B, np.ascontiguousarray(program.g)
        hessian = np.diag(program.damping) + B.T @ B
        cuts, size = g.shape
        room = np.empty((size, size)), np.empty((size, size)), np.empty((4, size)), np.empty(cuts)
        self._arrays = program.a, g, program.pull, hessian, *room
        self._steps = max(1, _CALL // (size * size * (size + cuts)))

    def go(self, work: Array, z: float, nu: float, most: int) -> tuple[float, float, int, int]:
        """As many steps as are soon made."""
        return _go(work, *self._arrays, *_LIMITS, z, nu, min(most, self._steps))


# Loops rather than array expressions: they compile in a tenth of the time.


@ordered_jit
def judge(work, size, z, nu):  # type: ignore[no-untyped-def]
    """What all conditions miss, and the right sides of the first step.

    REST comes as pull + He − gᵀλ and ge − a.
    """
    x, y, side, rest, miss = work[X], work[Y], work[SIDE], work[REST], work[MISS]
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
def _reach(work, size):  # type: ignore[no-untyped-def]
    """The longest step, at most 1/BACK, that keeps x and y nonnegative.

    Completes dw from de first: y∘dx + x∘dy = MISS.
    """
    x, y, dx, dy, miss = work[X], work[Y], work[DX], work[DY], work[MISS]
    least = BACK
    for i in range(x.size):
        if i < size:
            dy[i] = (miss[i] - y[i] * dx[i]) / x[i]
        least = max(least, -dx[i] / x[i], -dy[i] / y[i])
    return 1.0 / least


@ordered_jit
def correct(work, size, mu, worst):  # type: ignore[no-untyped-def]
    """The right sides of the second step, from where the first would lead."""
    x, y, dx, dy = work[X], work[Y], work[DX], work[DY]
    side, rest, miss = work[SIDE], work[REST], work[MISS]
    reach = _reach(work, size)
    after = 0.0
    for i in range(x.size):
        after += (x[i] + reach * dx[i]) * (y[i] + reach * dy[i])
    aim = mu * (after / x.size / mu) ** 3
    if worst > 10.0 * mu:  # stay central until the residuals have caught up
        aim = max(aim, 0.5 * mu)
    for i in range(x.size):
        miss[i] = aim - x[i] * y[i] - dx[i] * dy[i]
        side[i] = miss[i] / (x[i] if i < size else y[i]) - rest[i]


@ordered_jit
def advance(work, size):  # type: ignore[no-untyped-def]
    """Go along the step, short of the boundary; how far."""
    reach = min(1.0, BACK * _reach(work, size))
    for i in range(work.shape[1]):
        work[X, i] += reach * work[DX, i]
        work[Y, i] += reach * work[DY, i]
    return reach


@ordered_jit
def _go(work, a, g, pull, hessian, U, L, parts, share, path, residual, lost, z, nu, most):  # type: ignore[no-untyped-def]
    """Judge, factor and move by Mehrotra's steps, ``most`` times."""
    cuts, size = g.shape
    for made in range(most):
        _gradient(work, a, g, pull, hessian)
        mu, worst, excess, lack = judge(work, size, z, nu)
        if mu < path and max(worst, abs(excess)) < residual:
            return z, nu, made, ENDED
        for k in range(cuts):
            share[k] = work[Y, size + k] / work[X, size + k]
        _factor(work, hessian, g, share, U, L, parts[3], lost)
        zz, zn, nn = _bordered(g, share, U, L, parts)
        if not abs(zz * nn - zn * zn) > 0.0:
            return z, nu, made, STUCK
        dz, dn = 0.0, 0.0
        for corrects in (False, True):
            if corrects:
                correct(work, size, mu, worst)
            dz, dn = _step(work, g, share, U, L, parts, zz, zn, nn, lack, excess)
        reach = advance(work, size)
        z += reach * dz
        nu += reach * dn
    return z, nu, most, GOES_ON


@inlined
def _gradient(work, a, g, pull, hessian):  # type: ignore[no-untyped-def]
    """REST ← pull + He − gᵀλ and ge − a, from H itself."""
    cuts, size = g.shape
    x, y, rest = work[X], work[Y], work[REST]
    for i in range(size):
        rest[i] = pull[i]
    for i in range(size):
        for j in range(size):
            rest[j] += x[i] * hessian[i, j]
    for k in range(cuts):
        total = -a[k]
        for i in range(size):
            total += g[k, i] * x[i]
            rest[i] -= y[size + k] * g[k, i]
        rest[size + k] = total


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
        row[i] += work[Y, i] / work[X, i]
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


@inlined
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
    for side in range(1, 3):  # a loop compiles faster than two calls
        _solve(U, L, parts[side])
    for i in range(size):
        zz -= border[i] * along_z[i]
        zn -= border[i] * along_nu[i]
        nn -= along_nu[i]
    return zz, zn, nn


@inlined
def _step(work, g, share, U, L, parts, zz, zn, nn, lack, excess):  # type: ignore[no-untyped-def]
    """de, ds and dλ of the narrow system in place; dz and dν."""
    cuts, size = g.shape
    dx, dy, side, rest = work[DX], work[DY], work[SIDE], work[REST]
    border, along_z, along_nu = parts[0], parts[1], parts[2]
    right_z, right_n = -lack, -excess
    for i in range(size):
        dx[i] = side[i]
    for k in range(cuts):
        push = share[k] * side[size + k]
        right_z += push
        for i in range(size):
            dx[i] += push * g[k, i]
    _solve(U, L, dx)
    for i in range(size):
        right_z -= border[i] * dx[i]
        right_n -= dx[i]
    determinant = zz * nn - zn * zn
    dz = (nn * right_z - zn * right_n) / determinant
    dn = (zz * right_n - zn * right_z) / determinant
    for i in range(size):
        dx[i] -= along_z[i] * dz + along_nu[i] * dn
    for k in range(cuts):
        moved = dz
        for i in range(size):
            moved += g[k, i] * dx[i]
        dx[size + k] = rest[size + k] + moved
        dy[size + k] = share[k] * (side[size + k] - moved)
    return dz, dn


@ordered_jit
def _solve(U, L, x):  # type: ignore[no-untyped-def]
    """The first entries of x ← (UᵀU)⁻¹ x, U = Lᵀ."""
    size = len(U)
    for i in range(size):
        found = x[i] / U[i, i]
        for j in range(size):  # U[i, j] = 0 before i
            x[j] -= U[i, j] * found
        x[i] = found
    for i in range(size - 1, -1, -1):
        x[i] /= L[i, i]
        for j in range(i):
            x[j] -= L[i, j] * x[i]
