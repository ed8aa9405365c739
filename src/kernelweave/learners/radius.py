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

import numpy as np

from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import inner_tol
from kernelweave._solvers.bundle.master import solve_master
from kernelweave._solvers.radius.balls import Balls
from kernelweave._solvers.radius.centring import centred
from kernelweave._solvers.radius.projected_gradient import projected_gradient
from kernelweave._solvers.svm.curvature import hessian_factor
from kernelweave.learners.base import Learner
from kernelweave.machines.oracle import Oracle, Point

_MEMORY = 200  # past machines and balls that the model is made of
_PATIENCE = 10  # steps in vain after which cutting planes take over


class Radius(Learner):
    """Minimises the product of squared radius and squared inverse margin, plus the loss.

    Kernels under which all points coincide, up to rounding, get no weight.

    Parameters
    ----------
    method : "newton" or "gradient"
        "newton": minimise, where the ball's radius is linearised, the cuts of past machines plus
        the curvature of J and R² (sequential quadratic programming). "gradient": the projected
        gradient with Armijo's rule of [gai2010, §5], finished by cutting planes where it stalls.
    """

    objective = "radius"

    def __init__(self, method: str = "newton") -> None:
        self.method = method

    def iterate(self, oracle: Oracle, e: Array, tol: float) -> Iterator[None]:
        """One SVM and one enclosing ball an evaluation, from weights ``e`` of any size."""
        if self.method not in ("newton", "gradient"):
            raise ValueError(f"method must be 'newton' or 'gradient', found {self.method!r}")
        task = _Task(oracle, tol)
        e = task.start(e)
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
    """Evaluates g, warm-started, and keeps the oracle's bounds those of the radius problem.

    From here on the oracle sees the kernels centred where a constant part hides the rest.
    """

    def __init__(self, oracle: Oracle, tol: float) -> None:
        self.oracle, self.tol = oracle, tol
        self.kernels = centred(oracle.stack)
        oracle.stack = self.kernels.stack
        self.balls = Balls(self.kernels, oracle.weight_set.scale)
        self.dual, self.dual_v = 0.0, np.zeros(oracle.stack.n)
        self.even = np.full(oracle.stack.n, 1.0 / oracle.stack.n)
        self.dual_beta = self.even

    def start(self, e: Array) -> Array:
        """Weights to begin with: none for kernels that tell no points apart."""
        e = self.kernels.weights("start", e)
        if self.oracle.qp.is_hard:  # other weights, where these do not separate the classes
            e = np.where(self.balls.sizes > 0.0, self.oracle.solve(e, 0.1).e, 0.0)
        return e

    def evaluate(self, e: Array, close: float, units: Array | float = 1.0) -> _State:
        """The machine and ball at ``e``, both to relative gap ``close``.

        The gradient is that with respect to x = e/units [gai2010, eq. 21].
        """
        ball = self.balls.around(e, close)
        unit = e / ball.radius2
        point = self.oracle.solve(unit, close, ball.unit_kernel)
        slopes = self.balls.slopes(ball.beta)
        pull = float(unit @ point.q) / float(slopes @ unit)
        gradient = 0.5 * (pull * slopes - point.q) * units / ball.radius2
        return _State(point, ball.beta, slopes, gradient)

    def bound(self, linear: float, q: Array, v: Array, slopes: Array, beta: Array) -> None:
        """Keep the lower bound l(v) − ½ max q/c(β) if it is the best.

        β gives way a little to equal shares, so that no slope is zero: it may be where kernel m
        tells apart neither the points on the sphere nor the support vectors. c is concave.
        """
        share = 1e-2 * min(self.tol, 1.0)
        slopes = (1.0 - share) * slopes + share * self.balls.sizes / beta.size
        value = self.balls.lower_bound(linear, q, v, slopes)
        if value > self.dual:
            self.dual, self.dual_v = value, v
            self.dual_beta = (1.0 - share) * beta + share * self.even

    def settle(self, state: _State) -> None:
        """Report ``state`` on the norm that was asked for, with the best bound."""
        point, weight_set = state.point, self.oracle.weight_set
        size = float(np.linalg.norm(point.e, weight_set.norm)) if weight_set.bounded else 1.0
        bias = self.kernels.bias(weight_set.scale * point.e, point)
        same = replace(point, e=point.e / size, v=point.v * size, bias=bias)
        self.oracle.settle(same, self.dual, self.dual_v)
        fall = max(point.value - self.dual, 0.0) / abs(point.primal)
        self.oracle.extras.update(radius=size**-0.5, stationarity=fall, center=self.dual_beta)


