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
from typing import Any

import numpy as np

from kernelweave._core.tolerances import ROUNDING, SQUARED_TOL
from kernelweave._core.types import Array
from kernelweave._solvers.radius.balls import Balls
from kernelweave._solvers.radius.centering import centered
from kernelweave._solvers.radius.projected_gradient import projected_gradient
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.machines.evaluator import Evaluator, Point
from kernelweave.machines.incumbent import Bound, Incumbent


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

    objective = "radius_bound"
    weight_norms = (1, 2)

    def __init__(self, ridge_in_ball: bool = False) -> None:
        self.ridge_in_ball = ridge_in_ball

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One SVM and one enclosing ball per evaluation, from unit weights ``e``."""
        weight_set, machine = evaluator.weight_set, evaluator.machine
        kernels = centered(evaluator.stack)
        ridge = evaluator.problem.qp.ridge if self.ridge_in_ball else 0.0
        if ridge > 0.0:
            kernels.weights("start", e)  # complains where no kernel tells points apart
        else:
            kernels.refuse_blind(
                "under 'radius_bound' the objective falls to zero with all weight on such kernels; "
                "leave them out"
            )
        evaluator = evaluator.on(kernels.stack)
        balls = Balls(kernels, weight_set.scale)
        close = max(0.1 * min(tol, 0.1) ** 2, SQUARED_TOL)  # the gradient errs by the root of it

        def evaluate(e: Array) -> _State:
            ball = balls.around(e, close, ridge)
            point = evaluator.solve(e, close, K=ball.K)
            gradient = balls.slopes(ball.beta) * point.value - 0.5 * ball.radius2 * point.q
            if weight_set.norm == 2.0:
                gradient -= float(gradient @ e) * e  # along the sphere
            return _State(point, ball.radius2, ball.lower, gradient)

        if machine.is_hard:  # other weights, where these do not separate the classes
            e = first_point(evaluator, e, 0.1).e
        for weights, state in projected_gradient(evaluate, weight_set.project, e, ROUNDING):
            point = state.point
            answer: Any = point.answer
            d = weight_set.scale * point.e
            bias = kernels.bias(d, answer.bias, answer.scale * answer.v)
            same = replace(answer, primal=state.value, bias=bias)
            fall = _first_order_fall(weights, state.gradient, weight_set.norm) / state.value
            yield Step(
                "projected gradient",
                settled=(
                    replace(point, answer=same),
                    Bound(state.lower * point.value, point.v, "machine and ball"),
                ),
                stationarity=fall,
                extras={
                    "radius": state.radius2**0.5,
                    "stationarity": fall,
                    "ridge_in_ball": ridge,
                },
            )


@dataclass(frozen=True)
class _State:
    point: Point
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
