"""SMO on the regularised dual of the support kernel machine [bach2004, §4.2].

    min_v  G(v)    s.t.  Σv = r,  lo ≤ v ≤ hi          (G: see ``moreau_yosida``)

The pair steps (``skm_pairs``) run on the points in play only, whose rows are held in one block: a
step streams the rows of its two points, of all kernels, once, and keeps all K_j v up to date. Where
pairs would crawl (a small, so that G bends sharply wherever kernels compete) Newton steps over
all free variables at once do the rest. Then all points are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dsysv, dsysv_lwork

from kernelweave._core.jit import jit
from kernelweave._core.types import Array, Places
from kernelweave._solvers.skm import pairs as skm_pairs
from kernelweave._solvers.skm.moreau_yosida import Regularised, regularise
from kernelweave._solvers.skm.optimality import extremes
from kernelweave.machines.oracle import Stack
from kernelweave.problems.dual_qp import DualQP

_FEW = 64  # rows fetched at a time: whole ones stay in cache until their columns are taken
_ROUNDS = 50  # of pair and Newton steps; more than ten are rare, and more than these do not help
_PAIR, _NEWTON, _FLOP = 1.5e-9, 1e-4, 5e-11  # rough seconds: pair step by number, overhead, flop


class Rows:
    """The rows of kernels at the points in play, kept for as long as these stay in play.

    ``block[j, i]`` is row ``points[i]`` of kernel j at the columns ``points``, where ``filled[j]``;
    memory is taken for those kernels only. At most about ``limit`` numbers are held.
    """

    def __init__(self, stack: Stack, limit: int = 1 << 26) -> None:
        self.stack, self.limit = stack, limit
        self._clear(np.empty(0, np.intp))

    def hold(self, kernels: Places, ranked: Places, needed: int) -> None:
        """Hold these kernels at the first ``needed`` points of ``ranked``, and at some more.

        New points are taken in, with some that may soon be needed, only where old ones do not do.
        """
        kernels_held = np.count_nonzero(self.filled) + np.count_nonzero(~self.filled[kernels])
        if (
            kernels_held * self.points.size**2 > self.limit
            or self.points.size > 4 * needed + 256
            or not np.isin(ranked[:needed], self.points).all()
        ):
            wanted = int(1.25 * needed) + 32
            most = max(2, int(np.sqrt(self.limit / kernels.size)))
            self._clear(np.sort(ranked[: min(wanted, most)]))
        for kernel in kernels[~self.filled[kernels]]:
            alone = np.eye(1, self.stack.m, kernel)[0]
            for some in range(0, self.points.size, _FEW):
                rows = self.stack.rows(alone, self.points[some : some + _FEW])
                _columns(rows, self.points, self.block[kernel, some : some + _FEW])
            self.filled[kernel] = True

    def _clear(self, points: Places) -> None:
        self.points, self.filled = points, np.zeros(self.stack.m, np.bool_)
        self.block = np.empty((self.stack.m, points.size, points.size))


@jit
def _columns(rows, points, out):  # type: ignore[no-untyped-def]
    """out ← rows[:, points]."""
    for i in range(len(rows)):
        row, part = rows[i], out[i]
        for k in range(points.size):
            part[k] = row[points[k]]


@dataclass(frozen=True)
class Inner:
    """A solution of the regularised machine: v, all K_j v and vᵀK_j v, and what G is made of.

    ``gap`` is relative, ``violation`` that of (OPT_6), 2ε; ``bounded`` is false where G falls
    without limit: a hard margin that these kernels do not allow.
    """

    v: Array
    products: Array
    q: Array
    parts: Regularised
    gap: float
    violation: float
    steps: int
    bounded: bool = True


def solve(
    rows: Rows,
    kernels: Places,
    qp: DualQP,
    a: Array,
    d: Array,
    start: Array | None = None,
    gap_tol: float = 1e-3,
    kkt_tol: float = 0.0,
    tick: Callable[[], None] | None = None,
) -> Inner:
    """Minimise G over the feasible v, with some ``kernels`` of the stack behind ``rows``.

    ``a`` > 0 and ``d`` ≥ 0 belong to these kernels. It ends at relative duality gap ``gap_tol``,
    where (OPT_6) holds up to 2ε = ``kkt_tol``, or where rounding ends it.
    """
    if qp.is_hard:
        kkt_tol = max(kkt_tol, 0.25 * gap_tol)
    v = qp.feasible() if start is None else _feasible(qp, start)
    steps, least, crawls = 0, np.inf, False
    while True:
        whole = _Whole(rows.stack, kernels, qp, a, d, v)
        found = Inner(
            v, whole.products, whole.q, whole.parts, whole.gap, whole.violation, steps
        )  # fmt: skip
        if whole.gap <= gap_tol or whole.violation <= max(kkt_tol, whole.rounding):
            return found
        if whole.value >= least or crawls or steps > 10_000 * max(qp.n, 200):
            return found
        least = whole.value - 1e-14 * abs(whole.value)
        ranked, needed = whole.in_play()
        rows.hold(kernels, ranked, needed)
        part = _Part(rows, kernels, qp, a, d, whole)
        share = 0.5 * min(1.0, rows.points.size / max(needed, 1))
        if not part.descend(share * gap_tol, 0.5 * kkt_tol, tick):
            return replace(found, bounded=False)
        steps, crawls = steps + part.steps, part.crawls
        v = v.copy()
        v[part.variables] = part.v
        v = _feasible(qp, v)


def _feasible(qp: DualQP, start: Array) -> Array:
    """A feasible v near ``start``, at a bound wherever that is at or beyond it, if possible.

    What is missing of Σv is shared by the other variables, by their distances from the bounds.
    """
    v = np.clip(start, qp.lower, qp.upper)
    room = np.minimum(v - qp.lower, qp.upper - v)
    room = np.isinf(room).astype(float) if np.isinf(room).any() else room
    missing = qp.total - v.sum()
    if abs(missing) > 0.5 * room.sum():
        return qp.feasible(v)
    return np.clip(v + missing / max(room.sum(), 1e-300) * room, qp.lower, qp.upper)


class _Whole:
    """The state at all points, computed afresh from v."""

    def __init__(
        self, stack: Stack, kernels: Places, qp: DualQP, a: Array, d: Array, v: Array
    ) -> None:
        self.qp, self.v = qp, v
        coef = qp.fold(v)
        self.products = stack.matvecs(coef, kernels=kernels)
        self.q = np.maximum(self.products @ coef, 0.0)
        self.parts = regularise(np.sqrt(self.q), a, d)
        f = self.parts.eta @ self.products
        self.gradient = qp.linear - qp.spread(f) - qp.ridge * v
        self.value = self.parts.value - qp.dual_linear(v)
        self.top, self.bottom = extremes(qp, v, self.gradient)
        self.violation = self.top - self.bottom
        self.rounding = 1e-15 * float(np.abs(f).max() * (1.0 + ((d / a) ** 2).max()))  # η has it
        self.middle = 0.5 * (self.top + self.bottom)
        _, gap = skm_pairs.value_and_gap(
            qp.linear, qp.lower, qp.upper, qp.ridge, v, self.gradient, self.middle
        )
        self.gap = gap / max(abs(gap - self.value), 1e-300) if gap < np.inf else np.inf

    def in_play(self) -> tuple[Places, int]:
        """Rows in the order in which they have to move, and how many should be held.

        The worst pair leads, so that there is progress however few are held, free ones follow, then
        those that should leave a bound: of these no more than there are free ones, because far
        from the optimum many seem to.
        """
        grow = np.where(self.v < self.qp.upper, self.gradient - self.middle, -np.inf)
        fall = np.where(self.v > self.qp.lower, self.middle - self.gradient, -np.inf)
        grow, fall = (x.reshape(-1, self.qp.n).max(axis=0) for x in (grow, fall))
        urge = np.maximum(grow, fall)
        urge[np.isfinite(grow) & np.isfinite(fall)] = 1e300
        urge[[np.argmax(grow), np.argmax(fall)]] = np.inf
        first, all_in = np.count_nonzero(urge >= 1e300), np.count_nonzero(urge >= 0.0)
        return np.argsort(-urge, kind="stable"), int(min(2 * first, all_in))


class _Part:
    """The variables of the points held, the others fixed."""

    def __init__(
        self, rows: Rows, kernels: Places, qp: DualQP, a: Array, d: Array, whole: _Whole
    ) -> None:
        self.block, self.kernels, points = rows.block, kernels, rows.points
        self.a, self.d, self.ridge = a, d, qp.ridge
        self.variables = (np.arange(0, whole.v.size, qp.n)[:, None] + points).ravel()
        self.linear = qp.linear[self.variables]
        self.lower, self.upper = qp.lower[self.variables], qp.upper[self.variables]
        self.v, self.gradient = whole.v[self.variables], whole.gradient[self.variables]
        self.products = np.ascontiguousarray(whole.products[:, points])
        self.q, self.gamma = whole.q.copy(), whole.parts.gamma
        self.offset = qp.dual_linear(whole.v) - self._linear()
        self.rounding, self.hard, self.steps, self.crawls = whole.rounding, qp.is_hard, 0, True

    def descend(self, gap_tol: float, kkt_tol: float, tick: Callable[[], None] | None) -> bool:
        """Bring v to the tolerance, unless it ``crawls``; whether G is bounded."""
        m, p = self.products.shape
        budget = max(200, p)
        kkt_tol, value = max(kkt_tol, self.rounding), np.inf
        for _ in range(_ROUNDS):
            taken, why, self.gamma = skm_pairs.iterate(
                self.block, self.kernels, self.linear, self.lower, self.upper, self.ridge,
                self.a, self.d, self.offset, self.v, self.products, self.q, self.gradient,
                self.gamma, budget, gap_tol, kkt_tol,
            )  # fmt: skip
            self.steps += taken
            if tick is not None:
                tick()
            if why == skm_pairs.UNBOUNDED or (self.hard and self._on_ray()):
                return False
            before, value = value, self._weights()[0] - self._linear()
            if why != skm_pairs.BUDGET or before - value <= 1e-14 * abs(value):
                self.crawls = False
                return True
            self._newton_steps(budget * m * p * _PAIR + 30 * _NEWTON)
        return True

    def _on_ray(self) -> bool:
        """Whether v proves a margin below 1e-6 of the largest norm: not separable in practice.

        Σ d_j‖w_j‖ of a separating f is at least cᵀv/max γ_j, for every feasible v.
        """
        units = self.a**2 + self.d**2
        longest = max(
            float(self.block[kernel].diagonal().max() / unit)
            for kernel, unit in zip(self.kernels, units, strict=True)
        )
        rise = self._linear() + self.offset
        return rise > 0.0 and float((self.q / units).max()) <= 1e-12 * longest * rise * rise

    def _linear(self) -> float:
        """cᵀv − ½ρ‖v‖² over the variables here."""
        return float(self.linear @ self.v - 0.5 * self.ridge * (self.v @ self.v))

    def _weights(self) -> tuple[float, Array, Array]:
        """Value of G but for what is linear, all θ_j and all η_j."""
        sizes = np.sqrt(np.maximum(self.q, 0.0))
        eta = np.empty(sizes.size)
        return skm_pairs.weights(sizes, self.a, self.d, self.gamma, eta), sizes, eta

    def _newton_steps(self, allowed: float) -> None:
        """Newton steps until one meets no bound, one at least, for about ``allowed`` seconds."""
        m, p = self.products.shape
        while True:
            free = np.flatnonzero((self.v > self.lower) & (self.v < self.upper))
            x = self._newton_direction(free)
            if x is None or not self._move(free, x):
                return
            allowed -= _NEWTON + _FLOP * free.size**3 / 3.0 + _PAIR * m * (free.size**2 + p**2)
            if allowed < 0.0:
                return

    def _newton_direction(self, free: Places) -> Array | None:
        """Where the quadratic model of G over the free variables is least, Σx = 0.

        With P_j = K_j v/θ_j the Hessian is Σ η_j K_j + ρI + PᵀMP, where

            M = diag(γw_j/θ_j) − w wᵀ/(1 + Σ d_j w_j),   w_j = d_j/a_j²

        over the kernels with a weight. The last part outgrows the others as a falls. With
        M = VΛVᵀ and z = ΛVᵀPx it enters the system as (VᵀP, −Λ⁻¹), the border of a matrix whose
        entries stay of one size. A little more ridge keeps the system regular where rows repeat,
        and costs only exactness of the direction.
        """
        size = free.size
        if size < 2:
            return None
        rows = free % self.products.shape[1]
        _, sizes, eta = self._weights()
        used = np.flatnonzero(eta)
        w = self.d[used] / self.a[used] ** 2
        M = np.diag(self.gamma * w / sizes[used]) - np.outer(w, w) / (1.0 + w @ self.d[used])
        values, vectors = np.linalg.eigh(M)
        stiff = values > 1e-12 * values[-1:].sum()
        border = vectors[:, stiff].T @ (self.products[np.ix_(used, rows)] / sizes[used, None])
        system = np.zeros((size + len(border) + 1,) * 2)  # its lower triangle
        skm_pairs.assemble(self.block, self.kernels, eta, rows, system)
        corner = np.full(len(system), self.ridge + 1e-10 * float(system.trace()) / size + 1e-300)
        corner[size:-1], corner[-1] = -1.0 / values[stiff], 0.0
        system[np.diag_indices_from(system)] += corner
        system[size:-1, :size], system[-1, :size] = border, 1.0
        side = np.zeros(len(system))
        side[:size] = self.gradient[free]
        work = int(dsysv_lwork(len(system))[0])
        _, _, solved, failed = dsysv(system.T, side, lwork=work, overwrite_a=True)
        x = solved[:size] - solved[:size].mean()
        length = float(np.abs(x).max())  # of no meaning, and perhaps huge: the search finds it anew
        return None if failed or not 0.0 < length < np.inf else x / length

    def _move(self, free: Places, x: Array) -> bool:
        """Go to where G is least along x, or to the first bound; whether a bound was met."""
        m, p = self.products.shape
        coef = np.bincount(free % p, x, minlength=p)
        pull = np.stack([self.block[kernel] @ coef for kernel in self.kernels])
        v, lower, upper = self.v[free], self.lower[free], self.upper[free]
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(x > 0.0, (upper - v) / x, (lower - v) / x)
        reach[x == 0.0] = np.inf
        slopes, bends = self.products @ coef, pull @ coef
        rise = float(self.linear[free] @ x - self.ridge * (v @ x))
        move, gamma = skm_pairs.search(
            self.q, slopes, bends, self.a, self.d, self.gamma, rise, self.ridge * float(x @ x),
            float(reach.min()), np.empty(m),
        )  # fmt: skip
        if not 0.0 < move < np.inf:
            return False
        hit = reach <= move
        bound = np.where(x > 0.0, upper, lower)
        self.v[free] = np.where(hit, bound, np.clip(v + move * x, lower, upper))
        self.q += move * (2.0 * slopes + move * bends)
        self.products += move * pull
        self.gamma = gamma
        f = self._weights()[2] @ self.products
        skm_pairs.set_gradient(self.linear, self.ridge, self.v, f, self.gradient)
        return bool(hit.any())
