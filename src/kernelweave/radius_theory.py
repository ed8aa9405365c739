"""Criteria for kernels by margin and radius, as functions of the weights, and what they prove.

    rkl                 min  ½R²(θ)‖w‖² + CΣξ                           [gai2010, eq. 9, 16]
    kl_c                min  ½R²(θ)‖w‖² + (C/2)R²(θ)Σξ²                 [eq. 10]
    margin_and_radius   min  ½Σ_j‖w_j‖²/θ_j + C/(Σ_j θ_j R²(k_j)) Σξ²   [eq. 11]
    penalised_radius    min  ½Σ_j‖w_j‖² + C₁R²(θ) + C₂Σξ                [eq. 23]

all subject to y_i(f(x_i) + b) ≥ 1 − ξ_i, ξ ≥ 0, f in the space of K_θ = Σ_m θ_m K_m. They are
written for reference and comparison, one machine and one ball a call; the learners ``radius`` and
``radius_bound`` minimise the first two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .certificate import Certificate, check_vector
from .kernels.stack import KernelStack
from .problems.dual_qp import DualQP
from .problems.losses import lower
from .problems.weight_sets import WeightSet
from .solvers import smo
from .solvers.projected_gradient import projected_gradient
from .solvers.radius import Balls, KernelBall

Array = NDArray[np.float64]


def rkl(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    weights: ArrayLike,
    *,
    C: float,
    loss: str = "hinge",
    tol: float = 1e-8,
) -> float:
    """g(θ) of [gai2010, eq. 16]: the SVM objective of K_θ/R²(θ), to relative gap ``tol``."""
    stack = _as_stack(K)
    return _machine(_ball(stack, weights, tol).unit_kernel, lower(y, stack.n, C, loss), tol)


def kl_c(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    weights: ArrayLike,
    *,
    C: float,
    ridge_in_ball: bool = False,
    tol: float = 1e-8,
) -> float:
    """R²(θ) times the squared-hinge SVM objective [gai2010, eq. 10].

    R² is that of K_θ, or with ``ridge_in_ball`` that of K_θ + I/C, whose hard margin this is.
    """
    stack = _as_stack(K)
    ball = _ball(stack, weights, tol, 1.0 / C if ridge_in_ball else 0.0)
    return ball.radius2 * _machine(ball.K, lower(y, stack.n, C, "squared_hinge"), tol)


def margin_and_radius(
    K: ArrayLike | KernelStack, y: ArrayLike, weights: ArrayLike, *, C: float, tol: float = 1e-8
) -> float:
    """The objective of [gai2010, eq. 11], every kernel with the radius of its own ball.

    In terms of our squared hinge it is the SVM at cost 2C/Σ_j θ_j R²(k_j). With all R²(k_j) equal
    and Σθ fixed it is the margin criterion.
    """
    stack = _as_stack(K)
    theta = check_vector("weights", weights, stack.m)
    used = np.flatnonzero(theta)
    radii = [_ball(stack, row, tol).radius2 for row in np.eye(stack.m)[used]]
    cost = 2.0 * C / float(theta[used] @ np.array(radii))
    return _machine(stack.combine(theta), lower(y, stack.n, cost, "squared_hinge"), tol)


def penalised_radius(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    weights: ArrayLike,
    *,
    C1: float,
    C2: float,
    tol: float = 1e-8,
) -> float:
    """The convex objective of [gai2010, eq. 23] at given weights: J(θ) at cost C₂, plus C₁R²(θ).

    The slacks enter as Σξ; with the Σξ² of the paper proposition 4 would not hold.
    """
    stack = _as_stack(K)
    ball = _ball(stack, weights, tol)
    return _machine(ball.K, lower(y, stack.n, C2, "hinge"), tol) + C1 * ball.radius2


def penalised_radius_constants(
    K: ArrayLike | KernelStack, y: ArrayLike, weights: ArrayLike, *, C: float, tol: float = 1e-8
) -> tuple[float, float]:
    """C₁ = ‖w‖²/(2R²) and C₂ = C/R²: the θ that solves (9) solves (23) too [proposition 4]."""
    stack = _as_stack(K)
    ball = _ball(stack, weights, tol)
    qp = lower(y, stack.n, C / ball.radius2, "hinge")
    inner = smo.solve(ball.K, qp, None, tol)
    return 0.5 * float(inner.v @ inner.f) / ball.radius2, C / ball.radius2


def minimise_penalised_radius(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    *,
    C1: float,
    C2: float,
    start: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> Array:
    """Weights θ ≥ 0 that minimise (23), by projected gradient from ``start``.

    It ends when the gradient promises a relative fall of less than ``tol``, as far as θ ≥ 0 allows.
    """
    stack = _as_stack(K)
    qp = lower(y, stack.n, C2, "hinge")
    cone = WeightSet(np.ones(stack.m), bounded=False)
    balls = Balls(stack, cone.scale)
    units = 1.0 / stack.traces()
    theta = units if start is None else check_vector("start", start, stack.m)
    last: list[Array | None] = [None]

    def evaluate(x: Array) -> _Value:
        ball = balls.around(units * x, 1e-2 * tol)
        inner = smo.solve(ball.K, qp, last[0], 1e-2 * tol)
        last[0] = inner.v
        quad = float(inner.v @ inner.f)
        value = qp.primal_value(inner.f, qp.best_bias(inner.f), quad) + C1 * ball.radius2
        slope = C1 * balls.slopes(ball.beta) - 0.5 * stack.quad_forms(inner.v)
        return _Value(value, units * slope)

    for count, (x, now) in enumerate(projected_gradient(evaluate, cone.project, theta / units)):
        theta = units * x
        outside = float(np.minimum(now.gradient, 0.0).min()) * max(float(x.max()), 1.0)
        within = float(np.abs(now.gradient * x).max())
        if max(within, -outside) <= tol * now.value or count >= max_iter:
            break
    return theta


def radius_gap(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    weights: ArrayLike,
    coef: ArrayLike,
    bias: float,
    *,
    C: float,
    dual_alpha: ArrayLike,
    center: ArrayLike | None = None,
    loss: str = "hinge",
    tol: float = 1e-8,
) -> Certificate:
    """Certify a model of [gai2010, eq. 9] from the data alone, as ``duality_gap`` does for MKL.

    primal = ½R²(θ)‖w‖² + loss of the model as given; dual = l(v) − ½ max_m q_m/c_m(β) with
    v = y∘dual_alpha and β = ``center``, by default that of the ball at θ (see
    ``kernelweave.learners.radius``). No weights have a g(θ) below the dual value.
    """
    stack = _as_stack(K)
    qp = lower(y, stack.n, C, loss)
    ball = _ball(stack, weights, tol)
    w = check_vector("coef", coef, stack.n)
    f = ball.K @ w
    primal = qp.primal_value(f, float(bias), ball.radius2 * max(float(w @ f), 0.0))
    v = qp.feasible(qp.linear * check_vector("dual_alpha", dual_alpha, stack.n))
    q = stack.quad_forms(v)
    beta = ball.beta
    if center is not None:
        beta = np.maximum(check_vector("center", center, stack.n), 0.0)
        beta /= beta.sum()
    slopes = Balls(stack, np.ones(stack.m)).slopes(beta)
    seen = q > 1e-13 * float(v @ v) * stack.traces()  # the rest is rounding
    with np.errstate(divide="ignore"):
        worst = float((q[seen] / slopes[seen]).max(initial=0.0))
    return Certificate(primal, qp.dual_value(v, worst))


def estimation_error_bound(
    n: int, margin: float, radius: float, pseudodimension: float, delta: float
) -> float:
    """Bound of the gap between expected and empirical error of an SVM with a learnt kernel.

        √( (8/n) (2 + d log(128en³R²/(γ²d)) + 256 (R²/γ²) log(enγ/(8R)) log(128nR²/γ²) − log δ) )

    [gai2010, §2.2], with probability 1 − δ for kernels of pseudodimension d, among which linear
    combinations of d kernels, whose margin is γ and whose ball has a radius of at most R. It
    exceeds 1, and says nothing, unless n is of the order of 10⁶(R/γ)².
    """
    d = pseudodimension
    if not min(n, margin, radius, d, delta) > 0:
        raise ValueError("n, margin, radius, pseudodimension and delta must be positive")
    ratio = (radius / margin) ** 2
    family = d * math.log(128.0 * math.e * n**3 * ratio / d)
    machine = 256.0 * ratio * math.log(math.e * n / (8.0 * math.sqrt(ratio)))
    machine *= math.log(128.0 * n * ratio)
    return math.sqrt(max(8.0 / n * (2.0 + family + machine - math.log(delta)), 0.0))


@dataclass(frozen=True)
class _Value:
    value: float
    gradient: Array


def _as_stack(K: ArrayLike | KernelStack) -> KernelStack:
    return K if isinstance(K, KernelStack) else KernelStack(K)


def _ball(stack: KernelStack, weights: ArrayLike, tol: float, ridge: float = 0.0) -> KernelBall:
    """The combined kernel and its enclosing ball."""
    theta = check_vector("weights", weights, stack.m)
    return Balls(stack, np.ones(stack.m)).around(theta, tol, ridge)


def _machine(K: Array, qp: DualQP, tol: float) -> float:
    """The primal value of the machine on one kernel."""
    inner = smo.solve(K, qp, None, tol)
    return qp.primal_value(inner.f, qp.best_bias(inner.f), float(inner.v @ inner.f))
