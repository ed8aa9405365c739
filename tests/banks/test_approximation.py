"""Kernels of few features: below the exact ones, one kernel in training and for new rows."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from kernelweave import (
    BagOfWords,
    Cholesky,
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLRegressor,
    Nystroem,
    Polynomial,
    RandomFeatures,
    duality_gap,
    load,
    report,
)
from kernelweave._core.settings import SETTINGS
from kernelweave.banks.normalize import RULES
from kernelweave.stacks.defaults import matrices
from kernelweave.stacks.factors import FactorStack
from kernelweave.views.parts import share

rng = np.random.default_rng(4)
X = rng.normal(size=(120, 4))
Y = np.where(X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.4 * rng.normal(size=120) > 0.0, "yes", "no")
KERNELS = [Gaussian(1.0), Laplacian(3.0), Polynomial(2), Linear()]
APPROXIMATIONS = [Nystroem(25), Cholesky(rank=25), RandomFeatures(50)]


def fitted(approximation: Any, X: Any = X, **options: Any) -> Any:
    weight = options.pop("sample_weight", None)
    options = {"kernels": KERNELS, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bank = KernelBank(approximation=approximation, **options)
        return bank.fit(X, sample_weight=weight)


def arrays(bank: Any) -> np.ndarray:
    return np.stack([*matrices(bank.stack)])[np.argsort(bank.kept)]


def least(K: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(K).min())


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "center+sphere"])
@pytest.mark.parametrize("approximation", APPROXIMATIONS[:2], ids=repr)
def test_approximate_kernels_lie_below_the_exact_ones(approximation: Any, rule: Any) -> None:
    """With the same scales, unless centering takes these from the approximate kernels."""
    exact, low = (
        fitted(None, normalize=rule, storage="dense"),
        fitted(approximation, normalize=rule),
    )
    assert type(low.stack) is FactorStack and low.stack.ranks.max() <= 25
    scales = np.ones(4)
    if not RULES[rule][0]:
        np.testing.assert_allclose(low.scales, exact.scales, rtol=1e-12)
    else:
        scales = low.scales / exact.scales
    for K, F, s in zip(arrays(exact), arrays(low), scales, strict=True):
        assert least(s * K - F) >= -1e-9 * np.trace(K)
        assert np.trace(F) > 0.3 * s * np.trace(K)


def test_more_features_come_nearer() -> None:
    K = arrays(fitted(None, kernels=[Gaussian(1.0)], storage="dense"))[0]
    for few, many, most in (
        (Nystroem(10), Nystroem(90), 0.3),
        (Cholesky(rank=10), Cholesky(rank=90), 0.1),
        (RandomFeatures(20), RandomFeatures(20000), 0.06),
    ):
        low = [arrays(fitted(a, kernels=[Gaussian(1.0)]))[0] for a in (few, many)]
        off = [np.linalg.norm(F - K) / np.linalg.norm(K) for F in low]
        assert off[1] < 0.5 * off[0] and off[1] <= most
    G = arrays(fitted(Cholesky(tol=1e-2), kernels=[Gaussian(1.0)]))[0]
    assert 0.0 < np.trace(K - G) <= 1e-2 * np.trace(K)
    L = arrays(fitted(None, kernels=[Laplacian(3.0)], storage="dense"))[0]
    waves = arrays(fitted(RandomFeatures(40000), kernels=[Laplacian(3.0)]))[0]
    assert np.abs(waves - L).max() < 0.05


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=repr)
def test_new_rows_see_the_kernel_of_training(approximation: Any, rule: Any) -> None:
    """Training rows given as new ones; decision values through features or through kernels."""
    bank = fitted(approximation, normalize=rule)
    K = arrays(bank)
    np.testing.assert_allclose(bank.cross_stack(X)[np.argsort(bank.kept)], K, atol=1e-8)
    coef, weights = rng.normal(size=(120, 2)), rng.random(bank.m_all)
    new, rows = rng.normal(size=(7, 4)), np.flatnonzero(rng.random(120) < 0.5)
    expected = bank.cross(new, weights, rows) @ coef[rows]
    for other in (bank, pickle.loads(pickle.dumps(bank))):
        found = other.decision(new, weights, coef[rows], rows)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        np.testing.assert_allclose(
            other.decision(new, weights, -coef[rows], rows), -expected, atol=1e-9
        )
    each = np.vstack([weights, weights[::-1]])
    np.testing.assert_allclose(
        bank.compact(np.arange(4), rows).decision(new, each, coef[rows]),
        np.column_stack(
            [bank.cross(new, w, rows) @ c for w, c in zip(each, coef[rows].T, strict=True)]
        ),
        atol=1e-9,
    )


def test_rows_that_count_more_and_rows_that_lack_a_view() -> None:
    weight = rng.integers(1, 4, 120).astype(float)
    gaps = X.copy()
    gaps[rng.random(120) < 0.3, :2] = np.nan
    options = {"views": {"a": [0, 1], "b": [2, 3]}, "kernels": [Gaussian(2.0), Linear()]}
    new = rng.normal(size=(6, 4))
    new[2, :2] = np.nan
    exact = fitted(None, gaps, sample_weight=weight, storage="dense", **options)
    low = fitted(Cholesky(tol=1e-9), gaps, sample_weight=weight, **options)
    np.testing.assert_allclose(arrays(low), arrays(exact), atol=1e-6)
    coef, weights = rng.normal(size=120), rng.random(4)
    some = np.flatnonzero(coef > 0.0)
    for rule in (slice(None), some):
        rows = np.arange(120)[rule]
        expected = exact.decision(new, weights, coef[rows], rows)
        np.testing.assert_allclose(
            low.decision(new, weights, coef[rows], rows), expected, atol=1e-5
        )
        np.testing.assert_allclose(
            low.compact(np.arange(4), rows).decision(new, weights, coef[rows]), expected, atol=1e-5
        )


@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=repr)
def test_a_model_end_to_end(approximation: Any, tmp_path: Path) -> None:
    bank = KernelBank(KERNELS, views="all+each", approximation=approximation)
    model = MKLClassifier(bank, C=2.0).fit(X, Y)
    assert model.duality_gap_ <= 1e-3 and model.score(X, Y) > 0.85
    values = model.decision_function(X)
    coef = np.zeros(120)
    coef[model.support_] = model.dual_coef_[0]
    K = model.combined_kernel(X)
    np.testing.assert_allclose(values, K @ coef + model.intercept_, atol=1e-8)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), values)
    model.save(tmp_path / "m.kweave")
    np.testing.assert_array_equal(load(tmp_path / "m.kweave").decision_function(X), values)
    assert repr(approximation) in repr(model)
    assert "for exact kernels" in report.certificate(model)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("approximation", APPROXIMATIONS[:2], ids=repr)
def test_the_gap_for_exact_kernels_holds(
    approximation: Any, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether by a pass over the support rows or by the bound that needs none."""
    if not few:
        monkeypatch.setattr(SETTINGS, "exact_pass", 0)
    kernels = [Gaussian(1.5), Linear(), Gaussian(4.0)]
    exact = MKLClassifier(KernelBank(kernels), C=1.0, tol=1e-6).fit(X, Y)
    assert exact.exact_gap_ == exact.duality_gap_
    low = MKLClassifier(KernelBank(kernels, approximation=approximation), C=1.0, tol=1e-6).fit(X, Y)
    assert 0.0 < low.exact_gap_ < 1.0 and low.exact_gap_ > low.duality_gap_
    assert low.objective_ >= exact.solution_.dual
    assert low.objective_ * (1.0 - low.exact_gap_) <= exact.objective_
    if few:  # and by a pass it is what duality_gap says of that point
        K = KernelBank(kernels, storage="dense").fit(X).stack
        y = np.where(Y == "yes", 1.0, -1.0)
        solution = low.solution_
        judged = duality_gap(K, y, solution.weights, solution.coef, solution.bias, C=1.0,
                             dual_alpha=solution.dual_alpha)  # fmt: skip
        assert judged.dual <= low.objective_ * (1.0 - low.exact_gap_) + 1e-6


