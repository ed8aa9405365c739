"""MKLOneClass: what it solves, its scores, and why equal weights are the default."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import OneClassSVM

from kernelweave import Gaussian, KernelBank, Linear, MKLOneClass, Polynomial

rng = np.random.default_rng(1)
X = rng.normal(size=(120, 2))
FAR = X[:20] + 8.0
BANK = KernelBank([Gaussian(0.5), Gaussian(2.0), Polynomial(2)])


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5])
def test_it_is_the_machine_of_libsvm_on_equal_weights(nu):
    model = MKLOneClass(BANK, nu=nu, tol=1e-9).fit(X)
    K = model.combined_kernel(X)
    machine = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-9).fit(K)
    assert model.weights_ == pytest.approx([1 / 3] * 3)
    size = nu * len(X)  # the sum of its coefficients; ours is 1
    np.testing.assert_allclose(model.score_samples(X), machine.score_samples(K) / size, atol=1e-5)
    assert model.dual_coef_.sum() == pytest.approx(1.0)
    assert model.offset_ == pytest.approx(machine.offset_[0] / size, abs=1e-5)


def test_the_largest_nu_is_a_density_estimate():
    model = MKLOneClass(BANK, nu=1.0).fit(X)
    mean = model.combined_kernel(FAR).mean(axis=1)
    np.testing.assert_allclose(model.score_samples(FAR), mean, rtol=1e-9)
    assert np.isfinite(model.offset_) and model.support_.size == len(X)


def test_nu_bounds_outliers_and_support():
    for nu in (0.05, 0.1, 0.3):
        model = MKLOneClass(nu=nu, tol=1e-8).fit(X)
        outside = np.mean(model.decision_function(X) < -1e-6)
        assert outside <= nu <= model.support_.size / len(X) + 1e-9


def test_faces():
    model = MKLOneClass(nu=0.1).fit(X)
    values, found = model.decision_function(FAR), model.predict(FAR)
    assert (found == -1).all() and set(model.predict(X).tolist()) == {-1, 1}
    np.testing.assert_allclose(model.score_samples(FAR) - model.offset_, values)
    assert np.array_equal(found, np.where(values >= 0, 1, -1))
    assert np.array_equal(MKLOneClass(nu=0.1).fit_predict(X), model.predict(X))
    assert model.intercept_ == pytest.approx([-model.offset_])
    back = pickle.loads(pickle.dumps(model))
    assert np.array_equal(back.score_samples(FAR), model.score_samples(FAR))


def test_learning_without_labels_favors_the_widest_kernel():
    widths = [Gaussian(w, relative=True) for w in (0.25, 1.0, 4.0)]
    equal, learned = (MKLOneClass(widths, 0.1, how).fit(X) for how in ("uniform", "newton"))
    assert learned.weights_[2] > 0.9
    assert learned.objective_ < equal.objective_
    near = X[:20] * 0.1 + [2.6, -2.6]  # outside, but not far
    assert (equal.predict(near) == -1).mean() >= (learned.predict(near) == -1).mean()


@pytest.mark.parametrize(
    ("nu", "error"), [(0.0, ValueError), (1.1, ValueError), ("a", TypeError), (None, TypeError)]
)
def test_bad_nu(nu, error):
    with pytest.raises(error, match="nu must be a"):
        MKLOneClass(nu=nu).fit(X)


def test_default_kernels_are_bounded_and_never_centered():
    for bank in (None, KernelBank(views="each")):
        model = MKLOneClass(bank, nu=0.1).fit(X)
        assert all("Gaussian" in name for name in model.kernel_names_)
        assert np.abs(model.score_samples(1e6 * FAR)).max() < 1e-6
    with pytest.raises(ValueError, match=r"centers the kernels.*Use normalize='trace'"):
        MKLOneClass(KernelBank(normalize="center+trace")).fit(X)


def test_learners_for_labels_say_so():
    for learner in ("alignment", "radius"):
        with pytest.raises(ValueError, match="does not go with loss='one_class'"):
            MKLOneClass(learner=learner).fit(X)


def test_linear_kernels_of_centered_columns_are_refused():
    X = np.random.default_rng(0).normal(size=(90, 4)) + 5.0
    weights = np.arange(90) % 3
    for given in (None, weights):
        with pytest.raises(ValueError, match=r"mean of the rows at the origin.*scale=None"):
            MKLOneClass([Linear()]).fit(X, sample_weight=given)
    assert MKLOneClass(KernelBank([Linear()], scale=None), nu=0.2).fit(X).duality_gap_ <= 1e-3


def test_an_optimum_of_0_is_told():
    model = MKLOneClass(KernelBank([Linear()], scale=None))
    with pytest.warns(ConvergenceWarning, match="the optimum is 0.*use Gaussian kernels"):
        model.fit(np.random.default_rng(0).normal(size=(40, 2)) + 0.1)
