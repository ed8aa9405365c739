"""Radius-based kernel learning (RKL): margin over enclosing ball [gai2010, eq. 9 and 15–17].

    min_{θ ≥ 0} g(θ),   g(θ) = max_v  l(v) − vᵀK_θ v / (2R²(θ)),   R²(θ) = max_β  c(β)·θ

with l(v) = cᵀv − ½ρ‖v‖², K_θ = Σ_m θ_m K_m, c_m(β) = Σ_i β_i K_m,ii − βᵀK_m β, and β ≥ 0, Σβ = 1.
Neither the size of θ nor that of a kernel matters [propositions 1–3].

At weights e with R²(e) = 1, g is the J of the evaluator. J is convex and falls as weights grow, and
R² is convex, so that the problem is min J(e) subject to R²(e) ≤ 1: convex, though g alone is not.
Hence every local optimum is global, and for every feasible v and every β

    min g  ≥  l(v) − ½ max_m q_m/c_m(β),     q_m = vᵀK_m v,

with equality at the optimum where its v and β are unique. The duality gap of a solution refers to
this bound.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kernelweave._core.tolerances import SOFT, SQUARED_TOL
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Descent
from kernelweave.certificate import Certificate
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.machines.certified import certified_point
from kernelweave.machines.evaluator import Bound, Evaluator, Incumbent
from kernelweave.machines.machine import Point
from kernelweave.papers.gai2010._balls import Balls, certified_radius
from kernelweave.papers.gai2010._bounds import radius_bounds
from kernelweave.papers.gai2010._bundle import RadiusBundle
from kernelweave.papers.gai2010._centering import centered
from kernelweave.papers.gai2010._projected_gradient import projected_gradient
from kernelweave.problems.problem import Problem
from kernelweave.solution import Solution

_PATIENCE = 10  # steps in vain after which cutting planes take over
_LEAST_REACH = 1e-9  # cutting planes end where steps may go no further than this


class Radius(Learner):
    """Minimizes the product of squared radius and squared inverse margin, plus the loss.

    Kernels under which all points coincide, up to rounding, get no weight.

    Parameters
    ----------
    method : "newton" or "gradient"
        "newton": minimize, where the ball's radius is linearized, the cuts of past machines plus
        the curvature of J and R² (sequential quadratic programming). "gradient": the projected
        gradient with Armijo's rule of [gai2010, §5], with spectral steps scaled by the weights.
    finish : bool
        Whether what is not in the paper may help: either ``method`` is finished by cutting planes
        where it stalls. False leaves the algorithm of [gai2010, §5] and nothing else: gradient
        projection with Armijo's rule under the norm that was asked for, 1, 2 or None, from equal
        weights of the kernels as they are; ``method`` is then not read. It ends "stopped" where no
        step falls although the gap is open, as at a kink.
    """

    targets = ("labels",)
    why_not = "the radius of the data bounds the error of a classifier"
    objective = "radius"
    settles = True
    scale_free = True
    standard_units = False  # it has its own

    def __init__(self, method: str = "newton", finish: bool = True) -> None:
        self.method = method
        self.finish = finish

    @property
    def patience(self) -> int:  # type: ignore[override]
        """The algorithm of the paper ends itself: it may fall for long before the gap does."""
        return super().patience if self.finish else sys.maxsize

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One SVM and one enclosing ball per evaluation, from weights ``e`` of any size."""
        if self.method not in ("newton", "gradient"):
            raise ValueError(f"method must be 'newton' or 'gradient', found {self.method!r}")
        objective = _Objective(evaluator, incumbent, tol)
        e = objective.start(e)
        steps = _newton if self.method == "newton" else _gradient
        yield from (steps if self.finish else _published)(objective, e)

    def start(self, problem: Problem) -> Array | None:
        """Those under which all kernels have the same trace: the scale of a kernel is no matter.

        The published algorithm begins with equal weights, as its norms see them.
        """
        if not self.finish:
            return None
        traces = problem.stack.traces()
        even = np.divide(1.0, traces, out=np.zeros(traces.size), where=traces > 0.0)
        return even if even.any() else None

    def judged(self, solution: Solution) -> Certificate:
        """Margin and ball of the model; the bound by its dual variables and its center."""
        assert solution.problem is not None
        center = solution.extras.get("center")  # not there if no step was made
        model = solution.weights, solution.coef, float(solution.bias), solution.dual_alpha
        return radius_bounds(solution.problem, *model, center)