def test_random_features_are_bounded_on_both_sides() -> None:
    """Their kernels are not below the exact ones: the primal is that of the exact f, too."""
    for features in (20, 400):
        low = MKLClassifier(KernelBank(KERNELS, approximation=RandomFeatures(features))).fit(X, Y)
        exact = MKLClassifier(KernelBank(KERNELS), tol=1e-6).fit(X, Y)
        judged = duality_gap(
            KernelBank(KERNELS).fit(X).stack,
            np.where(Y == low.classes_[1], 1.0, -1.0),
            low.solution_.weights,
            low.solution_.coef,
            low.solution_.bias,
            C=1.0,
            dual_alpha=low.solution_.dual_alpha,
        )
        assert exact.objective_ <= judged.primal * (1.0 + 1e-9)
        assert low.duality_gap_ < low.exact_gap_ <= judged.gap + 1e-9
    assert low.exact_gap_ < 0.5  # many features are nearly exact


def test_what_is_not_known_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "exact_pass", 10)
    random = MKLClassifier(KernelBank(KERNELS, approximation=RandomFeatures(50))).fit(X, Y)
    assert random.exact_gap_ is None
    assert "nothing is known" in report.certificate(random)
    plain = MKLClassifier(KernelBank(KERNELS)).fit(X, Y)
    assert "exact kernels" not in report.certificate(plain)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (MKLRegressor(tol=1e-4), np.sin(3.0 * X[:, 0])),
        (MKLClassifier(C="learn", loss="squared_hinge", tol=1e-4), Y),
        (MKLClassifier(learner="uniform", tol=1e-4), Y),
        (MKLClassifier(weight_norm=2, tol=1e-4), np.where(X[:, 3] > 1.0, "rare", Y)),
    ],
    ids=["regression", "C", "uniform", "classes"],
)
def test_every_machine_has_a_gap_for_exact_kernels(model: Any, y: np.ndarray) -> None:
    exact = clone(model).set_params(kernels=KernelBank(KERNELS)).fit(X, y)
    low = model.set_params(kernels=KernelBank(KERNELS, approximation=Nystroem(30))).fit(X, y)
    assert 0.0 < low.exact_gap_ <= 1.0
    assert low.objective_ * (1.0 - low.exact_gap_) <= exact.objective_ * (1.0 + 1e-9)


