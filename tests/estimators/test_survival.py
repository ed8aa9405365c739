"""Times to an event: optima, ranks, curves, folds, files, missing views, inspection."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _helpers.textbook import loss_optimum
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelweave import (
    Gaussian,
    KernelBank,
    Linear,
    MKLRegressor,
    MKLSurvival,
    MKLSurvivalCV,
    Precomputed,
    load,
    to_onnx,
)
from kernelweave.estimators._times import concordance
from kernelweave.inspection import compare, select_views, stability

N = 90
BOTH = [Gaussian(1.0), Linear()]
VIEWS = KernelBank([Gaussian(relative=True)], views={"a": [0, 1], "b": [2], "c": [3]})
CURVES = "held_out_risks_", "event_times_", "baseline_hazard_", "risk_slope_", "risk_origin_"


def patients(seed: int, n: int = N) -> tuple[Any, Any]:
    """Times that depend on the first column, and a third of them censored."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    times, seen = np.exp(X[:, 0] + 0.4 * rng.standard_normal(n)), rng.exponential(3.0, n)
    y = np.empty(n, [("dead", bool), ("days", float)])
    y["dead"], y["days"] = times <= seen, 30.0 * np.minimum(times, seen)
    return X, y


X, Y = patients(0)


def standard_ends(fitted: Any, y: Any) -> Any:
    logs = (np.log(y["days"]) - fitted.target_mean_[0]) / fitted.target_scale_[0]
    return np.stack([logs, np.where(y["dead"], logs, np.inf)], axis=1)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_optimum(C: float) -> None:
    weights = np.ones(N)
    weights[::3] = 0.4
    bank = KernelBank(BOTH, normalize=None, scale=None)
    fitted = MKLSurvival(bank, C, tol=1e-8, folds=None).fit(X, Y, weights)
    assert fitted.target_mean_ == pytest.approx(np.average(np.log(Y["days"]), weights=weights))
    K = np.stack([bank.fit(X).stack.block(k, *2 * [np.arange(N)]) for k in range(2)])
    best = loss_optimum(K, standard_ends(fitted, Y), C * weights, "interval", epsilon=0.1)
    assert fitted.objective_ == pytest.approx(best, rel=1e-6)
    assert fitted.duality_gap_ <= 1e-8


def test_it_is_a_regression_of_logarithms() -> None:
    logs = np.log(Y["days"])
    ends = np.stack([logs, np.where(Y["dead"], logs, np.inf)], axis=1)
    fitted = MKLSurvival(BOTH).fit(X, Y)
    same = MKLRegressor(BOTH, 0.1, loss="interval").fit(X, ends)
    np.testing.assert_array_equal(fitted.predict(X), -same.predict(X))
    np.testing.assert_allclose(fitted.predict_time(X), np.exp(same.predict(X)))
    risk = fitted.predict(X)
    assert fitted.score(X, Y) == concordance(Y["days"], Y["dead"], risk) > 0.75


def test_scores_are_those_of_scikit_survival() -> None:
    metrics = pytest.importorskip("sksurv.metrics")
    fitted = MKLSurvival(BOTH).fit(X, Y)
    new, y = patients(5)
    expected = metrics.concordance_index_censored(y["dead"], y["days"], fitted.predict(new))[0]
    assert fitted.score(new, y) == pytest.approx(expected, rel=1e-12)


def test_forms_of_y_and_weights() -> None:
    fitted = MKLSurvival(BOTH).fit(X, Y)
    two = np.column_stack([Y["days"], Y["dead"]])
    for y in (two, pd.DataFrame(two, columns=["days", "dead"]), two.tolist()):
        same = MKLSurvival(BOTH).fit(X, y)
        np.testing.assert_array_equal(same.predict(X), fitted.predict(X))
        assert same.score(X, y) == fitted.score(X, Y)
    weights = np.random.default_rng(2).integers(0, 3, N)
    rows = np.repeat(np.arange(N), weights)
    weighted = MKLSurvival(BOTH, tol=1e-8).fit(X, Y, weights)
    repeated = MKLSurvival(BOTH, tol=1e-8, folds=None).fit(X[rows], Y[rows])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7)
    assert (np.isnan(weighted.held_out_risks_) == (weights == 0)).all()


