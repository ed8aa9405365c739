"""MKLRegressor: its losses, its units, several targets."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR

from kernelweave import Gaussian, KernelBank, Linear, MKLRegressor

rng = np.random.default_rng(9)
X = rng.normal(size=(70, 4))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=70)
NEW = rng.normal(size=(20, 4))
BANK = KernelBank([Linear(), Gaussian(0.7), Gaussian(2.0)], "all+each")
LOSSES = ["epsilon_insensitive", "squared", "quantile"]
losses = pytest.mark.parametrize("loss", LOSSES)


def fit(y=Y, X=X, **params):
    return MKLRegressor(BANK, **params).fit(X, y)


@losses
def test_units_of_the_target_do_not_matter(loss):
    one = fit(loss=loss, tol=1e-8)
    other = fit(1e4 * Y - 3e5, loss=loss, tol=1e-8)
    np.testing.assert_allclose(other.predict(NEW), 1e4 * one.predict(NEW) - 3e5, rtol=1e-4)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert (other.target_mean_, other.target_scale_) == (
        pytest.approx([1e4 * Y.mean() - 3e5]),
        pytest.approx([1e4 * Y.std()]),
    )
    assert one.duality_gap_ <= 1e-8


@losses
def test_predictions_by_hand(loss):
    model = fit(loss=loss)
    cross = BANK.fit(X).cross_stack(NEW)[:, :, model.support_]
    by_hand = np.tensordot(model.weights_, cross @ model.dual_coef_[0], axes=1)
    np.testing.assert_allclose(model.predict(NEW), by_hand + model.intercept_[0], atol=1e-10)
    back = pickle.loads(pickle.dumps(model))
    assert np.array_equal(back.predict(NEW), model.predict(NEW))


def test_svr_on_the_learned_kernel_is_the_same_machine():
    model = fit(C=2.0, epsilon=0.2, tol=1e-7)
    z = (Y - Y.mean()) / Y.std()
    svr = SVR(kernel="precomputed", C=2.0, epsilon=0.2, tol=1e-9).fit(model.combined_kernel(X), z)
    expected = svr.predict(model.combined_kernel(NEW)) * Y.std() + Y.mean()
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-3)


def test_squared_loss_is_ridge_regression_with_a_bias():
    model = fit(loss="squared", C=5.0, tol=1e-10)
    K, one = model.combined_kernel(X), np.ones((70, 1))
    system = np.block([[K + np.eye(70) / 5.0, one], [one.T, np.zeros((1, 1))]])
    v = np.linalg.solve(system, np.append((Y - Y.mean()) / Y.std(), 0.0))
    expected = (model.combined_kernel(NEW) @ v[:-1] + v[-1]) * Y.std() + Y.mean()
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-7)
    assert model.support_.size == 70


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.8])
def test_quantiles_have_their_share_below(quantile):
    model = fit(loss="quantile", quantile=quantile, C=3.0, tol=1e-6)
    below = Y - model.predict(X)
    slack = 1e-3 * Y.std()
    assert np.mean(below < -slack) <= quantile + 1e-9 <= np.mean(below <= slack) + 2e-9


def test_weights_are_learned():
    equal, learned = fit(learner="uniform"), fit()
    assert learned.objective_ < 0.9 * equal.objective_
    names, weights = learned.kernel_names_, learned.weights_
    useless = [w for name, w in zip(names, weights, strict=True) if name.endswith(("x2", "x3"))]
    assert len(useless) == 6 and sum(useless) < 0.2


@pytest.mark.parametrize("shared", [True, False])
def test_several_targets(shared):
    targets = np.column_stack([Y, 100.0 * X[:, 2] ** 2, np.full(70, 5.0)])
    model = fit(targets, shared_weights=shared, tol=1e-6)
    assert model.weights_.shape == ((15,) if shared else (3, 15))
    assert model.predict(NEW).shape == (20, 3) and model.dual_coef_.shape[0] == 3
    assert np.array_equal(model.predict(NEW)[:, 2], np.full(20, 5.0))
    assert model.score(X, targets) == pytest.approx(r2_score(targets, model.predict(X)))
    assert model.score(X, targets) > 0.8
    if not shared:
        alone = [fit(column, tol=1e-6) for column in targets.T]
        assert model.objective_ == pytest.approx(sum(a.objective_ for a in alone), rel=1e-5)
        np.testing.assert_allclose(model.predict(NEW)[:, 0], alone[0].predict(NEW), atol=1e-3)
    one_column = fit(Y[:, None])
    assert one_column.predict(NEW).shape == (20, 1)
    assert np.array_equal(one_column.predict(NEW)[:, 0], fit().predict(NEW))


@losses
def test_a_constant_target(loss):
    model = fit(np.full(70, -3.25), loss=loss, quantile=0.9)
    assert np.array_equal(model.predict(NEW), np.full(20, -3.25))
    assert model.objective_ == 0.0 and model.duality_gap_ == 0.0
    assert model.weights_.sum() == pytest.approx(1.0)


def test_targets_of_any_kind():
    whole = np.round(3 * Y).astype(int)
    for y in (whole.tolist(), pd.Series(whole, dtype="Int64"), whole.astype(np.float32)):
        np.testing.assert_allclose(fit(y).predict(NEW), fit(whole).predict(NEW), rtol=1e-6)


def test_diabetes_without_any_tuning():
    """An SVR at C = 1 gets R² near .15 on raw targets."""
    A, y = load_diabetes(return_X_y=True)
    train, test = np.arange(442) % 2 == 0, np.arange(442) % 2 == 1
    for loss in ("epsilon_insensitive", "squared"):
        model = MKLRegressor(loss=loss).fit(A[train], y[train])
        assert model.score(A[test], y[test]) > 0.4


def test_grid_search():
    search = GridSearchCV(MKLRegressor(BANK), {"C": [0.1, 10.0], "loss": LOSSES[:2]}, cv=3)
    search.fit(X, Y)
    ridge = KernelRidge(kernel="rbf", alpha=0.1, gamma=0.5).fit(X, Y)
    assert search.best_score_ > 0.5
    assert np.corrcoef(search.predict(NEW), ridge.predict(NEW))[0, 1] > 0.6


def test_targets_that_are_no_numbers():
    X = np.arange(6.0).reshape(-1, 1)
    with pytest.raises(TypeError, match=r"strings\. A regression.*classes, use MKLClassifier"):
        MKLRegressor().fit(X, [*"ababab"])
    with pytest.raises(ValueError, match="y contains NaN, in 2 rows, the first in row 3; leave"):
        MKLRegressor().fit(X, [0.0, 1.0, 2.0, np.nan, 4.0, np.nan])


def test_a_solution_tells_where_the_kernels_are():
    model = MKLRegressor([Linear()]).fit(np.arange(6.0).reshape(-1, 1), np.arange(6.0))
    with pytest.raises(ValueError, match=r"KernelBank\(…\)\.fit\(X\)\.stack"):
        model.solution_.certificate()
