"""Radius-based kernel learning: gradients, invariance, certificates, reference objectives."""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from _helpers.opened import opened
from _helpers.references import awkward, coarse, dense, factor, rank_one, separable, solve
from sklearn.datasets import load_breast_cancer

from kernelweave import (
    Gaussian,
    KernelBank,
    KernelStack,
    MKLClassifier,
    Polynomial,
    enclosing_ball,
    learn,
    regularization_path,
)
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.papers import gai2010 as theory
from kernelweave.papers.gai2010._balls import Balls
from kernelweave.papers.gai2010._centering import centered
from kernelweave.papers.gai2010._projected_gradient import projected_gradient
from kernelweave.papers.gai2010.radius import Radius
from kernelweave.papers.gai2010.radius_bound import RadiusBound
from kernelweave.problems.problem import make_problem
from kernelweave.problems.weight_sets import Simplex
from kernelweave.solving import Progress

METHODS = ["newton", "gradient"]
NORMS = [1, 2, None]


@pytest.fixture(scope="module")
def cancer():
    """The 20 kernels of gai2010, §6, of unit trace, on every third row."""
    X, target = load_breast_cancer(return_X_y=True)
    X, y = X[::3], 2.0 * target[::3] - 1.0
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    widths = (0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20)
    kernels = [Gaussian(w) for w in widths] + [Polynomial(d) for d in range(1, 11)]
    stack = KernelBank(kernels, normalize="unit_trace").fit(X).stack
    return np.stack([stack.combine(e) for e in np.eye(stack.m)]), y