@dataclass(frozen=True)
class _UnitBall:
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
    def primal(self) -> float:
        """The same, under the name that bundles know."""
        return self.point.primal


class _Objective:
    """g, on kernels centered where a constant part hides the rest, with a bundle of past looks."""

    def __init__(self, evaluator: Evaluator, incumbent: Incumbent, tol: float) -> None:
        self.given, self.incumbent, self.tol = evaluator.machine, incumbent, tol
        self.kernels = centered(evaluator.stack)
        self.evaluator = evaluator.on(self.kernels.stack)
        self.weight_set = evaluator.weight_set
        self.balls = Balls(self.kernels, self.weight_set.scale, evaluator.tick)
        self.bundle = RadiusBundle(self.balls, tol)

    def start(self, e: Array) -> Array:
        """Weights to begin with: none for kernels that tell no points apart."""
        e = self.kernels.weights("start", e)
        if self.evaluator.machine.is_hard:  # other weights, where these do not separate the classes
            first = first_point(self.evaluator, e, 0.1)
            e = np.where(self.balls.sizes > 0.0, first.e, 0.0)
        return e

    def evaluate(self, e: Array, close: float, units: Array | float = 1.0) -> _UnitBall:
        """The machine and ball at ``e``, both to relative gap ``close``; the bundle keeps both.

        The gradient is that with respect to x = e/units [gai2010, eq. 21].
        """
        ball = self.balls.around(e, close)
        unit = e / ball.radius2
        point = self.evaluator.solve(unit, close, K=ball.unit_kernel)
        slopes = self.balls.slopes(ball.beta)
        pull = float(unit @ point.q) / float(slopes @ unit)
        gradient = 0.5 * (pull * slopes - point.q) * units / ball.radius2
        self.bundle.take(point.v, point.linear, point.q, slopes, ball.beta)
        return _UnitBall(point, ball.beta, slopes, gradient)

    def look(self, e: Array, share: float) -> _UnitBall:
        """Evaluate as tightly as a step needs that shall lower g by this share."""
        return self.evaluate(e, self.bundle.step_tol(share, self.incumbent.gap))

    def curvature(self, state: _UnitBall) -> Array | None:
        """B with BᵀB the Hessian of the Lagrangian J + λR², λ = ½ e·q [chapelle2008, eq. 3]."""
        point = state.point
        price = float(point.e @ point.q)  # 2λ
        machine = self.evaluator.look(point).curvature(SOFT)
        ball = self.balls.hessian_factor(point.K, state.beta)
        parts = [machine, None if ball is None else np.sqrt(price) * ball]
        known = [part for part in parts if part is not None]
        return np.vstack(known) if known else None

    def step(self, by: str, state: _UnitBall) -> Step:
        """Report ``state`` on the norm that was asked for, with the best bound."""
        point, bundle = state.point, self.bundle
        size = self.weight_set.size(point.e) if self.weight_set.bounded else 1.0
        given = partial(self.kernels.given, weights=self.weight_set.scale * point.e, size=size)
        bound = Bound(bundle.value, bundle.v_best, "machines and balls")
        center = bundle.beta  # the bound's: others may come before this step is judged
        plain = replace(point, e=point.e / size, v=point.v * size)

        def certify(fine: bool) -> tuple[Point, Bound]:
            """The numbers as they are reported, for the kernels as they were given."""
            machine, final = self.given, self.weight_set.scale * plain.e
            value, v = self.balls.proven(machine, bound.v, center, fine)
            larger = certified_radius(machine.stack, final, state.beta, 1.0 / size, fine)[0]
            proven = replace(bound, value=value, v=v)
            if fine:  # decision values are computed anew
                return certified_point(machine, given(plain), fine, larger), proven
            return given(certified_point(machine, plain, fine, larger)), proven

        fall = max(point.value - bundle.value, 0.0) / abs(point.primal)
        return Step(
            by,
            settled=(given(plain), bound),
            stationarity=fall,
            extras={"radius": size**-0.5, "stationarity": fall, "center": center},
            certify=certify,
        )


