"""HessianMKL as published: its step, its descent, and what it says on a kink."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from _helpers.references import coarse, dense, qcqp_optimum
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from kernelweave import Solution, learn
from kernelweave.learners import Hessian


def at(K: np.ndarray, y: np.ndarray, e: np.ndarray) -> Solution:
    return learn(np.tensordot(e, K, 1)[None], y, C=10.0, learner="uniform", tol=1e-12)


def smooth(seed: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    problem = dense(seed, n=30, m=m)
    return problem.K + 0.2 * np.eye(30), problem.y


def test_a_step_is_the_constrained_newton_step() -> None:
    """g and H by differences, the quadratic program by a general solver [chapelle2008, (4)]."""
    K, y = smooth(2, m=4)
    with pytest.warns(ConvergenceWarning):
        found = learn(K, y, C=10.0, learner=Hessian(), tol=1e-8, max_iter=2)
    e, after = found.history["weights"]
    h = 1e-4

    def gradient(weights: np.ndarray) -> np.ndarray:
        v = at(K, y, weights).coef
        return -0.5 * np.array([v @ k @ v for k in K])

    g = gradient(e)
    along = np.eye(4) - 0.25  # directions that keep the sum of the weights
    H = np.array([(gradient(e + h * u) - gradient(e - h * u)) / (2 * h) for u in along])
    H = H @ along  # on these; off them the step does not go
    best = minimize(
        lambda s: 0.5 * s @ H @ s + g @ s,
        np.zeros(4),
        jac=lambda s: H @ s + g,
        bounds=[(-x, None) for x in e],
        constraints={"type": "eq", "fun": np.sum},
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    assert after == pytest.approx(e + best.x, abs=2e-3 * np.abs(best.x).max())


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_it_gets_there_where_j_is_smooth(seed: int, mixed: bool) -> None:
    K, y = smooth(seed, m=10)
    found = learn(K, y, C=10.0, learner=Hessian(mixed=mixed), tol=1e-6)
    best = qcqp_optimum(K, y, 10.0)
    assert found.status == "optimal" and found.primal == pytest.approx(best, rel=4e-6)
    assert found.n_iter <= 15  # of the order of the paper's ten steps
    made = {"hessian", "simple"} if mixed else {"hessian"}
    assert set(found.history["by"]) == made


@pytest.mark.parametrize("seed", [0, 2, 5, 8])
def test_machines_are_solved_better_where_their_values_tell_nothing(seed: int) -> None:
    """J is smooth here: the squared hinge and Gaussian kernels. It stopped at gaps of 1e-6."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=60) > 0.8, 1.0, -1.0)
    apart = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = np.stack([np.exp(-apart / (2 * width**2)) for width in (0.3, 0.6, 1, 2, 3, 10)])
    found = learn(K, y, C=1.0, learner="hessian", loss="squared_hinge", tol=1e-6)
    assert found.status == "optimal" and found.gap <= 1e-6


def test_it_says_where_a_kink_stops_it() -> None:
    """Which of these problems do is for rounding to say; that some do is not."""
    stopped = []
    for seed in (5, 22, 24, 39):
        problem = coarse(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = learn(problem.K, problem.y, C=1.0, learner="hessian", tol=1e-6)
        assert found.status == ("optimal" if found.gap <= 1e-6 else "stopped")
        told = [str(warning.message) for warning in caught]
        assert any("'stopped'" in text for text in told) == (found.gap > 1e-6), told
        if found.status == "stopped":
            stopped.append(seed)
            best = qcqp_optimum(problem.K, problem.y, 1.0)
            assert found.dual <= best * (1 + 1e-6) and found.primal >= best * (1 - 1e-6)
    assert stopped
