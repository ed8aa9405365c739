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
    """Solves for a step at one point of the path; of the order of the kernels, or of the cuts."""

    def judge(self, work: Work, z: float, nu: float) -> Missed:
        """What each condition misses, in ``work``, and all of it in short."""
        ...

    def factor(self, e: Array, w: Array, s: Array, lam: Array) -> None:
        """Prepare for steps from this point; ``LinAlgError`` where rounding forbids."""
        ...

    def move(self, work: Work, missed: Missed) -> tuple[float, float]:
        """Predict, correct and go along the step, in ``work``; how far z and ν go with it."""
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
    for _ in range(_STEPS):
        missed = mu, worst, excess, _ = system.judge(work, z, nu)
        if mu < MASTER_PATH and max(worst, abs(excess)) < MASTER_RESIDUAL:
            return Path(e, lam, nu, True)
        try:
            system.factor(e, w, s, lam)
        except LinAlgError:
            return Path(e, lam, nu, False)
        dz, dn = system.move(work, missed)
        z, nu = z + dz, nu + dn
    return Path(e, lam, nu, False)


class NarrowSystem:
    """H + diag(w/e) + gᵀ diag(λ/s) g, of the order of the kernels, by Cholesky's method.

    A pivot lost to rounding (kernels that are nearly the same) becomes huge: that entry of a
    solution is then zero, and its twin moves alone.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.g, B = program, np.ascontiguousarray(program.g), program.B
        self.hessian = np.diag(program.damping) + B.T @ B
        cuts, size = self.g.shape
        self.L, self.parts = np.empty((size, size)), np.empty((3, size))
        self.share = np.empty(cuts)
        self.schur = 0.0, 0.0, 0.0

    def judge(self, work: Work, z: float, nu: float) -> Missed:
        """What the conditions miss."""
        return _narrow_judge(work, self.program.a, self.g, self.program.pull, self.hessian, z, nu)

    def factor(self, e: Array, w: Array, s: Array, lam: Array) -> None:
        """The factor, and the Schur complement of (z, ν)."""
        np.divide(lam, s, out=self.share)
        weighted = self.share[:, None] * self.g
        matrix = self.g.T @ weighted
        matrix += self.hessian
        self.schur = _prepare(matrix, w / e, self.g, self.share, self.L, self.parts, LOST_PIVOT)
        zz, zn, nn = self.schur
        if not abs(zz * nn - zn * zn) > 0.0:
            raise LinAlgError("the Schur complement is singular")

    def move(self, work: Work, missed: Missed) -> tuple[float, float]:
        """All of a step in one compiled call."""
        solver = self.g, self.share, self.L, self.parts, self.schur
        return _narrow_move(work, missed, solver, _BACK)


class WideSystem:
    """With R = (B, −g) and t = (B de, dλ) the kernels leave first: Θ + R D⁻¹Rᵀ is what remains.

    D = diag(δ + w/e), Θ = diag(1, s/λ). Rows of R less their means, weighted by D⁻¹, make ν
    independent of t without cancellation. Since the sum over cuts of t is given, a multiple of its
    square may be added: without it the matrix is singular at a vertex.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.damping, self.bends = program, program.damping, len(program.B)
        self.R = np.vstack([program.B, -program.g])

    def judge(self, work: Work, z: float, nu: float) -> Missed:
        """What the conditions miss."""
        a, g, pull, damping, B = self.program
        size = pull.size
        e, lam = work.x[:size], work.y[size:]
        work.rest[:size] = pull + damping * e + (B @ e) @ B - lam @ g
        work.rest[size:] = g @ e - a
        return _judge(work, size, z, nu)

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

    def move(self, work: Work, missed: Missed) -> tuple[float, float]:
        """Mehrotra's step."""
        size, (_, _, excess, lack) = self.damping.size, missed
        self._step(work, lack, excess)
        _correct(work, size, missed, _BACK)
        dz, dn = self._step(work, lack, excess)
        reach = _advance(work, size, _BACK)
        return reach * dz, reach * dn

    def _step(self, work: Work, lack: float, excess: float) -> tuple[float, float]:
        """Set dλ and de, then ds from dλ; dz and dν."""
        size, bends = self.damping.size, self.bends
        slopes, cuts = work.side[:size], work.side[size:]
        pushed = slopes * self.share
        side = self.rows @ pushed - self.mean * excess
        side[bends:] += cuts
        t = self._solve(side)
        dz = float(t[bends:].sum() - lack) / float(self.along_z[bends:].sum())
        t -= dz * self.along_z
        dn = float(pushed.sum() + excess) / self.total
        work.dx[:size] = (slopes - dn - t @ self.rows) * self.share
        work.dy[size:] = t[bends:]
        work.dx[size:] = cuts + work.rest[size:] - self.theta * t[bends:]
        return dz + self.heavy * lack, dn - float(self.mean @ t)


