"""Group norms: the optimum of a conic solver, the special cases they contain, and their errors."""

from __future__ import annotations

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
    group_optimum,
    nearly_identical,
    primal_optimum,
    rank_one,
    separable,
    solve,
    wide,
    with_zero,
)
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

from kernelweave import Gaussian, GroupNorm, KernelBank, MKLClassifier, duality_gap, learn
from kernelweave.problems.weight_sets import make_weight_set

PROBLEMS = [
    dense(0),
    dense(1, m=8),
    rank_one(0),
    rank_one(3, m=9, C=10.0),
    coarse(1),
    coarse(5, C=50.0),
    duplicate(0),
    wide(0),
    with_zero(0),
    nearly_identical(0),
]


def thirds(problem: Problem) -> list[int]:
    """Three groups, every third kernel in each."""
    return [k % 3 for k in range(len(problem.K))]


# --- the set ------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [1, 4 / 3, 2, np.inf])
def test_support_function_is_attained_and_never_exceeded(inner: float) -> None:
    rng = np.random.default_rng(0)
    weight_set = make_weight_set(7, GroupNorm([0, 0, 1, 1, 1, 2, 0], inner))
    q = rng.random(7)
    most = weight_set.support(q)
    inside = np.abs(rng.standard_normal((2000, 7))) ** 3
    inside = np.array([e / weight_set.size(e) for e in inside])
    assert (inside @ q).max() <= most * (1 + 1e-12)
    assert all(weight_set.contains(e, 1e-12) for e in inside[:20])
    # Hölder's equality: all weight to the best group, r ∝ q^{1/(p−1)} in it
    best = max(range(3), key=lambda g: _dual(q[np.array([0, 0, 1, 1, 1, 2, 0]) == g], inner))
    places = np.array([0, 0, 1, 1, 1, 2, 0]) == best
    if inner == 1:
        r = (q == q[places].max()).astype(float)
    else:
        r = places * q ** (0.0 if np.isinf(inner) else 1.0 / (inner - 1.0))
    assert r @ q / weight_set.size(r) == pytest.approx(most, rel=1e-12)


def _dual(q: np.ndarray, p: float) -> float:
    exponent = np.inf if p == 1 else (1.0 if np.isinf(p) else p / (p - 1.0))
    return float(np.linalg.norm(q, exponent))


def test_group_sizes_neither_overflow_nor_underflow() -> None:
    weight_set = make_weight_set(4, GroupNorm([0, 0, 1, 1], 2))
    np.testing.assert_allclose(
        weight_set.sizes(np.array([3e200, 4e200, 3e-200, 4e-200])), [5e200, 5e-200], rtol=1e-14
    )


# --- against a conic solver ---------------------------------------------------------------------


@pytest.mark.parametrize("inner", [4 / 3, 2, np.inf])
@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_optimum(problem: Problem, inner: float) -> None:
    K, y, C, groups = problem.K, problem.y, problem.C, thirds(problem)
    norm = GroupNorm(groups, inner)
    found = learn(K, y, C, weight_norm=norm, tol=1e-6)
    best = group_optimum(K, y, C, groups, inner)
    assert found.status == "optimal" and found.gap <= 1e-6
    assert found.primal == pytest.approx(best, rel=1e-5)
    assert found.dual <= best * (1 + 1e-6)
    judged = duality_gap(
        K, y, found.weights, found.coef, found.bias, C=C, weight_norm=norm,
        dual_alpha=found.dual_alpha,
    )  # fmt: skip
    assert judged.gap <= 1e-6


@pytest.mark.parametrize("learner", ["grouped", "simple", "newton"])
def test_squared_hinge_whoever_is_asked(learner: str) -> None:
    problem = rank_one(7, m=6, C=3.0)
    options: dict[str, Any] = {"loss": "squared_hinge", "tol": 1e-6}
    norm = GroupNorm(list("aabbcc"))
    found = learn(problem.K, problem.y, 3.0, learner=learner, weight_norm=norm, **options)
    best = group_optimum(problem.K, problem.y, 3.0, [0, 0, 1, 1, 2, 2], 2, "squared_hinge")
    assert found.gap <= 1e-6 and found.primal == pytest.approx(best, rel=1e-5)