def test_curves_come_from_rows_held_out() -> None:
    fitted = MKLSurvival(BOTH).fit(X, Y)
    held = concordance(Y["days"], Y["dead"], fitted.held_out_risks_)
    assert 0.7 < held < fitted.score(X, Y)
    assert fitted.event_times_.tolist() == sorted(set(Y["days"][Y["dead"]]))
    curves = fitted.predict_survival_function(X)
    assert curves.shape == (N, fitted.event_times_.size)
    assert (np.diff(curves, axis=1) <= 0.0).all() and (curves <= 1.0).all()
    order = np.argsort(fitted.predict(X))
    assert (np.diff(curves[order], axis=0) <= 0.0).all()
    at = fitted.predict_survival_function(X[:5], [0.0, 1e9])
    assert (at[:, 0] == 1.0).all() and (at[:, 1] == curves[:5, -1]).all()
    new, y = patients(6, 600)  # right on average: alive in truth against the mean curve
    truth = np.exp(new[:, 0]) * 30.0
    found = fitted.predict_survival_function(new, [20.0, 60.0]).mean(axis=0)
    assert found == pytest.approx([np.mean(truth > 20.0), np.mean(truth > 60.0)], abs=0.12)
    assert y.size == 600


def test_no_curves() -> None:
    for model in (MKLSurvival(BOTH, folds=None).fit(X, Y), MKLSurvival(BOTH).fit(X, one_event())):
        with pytest.raises(AttributeError, match="no survival curves: they need folds=5"):
            model.predict_survival_function(X)
    fitted = MKLSurvival(BOTH).fit(X, Y)
    for times in ([-1.0], [[1.0]], [np.nan]):
        with pytest.raises(ValueError, match="times must be a list of numbers ≥ 0"):
            fitted.predict_survival_function(X, times)
    with pytest.raises(ValueError, match="folds must be 2 or more"):
        MKLSurvival(folds=1).fit(X, Y)


def one_event() -> Any:
    y = Y.copy()
    y["dead"] = np.arange(N) == 7
    return y


def test_groups_are_held_out_together() -> None:
    groups = np.arange(N) // 3
    fitted = MKLSurvival(BOTH).fit(X, Y, groups=groups)
    assert np.isfinite(fitted.held_out_risks_).all()
    assert (fitted.held_out_risks_ != MKLSurvival(BOTH).fit(X, Y).held_out_risks_).any()


def test_folds_that_cannot_be_learned_are_told() -> None:
    groups = np.where(Y["dead"], 0, 1 + np.arange(N) % 4)  # all events in one group
    with pytest.warns(UserWarning, match="no survival curves.*holds no event"):
        fitted = MKLSurvival(BOTH).fit(X, Y, groups=groups)
    assert fitted.score(X, Y) > 0.7 and not hasattr(fitted, "event_times_")


def test_what_is_refused_and_told() -> None:
    none = Y.copy()
    none["dead"] = False
    with pytest.raises(ValueError, match="y holds no event"):
        MKLSurvival().fit(X, none)
    with pytest.raises(ValueError, match="y holds no event"):
        MKLSurvival().fit(X, Y, sample_weight=np.where(Y["dead"], 0.0, 1.0))
    with pytest.raises(ValueError, match="no time above 0"):
        MKLSurvival().fit(X, np.zeros(N))
    with pytest.raises(ValueError, match="negative times"):
        MKLSurvival().fit(X, np.full(N, -1.0))
    with pytest.raises(ValueError, match="X has 90 rows, but y has 89"):
        MKLSurvival().fit(X, Y[1:])
    zeros = Y.copy()
    zeros["days"][:2] = 0.0
    least = 0.5 * Y["days"][2:].min()
    with pytest.warns(UserWarning, match="2 times in y are 0"):
        fitted = MKLSurvival(BOTH, folds=None).fit(X, zeros)
    zeros["days"][:2] = least
    np.testing.assert_array_equal(
        MKLSurvival(BOTH, folds=None).fit(X, zeros).predict(X), fitted.predict(X)
    )
    with pytest.warns(UndefinedMetricWarning, match="C-index is not defined"):
        assert np.isnan(fitted.score(X[:1], Y[:1]))