def _gradient(task: _Task, e: Array) -> Iterator[None]:
    """[gai2010, §5] on x = c∘e, c the slopes of R² at the start, finished by cutting planes.

    By proposition 3 the kernels may be scaled at will; these scales make the path independent of
    those they came in, and g better conditioned than equal traces do.
    """
    close = max(0.1 * min(task.tol, 0.1) ** 2, 1e-13)  # the bound errs by the root of it
    bundle = _Bundle(task)
    c = bundle.units(task.balls.slopes(task.balls.around(e, close).beta))
    units = np.zeros(e.size)
    units[bundle.usable] = 1.0 / c
    steps = projected_gradient(
        lambda x: bundle.keep(task.evaluate(units * x, close, units)),
        task.oracle.weight_set.project,
        np.divide(e, units, out=np.zeros(e.size), where=units > 0.0) / float(c @ e[bundle.usable]),
        max(1e-2 * task.tol, close),
    )
    values: list[float] = []
    for _, state in steps:
        center = state
        task.settle(center)
        yield
        values.append(center.value)
        if len(values) > _PATIENCE:  # would a hundred times as many steps close the gap?
            pace = (values[-1 - _PATIENCE] - values[-1]) / values[-1]
            if pace < 0.01 * task.oracle.gap:
                break
    yield from _cutting_planes(bundle, center)


def _newton(task: _Task, e: Array) -> Iterator[None]:
    """Steps with curvature while they fall; cutting planes finish where there are kinks."""
    bundle = _Bundle(task)
    center = bundle.look(e, 0.1 * task.tol if task.oracle.is_warm else 1.0)
    task.settle(center)
    yield
    factor, delta, vain = _curvature(task, center), 0.0, 0
    while vain < _PATIENCE:
        e, promise = bundle.step(center, factor, delta)
        state = bundle.look(e, promise / abs(center.value))
        fit = (center.value - state.value) / promise
        if fit >= 0.05:
            center, factor, vain = state, _curvature(task, state), 0
            delta *= 0.25 if fit > 0.3 else 1.0
        else:
            vain += 1
            delta = max(4.0 * delta, 1e-3)
            bundle.disappointed(promise / abs(center.value))
        task.settle(center)
        yield
    yield from _cutting_planes(bundle, center)


def _cutting_planes(bundle: _Bundle, center: _State) -> Iterator[None]:
    """Steps by the cuts alone, no further than these have been right so far."""
    reach, nulls = 0.1, 0
    while reach > 1e-9:
        e, promise = bundle.plane_step(center, reach)
        state = bundle.look(e, promise / abs(center.value))
        fit = (center.value - state.value) / promise
        if fit >= 0.1:
            center, nulls = state, 0
            reach = min(2.0 * reach, 1.0) if fit > 0.5 else reach
        else:
            nulls += 1  # it taught the model something; only if it is far off, go less far
            if fit < -2.0 or nulls >= 5:
                reach, nulls = 0.5 * reach, 0
            bundle.disappointed(promise / abs(center.value))
        bundle.task.settle(center)
        yield


@dataclass(frozen=True)
class _Cut:
    """What the model keeps of a machine and its ball: l, q, v, c and β."""

    linear: float
    q: Array
    v: Array
    slopes: Array
    beta: Array


