"""Both bounds of a model by margin and radius, from the kernels alone [gai2010, eq. 9 and 10].

Rounding is charged to both, with sums in extended precision, as ``kernelweave.certificate`` does.
"""

from __future__ import annotations

import numpy as np

from kernelweave._core.types import Array
from kernelweave.certificate import Certificate, certify_given, primal_of
from kernelweave.machines.machine import Machine
from kernelweave.papers.gai2010._balls import Balls, certified_radius
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
    ``dual_alpha`` and β = ``center``, by default that of the ball at θ. ``coef`` is that of all
    rows, the points are the labeled ones.
    """
    machine, kernels = Machine.of(problem), centered(problem.stack)
    theta = kernels.weights("weights", weights)
    balls = Balls(kernels, machine.scale)
    ball = Balls(kernels, np.ones(theta.size)).around(theta, tol)
    larger, _ = certified_radius(problem.stack, theta, ball.beta, ball.radius2, True)
    v = np.clip(machine.from_alpha(dual_alpha[None, problem.rows]), *machine.limits)
    beta = ball.beta if center is None else center / center.sum()
    dual, _ = balls.proven(machine, v, beta, True)
    return Certificate(primal_of(problem, problem.qp, theta, coef, bias, larger), dual)


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
    balls = Balls(centered(problem.stack), np.ones(weights.size))
    ball = balls.around(weights, tol, ridge)
    known = problem.stack, weights, ball.beta, ball.radius2
    most, least = certified_radius(*known, True, ridge)
    machine = certify_given(problem, weights, coef, bias, dual_alpha)
    return Certificate(most * machine.primal, max(least * machine.dual, 0.0))