def test_choosing() -> None:
    bank = KernelBank(BOTH)
    chosen = MKLSurvivalCV(bank, [0.01, 0.1], [1, "equal"], cv=3).fit(X, Y)
    assert chosen.cv_results_["mean_test_score"].shape == (4,)
    folds = np.empty(N, dtype=int)
    for number, fold in enumerate(chosen._folds(as_training(), None)):
        folds[fold.test] = number
    assert np.ptp([Y["dead"][folds == k].mean() for k in range(3)]) < 0.05
    grid = GridSearchCV(
        MKLSurvival(bank, tol=1e-2, folds=None), {"C": [0.01, 0.1]}, cv=PredefinedSplit(folds)
    ).fit(X, Y)
    ours = chosen.cv_results_["mean_test_score"][:2]
    np.testing.assert_allclose(ours, grid.cv_results_["mean_test_score"], atol=5e-3)
    for name in CURVES:
        assert getattr(chosen, name) is getattr(chosen.best_estimator_, name)
    same = chosen.best_estimator_.predict_survival_function(X[:3])
    np.testing.assert_array_equal(chosen.predict_survival_function(X[:3]), same)
    np.testing.assert_allclose(chosen.predict_time(X), np.exp(-chosen.predict(X)))
    held = concordance(Y["days"], Y["dead"], chosen.held_out_risks_)
    assert held == pytest.approx(chosen.best_score_, abs=0.05)
    grouped = MKLSurvivalCV(bank, [0.1], [1], cv=3, random_state=0).fit(X, Y, np.arange(N) // 2)
    assert np.isfinite(grouped.best_score_)


def as_training() -> Any:
    from kernelweave.estimators._fit import read

    return read(MKLSurvival(), X, Y)


def test_folds_need_events() -> None:
    with pytest.raises(ValueError, match="at least 2 rows with an event, found 1"):
        MKLSurvivalCV().fit(X, one_event())
    split = [(np.flatnonzero(~Y["dead"]), np.flatnonzero(Y["dead"]))]
    with pytest.raises(ValueError, match="split 0 hold no event"):
        MKLSurvivalCV(cv=split).fit(X, Y)
    with pytest.raises(AttributeError, match="refit=False"):
        MKLSurvivalCV(KernelBank(BOTH), [0.1], [1], cv=2, refit=False).fit(X, Y).predict(X)


def test_scikit_learn_around_it(tmp_path: Path) -> None:
    scores = cross_val_score(make_pipeline(StandardScaler(), MKLSurvival(BOTH)), X, Y, cv=3)
    assert scores.mean() > 0.7
    fitted = MKLSurvival(BOTH).fit(X, Y)
    clone(fitted)
    fitted.save(tmp_path / "m.kweave")
    for again in (pickle.loads(pickle.dumps(fitted)), load(tmp_path / "m.kweave")):
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
        curves = again.predict_survival_function(X)
        np.testing.assert_array_equal(curves, fitted.predict_survival_function(X))
        assert again.score(X, Y) == fitted.score(X, Y)


def test_onnx_gives_the_logarithm_of_the_time(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    fitted = MKLSurvival(BOTH, folds=None).fit(X, Y)
    to_onnx(fitted, tmp_path / "m.onnx", double=True)
    values = runtime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"X": X})[0]
    np.testing.assert_allclose(values[:, 0], -fitted.predict(X), atol=1e-9)


def test_rows_may_lack_views_and_X_may_be_matrices() -> None:
    gaps = X.copy()
    gaps[::5, 2], gaps[1::5, :2] = np.nan, np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = MKLSurvival(VIEWS).fit(gaps, Y)
        assert fitted.score(gaps, Y) > 0.7
    assert np.isfinite(fitted.held_out_risks_).all() and fitted.seen_weight(gaps).min() < 1.0
    K = X @ X.T
    rows = np.arange(N)[:, None]
    named = MKLSurvival([Precomputed(K)]).fit(rows, Y)
    given = MKLSurvival("precomputed").fit([K], Y)
    np.testing.assert_allclose(given.predict([K]), named.predict(rows), rtol=1e-12)
    np.testing.assert_allclose(given.held_out_risks_, named.held_out_risks_, rtol=1e-6)


def test_inspection() -> None:
    model = MKLSurvival(VIEWS)
    options: dict[str, Any] = {"cv": 3, "n_repeats": 1}
    found = compare(model, X, Y, **options)
    assert found.scoring == "C-index" and found.most == 1.0
    assert found.score("learned weights")[0] > 0.7
    draws = stability(model, X, Y, n_resamples=5)
    assert dict(zip(*draws.of_views()[:2], strict=True))["a"] > 0.8
    assert select_views(model, X, Y, n_permutations=29).selected.tolist() == [True, False, False]
