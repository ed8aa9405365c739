"""Intervals of held-out scores count rows, and hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from inspection.several_views import bank, rows
from scipy.stats import binom, binomtest, multinomial
from sklearn.metrics import make_scorer, roc_auc_score

from kernelweave import MKLClassifier, MKLRegressor
from kernelweave.inspection import compare, permutation_importance
from kernelweave.inspection.held_out import HeldOut
from kernelweave.inspection.held_rows import Held, HeldRows, Score, exact

NOMINAL, LEAST = 0.95, 0.92


def test_all_right_is_no_certainty():
    """40 of 40: the exact lower end is 0.912; the difference of two such models can be 0.088."""
    X, y = rows(40, effect=4.0)
    found = compare(MKLClassifier(bank()), X, y, n_repeats=2)
    least = binomtest(40, 40).proportion_ci(NOMINAL).low
    for name in found.names:
        assert found.score(name) == pytest.approx((1.0, least, 1.0))
    for name in found.names[1:]:
        assert found.difference(name) == pytest.approx((0.0, least - 1.0, 1.0 - least), abs=2e-3)
    assert "no better than equal weights" in found.verdict and "[0.00, 0.00]" not in found.verdict


@pytest.mark.parametrize("scoring", ["roc_auc", make_scorer(roc_auc_score), "f1_macro"])
def test_no_interval_has_width_0_whatever_the_score(scoring):
    X, y = rows(40, effect=4.0)
    y = np.where(y == "yes", 1, 0)
    found = compare(MKLClassifier(bank()), X, y, cv=4, n_repeats=1, scoring=scoring)
    for name in found.names:
        mean, low, high = found.score(name)
        assert mean == 1.0 and 0.7 < low < 0.95 and high >= 1.0
    for name in found.names[1:]:
        mean, low, high = found.difference(name)
        assert mean == 0.0 and -0.3 < low < -0.03 and high == -low


def test_a_rare_class_limits_what_other_scores_prove():
    """All pairs ranked right: 10 rows of the rarer class prove less than 20, whatever there is of
    the other."""
    rng, low = np.random.default_rng(0), []
    for rare in (10, 20):
        y = np.repeat([0, 1], [60 - rare, rare])
        X = rng.normal(size=(60, 3)) + 9.0 * y[:, None]
        found = compare(MKLClassifier(), X, y, n_repeats=1, scoring="roc_auc")
        low.append(found.score(found.names[0])[1])
    assert low[0] < binomtest(10, 10).proportion_ci(NOMINAL).low + 0.1 < low[1] < 0.95


def test_balanced_accuracy_counts_the_rows_of_each_class():
    """30 and 10 rows, all right: the rarer class leaves the more open."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [30, 10])
    X = rng.normal(size=(40, 3)) + 9.0 * y[:, None]
    found = compare(MKLClassifier(), X, y, n_repeats=1, scoring="balanced_accuracy")
    below = [1.0 - binomtest(n, n).proportion_ci(NOMINAL).low for n in (30, 10)]
    assert found.score(found.names[0])[1] == pytest.approx(1.0 - np.linalg.norm(below) / 2.0)


def test_groups_count_as_one_row_each():
    X, y = rows(40, effect=4.0)
    groups = np.repeat(np.arange(10), 4)
    found = compare(MKLClassifier(bank()), X, y, n_repeats=1, groups=groups, cv=5)
    least = binomtest(10, 10).proportion_ci(NOMINAL).low
    assert found.score(found.names[0])[1] == pytest.approx(least)


def test_equal_models_of_numbers_have_an_interval():
    X, _ = rows(40)
    y = X @ np.arange(12.0)
    found = permutation_importance(MKLRegressor(bank()), X, y, n_repeats=1, n_shuffles=2)
    same = HeldOut(("a", "b"), found.scores[:, [0, 0]], "R²", 0.25, rows=found.rows)
    mean, low, high = same.difference("b")
    assert mean == 0.0 and low < 0.0 < high


def test_where_nothing_is_known_the_interval_says_so():
    held = [Held.of(np.arange(4), np.zeros(4, dtype=int))] * 2
    same = {"a": Score(0.5, None, 0.5), "b": Score(0.5, None, 0.5)}
    lines = HeldRows.of(held, [same] * 2, classes=True)
    found = HeldOut(("a", "b"), np.full((2, 2), 0.5), "score", 0.25, rows=lines)
    assert found.score("a") == (0.5, -np.inf, np.inf)
    assert "[−∞, ∞]" in repr(found)


