"""MKLClassifier among scikit-learn's tools: its checks, clone, pipelines, grid search."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier, Precomputed
from kernelweave.learners import NAMES, make_learner
from kernelweave.papers.rakoto2007.simple import Simple

rng = np.random.default_rng(8)
X = rng.normal(size=(60, 4))
Y = np.where(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=60) > 0, "up", "down")


INDUCTIVE = [name for name in NAMES if not (make_learner(name).signed or make_learner(name).losses)]


def test_clone_keeps_parameters_and_nothing_learned():
    bank = KernelBank([Gaussian(2.0), ("a", Linear(), [0])], views={"v": [1, 2]})
    model = MKLClassifier(bank, C=3.0, learner=Simple(small=1e-4), n_jobs=2)
    copy = clone(model.fit(X, Y))
    assert copy.get_params().keys() == model.get_params().keys()
    assert copy.kernels is not bank and repr(copy.kernels) == repr(bank)
    assert copy.learner.small == 1e-4
    assert not hasattr(copy, "weights_")
    assert np.array_equal(copy.fit(X, Y).weights_, model.weights_)


def test_parameters_reach_into_bank_and_learner():
    model = MKLClassifier(KernelBank(), learner=Simple())
    model.set_params(kernels__normalize="sphere", kernels__views="each", learner__small=0.01)
    assert (model.kernels.normalize, model.kernels.views) == ("sphere", "each")
    assert model.learner.small == 0.01
    assert MKLClassifier(Gaussian()).set_params(kernels__width=3.0).kernels.width == 3.0
    by_name = MKLClassifier(learner="simple").set_params(learner__small=0.01)
    assert isinstance(by_name.learner, Simple) and by_name.learner.small == 0.01
    for kernels in ([("a", Gaussian())], KernelBank([("a", Gaussian())])):
        search = GridSearchCV(MKLClassifier(kernels), {"kernels__a__width": [1.0, 2.0]}, cv=2)
        assert search.fit(X, Y).best_estimator_.kernels.kernels[0][1].width in (1.0, 2.0)
        assert len(set(search.cv_results_["param_kernels__a__width"])) == 2
    with pytest.raises(ValueError, match="Invalid parameter 'normalization' for KernelBank"):
        model.set_params(kernels__normalization="trace")


def test_shows_itself():
    model = MKLClassifier(KernelBank(views="each"), learner=Simple(small=0.01))
    shown = "MKLClassifier(kernels=KernelBank(views='each'), learner=Simple(small=0.01))"
    assert " ".join(repr(model).split()) == shown
    with config_context(display="diagram"):
        assert "KernelBank" in model._repr_html_()
        assert "MKLClassifier" in model.fit(X, Y)._repr_html_()


def test_pipeline_and_pickle():
    model = make_pipeline(StandardScaler(), MKLClassifier([Gaussian(1.0), Linear()])).fit(X, Y)
    assert model.score(X, Y) > 0.9
    back = pickle.loads(pickle.dumps(model))
    assert np.array_equal(back.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_cross_validation(n_jobs):
    model = MKLClassifier(KernelBank(views="all+each"))
    assert cross_val_score(model, X, Y, cv=3, n_jobs=n_jobs).mean() > 0.8


def test_grid_search():
    grid = {
        "C": [0.1, 10.0],
        "learner__small": [1e-8, 1e-2],
        "kernels__normalize": ["trace", "sphere"],
    }
    model = MKLClassifier(KernelBank(views={"a": [0, 1], "b": [2, 3]}), learner=Simple())
    one, two = (
        GridSearchCV(model, grid, cv=2, n_jobs=n_jobs, error_score="raise").fit(X, Y)
        for n_jobs in (1, 2)
    )
    assert np.array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert two.best_score_ > 0.8
    assert two.best_estimator_.combined_kernel(X).shape == (60, 60)
    assert np.array_equal(one.predict(X), two.predict(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        names = GridSearchCV(MKLClassifier(), {"learner": INDUCTIVE}, cv=2, error_score="raise")
        assert names.fit(X, Y).cv_results_["mean_test_score"].min() > 0.7


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_precomputed_kernels_in_grid_search(n_jobs):
    K = [X @ X.T, np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 8)]
    model = MKLClassifier([Precomputed(matrix) for matrix in K])
    rows = np.arange(60).reshape(-1, 1)
    search = GridSearchCV(model, {"C": [0.1, 1.0, 10.0]}, cv=3, n_jobs=n_jobs)
    search.fit(rows, Y)
    assert search.best_score_ > 0.8
    plain = GridSearchCV(MKLClassifier([Linear(), Gaussian(2.0)]), {"C": [0.1, 1.0, 10.0]}, cv=3)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"],
        plain.fit(X, Y).cv_results_["mean_test_score"],
        atol=0.04,  # one or two rows of 60 lie close to a boundary
    )
    for kernel, matrix in zip(search.best_estimator_.kernels, K, strict=True):
        assert np.shares_memory(kernel.K, matrix)


def test_precomputed_matrices_are_not_copied():
    K = X @ X.T
    rows = np.arange(60).reshape(-1, 1)
    done = cross_validate(
        MKLClassifier(KernelBank([Precomputed(K)])), rows, Y, cv=3, return_estimator=True
    )
    for model in done["estimator"]:
        (kernel,) = (member.kernel for member in model.bank_.members)
        assert np.shares_memory(kernel.K, K)
        assert np.shares_memory(model.kernels.kernels[0].K, K)
    with pytest.raises(ValueError, match="below 60, the size of the matrix; found 60"):
        done["estimator"][0].predict([[60]])
