"""Ranges of widths in estimators: certified for all widths, and ordinary kernels afterwards."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris

import kernelweave as kw
from kernelweave.kernels.numeric import Gaussian


def test_classifier_is_optimal_over_all_widths():
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    model = kw.MKLClassifier([kw.GaussianRange()], tol=1e-3).fit(X, y)
    assert model.exact_gap_ <= 1e-3 and model.duality_gap_ <= 1e-3
    fixed = [kw.Gaussian(width, relative=True) for width in np.geomspace(0.25, 8.0, 60)]
    grid = kw.MKLClassifier(fixed, tol=1e-4).fit(X, y)
    assert model.objective_ <= grid.objective_ * (1.0 + 1.5e-3)
    assert model.n_svm_solves_ > 0
    assert all(isinstance(m.kernel, Gaussian) for m in model.bank_.members if m.kernel is not None)


def test_several_views_normalizations_and_other_kernels():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:120], y[:120] / y.std()
    for normalize in ("trace", "unit_trace", "sphere", None):
        bank = kw.KernelBank(
            [kw.GaussianRange(0.1, 4.0), kw.Linear()],
            views={"a": slice(0, 4), "b": slice(4, 10)},
            normalize=normalize,
        )
        model = kw.MKLRegressor(bank, C=10.0).fit(X, y)
        assert model.exact_gap_ <= 1e-3, normalize


def test_machines_with_weights_of_their_own():
    X, y = load_iris(return_X_y=True)
    model = kw.MKLClassifier([kw.GaussianRange()], shared_weights=False).fit(X, y)
    assert model.exact_gap_ <= 1e-3
    assert model.weights_.shape == (3, len(model.kernel_names_))


def test_saved_pickled_and_cloned(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = clone(kw.MKLClassifier([kw.GaussianRange(0.5, 2.0)])).fit(X, y)
    model.save(tmp_path / "m.kweave")
    for other in (kw.load(tmp_path / "m.kweave"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.decision_function(X), model.decision_function(X))
        assert other.exact_gap_ == model.exact_gap_
        assert other.kernels == [kw.GaussianRange(0.5, 2.0)]


def test_a_bank_by_itself_takes_some_widths():
    X, _ = load_iris(return_X_y=True)
    assert kw.KernelBank([kw.GaussianRange()]).fit(X).m_all == 5
    assert kw.KernelBank([kw.GaussianRange(1.0, 1.0)]).fit(X).m_all == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (kw.MKLClassifier([kw.GaussianRange(2.0, 1.0)]), "low must not exceed high"),
        (kw.MKLClassifier([kw.GaussianRange()], weight_norm=2), "weight_norm must be 1"),
        (kw.MKLClassifier([kw.GaussianRange()], learner="radius"), "does not minimize J"),
        (
            kw.MKLClassifier(kw.KernelBank([kw.GaussianRange()], normalize="center+trace")),
            "is centered",
        ),
        (kw.MKLClassifierCV({"a": kw.KernelBank([kw.GaussianRange()])}), "takes kernels as they"),
    ],
)
def test_what_cannot_be_is_refused(model, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        model.fit(X[:, :2], y > 0)