def test_text_and_folds() -> None:
    """Any kernel has landmarks; parts of a table compute nothing for all of its rows."""
    words = rng.permutation(np.array(["red green", "green blue", "blue", "red red"] * 30))[:, None]
    low = fitted(Nystroem(40), words, kernels=[BagOfWords()])
    exact = fitted(None, words, kernels=[BagOfWords()])
    np.testing.assert_allclose(arrays(low), arrays(exact), atol=1e-10)
    table = share(X, 1e9)
    part = fitted(Nystroem(20), table.take(np.arange(50)))
    assert not table.store._found
    np.testing.assert_allclose(arrays(part), arrays(fitted(Nystroem(20), X[:50])), atol=1e-12)


@pytest.mark.parametrize(
    ("approximation", "error", "told"),
    [
        ("nystroem", TypeError, "approximation must be None, Nystroem"),
        (Nystroem(0), ValueError, "Nystroem: n_landmarks must be positive"),
        (Nystroem(5, random_state=-1), ValueError, "random_state"),
        (Cholesky(rank=-3), ValueError, "Cholesky: rank"),
        (Cholesky(tol=1e-14), ValueError, 'storage="factors"'),
        (RandomFeatures(1), ValueError, "at least 2"),
    ],
)
def test_bad_arguments(approximation: Any, error: type, told: str) -> None:
    with pytest.raises(error, match=told):
        KernelBank(approximation=approximation).fit(X)


def test_kernels_that_cannot_be_approximated() -> None:
    with pytest.raises(ValueError, match="may not be positive semidefinite"):
        fitted(Nystroem(5), kernels=[lambda a, b: a @ b.T])
    with pytest.raises(ValueError, match="use Nystroem"):
        fitted(
            Cholesky(5), np.array([["red blue"], ["blue sky"], ["sky"]] * 9), kernels=[BagOfWords()]
        )


@pytest.mark.parametrize("approximation", [Nystroem(8), Cholesky(8), RandomFeatures(8)])
@pytest.mark.parametrize("sparse", [False, True])
def test_linear_kernels_of_few_columns_are_exact(approximation: object, sparse: bool) -> None:
    """Landmarks drawn at random would miss levels that are rare."""
    rng = np.random.default_rng(8)
    codes = np.eye(8)[np.minimum(rng.geometric(0.5, 200) - 1, 7)]
    X = scipy.sparse.csr_matrix(codes) if sparse else codes
    y = np.where(codes[:, 1] + codes[:, 5] + 0.2 * rng.normal(size=200) > 0.5, 1, -1)
    bank = KernelBank([("codes", Linear())], scale=None, approximation=approximation)
    stack = bank.fit(X).stack
    np.testing.assert_allclose(
        stack.block(0, np.arange(9), np.arange(9)), 1.0 * (codes @ codes.T)[:9, :9]
    )
    model = MKLClassifier(bank, C=1.0).fit(X, y)
    exact = MKLClassifier(KernelBank([("codes", Linear())], scale=None), C=1.0).fit(X, y)
    assert model.exact_gap_ is None or model.exact_gap_ == pytest.approx(
        model.duality_gap_, abs=1e-9
    )
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=0.02)


@pytest.mark.parametrize("approximation", [None, Nystroem(20)], ids=repr)
def test_a_fitted_bank_never_changes(approximation: Any) -> None:
    """What rows come to under few features is summed once, when the bank is made compact."""
    coef, weights, new = rng.normal(size=120), np.ones(4), X[:5] + 0.1
    bank = fitted(approximation)
    compact = bank.compact(np.arange(4), coef=coef)
    assert bool(compact._images) is (approximation is not None)
    held = [dict(vars(one)) for one in (bank, compact)]
    expected = bank.cross(new, weights) @ coef
    for one, before in zip((bank, compact), held, strict=True):
        for c, sign in ((coef, 1.0), (-coef, -1.0)):
            np.testing.assert_allclose(one.decision(new, weights, c), sign * expected, atol=1e-9)
        assert all(vars(one)[name] is value for name, value in before.items())
        assert vars(one).keys() == before.keys()
