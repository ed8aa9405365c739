"""Kernel criteria based on margin and radius, as functions of the weights, and their bounds.

    rkl                 min  ½R²(θ)‖w‖² + CΣξ                           [gai2010, eq. 9, 16]
    kl_c                min  ½R²(θ)‖w‖² + (C/2)R²(θ)Σξ²                 [eq. 10]
    margin_and_radius   min  ½Σ_j‖w_j‖²/θ_j + C/(Σ_j θ_j R²(k_j)) Σξ²   [eq. 11]
    penalized_radius    min  ½Σ_j‖w_j‖² + C₁R²(θ) + C₂Σξ                [eq. 23]

all subject to y_i(f(x_i) + b) ≥ 1 − ξ_i, ξ ≥ 0, f in the space of K_θ = Σ_m θ_m K_m. They serve as
reference and for comparison; each call solves one machine and one ball. The learners ``radius`` and
``radius_bound`` minimize the first two. Kernels under which all points coincide count as zero.
A ``ConvergenceWarning`` says if a machine's duality gap stays above ``tol``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_finite, check_nonnegative, check_number, check_vector
from kernelweave._core.tolerances import ROUNDING
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave._solvers.svm import choice
from kernelweave._solvers.svm.smo import Inner
from kernelweave.certificate import Certificate
from kernelweave.papers.gai2010._balls import Balls, KernelBall
from kernelweave.papers.gai2010._bounds import radius_bounds
from kernelweave.papers.gai2010._centering import Centered, centered
from kernelweave.papers.gai2010._projected_gradient import projected_gradient
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.problems.losses import check_C, check_labels, hinge, make_qp, squared_hinge
from kernelweave.problems.problem import make_formulation
from kernelweave.problems.weight_sets import Cone
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.protocol import CombinedKernel, Stack


def rkl(
    K: ArrayLike | Stack,
    y: ArrayLike,
    weights: ArrayLike,
    *,
    C: float,
    loss: str = "hinge",
    tol: float = 1e-8,
) -> float:
    """g(θ) of [gai2010, eq. 16]: the SVM objective of K_θ/R²(θ), to relative gap ``tol``."""
    kernels = _kernels(K)
    qp = make_qp(y, kernels.stack.n, C, loss)
    theta = kernels.weights("weights", weights)
    size = float(theta @ kernels.traces)  # weights of this size are far from under- and overflow
    ball = _ball(kernels, theta / size, tol)
    return _machine(ball.unit_kernel, qp, tol)


def kl_c(
    K: ArrayLike | Stack,
    y: ArrayLike,
    weights: ArrayLike,
    *,
    C: float,
    ridge_in_ball: bool = False,
    tol: float = 1e-8,
) -> float:
    """R²(θ) times the squared-hinge SVM objective [gai2010, eq. 10].

    R² belongs to K_θ or, with ``ridge_in_ball``, to K_θ + I/C, whose hard margin this is.
    """
    kernels = _kernels(K)
    qp = make_qp(y, kernels.stack.n, C, "squared_hinge")
    ball = _ball(kernels, weights, tol, qp.one_ridge if ridge_in_ball else 0.0)
    return ball.radius2 * _machine(ball.K, qp, tol)


def margin_and_radius(
    K: ArrayLike | Stack, y: ArrayLike, weights: ArrayLike, *, C: float, tol: float = 1e-8
) -> float:
    """The objective of [gai2010, eq. 11], where every kernel has the radius of its own ball.

    It equals the SVM with ``loss="squared_hinge"`` and cost 2C/Σ_j θ_j R²(k_j). If all R²(k_j) are
    equal and Σθ is fixed, it is the margin criterion.
    """
    kernels = _kernels(K)
    check_number("tol", tol)
    theta = kernels.weights("weights", weights)
    labels, cost = check_labels(y, kernels.stack.n), check_C(C, kernels.stack.n)
    used = np.flatnonzero(theta)
    radii = [_ball(kernels, row, tol).radius2 for row in np.eye(theta.size)[used]]
    qp = squared_hinge(labels, 2.0 * cost / float(theta[used] @ np.array(radii)))
    return _machine(kernels.stack.combined(theta), qp, tol)


def penalized_radius(
    K: ArrayLike | Stack,
    y: ArrayLike,
    weights: ArrayLike,
    *,
    C1: float,
    C2: float,
    tol: float = 1e-8,
) -> float:
    """The convex objective of [gai2010, eq. 23] at given weights: J(θ) at cost C₂, plus C₁R²(θ).

    The slacks enter as Σξ; with the paper's Σξ², proposition 4 would not hold.
    """
    kernels = _kernels(K)
    check_number("C1", C1)
    check_number("C2", C2)
    qp = make_qp(y, kernels.stack.n, C2, "hinge")
    ball = _ball(kernels, weights, tol)
    return _machine(ball.K, qp, tol) + C1 * ball.radius2


def penalized_radius_constants(
    K: ArrayLike | Stack, y: ArrayLike, weights: ArrayLike, *, C: float, tol: float = 1e-8
) -> tuple[float, float]:
    """C₁ = ‖w‖²/(2R²) and C₂ = C/R², with which the solution of (9) solves (23) [proposition 4]."""
    kernels = _kernels(K)
    check_number("C", C)
    ball = _ball(kernels, weights, tol)
    qp = make_qp(y, kernels.stack.n, C / ball.radius2, "hinge")
    inner = _solve(ball.K, qp, None, tol)
    return 0.5 * float(inner.v @ inner.f) / ball.radius2, C / ball.radius2


def minimize_penalized_radius(
    K: ArrayLike | Stack,
    y: ArrayLike,
    *,
    C1: float,
    C2: float,
    start: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> Array:
    """Weights θ ≥ 0 that minimize (23), by projected gradient from ``start``.

    Stops when, within θ ≥ 0, the gradient predicts a relative decrease of less than ``tol``.
    """
    kernels = _kernels(K)
    stack = kernels.stack
    for name, number in {"C1": C1, "C2": C2, "tol": tol}.items():
        check_number(name, number)
    check_number("max_iter", max_iter, int)
    qp = make_qp(y, stack.n, C2, "hinge")
    cone = Cone(np.ones(stack.m))
    balls = Balls(kernels, cone.scale)
    seen = kernels.traces > 0.0
    units = np.divide(1.0, kernels.traces, out=np.zeros(stack.m), where=seen)
    theta = kernels.weights("start", units if start is None else start)
    last: list[Array | None] = [None]

    def evaluate(x: Array) -> _Value:
        ball = balls.around(units * x, 1e-2 * tol)
        inner = _solve(ball.K, qp, last[0], 1e-2 * tol)
        last[0] = inner.v
        quad = float(inner.v @ inner.f)
        value = qp.primal_value(inner.f, qp.best_bias(inner.f), quad) + C1 * ball.radius2
        slope = C1 * balls.slopes(ball.beta) - 0.5 * stack.quad_forms(inner.v)
        return _Value(value, units * slope)

    steps = projected_gradient(evaluate, cone.project, theta * kernels.traces, ROUNDING)
    for count, (x, now) in enumerate(steps):
        theta = units * x
        outside = float(np.minimum(now.gradient, 0.0).min()) * max(float(x.max()), 1.0)
        within = float(np.abs(now.gradient * x).max())
        if max(within, -outside) <= tol * now.value or count >= max_iter:
            break
    return theta


def radius_gap(
    K: ArrayLike | Stack,
    y: ArrayLike,
    weights: ArrayLike,
    coef: ArrayLike,
    bias: float,
    *,
    C: ArrayLike,
    dual_alpha: ArrayLike,
    center: ArrayLike | None = None,
    loss: str = "hinge",
    ridge: float = 0.0,
    tol: float = 1e-8,
) -> Certificate:
    """Certify a model of [gai2010, eq. 9] from the data alone, as ``duality_gap`` does for MKL.

    primal = ½R²(θ)‖w‖² + loss of the given model; dual = l(v) − ½ max_m q_m/c_m(β) with
    v = y∘dual_alpha and β = ``center``, by default that of the ball at θ (see
    ``kernelweave.papers.gai2010.radius``). No weights have a g(θ) below the dual value. ``C``,
    ``loss`` and ``ridge`` are as in ``learn``.
    """
    check_number("tol", tol)
    problem = make_formulation(y, C, loss, ridge=ridge).on(as_stack(K))
    n = problem.whole.n
    d, w = check_vector("weights", weights, problem.whole.m), check_vector("coef", coef, n)
    alpha, b = check_vector("dual_alpha", dual_alpha, n), check_finite("bias", bias)
    beta = None if center is None else check_nonnegative("center", center, n)
    if beta is not None and not beta.any():
        raise ValueError("center must be positive for some point, found zeros")
    return radius_bounds(problem, d, w, b, alpha, beta, tol)


def estimation_error_bound(
    n: float, margin: float, radius: float, pseudodimension: float, delta: float
) -> float:
    """Bound on the difference between expected and empirical error of an SVM on a learned kernel.

        √( (8/n) (2 + d log(128en³R²/(γ²d)) + 256 (R²/γ²) log(enγ/(8R)) log(128nR²/γ²) − log δ) )

    [gai2010, §2.2]. It holds with probability 1 − δ for kernels of pseudodimension d (such as
    linear combinations of d kernels) with margin γ and a ball of radius at most R. It exceeds 1,
    and says nothing, unless n is of the order of 10⁶(R/γ)². If n is so small that one of the first
    three logarithms is negative, the bound does not apply, and a ValueError is raised.
    """
    d = pseudodimension
    for name, x in {"n": n, "margin": margin, "radius": radius, "pseudodimension": d}.items():
        check_number(name, x)
    check_number("delta", delta)
    if not delta < 1.0:
        raise ValueError(f"delta must be a probability between 0 and 1, found {delta!r}")
    # logarithms, so that no power overflows
    points, ratio = math.log(n), math.log(radius) - math.log(margin)
    logs = [
        math.log(128.0) + 1.0 + 3.0 * points + 2.0 * ratio - math.log(d),
        1.0 + points - math.log(8.0) - ratio,
        math.log(128.0) + points + 2.0 * ratio,
    ]
    if min(logs) < 0.0:
        raise ValueError(
            f"n={n!r} points are too few for margin {margin!r}, radius {radius!r} and "
            f"pseudodimension {d!r}: the bound needs enγ ≥ 8R, 128nR² ≥ γ² and 128en³R² ≥ γ²d"
        )
    size = 256.0 * (radius / margin) ** 2 * logs[1] * logs[2]
    inside = 2.0 + d * logs[0] + size - math.log(delta)
    return math.sqrt(8.0 / n * inside)


@dataclass(frozen=True)
class _Value:
    value: float
    gradient: Array


def _kernels(K: ArrayLike | Stack) -> Centered:
    return centered(as_stack(K))


def _ball(kernels: Centered, weights: ArrayLike, tol: float, ridge: float = 0.0) -> KernelBall:
    """The combined kernel and its enclosing ball."""
    check_number("tol", tol)
    theta = kernels.weights("weights", weights)
    return Balls(kernels, np.ones(theta.size)).around(theta, tol, ridge)


def _solve(K: CombinedKernel, qp: DualQP, start: Array | None, tol: float) -> Inner:
    """The machine on one kernel."""
    return choice.solve("auto", K, [qp], [qp.feasible(start)], tol)[0]


def _machine(K: CombinedKernel, qp: DualQP, tol: float) -> float:
    """The primal value of the machine on one kernel; infinite if a hard margin is infeasible.

    A large C amplifies rounding in f. A multiple of f without slacks is therefore tried, too.
    """
    inner = _solve(K, qp, None, tol)
    if qp.is_hard and not inner.bounded:
        return math.inf
    f, quad = inner.f, float(inner.v @ inner.f)
    value = hinge(np.sign(qp.linear), np.inf).improve(f, quad)[2]
    if not qp.is_hard:
        value = min(value, qp.primal_value(f, qp.best_bias(f), quad))
    gap = relative_gap(value, qp.dual_value(inner.v, quad))
    if gap > tol:
        warn_unconverged(f"the duality gap reached is {gap:.2g}, not tol={tol:g}; raise tol")
    return value