def test_several_machines_add_up() -> None:
    problem = rank_one(5, m=6)
    norm = GroupNorm([0, 0, 1, 1, 2, 2])
    one = learn(problem.K, problem.y, weight_norm=norm, tol=1e-8)
    both = learn(problem.K, np.column_stack([problem.y] * 2), weight_norm=norm, tol=1e-8)
    assert both.gap <= 1e-8 and both.primal == pytest.approx(2 * one.primal, rel=2e-8)


def test_regression() -> None:
    problem, groups = dense(8, m=6), [0, 0, 1, 1, 2, 2]
    target = np.random.default_rng(0).standard_normal(problem.y.size)
    norm = GroupNorm(groups)
    found = learn(problem.K, target, 2.0, loss="squared", weight_norm=norm, tol=1e-7)
    factors = [factor(matrix) for matrix in problem.K]
    w = [cp.Variable(F.shape[1]) for F in factors]
    d, b = cp.Variable(6, nonneg=True), cp.Variable()
    h = target - sum(F @ part for F, part in zip(factors, w, strict=True)) - b
    energy = sum(cp.quad_over_lin(part, d[k]) for k, part in enumerate(w))
    sizes = sum(cp.norm(d[2 * g : 2 * g + 2], 2) for g in range(3))
    best = solve(cp.Problem(cp.Minimize(0.5 * energy + cp.sum_squares(h)), [sizes <= 1]))
    assert found.gap <= 1e-7 and found.primal == pytest.approx(best, rel=1e-6)


def test_hard_margin() -> None:
    problem = separable(0)
    groups = [0, 0, 1, 1]
    found = learn(problem.K, problem.y, np.inf, weight_norm=GroupNorm(groups), tol=1e-5)
    large = learn(problem.K, problem.y, 1e6, weight_norm=GroupNorm(groups), tol=1e-6)
    assert found.gap <= 1e-5 and found.primal == pytest.approx(large.primal, rel=2e-5)


# --- what it contains, and what it does not depend on -------------------------------------------


@pytest.mark.parametrize("learner", ["auto", "grouped"])
@pytest.mark.parametrize(
    ("norm", "plain"),
    [
        (GroupNorm([0, 0, 1, 1, 2, 2], 1), 1),
        (GroupNorm(range(6), 2), 1),
        (GroupNorm([0] * 6, 2), 2),
        (GroupNorm([0] * 6, 4 / 3), 4 / 3),
    ],
    ids=repr,
)
def test_special_cases(norm: GroupNorm, plain: float, learner: str) -> None:
    problem = rank_one(2, m=6)
    found = learn(problem.K, problem.y, learner=learner, weight_norm=norm, tol=1e-6)
    best = primal_optimum(problem.K, problem.y, 1.0, weight_norm=plain)
    assert found.gap <= 1e-6 and found.primal == pytest.approx(best, rel=1e-5)


def test_order_and_names_of_groups_do_not_matter() -> None:
    problem = dense(4, m=7)
    groups = np.array(list("abcabca"))
    order = np.random.default_rng(1).permutation(7)
    one = learn(problem.K, problem.y, weight_norm=GroupNorm(groups), tol=1e-8)
    renamed = GroupNorm([{"a": 9, "b": 4, "c": 5}[g] for g in groups[order]])
    other = learn(problem.K[order], problem.y, weight_norm=renamed, tol=1e-8)
    assert one.primal == pytest.approx(other.primal, rel=2e-8)


