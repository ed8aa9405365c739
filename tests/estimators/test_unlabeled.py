"""Weights without labels: the consensus of kernels, and clusters with their closed forms."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from _helpers.sklearn_faults import FAULTS
from sklearn.base import clone
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.decomposition import KernelPCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from kernelweave import (
    ConsensusKernel,
    Gaussian,
    KernelBank,
    Linear,
    MKLKernelKMeans,
    MKLKernelTransformer,
    Polynomial,
)
from kernelweave.estimators.kernel_k_means import closed_form
from kernelweave.io.model_file import ModelFileError, load

rng = np.random.default_rng(9)
GROUP = np.repeat([0, 1, 2], 25)
X = rng.normal(size=(75, 12))
X[:, :4] += 2.5 * np.eye(3, 4)[GROUP]
X[:, 4:8] += 2.5 * np.eye(3, 4)[GROUP][:, ::-1]
VIEWS = {"a": slice(0, 4), "b": slice(4, 8), "noise": slice(8, 12)}
BANK = KernelBank([Gaussian(1.0, relative=True)], views=VIEWS)
ESTIMATORS = [
    ConsensusKernel(),
    MKLKernelKMeans(3, random_state=0),
    MKLKernelTransformer(ConsensusKernel()),
]
CHECKS = [(model, check) for model in ESTIMATORS for _, check in estimator_checks_generator(model)]


@pytest.mark.parametrize(
    ("model", "check"),
    CHECKS,
    ids=[f"{type(model).__name__}-{check.func.__name__}" for model, check in CHECKS],
)
def test_scikit_learn_checks(model, check):
    if isinstance(model, MKLKernelKMeans) and "sample_weight_equiv" in check.func.__name__:
        pytest.skip("starts are drawn in the order of rows; scikit-learn exempts its KMeans, too")
    if check.func.__name__ in FAULTS:
        pytest.skip("an error of the check")
    check(clone(model))


# --- the consensus ------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["trace", "sphere", "center+trace", None])
def test_weights_are_numpys_leading_eigenvector(rule):
    kernels = [Gaussian(1.0, relative=True), Linear(), Polynomial(2)]
    model = ConsensusKernel(KernelBank(kernels, views=VIEWS, normalize=rule)).fit(X)
    H = np.eye(75) - 1 / 75
    K = [H @ K @ H for K in model._training_bank.cross_stack(X)]
    C = np.array([[np.vdot(A, B) / np.linalg.norm(A) / np.linalg.norm(B) for B in K] for A in K])
    np.testing.assert_allclose(model.cosines_, C, atol=1e-10)
    values, vectors = np.linalg.eig(C)
    leading = np.real(vectors[:, np.argmax(np.real(values))])
    np.testing.assert_allclose(model.weights_, leading / leading.sum(), atol=1e-9)
    assert model.weights_.sum() == pytest.approx(1.0) and (model.weights_ >= 0.0).all()


def test_views_that_agree_count_more():
    model = ConsensusKernel(BANK).fit(X)
    assert model.weights_[2] < 0.5 * model.weights_[:2].min()
    assert model.weights_frame()["view"].tolist()[-1] == "noise"


def test_in_pipelines_and_pickles():
    steps = make_pipeline(
        MKLKernelTransformer(ConsensusKernel(BANK)), KernelPCA(2, kernel="precomputed")
    )
    plane = steps.fit_transform(X)
    found = KMeans(3, n_init=5, random_state=0).fit_predict(plane)
    assert adjusted_rand_score(GROUP, found) > 0.8
    again = pickle.loads(pickle.dumps(steps))
    np.testing.assert_allclose(again.transform(X[:5]), steps.transform(X[:5]))
    K = MKLKernelTransformer(ConsensusKernel(BANK)).fit_transform(X)
    found = SpectralClustering(3, affinity="precomputed", random_state=0).fit_predict(K)
    assert adjusted_rand_score(GROUP, found) > 0.8
    names = MKLKernelTransformer(ConsensusKernel(BANK)).fit(X).get_feature_names_out()
    assert len(names) == 75


def test_row_weights_are_repeated_rows():
    counts = rng.integers(0, 3, 75)
    bank = KernelBank([Gaussian(2.0), Linear()], views=VIEWS)
    weighted = ConsensusKernel(bank).fit(X, sample_weight=counts)
    repeated = ConsensusKernel(bank).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-10)


def test_matrices_and_constant_kernels():
    K = [X @ X.T, np.exp(-np.square(X[:, None] - X).sum(2) / 9), np.ones((75, 75))]
    model = ConsensusKernel("precomputed").fit(K)
    assert model.weights_[2] == 0.0 and model.weights_[:2].min() > 0.4
    flat = ConsensusKernel("precomputed").fit([np.ones((5, 5))])
    np.testing.assert_array_equal(flat.weights_, [1.0])
    with pytest.raises(TypeError, match="nothing to report on"):
        model.report("x.html")


def test_model_files_hold_both(tmp_path):
    bank, path = KernelBank(views=VIEWS), tmp_path / "model.kweave"
    clusters = MKLKernelKMeans(3, bank, random_state=0).fit(X)
    clusters.save(path)
    found = load(path)
    np.testing.assert_array_equal(found.predict(X), clusters.predict(X))
    np.testing.assert_array_equal(found.labels_, clusters.labels_)
    consensus = ConsensusKernel(bank).fit(X)
    consensus.save(path)
    np.testing.assert_array_equal(load(path).weights_, consensus.weights_)
    clusters._members = clusters._members[:-1]
    clusters.save(path)
    with pytest.raises(ModelFileError, match="coefficients do not fit"):
        load(path)


# --- clusters -----------------------------------------------------------------------------------


def test_rows_move_one_by_one_where_whole_steps_end():
    """No single row can leave its cluster with gain, where Lloyd's steps alone leave some."""
    K = X @ X.T
    model = MKLKernelKMeans(4, "precomputed", n_init=1, random_state=0).fit([K])

    def left(labels):
        H = labels[:, None] == np.unique(labels)
        return -np.square(X.T @ H / np.sqrt(H.sum(axis=0))).sum()

    for row in range(len(X)):
        if (model.labels_ == model.labels_[row]).sum() > 1:
            for cluster in range(4):
                other = model.labels_.copy()
                other[row] = cluster
                assert left(other) >= left(model.labels_) - 1e-9


