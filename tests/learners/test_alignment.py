"""Alignment: the score, the best nonnegative combination, and the machine at its weights."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import (
    TIGHT,
    Problem,
    awkward,
    dense,
    duplicate,
    far_scaled,
    gaussian,
    gram,
    labels,
    nearly_identical,
    points,
    rank_one,
    wide,
    with_zero,
)

from kernelweave import KernelBank, KernelStack, MKLClassifier, alignment, learn
from kernelweave._core.settings import SETTINGS
from kernelweave.learners.alignment import (
    Alignment,
    _excess,
    frobenius_products,
    frobenius_root,
    most_aligned,
)


def centered_by_hand(K: np.ndarray) -> np.ndarray:
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


def products(problem: Problem, centered: bool = False) -> tuple[np.ndarray, np.ndarray, float]:
    """S, a and ‖y‖² by the definitions alone."""
    K = np.stack([centered_by_hand(k) if centered else k for k in problem.K])
    y = problem.y - problem.y.mean() if centered else problem.y
    S = np.array([[np.trace(one @ other) for one in K] for other in K])
    return S, np.array([y @ k @ y for k in K]), float(y @ y)


# --- the score ----------------------------------------------------------------------------------


def test_score_is_the_definition() -> None:
    problem = dense(0, n=12)
    y, K = problem.y, problem.K
    by_hand = [np.trace(k @ np.outer(y, y)) / (12 * np.sqrt(np.trace(k @ k))) for k in K]
    assert alignment(K, y) == pytest.approx(by_hand, rel=1e-12)
    assert alignment(KernelStack(K), y) == pytest.approx(by_hand, rel=1e-12)
    assert alignment(K[2], y) == pytest.approx(by_hand[2], rel=1e-12)
    pair = np.trace(K[0] @ K[1]) / np.sqrt(np.trace(K[0] @ K[0]) * np.trace(K[1] @ K[1]))
    assert alignment(K[0], K[1]) == pytest.approx(pair, rel=1e-12)
    assert isinstance(alignment(K[0], K[1]), float)


def test_centered_score_is_that_of_centered_matrices() -> None:
    problem = dense(1, n=15)
    for K in problem.K:
        expected = alignment(centered_by_hand(K), centered_by_hand(np.outer(problem.y, problem.y)))
        assert alignment(K, problem.y, centered=True) == pytest.approx(expected, rel=1e-10)


def test_score_properties() -> None:
    rng = np.random.default_rng(0)
    y = labels(rng, 20, positive=6)
    K = gaussian(points(rng, 20, 3, y), 1.0)
    score = alignment(K, y)
    assert alignment(np.outer(y, y), y) == pytest.approx(1.0)
    for scale in (7e9, 1e-200, 1e200):
        assert alignment(scale * K, -y) == pytest.approx(score)
    order = rng.permutation(20)
    assert alignment(K[np.ix_(order, order)], y[order]) == pytest.approx(score)
    inside = alignment(K, y, centered=True)
    assert alignment(K + 3.0, y, centered=True) == pytest.approx(inside)
    assert alignment(K, y + 5.0, centered=True) == pytest.approx(inside)
    assert alignment(np.zeros((20, 20)), y) == 0.0
    assert alignment(np.ones((20, 20)), y, centered=True) == 0.0


@pytest.mark.parametrize(
    ("K", "target", "message"),
    [
        (np.ones((2, 3)), np.ones(3), r"K must have shape \(n, n\) or \(m, n, n\), found \(2, 3\)"),
        (np.eye(3), np.ones(4), r"target must have shape \(3,\) or \(3, 3\), found \(4,\)"),
        (np.full((2, 2), np.nan), np.ones(2), "K must be finite"),
        (np.eye(2), [1.0, np.inf], "target must be finite"),
        (np.eye(3), [0, 1, 1], r"-1 and \+1 for two classes, found 0 and 1; .*np.outer"),
        (np.eye(3), [True, False, True], r"-1 and \+1 for two classes, found 0 and 1"),
    ],
)
def test_bad_arguments(K: Any, target: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alignment(K, target)


def test_only_real_numbers() -> None:
    for K in (1j * np.eye(3), "abc", [[1.0, 2.0], [3.0]]):
        with pytest.raises(TypeError, match=r"K must hold (real )?numbers, found"):
            alignment(K, np.ones(3))


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("chunk", [1, 100, 10**6])
def test_products(centered: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "computed", chunk)
    problem = dense(2, n=11)
    S, _, _ = products(problem, centered)
    assert frobenius_products(KernelStack(problem.K), centered=centered) == pytest.approx(S)
    R = frobenius_root(KernelStack(problem.K), centered=centered)
    assert R.T @ R == pytest.approx(S)
    single = KernelStack(problem.K, dtype=np.float32)
    assert frobenius_products(single, centered=centered) == pytest.approx(S, rel=1e-5)


def test_centered_products_of_constant_kernels_are_zero() -> None:
    K = np.stack([np.full((9, 9), 0.1), gram(np.random.default_rng(0).standard_normal((9, 2)))])
    S = frobenius_products(KernelStack(K), centered=True)
    assert S[0, 0] == S[0, 1] == S[1, 0] == 0.0 < S[1, 1]
    assert (frobenius_root(KernelStack(K), centered=True)[:, 0] == 0.0).all()


# --- the best combination -----------------------------------------------------------------------


def best_by_cones(S: np.ndarray, a: np.ndarray) -> float:
    """max μᵀa  s.t.  μᵀSμ ≤ 1, μ ≥ 0, the QCQP after (56), for kernels of norm 1."""
    size = np.sqrt(np.diagonal(S))
    keep = size > 0.0
    S, a, size = S[np.ix_(keep, keep)], a[keep], size[keep]
    values, vectors = np.linalg.eigh(S / np.outer(size, size))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    mu = cp.Variable(a.size, nonneg=True)
    problem = cp.Problem(cp.Maximize(mu @ (a / size)), [cp.norm(root @ mu) <= 1.0])
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    return float(problem.value)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("problem", awkward(), ids=repr)
def test_the_best_nonnegative_combination(problem: Problem, centered: bool) -> None:
    S, a, length = products(problem, centered)
    found = learn(problem.K, problem.y, C=problem.C, learner=Alignment(centered), tol=1e-6)
    best = best_by_cones(S, a) / length
    score = alignment(np.tensordot(found.weights, problem.K, 1), problem.y, centered=centered)
    assert score == pytest.approx(best, rel=1e-6)
    assert found.extras["alignment"] == pytest.approx(score, rel=1e-9)
    assert found.extras["stationarity"] <= 1e-8
    assert found.weights.min() >= 0.0 and found.weights.sum() == pytest.approx(1.0)
    assert found.gap <= 1e-6 and found.status == "optimal" and found.n_svm_solves == 1


@pytest.mark.parametrize("problem", [dense(3), rank_one(3), duplicate(3), wide(3)], ids=repr)
def test_optimality_conditions(problem: Problem) -> None:
    """With dᵀSd = d·a: (Sd)_k ≥ a_k, and equal where d_k > 0."""
    S, a, _ = products(problem)
    d, _ = most_aligned(S, a)
    d = d * (a @ d) / (d @ S @ d)
    assert d.min() >= 0.0
    slope = (S @ d - a) / a.max()
    assert slope.min() >= -1e-8
    assert np.abs(slope[d * a > 1e-6 * (d @ a)]).max() <= 1e-8


def test_two_kernels_by_brute_force() -> None:
    for seed in range(5):
        problem = dense(seed, n=10, m=2)
        S, a, length = products(problem)
        angle = np.linspace(0.0, np.pi / 2, 20001)
        mu = np.stack([np.cos(angle), np.sin(angle)]) / np.sqrt(np.diagonal(S))[:, None]
        scores = (a @ mu) / np.sqrt(np.einsum("ks,kl,ls->s", mu, S, mu)) / length
        found = learn(problem.K, problem.y, learner="alignment")
        assert found.extras["alignment"] == pytest.approx(scores.max(), rel=1e-8)


def test_eigenvectors_have_a_closed_form() -> None:
    """(54): μ_i ∝ (v_iᵀy)² for orthonormal v_i, and the alignment is their norm over n."""
    rng = np.random.default_rng(4)
    y = labels(rng, 14)
    _, V = np.linalg.eigh(gaussian(points(rng, 14, 2, y), 1.0))
    V = V[:, 3:]
    found = learn(np.stack([np.outer(v, v) for v in V.T]), y, learner="alignment", tol=1e-4)
    squares = (V.T @ y) ** 2
    assert found.weights == pytest.approx(squares / squares.sum(), abs=1e-9)
    assert found.extras["alignment"] == pytest.approx(np.linalg.norm(squares) / 14, rel=1e-12)


def test_the_stationarity_reported_is_a_bound() -> None:
    """Whatever d, the best alignment is at most (1 + stationarity) times that of d."""
    rng = np.random.default_rng(5)
    for problem in (dense(4), rank_one(4), wide(4), far_scaled(4), with_zero(4)):
        S, a, _ = products(problem)

        def score(d: np.ndarray) -> float:
            return float(a @ d / np.sqrt(d @ S @ d))  # noqa: B023

        best = score(most_aligned(S, a)[0])
        for _ in range(20):
            d = rng.exponential(size=a.size) * (rng.random(a.size) < 0.6)
            if a @ d > 0.0:
                most = score(d) * (1.0 + _excess(S, a, d))
                assert score(d) <= best * (1 + 1e-9) <= most * (1 + 2e-9)


# --- as a learner -------------------------------------------------------------------------------


def test_weights_do_not_depend_on_scales_or_order() -> None:
    problem = dense(6, m=4)
    plain = learn(problem.K, problem.y, learner="alignment").weights
    factors = np.array([1e-5, 1.0, 30.0, 1e6])
    scaled = learn(factors[:, None, None] * problem.K, problem.y, learner="alignment").weights
    ratio = scaled * factors
    assert ratio / ratio.sum() == pytest.approx(plain, abs=1e-8)
    order = np.random.default_rng(0).permutation(30)
    mixed = problem.K[:, order][:, :, order][::-1]
    assert learn(mixed, problem.y[order], learner="alignment").weights == pytest.approx(
        plain[::-1], abs=1e-8
    )


@pytest.mark.parametrize(
    "options", [{"weight_norm": 1}, {"weight_norm": 2}, {"weight_norm": np.inf}, {"trace": 9.0}]
)
def test_weights_lie_in_their_set(options: dict[str, Any]) -> None:
    problem = far_scaled(5)
    found = learn(problem.K, problem.y, learner="alignment", **options)
    if "trace" in options:
        assert found.weights @ np.trace(problem.K, axis1=1, axis2=2) == pytest.approx(9.0)
    else:
        assert np.linalg.norm(found.weights, options["weight_norm"]) == pytest.approx(1.0)
    alone = learn(problem.K, problem.y, learner="alignment").weights
    assert found.weights / found.weights.sum() == pytest.approx(alone, abs=1e-9)


def test_kernels_that_know_nothing_of_the_labels() -> None:
    """yᵀKy = 0 for all: every combination is as good, and equal weights are taken."""
    y = np.tile([1.0, -1.0], 10)
    K = np.stack([np.ones((20, 20)), gram(np.repeat(np.arange(10.0), 2)[:, None])])
    found = learn(K, y, learner="alignment")
    assert found.weights == pytest.approx([0.5, 0.5])
    assert found.extras == {"alignment": 0.0, "stationarity": 0.0}
    assert found.criterion == "given"


def test_the_machine_is_that_of_its_weights() -> None:
    problem = dense(8)
    found = learn(problem.K, problem.y, C=3.0, learner="alignment", tol=1e-7)
    alone = learn(np.tensordot(found.weights, problem.K, 1)[None], problem.y, C=3.0, tol=1e-7)
    assert found.objective == pytest.approx(alone.objective, rel=1e-6)
    assert found.objective > learn(problem.K, problem.y, C=3.0, tol=1e-7).objective


def test_one_kernel() -> None:
    K, y = dense(9).K[:1], dense(9).y
    found = learn(K, y, learner="alignment")
    assert found.weights == pytest.approx([1.0])
    assert found.extras["alignment"] == pytest.approx(float(alignment(K[0], y)))


def test_refuses_to_learn_C() -> None:
    with pytest.raises(ValueError, match="C='learn' goes with the margin criterion"):
        learn(dense(0).K, dense(0).y, C="learn", loss="squared_hinge", learner="alignment")


def test_classifier() -> None:
    rng = np.random.default_rng(6)
    y = labels(rng, 60, positive=15)
    X = points(rng, 60, 4, y)
    model = MKLClassifier(learner=Alignment(centered=True)).fit(X, y)
    scores = alignment(KernelBank().fit(X).stack, y, centered=True)
    assert alignment(model.combined_kernel(X), y, centered=True) >= np.max(scores) - 1e-12
    assert model.score(X, y) > 0.75


# --- signed weights, and rows without labels ----------------------------------------------------


def best_by_semidefinite_program(problem: Problem, rows: np.ndarray) -> float:
    """(53): max ⟨K_tr, yyᵀ⟩ with ‖K‖ ≤ 1 and K ⪰ 0 on all rows, over n_tr."""
    K = np.stack([k / np.linalg.norm(k) for k in problem.K if k.any()])
    y = problem.y[rows]
    a = np.array([y @ k[np.ix_(rows, rows)] @ y for k in K])
    R = np.linalg.qr(K.reshape(len(K), -1).T, mode="r")
    mu = cp.Variable(len(K))
    combined = sum(mu[k] * K[k] for k in range(len(K)))
    problem = cp.Problem(cp.Maximize(a @ mu), [cp.norm(R @ mu) <= 1.0, combined >> 0])
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    return float(problem.value) / y.size


@pytest.mark.parametrize("share", [1.0, 0.7])
@pytest.mark.parametrize(
    "problem",
    [
        dense(0, n=16),
        rank_one(1, n=14),
        far_scaled(1, n=12),
        wide(1, n=10, m=14),
        duplicate(1, n=12),
        with_zero(1, n=12),
    ],
    ids=repr,
)
def test_signed_weights(problem: Problem, share: float) -> None:
    n = problem.y.size
    rows = np.sort(np.random.default_rng(0).permutation(n)[: round(share * n)])
    y = np.zeros(n)
    y[rows] = problem.y[rows]
    found = learn(problem.K, y, learner=Alignment(signed=True), tol=1e-5)
    best = best_by_semidefinite_program(problem, rows)
    assert found.extras["stationarity"] <= 1e-5 and found.gap <= 1e-5
    assert found.extras["alignment"] == pytest.approx(best, rel=2e-6)
    traces = np.trace(problem.K, axis1=1, axis2=2)
    K = np.tensordot(found.weights, problem.K, 1)
    assert np.trace(K) == pytest.approx(traces[traces > 0.0].mean())
    assert np.linalg.eigvalsh(K)[0] >= -1e-8 * np.trace(K)
    seen = y[rows] @ K[np.ix_(rows, rows)] @ y[rows] / (rows.size * np.linalg.norm(K))
    assert found.extras["alignment"] == pytest.approx(seen, rel=1e-8)
    positive = learn(problem.K, y, learner="alignment", tol=1e-5)
    assert positive.extras["alignment"] <= found.extras["alignment"] * (1 + 1e-5)


def test_signed_weights_of_nearly_identical_kernels() -> None:
    """Weights of 1e5 cancel, and the alignment reported is still that of the kernel."""
    problem = nearly_identical(0, n=12)
    found = learn(problem.K, problem.y, learner=Alignment(signed=True), tol=1e-5)
    K = np.tensordot(found.weights, problem.K, 1)
    assert np.abs(found.weights).max() > 1e4 and found.status == "optimal"
    assert found.extras["alignment"] == pytest.approx(alignment(K, problem.y), rel=1e-8)
    assert alignment(K, problem.y) > 1.05 * np.max(alignment(problem.K, problem.y))


def test_signed_weights_of_orthonormal_kernels_are_nonnegative() -> None:
    """(54) again: K ⪰ 0 is then the same as μ ≥ 0."""
    rng = np.random.default_rng(4)
    y = labels(rng, 10)
    _, V = np.linalg.eigh(gaussian(points(rng, 10, 2, y), 1.0))
    kernels = np.stack([np.outer(v, v) for v in V.T])
    found = learn(kernels, y, learner=Alignment(signed=True), tol=1e-7)
    squares = (V.T @ y) ** 2
    assert found.weights / found.weights.sum() == pytest.approx(squares / squares.sum(), abs=1e-4)


def test_centered_and_signed_beside_constant_kernels() -> None:
    """A constant counts for nothing, and could grow without end: it gets no weight."""
    problem = dense(2, n=14, m=3)
    with_constant = np.concatenate([problem.K, np.ones((1, 14, 14))])
    learner = Alignment(centered=True, signed=True)
    alone = learn(problem.K, problem.y, learner=learner, tol=1e-5)
    found = learn(with_constant, problem.y, learner=learner, tol=1e-5)
    assert found.weights[-1] == 0.0 and found.extras["stationarity"] <= 1e-5
    assert found.extras["alignment"] == pytest.approx(alone.extras["alignment"], rel=2e-5)
    only = learn(np.ones((2, 14, 14)), problem.y, learner=learner)
    assert only.weights == pytest.approx([0.5, 0.5])


def test_rows_without_labels() -> None:
    """‖K‖ is over all rows, ⟨K, yyᵀ⟩ over those with labels."""
    problem = dense(3, n=20)
    y = np.where(np.arange(20) < 13, problem.y, 0.0)
    found = learn(problem.K, y, learner="alignment", tol=1e-6)
    S = products(problem)[0]
    a = np.array([y @ k @ y for k in problem.K])
    best = best_by_cones(S, a) / 13
    assert found.extras["alignment"] == pytest.approx(best, rel=1e-6)
    assert (found.coef[13:] == 0.0).all()


def test_hard_margin_that_the_most_aligned_kernel_does_not_have() -> None:
    """Labels with two errors, and a feature that sets them right but is orthogonal to y."""
    y = np.repeat([1.0, -1.0], 6)
    x, z = y.copy(), -0.2 * y
    x[[0, 6]], z[[0, 6]] = [-1.0, 1.0], [1.0, -1.0]
    kernels = np.stack([np.outer(x, x), np.outer(z, z)])
    assert learn(kernels, y, learner="alignment").weights == pytest.approx([1.0, 0.0])
    assert learn(kernels, y, C=np.inf).gap <= 1e-3
    with pytest.raises(ValueError, match="the most aligned kernel does not separate"):
        learn(kernels, y, C=np.inf, learner="alignment")


def test_signed_weights_are_for_the_rows_given() -> None:
    rng = np.random.default_rng(6)
    y = labels(rng, 20)
    with pytest.raises(ValueError, match="learns signed weights"):
        MKLClassifier(learner=Alignment(signed=True)).fit(points(rng, 20, 2, y), y)


# --- alignf, and several machines ---------------------------------------------------------------


@pytest.mark.parametrize("problem", [dense(1), rank_one(2), duplicate(2), wide(1)], ids=repr)
def test_alignf_is_nonnegative_least_squares(problem: Problem) -> None:
    """min_{v ≥ 0} vᵀMv − 2v·a = min ‖Σ v_k K̃_k − yyᵀ‖² but for a constant."""
    centered = [centered_by_hand(K) for K in problem.K]
    v = cp.Variable(len(centered), nonneg=True)
    misfit = sum(v[k] * K for k, K in enumerate(centered)) - np.outer(problem.y, problem.y)
    cp.Problem(cp.Minimize(cp.sum_squares(misfit))).solve(solver=cp.CLARABEL, **TIGHT)
    found = learn(problem.K, problem.y, learner="alignf", tol=1e-6)
    best = alignment(np.tensordot(v.value, problem.K, 1), problem.y, centered=True)
    assert found.extras["alignment"] == pytest.approx(best, rel=1e-6)


def test_one_class_against_the_rest_is_aligned_with_the_ideal_kernel() -> None:
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 30)
    K = np.stack([gram(rng.standard_normal((30, 4)) + classes[:, None] * k) for k in range(4)])
    Y = np.where(classes[:, None] == np.arange(3), 1.0, -1.0)
    found = learn(K, Y, learner="alignf", tol=1e-6)
    ideal = (classes[:, None] == classes).astype(float)
    score = alignment(np.tensordot(found.weights, K, 1), ideal, centered=True)
    assert found.extras["alignment"] == pytest.approx(score, rel=1e-9)
    others = rng.dirichlet(np.ones(4), 300)
    best = max(alignment(np.tensordot(d, K, 1), ideal, centered=True) for d in others)
    assert score >= best - 1e-9 and found.gap <= 1e-6
