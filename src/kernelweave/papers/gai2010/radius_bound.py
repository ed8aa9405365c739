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
from kernelweave._solvers.radius.balls import Balls
from kernelweave._solvers.radius.centering import Centered, centered
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.machines.certified import certified_given, certified_point, radius_bounds
from kernelweave.machines.evaluator import Evaluator, Point
from kernelweave.machines.incumbent import Bound, Incumbent
from kernelweave.papers.gai2010._projected_gradient import projected_gradient


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
    standard_units = False  # the size of kernels is part of the objective
    weight_norms = (1, 2)

    def __init__(self, ridge_in_ball: bool = False) -> None:
        self.ridge_in_ball = ridge_in_ball

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One SVM and one enclosing ball per evaluation, from unit weights ``e``."""
        weight_set, machine = evaluator.weight_set, evaluator.machine
        kernels = centered(evaluator.stack)
        ridge = evaluator.problem.qp.one_ridge if self.ridge_in_ball else 0.0
        if ridge > 0.0:
            kernels.weights("start", e)  # complains where no kernel tells points apart
        else:
            kernels.refuse_blind(
                "under 'radius_bound' the objective falls to zero with all weight on such kernels; "
                "leave them out"
            )
        given = evaluator
        evaluator = evaluator.on(kernels.stack)
        balls = Balls(kernels, weight_set.scale, evaluator.tick)
        close = max(0.1 * min(tol, 0.1) ** 2, SQUARED_TOL)  # the gradient errs by the root of it

        def evaluate(e: Array) -> _BallAndMachine:
            ball = balls.around(e, close, ridge)
            point = evaluator.solve(e, close, K=ball.K)
            gradient = balls.slopes(ball.beta) * point.value - 0.5 * ball.radius2 * point.q
            if weight_set.norm == 2.0:
                gradient -= float(gradient @ e) * e  # along the sphere
            return _BallAndMachine(point, ball.beta, ball.radius2, ball.lower, gradient)

        if machine.is_hard:  # other weights, where these do not separate the classes
            e = first_point(evaluator, e, 0.1).e
        for weights, state in projected_gradient(evaluate, weight_set.project, e, ROUNDING):
            fall = _first_order_fall(weights, state.gradient, weight_set.norm) / state.value
            extras = {"radius": state.radius2**0.5, "stationarity": fall, "ridge_in_ball": ridge}
            certify = partial(_certified, kernels, given, state, ridge)
            settled = _settled(kernels, given, state, state.value, state.lower * state.point.value)
            yield Step("projected gradient", "running", settled, fall, extras, certify)


def _settled(
    kernels: Centered, evaluator: Evaluator, state: _BallAndMachine, primal: float, dual: float
) -> tuple[Point, Bound]:
    """The point for the kernels as they were given, and its bound."""
    point = state.point
    answer = point.answer.only
    d = evaluator.weight_set.scale * point.e
    bias = kernels.bias(d, answer.bias, answer.scale * answer.v)
    same = replace(answer, primal=primal, bias=bias)
    return point.answered(same), Bound(dual, point.v, "machine and ball")


def _certified(
    kernels: Centered, evaluator: Evaluator, state: _BallAndMachine, ridge: float, fine: bool
) -> tuple[Point, Bound]:
    """Both values in exact arithmetic: bounds of the ball times bounds of the machine."""
    d = evaluator.weight_set.scale * state.point.e
    most, least = radius_bounds(evaluator.stack, d, state.beta, state.radius2, fine, ridge)
    least = least if fine else max(state.lower - (most - state.radius2), 0.0)
    bound = certified_given(evaluator, state.point, fine)
    answer = state.point.answer.only
    if fine:  # decision values anew, for the kernels as they were given
        answer = replace(answer, bias=kernels.bias(d, answer.bias, answer.scale * answer.v))
    answer = certified_point(evaluator, state.point.answered(answer), fine).answer.only
    bias = answer.bias if fine else kernels.bias(d, answer.bias, answer.scale * answer.v)
    answer = replace(answer, primal=most * answer.primal, bias=bias)
    proven = Bound(least * bound.value, bound.v, "machine and ball")
    return state.point.answered(answer), proven


@dataclass(frozen=True)
class _BallAndMachine:
    point: Point
    beta: Array
    radius2: float
    lower: float
    gradient: Array

    @property
    def value(self) -> float:
        return self.radius2 * self.point.primal


def _first_order_fall(e: Array, gradient: Array, norm: float) -> float:
    """Towards the best vertex of the simplex, or along the sphere."""
    if norm == 1.0:
        return float(gradient @ e - gradient.min())
    return float(np.linalg.norm(np.where(e > 0.0, gradient, np.minimum(gradient, 0.0))))