@pytest.mark.parametrize("normalize", ["center+trace", "trace"])
def test_weights_are_the_closed_form_and_the_objective_never_rises(normalize):
    bank = KernelBank([Gaussian(1.0, relative=True), Linear()], views=VIEWS, normalize=normalize)
    for seed in range(5):
        model = MKLKernelKMeans(3, bank, n_init=1, random_state=seed).fit(X)
        H = (model.labels_[:, None] == np.arange(3)) / np.sqrt(np.bincount(model.labels_))
        matrices = model._training_bank.cross_stack(X)
        rest = np.array([np.trace(K) - np.trace(H.T @ K @ H) for K in matrices])
        shares = (1 / rest) / (1 / rest).sum()
        np.testing.assert_allclose(model.shares_, shares, rtol=1e-10)
        np.testing.assert_allclose(model.weights_, shares**2, rtol=1e-10)
        assert model.inertia_ == pytest.approx(shares**2 @ rest, rel=1e-10)
        assert (np.diff(model.history_) <= 1e-12 * model.history_[0]).all()
        np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_the_closed_form_is_the_minimum():
    rest = rng.uniform(0.5, 3.0, 6)
    best = closed_form(rest)
    assert best.sum() == pytest.approx(1.0)
    for _ in range(50):
        other = rng.dirichlet(np.ones(6))
        assert best**2 @ rest <= other**2 @ rest + 1e-12
    np.testing.assert_array_equal(closed_form(np.array([0.0, 1.0, 0.0])), [0.5, 0.0, 0.5])


def test_one_linear_kernel_is_k_means():
    blobs, _ = make_blobs(90, centers=4, random_state=3)
    bank = KernelBank([Linear()], scale=None, normalize=None)
    ours = MKLKernelKMeans(4, bank, random_state=0).fit(blobs)
    theirs = KMeans(4, n_init=10, random_state=0).fit(blobs)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-9)
    assert adjusted_rand_score(ours.labels_, theirs.labels_) == 1.0


def test_views_of_noise_count_less():
    model = MKLKernelKMeans(3, KernelBank(views=VIEWS), random_state=0).fit(X)
    assert model.shares_.argmin() == 2
    assert adjusted_rand_score(GROUP, model.labels_) > 0.9
    again = MKLKernelKMeans(3, KernelBank(views=VIEWS), random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, again.labels_)


def test_row_weights_of_clusters():
    counts = rng.integers(0, 3, 75)
    bank = KernelBank([Linear()], views=VIEWS, normalize=None, scale=None)
    weighted = MKLKernelKMeans(3, bank, n_init=30, random_state=0).fit(X, sample_weight=counts)
    repeated = MKLKernelKMeans(3, bank, n_init=30, random_state=0)
    repeated.fit(np.repeat(X, counts, axis=0))
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=1e-9)
    assert ((weighted.labels_ == -1) == (counts == 0)).all()


@pytest.mark.filterwarnings("ignore::kernelweave._core.warnings.LacksView")
def test_rows_that_lack_views_frames_and_equal_rows():
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(12)])
    frame.iloc[:5, :4] = np.nan
    model = MKLKernelKMeans(3, KernelBank(views=VIEWS), random_state=0).fit(frame)
    assert model.feature_names_in_[0] == "c0"
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    twins = np.repeat([[0.0, 1.0], [2.0, 0.0]], 4, axis=0)
    model = MKLKernelKMeans(3, [Linear()], random_state=0).fit(twins)
    assert model.inertia_ == pytest.approx(0.0, abs=1e-12) and set(model.labels_) == {0, 1, 2}
    K = [X @ X.T, (X[:, :4] @ X[:, :4].T)]
    model = MKLKernelKMeans(3, "precomputed", random_state=0).fit(K)
    np.testing.assert_array_equal(model.predict([A[:4] for A in K]), model.labels_[:4])


def test_bad_input():
    with pytest.raises(ValueError, match="n_clusters=76 needs 76 rows or more"):
        MKLKernelKMeans(76).fit(X)
    with pytest.raises(ValueError, match="n_clusters"):
        MKLKernelKMeans(0).fit(X)
    model = pickle.loads(pickle.dumps(MKLKernelKMeans(3, random_state=0).fit(X)))
    np.testing.assert_array_equal(model.predict(X), model.labels_)
