"""The criterion of Do et al.: against a conic solver, its own function, and its certificate."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import awkward, coarse, dense, factor, rank_one, solve
from sklearn.datasets import load_breast_cancer

from kernelweave import KernelStack, MKLClassifier, enclosing_ball, learn
from kernelweave.papers import gai2010 as theory
from kernelweave.papers.gai2010._ridged import Ridged
from kernelweave.papers.gai2010.sum_of_radii import MarginAndRadius


def conic_optimum(K: np.ndarray, y: np.ndarray, C: float) -> float:
    """The primal itself, jointly convex in weights, w, b and ξ."""
    factors = [factor(matrix) for matrix in K]
    radii = np.array([enclosing_ball(matrix, tol=1e-10).radius2 for matrix in K])
    theta = cp.Variable(len(K), nonneg=True)
    w = [cp.Variable(F.shape[1]) for F in factors]
    b, xi, parts = cp.Variable(), cp.Variable(y.size, nonneg=True), cp.Variable(len(K))
    f = sum(F @ part for F, part in zip(factors, w, strict=True))
    limits = [cp.quad_over_lin(part, theta[m]) <= parts[m] for m, part in enumerate(w)]
    limits += [cp.multiply(y, f + b) >= 1 - xi, cp.sum(theta) == 1]
    value = 0.5 * cp.sum(parts) + C * cp.quad_over_lin(xi, radii @ theta)
    return solve(cp.Problem(cp.Minimize(value), limits))


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_a_conic_solver(seed):
    make = (dense, rank_one, coarse)[seed % 3]
    problem = make(seed, n=16)
    K, y, C = problem.K[:4], problem.y, (0.1, 1.0, 10.0, 100.0)[seed % 4]
    best = conic_optimum(K, y, C)
    found = learn(K, y, C=C, learner="margin_and_radius", loss="squared_hinge", tol=1e-5)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(best, rel=1e-4)
    assert found.dual <= best * (1 + 1e-6)
    assert found.weights.sum() == pytest.approx(1.0)
    at_weights = theory.margin_and_radius(K, y, found.weights, C=C)
    assert found.objective == pytest.approx(at_weights, rel=2e-5)


@pytest.mark.parametrize("problem", awkward(), ids=repr)
def test_the_certificate_holds_for_the_data(problem):
    K, y = problem.K, problem.y
    found = learn(K, y, C=problem.C, learner="margin_and_radius", loss="squared_hinge", tol=1e-5)
    judged = found.certificate()
    assert found.status == "optimal"
    assert judged.gap <= 1e-5
    assert judged.primal == pytest.approx(found.primal, rel=1e-8)
    f = np.tensordot(found.weights, K, axes=1) @ found.coef + found.bias
    energy = 0.5 * found.coef @ (f - found.bias)
    cost = problem.C / (found.weights @ found.extras["radii"] ** 2)
    slacks = np.maximum(1.0 - y * f, 0.0)
    assert energy + cost * slacks @ slacks == pytest.approx(found.primal, rel=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(3):  # no weights do better than the bound
        theta = rng.random(len(K)) ** 4
        value = theory.margin_and_radius(K, y, theta / theta.sum(), C=problem.C)
        assert value >= found.dual * (1 - 1e-7)


def test_kernels_of_equal_radius_give_the_margin_criterion():
    problem = dense(3)
    radii = [enclosing_ball(matrix, tol=1e-11).radius2 for matrix in problem.K]
    K = problem.K / np.array(radii)[:, None, None]
    options = {"loss": "squared_hinge", "tol": 1e-7}
    found = learn(K, problem.y, C=3.0, learner="margin_and_radius", **options)
    plain = learn(K, problem.y, C=6.0, **options)  # C/1·Σξ² = (2C/2)Σξ²
    assert found.objective == pytest.approx(plain.objective, rel=1e-6)


def test_smaller_kernels_are_never_better():
    """It falls for ever as weights grow; with Σθ = 1, as kernels grow."""
    problem = dense(1)
    options = {"learner": "margin_and_radius", "loss": "squared_hinge", "tol": 1e-6}
    values = [learn(t * problem.K, problem.y, **options).objective for t in (0.1, 1.0, 10.0)]
    assert values[0] == pytest.approx(10.0 * values[1], rel=1e-5)
    assert values[1] == pytest.approx(10.0 * values[2], rel=1e-5)


def test_other_norms_and_traces():
    problem = dense(2)
    options = {"learner": "margin_and_radius", "loss": "squared_hinge", "tol": 1e-5}
    for more in ({"weight_norm": 2}, {"trace": 7.0}):
        found = learn(problem.K, problem.y, **options, **more)
        assert found.status == "optimal" and found.certificate().gap <= 1e-5
        value = theory.margin_and_radius(problem.K, problem.y, found.weights, C=1.0)
        assert found.objective == pytest.approx(value, rel=2e-5)


def test_kernels_that_tell_nothing_apart_change_nothing():
    problem = dense(0)
    n = len(problem.y)
    K = np.concatenate([problem.K, np.ones((1, n, n)), np.zeros((1, n, n))])
    options = {"learner": "margin_and_radius", "loss": "squared_hinge", "tol": 1e-6}
    found, alone = learn(K, problem.y, **options), learn(problem.K, problem.y, **options)
    assert found.objective == pytest.approx(alone.objective, rel=2e-6)
    with pytest.raises(ValueError, match="coincide"):
        learn(np.ones((1, n, n)), problem.y, **options)


def test_refusals():
    problem = dense(0)
    learner = MarginAndRadius()
    with pytest.raises(ValueError, match=r"MarginAndRadius\(\) needs loss='squared_hinge'"):
        learn(problem.K, problem.y, learner=learner)
    for more in ({"ridge": 0.1}, {"C": np.ones(30)}):
        options = {"loss": "squared_hinge", "learner": learner, **more}
        with pytest.raises(ValueError, match="margin_and_radius"):
            learn(problem.K, problem.y, **options)
    with pytest.raises(ValueError, match="sample_weight"):
        learn(
            problem.K, problem.y, learner=learner, loss="squared_hinge", sample_weight=np.ones(30)
        )


def test_a_fit_that_ends_at_once_is_certified():
    problem = dense(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = learn(
            problem.K, problem.y, learner="margin_and_radius", loss="squared_hinge", max_time=1e-9
        )
    assert found.status == "max_time"
    assert np.isfinite(found.primal) and found.dual >= 0.0


def test_in_an_estimator():
    X, y = load_breast_cancer(return_X_y=True)
    model = MKLClassifier(learner="margin_and_radius", loss="squared_hinge").fit(X[:150], y[:150])
    assert model.duality_gap_ <= 1e-3
    assert model.score(X[150:], y[150:]) > 0.9


def test_kernels_with_a_ridge_are_what_they_say():
    problem = dense(4, n=9, m=3)
    stack, ridges = KernelStack(problem.K), np.array([0.5, 0.0, 2.0])
    view = Ridged(stack, ridges)
    whole = problem.K + ridges[:, None, None] * np.eye(9)
    v, rows, some = np.linspace(-1.0, 1.0, 9), np.array([0, 4]), np.array([2, 0])
    np.testing.assert_allclose(view.block(2, rows, np.arange(9)), whole[2][rows])
    np.testing.assert_allclose(view.diagonals(), np.diagonal(whole, axis1=1, axis2=2))
    np.testing.assert_allclose(view.matvecs(v, rows, some), (whole @ v)[np.ix_(some, rows)])
    np.testing.assert_allclose(view.quad_forms(v), v @ whole @ v)
    np.testing.assert_allclose(
        view.combined([1.0, 2.0, 3.0]).dense(), np.tensordot([1.0, 2.0, 3.0], whole, axes=1)
    )
    fine = view.fine_product(0, rows, rows, v[rows].astype(np.longdouble))
    np.testing.assert_allclose(fine.astype(float), whole[0][np.ix_(rows, rows)] @ v[rows])
