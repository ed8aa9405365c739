"""The dual QP under a kernel of low rank, K = FFᵀ + τI: Mehrotra's predictor and corrector.

    max_v  cᵀv − ½ vᵀ(FFᵀ)v − ½ Σ δ_i v_i²    s.t.  Σv = r,  lo ≤ v ≤ hi,      δ = ρ + τ

With slacks s = v − lo, t = hi − v and their multipliers w, z, a step solves

    (FFᵀ + D) dv + db·1 = …,    Σdv = …,      D = diag(δ + w/s + z/t)

by Woodbury's formula: one matrix of the order of the rank, FᵀD⁻¹F + I, whatever n is. It takes some
ten to twenty steps of n·R² operations. The multiplier of Σv = r is the bias. The true duality gap
ends it; v is then put on the bounds that it approaches, so that few rows are support vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kernelweave._core.tolerances import TINY
from kernelweave._core.types import Array
from kernelweave._solvers.svm.smo import Inner
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.stacks.protocol import CombinedKernel

_STEPS = 80
_BACK = 0.995  # share of the way to a bound that a step may go
_INSIDE = 0.1  # share of the box by which the first point keeps away from its bounds
_BLOCK = 4096  # rows of F that are weighted at a time
_SMALL = 0.5  # rank, as a share of the rows, above which SMO is quicker


def suits(K: CombinedKernel, qp: DualQP) -> tuple[Array, float] | None:
    """F and τ, where this method suits the kernel and the QP.

    Two variables per row need τ = 0, and a hard margin needs a method that can tell infeasibility.
    """
    if K.is_dense or qp.is_hard:
        return None
    found = K.factor()
    if found is None or found[0].shape[1] > _SMALL * qp.n:
        return None
    return None if found[1] > 0.0 and qp.size > qp.n else found


def solve(
    F: Array, tau: float, qp: DualQP, tol: float, tick: Callable[[], None] | None = None
) -> tuple[Inner, float]:
    """Solve the dual QP to a relative duality gap ``tol``; the solution, and the gap it reached.

    Where rounding ends it short of that, the solution is one to start from.
    """
    path = _Path(F, tau, qp)
    best, least, vain = path.judged(qp.feasible()), np.inf, 0
    for step in range(_STEPS):
        if tick is not None:
            tick()
        try:
            path.step()
        except LinAlgError:
            break
        seen = path.judged(path.whole())
        snapped = path.judged(path.on_bounds())
        if seen.gap <= tol and snapped.gap <= seen.gap + 0.1 * tol:
            seen = snapped
            if seen.gap <= tol:
                return Inner(seen.v, seen.f, step + 1, True), seen.gap
        best = min(best, seen, snapped, key=lambda judged: judged.gap)
        least, vain = (best.gap, 0) if best.gap < 0.9 * least else (least, vain + 1)
        if vain >= (3 if best.gap <= tol else 12):
            break
    return Inner(best.v, best.f, step + 1, True), best.gap


@dataclass(frozen=True)
class _Judged:
    """A feasible v, the decision values that it gives, and its duality gap."""

    v: Array
    f: Array
    gap: float


class _Path:
    """A point inside the box, and the step from it; over the variables that can move."""

    def __init__(self, F: Array, tau: float, qp: DualQP) -> None:
        self.F, self.tau, self.qp = F, tau, qp
        self.moving = np.flatnonzero(qp.upper > qp.lower)
        rows = self.moving % qp.n
        every = rows.size == qp.n and np.array_equal(rows, np.arange(qp.n))
        self.G = F if every else F[rows]
        self.c, self.delta = qp.linear[self.moving], qp.ridges[self.moving] + tau
        self.lo, self.hi = qp.lower[self.moving], qp.upper[self.moving]
        self.below, self.above = np.isfinite(self.lo), np.isfinite(self.hi)
        self.fixed = qp.feasible() * (qp.upper <= qp.lower)
        self.f0 = F @ (F.T @ qp.fold(self.fixed)) if self.fixed.any() else None
        self.total = qp.total - float(self.fixed.sum())
        if self.f0 is not None:
            self.c = self.c - self.f0[rows]
        self._start()

    def _start(self) -> None:
        """Inside the box, near zero; no further from a bound than variables typically are."""
        diagonal = np.einsum("ir,ir->i", self.G, self.G) + self.delta
        typical = max(
            float(np.abs(self.c).mean()) / max(float(diagonal.mean()), TINY),
            abs(self.total) / self.c.size,
            TINY,
        )
        away = _INSIDE * np.minimum(self.hi - self.lo, 2.0 * typical / _INSIDE)
        self.v = np.clip(0.0, self.lo + away, self.hi - away)
        self.b = 0.0
        slope = self.c - self._times(self.v)
        self.b = float(np.median(slope))
        slope = slope - self.b
        floor = 0.1 * max(float(np.abs(slope).mean()), TINY)
        self.w = np.where(self.below, np.maximum(-slope, 0.0) + floor, 0.0)
        self.z = np.where(self.above, np.maximum(slope, 0.0) + floor, 0.0)

    def _times(self, x: Array) -> Array:
        """(FFᵀ + diag δ) x."""
        return self.G @ (self.G.T @ x) + self.delta * x

    def step(self) -> None:
        """Predict, correct and move."""
        s = np.where(self.below, self.v - self.lo, 1.0)
        t = np.where(self.above, self.hi - self.v, 1.0)
        w, z = self.w, self.z
        count = max(int(self.below.sum() + self.above.sum()), 1)
        mu = float(w @ s + z @ t) / count
        slope = self.c - self._times(self.v) - self.b + w - z
        lack = self.total - float(self.v.sum())
        self._factor(self.delta + w / s + z / t)
        if not mu > 0.0:  # no bounds: one linear system
            dv, db = self._solve(slope, lack)
            self.v, self.b = self.v + dv, self.b + db
            return
        dv, _ = self._solve(slope - w + z, lack)
        dw, dz = -w - w * dv / s, -z + z * dv / t
        reach_v, reach_m = self._reaches(s, t, dv, dw, dz)
        after = (w + reach_m * dw) @ (s + reach_v * dv * self.below)
        after += (z + reach_m * dz) @ (t - reach_v * dv * self.above)
        aim = mu * (float(after) / count / mu) ** 3
        low = np.where(self.below, aim - w * s - dw * dv, 0.0)
        high = np.where(self.above, aim - z * t + dz * dv, 0.0)
        dv, db = self._solve(slope + low / s - high / t, lack)
        dw, dz = (low - w * dv) / s, (high + z * dv) / t
        reach_v, reach_m = self._reaches(s, t, dv, dw, dz)
        reach = min(1.0, _BACK * min(reach_v, reach_m))
        self.v, self.b = self.v + reach * dv, self.b + reach * db
        self.w, self.z = w + reach * dw, z + reach * dz

    def _reaches(self, s: Array, t: Array, dv: Array, dw: Array, dz: Array) -> tuple[float, float]:
        """The longest steps, at most 1/back, that keep slacks and multipliers nonnegative."""

        def reach(x: Array, dx: Array, where: Array) -> float:
            return 1.0 / max(float((-dx[where] / x[where]).max(initial=0.0)), _BACK)

        primal = min(reach(s, dv, self.below), reach(t, -dv, self.above))
        return primal, min(reach(self.w, dw, self.below), reach(self.z, dz, self.above))

    def _factor(self, D: Array) -> None:
        """Cholesky's factor of I + FᵀD⁻¹F, summed over blocks of rows."""
        self.D = D
        R = self.G.shape[1]
        matrix = np.eye(R)
        for first in range(0, len(D), _BLOCK):
            rows = slice(first, first + _BLOCK)
            part = self.G[rows] / np.sqrt(D[rows])[:, None]
            matrix += part.T @ part
        self.L = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        self.along = self._inverse(np.ones(len(D)))

    def _inverse(self, x: Array) -> Array:
        """(FFᵀ + D)⁻¹ x, refined once."""
        found = self._woodbury(x)
        return found + self._woodbury(x - self.G @ (self.G.T @ found) - self.D * found)

    def _woodbury(self, x: Array) -> Array:
        y = x / self.D
        inner = cho_solve(self.L, self.G.T @ y, check_finite=False)
        return y - (self.G @ inner) / self.D

    def _solve(self, side: Array, lack: float) -> tuple[Array, float]:
        """Dv and db of the bordered system."""
        dv = self._inverse(side)
        db = (float(dv.sum()) - lack) / float(self.along.sum())
        return dv - db * self.along, db

    def whole(self) -> Array:
        """All variables, made feasible."""
        out = self.fixed.copy()
        out[self.moving] = self.v
        return self.qp.feasible(out)

    def on_bounds(self) -> Array:
        """The same, on the bounds whose multipliers outweigh their slacks.

        The others take up what Σv then misses, so that bounds stay exact.
        """
        large_v = max(float(np.abs(self.v).max()), TINY)
        large_m = max(float(np.abs(self.c - self.b).max()), TINY)
        low = self.below & ((self.v - self.lo) / large_v < self.w / large_m)
        high = self.above & ((self.hi - self.v) / large_v < self.z / large_m)
        v = np.where(low, self.lo, np.where(high, self.hi, self.v))
        missing = self.total - float(v.sum())
        room = np.where(low | high, 0.0, self.hi - v if missing > 0.0 else v - self.lo)
        if np.isinf(room).any():
            room = np.isinf(room).astype(float)
        if not room.sum() > abs(missing):
            return self.whole()
        v = v + missing * room / room.sum()
        v[np.argmax(room)] += self.total - float(v.sum())  # the rounding of the sum
        out = self.fixed.copy()
        out[self.moving] = np.clip(v, self.lo, self.hi)
        return out

    def judged(self, v: Array) -> _Judged:
        """Its duality gap, from f as it is, with the best bias."""
        qp, coef = self.qp, self.qp.fold(v)
        f = self.F @ (self.F.T @ coef) + self.tau * coef
        quad = max(float(coef @ f), 0.0)
        primal = qp.primal_value(f, qp.best_bias(f), quad)
        return _Judged(v, f, relative_gap(primal, qp.dual_value(v, quad)))
