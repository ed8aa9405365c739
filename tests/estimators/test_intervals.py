"""Regression of targets known but for an interval: units, scores, folds, what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _helpers.textbook import loss_optimum
from sklearn.model_selection import GridSearchCV, cross_val_score

from kernelweave import Gaussian, KernelBank, Linear, MKLRegressor, MKLRegressorCV
from kernelweave.problems.interval import Interval

N = 60
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, 3))
F = 50.0 + 8.0 * X[:, 0] + 3.0 * np.sin(2.0 * X[:, 1]) + RNG.standard_normal(N)
ENDS = np.stack([F, F], axis=1)
ENDS[::4] += [-5.0, 5.0]
ENDS[1::4, 1], ENDS[2::8, 0], ENDS[7::20] = np.inf, -np.inf, (-np.inf, np.inf)
KNOWN = np.isfinite(ENDS).any(axis=1)
BOTH = [Gaussian(1.0), Linear()]
BANK = KernelBank(BOTH)
EPSILON = 0.1


def model(**more: Any) -> MKLRegressor:
    return MKLRegressor(BOTH, loss="interval", **more)


def places(ends: Any) -> Any:
    """The finite end of each row, or the middle."""
    low, high = np.where(np.isfinite(ends), ends, ends[:, ::-1]).T
    return low / 2.0 + np.where(np.isfinite(high), high, 0.0) / 2.0


def test_the_optimum_in_standard_units() -> None:
    fitted = model(tol=1e-8).fit(X, ENDS)
    known = places(ENDS)[KNOWN]
    assert fitted.target_mean_ == pytest.approx(known.mean())
    assert fitted.target_scale_ == pytest.approx(known.std())
    K = np.array([fitted._training_bank.cross(X, one) for one in np.eye(2)])
    standard = (ENDS - known.mean()) / known.std()
    best = loss_optimum(K, standard, np.ones(N), "interval", epsilon=EPSILON)
    assert fitted.objective_ == pytest.approx(best, rel=1e-6)
    assert fitted.duality_gap_ <= 1e-8
    unknown = np.flatnonzero(~KNOWN)
    assert unknown.size and not np.isin(unknown, fitted.support_).any()


def test_units_do_not_matter_and_weights_are_repeats() -> None:
    fitted, other = model(tol=1e-8).fit(X, ENDS), model(tol=1e-8).fit(X, 1e3 * ENDS - 7.0)
    np.testing.assert_allclose(other.predict(X), 1e3 * fitted.predict(X) - 7.0, rtol=1e-5)
    assert other.score(X, 1e3 * ENDS - 7.0) == pytest.approx(fitted.score(X, ENDS), rel=1e-4)
    weights = RNG.integers(0, 3, N)
    rows = np.repeat(np.arange(N), weights)
    weighted = model(tol=1e-8).fit(X, ENDS, sample_weight=weights)
    repeated = model(tol=1e-8).fit(X[rows], ENDS[rows])
    np.testing.assert_allclose(weighted.target_scale_, repeated.target_scale_, rtol=1e-12)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7)


def test_the_score_is_minus_the_mean_cost() -> None:
    fitted = model().fit(X, ENDS)
    f, unit = fitted.predict(X), fitted.target_scale_[0]
    off = np.maximum(np.maximum(ENDS[:, 0] - f, f - ENDS[:, 1]) / unit - EPSILON, 0.0)
    assert fitted.score(X, ENDS) == pytest.approx(-off[KNOWN].mean(), abs=1e-12)
    weights = RNG.random(N)
    mean = np.average(off[KNOWN], weights=weights[KNOWN])
    assert fitted.score(X, ENDS, weights) == pytest.approx(-mean, abs=1e-12)


def test_exact_targets_in_any_form() -> None:
    plain = MKLRegressor(BOTH).fit(X, F)
    for y in (F, np.stack([F, F], axis=1), pd.DataFrame({"low": F, "high": F}), F.tolist()):
        same = model().fit(X, y)
        np.testing.assert_array_equal(same.predict(X), plain.predict(X))
    loss = MKLRegressor(BOTH, loss=Interval(0.3)).fit(X, ENDS)
    np.testing.assert_array_equal(loss.predict(X), model(epsilon=0.3).fit(X, ENDS).predict(X))


def test_all_censored_on_one_side_is_an_optimum_of_zero() -> None:
    for side in ((0.0, np.inf), (-np.inf, 0.0)):
        fitted = model().fit(X, F[:, None] + side)
        assert fitted.objective_ == fitted.duality_gap_ == 0.0
        assert fitted.solution_.status == "optimal" and fitted.score(X, F[:, None] + side) == 0.0


def test_choosing_and_searching() -> None:
    chosen = MKLRegressorCV(BANK, [0.1, 10.0], [1], cv=3, loss="interval").fit(X, ENDS)
    grid = GridSearchCV(model(tol=1e-2), {"C": [0.1, 10.0]}, cv=3).fit(X, ENDS)
    assert chosen.C_ == grid.best_params_["C"]
    assert chosen.best_score_ == pytest.approx(grid.best_score_, abs=2e-3)
    assert chosen.score(X, ENDS) == chosen.best_estimator_.score(X, ENDS)
    assert (cross_val_score(model(), X, ENDS, cv=3) <= 0.0).all()
    again = pickle.loads(pickle.dumps(chosen))
    np.testing.assert_array_equal(again.predict(X), chosen.predict(X))


def test_what_is_refused() -> None:
    def refused(y: Any, message: str, kind: Any = ValueError, **more: Any) -> None:
        with pytest.raises(kind, match=message):
            model().fit(X, y, **more)

    refused(ENDS[:, ::-1], "lower end above its upper end")
    refused(np.where(KNOWN[:, None], np.nan, ENDS), "NaN in 57 rows")
    refused(np.tile([-np.inf, np.inf], (N, 1)), "every row is open on both sides")
    refused(ENDS, "among the rows with a positive", sample_weight=np.where(KNOWN, 0.0, 1.0))
    refused(np.ones((N, 3)), r"y must have shape \(n, 2\)")
    refused(F + 1j, "Complex data not supported")
    with pytest.raises(ValueError, match="'quantile', 'interval'"):
        MKLRegressor(loss="intervall").fit(X, F)
    with pytest.raises(ValueError, match="does not go with loss='interval'"):
        model(learner="alignment").fit(X, ENDS)
