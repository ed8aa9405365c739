"""The interior point method behind the master problem: Mehrotra's predictor and corrector.

    min_{e ∈ Δ}  max_k (a_k − g_k·e)  +  ½ eᵀ(diag(δ) + BᵀB)e  +  pull·e

Conditions: He + pull − gᵀλ − w + ν = 0,  Σλ = 1,  s = z − a + ge ≥ 0,  Σe = 1,  e∘w = 0, s∘λ = 0.
A step solves

    (H + diag(w/e)) de − gᵀdλ + dν = …,    diag(s/λ) dλ + g de + dz = …,    Σdλ = …,    Σde = …

in one of two ways: ``narrow_system.py`` is of the order of the kernels, ``wide_system.py`` of the
order of the cuts and the rows of B, for many kernels and few cuts. What they share is here.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from kernelweave._core.jit import ordered_jit
from kernelweave._core.tolerances import MASTER_PATH, MASTER_RESIDUAL
from kernelweave._core.types import Array

GOES_ON, ENDED, STUCK = range(3)  # what a system says of the path
BACK = 0.995  # share of the way to the boundary that a step may go
_STEPS = 60


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


# Loops rather than array expressions: they compile in a tenth of the time.


@ordered_jit
def near_the_end(missed):  # type: ignore[no-untyped-def]
    """Whether all conditions hold."""
    mu, worst, excess, _ = missed
    return mu < MASTER_PATH and max(worst, abs(excess)) < MASTER_RESIDUAL


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
