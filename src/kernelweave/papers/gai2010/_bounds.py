"""Both bounds of a model by margin and radius, from the kernels alone [gai2010, eq. 9 and 10]."""

from __future__ import annotations

import numpy as np

from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array
from kernelweave.certificate import Certificate
from kernelweave.papers.gai2010._balls import Balls
from kernelweave.papers.gai2010._centering import centered
from kernelweave.problems.problem import Problem

_BALL = 1e-11  # relative gap of the enclosing ball


def radius_bounds(
    problem: Problem,
    weights: Array,
    coef: Array,
    bias: float,
    dual_alpha: Array,
    center: Array | None = None,
    tol: float = _BALL,
) -> Certificate:
    """Primal and dual value of the criterion that ``radius`` minimizes.

    primal = ½R²(θ)‖w‖² + loss of the model as given; dual = l(v) − ½ max_m q_m/c_m(β) for the v of
    ``dual_alpha`` and β = ``center``, by default that of the ball at θ. ``coef`` and the points are
    those of the labelled rows.
    """
    qp, rows = problem.qp, problem.rows
    kernels = centered(problem.stack)
    theta, w = kernels.weights("weights", weights), coef[rows]
    balls = Balls(kernels, np.ones(theta.size))
    ball = balls.around(theta, tol)
    f = kernels.values(theta, ball.K @ w, w)
    rounding = 0.0
    if qp.is_hard:  # f is known as exactly as its terms: |K_ij| is at most the largest K_ii
        largest = float((theta @ problem.stack.diagonals()).max())
        rounding = 8.0 * EPS * largest * float(np.abs(w).sum())
    primal = qp.primal_value(f, bias, ball.radius2 * max(float(w @ f), 0.0), rounding)
    v = qp.from_alpha(dual_alpha[rows])
    beta = ball.beta if center is None else center / center.sum()
    q = np.maximum(kernels.stack.quad_forms(v), 0.0)
    return Certificate(primal, balls.lower_bound(qp.dual_linear(v), q, v, balls.slopes(beta)))


def radius_bound_bounds(
    problem: Problem,
    weights: Array,
    coef: Array,
    bias: float,
    dual_alpha: Array,
    ridge: float = 0.0,
    tol: float = _BALL,
) -> Certificate:
    """Primal and dual value of R² times the machine's objective, at the weights given.

    ``ridge`` is on the diagonal of the kernel whose ball it is.
    """
    qp, rows = problem.qp, problem.rows
    kernels = centered(problem.stack)
    ball = Balls(kernels, np.ones(weights.size)).around(weights, tol, ridge)
    w, v = coef[rows], qp.from_alpha(dual_alpha[rows])
    f = kernels.values(weights, ball.K @ w, w)
    primal = qp.primal_value(f, bias, max(float(w @ f), 0.0))
    quad = max(float(v @ (ball.K @ v)), 0.0)
    return Certificate(ball.radius2 * primal, ball.lower * qp.dual_value(v, quad))