def test_repeats_add_no_rows():
    """Where rows are not counted one by one, cutting them again adds no degrees of freedom."""
    values = np.array([0.7, 0.8, 0.9, 0.8, 0.7])
    widths = []
    for times in (1, 4):
        held = [Held.of(np.arange(4) + 4 * k, np.zeros(4, dtype=int)) for k in range(5)] * times
        scores = [{"a": Score(v, None, 0.5)} for v in values] * times
        lines = HeldRows.of(held, scores, classes=False)
        found = HeldOut(("a",), np.tile(values, times)[:, None], "R²", 0.25, rows=lines)
        assert lines.freedom(5 * times) == 4.0
        widths.append(np.diff(found.score("a")[1:])[0])
    assert widths[1] > 0.7 * widths[0]


def coverage_of_a_share(n: int, p: float) -> float:
    k = np.arange(n + 1)
    low, high = exact(k / n, np.full(n + 1, n), NOMINAL)
    return float(binom.pmf(k, n, p)[(low <= p) & (p <= high)].sum())


def test_exact_limits_are_those_of_scipy():
    for k in range(21):
        low, high = exact(np.array([k / 20]), np.array([20]), NOMINAL)
        assert (low[0], high[0]) == pytest.approx(binomtest(k, 20).proportion_ci(NOMINAL))


@pytest.mark.parametrize("n", [20, 50, 150, 500])
def test_a_share_is_covered_at_every_accuracy(n):
    """All outcomes, weighted by their probabilities: no simulation is needed."""
    found = [coverage_of_a_share(n, p) for p in np.linspace(0.5, 1.0, 101)]
    assert min(found) >= NOMINAL


def lines_of(right: np.ndarray, repeats: int = 1) -> HeldRows:
    """Rows (n, n_models), right or not, each held out once."""
    n = len(right)
    names = [f"m{k}" for k in range(right.shape[1])]
    scores = {name: Score(float(r.mean()), r) for name, r in zip(names, right.T, strict=True)}
    return HeldRows.of([Held.of(np.arange(n), np.zeros(n, dtype=int))], [scores], classes=True)


@pytest.mark.parametrize("n", [20, 60])
def test_a_difference_is_covered_however_many_rows_are_discordant(n):
    """All outcomes again: b rows that only one of the models predicts right, c the other alone."""
    b, c = (x.ravel() for x in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    b, c = b[b + c <= n], c[b + c <= n]
    first = np.arange(n) < b[:, None]
    other = (np.arange(n) >= b[:, None]) & (np.arange(n) < (b + c)[:, None])
    ends = [
        lines_of(np.column_stack([u, v]).astype(float)).of_difference(0, 1, (0.0, 0.0), NOMINAL)
        for u, v in zip(first, other, strict=True)
    ]
    low, high = np.array(ends).T
    assert (high - low).min() > 1.0 / n
    for share in (0.01, 0.03, 0.1, 0.2, 0.5, 1.0):
        for better in (0.5, 0.7, 0.9, 1.0):
            chances = share * better, share * (1.0 - better), 1.0 - share
            weight = multinomial.pmf(np.stack([b, c, n - b - c], axis=1), n, chances)
            truth = chances[0] - chances[1]
            held = (low <= truth + 1e-12) & (truth <= high + 1e-12)
            assert weight[held].sum() >= LEAST, (share, better)


@pytest.mark.parametrize(("n", "p"), [(20, 0.97), (20, 0.6), (100, 0.99), (100, 0.9)])
def test_the_interval_of_a_cross_validation_holds_its_truth(n, p):
    """Four repeats of five folds of the same rows, as ``compare`` cuts them."""
    rng, hits, draws = np.random.default_rng(n), 0, 400
    cuts = [fold for _ in range(4) for fold in np.array_split(rng.permutation(n), 5)]
    for _ in range(draws):
        right = (rng.random(n) < p).astype(float)
        held = [Held.of(fold, np.zeros_like(fold)) for fold in cuts]
        scores = [{"m": Score(float(right[fold].mean()), right[fold])} for fold in cuts]
        values = np.array([[one["m"].value] for one in scores])
        lines = HeldRows.of(held, scores, classes=True)
        _, low, high = HeldOut(("m",), values, "accuracy", 0.25, rows=lines).score("m")
        hits += low <= p <= high
    assert hits >= LEAST * draws
