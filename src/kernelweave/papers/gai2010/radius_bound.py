"""The radius-margin bound as objective (KL-C): R² times the whole SVM objective [gai2010, eq. 10].

    min_θ  R²(θ) J(θ),    J(θ) = min_{w,b,ξ}  ½‖w‖² + (C/2) Σ ξ_i²  =  max_v  l(v) − ½ vᵀK_θ v

J is that of the loss at hand. Eq. 10 is the squared hinge, where a ridge of 1/C in the kernel means
(C/2)·R²Σξ² (the paper has no ½): ask for it by ``loss="squared_hinge"``, since the hinge, R²CΣξ, is
the default of ``learn`` and ``MKLClassifier`` here, too. Unlike ``radius`` this is neither convex
nor invariant to scale: smaller kernels are always better, so that the weights need a norm, and
their size matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kernelweave._core.tolerances import ROUNDING, SQUARED_TOL
from kernelweave._core.types import Array
from kernelweave.certificate import Certificate
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.machines.certified import certified_given, certified_point
from kernelweave.machines.evaluator import Bound, Evaluator, Incumbent
from kernelweave.machines.machine import Point
from kernelweave.papers.gai2010._balls import Balls, KernelBall, certified_radius
from kernelweave.papers.gai2010._bounds import radius_bound_bounds
from kernelweave.papers.gai2010._centering import centered
from kernelweave.papers.gai2010._projected_gradient import projected_gradient
from kernelweave.problems.weight_sets import WeightSet
from kernelweave.solution import Solution


class RadiusBound(Learner):
    """Projected gradient with Armijo's rule on R²(θ)J(θ), to a stationary point.

    The duality gap is that of the machine and the ball at the weights found; ``stationarity`` in
    ``Solution.extras`` is the relative fall that is possible to first order: within the simplex,
    or along a step of length one on the sphere. Where kernels of low rank give J kinks it may stay
    above the tolerance, with a warning. "radius" in ``extras``, ``radius_`` of an estimator, is the
    R of the objective.

    Parameters
    ----------
    ridge_in_ball : bool
        Whether R² is that of the kernel with the ridge on its diagonal, 1/C under the squared
        hinge, as where the bound was first proposed. By default it is not, as in eq. 10. The hinge
        has no ridge unless ``learn(…, ridge=…)`` adds one.
    """

    targets = ("labels",)
    why_not = "the radius of the data bounds the error of a classifier"
    objective = "radius_bound"
    settles = True
    standard_units = False  # the size of kernels is part of the objective
    weight_norms = (1, 2)

    def __init__(self, ridge_in_ball: bool = False) -> None:
        self.ridge_in_ball = ridge_in_ball

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One SVM and one enclosing ball per evaluation, from unit weights ``e``."""
        objective = _BoundObjective(evaluator, self.ridge_in_ball)
        close = max(0.1 * min(tol, 0.1) ** 2, SQUARED_TOL)  # the gradient errs by the root of it
        if evaluator.machine.is_hard:  # other weights, where these do not separate the classes
            e = first_point(objective.evaluator, e, 0.1).e
        steps = projected_gradient(
            lambda e: objective.evaluate(e, close), evaluator.weight_set.project, e, ROUNDING
        )
        for _, state in steps:
            fall = _first_order_fall(state.point.e, state.gradient, evaluator.weight_set)
            yield objective.step("projected gradient", state, fall / state.value)

    def unsolved(self, evaluator: Evaluator, e: Array) -> Step:
        """R² times the loss of f = 0, R² that of the ball around the mean of the points."""
        objective = _BoundObjective(evaluator, self.ridge_in_ball)
        point = evaluator.unsolved(e)
        ball = objective.balls.around(e, np.inf, objective.ridge)
        return objective.step("start", _BallAndMachine(point, ball, np.zeros_like(e)), np.inf)

    def judged(self, solution: Solution) -> Certificate:
        """The machine and the ball at the weights found."""
        assert solution.problem is not None
        ridge = solution.extras.get("ridge_in_ball", 0.0)
        model = solution.weights, solution.coef, float(solution.bias), solution.dual_alpha
        return radius_bound_bounds(solution.problem, *model, ridge)


