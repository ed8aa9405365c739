"""Held-out scores are those of scikit-learn, and their intervals those of Nadeau and Bengio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from inspection.several_views import VIEWS, bank, rows
from scipy.stats import t
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, cross_val_score

from kernelweave import KernelBank, Linear, MKLClassifier, MKLOneClass, MKLRegressor, Precomputed
from kernelweave.inspection import compare, drop_view, permutation_importance, single_view
from kernelweave.inspection.comparison import Comparison
from kernelweave.inspection.held_out import HeldOut, told

X, Y = rows(effect=0.5)
MODEL = MKLClassifier(bank(), tol=1e-6)
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


def by_scikit_learn(scoring=None, views=None, **params):
    model = clone(MODEL).set_params(kernels=bank(**(views or {})), **params)
    return cross_val_score(model, X, Y, cv=FOLDS, scoring=scoring)


@pytest.mark.parametrize("scoring", [None, "roc_auc"])
def test_scores_are_those_of_scikit_learn(scoring):
    found = compare(MODEL, X, Y, cv=FOLDS, scoring=scoring)
    assert found.names == (
        "learned weights",
        "equal weights",
        "best single view",
        "all views as one",
    )
    np.testing.assert_allclose(found.scores[:, 0], by_scikit_learn(scoring))
    np.testing.assert_allclose(found.scores[:, 1], by_scikit_learn(scoring, learner="uniform"))
    joint = by_scikit_learn(scoring, {"all": slice(0, 12)})
    np.testing.assert_allclose(found.scores[:, 3], joint)
    singles = [by_scikit_learn(scoring, {name: columns}) for name, columns in VIEWS.items()]
    for fold, score in enumerate(found.scores[:, 2]):  # the view was chosen in the training rows
        assert any(score == pytest.approx(scores[fold]) for scores in singles)


def test_one_view_less_and_one_view_alone():
    less = drop_view(MODEL, X, Y, cv=FOLDS)
    rest = {name: VIEWS[name] for name in ("a", "noise")}
    np.testing.assert_allclose(
        less.scores[:, less.names.index("without b")], by_scikit_learn(None, rest)
    )
    alone = single_view(MODEL, X, Y, cv=FOLDS)
    own = by_scikit_learn(None, {"b": VIEWS["b"]})
    np.testing.assert_allclose(alone.scores[:, alone.names.index("only b")], own)
    with pytest.raises(ValueError, match="needs several views"):
        drop_view(MKLClassifier(), X, Y)


def test_shuffling_noise_costs_nothing():
    found = permutation_importance(MODEL, X, Y, n_repeats=1, n_shuffles=5, scoring="roc_auc")
    assert found.difference("a shuffled")[0] > 0.05
    assert abs(found.difference("noise shuffled")[0]) < 0.05


def test_intervals_count_the_overlap_of_training_sets():
    values = np.array([0.1, 0.3, 0.2, 0.4])
    found = HeldOut(("x",), values[:, None], "accuracy", ratio=0.25, level=0.9)
    half = t.ppf(0.95, 3) * np.sqrt((1 / 4 + 0.25) * values.var(ddof=1))
    assert found.score("x") == pytest.approx((0.25, 0.25 - half, 0.25 + half))


@pytest.mark.parametrize(
    ("shift", "spread", "word"),
    [
        (0.1, 0.01, "are better than"),
        (-0.1, 0.01, "are worse than"),
        (-0.01, 0.1, "are no better than"),
        (0.01, 0.1, "are not shown to be better than"),
    ],
)
def test_the_verdict_follows_the_interval(shift, spread, word):
    noise = np.array([1.0, -1.0, 1.0, -1.0]) * spread
    scores = np.column_stack([0.8 + shift + noise, np.full(4, 0.8)])
    found = Comparison(("learned weights", "equal weights"), scores, "accuracy", 0.25)
    assert found.verdict.startswith(f"Learned weights {word} equal weights: accuracy")
    assert "difference" in found.verdict and "against 0.80" in found.verdict


def test_regression_and_what_cannot_be_compared():
    y = X[:, 0] + X[:, 5]
    found = compare(MKLRegressor(bank()), X, y, cv=3, n_repeats=1)
    assert found.scoring == "R²" and len(found.frame()) == 4 and len(found.tidy()) == 12
    one = compare(MKLClassifier(KernelBank([Linear()])), X, Y, cv=3, n_repeats=1)
    assert set(one.left_out) == {"best single view", "all views as one"}
    K = X @ X.T
    given = MKLClassifier([("k", Precomputed(K)), ("2", Precomputed(K**2))])
    rows_of = np.arange(len(X))[:, None]
    assert "all views as one" in compare(given, rows_of, Y, cv=3, n_repeats=1).left_out
    with pytest.raises(ValueError, match="need targets"):
        compare(MKLOneClass(bank()), X, None)


def test_groups_are_never_split():
    groups = np.repeat(np.arange(20), 3)
    found = compare(MODEL, X, Y, cv=3, n_repeats=1, groups=groups)
    assert found.scores.shape == (3, 4)


def test_intervals_end_at_the_best_score_there_is():
    found = compare(MODEL, X, Y, cv=3, n_repeats=1)
    scores = replace(found, scores=np.array([[1.0, 0.9], [0.9, 1.0], [1.0, 1.0]]), names=("a", "b"))
    assert scores.score("a")[2] == 1.0
    assert replace(scores, most=np.inf, rows=None).score("a")[2] > 1.0
    with pytest.raises(ValueError, match="cv must lie between 2 and"):
        compare(MODEL, X, Y, cv=1000)
    with pytest.raises(ValueError, match="cv must make two splits or more, found 1"):
        compare(MODEL, X, Y, cv=StratifiedShuffleSplit(1))


def test_options_are_checked():
    with pytest.raises(TypeError, match="drop_view has no option 'folds'; known: 'cv'"):
        drop_view(MODEL, X, Y, folds=3)
    with pytest.raises(ValueError, match="level must be between 0 and 1, found 95"):
        compare(MODEL, X, Y, level=95)


def test_a_model_that_was_not_compared_is_refused_by_name():
    scores = np.array([[0.9, 0.8], [0.8, 0.8]])
    left_out = {"all views as one": "6 rows lack a view."}
    names = ("learned weights", "equal weights")
    found = Comparison(names, scores, "accuracy", 0.25, left_out=left_out)
    for ask in (found.sentence, found.score, found.difference):
        with pytest.raises(
            ValueError, match=r"'best view' .* known: 'learned .*', 'equal weights'"
        ):
            ask("best view")
        with pytest.raises(ValueError, match=r"'all views as one' .* left out: 6 rows lack a view"):
            ask("all views as one")


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0.0857, 0.0013, 0.17), "0.086 [0.001, 0.170]"),
        ((-0.05, -0.1, -0.0042), "−0.050 [−0.100, −0.004]"),
        ((0.02, -0.00004, 0.04), "0.02000 [−0.00004, 0.04000]"),
        ((0.002, -0.03, 0.04), "0.00 [−0.03, 0.04]"),
        ((0.0, 0.0, 0.0), "0.00 [0.00, 0.00]"),
        ((1e-17, -1e-16, 1e-16), "0.00 [0.00, 0.00]"),
    ],
)
def test_ends_of_intervals_show_on_which_side_of_zero_they_are(numbers, words):
    assert told(*numbers) == words
