"""An estimator for a new task is a short file: fits, folds and refits need nothing else of it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import RegressorMixin, clone
from sklearn.model_selection import GridSearchCV, KFold

from kernelweave import Gaussian, KernelBank, Linear, MKLRegressor
from kernelweave.estimators._base import store
from kernelweave.estimators._search import CrossValidated, search
from kernelweave.inspection import single_view, stability

rng = np.random.default_rng(1)
X = rng.normal(size=(60, 4))
Y = np.exp(X[:, 0] + 0.3 * X[:, 2] + 0.1 * rng.normal(size=60))
BANK = KernelBank([Linear(), Gaussian(2.0)], views={"a": [0, 1], "b": [2, 3]})


@pytest.fixture(scope="module")
def Amounts():
    """The estimator of the contributors' page."""
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = re.search(r"### Add an estimator.*?```python\n(.*?)```", page, re.DOTALL)
    assert code is not None and len(code[1].splitlines()) <= 80
    found = {"__name__": "amounts"}
    exec(compile(code[1], "CONTRIBUTING.md", "exec"), found)
    return found["MKLAmounts"]


def test_it_is_the_regression_of_logarithms(Amounts):
    model = Amounts(BANK, C=10.0, tol=1e-8).fit(X, Y)
    plain = MKLRegressor(BANK, C=10.0, tol=1e-8, loss="squared").fit(X, np.log(Y))
    np.testing.assert_allclose(np.log(model.predict(X)), plain.predict(X), atol=1e-3)
    assert model.duality_gap_ <= 1e-8
    assert repr(clone(model)) == repr(model)
    with pytest.raises(ValueError, match="positive numbers"):
        Amounts().fit(X, -Y)
    assert model.predict(X).shape == (60,)  # an earlier fit survives the error of another


def test_rows_count_by_their_weights(Amounts):
    times = rng.integers(0, 3, 60)
    kernels = KernelBank([Gaussian(2.0)], normalize=None, scale=None)
    weighted = Amounts(kernels, tol=1e-8).fit(X, Y, times.astype(float))
    repeated = Amounts(kernels, tol=1e-8).fit(np.repeat(X, times, axis=0), np.repeat(Y, times))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-4)


def test_reports_fit_it_again(Amounts):
    found = stability(Amounts(BANK), X, Y, n_resamples=3)
    np.testing.assert_allclose(found.draws.sum(axis=1), 1.0)
    found = single_view(Amounts(BANK), X, Y, n_repeats=1)
    assert found.score("all views")[0] > found.score("only b")[0]


def test_it_is_chosen_by_folds(Amounts):
    class AmountsCV(RegressorMixin, CrossValidated):
        _single = Amounts

        def __init__(
            self, banks=None, Cs=3, weight_norms=(1,), cv=3, scoring=None, selection="best",
            refit=True, views=None, learner="auto", tol=1e-3, cv_tol=1e-6, max_iter=1000,
            n_jobs=None, random_state=None, verbose=0, impute=None,
        ):  # fmt: skip
            store(self, locals())

        def fit(self, X, y, sample_weight=None):
            return search(self, X, y, None, sample_weight)

        def _splitter(self, y, grouped):
            return KFold(self.cv)

    model = AmountsCV(BANK, [0.1, 10.0]).fit(X, Y)
    cold = GridSearchCV(Amounts(BANK, tol=1e-6), {"C": [0.1, 10.0]}, cv=KFold(3)).fit(X, Y)
    np.testing.assert_allclose(
        model.cv_results_["mean_test_score"], cold.cv_results_["mean_test_score"], rtol=1e-3
    )
    assert model.C_ == 10.0 and model.score(X, Y) > 0.9
