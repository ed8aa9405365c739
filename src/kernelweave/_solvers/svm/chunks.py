"""The dual QP where no n × n array exists: SMO on chunks of rows, fetched as they are needed.

    max_v  cᵀv − ½ vᵀKv − ½ Σ ρ_i v_i²    s.t.  Σv = r,  lo ≤ v ≤ hi

A chunk holds the rows that have to move: the worst pair, the free variables, then those that should
leave a bound. Its block of K is fetched and solved by ``smo``, the other variables fixed; K times
the change updates the gradient of all rows. The duality gap of all variables ends it.

A chunk grows with the number of free variables, as far as memory allows: where some of them are
left out, each chunk undoes part of the last.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelweave._core.blocks import blocks
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import ROUNDING
from kernelweave._core.types import Array, Places
from kernelweave._solvers.svm.pairs import State, value_and_gap
from kernelweave._solvers.svm.smo import Ascent, Inner, centered_norm, shortened, state_at
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks.protocol import CombinedKernel
from kernelweave.stacks.resources import largest_chunk

_SPARE = 1.5  # times as many rows as are free: some have to leave their bounds
_ROUNDS = 1000  # chunks at the most
_REPAIRS = 5  # times that rounding is removed and all is looked at again

Known = tuple[Places, Array]  # rows, and K at these
_NOTHING: Known = np.empty(0, dtype=np.intp), np.empty((0, 0))


def solve(
    K: CombinedKernel,
    qp: DualQP,
    start: Array | None = None,
    tol: float = 1e-3,
    tick: Callable[[], None] | None = None,
    max_steps: int | None = None,
) -> Inner:
    """Solve the dual QP to a relative duality gap ``tol``, from ``start`` (repaired if need be)."""
    n = qp.n
    scale = centered_norm(K.diagonal(), K @ np.full(n, 1.0 / n)) if qp.is_hard else 0.0
    ascent = Ascent(qp, 0.5 * tol, tick, max_steps, scale)
    v, bounded, known = qp.feasible(start), True, _NOTHING
    for _ in range(_REPAIRS):
        v, f = shortened(qp, v, K @ qp.fold(v))
        state, before = state_at(qp, v, f), ascent.steps
        for _ in range(_ROUNDS):
            if _done(state, tol, 2.0 * ascent.kkt_tol):
                break
            rows = ranked_rows(n, state)
            seen = ascent.steps
            block = _fetched(K, rows, tick, known)
            known = (rows, block) if rows.size <= SETTINGS.chunk_rows else _NOTHING
            bounded, change = ascent.ascend_rows(n, state, rows, block)
            state.gradient[:] -= qp.tile(K @ change)
            if not bounded or ascent.steps >= ascent.max_steps:
                break
            if ascent.steps == seen:  # what is left is outside the chunk, or below its tolerance
                if ascent.tol < ROUNDING:
                    break
                ascent.tol, ascent.kkt_tol = 0.1 * ascent.tol, 0.1 * ascent.kkt_tol
        v = qp.feasible(v)
        if not bounded or ascent.steps >= ascent.max_steps or ascent.steps == before:
            break
    return Inner(v, K @ qp.fold(v), ascent.steps, bounded)


def _fetched(
    K: CombinedKernel, rows: Places, tick: Callable[[], None] | None, known: Known
) -> Array:
    """K at these rows, some at a time: time may run out meanwhile.

    Rows that the last chunk had are not asked for again.
    """
    out = np.empty((rows.size, rows.size))
    has = np.isin(rows, known[0])
    old, new, order = np.flatnonzero(has), np.flatnonzero(~has), np.argsort(known[0])
    at = order[np.searchsorted(known[0], rows[old], sorter=order)]
    out[np.ix_(old, old)] = known[1][np.ix_(at, at)]
    at_once = SETTINGS.rows if K.factor() is None else new.size  # each copies its columns of Fᵀ
    for piece in blocks(new.size, 1, max(at_once, 1)):
        if tick is not None:
            tick()
        some = new[piece]
        out[some] = K.block(rows[some], rows)
        out[np.ix_(old, some)] = out[np.ix_(some, old)].T
    return out


def _done(state: State, tol: float, kkt_tol: float) -> bool:
    """Whether all variables together meet the tolerance, or rounding ends it."""
    top = state.gradient[state.v < state.upper].max(initial=-np.inf)
    bottom = state.gradient[state.v > state.lower].min(initial=np.inf)
    rounding = ROUNDING * float(np.abs(state.linear - state.gradient).max())
    if top - bottom <= max(kkt_tol, rounding):
        return True
    value, gap = value_and_gap(state, 0.5 * (top + bottom))
    return bool(gap < np.inf and gap <= tol * abs(value + gap))


def ranked_rows(n: int, state: State) -> Places:
    """Rows that have to move, the most urgent first, as many as a chunk has room for.

    The worst pair leads, so that there is progress however few are taken; free variables follow,
    then those that should leave a bound. Rows firmly at their bounds are left out.
    """
    can_grow, can_fall = state.v < state.upper, state.v > state.lower
    top = state.gradient[can_grow].max(initial=-np.inf)
    bottom = state.gradient[can_fall].min(initial=np.inf)
    middle = 0.5 * (top + bottom)
    grow = np.where(can_grow, state.gradient - middle, -np.inf).reshape(-1, n).max(axis=0)
    fall = np.where(can_fall, middle - state.gradient, -np.inf).reshape(-1, n).max(axis=0)
    urge, bound = np.maximum(grow, fall), ~(can_grow & can_fall).reshape(-1, n).any(axis=0)
    other = np.ones(n, dtype=bool)
    other[[np.argmax(grow), np.argmax(fall)]] = False
    order = np.lexsort((-urge, bound, other))
    return order[urge[order] >= 0.0][: _room(n - int(np.count_nonzero(bound)))]


def _room(free: int) -> int:
    """Rows of a chunk where so many are free."""
    wanted = int(_SPARE * free)
    return SETTINGS.chunk_rows if wanted <= SETTINGS.chunk_rows else min(wanted, largest_chunk())
