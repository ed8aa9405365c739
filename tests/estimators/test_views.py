"""Views given to an estimator itself, and categories that no training row had."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from kernelweave import (
    Gaussian,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
)
from kernelweave.inspection import compare

VIEWS = {"a": [0, 1], "b": [2]}


@pytest.mark.parametrize("kind", [MKLClassifier, MKLRegressor])
def test_views_are_those_of_a_bank(kind):
    X = np.random.default_rng(1).normal(size=(30, 3))
    y = (X[:, 0] > 0) * 1
    kernels = [Gaussian(1.0), Linear()]
    model = kind(kernels, views=VIEWS).fit(X, y)
    bank = kind(KernelBank(kernels, views=VIEWS)).fit(X, y)
    assert np.array_equal(model.weights_, bank.weights_) and set(model.bank_.views) <= {"a", "b"}
    assert np.array_equal(kind(views="each").fit(X, y).predict(X[:3]).shape, (3,))
    assert clone(model).set_params(kernels__normalize="sphere").kernels.views == VIEWS
    for kernels in (KernelBank(), "precomputed"):
        with pytest.raises(ValueError, match="give views to the bank itself, KernelBank"):
            kind(kernels, views=VIEWS).fit(X, y)


def test_unseen_categories_are_counted():
    X = pd.DataFrame({"x": np.arange(12.0), "kind": list("abc") * 4, "tone": list("de") * 6})
    model = MKLClassifier().fit(X, X["kind"] == "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)
    new = X.assign(kind=["z"] * 2 + ["a"] * 10)
    with pytest.warns(UserWarning, match=r"12 rows of X.*that no training row had: 2 in 'kin"):
        model.predict(new)


def test_reports_and_comparisons_take_such_estimators():
    X = np.random.default_rng(1).normal(size=(40, 3))
    found = compare(MKLClassifier(views=VIEWS), X, X[:, 0] > 0, cv=2, n_repeats=1)
    assert "best single view" in found.names


def test_of_banks_that_score_alike_views_come_before_single_columns():
    X = np.random.default_rng(1).normal(size=(40, 3))
    model = MKLClassifierCV(views=VIEWS, Cs=[1.0], weight_norms=["equal"], scoring=lambda *a: 1.0)
    assert [*model.fit(X, X[:, 0] > 0).banks_] == ["Linear()", "all", "views", "each"]
    assert model.best_params_["bank"] == "Linear()"