# Loops rather than array expressions: they compile in a tenth of the time.


@ordered_jit
def _judge(work, size, z, nu):  # type: ignore[no-untyped-def]
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
def _narrow_judge(work, a, g, pull, hessian, z, nu):  # type: ignore[no-untyped-def]
    """The same, from H itself."""
    cuts, size = g.shape
    for i in range(size):
        total = pull[i]
        for j in range(size):
            total += hessian[i, j] * work.x[j]
        work.rest[i] = total
    for k in range(cuts):
        total = -a[k]
        for i in range(size):
            total += g[k, i] * work.x[i]
            work.rest[i] -= work.y[size + k] * g[k, i]
        work.rest[size + k] = total
    return _judge(work, size, z, nu)


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
def _correct(work, size, missed, back):  # type: ignore[no-untyped-def]
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
def _advance(work, size, back):  # type: ignore[no-untyped-def]
    """Go along the step, short of the boundary; how far."""
    _complete(work, size)
    reach = min(1.0, back * _reach(work, back))
    for i in range(work.x.size):
        work.x[i] += reach * work.dx[i]
        work.y[i] += reach * work.dy[i]
    return reach


@ordered_jit
def _prepare(matrix, ratio, g, share, L, parts, lost):  # type: ignore[no-untyped-def]
    """L with LLᵀ = matrix + diag(ratio), border and solutions along z and ν, Schur complement.

    A pivot below the share ``lost`` of its diagonal becomes huge.
    """
    cuts, size = g.shape
    border, along_z, along_nu = parts[0], parts[1], parts[2]
    for i in range(size):
        border[i] = 0.0
        for j in range(i + 1):
            whole = matrix[i, j] + (ratio[i] if i == j else 0.0)
            total = whole
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = total / L[j, j]
            else:
                L[i, i] = np.sqrt(total) if total > lost * whole else 1e100
    zz, zn, nn = 0.0, 0.0, 0.0
    for k in range(cuts):
        zz += share[k]
        for i in range(size):
            border[i] += share[k] * g[k, i]
    for i in range(size):
        along_z[i], along_nu[i] = border[i], 1.0
    _solve(L, along_z)
    _solve(L, along_nu)
    for i in range(size):
        zz -= border[i] * along_z[i]
        zn -= border[i] * along_nu[i]
        nn -= along_nu[i]
    return zz, zn, nn


@ordered_jit
def _narrow_move(work, missed, solver, back):  # type: ignore[no-untyped-def]
    """Mehrotra's step of the narrow system; how far z and ν go."""
    size = solver[0].shape[1]
    _narrow_step(work, missed, solver)
    _correct(work, size, missed, back)
    dz, dn = _narrow_step(work, missed, solver)
    reach = _advance(work, size, back)
    return reach * dz, reach * dn


@ordered_jit
def _narrow_step(work, missed, solver):  # type: ignore[no-untyped-def]
    """de, ds and dλ of the narrow system in place; dz and dν."""
    g, share, L, parts, (zz, zn, nn) = solver
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
    _solve(L, de)
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
