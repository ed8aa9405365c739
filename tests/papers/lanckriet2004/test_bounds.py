"""The error bound of lanckriet2004, theorem 24: every term by another way, and what it refuses."""

from __future__ import annotations

from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import (
    dense,
    gaussian,
    gram,
    labels,
    points,
    rank_one,
    solve,
    unit_mean_diagonal,
)

from kernelweave import KernelStack, learn
from kernelweave.papers.lanckriet2004.bounds import Capacity, ErrorBound, capacity, error_bound


def all_signs(rows: int) -> np.ndarray:
    return np.array(list(product([-1.0, 1.0], repeat=rows)))


def halves(y: np.ndarray, seed: int = 0) -> np.ndarray:
    """Labels of a random half, 0 for the other."""
    hidden = np.random.default_rng(seed).permutation(y.size)[: y.size // 2]
    known = y.copy()
    known[hidden] = 0.0
    return known


def fitted(seed: int = 0, n: int = 40, C: float = 0.1) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    X = points(rng, n, 4, y)
    K = unit_mean_diagonal(np.stack([gram(X), gaussian(X, 2.0), gram(X[:, :1])]))
    known = halves(y, seed)
    return K, known, learn(K, known, C=C, trace=float(n), tol=1e-6)


# --- C(𝒦) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("make", [dense, rank_one], ids=lambda make: make.__name__)
def test_capacity_of_nonnegative_weights_by_all_signs(make: Any, constant: bool) -> None:
    K = make(0, n=10, m=3).K * np.array([1.0, 7.0, 0.1])[:, None, None]
    signs = all_signs(10)
    with_constant = np.concatenate([K, np.ones((1, 10, 10))]) if constant else K
    values = [
        np.einsum("si,ij,sj->s", signs, matrix, signs) / np.trace(matrix)
        for matrix in with_constant
    ]
    exact = 3.0 * np.max(values, axis=0).mean()
    found = capacity(K, 3.0, constant=constant, samples=4000)
    assert abs(found.mean - exact) <= 4.0 * found.error
    assert exact <= found.limit
    largest = max(np.linalg.eigvalsh(matrix)[-1] / np.trace(matrix) for matrix in with_constant)
    assert found.limit == pytest.approx(3.0 * min(len(with_constant), 10 * largest))


def test_the_second_closed_form_can_be_the_smaller() -> None:
    """Many kernels near the identity: no eigenvalue dominates, and C is far below c·m."""
    rng = np.random.default_rng(0)
    K = np.stack([np.eye(12) + 0.05 * gram(rng.standard_normal((12, 1))) for _ in range(30)])
    found = capacity(K, samples=2000)
    largest = max(np.linalg.eigvalsh(matrix)[-1] / np.trace(matrix) for matrix in K)
    assert found.limit == pytest.approx(12 * largest) and found.limit < 30
    assert found.mean <= found.limit


def test_capacity_of_signed_weights_by_all_signs() -> None:
    """Each max by a semidefinite program as printed."""
    K = dense(2, n=6, m=3).K
    mu, sigma = cp.Variable(3), cp.Parameter(3)
    combined = sum(mu[k] * K[k] for k in range(3))
    traces = np.trace(K, axis1=1, axis2=2)
    program = cp.Problem(cp.Maximize(sigma @ mu), [combined >> 0, traces @ mu <= 2.0])
    values = []
    for signs in all_signs(6)[:32]:  # the others are their negatives
        sigma.value = np.array([signs @ matrix @ signs for matrix in K])
        values.append(solve(program))
    exact = float(np.mean(values))
    found = capacity(K, 2.0, signed=True, samples=100)
    assert abs(found.mean - exact) <= 4.0 * found.error
    assert exact <= found.limit == 2.0 * 6
    # a larger class; the same signs are behind both
    assert capacity(K, 2.0, samples=100).mean <= found.mean * (1 + 1e-8)


def test_closed_forms_are_above_the_estimates() -> None:
    for seed in range(5):
        for K in (dense(seed, n=20, m=3).K, rank_one(seed, n=20, m=40).K):
            found = capacity(K, samples=500, random_state=seed)
            assert 1.0 - 3.0 * found.error <= found.mean <= found.limit  # E σᵀKσ = tr K
        found = capacity(dense(seed, n=10, m=3).K, signed=True, samples=10, random_state=seed)
        assert 1.0 - 3.0 * found.error <= found.mean <= found.limit


def test_capacity_depends_on_the_shapes_of_kernels_only() -> None:
    K = dense(3, n=15).K
    plain = capacity(K, 2.0)
    scaled = capacity(np.logspace(-6, 6, 5)[:, None, None] * K, 2.0)
    assert scaled.mean == pytest.approx(plain.mean) and scaled.limit == pytest.approx(plain.limit)
    twice = capacity(K, 4.0)
    assert (twice.mean, twice.error) == pytest.approx((2 * plain.mean, 2 * plain.error))
    more = capacity(np.concatenate([K, np.zeros((1, 15, 15))]), 2.0)
    assert more == plain
    assert capacity(KernelStack(K), 2.0) == plain
    assert capacity(K, 2.0, random_state=1).mean != plain.mean


# --- the bound ----------------------------------------------------------------------------------


def test_terms_with_margin_and_trace_given() -> None:
    K, y, model = fitted()
    n, c, gamma, delta = 20, 40.0, 0.05, 0.1
    bound = error_bound(
        K, y, model.weights, model.coef, margin=gamma, trace=c, delta=delta, samples=300
    )
    combined = sum(w * matrix for w, matrix in zip(model.weights, K, strict=True))
    f = np.array([sum(a * k for a, k in zip(model.coef, row, strict=True)) for row in combined])
    assert model.coef @ combined @ model.coef <= 1.0 / gamma**2
    costs = [max(1.0 - y[i] * f[i], 0.0) for i in range(40) if y[i] != 0.0]
    assert len(costs) == n
    assert bound.margin_cost == pytest.approx(sum(costs) / n, rel=1e-12)
    assert bound.sampling == pytest.approx(4.0 / np.sqrt(n))
    assert bound.confidence == pytest.approx(2.0 * np.sqrt(np.log(1.0 / delta)) / np.sqrt(n))
    C = capacity(K, c, samples=300)
    assert bound.capacity == Capacity(*map(pytest.approx, (C.mean, C.error, C.limit)))
    # as printed: (1/√n) √(C/(nγ²))
    assert bound.complexity == pytest.approx(np.sqrt(C.mean / (n * gamma**2)) / np.sqrt(n))
    assert bound.complexity_limit == pytest.approx(np.sqrt(C.limit / (n * gamma**2)) / np.sqrt(n))
    terms = bound.margin_cost + bound.sampling + bound.confidence + bound.complexity
    assert bound.total == pytest.approx(terms)
    assert bound.total_limit == pytest.approx(terms - bound.complexity + bound.complexity_limit)
    assert (bound.margin, bound.trace) == pytest.approx((gamma, c))
    assert bound.vacuous == (bound.total >= 1.0)


def test_margin_of_the_model_pays_for_being_chosen() -> None:
    """√c/γ is the next 2⁻ᵏn, at 1/((k+1)(k+2)) of δ, or another with a smaller bound."""
    K, y, model = fitted(1, n=60, C=0.01)
    combined = np.tensordot(model.weights, K, 1)
    norm = model.coef @ combined @ model.coef
    radius = np.sqrt(np.trace(combined) * norm)
    bound = error_bound(K, y, model.weights, model.coef, delta=0.1)
    C = capacity(K).mean
    candidates = [
        30 * 2.0**-k * np.sqrt(C) / 30 + 2 * np.sqrt(np.log((k + 1) * (k + 2) / 0.1) / 30)
        for k in range(40)
        if 30 * 2.0**-k >= radius
    ]
    assert len(candidates) > 1
    assert bound.complexity + bound.confidence == pytest.approx(min(candidates), rel=1e-12)
    assert bound.margin <= 1.0 / np.sqrt(norm)
    fixed = error_bound(
        K, y, model.weights, model.coef, delta=0.1, margin=1.0 / np.sqrt(norm), trace=bound.trace
    )
    assert fixed.total <= bound.total


def test_the_size_of_the_kernel_does_not_matter() -> None:
    K, y, model = fitted(2)
    one = error_bound(K, y, model.weights, model.coef)
    other = error_bound(K, y, 100.0 * model.weights, model.coef / 100.0)
    assert other.total == pytest.approx(one.total) and other.total_limit == pytest.approx(
        one.total_limit
    )
    assert (other.trace, other.margin) == pytest.approx((100.0 * one.trace, 10.0 * one.margin))


def test_bias_is_a_constant_kernel() -> None:
    """The constant as one kernel more, its weight chosen by a search, gives the same bound."""
    K, y, model = fitted(3)
    b = 0.3
    bound = error_bound(K, y, model.weights, model.coef, bias=b, margin=1e-3, trace=40.0)
    combined = np.tensordot(model.weights, K, 1)
    f = combined @ model.coef + b
    seen = y != 0.0
    costs = np.maximum(1.0 - y[seen] * f[seen], 0.0)
    assert bound.margin_cost == pytest.approx(costs.mean(), rel=1e-12)
    norm, c = model.coef @ combined @ model.coef, np.trace(combined)
    mu = np.logspace(-6, 6, 200001)
    least = np.sqrt(((c + 40 * mu) * (norm + b**2 / mu)).min())
    free = error_bound(K, y, model.weights, model.coef, bias=b)
    widest = np.sqrt(40.0) / least  # the largest margin at trace 40 that holds the model
    inside = error_bound(
        K, y, model.weights, model.coef, bias=b, margin=widest * (1 - 1e-6), trace=40.0
    )
    assert inside.total < free.total
    with pytest.raises(ValueError, match="the model is not in the class"):
        error_bound(K, y, model.weights, model.coef, bias=b, margin=widest * 1.001, trace=40.0)
    assert inside.capacity.limit == 40.0 * 4
    without = error_bound(K, y, model.weights, model.coef, bias=0.0)
    assert without.capacity.mean > error_bound(K, y, model.weights, model.coef).capacity.mean


def test_signed_weights() -> None:
    K, y, _ = fitted(4, n=16)
    model = learn(K, y, C=1.0, learner="sdp", tol=1e-5)
    found = error_bound(K, y, model.weights, model.coef, signed=True, samples=10)
    combined = np.tensordot(model.weights, K, 1)
    assert found.trace == pytest.approx(np.trace(combined))
    assert found.capacity.limit == pytest.approx(found.trace * 16)
    assert found.capacity.mean <= found.capacity.limit
    wider = error_bound(K, y, model.weights, model.coef, bias=0.0, signed=True, samples=10)
    assert wider.capacity.mean > found.capacity.mean


def test_a_large_sample_of_easy_rows_is_not_vacuous() -> None:
    rng = np.random.default_rng(5)
    n = 1600
    y = labels(rng, n)
    X = np.column_stack([y * (1.0 + 0.1 * rng.random(n))])
    known = halves(y)
    found = error_bound(gram(X)[None], known, [1.0], known / 800.0, samples=20)
    assert not found.vacuous and found.total < 0.7
    assert found.margin_cost < 0.01


def test_nothing_learned_costs_one() -> None:
    K, y, _ = fitted(5)
    found = error_bound(K, y, np.ones(3), np.zeros(40))
    assert found.margin_cost == 1.0 and found.vacuous


# --- what it refuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"y": np.tile([1.0, -1.0], 20)},
            "as many rows with labels as without, found 40 with and 0",
        ),
        ({"weights": [1.0, -0.1, 1.0]}, "weights must be nonnegative, found -0.1"),
        ({"weights": [1.0, -9.0, 1.0], "signed": True}, "combined kernel positive semidefinite"),
        ({"coef": np.ones(3)}, r"coef must have shape \(40,\)"),
        ({"delta": 1.0}, "delta must be less than 1"),
        ({"delta": 0.0}, "delta must be positive"),
        ({"margin": -1.0, "trace": 1.0}, "margin must be positive"),
        ({"samples": 0}, "samples must be positive"),
        ({"bias": np.nan}, "bias must be a finite number, found nan"),
        ({"bias": np.zeros(2)}, r"bias must be a finite number, found ndarray of shape \(2,\)"),
        ({"random_state": -1}, "random_state must be an integer ≥ 0, found -1"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    K, y, model = fitted()
    arguments = {"y": y, "weights": model.weights, "coef": model.coef, **change}
    with pytest.raises(ValueError, match=message):
        error_bound(K, **arguments)


@pytest.mark.parametrize("change", [{"margin": 0.1}, {"trace": 10.0}])
def test_margin_and_trace_go_together(change: dict[str, float]) -> None:
    K, y, model = fitted()
    with pytest.raises(ValueError, match="margin and trace define the class together: give both"):
        error_bound(K, y, model.weights, model.coef, **change)


def test_no_kernels_no_class() -> None:
    with pytest.raises(ValueError, match="the kernels are all zero"):
        capacity(np.zeros((2, 4, 4)))


def test_results_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Capacity(1.0, 0.0, 2.0).mean = 3.0  # type: ignore[misc]
    assert ErrorBound.__dataclass_params__.frozen  # type: ignore[attr-defined]


# --- the 2-norm cost ----------------------------------------------------------------------------


def cost(a: np.ndarray, power: int) -> np.ndarray:
    """φ of the proof, and φ₂."""
    return np.clip(1.0 - a, 0.0, 1.0) ** power


@pytest.mark.parametrize(("power", "slope"), [(1, 1.0), (2, 2.0)])
@pytest.mark.parametrize("seed", range(5))
def test_contraction_of_the_cost_by_all_signs(seed: int, power: int, slope: float) -> None:
    """Step 4 for kernel expansions of some size and their negatives: all 2¹⁰ sign vectors."""
    rng = np.random.default_rng(seed)
    y, K = labels(rng, 10), dense(seed, n=10, m=2).K[0]
    F = rng.standard_normal((40, 10)) @ K * 10.0 ** rng.uniform(-2, 0.5, (40, 1))
    F = np.concatenate([F, -F])
    signs = all_signs(10)
    plain = (signs @ F.T).max(axis=1).mean()
    costly = (signs @ cost(y * F, power).T).max(axis=1).mean()
    assert costly <= slope * plain * (1 + 1e-12)


def test_the_slope_of_two_is_needed() -> None:
    """Near a margin of 0 small functions cost twice what they are."""
    F = 1e-3 * all_signs(6)
    signs, costs = all_signs(6), cost(np.maximum(F, 0.0), 2)
    ratio = (signs @ costs.T).max(axis=1).mean() / (signs @ np.maximum(F, 0.0).T).max(axis=1).mean()
    assert ratio == pytest.approx(2.0, rel=2e-3)
    assert cost(np.array([-3.0, 0.0]), 2).tolist() == [1.0, 1.0]


def test_the_bound_for_the_2_norm() -> None:
    K, y, found = fitted(n=60)
    options = {"bias": found.bias, "margin": 0.1, "trace": 60.0}
    f = np.tensordot(found.weights, K, axes=1) @ found.coef + found.bias
    slacks = np.maximum(1.0 - y * f, 0.0)[y != 0.0]
    plain = error_bound(K, y, found.weights, found.coef, **options)
    squared = error_bound(K, y, found.weights, found.coef, loss="squared_hinge", **options)
    assert squared.margin_cost == pytest.approx((slacks**2).mean())
    assert plain.margin_cost == pytest.approx(slacks.mean())
    assert squared.complexity == pytest.approx(2.0 * plain.complexity)
    assert squared.complexity_limit == pytest.approx(2.0 * plain.complexity_limit)
    assert (squared.sampling, squared.confidence) == (plain.sampling, plain.confidence)
    assert squared.capacity == plain.capacity
    with pytest.raises(ValueError, match="loss"):
        error_bound(K, y, found.weights, found.coef, loss="squared")
