"""What cross-validated estimators make of rows that do not count, scores and odd input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold, PredefinedSplit

from kernelweave import Linear, MKLClassifier, MKLClassifierCV, MKLRegressorCV
from kernelweave.estimators import _search

rng = np.random.default_rng(3)
X = rng.normal(size=(60, 3))
Y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
W = np.r_[np.zeros(12), np.ones(48)]
FEW = {"banks": [Linear()], "Cs": [0.1, 1.0], "weight_norms": ["equal"]}


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored by KFold")
@pytest.mark.parametrize("cv", [None, 4, KFold(5)])
def test_rows_of_weight_0_are_left_out_before_folds_are_cut(cv):
    groups = np.arange(60) // 2
    by_weight = MKLRegressorCV(**FEW, cv=cv).fit(X, X[:, 0], groups, W)
    without = MKLRegressorCV(**FEW, cv=cv).fit(X[12:], X[12:, 0], groups[12:], W[12:])
    np.testing.assert_allclose(
        by_weight.cv_results_["mean_test_score"], without.cv_results_["mean_test_score"]
    )
    np.testing.assert_allclose(by_weight.predict(X), without.predict(X))


def test_a_class_of_weight_0_is_none():
    y = np.where(W > 0, Y, 2)
    model = MKLClassifierCV(**FEW).fit(X, y, sample_weight=W)
    assert model.classes_.tolist() == [0, 1]
    without = MKLClassifierCV(**FEW).fit(X[12:], y[12:], sample_weight=W[12:])
    assert model.best_score_ == without.best_score_


@pytest.mark.parametrize("listed", [True, False])
def test_row_numbers_of_cv_count_all_rows(listed):
    fold = np.arange(60) % 3
    cv = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    model = MKLClassifierCV(**FEW, cv=cv if listed else PredefinedSplit(fold))
    model.fit(X, Y, sample_weight=W)
    without = MKLClassifierCV(**FEW, cv=PredefinedSplit(fold[12:]))
    without.fit(X[12:], Y[12:], sample_weight=W[12:])
    for k in range(3):
        name = f"split{k}_test_score"
        np.testing.assert_allclose(model.cv_results_[name], without.cv_results_[name])


def test_there_are_no_probabilities():
    assert not hasattr(MKLClassifier(), "predict_proba")
    with pytest.raises(AttributeError, match=r"no probabilities\. Use CalibratedClassifierCV"):
        _ = MKLClassifier().predict_proba


def test_matrices_are_given_with_row_numbers():
    K = X @ X.T
    for given in ([K, K], X):
        with pytest.raises(ValueError, match=r"not for MKLClassifierCV.*Precomputed\(K1\)"):
            MKLClassifierCV("precomputed").fit(given, Y)


def test_a_class_of_one_row_is_named():
    y = np.where(np.arange(60) == 7, "rare", np.where(Y == 1, "yes", "no"))
    with pytest.raises(ValueError, match="class 'rare' has the fewest"):
        MKLClassifierCV(**FEW).fit(X, y)


@pytest.mark.filterwarnings("ignore:Only one class")
def test_scores_that_are_not_finite():
    with pytest.raises(ValueError, match=r"No candidate can be chosen.*stratified"):
        MKLClassifierCV(**FEW, scoring="roc_auc", cv=KFold(4)).fit(X, np.sort(Y))

    scores = iter([np.nan, *np.linspace(0, 1, 9)])
    model = MKLClassifierCV(**FEW, scoring=lambda *_: next(scores))
    with pytest.warns(UserWarning, match="1 of 10 scores are not finite"):
        model.fit(X, Y)
    assert model.best_index_ == 1


@pytest.mark.parametrize("kind", [MKLClassifierCV, MKLRegressorCV])
@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        (["accuracy"], r"scoring must be one score: .* found \['accuracy'\]"),
        ({"a": "accuracy"}, "scoring must be one score: .* found {'a': 'accuracy'}"),
        (3, "scoring must be one score: .* found 3"),
        ("acuracy", "scoring must be .* found 'acuracy'; did you mean 'accuracy'"),
    ],
)
def test_there_is_one_score(kind, scoring, message, monkeypatch):
    monkeypatch.setattr(_search, "in_threads", None)  # nothing is fitted
    with pytest.raises((TypeError, ValueError), match=message):
        kind(**FEW, scoring=scoring).fit(X, Y)


@pytest.mark.parametrize("score", ["high", None, [0.5], {"a": 0.5}])
def test_a_score_is_a_number(score):
    with pytest.raises(TypeError, match="scoring must return one number for a model, but gave"):
        MKLClassifierCV(**FEW, scoring=lambda *_: score).fit(X, Y)


@pytest.mark.parametrize("kind", [MKLClassifier, MKLClassifierCV])
def test_verbose_is_a_number(kind):
    with pytest.raises(TypeError, match="verbose must be an integer"):
        kind(verbose="a").fit(X, Y)


@pytest.mark.parametrize("n", [4, 5, 9])
def test_few_rows_of_numbers_get_folds_that_can_be_scored(n):
    """R² of one row is undefined; folds of two rows are the smallest."""
    rows = np.random.default_rng(0).normal(size=(n, 3))
    model = MKLRegressorCV().fit(rows, rows[:, 0])
    assert model.n_splits_ == n // 2
    with (
        warnings.catch_warnings(),
        pytest.raises(ValueError, match=r"R² needs two rows in each fold.*fewer folds \(cv\)"),
    ):
        warnings.simplefilter("ignore")
        MKLRegressorCV(cv=n - 1).fit(rows, rows[:, 0])


def test_labels_with_fractions_show_one_that_has_some():
    with pytest.raises(ValueError, match=r"such as 1\.5: to predict numbers"):
        MKLClassifierCV().fit(np.eye(10), np.array([0.0, 1.5] * 5))