class _Bundle:
    """Past machines and balls as lower models: J(e) ≥ l_k − ½q_k·e and R²(e) ≥ c_k·e.

    Next weights e are sought in units of the centre's ball, x = c∘e: on the simplex of x, R² is 1
    to first order and at least 1 in truth.
    """

    def __init__(self, task: _Task) -> None:
        self.task, self.sharpness = task, 1.0
        self.usable = np.flatnonzero(task.balls.sizes > 0.0)
        self.cuts: list[_Cut] = []

    def look(self, e: Array, share: float) -> _State:
        """Evaluate at ``e``, as tightly as a step needs that shall lower g by this share."""
        task = self.task
        close = min(inner_tol(task.oracle.gap, task.tol), max(0.1 * share, 0.01 * task.tol))
        return self.keep(task.evaluate(e, max(close * self.sharpness, 1e-12)))

    def keep(self, state: _State) -> _State:
        """Add ``state`` to the model."""
        point = state.point
        cut = _Cut(point.linear, point.q, point.v, state.slopes, state.beta)
        self.cuts = [*self.cuts[1 - _MEMORY :], cut]
        self.task.bound(cut.linear, cut.q, cut.v, cut.slopes, cut.beta)
        return state

    def disappointed(self, share: float) -> None:
        """A step that promised this share brought nothing: if that is little, look more closely."""
        if share < self.task.tol:
            self.sharpness *= 0.1

    def units(self, slopes: Array) -> Array:
        """Slopes of the usable kernels, c of x = c∘e.

        None is much below the slope at equal β: the ball soon notices what it does not see yet.
        """
        return np.maximum(slopes, 0.01 * self.task.balls.sizes / self.task.even.size)[self.usable]

    def step(self, center: _State, factor: Array | None, delta: float) -> tuple[Array, float]:
        """Next weights from the cuts and the curvature BᵀB, and the fall that the cuts promise.

        ``delta`` adds curvature, in units of the largest slope.
        """
        linear, falls, c = self._model(center)
        x = c * center.e[self.usable]
        B = None if factor is None else np.ascontiguousarray(factor[:, self.usable] / c)
        least = max(delta, 1e-9) * float(falls[-1].max())
        x, multipliers = solve_master(linear, falls, x / x.sum(), least, B)
        self._bound(multipliers, center.slopes, center.beta)
        return self._proposal(center, x, linear, falls, c)

    def plane_step(self, center: _State, reach: float) -> tuple[Array, float]:
        """Next weights from cuts of J and of R² alone, no x further than ``reach``.

        min z  s.t.  z ≥ l_k − ½q_k·e,  c_k·e ≤ 1,  e ≥ 0. Without the reach, its multipliers mix
        past machines and past balls into the best lower bound.
        """
        linear, falls, c = self._model(center)
        slopes = np.array([cut.slopes for cut in self.cuts])
        _, multipliers, prices = _linear_program(linear, falls, slopes[:, self.usable] / c)
        if prices.sum() > 0.0:
            prices = prices / prices.sum()
            betas = np.array([cut.beta for cut in self.cuts])
            self._bound(multipliers, prices @ slopes, prices @ betas)
        x = c * center.e[self.usable]
        around = np.column_stack([np.maximum(x - reach, 0.0), x + reach])
        x, _, _ = _linear_program(linear, falls, slopes[:, self.usable] / c, around)
        return self._proposal(center, x, linear, falls, c)

    def _model(self, center: _State) -> tuple[Array, Array, Array]:
        """l_k, ½q_k/c and c."""
        c = self.units(center.slopes)
        q = np.array([cut.q[self.usable] for cut in self.cuts])
        return np.array([cut.linear for cut in self.cuts]), 0.5 * q / c, c

    def _bound(self, multipliers: Array, slopes: Array, beta: Array) -> None:
        """The lower bound of mixed machines; c(β) is concave, so that slopes may be mixed too."""
        linear = float(multipliers @ np.array([cut.linear for cut in self.cuts]))
        q = multipliers @ np.array([cut.q for cut in self.cuts])
        v = multipliers @ np.array([cut.v for cut in self.cuts])
        self.task.bound(linear, q, v, slopes, beta)

    def _proposal(
        self, center: _State, x: Array, linear: Array, falls: Array, c: Array
    ) -> tuple[Array, float]:
        e = np.zeros(center.e.size)
        e[self.usable] = x / c
        return e, max(center.value - float((linear - falls @ x).max()), 1e-300)


def _linear_program(
    linear: Array, cuts: Array, balls: Array, limits: Array | None = None
) -> tuple[Array, Array, Array]:
    """Min z s.t. z ≥ linear − cuts·x, balls·x ≤ 1, x ≥ 0 or within limits; x and multipliers."""
    from scipy.optimize import linprog  # loads slowly

    unit = float(np.abs(linear).max())
    count, size = cuts.shape
    rows = np.vstack(
        [
            np.column_stack([-cuts / unit, -np.ones(count)]),
            np.column_stack([balls, np.zeros(len(balls))]),
        ]
    )
    sides = np.concatenate([-linear / unit, np.ones(len(balls))])
    bounds = (
        np.full((size + 1, 2), (0.0, np.inf)) if limits is None else np.vstack([limits, [0, 0]])
    )
    bounds[-1] = -np.inf, np.inf
    found = linprog(np.append(np.zeros(size), 1.0), rows, sides, bounds=bounds, method="highs")
    if found.x is None:  # the best x so far lies within every limit: only rounding says otherwise
        return np.full(size, 1.0 / size), np.full(count, 1.0 / count), np.zeros(len(balls))
    prices = -found.ineqlin.marginals
    multipliers = np.maximum(prices[:count], 0.0)
    x = np.maximum(found.x[:-1], 0.0)
    return x, multipliers / multipliers.sum(), np.maximum(prices[count:], 0.0)


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
