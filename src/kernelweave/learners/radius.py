"""Radius-based kernel learning (RKL): margin over enclosing ball [gai2010, eq. 9 and 15–17].

    min_{θ ≥ 0} g(θ),   g(θ) = max_v  l(v) − vᵀK_θ v / (2R²(θ)),   R²(θ) = max_β  c(β)·θ

with l(v) = cᵀv − ½ρ‖v‖², K_θ = Σ_m θ_m K_m, c_m(β) = Σ_i β_i K_m,ii − βᵀK_m β, and β ≥ 0, Σβ = 1.
Neither the size of θ nor that of a kernel matters [propositions 1–3].

At weights e with R²(e) = 1, g is the J of the oracle. J is convex and falls as weights grow, and
R² is convex, so that the problem is min J(e) subject to R²(e) ≤ 1: convex, though g alone is not.
Hence every local optimum is global, and for every feasible v and every β

    min g  ≥  l(v) − ½ max_m q_m/c_m(β),     q_m = vᵀK_m v,

with equality at the optimum where its v and β are unique. The duality gap of a solution refers to
this bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..params import Params
from ..solvers.curvature import hessian_factor
from ..solvers.cuts import inner_tol
from ..solvers.master import solve_master
from ..solvers.oracle import Oracle, Point
from ..solvers.projected_gradient import projected_gradient
from ..solvers.radius import Balls

Array = NDArray[np.float64]

_CUTS = 30  # past machines that the model of J is made of
_PATIENCE = 15  # steps in vain after which the search ends


class Radius(Params):
    """Minimises the product of squared radius and squared inverse margin, plus the loss.

    Parameters
    ----------
    method : "newton" or "gradient"
        "newton": minimise, where the ball's radius is linearised, the cuts of past machines plus
        the curvature of J and R² (sequential quadratic programming). "gradient": the projected
        gradient with Armijo's rule of [gai2010, §5].
    """

    objective: ClassVar[str] = "radius"

    def __init__(self, method: str = "newton") -> None:
        self.method = method

    def iterate(self, oracle: Oracle, e: Array, tol: float) -> Iterator[None]:
        """One SVM and one enclosing ball an evaluation, from weights ``e`` of any size."""
        if self.method not in ("newton", "gradient"):
            raise ValueError(f"method must be 'newton' or 'gradient', found {self.method!r}")
        task = _Task(oracle, tol)
        yield from _newton(task, e) if self.method == "newton" else _gradient(task, e)


@dataclass(frozen=True)
class _State:
    """A machine at weights ``point.e`` of unit radius.

    ``slopes`` are ∂R²/∂e = c(β); ``gradient`` is ∂g/∂x at the x that was evaluated.
    """

    point: Point
    beta: Array
    slopes: Array
    gradient: Array

    @property
    def value(self) -> float:
        """An upper bound of g, as tight as the machine was solved."""
        return self.point.primal

    @property
    def e(self) -> Array:
        """The weights."""
        return self.point.e


class _Task:
    """Evaluates g, warm-started, and keeps the oracle's bounds those of the radius problem."""

    def __init__(self, oracle: Oracle, tol: float) -> None:
        self.oracle, self.tol = oracle, tol
        self.balls = Balls(oracle.stack, oracle.weight_set.scale)
        self.sizes = oracle.weight_set.scale * oracle.stack.traces()
        self.dual, self.dual_v = -np.inf, oracle.dual_v

    def evaluate(self, e: Array, close: float, units: Array | float = 1.0) -> _State:
        """The machine and ball at ``e``, both to relative gap ``close``.

        The gradient is that with respect to x = e/units [gai2010, eq. 21].
        """
        ball = self.balls.around(e, close)
        unit = e / ball.radius2
        point = self.oracle.solve(unit, close, ball.K / ball.radius2)
        slopes = self.balls.slopes(ball.beta)
        pull = float(unit @ point.q) / float(slopes @ unit)
        gradient = 0.5 * (pull * slopes - point.q) * units / ball.radius2
        return _State(point, ball.beta, slopes, gradient)

    def ratios(self, q: Array, slopes: Array) -> Array:
        """q_m/c_m; kernels that tell no points apart have neither and do not count."""
        floor = 1e-14 * self.sizes
        return np.divide(q, np.maximum(slopes, floor), out=np.zeros_like(q), where=self.sizes > 0.0)

    def bound(self, linear: float, q: Array, v: Array, slopes: Array) -> None:
        """Keep the lower bound l(v) − ½ max q/c if it is the best."""
        value = linear - 0.5 * float(self.ratios(q, slopes).max())
        if value > self.dual:
            self.dual, self.dual_v = value, v

    def settle(self, state: _State) -> None:
        """Report ``state`` on the norm that was asked for, with the best bound."""
        point, weight_set = state.point, self.oracle.weight_set
        size = float(np.linalg.norm(point.e, weight_set.norm)) if weight_set.bounded else 1.0
        same = replace(point, e=point.e / size, v=point.v * size)
        self.oracle.settle(same, min(self.dual, point.primal), self.dual_v)
        fall = max(point.value - self.dual, 0.0) / max(abs(point.primal), 1e-12)
        self.oracle.extras.update(radius=size**-0.5, stationarity=fall)


