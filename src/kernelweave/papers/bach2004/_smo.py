"""SMO on the regularized dual of the support kernel machine [bach2004, §4.2].

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

from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import COINCIDE, ROUNDING, SOFT, TIGHTEST, TINY
from kernelweave._core.types import Array, Places
from kernelweave.papers.bach2004 import _pairs as skm_pairs
from kernelweave.papers.bach2004._moreau_yosida import Regularized, regularize
from kernelweave.papers.bach2004._optimality import extremes
from kernelweave.papers.bach2004._pairs import Target
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks.protocol import Stack

_STEPS, _FEWEST = 10_000, 1000  # pair steps per point, and for how many points at least
_ROUNDS = 50  # of pair and Newton steps; more than ten are rare, and more than these do not help
_PAIR, _NEWTON, _FLOP = 1.5e-9, 1e-4, 5e-11  # rough seconds: pair step by number, overhead, flop


class KernelRows:
    """The rows of kernels at the points in play, kept for as long as these stay in play.

    ``block[j, i]`` is row ``points[i]`` of kernel j at the columns ``points``, where ``filled[j]``;
    memory is taken for those kernels only. At most about ``limit`` numbers are held. Kernels count
    ``scale`` times. ``computed`` counts the rows of kernels that were filled in, ``misses`` how
    often some were wanted that were not there.
    """

    def __init__(self, stack: Stack, limit: int = 1 << 26, scale: Array | None = None) -> None:
        self.stack, self.limit = stack, limit
        self.scale = np.ones(stack.m) if scale is None else scale
        self.computed, self.misses = 0, 0
        self._clear(np.empty(0, np.intp))

    def products(self, coef: Array, kernels: Places) -> Array:
        """All s_j K_j coef of some kernels."""
        return self.scale[kernels, None] * self.stack.matvecs(coef, kernels=kernels)

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
        lacking = kernels[~self.filled[kernels]]
        self.computed += lacking.size * self.points.size
        self.misses += lacking.size > 0
        for kernel in lacking:
            for some in range(0, self.points.size, SETTINGS.rows):
                rows = self.points[some : some + SETTINGS.rows]
                block = self.stack.block(int(kernel), rows, self.points)
                self.block[kernel, some : some + SETTINGS.rows] = self.scale[kernel] * block
            self.filled[kernel] = True

    def _clear(self, points: Places) -> None:
        self.points, self.filled = points, np.zeros(self.stack.m, np.bool_)
        self.block = np.empty((self.stack.m, points.size, points.size))


@dataclass(frozen=True)
class SkmInner:
    """A solution of the regularized machine: v, all K_j v and vᵀK_j v, and what G is made of.

    ``gap`` is relative, ``violation`` that of (OPT_6), 2ε; ``bounded`` is false where G falls
    without limit: a hard margin that these kernels do not allow.
    """

    v: Array
    products: Array
    q: Array
    parts: Regularized
    gap: float
    violation: float
    steps: int
    bounded: bool = True


def solve(
    rows: KernelRows,
    target: Target,
    qp: DualQP,
    start: Array | None = None,
    gap_tol: float = 1e-3,
    kkt_tol: float = 0.0,
    tick: Callable[[], None] | None = None,
    newton: bool = True,
    by_brent: bool = False,
) -> SkmInner:
    """Minimize G over the feasible v, with some kernels of the stack behind ``rows``.

    It ends at relative duality gap ``gap_tol``, where (OPT_6) holds up to 2ε = ``kkt_tol``, or
    where rounding ends it. Without ``newton`` there are pair steps only: as many as it takes, up to
    ten million, or 10,000 per point.
    ``by_brent``: the minimum along a pair is found by Brent's method.
    """
    if qp.is_hard:
        kkt_tol = max(kkt_tol, 0.25 * gap_tol)
    v = qp.feasible() if start is None else _feasible(qp, start)
    steps, least, crawls = 0, np.inf, False
    most = _STEPS * max(qp.n, 200 if newton else _FEWEST)
    while True:
        whole = _Whole(rows, target, qp, v)
        found = SkmInner(
            v, whole.products, whole.q, whole.parts, whole.gap, whole.violation, steps
        )  # fmt: skip
        if whole.gap <= gap_tol or whole.violation <= max(kkt_tol, whole.rounding):
            return found
        if whole.value >= least or crawls or steps > most:
            return found
        least = whole.value - TIGHTEST * abs(whole.value)
        ranked, needed = whole.in_play()
        rows.hold(target.kernels, ranked, needed)
        part = _ActiveSet(rows, target, qp, whole)
        share = 0.5 * min(1.0, rows.points.size / max(needed, 1))
        if not part.descend(share * gap_tol, 0.5 * kkt_tol, tick, newton, by_brent):
            return replace(found, bounded=False)
        steps, crawls = steps + part.steps, part.crawls
        v = v.copy()
        v[part.variables] = part.x.v
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
    return np.clip(v + missing / max(room.sum(), TINY) * room, qp.lower, qp.upper)


class _Whole:
    """The state at all points, computed afresh from v."""

    def __init__(self, rows: KernelRows, target: Target, qp: DualQP, v: Array) -> None:
        self.qp, self.v = qp, v
        a, d, coef = target.a, target.d, qp.fold(v)
        self.products = rows.products(coef, target.kernels)
        self.q = np.maximum(self.products @ coef, 0.0)
        self.parts = regularize(np.sqrt(self.q), a, d)
        f = self.parts.eta @ self.products
        self.gradient = qp.linear - qp.tile(f) - qp.ridge * v
        self.value = self.parts.value - qp.dual_linear(v)
        self.top, self.bottom = extremes(qp, v, self.gradient)
        self.violation = self.top - self.bottom
        self.rounding = ROUNDING * float(np.abs(f).max() * (1.0 + ((d / a) ** 2).max()))  # η has it
        self.middle = 0.5 * (self.top + self.bottom)
        _, gap = skm_pairs.value_and_gap(
            qp.linear, qp.lower, qp.upper, qp.ridges, v, self.gradient, self.middle
        )
        self.gap = gap / max(abs(gap - self.value), TINY) if gap < np.inf else np.inf

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


class _ActiveSet:
    """The variables of the points held, the others fixed."""

    def __init__(self, rows: KernelRows, target: Target, qp: DualQP, whole: _Whole) -> None:
        self.block, self.target, points = rows.block, target, rows.points
        self.variables = (np.arange(0, whole.v.size, qp.n)[:, None] + points).ravel()
        held = (array[self.variables] for array in (qp.linear, qp.lower, qp.upper, qp.ridges))
        v, gradient = whole.v[self.variables], whole.gradient[self.variables]
        linear, lower, upper, ridge = held
        offset = qp.dual_linear(whole.v) - float(linear @ v - 0.5 * (v @ (ridge * v)))
        products = np.ascontiguousarray(whole.products[:, points])
        self.x = skm_pairs.Variables(
            linear, lower, upper, ridge, v, gradient, products, whole.q.copy(), offset
        )
        self.gamma = whole.parts.gamma
        self.rounding, self.hard, self.steps, self.crawls = whole.rounding, qp.is_hard, 0, True

    def descend(
        self,
        gap_tol: float,
        kkt_tol: float,
        tick: Callable[[], None] | None,
        newton: bool,
        by_brent: bool,
    ) -> bool:
        """Bring v to the tolerance, unless it ``crawls``; whether G is bounded."""
        m, p = self.x.products.shape
        budget = max(200, p)
        kkt_tol, value = max(kkt_tol, self.rounding), np.inf
        for _ in range(_ROUNDS if newton else _STEPS * max(p, _FEWEST) // budget):
            taken, why, self.gamma = skm_pairs.iterate(
                self.block, self.target, self.x, self.gamma, budget, gap_tol, kkt_tol, by_brent
            )
            self.steps += taken
            if tick is not None:
                tick()
            if why == skm_pairs.UNBOUNDED or (self.hard and self._on_ray()):
                return False
            before, value = value, self._weights()[0] - self._linear()
            if why != skm_pairs.BUDGET or before - value <= TIGHTEST * abs(value):
                self.crawls = False
                return True
            if newton:
                self._newton_steps(budget * m * p * _PAIR + 30 * _NEWTON)
        return True

    def _on_ray(self) -> bool:
        """Whether v proves a margin below 1e-6 of the largest norm: not separable in practice.

        Σ d_j‖w_j‖ of a separating f is at least cᵀv/max γ_j, for every feasible v.
        """
        units = self.target.a**2 + self.target.d**2
        longest = max(
            float(self.block[kernel].diagonal().max() / unit)
            for kernel, unit in zip(self.target.kernels, units, strict=True)
        )
        rise = self._linear() + self.x.offset
        return rise > 0.0 and float((self.x.q / units).max()) <= 1e-6**2 * longest * rise * rise

    def _linear(self) -> float:
        """cᵀv − ½ρ‖v‖² over the variables here."""
        x = self.x
        return float(x.linear @ x.v - 0.5 * (x.v @ (x.ridge * x.v)))

    def _weights(self) -> tuple[float, Array, Array]:
        """Value of G but for what is linear, all θ_j and all η_j."""
        sizes = np.sqrt(np.maximum(self.x.q, 0.0))
        eta = np.empty(sizes.size)
        return skm_pairs.weights(sizes, self.target, self.gamma, eta), sizes, eta

    def _newton_steps(self, allowed: float) -> None:
        """Newton steps until one meets no bound, one at least, for about ``allowed`` seconds."""
        x, (m, p) = self.x, self.x.products.shape
        while True:
            free = np.flatnonzero((x.v > x.lower) & (x.v < x.upper))
            along = self._newton_direction(free)
            if along is None or not self._move(free, along):
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
        size, x, a, d = free.size, self.x, self.target.a, self.target.d
        if size < 2:
            return None
        rows = free % x.products.shape[1]
        _, sizes, eta = self._weights()
        used = np.flatnonzero(eta)
        w = d[used] / a[used] ** 2
        M = np.diag(self.gamma * w / sizes[used]) - np.outer(w, w) / (1.0 + w @ d[used])
        values, vectors = np.linalg.eigh(M)
        stiff = values > COINCIDE * values[-1:].sum()
        border = vectors[:, stiff].T @ (x.products[np.ix_(used, rows)] / sizes[used, None])
        system = np.zeros((size + len(border) + 1,) * 2)  # its lower triangle
        skm_pairs.assemble(self.block, self.target.kernels, eta, rows, system)
        corner = np.full(len(system), SOFT * float(system.trace()) / size + TINY)
        corner[:size] += x.ridge[free]
        corner[size:-1], corner[-1] = -1.0 / values[stiff], 0.0
        system[np.diag_indices_from(system)] += corner
        system[size:-1, :size], system[-1, :size] = border, 1.0
        side = np.zeros(len(system))
        side[:size] = x.gradient[free]
        work = int(dsysv_lwork(len(system))[0])
        _, _, solved, failed = dsysv(system.T, side, lwork=work, overwrite_a=True)
        along = solved[:size] - solved[:size].mean()
        length = float(np.abs(along).max())  # of no meaning, perhaps huge: the search finds it anew
        return None if failed or not 0.0 < length < np.inf else along / length

    def _move(self, free: Places, along: Array) -> bool:
        """Go to where G is least along a direction, or to the first bound; whether it was met."""
        x, (m, p) = self.x, self.x.products.shape
        coef = np.bincount(free % p, along, minlength=p)
        pull = np.stack([self.block[kernel] @ coef for kernel in self.target.kernels])
        v, lower, upper = x.v[free], x.lower[free], x.upper[free]
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(along > 0.0, (upper - v) / along, (lower - v) / along)
        reach[along == 0.0] = np.inf
        slopes, bends = x.products @ coef, np.asarray(pull @ coef, dtype=float)
        ridge = x.ridge[free]
        rise = float(x.linear[free] @ along - v @ (ridge * along))
        bend = float(along @ (ridge * along))
        line = skm_pairs.Line(x.q, slopes, bends, rise, bend, float(reach.min()))
        move, gamma = skm_pairs.search(line, self.target, self.gamma, np.empty(m))
        if not 0.0 < move < np.inf:
            return False
        hit = reach <= move
        bound = np.where(along > 0.0, upper, lower)
        x.v[free] = np.where(hit, bound, np.clip(v + move * along, lower, upper))
        x.q[:] += move * (2.0 * slopes + move * bends)
        x.products[:] += move * pull
        self.gamma = gamma
        f = self._weights()[2] @ x.products
        skm_pairs.set_gradient(x.linear, x.ridge, x.v, f, x.gradient)
        return bool(hit.any())
