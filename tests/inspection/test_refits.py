"""Fits on kernels computed once are the fits that the estimator would make."""

from __future__ import annotations

import numpy as np
import pytest
from inspection.several_views import VIEWS, bank, rows
from sklearn.pipeline import make_pipeline

from kernelweave import (
    Gaussian,
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    TransductiveMKLClassifier,
)
from kernelweave.inspection._refits import Refits, as_single
from kernelweave.inspection._resampling import Blocks

X, Y = rows()
MODELS = [
    (MKLClassifier(bank(), tol=1e-5), Y),
    (MKLClassifier(bank(), tol=1e-5, multi_class="ovo"), np.repeat([0, 1, 2], 20)),
    (MKLClassifier(bank(), tol=1e-5, shared_weights=False), np.repeat([0, 1, 2], 20)),
    (MKLRegressor(bank(), tol=1e-5), X[:, 0] + X[:, 5]),
    (MKLOneClass(bank(), tol=1e-5), None),
]
IDS = ["two classes", "ovo", "own weights", "regression", "one class"]


@pytest.mark.parametrize(("model", "y"), MODELS, ids=IDS)
def test_a_refit_is_the_fit_of_the_estimator(model, y):
    refits = Refits.of(model, X, y)
    fitted = refits.estimator(refits.fit())
    own = as_single(model, X, y).fit(X, y)
    assert fitted.objective_ == pytest.approx(own.objective_, rel=1e-9)
    np.testing.assert_allclose(fitted.predict(X) == own.predict(X), True)
    assert not hasattr(model, "weights_")  # which is not changed


def test_counts_are_repeated_rows():
    kernels = KernelBank([Gaussian(2.0), Gaussian(5.0)], views=VIEWS, normalize=None, scale=None)
    model = MKLClassifier(kernels, tol=1e-6)
    counts = np.random.default_rng(0).integers(0, 3, len(X))
    refit = Refits.of(model, X, Y).fit(counts=counts.astype(float))
    repeated = model.fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
    assert refit.primal == pytest.approx(repeated.objective_, rel=1e-5)


def test_a_shuffled_view_is_a_view_of_shuffled_rows():
    order = np.random.default_rng(1).permutation(len(X))
    moved = X.copy()
    moved[:, VIEWS["b"]] = X[order][:, VIEWS["b"]]
    model = MKLClassifier(bank(), tol=1e-6)
    refit = Refits.of(model, X, Y).shuffled("b", order).fit()
    assert refit.primal == pytest.approx(model.fit(moved, Y).objective_, rel=1e-5)
    alone = Refits.of(MKLClassifier(bank(b=VIEWS["b"]), tol=1e-6), X, Y)
    assert alone.shuffled("b", order).bank.stack.m == 2


def test_some_kernels_are_a_smaller_bank():
    refits = Refits.of(MKLClassifier(bank(), tol=1e-6), X, Y)
    part = refits.only(refits.kernels_of("a", "noise"))
    small = MKLClassifier(bank(a=VIEWS["a"], noise=VIEWS["noise"]), tol=1e-6).fit(X, Y)
    fitted = part.estimator(part.fit())
    assert fitted.objective_ == pytest.approx(small.objective_, rel=1e-5)
    np.testing.assert_allclose(fitted.decision_function(X), small.decision_function(X), atol=2e-2)


def test_the_value_is_a_sum_over_views():
    refits = Refits.of(MKLClassifier(bank()), X, Y)
    fitted, some = refits.estimator(refits.fit()), np.arange(0, 60, 7)
    parts = sum(refits.values(fitted, some, view) for view in refits.views)
    np.testing.assert_allclose(parts + fitted.intercept_, refits.values(fitted, some), atol=1e-12)
    np.testing.assert_allclose(
        refits.values(fitted, some)[:, 0], fitted.decision_function(X[some]), atol=1e-12
    )


def test_kernel_matrices_as_X_can_be_refitted():
    K = np.array([X[:, :6] @ X[:, :6].T, X[:, 6:] @ X[:, 6:].T])
    model = MKLClassifier("precomputed", tol=1e-6)
    refits = Refits.of(model, K, Y)
    assert refits.fit().primal == pytest.approx(model.fit(K, Y).objective_, rel=1e-6)
    part = refits.part(np.arange(0, 60, 2))
    assert part.bank.stack.n == 30


def test_an_estimator_that_chooses_enters_with_its_choice():
    model = MKLClassifierCV(bank(), Cs=[0.1, 10.0], weight_norms=[2], cv=2)
    single = as_single(model.fit(X, Y), X, Y)
    assert single.C == model.C_ and single.weight_norm == 2
    assert as_single(MKLClassifierCV(bank(), Cs=[3.0], weight_norms=[1], cv=2), X, Y).C == 3.0


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="pass its last step"):
        as_single(make_pipeline(MKLClassifier()), X, Y)
    with pytest.raises(TypeError, match="Use MKLClassifier"):
        as_single(TransductiveMKLClassifier(), X, Y)


def test_resamples_keep_classes_and_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 5)
    units = Blocks(60, Y, groups)
    for _ in range(5):
        counts = units.bootstrap(rng)
        assert counts[Y == "no"].sum() == counts[Y == "yes"].sum() == 30
        assert all(np.ptp(counts[groups == g]) == 0 for g in range(12))
    assert Blocks(60, Y).bootstrap(rng).sum() == 60


def test_groups_change_places_as_a_whole():
    groups = np.array([0, 1, 1, 2, 0, 3, 3, 3])
    order = Blocks(8, groups=groups).permutation(np.random.default_rng(3))
    assert sorted(order.tolist()) == list(range(8))
    assert order[3] == 3 and set(order[5:]) == {5, 6, 7}  # the only groups of their size
    assert {*order[[0, 4]]} in ({0, 4}, {1, 2})
    with pytest.raises(ValueError, match="no two groups"):
        Blocks(6, groups=[0, 1, 1, 2, 2, 2]).check_exchangeable()
