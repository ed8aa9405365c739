"""Estimators that learn parameters of kernels: what they promise, and what they refuse."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.utils.estimator_checks import check_estimator

import kernelweave
from kernelweave import (
    Gaussian,
    GaussianWidths,
    GroupNorm,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    Nystroem,
    TransductiveMKLClassifier,
    learn,
)
from kernelweave.inspection import compare, null, plot_widths

EACH = GaussianWidths(per_feature=True)
RULES = [
    "trace",
    "unit_trace",
    "sphere",
    "center+trace",
    "center+unit_trace",
    "center+sphere",
    None,
]
EXPECTED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "machines are solved to tol, not exactly"
    for kind in ("dense", "sparse")
}


def ring(n, features, seed=0):
    """Two columns that tell the classes apart, and others that are noise."""
    X = np.random.default_rng(seed).standard_normal((n, features))
    return X, np.where(X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4, "out", "in")


def widths(model):
    (kernel,) = model.learned_kernels_.values()
    return np.asarray(kernel.width)


@pytest.fixture(scope="module")
def model():
    return MKLClassifier([EACH, Linear()], C=10.0).fit(*ring(120, 6))


@pytest.mark.parametrize(
    "given",
    [
        MKLClassifier([EACH]),
        MKLRegressor([EACH], loss="squared"),
    ],
    ids=["classes", "numbers"],
)
def test_check_estimator(given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small gaps are not what these data sets are for
        check_estimator(given, expected_failed_checks=EXPECTED)


def test_noise_gets_wide_and_prediction_better():
    X, y = ring(500, 12)
    fixed = MKLClassifier([Gaussian(w, relative=True) for w in (0.25, 0.5, 1.0, 2.0)], C=10.0)
    learned = MKLClassifier([EACH], C=10.0).fit(X[:150], y[:150])
    assert widths(learned)[:2].max() < 0.3 * widths(learned)[2:].min()
    better = learned.score(X[150:], y[150:]) - fixed.fit(X[:150], y[:150]).score(X[150:], y[150:])
    assert better > 0.1 and learned.score(X[150:], y[150:]) > 0.9
    told = learned.parameter_search_  # of the second order, beyond ten parameters
    assert told["method"] == "newton" and told["status"] == "optimal" and told["n_iter"] > 0
    assert fixed.parameter_search_ == {}


@pytest.mark.parametrize("rule", RULES)
def test_the_fitted_kernels_are_ordinary(rule):
    """The machine is optimal for the kernels that predict: learned widths, as a bank has them."""
    X, y = ring(60, 3)
    C = 100.0 * len(X) if rule in ("unit_trace", "center+unit_trace") else 10.0
    bank = KernelBank([EACH, Linear()], normalize=rule)
    found = MKLClassifier(bank, C=C).fit(X, y)
    kernel = found.learned_kernels_[found.kernel_names_[0]]
    again = KernelBank([kernel, Linear()], normalize=rule).fit(X)
    signs = np.where(y == found.classes_[1], 1.0, -1.0)
    assert learn(again.stack, signs, C=C, tol=1e-6).objective == pytest.approx(
        found.objective_, rel=1.1e-3
    )
    values = again.decision(X, found.weights_, found.dual_coef_[0], found.support_)
    np.testing.assert_allclose(found.decision_function(X), values + found.intercept_[0], atol=1e-9)


def test_no_widths_nearby_are_better(model):
    """Of the objective that weights and machine minimize, which proves the gradient used."""
    X, y = ring(120, 6)
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    for j in (0, 1):
        for factor in (0.8, 1.25):
            moved = widths(model).copy()
            moved[j] *= factor
            stack = KernelBank([GaussianWidths(moved), Linear()]).fit(X).stack
            assert learn(stack, signs, C=10.0, tol=1e-5).objective > model.objective_ * (1 - 1e-3)


@pytest.mark.parametrize("shared", [True, False])
def test_several_classes_share_their_widths(shared):
    X, y = load_wine(return_X_y=True)
    found = MKLClassifier([EACH], shared_weights=shared).fit(X[::2], y[::2])
    start = MKLClassifier([Gaussian(1.0, relative=True)], shared_weights=shared)
    assert widths(found).shape == (13,) and found.score(X[1::2], y[1::2]) > 0.9
    assert found.objective_ < start.fit(X[::2], y[::2]).objective_


@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
def test_regression(loss):
    X, _ = ring(300, 8)
    y = np.sin(3.0 * X[:, 0])
    found = MKLRegressor([EACH], C=10.0, loss=loss).fit(X[:100], y[:100])
    assert np.argmin(widths(found)) == 0 and found.score(X[100:], y[100:]) > 0.9


def test_C_is_learned_too():
    X, y = ring(120, 4)
    found = MKLClassifier([EACH], C="learn", loss="squared_hinge").fit(X, y)
    start = MKLClassifier([Gaussian(relative=True)], C="learn", loss="squared_hinge").fit(X, y)
    assert 0.0 < found.C_ and found.objective_ < 0.8 * start.objective_


def test_the_radius_criterion():
    X, y = ring(100, 5)
    found = MKLClassifier([EACH], C=10.0, learner="radius").fit(X, y)
    assert widths(found)[:2].max() < 0.5 * widths(found)[2:].min() and found.radius_ > 0.0


def test_a_kernel_that_starts_without_a_weight_learns():
    """At the start a Gaussian of the right width has it all."""
    X, y = ring(200, 5)
    alone = MKLClassifier([EACH]).fit(X, y)
    beside = MKLClassifier([EACH, Gaussian(1.0)]).fit(X, y)
    assert beside.weights_[0] > 0.0 and beside.objective_ <= alone.objective_ * (1.0 + 1e-3)


def test_groups_of_kernels():
    X, y = ring(100, 4)
    bank = KernelBank([EACH, Linear()], {"p": [0, 1], "q": [2, 3]})
    found = MKLClassifier(bank, C=10.0, weight_norm=GroupNorm("views")).fit(X, y)
    assert found.score(X, y) > 0.9 and len(found.learned_kernels_) == 2


def test_views_have_widths_of_their_own():
    X, y = ring(100, 6)
    found = MKLClassifier(KernelBank([EACH], {"p": [0, 1, 2], "q": [3, 4, 5]}), C=10.0).fit(X, y)
    p, q = (kernel.width for kernel in found.learned_kernels_.values())
    assert p[:2].max() < p[2] and not np.allclose(p, q)


def test_rows_held_out_are_never_seen():
    X, y = ring(120, 4)
    folds = KFold(2)
    options = {"cv": folds, "return_estimator": True}
    for fitted, (train, test) in zip(
        cross_validate(MKLClassifier([EACH]), X, y, **options)["estimator"],
        folds.split(X),
        strict=True,
    ):
        other = X.copy()
        other[test] = 1e6
        alone = MKLClassifier([EACH]).fit(other[train], y[train])
        np.testing.assert_array_equal(widths(fitted), widths(alone))


def test_weighted_rows_are_repeated_rows():
    X, y = ring(60, 3)
    counts = np.random.default_rng(1).integers(0, 3, len(X))
    model = MKLClassifier([EACH], C=1.0, tol=1e-8)
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-5)
    np.testing.assert_allclose(widths(weighted), widths(repeated), rtol=0.05)


def test_copies_and_files(model, tmp_path):
    X, _ = ring(40, 6, seed=1)
    model.save(tmp_path / "m.kweave")
    for other in (pickle.loads(pickle.dumps(model)), kernelweave.load(tmp_path / "m.kweave")):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(widths(other), widths(model))
    fresh = clone(model)
    assert not hasattr(fresh, "learned_kernels_") and fresh.kernels[0].width is None
    np.testing.assert_array_equal(widths(fresh.fit(*ring(120, 6))), widths(model))


def test_onnx(model, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    X, _ = ring(40, 6, seed=1)
    kernelweave.to_onnx(model, tmp_path / "m.onnx", double=True)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"X": X})
    np.testing.assert_allclose(found[:, 0], model.decision_function(X), atol=1e-10)


def test_the_start_is_a_parameter_to_search():
    X, y = ring(80, 3)
    bank = KernelBank([("widths", EACH)])
    search = GridSearchCV(
        MKLClassifier(bank), {"kernels__widths__width": [None, 2.0], "C": [1.0, 10.0]}, cv=2
    ).fit(X, y)
    assert search.best_score_ > 0.7 and widths(search.best_estimator_).shape == (3,)


def test_widths_are_drawn_and_told(model, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = plot_widths(model, plt.subplots()[1])
    assert {label.get_text() for label in ax.get_yticklabels()[:2]} == {"column 0", "column 1"}
    plt.close("all")
    model.report(tmp_path / "report.html")
    assert "Learned widths" in (tmp_path / "report.html").read_text()
    with pytest.raises(ValueError, match="no kernel whose widths"):
        plot_widths(MKLClassifier().fit(*ring(40, 2)))


def test_comparisons_learn_the_widths_of_each_split():
    X, y = ring(100, 4)
    found = compare(MKLClassifier([EACH], C=10.0), X, y, cv=2)
    assert found.scores.mean(axis=0).max() > 0.8
    with pytest.raises(ValueError, match="moved rows takes kernels as they are"):
        null(MKLClassifier([EACH]), X, y, n_permutations=2)


def test_a_bank_alone_leaves_widths_where_they_start():
    X, _ = ring(50, 3)
    plain = KernelBank([Gaussian(1.0, relative=True)]).fit(X).stack
    for kernel in (GaussianWidths(), EACH):
        np.testing.assert_allclose(
            KernelBank([kernel]).fit(X).stack.block(0, slice(None), slice(None)),
            plain.block(0, slice(None), slice(None)),
            atol=1e-12,
        )


def test_time_and_plateaus_are_told():
    X, y = ring(80, 5)
    stopped = MKLClassifier([EACH], max_time=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        stopped.fit(X, y)
    assert np.ptp(widths(stopped)) == 0.0
    with pytest.warns(ConvergenceWarning, match="flat"):
        MKLClassifier([GaussianWidths(1e-3, per_feature=True)]).fit(X, y)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (MKLClassifier([EACH], learner="alignment"), "use learner='newton' or 'radius'"),
        (MKLClassifier(KernelBank([EACH], approximation=Nystroem(5))), "approximation=None"),
        (MKLClassifierCV([EACH]), "MKLClassifierCV takes kernels as they are"),
        (MKLOneClass([EACH]), "targets of all rows"),
        (MKLClassifier([EACH], recenter=True), "normalize='center.unit_trace'"),
        (MKLClassifier([GaussianWidths(-1.0)]), "width must be positive"),
        (MKLClassifier([GaussianWidths([1.0, 2.0])]), "2 widths, but X has 3"),
    ],
)
def test_refusals(given, word):
    X, y = ring(40, 3)
    with pytest.raises(ValueError, match=word):
        given.fit(X, y)


def test_rows_without_labels_or_views_are_refused():
    X, y = ring(40, 4)
    labels = np.where(np.arange(40) < 5, None, y)
    with pytest.raises(ValueError, match="targets of all rows"):
        TransductiveMKLClassifier([EACH], unlabeled=None).fit(X, labels)
    X[3, :2] = np.nan
    with pytest.raises(ValueError, match="rows lack its view"):
        MKLClassifier(KernelBank([EACH], {"p": [0, 1], "q": [2, 3]})).fit(X, y)
