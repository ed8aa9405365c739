"""The regularized dual: its parts against a conic solver, its gradient against differences."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import dense, factor, far_scaled, solve

from kernelweave.papers.bach2004._moreau_yosida import Regularized, regularize


def draw(seed: int, m: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes θ, and parameters a and d of their own for each kernel."""
    rng = np.random.default_rng(seed)
    return 10.0 ** rng.uniform(-1, 1, m), 10.0 ** rng.uniform(-2, 0.5, m), rng.uniform(0.2, 3.0, m)


def by_conic_solver(sizes: np.ndarray, a: np.ndarray, d: np.ndarray) -> float:
    """The minimum over γ and μ as appendix B states it."""
    gamma, mu = cp.Variable(nonneg=True), cp.Variable(sizes.size)
    value = 0.5 * cp.square(gamma) + 0.5 * cp.sum_squares(cp.multiply(1 / a, mu - gamma * d))
    return solve(cp.Problem(cp.Minimize(value), [mu >= sizes]))


def at(K: np.ndarray, v: np.ndarray, a: np.ndarray, d: np.ndarray) -> Regularized:
    return regularize(np.sqrt(np.einsum("i,kij,j->k", v, K, v)), a, d)


@pytest.mark.parametrize("seed", range(8))
def test_minimum_is_that_of_the_conic_form(seed: int) -> None:
    sizes, a, d = draw(seed)
    found = regularize(sizes, a, d)
    assert found.value == pytest.approx(by_conic_solver(sizes, a, d), rel=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_gamma_and_mu_attain_it(seed: int) -> None:
    """μ_j = γd_j where θ_j is below it; with the 0 of figure 3 the value would not be reached."""
    sizes, a, d = draw(seed)
    found = regularize(sizes, a, d)
    assert (found.mu >= sizes).all() and found.gamma > 0.0
    value = 0.5 * found.gamma**2 + 0.5 * (((found.mu - found.gamma * d) / a) ** 2).sum()
    assert value == pytest.approx(found.value, rel=1e-14)
    low = sizes < found.gamma * d
    assert low.any() and (found.mu[low] == found.gamma * d[low]).all()
    # the derivative in γ vanishes [bach2004, eq. 2]
    pull = (d / a**2 * np.maximum(sizes - found.gamma * d, 0.0)).sum()
    assert found.gamma == pytest.approx(pull, rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_both_kinds_of_weights(seed: int) -> None:
    sizes, a, d = draw(seed)
    found = regularize(sizes, a, d)
    assert d**2 @ found.eta_tilde == pytest.approx(1.0, rel=1e-12)
    assert found.eta_tilde == pytest.approx(found.eta / (1.0 - a**2 * found.eta), rel=1e-10)
    assert (found.eta <= found.eta_tilde).all()
    difference = np.abs(found.eta - found.eta_tilde)  # [bach2004, eq. 1]
    assert difference == pytest.approx(a**2 * found.eta * found.eta_tilde, rel=1e-8, abs=1e-13)
    assert (difference <= a**2 * found.eta_tilde / d**2 * (1 + 1e-12)).all()


@pytest.mark.parametrize("make", [dense, far_scaled])
@pytest.mark.parametrize("size", [1.0, 0.1, 0.01])
def test_gradient_by_finite_differences(make, size: float) -> None:
    problem = make(0)
    n, m = problem.y.size, len(problem.K)
    rng = np.random.default_rng(1)
    scale = np.sqrt(np.trace(problem.K, axis1=1, axis2=2) / n)
    a, d = size * scale * rng.uniform(0.5, 2.0, m), scale * rng.uniform(0.5, 2.0, m)
    v = problem.y * rng.uniform(0.0, 1.0, n)
    eta = at(problem.K, v, a, d).eta
    gradient = np.einsum("k,kij,j->i", eta, problem.K, v)
    for direction in rng.standard_normal((5, n)):
        step = 1e-5 * direction
        rise = at(problem.K, v + step, a, d).value - at(problem.K, v - step, a, d).value
        slope = gradient @ direction
        noise = 1e-4 * np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert rise / 2e-5 == pytest.approx(slope, rel=1e-4, abs=noise)


def test_limits() -> None:
    sizes, _, d = draw(3)
    # little regularization: the largest γ_j decides
    small = regularize(sizes, np.full(6, 1e-7), d)
    assert small.value == pytest.approx(0.5 * ((sizes / d) ** 2).max(), rel=1e-10)
    assert np.count_nonzero(small.eta) == 1
    # d = 0: the SVM on the sum of the kernels
    a = np.linspace(0.5, 2.0, 6)
    plain = regularize(sizes, a, np.zeros(6))
    assert plain.gamma == 0.0 and plain.eta == pytest.approx(1 / a**2, rel=1e-15)
    assert plain.value == pytest.approx(0.5 * ((sizes / a) ** 2).sum(), rel=1e-15)
    # nothing at all
    nothing = regularize(np.zeros(6), a, d)
    assert nothing.value == nothing.gamma == 0.0 and not nothing.eta.any()


def test_equal_kernels_share_their_weight() -> None:
    found = regularize(np.array([2.0, 2.0, 1.0]), np.full(3, 0.1), np.ones(3))
    assert found.eta[0] == found.eta[1] > 0.0 == found.eta[2]
    assert found.eta_tilde == pytest.approx([0.5, 0.5, 0.0], rel=1e-12)


@pytest.mark.parametrize("size", [0.5, 0.05])
def test_whole_dual_is_that_of_the_regularized_primal(size: float) -> None:
    """min over α of G by a conic solver equals minus the optimum of problem (R)."""
    problem = dense(2, n=16, m=4)
    y, n, m = problem.y, 16, 4
    F = [factor(K) for K in problem.K]
    a, d = size * np.linspace(0.8, 1.3, m), np.linspace(1.2, 0.7, m)
    w = [cp.Variable(part.shape[1]) for part in F]
    b, xi, t = cp.Variable(), cp.Variable(n, nonneg=True), cp.Variable(m)
    f = sum(part @ x for part, x in zip(F, w, strict=True))
    limits = [cp.multiply(y, f + b) >= 1 - xi, *(cp.norm(x) <= t[k] for k, x in enumerate(w))]
    cost = 0.5 * cp.square(d @ t) + 0.5 * cp.sum_squares(cp.multiply(a, t)) + cp.sum(xi)
    primal = solve(cp.Problem(cp.Minimize(cost), limits))

    alpha, gamma, mu = cp.Variable(n), cp.Variable(nonneg=True), cp.Variable(m)
    limits = [alpha >= 0, alpha <= 1, y @ alpha == 0]
    limits += [cp.norm(part.T @ cp.multiply(y, alpha)) <= mu[k] for k, part in enumerate(F)]
    value = 0.5 * cp.square(gamma) - cp.sum(alpha)
    value += 0.5 * cp.sum_squares(cp.multiply(1 / a, mu - gamma * d))
    dual = solve(cp.Problem(cp.Minimize(value), limits))
    assert -dual == pytest.approx(primal, rel=1e-5)
    found = at(problem.K, y * alpha.value, a, d)
    assert found.value - alpha.value.sum() == pytest.approx(dual, rel=1e-5)