def _gradient(task: _Task, e: Array) -> Iterator[None]:
    """[gai2010, §5] on x = c∘e, c the slopes of R² at the start.

    By proposition 3 the kernels may be scaled at will; these scales make the path independent of
    those they came in, and g better conditioned than equal traces do.
    """
    close = max(1e-2 * task.tol, 1e-13)  # Armijo's rule compares values of equal precision
    c = task.balls.slopes(task.balls.around(e, 1e-3).beta)
    units = task.ratios(np.ones(e.size), c)
    steps = projected_gradient(
        lambda x: task.evaluate(units * x, close, units),
        task.oracle.weight_set.project,
        c * e / float(c @ e),
    )
    for _, state in steps:
        task.bound(state.point.linear, state.point.q, state.point.v, state.slopes)
        task.settle(state)
        yield


def _newton(task: _Task, e: Array) -> Iterator[None]:
    """Steps on the simplex of x = c∘e, where R² is 1 to first order and at least 1 in truth."""
    cuts: list[tuple[float, Array, Array]] = []
    sharpness = 1.0

    def look(weights: Array, share: float) -> tuple[_State, Array | None]:
        """Evaluate as tightly as a step needs that shall lower g by this share."""
        close = min(inner_tol(task.oracle.gap, task.tol), max(0.1 * share, 0.01 * task.tol))
        state = task.evaluate(weights, max(close * sharpness, 1e-13))
        factor = _curvature(task, state)
        cuts.append((state.point.linear, state.point.q, state.point.v))
        del cuts[:-_CUTS]
        task.bound(*cuts[-1], state.slopes)
        return state, factor

    center, factor = look(e, 1.0)
    task.settle(center)
    yield
    delta, vain = 0.0, 0
    while vain < _PATIENCE:
        slopes = np.maximum(center.slopes, 1e-14 * task.sizes)
        usable = np.flatnonzero(task.sizes > 0.0)
        c = slopes[usable]
        x = c * center.e[usable]
        linear = np.array([cut[0] for cut in cuts])
        q = np.array([cut[1] for cut in cuts])
        ratios = 0.5 * q[:, usable] / c
        B = None if factor is None else np.ascontiguousarray(factor[:, usable] / c)
        most = float(ratios[-1].max())
        x_new, multipliers = solve_master(linear, ratios, x / x.sum(), max(delta, 1e-9 * most), B)
        mixed = multipliers @ np.array([cut[2] for cut in cuts])
        task.bound(float(multipliers @ linear), multipliers @ q, mixed, center.slopes)
        promise = max(center.value - float((linear - ratios @ x_new).max()), 1e-300)

        e = np.zeros(e.size)
        e[usable] = x_new / c
        share = promise / max(abs(center.value), 1e-300)
        state, curvature = look(e, share)
        fit = (center.value - state.value) / promise
        if fit >= 0.05:
            center, factor, vain = state, curvature, 0
            delta *= 0.25 if fit > 0.3 else 1.0
        else:
            vain += 1
            delta = max(4.0 * delta, 1e-3 * most)
            if share < task.tol:
                sharpness *= 0.1
        task.settle(center)
        yield


def _curvature(task: _Task, state: _State) -> Array | None:
    """B with BᵀB the Hessian of the Lagrangian J + λR², λ = ½ e·q [chapelle2008, eq. 3]."""
    oracle, point = task.oracle, state.point
    free, products = oracle.products(point)
    price = float(point.e @ point.q)  # 2λ
    parts = [
        hessian_factor(point.K, oracle.qp, free, products),
        task.balls.hessian_factor(point.K, state.beta),
    ]
    if parts[1] is not None:
        parts[1] = np.sqrt(price) * parts[1]
    known = [part for part in parts if part is not None]
    return np.vstack(known) if known else None
