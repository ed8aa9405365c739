"""Targets far from 0, and units at the ends of the numbers: right, refused or told."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

from kernelweave import learn
from kernelweave.problems.losses import far_origin
from kernelweave.problems.problem import make_formulation, make_problem

N = 24
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2))
APART = ((X[:, None] - X[None]) ** 2).sum(-1)
K = np.stack([np.exp(-APART / 2.0), np.exp(-APART / 8.0)])
T = np.sin(X[:, 0]) + 0.2 * rng.normal(size=N)
LOSSES = ["squared", "epsilon_insensitive", "quantile"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("far", [1.7e9, -1e9])
def test_targets_far_from_0_are_measured_from_their_middle(loss, far):
    y = far + T
    near = y - far  # the same to the last digit
    found, plain = learn(K, y, 1.0, loss=loss, tol=1e-5), learn(K, near, 1.0, loss=loss, tol=1e-5)
    assert found.status == plain.status == "optimal"
    assert found.dual <= plain.primal and plain.dual <= found.primal
    assert found.bias == pytest.approx(far, abs=2.0)
    assert found.certificate().gap <= 1.2e-5


@pytest.mark.parametrize("loss", LOSSES)
def test_digits_that_are_not_there_end_a_fit_soon(loss):
    """A bias of 1e12 has steps of 1e-4: what the model given to users loses by them is told."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = learn(K, 1e12 + T, 1.0, loss=loss, tol=1e-12)
    assert found.n_iter <= 300 and found.certificate().gap <= 2.0 * found.gap


def test_an_origin_takes_no_digit():
    for y in (1e9 + T, -1e9 - T, np.array([1.0, 2.0]), np.array([0.3, 0.3])):
        origin = far_origin(y)
        assert origin != 0.0
        assert all(Fraction(float(y - origin)) == Fraction(float(y)) - Fraction(origin) for y in y)
    assert far_origin(T) == far_origin(np.array([1.0, 2.5])) == far_origin(np.zeros(3)) == 0.0
    assert far_origin(np.array([-1e300, 1e300])) == 0.0


def exact_primal(K, y, solution, C, epsilon):
    """½ coefᵀK(d)coef + C Σ (|y − f − b| − ε)₊ in fractions."""
    weights, coef = list(map(Fraction, solution.weights)), list(map(Fraction, solution.coef))
    rows = range(len(y))
    d = [
        [sum(w * Fraction(k[i, j]) for w, k in zip(weights, K, strict=True)) for j in rows]
        for i in rows
    ]
    f = [sum(row[j] * coef[j] for j in rows) for row in d]
    quad = sum(c * v for c, v in zip(coef, f, strict=True))
    slacks = [
        abs(Fraction(float(t)) - v - Fraction(solution.bias)) - Fraction(epsilon)
        for t, v in zip(y, f, strict=True)
    ]
    return quad / 2 + Fraction(C) * sum(max(s, Fraction(0)) for s in slacks)


@pytest.mark.parametrize("spread", ["far", "mixed"])
@pytest.mark.parametrize("epsilon", [0.1, 1e-3])
def test_the_rounding_of_the_tube_is_charged(spread, epsilon):
    n = 10
    y = 1e9 + T[:n] if spread == "far" else np.where(np.arange(n) % 3, 1.0, 1e9) * T[:n]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = learn(K[:, :n, :n], y, 10.0, loss="epsilon_insensitive", epsilon=epsilon, tol=1e-9)
    exact = exact_primal(K[:, :n, :n], y, found, 10.0, epsilon)
    assert Fraction(found.dual) <= exact <= Fraction(found.primal)
    judged = found.certificate()
    assert Fraction(judged.dual) <= exact <= Fraction(judged.primal)


def test_costs_and_rows_keep_the_origin():
    y = 1e9 + T
    problem = make_problem(K, y, 1.0, loss="epsilon_insensitive")
    qp = problem.at_cost(2.0).qp
    rows = np.array([1, 4, 7])
    part, origin = qp.on_rows(rows), far_origin(y)
    assert qp.origin == part.origin == origin
    np.testing.assert_array_equal(part.doubt, qp.doubt[np.concatenate([rows, rows + N])])
    assert make_formulation(y, 1.0, "quantile", quantile=0.3).qps[0].origin == origin
    half = qp.rescaled(2.0, 4.0)
    assert half.origin == origin / 4.0 and half.best_bias(T / 4.0) == qp.best_bias(T) / 4.0


@pytest.mark.parametrize("size", [1e104, 1e-110, 1e250, 1e-290])
def test_one_class_in_any_unit(size):
    plain = learn(K, None, C=1.0 / 3.0, loss="one_class")
    found = learn(K * size, None, C=1.0 / 3.0, loss="one_class")
    assert found.status == "optimal" and found.gap <= 1e-3
    np.testing.assert_allclose(found.weights, plain.weights, atol=1e-5)
    assert found.primal / size == pytest.approx(plain.primal, rel=1e-5)
    assert found.bias / size == pytest.approx(plain.bias, rel=1e-5)
    judged = found.certificate()
    assert judged.primal / size == pytest.approx(plain.primal, rel=1e-5) and judged.gap <= 1.1e-3


def test_one_class_of_kernels_far_apart():
    found = learn(np.stack([K[0] * 1e104, K[1]]), None, C=1.0 / 3.0, loss="one_class")
    assert np.isfinite([found.primal, found.dual]).all() and found.certificate().gap <= 1.1e-3


@pytest.mark.parametrize("learner", ["auto", "radius", "radius_bound", "skm"])
@pytest.mark.parametrize(("size", "word"), [(1e-305, "small"), (1e305, "large")])
def test_kernels_beyond_the_numbers_are_refused_by_every_learner(learner, size, word):
    with pytest.raises(ValueError, match=f"kernel 0 is too {word} to compute with"):
        learn(K * size, np.sign(T), 1.0, learner)
