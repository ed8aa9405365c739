"""EasyMKL: the program of the paper by a conic solver, its ends, its invariances, its errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import (
    Problem,
    coarse,
    dense,
    duplicate,
    factor,
    gram,
    labels,
    rank_one,
    separable,
    single,
    solve,
    wide,
    with_zero,
)
from sklearn.svm import SVC

from kernelweave import MKLClassifier, learn
from kernelweave.learners import EasyMKL
from kernelweave.learners.easy import nearest

PROBLEMS = [
    dense(0),
    dense(2, m=12),
    rank_one(0),
    coarse(3),
    duplicate(1),
    wide(1),
    with_zero(0),
    single(0),
]


def by_cones(problem: Problem, lam: float) -> tuple[float, np.ndarray]:
    """The least value of the program, and γᵀYK_mYγ there; γ is unique for λ > 0."""
    y, total = problem.y, problem.K.sum(axis=0)
    gamma = cp.Variable(y.size, nonneg=True)
    value = (1 - lam) * cp.sum_squares((factor(total) * y[:, None]).T @ gamma)
    value = value + lam * cp.sum_squares(gamma)
    limits = [cp.sum(gamma[y > 0]) == 1, cp.sum(gamma[y < 0]) == 1]
    best = solve(cp.Problem(cp.Minimize(value), limits))
    side = y * gamma.value
    return best, np.array([side @ K @ side for K in problem.K])


@pytest.mark.parametrize("lam", [0.1, 0.7])
@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_the_program_of_the_paper(problem: Problem, lam: float) -> None:
    found = learn(problem.K, problem.y, learner=EasyMKL(lam), tol=1e-6)
    best, distances = by_cones(problem, lam)
    assert found.extras["distance"] == pytest.approx(best, rel=1e-5)
    np.testing.assert_allclose(
        found.extras["distances"], distances, rtol=1e-3, atol=1e-5 * distances.max()
    )
    np.testing.assert_allclose(found.weights, distances / distances.sum(), atol=1e-3)
    assert found.status == "optimal" and found.extras["stationarity"] <= 1e-6


def test_the_mean_of_the_classes() -> None:
    """λ = 1: distances between means, whatever the kernels have to say of single rows."""
    problem = dense(5)
    y = problem.y
    side = np.where(y > 0, 1.0 / (y > 0).sum(), -1.0 / (y < 0).sum())
    expected = np.array([side @ K @ side for K in problem.K])
    found = learn(problem.K, y, learner=EasyMKL(1))
    np.testing.assert_allclose(found.extras["distances"], expected, rtol=1e-9)


def test_the_nearest_points_of_the_hulls() -> None:
    """λ = 0: the hard margin of the sum of kernels, whose width² is the sum of distances."""
    problem = separable(1)
    found = learn(problem.K, problem.y, learner=EasyMKL(0.0), tol=1e-6)
    machine = SVC(kernel="precomputed", C=1e9, tol=1e-8).fit(problem.K.sum(axis=0), problem.y)
    alpha = np.abs(machine.dual_coef_).sum()
    assert found.extras["distances"].sum() == pytest.approx(4.0 / alpha, rel=1e-4)


@pytest.mark.parametrize("power", [20, 46, 90])
def test_large_kernels_leave_λ_no_say(power: int) -> None:
    problem = separable(1)
    s = 2.0**power
    found = learn(s * problem.K, problem.y, learner=EasyMKL(0.1), C=1.0 / s, tol=1e-6).extras
    hulls = learn(problem.K, problem.y, learner=EasyMKL(0.0), tol=1e-6).extras
    np.testing.assert_allclose(found["distances"] / s, hulls["distances"], rtol=1e-4)


def test_large_kernels_that_do_not_separate() -> None:
    problem = rank_one(4, m=3)
    found = learn(2.0**48 * problem.K, problem.y, learner=EasyMKL(0.1), C=2.0**-48)
    assert found.status == "optimal"
    assert np.isfinite(found.weights).all()
    assert np.isfinite(found.extras["distance"])


@pytest.mark.parametrize("problem", [rank_one(4, m=8), duplicate(3), wide(2)], ids=repr)
def test_the_value_of_the_program_is_certified(problem: Problem) -> None:
    best, _ = by_cones(problem, 0.3)
    for tol in (0.5, 0.1, 1e-2, 1e-4):
        found = learn(problem.K, problem.y, learner=EasyMKL(0.3), tol=tol).extras
        assert found["stationarity"] <= tol
        least = found["distance"] / (1.0 + found["stationarity"])
        assert least * (1 - 1e-6) <= best <= found["distance"] * (1 + 1e-6)


def test_the_machine_is_that_of_its_weights() -> None:
    problem = dense(3, C=5.0)
    found = learn(problem.K, problem.y, 5.0, learner="easy", tol=1e-6)
    K = np.tensordot(found.weights, problem.K, axes=1)
    alone = learn(K[None], problem.y, 5.0, tol=1e-6)
    assert found.primal == pytest.approx(alone.primal, rel=3e-6)
    assert found.certificate().gap <= 1e-6
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_it_does_not_see_C_the_loss_or_the_order() -> None:
    problem = dense(1)
    one = learn(problem.K, problem.y, learner="easy", tol=1e-6)
    other = learn(problem.K, problem.y, 7.0, learner="easy", loss="squared_hinge", tol=1e-6)
    turned = learn(problem.K[::-1], -problem.y, learner="easy", tol=1e-6)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)
    np.testing.assert_allclose(one.weights, turned.weights[::-1], atol=1e-5)


@pytest.mark.parametrize("norm", [2, 4 / 3, np.inf])
def test_weights_have_the_norm_asked_for(norm: float) -> None:
    problem = dense(1)
    plain = learn(problem.K, problem.y, learner="easy")
    found = learn(problem.K, problem.y, learner="easy", weight_norm=norm)
    assert np.linalg.norm(found.weights, norm) == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(found.weights / found.weights.sum(), plain.weights, atol=1e-6)


def test_several_machines_add_up_their_distances() -> None:
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 30)
    K = np.stack([gram(rng.standard_normal((30, 4)) + classes[:, None] * k) for k in range(4)])
    Y = np.where(classes[:, None] == np.arange(3), 1.0, -1.0)
    each = [learn(K, y, learner="easy", tol=1e-6) for y in Y.T]
    together = learn(K, Y, learner="easy", tol=1e-6)
    distances = np.sum([one.extras["distances"] for one in each], axis=0)
    np.testing.assert_allclose(together.weights, distances / distances.sum(), rtol=1e-5)
    assert together.gap <= 1e-6


@pytest.mark.parametrize("lam", [0.0, 0.2, 1.0])
def test_weights_of_rows_are_repeated_rows(lam: float) -> None:
    problem = separable(3)
    count = np.random.default_rng(0).integers(0, 4, problem.y.size)
    rows = np.repeat(np.arange(problem.y.size), count)
    weighted = learn(problem.K, problem.y, learner=EasyMKL(lam), sample_weight=count, tol=1e-8)
    repeated = learn(
        problem.K[:, rows][:, :, rows], problem.y[rows], learner=EasyMKL(lam), tol=1e-8
    )
    np.testing.assert_allclose(weighted.weights, repeated.weights, atol=1e-6)
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-6)


def test_kernels_that_say_nothing_share_alike() -> None:
    y = labels(np.random.default_rng(0), 10)
    found = learn(np.ones((3, 10, 10)), y, learner="easy")
    np.testing.assert_allclose(found.weights, 1 / 3)


def test_classifier() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.where(X[:, 0] > 0, "yes", "no")
    model = MKLClassifier(learner="easy").set_params(learner__lam=0.5).fit(X, y)
    assert model.score(X, y) > 0.9 and model.solution_.criterion == "given"


@pytest.mark.parametrize(
    ("lam", "options", "error", "message"),
    [
        (-0.1, {}, ValueError, "lam must be a finite number ≥ 0, found -0.1"),
        (1.5, {}, ValueError, "lam must be a number from 0 to 1, found 1.5"),
        ("all", {}, TypeError, "lam must be a finite number ≥ 0, found 'all'"),
        (0, {}, ValueError, "lam=0 needs classes that the sum of all kernels separates"),
        (0.1, {"C": np.inf}, ValueError, "the kernel of EasyMKL does not separate"),
        (0.1, {"C": "learn", "loss": "squared_hinge"}, ValueError, "give C as a number"),
        (0.1, {"loss": "squared"}, ValueError, "it measures the distance between two classes"),
        (0.1, {"weight_norm": None}, ValueError, "weight_norm=None needs learner='radius'"),
    ],
)
def test_wrong_arguments(
    lam: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    rng = np.random.default_rng(0)
    y = labels(rng, 20)
    K = np.stack([gram(rng.standard_normal((20, 2))) for _ in range(2)])
    with pytest.raises(error, match=message):
        learn(K, y, learner=EasyMKL(lam), **options)


def test_a_machine_may_be_larger_than_the_root_of_all_numbers():
    """Found by random fits: kernels that sums in TF32 leave indefinite let a machine grow."""
    v = np.array([1e160, -1e160])
    point = SimpleNamespace(is_bounded=True, quads=np.array([1e300]), v=v, fits=np.ones((1, 2)))
    machine: Any = SimpleNamespace(
        stack=SimpleNamespace(m=1),
        qps=[SimpleNamespace(bend=lambda v: 0.0)],
        split=lambda v: [v],
        solve=lambda *given, **options: point,
    )
    sides, values, _ = nearest(machine, 1e-3, SimpleNamespace(tick=None))
    np.testing.assert_allclose(sides[0], [1.0, -1.0])
    assert values == [pytest.approx(1e-20, abs=1e-30)]
