"""Steps of the master problem by a system of the order of the kernels, many in a compiled call."""

from __future__ import annotations

import numpy as np

from kernelweave._core.jit import ordered_jit
from kernelweave._core.tolerances import LOST_PIVOT
from kernelweave._solvers.bundle.interior_point import (
    BACK,
    ENDED,
    GOES_ON,
    STUCK,
    Program,
    Work,
    advance,
    correct,
    judge,
    near_the_end,
)

_CALL = 10**7  # multiplications in one call, after which Python hears of interrupts


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
        return _go(work, self._arrays, z, nu, min(most, self._steps))


@ordered_jit
def _go(work, arrays, z, nu, most):  # type: ignore[no-untyped-def]
    """Judge, factor and move, ``most`` times."""
    a, g, pull, hessian, U, L, row, parts, share = arrays
    cuts, size = g.shape
    for made in range(most):
        missed = _narrow_judge(work, a, g, pull, hessian, z, nu)
        if near_the_end(missed):
            return z, nu, made, ENDED
        for k in range(cuts):
            share[k] = work.y[size + k] / work.x[size + k]
        _factor(work, hessian, g, share, U, L, row)
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
def _factor(work, hessian, g, share, U, L, row):  # type: ignore[no-untyped-def]
    """U = Lᵀ with UᵀU = H + diag(w/e) + gᵀ diag(λ/s) g; ``row`` is room.

    A pivot below a share of its diagonal becomes huge. Loops that run from 0 over a whole row
    become vector instructions, which those over half of it do not.
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
        pivot = np.sqrt(row[i]) if row[i] > LOST_PIVOT * whole else 1e100
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