class _Newton(Descent[_UnitBall]):
    """Steps with curvature, R² linearized at the center."""

    def __init__(self, objective: _Objective, center: _UnitBall) -> None:
        super().__init__(center, damping=0.0)
        self.objective, self.vain = objective, 0
        self.factor = objective.curvature(center)

    def propose(self) -> tuple[Array, float]:
        """The minimizer of cuts and curvature."""
        center, bundle = self.center, self.objective.bundle
        e = bundle.newton_step(
            center.point.e, center.slopes, center.beta, self.factor, self.damping
        )
        return e, bundle.model(e)

    def look(self, e: Array, share: float) -> _UnitBall:
        """The machine and the ball there."""
        return self.objective.look(e, share)

    def accept(self, seen: _UnitBall, fit: float) -> None:
        """The new center, and its curvature."""
        super().accept(seen, fit)
        self.factor, self.vain = self.objective.curvature(seen), 0

    def reject(self, seen: _UnitBall, promise: float, share: float) -> None:
        """Shorter steps, and closer looks where little was promised."""
        super().reject(seen, promise, share)
        self.vain += 1
        self.objective.bundle.disappointed(share)


def _newton(objective: _Objective, e: Array) -> Iterator[Step]:
    """Steps with curvature while they fall; cutting planes finish where there are kinks."""
    share = 0.1 * objective.tol if objective.evaluator.last.given else 1.0
    first = objective.look(e, share)
    yield objective.step("newton", first)
    state = _Newton(objective, first)
    while state.vain < _PATIENCE:
        state.step()
        yield objective.step("newton", state.center)
    yield from _cutting_planes(objective, state.center)


def _gradient(objective: _Objective, e: Array) -> Iterator[Step]:
    """[gai2010, §5] on x = c∘e, c the slopes of R² at the start, finished by cutting planes.

    By proposition 3 the kernels may be scaled at will; these scales make the path independent of
    those they came in, and g better conditioned than equal traces do.
    """
    tol, balls, bundle = objective.tol, objective.balls, objective.bundle
    close = max(0.1 * min(tol, 0.1) ** 2, SQUARED_TOL)  # the bound errs by the root of it
    c = bundle.units(balls.slopes(balls.around(e, close).beta))
    usable = balls.sizes > 0.0
    units = np.where(usable, 1.0 / c, 0.0)
    steps = projected_gradient(
        lambda x: objective.evaluate(units * x, close, units),
        objective.weight_set.project,
        np.where(usable, c * e, 0.0) / float(c[usable] @ e[usable]),
        max(1e-2 * tol, close),
    )
    values: list[float] = []
    for _, center in steps:
        yield objective.step("gradient", center)
        values.append(center.value)
        if len(values) > _PATIENCE:  # would a hundred times as many steps close the gap?
            pace = (values[-1 - _PATIENCE] - values[-1]) / values[-1]
            if pace < 0.01 * objective.incumbent.gap:
                break
    yield from _cutting_planes(objective, center)


def _published(objective: _Objective, e: Array) -> Iterator[Step]:
    """[gai2010, §5] and no more, on the weights themselves."""
    close = max(0.1 * min(objective.tol, 0.1) ** 2, SQUARED_TOL)
    steps = projected_gradient(
        lambda e: objective.evaluate(e, close), objective.weight_set.project, e, close, plain=True
    )
    for _, center in steps:
        yield objective.step("gradient", center)


class _Planes(Descent[_UnitBall]):
    """Steps by the cuts alone, in a trust region: no further than these have been right so far."""

    serious = 0.1

    def __init__(self, objective: _Objective, center: _UnitBall) -> None:
        super().__init__(center, damping=0.0)
        self.objective, self.reach, self.nulls = objective, 0.1, 0

    def propose(self) -> tuple[Array, float]:
        """The minimizer of the cuts of J and R² within reach."""
        center, bundle = self.center, self.objective.bundle
        e = bundle.plane_step(center.point.e, center.slopes, self.reach)
        return e, bundle.model(e)

    def look(self, e: Array, share: float) -> _UnitBall:
        """The machine and the ball there."""
        return self.objective.look(e, share)

    def accept(self, seen: _UnitBall, fit: float) -> None:
        """The new center; the region grows where the model was right."""
        self.center, self.nulls = seen, 0
        if fit > 0.5:
            self.reach = min(2.0 * self.reach, 1.0)

    def reject(self, seen: _UnitBall, promise: float, share: float) -> None:
        """A null step taught the model a cut: the region shrinks only if it was far off."""
        self.nulls += 1
        if (self.center.primal - seen.primal) / promise < -2.0 or self.nulls >= 5:
            self.reach, self.nulls = 0.5 * self.reach, 0
        self.objective.bundle.disappointed(share)


def _cutting_planes(objective: _Objective, center: _UnitBall) -> Iterator[Step]:
    """Cutting planes until the trust region is no longer one."""
    state = _Planes(objective, center)
    while state.reach > _LEAST_REACH:
        state.step()
        yield objective.step("cutting planes", state.center)