class _BoundObjective:
    """R²(θ)J(θ), on kernels centered where a constant part hides the rest."""

    def __init__(self, evaluator: Evaluator, ridge_in_ball: bool) -> None:
        self.given, self.weight_set = evaluator, evaluator.weight_set
        self.kernels = centered(evaluator.stack)
        self.ridge = evaluator.problem.qp.one_ridge if ridge_in_ball else 0.0
        if self.ridge > 0.0:  # complains where no kernel tells points apart
            self.kernels.weights("start", np.ones(evaluator.stack.m))
        else:
            self.kernels.refuse_blind(
                "under 'radius_bound' the objective falls to zero with all weight on such kernels; "
                "leave them out"
            )
        self.evaluator = evaluator.on(self.kernels.stack)
        self.balls = Balls(self.kernels, self.weight_set.scale, evaluator.tick)

    def evaluate(self, e: Array, close: float) -> _BallAndMachine:
        """The ball and the machine at unit weights ``e``, both to relative gap ``close``."""
        ball = self.balls.around(e, close, self.ridge)
        point = self.evaluator.solve(e, close, K=ball.K)
        gradient = self.balls.slopes(ball.beta) * point.value - 0.5 * ball.radius2 * point.q
        if not self.weight_set.is_simplex:
            gradient -= float(gradient @ e) * e  # along the sphere
        return _BallAndMachine(point, ball, gradient)

    def step(self, by: str, state: _BallAndMachine, fall: float) -> Step:
        """The point for the kernels as they were given; the relative ``fall`` still possible."""
        ball, point = state.ball, state.point
        radius = ball.radius2**0.5
        extras = {"radius": radius, "stationarity": fall, "ridge_in_ball": self.ridge}
        settled = (
            self._given(point, ball.radius2),
            Bound(ball.lower * point.value, point.v, "machine and ball"),
        )
        certify = partial(self._certified, state)
        return Step(by, "running", settled, fall, extras, certify)

    def _given(self, point: Point, radius2: float = 1.0) -> Point:
        """The point for the kernels as they were given; its primal value times ``radius2``."""
        point = self.kernels.given(point, self.weight_set.scale * point.e)
        return replace(point, fits=point.fits * [radius2, 1.0, 1.0])

    def _certified(self, state: _BallAndMachine, fine: bool) -> tuple[Point, Bound]:
        """Both values in exact arithmetic: bounds of the ball times bounds of the machine."""
        machine, ball, point = self.given.machine, state.ball, state.point
        known = machine.stack, machine.scale * point.e, ball.beta, ball.radius2
        most, least = certified_radius(*known, fine, self.ridge)
        least = least if fine else max(ball.lower - (most - ball.radius2), 0.0)
        bound = certified_given(self.given, point, fine)
        proven = Bound(least * bound.value, bound.v, "machine and ball")
        if not fine:
            return self._given(certified_point(machine, point, fine), most), proven
        point = certified_point(machine, self._given(point), fine)  # decision values anew
        return replace(point, fits=point.fits * [most, 1.0, 1.0]), proven


@dataclass(frozen=True)
class _BallAndMachine:
    point: Point
    ball: KernelBall
    gradient: Array

    @property
    def value(self) -> float:
        return self.ball.radius2 * self.point.primal


def _first_order_fall(e: Array, gradient: Array, weight_set: WeightSet) -> float:
    """Towards the best vertex of the simplex, or along the sphere."""
    if weight_set.is_simplex:
        return float(gradient @ e - gradient.min())
    return float(np.linalg.norm(np.where(e > 0.0, gradient, np.minimum(gradient, 0.0))))
