"""Sequential minimal optimisation of the dual QP, warm-started, for every machine at once.

    max_v  cᵀv − ½ vᵀ(K + ρI)v    s.t.  Σv = r,  lo ≤ v ≤ hi

The compiled loop of pair steps (``smo_pairs``) knows nothing of shrinking: the driver hands it a
smaller, contiguous problem once many variables sit firmly at their bounds, and checks on the whole
problem before it believes the result. Where pairs alone would crawl (large C, nearly dependent
rows) a Newton step over all free variables at once does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kernelweave._core.jit import jit
from kernelweave._core.types import Array
from kernelweave._solvers.svm.pairs import BUDGET, UNBOUNDED, iterate
from kernelweave.problems.dual_qp import DualQP

_PATIENCE = 6  # chunks of pair steps before Newton steps are tried
_STEP, _NEWTON, _FLOP = 1.5e-9, 1e-4, 5e-11  # rough seconds: pair step by row, overhead, flop
_POLISH = 20  # Newton steps at the most after the gap is reached, where exactness is asked for


@dataclass(frozen=True)
class Inner:
    """What the inner solver hands back: the point, f = Kv at the rows, the steps it took.

    ``bounded`` is false where the dual grows without limit: an infeasible hard margin.
    """

    v: Array
    f: Array
    steps: int
    bounded: bool


def solve(
    K: Array,
    qp: DualQP,
    start: Array | None = None,
    tol: float = 1e-3,
    tick: Callable[[], None] | None = None,
    max_steps: int | None = None,
    exact: bool = False,
) -> Inner:
    """Solve the dual QP to a relative duality gap ``tol``, from ``start`` (repaired if need be).

    ``tick`` is called at least every 0.2 s. ``max_steps``, 10,000 a row by default, ends what
    rounding would keep going for ever: bounds and a kernel not quite positive semidefinite
    that together span more than the digits there are. A gap of ε leaves an error of the order √ε
    in v; ``exact`` removes what is left of it among the free variables by Newton steps.
    """
    max_steps = 10_000 * max(qp.n, 200) if max_steps is None else max_steps
    task = _Task(K, qp, tol, tick, max_steps)
    v, bounded = qp.feasible(start), True
    f = _product(K, qp.fold(v))
    for _ in range(5):  # rounding in Σv and in the gradient adds up: repair, and look again
        before = task.steps
        gradient = qp.linear - qp.spread(f) - qp.ridge * v
        bounded = task.ascend(K, qp.linear, qp.lower, qp.upper, v, gradient, 0.0)
        if task.steps == before:
            break
        v = qp.feasible(v)
        f = _product(K, qp.fold(v))
        if not bounded or task.steps >= max_steps:
            break
    if exact and bounded:
        for _ in range(_POLISH):
            gradient = qp.linear - qp.spread(f) - qp.ridge * v
            more = _newton_step(K, qp.lower, qp.upper, qp.ridge, v, gradient, 1e-14, v.size)
            v = qp.feasible(v)
            f = _product(K, qp.fold(v))
            if not more:
                break
    return Inner(v, f, task.steps, bounded)


def _product(K: Array, coef: Array) -> Array:
    """K·coef, reading only the rows with a coefficient."""
    rows = np.flatnonzero(coef)
    total = np.zeros(coef.size)
    _add_rows(K, rows, coef[rows], total)
    return total


@jit
def _gather(K, rows, out):  # type: ignore[no-untyped-def]
    """out ← K[rows][:, rows]."""
    for i in range(rows.size):
        row = K[rows[i]]
        for j in range(rows.size):
            out[i, j] = row[rows[j]]


@jit
def _add_rows(K, rows, weights, total):  # type: ignore[no-untyped-def]
    """total ← total + Σ weights_i K[rows_i], four rows at a time."""
    whole = rows.size - rows.size % 4
    for i in range(0, whole, 4):
        a, b, c, d = K[rows[i]], K[rows[i + 1]], K[rows[i + 2]], K[rows[i + 3]]
        p, q, r, s = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for k in range(total.size):
            total[k] += p * a[k] + q * b[k] + r * c[k] + s * d[k]
    for i in range(whole, rows.size):
        a, p = K[rows[i]], weights[i]
        for k in range(total.size):
            total[k] += p * a[k]


class _Task:
    """One solve: its tolerances and its count of steps, shared by the nested problems."""

    def __init__(
        self,
        K: Array,
        qp: DualQP,
        tol: float,
        tick: Callable[[], None] | None,
        max_steps: int,
    ) -> None:
        self.ridge, self.tol, self.tick, self.max_steps = qp.ridge, tol, tick, max_steps
        self.hard = qp.is_hard
        self.kkt_tol = 0.25 * tol if self.hard else 0.0  # a hard margin scales to feasibility
        self.scale = 0.0
        if self.hard:  # the largest squared norm once centred: what a margin is measured by
            means = K.mean(axis=0)
            self.scale = float((np.diagonal(K) - 2.0 * means).max() + means.mean())
        self.steps = 0

    def ascend(
        self,
        K: Array,
        linear: Array,
        lower: Array,
        upper: Array,
        v: Array,
        gradient: Array,
        offset: float,
    ) -> bool:
        """Bring v, in place, to the tolerance on these rows; whether the dual is bounded."""
        n = K.shape[0]
        diagonal = np.ascontiguousarray(np.diagonal(K))
        budget = max(200, min(v.size, 40_000_000 // v.size))
        value = -np.inf
        for chunk in count(1):
            rounding = 1e-15 * float(np.abs(linear - gradient).max())
            taken, why = iterate(
                K, diagonal, linear, lower, upper, self.ridge, offset,
                v, gradient, budget, self.tol, max(self.kkt_tol, rounding),
            )  # fmt: skip
            self.steps += taken
            before, value = value, offset + 0.5 * float((linear + gradient) @ v)
            if self.tick is not None:
                self.tick()
            if why == UNBOUNDED or (self.hard and self._on_ray(linear, v, gradient)):
                return False
            if why != BUDGET or self.steps >= self.max_steps:
                return True
            if value - before <= 1e-15 * abs(value):
                return True  # as far as rounding allows
            rows = _rows_in_play(n, lower, upper, v, gradient)
            if rows.size <= 0.85 * n:
                if not self._ascend_within(rows, K, linear, lower, upper, v, gradient, offset):
                    return False
            elif chunk >= _PATIENCE:
                spent = chunk * budget * v.size * _STEP  # an estimate: clocks are not repeatable
                self._newton_steps(K, lower, upper, v, gradient, 0.25 * spent + 30 * _NEWTON)
        return True

    def _ascend_within(
        self,
        rows: NDArray[np.intp],
        K: Array,
        linear: Array,
        lower: Array,
        upper: Array,
        v: Array,
        gradient: Array,
        offset: float,
    ) -> bool:
        """Solve over the variables of ``rows`` alone, the others fixed, then update the rest."""
        n = K.shape[0]
        inside = (np.arange(0, v.size, n)[:, None] + rows).ravel()
        part = np.empty((rows.size, rows.size))
        _gather(K, rows, part)
        part.flags.writeable = False
        w, g = v[inside], gradient[inside]
        old = w.copy()
        coef = w.reshape(-1, rows.size).sum(axis=0)
        pull = np.tile(part @ coef, v.size // n) + self.ridge * w
        c = g + pull  # what the fixed variables leave of the linear term
        whole = 0.5 * float((linear + gradient) @ v)
        bounded = self.ascend(
            part, c, lower[inside], upper[inside], w, g, offset + whole - 0.5 * float((c + g) @ w)
        )
        v[inside] = w
        change = np.zeros(n)
        change[rows] = (w - old).reshape(-1, rows.size).sum(axis=0)
        gradient -= np.tile(_product(K, change), v.size // n)
        gradient[inside] -= self.ridge * (w - old)
        return bounded

    def _newton_steps(
        self, K: Array, lower: Array, upper: Array, v: Array, gradient: Array, allowed: float
    ) -> None:
        """Newton steps until one meets no bound, for about ``allowed`` seconds at the most."""
        free = np.count_nonzero((v > lower) & (v < upper))
        while (allowed := allowed - _NEWTON - _FLOP * free**3 / 3.0) >= 0.0:
            more = _newton_step(K, lower, upper, self.ridge, v, gradient)
            if self.tick is not None:
                self.tick()
            if not more:
                return

    def _on_ray(self, linear: Array, v: Array, gradient: Array) -> bool:
        """Whether v proves a margin below 1e-6 of the largest norm: not separable in practice.

        For every feasible v, ‖f‖² of a separating f is at least (cᵀv)²/vᵀKv.
        """
        gain = float(linear @ v)
        limit = 1e-12 * self.scale * gain * gain
        return gain > 0.0 and float((linear - gradient) @ v) <= limit


def _rows_in_play(
    n: int, lower: Array, upper: Array, v: Array, gradient: Array
) -> NDArray[np.intp]:
    """Rows with a variable that is free, or at a bound it may be about to leave."""
    can_grow, can_fall = v < upper, v > lower
    top = gradient[can_grow].max(initial=-np.inf)
    bottom = gradient[can_fall].min(initial=np.inf)
    stays = (~can_grow & (gradient > top)) | (~can_fall & (gradient < bottom))
    return np.flatnonzero(~stays.reshape(-1, n).all(axis=0))


def _newton_step(
    K: Array,
    lower: Array,
    upper: Array,
    ridge: float,
    v: Array,
    gradient: Array,
    soft: float = 1e-10,
    most: int = 256,
) -> bool:
    """Maximise over all free variables at once, in place, as far as the first bound.

    The direction solves (K_FF + ρI)x + b = g_F, Σx = 0; a little extra ridge, ``soft`` of the mean
    diagonal, keeps the system definite where rows repeat, and costs only exactness of the
    direction, not ascent. Returns whether a bound was met; no step is made with more than
    ``most`` free variables.
    """
    n = K.shape[0]
    free = np.flatnonzero((v > lower) & (v < upper))
    if not 1 < free.size <= most:
        return False
    rows = free % n
    block = np.empty((rows.size, rows.size))
    _gather(K, rows, block)
    block[np.diag_indices_from(block)] += ridge + soft * max(block.diagonal().mean(), 1e-300)
    try:
        factor = cho_factor(block, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    sides = np.column_stack([gradient[free], np.ones(free.size)])
    along, ones = cho_solve(factor, sides, check_finite=False).T
    x = along - ones * (along.sum() / ones.sum())
    x -= x.mean()
    rise = float(gradient[free] @ x)
    if not rise > 0.0:
        return False
    coef = np.bincount(rows, x, minlength=n).astype(float)
    pull = _product(K, coef)
    curvature = float(coef @ pull) + ridge * float(x @ x)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(x > 0.0, (upper[free] - v[free]) / x, (lower[free] - v[free]) / x)
    reach[x == 0.0] = np.inf
    room = float(reach.min())
    move = min(rise / curvature if curvature > 0.0 else np.inf, room)
    if not np.isfinite(move):
        return False
    v[free] += move * x
    if move == room:
        hit = reach <= room
        v[free[hit]] = np.where(x[hit] > 0.0, upper[free[hit]], lower[free[hit]])
    gradient -= move * np.tile(pull, v.size // n)
    gradient[free] -= ridge * move * x
    return move == room
