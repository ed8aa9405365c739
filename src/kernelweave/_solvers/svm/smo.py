"""Sequential minimal optimization of the dual QP, warm-started, for every machine at once.

    max_v  cᵀv − ½ vᵀKv − ½ Σ ρ_i v_i²    s.t.  Σv = r,  lo ≤ v ≤ hi

The compiled loop of pair steps (``pairs``) knows nothing of shrinking: the driver hands it a
smaller, contiguous problem once many variables sit firmly at their bounds, and checks on the whole
problem before it believes the result. Where pairs alone would crawl (large C, nearly dependent
rows) a Newton step over all free variables at once does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kernelweave._core.jit import jit
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import NOTHING, ROUNDING, SOFT, SOFT_EXACT, TINY
from kernelweave._core.types import Array, Places
from kernelweave._solvers.svm.pairs import BUDGET, UNBOUNDED, Limits, State, iterate
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks._passes import add_rows, frozen

_PATIENCE = 6  # chunks of pair steps before Newton steps are tried
_STEP, _NEWTON, _FLOP = 1.5e-9, 1e-4, 5e-11  # rough seconds: pair step by row, overhead, flop
_POLISH = 20  # Newton steps at the most after the gap is reached, where exactness is asked for
_GROWN = 1.0  # of the cost of f = 0, beyond it: a dual value that no rounding explains
_FREE = 256  # free variables up to which Newton steps are tried


class Inner(NamedTuple):
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

    ``tick`` is called at least every 0.2 s. ``max_steps``, 10,000 per row by default, ends what
    rounding would keep going for ever: bounds and a kernel not quite positive semidefinite
    that together span more than the digits there are. A gap of ε leaves an error of the order √ε
    in v; ``exact`` removes what is left of it among the free variables by Newton steps. Rows that
    take no part are left aside from the beginning.
    """
    part = qp.rows_in_part()
    if part.size < qp.n:
        return _on_rows(K, qp, part, start, tol, tick, max_steps, exact)
    scale = centered_norm(np.diagonal(K), K.mean(axis=0, dtype=float)) if qp.is_hard else 0.0
    ascent = Ascent(qp, tol, tick, max_steps, scale)
    v, bounded = qp.feasible(start), True
    v, f = shortened(qp, v, product(K, qp.fold(v)))
    for _ in range(5):  # rounding in Σv and in the gradient adds up: repair, and look again
        before = ascent.steps
        bounded = ascent.ascend(K, state_at(qp, v, f))
        if ascent.steps == before:
            break
        v = qp.feasible(v)
        f = product(K, qp.fold(v))
        if not bounded or ascent.steps >= ascent.max_steps:
            break
    if exact and bounded:
        for _ in range(_POLISH):
            more = _newton_step(K, state_at(qp, v, f), SOFT_EXACT, v.size)
            v = qp.feasible(v)
            f = product(K, qp.fold(v))
            if not more:
                break
    return Inner(v, f, ascent.steps, bounded)


def shortened(qp: DualQP, v: Array, f: Array) -> tuple[Array, Array]:
    """A start that is worse than 0 as its best multiple: it was the machine of a smaller kernel."""
    rise, bend = float(qp.linear @ v), float(qp.fold(v) @ f) + qp.bend(v)
    if qp.total != 0.0 or not bend > 2.0 * rise:
        return v, f
    t = max(rise, 0.0) / bend if bend > 0.0 else 0.0
    return t * v, t * f


def _on_rows(K: Array, qp: DualQP, rows: Places, start: Array | None, *limits: Any) -> Inner:
    """The same over the variables of some rows, all others being zero."""
    block = np.empty((rows.size, rows.size), K.dtype)
    _gather(K, rows, block)
    inside = qp.variables(rows)
    warm = None if start is None else start[inside]
    inner = solve(frozen(block), qp.on_rows(rows), warm, *limits)
    v = np.zeros(qp.size)
    v[inside] = inner.v
    return inner._replace(v=v, f=product(K, qp.fold(v)))