def test_views_compete_and_kernels_share() -> None:
    """A group either has no weight at all, or weight on each of its kernels that says something."""
    problem = dense(6, m=9)
    weights = learn(problem.K, problem.y, weight_norm=GroupNorm(thirds(problem)), tol=1e-6).weights
    by_group = weights.reshape(3, 3)
    assert np.linalg.norm(by_group, axis=0).sum() == pytest.approx(1.0, rel=1e-9)
    for group in by_group.T:
        assert (group > 0.0).all() or not group.any()


def test_a_warm_start_goes_on_from_there() -> None:
    problem = rank_one(1, m=6)
    norm = GroupNorm([0, 0, 1, 1, 2, 2])
    first = learn(problem.K, problem.y, weight_norm=norm, tol=1e-5)
    again = learn(problem.K, problem.y, weight_norm=norm, tol=1e-5, start=first)
    assert again.n_iter <= 1 and again.gap <= 1e-5


# --- estimators ---------------------------------------------------------------------------------


def test_views_of_a_classifier() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:150], y[:150]
    bank = KernelBank(
        [Gaussian(1.0), Gaussian(3.0)],
        views={"mean": list(range(10)), "worst": list(range(20, 30))},
    )
    model = clone(MKLClassifier(bank, weight_norm=GroupNorm("views"), tol=1e-5)).fit(X, y)
    groups = [["mean", "worst"].index(view) for view in model.bank_.views]
    K = bank.fit(X).stack
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    same = learn(K, signs, weight_norm=GroupNorm(groups), tol=1e-5)
    assert model.objective_ == pytest.approx(same.primal, rel=2e-5)
    by_label = MKLClassifier(bank, weight_norm=GroupNorm(groups), tol=1e-5).fit(X, y)
    assert by_label.objective_ == model.objective_
    assert model.set_params(weight_norm__inner=4 / 3).weight_norm.inner == 4 / 3


def test_labels_count_dropped_kernels_too() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(40), rng.standard_normal((40, 2))])
    y = np.sign(X[:, 1])
    bank = KernelBank([Gaussian(1.0)], views="each")
    with pytest.warns(UserWarning):  # the constant column
        model = MKLClassifier(bank, weight_norm=GroupNorm([5, 6, 7])).fit(X, y)
    assert model.weights_[0] == 0.0 and model.weights_[1] > 0.0


# --- wrong arguments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "options", "error", "message"),
    [
        (GroupNorm(), {}, ValueError, "groups='views' is for estimators"),
        (GroupNorm([0, 1]), {}, ValueError, "must have 5 labels, one for each kernel, found 2"),
        (GroupNorm("sources"), {}, ValueError, "must be 'views' or a label for each kernel"),
        (GroupNorm([[0, 1]]), {}, ValueError, "must be 'views' or a label for each kernel"),
        (GroupNorm([0] * 5, 0.5), {}, ValueError, "inner of GroupNorm must be a number ≥ 1"),
        (GroupNorm([0] * 5, "2"), {}, TypeError, "inner of GroupNorm must be a number ≥ 1"),
        (GroupNorm([0] * 5), {"learner": "silp"}, ValueError, "needs weight_norm=1"),
        (GroupNorm([0] * 5), {"learner": "radius"}, ValueError, "does not take groups"),
        (GroupNorm([0] * 5), {"learner": "alternate"}, ValueError, "does not take groups"),
        (GroupNorm([0] * 5), {"trace": 3.0}, ValueError, "goes with weight_norm=1"),
        (
            GroupNorm([0] * 5),
            {"C": "learn", "loss": "squared_hinge"},
            ValueError,
            "C='learn' needs weight_norm=1",
        ),
    ],
)
def test_wrong_arguments(
    norm: GroupNorm, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    problem = dense(0)
    with pytest.raises(error, match=message):
        learn(problem.K, problem.y, weight_norm=norm, **options)


def test_a_wrong_norm_is_told_before_kernels_are_computed() -> None:
    with pytest.raises(ValueError, match="inner of GroupNorm"):
        MKLClassifier(weight_norm=GroupNorm(inner=0)).fit(np.zeros((4, 1)), [0, 1, 0, 1])
