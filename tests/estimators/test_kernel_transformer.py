"""The learned kernel elsewhere: in pipelines, after pickling, in Gaussian processes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from _helpers.sklearn_faults import FAULTS
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA, KernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from kernelweave import (
    Gaussian,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLKernel,
    MKLKernelTransformer,
    MKLRegressor,
    Polynomial,
)

X, Y = load_breast_cancer(return_X_y=True)
NEW, X, Y = X[120:150], X[:120], Y[:120]
RULES = ["trace", "unit_trace", "sphere", "center+trace", "center+unit_trace", None]


def check_name(check: Any) -> str:
    return str(check.func.__name__)


@pytest.mark.parametrize(
    "check",
    [check for _, check in estimator_checks_generator(MKLKernelTransformer())],
    ids=check_name,
)
def test_scikit_learn_checks(check: Any) -> None:
    if check_name(check) in FAULTS:
        pytest.skip("an error of the check")
    check(MKLKernelTransformer())


# --- the transformer ----------------------------------------------------------------------------


def test_it_is_the_combined_kernel() -> None:
    model = MKLClassifier().fit(X, Y)
    transformer = MKLKernelTransformer()
    K = transformer.fit_transform(X, Y)
    np.testing.assert_array_equal(transformer.weights_, model.weights_)
    assert (K == K.T).all() and np.linalg.eigvalsh(K)[0] > -1e-9
    np.testing.assert_allclose(K, model.combined_kernel(X), atol=1e-12)
    np.testing.assert_array_equal(transformer.transform(NEW), model.combined_kernel(NEW))


def test_kernel_pca_of_a_linear_kernel_is_pca() -> None:
    bank = KernelBank([Linear()], normalize=None, scale=None)
    chain = make_pipeline(
        MKLKernelTransformer(MKLClassifier(bank)), KernelPCA(2, kernel="precomputed")
    ).fit(X, Y)
    plain = PCA(2).fit(X).transform(NEW)
    found = chain.transform(NEW)
    np.testing.assert_allclose(np.abs(found), np.abs(plain), rtol=1e-6)


def test_spectral_clustering_finds_the_classes() -> None:
    bank = KernelBank([Gaussian(1.0, relative=True)], scale="standard")
    K = MKLKernelTransformer(MKLClassifier(bank)).fit_transform(X, Y)
    groups = SpectralClustering(2, affinity="precomputed", random_state=0).fit_predict(K)
    share = np.mean(groups == Y)
    assert max(share, 1 - share) > 0.8


def test_cross_validation_of_a_pipeline() -> None:
    chain = make_pipeline(
        MKLKernelTransformer(), KernelPCA(5, kernel="precomputed"), LogisticRegression()
    )
    assert cross_val_score(chain, X, Y, cv=3).mean() > 0.85


def test_pickles_keep_the_training_rows_when_asked_to() -> None:
    kept = MKLKernelTransformer().fit(X, Y)
    again = pickle.loads(pickle.dumps(kept))
    np.testing.assert_array_equal(again.transform(NEW), kept.transform(NEW))
    without = pickle.loads(pickle.dumps(MKLKernelTransformer(keep_training=False).fit(X, Y)))
    with pytest.raises(ValueError, match="set keep_training=True before"):
        without.transform(NEW)
    assert len(pickle.dumps(without)) < len(pickle.dumps(kept))


def test_frames_in_names_out() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :3], columns=list("abc"))
    transformer = MKLKernelTransformer().set_output(transform="pandas")
    K = transformer.fit_transform(frame, Y)
    assert K.shape == (120, 120) and K.columns[1] == "mklkerneltransformer1"
    assert list(transformer.feature_names_in_) == ["a", "b", "c"]
    assert list(transformer.get_feature_names_out()) == list(K.columns)


def test_nested_parameters() -> None:
    transformer = clone(MKLKernelTransformer(MKLClassifier(C=3.0)))
    assert transformer.set_params(estimator__C=7.0).fit(X, Y).estimator_.C == 7.0


def test_regression_and_several_classes() -> None:
    target = X[:, 0] + X[:, 1]
    learned = MKLKernelTransformer(MKLRegressor()).fit(X, target)
    assert learned.transform(NEW).shape == (30, 120)
    classes = np.digitize(target, np.quantile(target, [0.3, 0.6]))
    shared = MKLKernelTransformer().fit(X, classes)
    np.testing.assert_array_equal(
        shared.transform(NEW), MKLClassifier().fit(X, classes).combined_kernel(NEW)
    )
    kernel = MKLKernel(learned.estimator_) + WhiteKernel(1e-3, "fixed")
    process = GaussianProcessRegressor(kernel, normalize_y=True)
    assert process.fit(X, target).score(NEW, NEW[:, 0] + NEW[:, 1]) > 0.9
    with pytest.raises(ValueError, match="estimator learned 3 kernels, one per machine"):
        MKLKernelTransformer(MKLClassifier(shared_weights=False)).fit(X, classes)
    apart = MKLClassifier(shared_weights=False).fit(X, classes)
    with pytest.raises(ValueError, match="model has 3 learned kernels, one per machine"):
        MKLKernel(apart)(NEW)


def test_wrong_estimators() -> None:
    with pytest.raises(TypeError, match="estimator must have combined_kernel"):
        MKLKernelTransformer(LogisticRegression()).fit(X, Y)
    with pytest.raises(NotFittedError):
        MKLKernelTransformer().transform(X)


# --- Gaussian processes -------------------------------------------------------------------------


def model(rule: str | None = "trace") -> MKLClassifier:
    bank = KernelBank([Gaussian(1.0), Gaussian(4.0), Polynomial(2)], normalize=rule)
    return MKLClassifier(bank, weight_norm=2).fit(X, Y)


@pytest.mark.parametrize("rule", RULES)
def test_the_kernel_between_any_rows(rule: str | None) -> None:
    """Against training rows it is the combined kernel; between others it is the same function."""
    fitted = model(rule)
    kernel = MKLKernel(fitted)
    expected = fitted.combined_kernel(NEW)
    np.testing.assert_allclose(kernel(NEW, X), expected, rtol=1e-9, atol=1e-9 * expected.max())
    np.testing.assert_allclose(kernel(X, NEW), kernel(NEW, X).T, rtol=1e-9, atol=1e-12)
    K = kernel(NEW)
    np.testing.assert_allclose(kernel.diag(NEW), np.diagonal(K), rtol=1e-9)
    assert (K == K.T).all() and np.linalg.eigvalsh(K)[0] > -1e-9 * K.max()
    both = kernel(np.vstack([X, NEW]))
    np.testing.assert_allclose(both[120:, 120:], K, rtol=1e-9, atol=1e-12)


def test_it_is_that_of_scikit_learn() -> None:
    """One Gaussian without standardized columns is RBF, with the same likelihood and gradient."""
    Z = X[:, :2] / X[:, :2].std(axis=0)
    bank = KernelBank([Gaussian(1.5)], normalize=None, scale=None)
    learned = MKLKernel(MKLClassifier(bank).fit(Z, Y)) + WhiteKernel(0.5, "fixed")
    plain = 1.0 * RBF(1.5, "fixed") + WhiteKernel(0.5, "fixed")
    target = Z[:, 0] - Z[:, 1] ** 2
    one = GaussianProcessRegressor(learned).fit(Z, target)
    other = GaussianProcessRegressor(plain).fit(Z, target)
    assert one.log_marginal_likelihood_value_ == pytest.approx(
        other.log_marginal_likelihood_value_, rel=1e-6
    )
    np.testing.assert_allclose(one.predict(Z[:9] + 0.1), other.predict(Z[:9] + 0.1), rtol=1e-4)
    deviation = one.predict(Z[:9] + 0.1, return_std=True)[1]
    np.testing.assert_allclose(deviation, other.predict(Z[:9] + 0.1, return_std=True)[1], rtol=1e-4)


def test_the_gradient_is_that_of_differences() -> None:
    kernel = MKLKernel(model(), amplitude=2.0)
    K, gradient = kernel(NEW, eval_gradient=True)
    step = 1e-6
    more = kernel.clone_with_theta(kernel.theta + step)(NEW)
    np.testing.assert_allclose(gradient[:, :, 0], (more - K) / step, rtol=1e-5)
    fixed = MKLKernel(kernel.model, amplitude_bounds="fixed")
    assert fixed.theta.size == 0 and fixed(NEW, eval_gradient=True)[1].shape == (30, 30, 0)


def test_clones_and_pickles_keep_what_was_learned() -> None:
    kernel = MKLKernel(model("center+trace"))
    for other in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        np.testing.assert_array_equal(other(NEW), kernel(NEW))
    assert not kernel.is_stationary() and "amplitude=1" in repr(kernel)


def test_gaussian_process_classifier() -> None:
    process = GaussianProcessClassifier(MKLKernel(model())).fit(X, Y)
    assert process.predict_proba(NEW).shape == (30, 2) and process.score(X, Y) > 0.9


@pytest.mark.parametrize("unfitted", [MKLClassifier(), MKLClassifierCV()])
def test_a_process_of_a_model_that_learned_nothing(unfitted: Any) -> None:
    kernel = MKLKernel(unfitted)
    for use in (GaussianProcessClassifier(kernel).fit, kernel, lambda X, _: kernel.diag(X)):
        with pytest.raises(NotFittedError, match=r"model is a MKLClass.* no kernel yet: fit it"):
            use(X, Y)


@pytest.mark.parametrize("foreign", [LogisticRegression(), MKLClassifier, None])
def test_a_process_of_a_model_from_elsewhere(foreign: Any) -> None:
    kernel = MKLKernel(foreign)
    for use in (GaussianProcessClassifier(kernel).fit, kernel):
        with pytest.raises(TypeError, match=r"model must be a fitted estimator.*found"):
            use(X, Y)


def test_wrong_arguments_of_the_kernel() -> None:
    kernel = MKLKernel(model())
    with pytest.raises(NotFittedError):
        MKLKernel(MKLClassifier())(NEW)
    with pytest.raises(ValueError, match="eval_gradient=True needs Y=None"):
        kernel(NEW, X, eval_gradient=True)
    with pytest.raises(ValueError, match="X has 3 features, but KernelBank is expecting 30"):
        kernel(NEW[:, :3])
