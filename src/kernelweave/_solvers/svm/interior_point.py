"""The dual QP by an interior point method: Mehrotra's predictor and corrector.

    max_v  cᵀv − ½ vᵀKv − ½ Σ δ_i v_i²    s.t.  Σv = r,  lo ≤ v ≤ hi,      δ = ρ + τ

With slacks s = v − lo, t = hi − v and their multipliers w, z, a step solves

    (K + D) dv + db·1 = …,    Σdv = …,      D = diag(δ + w/s + z/t)

by a system (``kernelweave._solvers.svm.systems``): a factor of low rank, K = FFᵀ + τI, or products
with K and conjugate gradients. It takes some ten steps, whatever n is. The multiplier of Σv = r is
the bias. It starts where the central path would be if f were 0: a root per row. The true duality
gap ends it; v is then put on the bounds that it approaches, and the rest moved to make up for it,
so that few rows are support vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from kernelweave._core.tolerances import TINY
from kernelweave._core.types import Array
from kernelweave._solvers.svm.smo import Inner
from kernelweave._solvers.svm.systems import (
    Conjugate,
    Lift,
    StepSystem,
    Woodbury,
    landmarks_of,
)
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.stacks.protocol import CombinedKernel, Factor

_STEPS = 80
_VAIN = 30  # steps without progress that end it: the first ones, far out, make none to be seen
_BACK = 0.995  # share of the way to a bound that a step may go
_WIDE = 2.0  # gap of the first point, as a share of the primal value of f = 0
_NEAR = 6.0  # times the tolerance: a gap by the multipliers below this is computed
_CLOSE = 1.5  # the same, where putting variables on bounds takes as many products as a step
_FIRM = 0.2  # share of a multiplier that a slack may be, and its variable put on the bound
_RESIDUAL = 1e-4  # share of a right side that a solution may leave and not be refined
_HALVINGS = 60  # of the interval that holds a point of the path
_BALANCE = 10  # halvings of the interval that holds the first bias


def suits(K: CombinedKernel, qp: DualQP) -> tuple[Factor, float] | None:
    """F and τ, where this method can solve the QP on a factor.

    Two variables per row need τ = 0. A hard margin needs τ > 0, under which all rows can be told
    apart; otherwise a method that can tell infeasibility.
    """
    found = K.factor()
    if found is None or (found[1] > 0.0 and qp.size > qp.n):
        return None
    return None if qp.is_hard and not found[1] > 0.0 else found


def solve(
    F: Factor,
    tau: float,
    qp: DualQP,
    tol: float,
    tick: Callable[[], None] | None = None,
) -> tuple[Inner, float]:
    """Solve the dual QP under FFᵀ + τI to a relative duality gap ``tol``; the gap it reached.

    Where rounding ends it short of that, the solution is one to start from.
    """
    return _driven(_Path(Woodbury(F, _lift(qp)), tau, qp), qp, tol, tick)


def solve_by_products(
    K: CombinedKernel, qp: DualQP, tol: float, tick: Callable[[], None] | None = None
) -> tuple[Inner, float]:
    """The same under any K ⪰ 0, of which products are asked, and a factor on some landmarks."""
    system = Conjugate(K, K.landmark_factor(landmarks_of(K.n), 0), _lift(qp))
    return _driven(_Path(system, 0.0, qp), qp, tol, tick)


def _lift(qp: DualQP) -> Lift:
    """The rows of the variables that can move."""
    return Lift(np.flatnonzero(qp.upper > qp.lower) % qp.n, qp.n)


def _driven(
    path: _Path, qp: DualQP, tol: float, tick: Callable[[], None] | None
) -> tuple[Inner, float]:
    """Steps along the path until the gap is small, or no step helps.

    Where systems are solved inexactly, residuals of the steps hide the gap: it is computed after
    each, with f as the path has it, and from a product once it is small.
    """
    best, least, vain = path.judged(qp.feasible()), np.inf, 0
    inexact = path.system.refinements == 0
    for step in range(_STEPS):
        if tick is not None:
            tick()
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # far beyond the digits there are
                path.step()
        except LinAlgError:
            break
        open_gap = path.open_gap()
        if not open_gap < np.inf:
            break
        if inexact or open_gap <= _NEAR * tol or vain >= _VAIN // 4:
            seen = path.judged(path.whole(), path.f if inexact else None)
            near = seen.gap <= (_CLOSE if inexact else _NEAR) * tol
            snapped = path.judged(path.on_bounds()) if near else seen
            if snapped is not seen and snapped.gap <= min(tol, seen.gap + 0.1 * tol):
                return Inner(snapped.v, snapped.f, step + 1, True), snapped.gap
            if inexact and min(seen.gap, snapped.gap) <= tol:  # more steps cost more than support
                break
            if snapped is not seen or not inexact:  # with f as it is
                best = min([best, snapped, *[seen] * (not inexact)], key=lambda each: each.gap)
            open_gap = min(open_gap, seen.gap, snapped.gap)
        least, vain = (open_gap, 0) if open_gap < 0.9 * least else (least, vain + 1)
        if vain >= (3 if best.gap <= tol else _VAIN):
            break
    if inexact:
        best = min(best, path.judged(path.whole()), key=lambda judged: judged.gap)
    return Inner(best.v, best.f, step + 1, True), best.gap


@dataclass(frozen=True)
class _Judged:
    """A feasible v, the decision values that it gives, and its duality gap."""

    v: Array
    f: Array
    gap: float


class _Path:
    """A point inside the box, and the step from it; over the variables that can move.

    ``f`` is Kv at the rows, the variables that cannot move included, without τ.
    """

    def __init__(self, system: StepSystem, tau: float, qp: DualQP) -> None:
        self.system, self.tau, self.qp = system, tau, qp
        self._at, self._folded = system.lift.at, system.lift.folded
        self.moving = np.flatnonzero(qp.upper > qp.lower)
        self.c, self.delta = qp.linear[self.moving], qp.ridges[self.moving] + tau
        self.lo, self.hi = qp.lower[self.moving], qp.upper[self.moving]
        self.below, self.above = np.isfinite(self.lo), np.isfinite(self.hi)
        self.count = max(int(self.below.sum() + self.above.sum()), 1)
        self.fixed = qp.feasible() * (qp.upper <= qp.lower)
        self.total = qp.total - float(self.fixed.sum())
        self.gap = 1.0
        self._start()

    def _start(self) -> None:
        """Where the central path would be if f stayed that of a first feasible point, far out."""
        qp = self.qp
        f = self._times(qp.feasible())
        quad, bias = float(qp.fold(qp.feasible()) @ f), qp.best_bias(f)
        if qp.is_hard:  # τ is a ridge: slacks cost ξ²/2τ
            size = float(((self.c - self._at(f) - bias) ** 2 / self.delta).sum()) + quad
        else:
            size = abs(qp.primal_value(f, bias, quad)) + quad
        mu = max(_WIDE * size / self.count, TINY)
        self.b, self.v = self._balanced(self.c - self._at(f), bias, mu)
        self.w = np.where(self.below, mu / np.maximum(self.v - self.lo, TINY), 0.0)
        self.z = np.where(self.above, mu / np.maximum(self.hi - self.v, TINY), 0.0)
        self.f = self.system.times(self._folded(self.v) + qp.fold(self.fixed))

    def _times(self, v: Array) -> Array:
        """(K + τI)v at the rows, for all variables."""
        coef = self.qp.fold(v)
        return self.system.times(coef) + self.tau * coef

    def _balanced(self, slope: Array, bias: float, mu: float) -> tuple[float, Array]:
        """The bias near which Σv = r on the path, and v there: Σv falls as the bias grows."""
        reach = max(float(np.abs(slope - bias).max()), TINY)
        low, high = bias - reach, bias + reach
        for _ in range(_BALANCE):
            v = _on_path(slope - bias, self.delta, self.lo, self.hi, mu)
            excess = float(v.sum()) - self.total
            low, high = (bias, high) if excess > 0.0 else (low, bias)
            bias = 0.5 * (low + high)
        return bias, _on_path(slope - bias, self.delta, self.lo, self.hi, mu)

    def open_gap(self) -> float:
        """The relative gap that multipliers and residuals tell of."""
        s, t = self._slacks()
        value = float(self.c @ self.v - 0.5 * self._folded(self.v) @ self.f)
        rest = float(np.abs(self._slope()) @ np.abs(self.v))
        rest += abs(self.b * (self.total - float(self.v.sum())))
        self.gap = (float(self.w @ s + self.z @ t) + rest) / max(abs(value), TINY)
        return self.gap

    def _slope(self) -> Array:
        """What the slope of the Lagrangian still is."""
        return self.c - self._at(self.f) - self.delta * self.v - self.b + self.w - self.z

    def _slacks(self) -> tuple[Array, Array]:
        return (
            np.where(self.below, np.maximum(self.v - self.lo, TINY), 1.0),
            np.where(self.above, np.maximum(self.hi - self.v, TINY), 1.0),
        )

    def step(self) -> None:
        """Predict, correct and move."""
        (s, t), w, z = self._slacks(), self.w, self.z
        mu = float(w @ s + z @ t) / self.count
        slope = self._slope()
        lack = self.total - float(self.v.sum())
        aside = self._prepare(self.delta + w / s + z / t, slope - w + z)
        if not mu > 0.0:  # no bounds: one linear system
            dv, db, product = self._solve(slope, lack, aside)
            self.v, self.b, self.f = self.v + dv, self.b + db, self.f + product
            return
        dv, _ = self._bordered(aside, lack)
        dw, dz = -w - w * dv / s, -z + z * dv / t
        reach_v, reach_m = self._reaches(s, t, dv, dw, dz)
        after = (w + reach_m * dw) @ (s + reach_v * dv * self.below)
        after += (z + reach_m * dz) @ (t - reach_v * dv * self.above)
        aim = mu * (float(after) / self.count / mu) ** 3
        low = np.where(self.below, aim - w * s - dw * dv, 0.0)
        high = np.where(self.above, aim - z * t + dz * dv, 0.0)
        dv, db, product = self._solve(slope + low / s - high / t, lack, aside)
        dw, dz = (low - w * dv) / s, (high + z * dv) / t
        reach = min(1.0, _BACK * min(self._reaches(s, t, dv, dw, dz)))
        self.v, self.b = self.v + reach * dv, self.b + reach * db
        self.f = self.f + reach * product
        self.w, self.z = w + reach * dw, z + reach * dz

    def _reaches(self, s: Array, t: Array, dv: Array, dw: Array, dz: Array) -> tuple[float, float]:
        """The longest steps, at most 1/back, that keep slacks and multipliers nonnegative."""

        def reach(x: Array, dx: Array, where: Array) -> float:
            return 1.0 / max(float((-dx[where] / x[where]).max(initial=0.0)), _BACK)

        primal = min(reach(s, dv, self.below), reach(t, -dv, self.above))
        return primal, min(reach(self.w, dw, self.below), reach(self.z, dz, self.above))

    def _prepare(self, D: Array, side: Array) -> Array:
        """What the system with this diagonal makes of 1, and of one right side."""
        self.D = D
        self.system.prepare(D, self.gap)
        self.along, found = self.system.solve(np.column_stack([np.ones(D.size), side])).T
        return np.asarray(found)

    def _bordered(self, found: Array, lack: float) -> tuple[Array, float]:
        """Dv and db of the bordered system, from what the system makes of its right side."""
        db = (float(found.sum()) - lack) / float(self.along.sum())
        return found - db * self.along, db

    def _solve(self, side: Array, lack: float, near: Array) -> tuple[Array, float, Array]:
        """Dv and db of the bordered system, and K dv; refined where rounding shows.

        Where that does not do, more digits are used from the next step on.
        """
        dv, db = self._bordered(self.system.solve(side, near), lack)
        product = self.system.times(self._folded(dv))
        for _ in range(self.system.refinements):
            rest = side - self._at(product) - self.D * dv - db
            if np.abs(rest).max() <= _RESIDUAL * np.abs(side).max():
                break
            more, change = self._bordered(self.system.solve(rest), lack - float(dv.sum()))
            dv, db = dv + more, db + change
            product = self.system.times(self._folded(dv))
        else:
            self.system.widen()
        return dv, db, product

    def whole(self) -> Array:
        """All variables, made feasible."""
        out = self.fixed.copy()
        out[self.moving] = self.v
        return self.qp.feasible(out)

    def on_bounds(self) -> Array:
        """The same, on the bounds whose multipliers outweigh their slacks.

        The others take up what f and Σv then miss, so that bounds stay exact. Where systems are
        solved inexactly, multipliers have to do so by far: this step is then one like others.
        """
        large_v = max(float(np.abs(self.v).max()), TINY)
        large_m = max(float(np.abs(self.c - self.b).max()), TINY)
        if self.system.refinements == 0:
            large_m /= _FIRM
        low = self.below & ((self.v - self.lo) / large_v < self.w / large_m)
        high = self.above & ((self.hi - self.v) / large_v < self.z / large_m)
        v = np.where(low, self.lo, np.where(high, self.hi, self.v))
        free = ~(low | high)
        pull = self.system.times(self._folded(v - self.v))
        dv, _ = self._bordered(self.system.solve(-self._at(pull)), self.total - float(v.sum()))
        v = np.clip(v + np.where(free, dv, 0.0), self.lo, self.hi)
        missing = self.total - float(v.sum())
        room = np.where(free, self.hi - v if missing > 0.0 else v - self.lo, 0.0)
        if np.isinf(room).any():
            room = np.isinf(room).astype(float)
        if not room.sum() > abs(missing):
            return self.whole()
        v = v + missing * room / room.sum()
        v[np.argmax(room)] += self.total - float(v.sum())  # the rounding of the sum
        out = self.fixed.copy()
        out[self.moving] = np.clip(v, self.lo, self.hi)
        return out

    def judged(self, v: Array, f: Array | None = None) -> _Judged:
        """Its duality gap, from f as it is or as it is taken to be, with the best bias."""
        qp, coef = self.qp, self.qp.fold(v)
        f = self._times(v) if f is None else f
        quad = max(float(coef @ f), 0.0)
        hard = qp.is_hard  # met by scaling f, which is right up to the accuracy of v
        primal = qp.improve(f, quad)[2] if hard else qp.primal_value(f, qp.best_bias(f), quad)
        return _Judged(v, f, relative_gap(primal, qp.dual_value(v, quad)))


def _on_path(slope: Array, delta: Array, lo: Array, hi: Array, mu: float) -> Array:
    """For each variable the v between its bounds with slope − δv + μ/(v − lo) − μ/(hi − v) = 0.

    The left side falls in v, so that halving an interval finds it; without a bound there is δ.
    """
    below, above = np.isfinite(lo), np.isfinite(hi)
    if below.all() and above.all() and not delta.any():  # a square equation in the place between
        half = 0.5 * (hi - lo)
        pull = slope * half / mu
        return np.asarray(lo + half + half * (pull / (1.0 + np.hypot(1.0, pull))))
    near = np.where(below, lo, np.where(above, hi, 0.0))
    delta_ = np.where(below & above, 1.0, delta)
    far = np.abs(slope - delta * near) / delta_ + np.sqrt(mu / delta_)
    a, b = np.where(below, lo, near - far), np.where(above, hi, near + far)
    with np.errstate(divide="ignore"):
        for _ in range(_HALVINGS):
            v = 0.5 * (a + b)
            up = slope - delta * v + mu / (v - lo) - mu / (hi - v) > 0.0
            a, b = np.where(up, v, a), np.where(up, b, v)
    return np.asarray(0.5 * (a + b))