def scaled(K: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The kernels multiplied by factors from 1e-3 to 1e3, and the factors."""
    factors = np.random.default_rng(seed).permutation(np.logspace(-3, 3, len(K)))
    return K * factors[:, None, None], factors


def alignment(A: np.ndarray, B: np.ndarray) -> float:
    return float((A * B).sum() / (np.linalg.norm(A) * np.linalg.norm(B)))


def combined(K: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.tensordot(weights, K, axes=1)


# --- gradients ----------------------------------------------------------------------------------


def central_difference(f, x: np.ndarray, step: float) -> np.ndarray:
    moves = step * np.eye(x.size)
    return np.array([(f(x + h) - f(x - h)) / (2 * step) for h in moves])


def test_gradient_of_the_radius(cancer):
    stack = KernelStack(cancer[0][:8], check=False)
    e = np.linspace(1.0, 2.0, 8)
    balls = Balls(centered(stack), np.ones(8))
    slopes = balls.slopes(balls.around(e, 1e-13).beta)
    by_hand = central_difference(lambda x: balls.around(x, 1e-13).radius2, e, 1e-4)
    np.testing.assert_allclose(slopes, by_hand, rtol=1e-6)
    assert slopes @ e == pytest.approx(balls.around(e, 1e-13).radius2)  # degree one


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_gradients_of_both_criteria(cancer, loss):
    """[gai2010, eq. 21–22] by finite differences of values that another function computes."""
    from kernelweave.papers.gai2010.radius import _Objective
    from kernelweave.problems.problem import make_problem

    K, y = cancer
    K = K[[1, 3, 5, 10, 11]] * len(y)
    theta = np.array([0.5, 0.2, 0.3, 0.4, 0.1])
    problem = make_problem(K, y, 1.0, loss=loss, weight_norm=None)
    objective = _Objective(*opened(problem, own=True), 1e-10)
    gradient = objective.evaluate(theta, 1e-12).gradient

    def value(x):
        return theory.rkl(K, y, x, C=1.0, loss=loss, tol=1e-12)

    by_hand = central_difference(value, theta, 1e-4)
    np.testing.assert_allclose(gradient, by_hand, atol=1e-5 * np.abs(by_hand).max())
    assert abs(gradient @ theta) <= 1e-9 * np.abs(gradient).max()  # degree zero


# --- invariance: propositions 1 to 3 ------------------------------------------------------------


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_value_does_not_depend_on_scales(cancer, C):
    K, y = cancer
    rng = np.random.default_rng(1)
    theta = rng.random(len(K))
    value = theory.rkl(K, y, theta, C=C, tol=1e-11)
    for a in (1e-3, 1e3):
        assert theory.rkl(K, y, a * theta, C=C, tol=1e-11) == pytest.approx(value, rel=1e-8)
    other, factors = scaled(K)
    assert theory.rkl(other, y, theta / factors, C=C, tol=1e-11) == pytest.approx(value, rel=1e-8)


def learn_twice(K, y, method, **options):
    """From the kernels as they are and from rescaled ones: objectives and alignment.

    The plain gradient follows the same path both times, but is not expected at its end.
    """
    other, factors = scaled(K)
    start = options.pop("start", None)
    if method == "gradient":
        options |= {"max_iter": 25}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options |= {"learner": Radius(method), "tol": 1e-9}
        first = learn(K, y, start=start, **options)
        second = learn(other, y, start=None if start is None else start / factors, **options)
    assert second.objective == pytest.approx(first.objective, rel=1e-8)
    assert alignment(combined(K, first.weights), combined(other, second.weights)) >= 1 - 1e-6


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("method", METHODS)
def test_learned_kernel_does_not_depend_on_scales(cancer, method, norm):
    learn_twice(*cancer, method, C=1.0, weight_norm=norm)


@pytest.mark.parametrize("method", METHODS)
def test_mapped_starts_lead_to_the_same_kernel(cancer, method):
    start = np.random.default_rng(4).random(20)
    learn_twice(*cancer, method, C=10.0, start=start)


@pytest.mark.parametrize("method", METHODS)
def test_the_start_is_the_mean_of_kernels_of_equal_trace(cancer, method):
    K, y = cancer  # of unit trace
    other, _ = scaled(K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = learn(other, y, C=10.0, learner=Radius(method), tol=1e-3, max_iter=2)
    uniform = theory.rkl(K, y, np.ones(20), C=10.0)
    assert found.history["objective"][0] == pytest.approx(uniform, rel=0.02)
    assert found.objective < 0.98 * uniform


def test_norms_lead_to_the_same_kernel(cancer):
    K, y = cancer
    found = [learn(K, y, C=1.0, learner="radius", weight_norm=p, tol=5e-9) for p in NORMS]
    for solution in found:
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(found[0].objective, rel=1e-8)
        aligned = alignment(combined(K, solution.weights), combined(K, found[0].weights))
        assert aligned >= 1 - 1e-6
    assert found[0].weights.sum() == pytest.approx(1.0)
    assert np.linalg.norm(found[1].weights) == pytest.approx(1.0)
    assert found[2].extras["radius"] == pytest.approx(1.0)


def test_the_machine_goes_with_its_weights(cancer):
    K, y = cancer
    for norm in NORMS:
        solution = learn(K, y, C=1.0, learner="radius", weight_norm=norm, tol=1e-4)
        matrix = combined(K, solution.weights)
        radius2 = enclosing_ball(matrix, tol=1e-10).radius2
        assert solution.extras["radius"] ** 2 == pytest.approx(radius2, rel=1e-4)
        f = matrix @ solution.coef + solution.bias
        energy = radius2 * solution.coef @ matrix @ solution.coef
        value = 0.5 * energy + np.maximum(1 - y * f, 0.0).sum()
        assert value == pytest.approx(solution.objective, rel=1e-4)


# --- optimality ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("problem", awkward(), ids=repr)
def test_certificate_holds_for_the_data(problem, loss):
    K, y, C = problem.K, problem.y, problem.C
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = learn(K, y, C=C, learner="radius", loss=loss, tol=1e-5, max_iter=200)
    judged = theory.radius_gap(
        K, y, solution.weights, solution.coef, solution.bias,
        C=C, dual_alpha=solution.dual_alpha, center=solution.extras["center"], loss=loss,
    )  # fmt: skip
    assert solution.status == "optimal"
    assert judged.primal <= solution.primal * (1 + 1e-7)
    assert judged.gap <= solution.gap + 1e-7
    rng = np.random.default_rng(0)
    for _ in range(5):  # no weights do better than the bound
        theta = rng.random(len(K)) ** 4
        assert theory.rkl(K, y, theta, C=C, loss=loss) >= solution.dual * (1 - 1e-7)


def conic_optimum(K: np.ndarray, y: np.ndarray, C: float) -> float:
    """min J(θ) s.t. R²(θ) ≤ 1 by a conic solver, whose points are β-free: ‖φ_i − c‖² ≤ 1.

    R²(θ) ≤ 1 iff for some γ_m: Σ_m ‖√θ_m φ_m,i − γ_m‖² ≤ 1; with γ_m = √θ_m z_m it is
    Σ_m θ_m ‖φ_m,i − z_m‖², and with u_m = θ_m z_m jointly convex in (θ, u).
    """
    factors = [factor(matrix) for matrix in K]
    theta = cp.Variable(len(K), nonneg=True)
    w = [cp.Variable(F.shape[1]) for F in factors]
    u = [cp.Variable(F.shape[1]) for F in factors]
    b, xi = cp.Variable(), cp.Variable(y.size, nonneg=True)
    f = sum(F @ part for F, part in zip(factors, w, strict=True))
    limits = [cp.multiply(y, f + b) >= 1 - xi]
    for i in range(y.size):
        inside = sum(
            theta[m] * float(F[i] @ F[i]) - 2 * F[i] @ u[m] + cp.quad_over_lin(u[m], theta[m])
            for m, F in enumerate(factors)
        )
        limits.append(inside <= 1)
    energy = sum(cp.quad_over_lin(part, theta[m]) for m, part in enumerate(w))
    return solve(cp.Problem(cp.Minimize(0.5 * energy + C * cp.sum(xi)), limits))


@pytest.mark.parametrize("seed", range(3))
def test_optimum_is_global(seed):
    problem = dense(seed, n=20, m=3, C=1.0)
    solution = learn(problem.K, problem.y, C=1.0, learner="radius", tol=1e-7)
    assert solution.status == "optimal"
    value = conic_optimum(problem.K, problem.y, 1.0)
    assert solution.objective == pytest.approx(value, rel=1e-5)


# --- the algorithm of §5 alone ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_the_published_algorithm_finds_the_optimum_or_says_that_it_stopped(seed):
    make = (dense, rank_one, coarse)[seed % 3]
    problem = make(seed, n=14)
    K, y, C = problem.K[:4], problem.y, (0.1, 1.0, 10.0, 100.0)[seed % 4]
    best = conic_optimum(K, y, C)
    for norm in NORMS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = learn(K, y, C=C, learner=Radius(finish=False), weight_norm=norm, tol=1e-4)
        assert set(found.history["by"]) == {"gradient"}
        assert np.all(np.diff(found.history["objective"]) <= 0.0)
        assert found.dual <= best * (1 + 1e-6) and found.primal >= best * (1 - 1e-6)
        if found.status == "optimal":
            assert found.objective == pytest.approx(best, rel=1e-4)
        else:
            assert found.status in ("stopped", "max_iter") and found.gap > 1e-4


def test_the_published_algorithm_begins_with_equal_weights_of_the_kernels_as_they_are(cancer):
    K, _ = scaled(cancer[0])
    for norm in NORMS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = learn(K, cancer[1], learner=Radius(finish=False), weight_norm=norm, max_iter=1)
        assert found.weights == pytest.approx(np.full(20, found.weights[0]))


def test_the_published_steps_are_projections_that_armijo_accepts():
    """On a quadratic in the plane, where the arc can be followed by hand."""
    seen = []

    def evaluate(x):
        seen.append(x)
        return SimpleNamespace(value=float(x @ x - x[0]), gradient=2.0 * x - [1.0, 0.0])

    simplex = Simplex(np.ones(2))
    path = [
        x for x, _ in projected_gradient(evaluate, simplex.project, np.ones(2), 1e-9, plain=True)
    ]
    # from (½, ½) along −(0, 1) by ½ to (½, 0), which is projected to (¾, ¼): the minimum
    np.testing.assert_allclose(path, [[0.5, 0.5], [0.75, 0.25]])
    assert len(seen) == 2


def test_gradient_method_agrees_and_is_quick(cancer):
    K, y = cancer
    evaluations = []
    for C in (0.01, 0.1, 1.0, 10.0, 100.0):
        best = learn(K, y, C=C, learner="radius", tol=1e-6)
        for norm in NORMS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                plain = learn(
                    K, y, C=C, learner=Radius("gradient"), weight_norm=norm, tol=1e-4, max_iter=200
                )
            history = plain.history
            assert np.all(np.diff(history["objective"]) <= 1e-9 * plain.objective)
            assert best.objective <= plain.objective * (1 + 1e-6)
            close = np.flatnonzero(history["objective"] <= best.objective * (1 + 1e-3))
            evaluations.append(history["n_svm_solves"][close[0]])
    assert np.mean(evaluations) <= 24


def test_a_fit_can_be_continued(cancer):
    K, y = cancer
    for tol in (1e-2, 1e-4, 1e-6):
        first = learn(K, y, C=1.0, learner="radius", tol=tol)
        again = learn(K, y, C=1.0, learner="radius", tol=tol, start=first)
        assert again.gap <= tol
        assert again.n_svm_solves <= 2


def test_hard_margin():
    """½R²‖w‖² with no slack: the criterion of which eq. 10 is the soft version."""
    problem = separable(0)
    solution = learn(problem.K, problem.y, C=np.inf, learner="radius", tol=1e-5)
    assert solution.status == "optimal"
    f = combined(problem.K, solution.weights) @ solution.coef + solution.bias
    assert (problem.y * f).min() >= 1 - 1e-9
    soft = learn(problem.K, problem.y, C=1e8, learner="radius", tol=1e-5)
    assert solution.objective == pytest.approx(soft.objective, rel=3e-5)


def test_path_over_C(cancer):
    K, y = cancer
    Cs = [0.1, 1.0, 10.0]
    for C, solution in zip(Cs, regularization_path(K, y, Cs, learner="radius"), strict=True):
        alone = learn(K, y, C=C, learner="radius")
        assert solution.objective == pytest.approx(alone.objective, rel=1.01e-3)


def test_a_trace_constraint_changes_the_weights_only(cancer):
    K, y = cancer
    other, _ = scaled(K)
    plain = learn(other, y, learner="radius", tol=1e-6)
    traced = learn(other, y, learner="radius", tol=1e-6, trace=5.0)
    assert traced.objective == pytest.approx(plain.objective, rel=1e-5)
    assert traced.weights @ np.trace(other, axis1=1, axis2=2) == pytest.approx(5.0)


def test_kernels_that_tell_nothing_apart_get_no_weight():
    problem = dense(0)
    n = len(problem.y)
    K = np.concatenate([problem.K, np.zeros((1, n, n)), np.ones((1, n, n))])
    for C in (1.0, 1e4):
        solution = learn(K, problem.y, C=C, learner="radius", tol=1e-5)
        alone = learn(problem.K, problem.y, C=C, learner="radius", tol=1e-5)
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(alone.objective, rel=2e-5)
        assert solution.weights[-2] == 0.0
    with pytest.raises(ValueError, match="coincide"):
        learn(np.ones((1, n, n)), problem.y, learner="radius")


def test_refusals():
    problem = dense(0)
    with pytest.raises(ValueError, match="weight_norm=None needs learner='radius'"):
        learn(problem.K, problem.y, weight_norm=None)
    with pytest.raises(ValueError, match="method"):
        learn(problem.K, problem.y, learner=Radius("magic"))
    with pytest.raises(ValueError, match="weight_norm=1 or 2"):
        learn(problem.K, problem.y, learner="radius_bound", weight_norm=3)
    with pytest.raises(ValueError, match="margin criterion"):
        learn(problem.K, problem.y, C="learn", loss="squared_hinge", learner="radius")


@pytest.mark.parametrize("norm", NORMS)
def test_estimator_has_a_radius(norm):
    X, y = load_breast_cancer(return_X_y=True)
    model = MKLClassifier(learner="radius", weight_norm=norm).fit(X[:200], y[:200])
    assert model.radius_ > 0.0
    assert model.duality_gap_ <= 1e-3
    assert model.score(X[200:], y[200:]) > 0.9


# --- the bound as objective: KL-C ---------------------------------------------------------------


@pytest.mark.parametrize("ridge_in_ball", [False, True])
@pytest.mark.parametrize("norm", [1, 2])
def test_radius_bound_is_stationary(cancer, norm, ridge_in_ball):
    K, y = cancer
    K = K[[2, 4, 6, 10, 11]] * len(y)
    options = {"C": 10.0, "loss": "squared_hinge", "weight_norm": norm}
    solution = learn(K, y, learner=RadiusBound(ridge_in_ball), tol=2e-4, **options)

    def value(theta):
        return theory.kl_c(K, y, theta, C=10.0, ridge_in_ball=ridge_in_ball)

    here = value(solution.weights)
    assert here == pytest.approx(solution.objective, rel=1e-5)
    assert np.all(np.diff(solution.history["objective"]) <= 0.0)
    for direction in np.eye(5):  # no small step towards a kernel brings much
        for length in (1e-3, 1e-2):
            theta = solution.weights + length * direction
            assert value(theta / np.linalg.norm(theta, norm)) >= here * (1 - 1e-3 * length - 1e-6)


def test_radius_bound_shrinks_with_the_kernels(cancer):
    """The scaling problem of eq. 10: smaller kernels are always better."""
    K, y = cancer
    theta = np.full(len(K), 0.05)
    values = [theory.kl_c(K, y, a * theta, C=1.0) for a in (1.0, 0.1, 0.01)]
    assert values[0] > values[1] > values[2]


# --- reference objectives -----------------------------------------------------------------------


def test_margin_and_radius_against_a_conic_solver():
    problem = dense(1, n=20, m=3)
    theta = np.array([0.5, 0.2, 0.3])
    radii = [enclosing_ball(matrix, tol=1e-10).radius2 for matrix in problem.K]
    factors = [factor(matrix) for matrix in problem.K]
    w = [cp.Variable(F.shape[1]) for F in factors]
    b, xi = cp.Variable(), cp.Variable(20, nonneg=True)
    f = sum(F @ part for F, part in zip(factors, w, strict=True))
    energy = sum(cp.sum_squares(part) / t for part, t in zip(w, theta, strict=True))
    cost = 0.5 * energy + 3.0 / float(theta @ radii) * cp.sum_squares(xi)
    limits = [cp.multiply(problem.y, f + b) >= 1 - xi]
    value = solve(cp.Problem(cp.Minimize(cost), limits))
    assert theory.margin_and_radius(problem.K, problem.y, theta, C=3.0) == pytest.approx(
        value, rel=1e-5
    )


def test_proposition_4(cancer):
    """The learned weights minimize the convex problem (23) at their own C₁ and C₂."""
    K, y = cancer
    K = K[[1, 3, 5, 10]] * len(y)
    solution = learn(K, y, C=1.0, learner="radius", tol=1e-9)
    C1, C2 = theory.penalized_radius_constants(K, y, solution.weights, C=1.0)
    here = theory.penalized_radius(K, y, solution.weights, C1=C1, C2=C2)
    found = theory.minimize_penalized_radius(K, y, C1=C1, C2=C2, tol=1e-7, max_iter=3000)
    best = theory.penalized_radius(K, y, found, C1=C1, C2=C2)
    assert here == pytest.approx(best, rel=1e-5)
    for seed in range(5):
        theta = np.random.default_rng(seed).random(4) * solution.weights.sum()
        assert theory.penalized_radius(K, y, theta, C1=C1, C2=C2) >= here * (1 - 1e-6)


def test_estimation_error_bound():
    n, ratio, d = 1e9, 4.0, 20
    inside = 2 + d * math.log(128 * math.e * n**3 * ratio / d) - math.log(0.05)
    inside += 256 * ratio * math.log(math.e * n / 16) * math.log(128 * n * ratio)
    assert theory.estimation_error_bound(n, 0.5, 1.0, d, 0.05) == pytest.approx(
        math.sqrt(8 / n * inside)
    )
    assert theory.estimation_error_bound(1000, 0.1, 1.0, 20, 0.05) > 1.0
    with pytest.raises(ValueError, match="positive"):
        theory.estimation_error_bound(10, 0.0, 1.0, 1, 0.5)


def test_a_step_is_judged_by_what_it_knew():
    """Time may run out between two steps, when the bundle knows of a later center."""
    problem = dense(0)
    inner = make_problem(KernelStack(problem.K), problem.y, 10.0, weight_norm=None)
    evaluator = Evaluator(inner, Progress(inner))
    steps = Radius().iterate(
        evaluator, Incumbent(evaluator.first_bound()), np.ones(len(problem.K)), 1e-6
    )
    first = next(steps)
    told = first.certify(False)[1].value
    for _ in range(4):
        next(steps)
    assert first.certify(False)[1].value == told > 0.0