def state_at(qp: DualQP, v: Array, f: Array) -> State:
    """All variables at v, which steps change in place, with f = Kv at the rows."""
    gradient = qp.linear - qp.tile(f) - qp.ridge * v
    return State(qp.linear, qp.lower, qp.upper, qp.ridges, v, gradient, 0.0)


def centered_norm(diagonal: Array, means: Array) -> float:
    """The largest squared norm of a point once centered: what a margin is measured by."""
    return float((diagonal - 2.0 * means).max() + means.mean())


def product(K: Array, coef: Array) -> Array:
    """K·coef, reading only the rows with a coefficient."""
    rows = np.flatnonzero(coef)
    total = np.zeros(coef.size)
    add_rows(K, rows, coef[rows], total)
    return total


@jit
def _gather(K, rows, out):  # type: ignore[no-untyped-def]
    """out ← K[rows][:, rows]."""
    for i in range(rows.size):
        row = K[rows[i]]
        for j in range(rows.size):
            out[i, j] = row[rows[j]]


class Ascent:
    """One solve: its tolerances and its count of steps, shared by the nested problems.

    ``scale`` is the largest squared norm of a centered point, for hard margins.
    """

    def __init__(
        self,
        qp: DualQP,
        tol: float,
        tick: Callable[[], None] | None,
        max_steps: int | None,
        scale: float,
    ) -> None:
        self.tol, self.tick = tol, tick
        self.most = np.inf  # bounds of the variables are limits enough
        if qp.is_smooth:
            self.most = qp.ceiling + _GROWN * abs(qp.ceiling)
        self.max_steps = 10_000 * max(qp.n, 200) if max_steps is None else max_steps
        self.hard, self.scale = qp.is_hard, scale
        self.kkt_tol = 0.25 * tol if self.hard else 0.0  # a hard margin scales to feasibility
        self.steps = 0

    def ascend(self, K: Array, state: State) -> bool:
        """Bring v, in place, to the tolerance on these rows; whether the dual is bounded.

        Where a negative eigenvalue exceeds the ridge, v would grow beyond all numbers: it is left
        where that began, and no more steps are made.
        """
        v, gradient = state.v, state.gradient
        bends = np.tile(np.diagonal(K), v.size // len(K)) + state.ridge
        budget = max(200, min(v.size, 40_000_000 // v.size))
        value, kept = -np.inf, (v.copy(), gradient.copy())
        for chunk in count(1):
            rounding = ROUNDING * float(np.abs(state.linear - gradient).max())
            limits = Limits(budget, self.tol, max(self.kkt_tol, rounding), NOTHING, TINY)
            taken, why = iterate(K, bends, state, limits)
            self.steps += taken
            before, value = value, state.value()
            if self.tick is not None:
                self.tick()
            if why == UNBOUNDED or (self.hard and self._on_ray(state)):
                return False
            if not -np.inf < value <= self.most:
                (v[:], gradient[:]), self.max_steps = kept, self.steps
            if why != BUDGET or self.steps >= self.max_steps:
                return True
            kept = v.copy(), gradient.copy()
            if value - before <= ROUNDING * abs(value):
                return True  # as far as rounding allows
            rows = rows_in_play(len(K), state)
            if rows.size <= 0.85 * len(K) and rows.size**2 * K.itemsize <= max(
                SETTINGS.copied, K.nbytes // 4
            ):
                block = np.empty((rows.size, rows.size), K.dtype)
                _gather(K, rows, block)
                bounded, change = self.ascend_rows(len(K), state, rows, block)
                gradient -= np.tile(product(K, change), v.size // len(K))
                if not bounded:
                    return False
            elif chunk >= _PATIENCE:
                spent = chunk * budget * v.size * _STEP  # an estimate: clocks are not repeatable
                self._newton_steps(K, state, 0.25 * spent + 30 * _NEWTON)
        return True

    def ascend_rows(self, n: int, state: State, rows: Places, block: Array) -> tuple[bool, Array]:
        """Solve over the variables of ``rows`` alone, whose kernel is ``block``, the others fixed.

        Returns whether the dual is bounded, and the change of the coefficients of all n rows. The
        gradient of ``state`` still lacks what K makes of that change.
        """
        block = frozen(block)
        inside = (np.arange(0, state.v.size, n)[:, None] + rows).ravel()
        w, g = state.v[inside], state.gradient[inside]
        old = w.copy()
        ridge = state.ridge[inside]
        pull = np.tile(product(block, _fold(w, rows.size)), w.size // rows.size) + ridge * w
        linear = g + pull  # what the fixed variables leave of the linear term
        offset = state.value() - 0.5 * float((linear + g) @ w)
        bounds = state.lower[inside], state.upper[inside]
        bounded = self.ascend(block, State(linear, *bounds, ridge, w, g, offset))
        state.v[inside] = w
        state.gradient[inside] -= ridge * (w - old)
        change = np.zeros(n)
        change[rows] = _fold(w - old, rows.size)
        return bounded, change

    def _newton_steps(self, K: Array, state: State, allowed: float) -> None:
        """Newton steps until one meets no bound, for about ``allowed`` seconds at the most."""
        free = np.count_nonzero((state.v > state.lower) & (state.v < state.upper))
        while (allowed := allowed - _NEWTON - _FLOP * free**3 / 3.0) >= 0.0:
            more = _newton_step(K, state)
            if self.tick is not None:
                self.tick()
            if not more:
                return

    def _on_ray(self, state: State) -> bool:
        """Whether v proves a margin below 1e-6 of the largest norm: not separable in practice.

        For every feasible v, ‖f‖² of a separating f is at least (cᵀv)²/vᵀKv.
        """
        gain = float(state.linear @ state.v)
        limit = 1e-6**2 * self.scale * gain * gain
        return gain > 0.0 and float((state.linear - state.gradient) @ state.v) <= limit


def _fold(w: Array, rows: int) -> Array:
    """Coefficients of the rows: variables that share a row added up."""
    return w.reshape(-1, rows).sum(axis=0)


def rows_in_play(n: int, state: State) -> Places:
    """Rows with a variable that is free, or at a bound it may be about to leave."""
    gradient, can_grow, can_fall = state.gradient, state.v < state.upper, state.v > state.lower
    top = gradient[can_grow].max(initial=-np.inf)
    bottom = gradient[can_fall].min(initial=np.inf)
    stays = (~can_grow & (gradient > top)) | (~can_fall & (gradient < bottom))
    return np.flatnonzero(~stays.reshape(-1, n).all(axis=0))


def _newton_step(K: Array, state: State, soft: float = SOFT, most: int = _FREE) -> bool:
    """Maximize over all free variables at once, in place, as far as the first bound.

    The direction solves (K_FF + diag ρ)x + b = g_F, Σx = 0; a little extra ridge, ``soft`` of the
    mean diagonal, keeps the system definite where rows repeat, and costs only exactness of the
    direction, not ascent. Returns whether a bound was met; no step is made with more than
    ``most`` free variables.
    """
    n, v, gradient = K.shape[0], state.v, state.gradient
    free = np.flatnonzero((v > state.lower) & (v < state.upper))
    if not 1 < free.size <= most:
        return False
    lower, upper, ridge = state.lower[free], state.upper[free], state.ridge[free]
    rows = free % n
    block = np.empty((rows.size, rows.size))
    _gather(K, rows, block)
    block[np.diag_indices_from(block)] += ridge + soft * max(block.diagonal().mean(), TINY)
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
    pull = product(K, coef)
    curvature = float(coef @ pull) + float(x @ (ridge * x))
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(x > 0.0, (upper - v[free]) / x, (lower - v[free]) / x)
    reach[x == 0.0] = np.inf
    room = float(reach.min())
    move = min(rise / curvature if curvature > 0.0 else np.inf, room)
    if not np.isfinite(move):
        return False
    v[free] += move * x
    if move == room:
        hit = reach <= room
        v[free[hit]] = np.where(x[hit] > 0.0, upper[hit], lower[hit])
    gradient -= move * np.tile(pull, v.size // n)
    gradient[free] -= ridge * move * x
    return move == room
