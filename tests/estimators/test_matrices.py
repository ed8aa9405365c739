"""Kernel matrices in place of X, the way SVC takes them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from kernelweave import (
    KernelBank,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    Precomputed,
    TransductiveMKLClassifier,
)

rng = np.random.default_rng(7)
A, B = rng.normal(size=(50, 3)), rng.normal(size=(12, 3))
ALL = np.vstack([A, B])
Y = np.digitize(A[:, 0] + 0.3 * rng.normal(size=50), [-0.5, 0.5])


def gaussian(U, V):
    return np.exp(-((U[:, None] - V[None]) ** 2).sum(axis=2) / 2)


KERNELS = [lambda U, V: U @ V.T, gaussian, lambda U, V: (U @ V.T + 1) ** 2]
TRAIN = [k(A, A) for k in KERNELS]
CROSS = [k(B, A) for k in KERNELS]
ROWS, NEW_ROWS = np.arange(50).reshape(-1, 1), np.arange(50, 62).reshape(-1, 1)


@pytest.mark.parametrize("rule", ["trace", "unit_trace", "center+trace", None])
@pytest.mark.parametrize("estimator", [MKLClassifier(C=5.0), MKLRegressor(), MKLOneClass(nu=0.2)])
def test_same_as_row_numbers(estimator, rule):
    if isinstance(estimator, MKLOneClass) and rule == "center+trace":
        pytest.skip("centered kernels are refused")
    by_matrix = clone(estimator).set_params(kernels=KernelBank("precomputed", normalize=rule))
    bank = KernelBank([Precomputed(k(ALL, ALL)) for k in KERNELS], normalize=rule)
    by_rows = clone(estimator).set_params(kernels=bank)
    by_matrix.fit(TRAIN, Y)
    by_rows.fit(ROWS, Y)
    np.testing.assert_allclose(by_matrix.weights_, by_rows.weights_, atol=1e-12)
    np.testing.assert_allclose(by_matrix.predict(CROSS), by_rows.predict(NEW_ROWS), atol=1e-10)
    assert np.array_equal(by_matrix.predict(np.array(CROSS)), by_matrix.predict(CROSS))
    assert by_matrix.n_features_in_ == 50


def test_weights_of_rows_and_names():
    weights = rng.integers(0, 3, size=50)
    weights[-3:] = 0
    named = dict(zip(("line", "bump", "bowl"), TRAIN, strict=True))
    model = MKLClassifier("precomputed").fit(named, Y, sample_weight=weights)
    assert model.kernel_names_.tolist() == ["line", "bump", "bowl"]
    bank = [Precomputed(k(ALL, ALL)) for k in KERNELS]
    by_rows = MKLClassifier(bank).fit(ROWS, Y, sample_weight=weights)
    np.testing.assert_allclose(
        model.decision_function(CROSS), by_rows.decision_function(NEW_ROWS), atol=1e-10
    )


def test_one_matrix_is_svc():
    model = MKLClassifier(KernelBank("precomputed", normalize=None), multi_class="ovo", tol=1e-8)
    machine = SVC(kernel="precomputed", tol=1e-8).fit(TRAIN[1], Y)
    values = model.fit([TRAIN[1]], Y).decision_function([CROSS[1]])
    np.testing.assert_allclose(values, machine.decision_function(CROSS[1]), atol=1e-3)


def test_a_pickle_holds_no_matrix():
    model = MKLClassifier("precomputed").fit(TRAIN, Y)
    saved = pickle.dumps(model)
    assert len(saved) < TRAIN[0].nbytes
    back = pickle.loads(saved)
    assert np.array_equal(back.decision_function(CROSS), model.decision_function(CROSS))
    assert model.combined_kernel(CROSS).shape == (12, 50)


def with_nan(K):
    return [*K[:2], np.where(np.eye(*K[2].shape) > 0, np.nan, K[2])]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (A, Y, r"takes a list of matrices or an array \(m, n, n\).*ndarray of shape \(50, 3\)"),
        ([], Y, "X holds no matrix; give one per kernel"),
        (CROSS, Y, r"kernel 0 must be square in fit.*\(12, 50\).*row numbers as X"),
        ([TRAIN[0], TRAIN[1][:40, :40]], Y, r"of one shape; found \(40, 40\) for kernel 1"),
        (with_nan(TRAIN), Y, "X: kernel 2 holds NaN or infinity"),
        (TRAIN, Y[:30], r"X has 50 rows, but y has 30 labels.*Precomputed\(K1\)"),
        ([TRAIN[0], -TRAIN[1]], Y, "positive semidefinite"),
        (TRAIN, None, "requires y to be passed"),
    ],
)
def test_bad_training_matrices(X, y, message):
    with pytest.raises(ValueError, match=message):
        MKLClassifier("precomputed").fit(X, y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (CROSS[:2], "X must hold 3 matrices, one per kernel as in fit; found 2"),
        ([K[:, :40] for K in CROSS], r"must be \(n_new, 50\).*\(12, 40\).*Precomputed"),
        (with_nan(CROSS), "X: kernel 2 holds NaN or infinity"),
        (B, r"takes a list of matrices.*found ndarray of shape \(12, 3\)"),
    ],
)
def test_bad_matrices_of_new_rows(X, message):
    with pytest.raises(ValueError, match=message):
        MKLClassifier("precomputed").fit(TRAIN, Y).predict(X)


def test_what_needs_more_than_matrices_is_refused():
    sphere = MKLClassifier(KernelBank("precomputed", normalize="sphere"))
    with pytest.raises(ValueError, match=r"sphere' needs k\(x, x\) of the rows to predict"):
        sphere.fit(TRAIN, Y)
    with pytest.raises(ValueError, match=r"not for transduction.*Precomputed"):
        TransductiveMKLClassifier("precomputed").fit(TRAIN, Y)


def test_cross_validation_names_the_way_of_row_numbers():
    square = TRAIN[1]  # rows are split, columns are not
    with pytest.raises(ValueError, match=r"Cross-validation and pipelines split.*row numbers"):
        cross_val_score(MKLClassifier("precomputed"), square, Y, error_score="raise")


def test_a_dict_goes_by_names():
    names = ("line", "bump", "bowl")
    model = MKLClassifier("precomputed").fit(dict(zip(names, TRAIN, strict=True)), Y)
    new = dict(zip(names, CROSS, strict=True))
    turned = {name: new[name] for name in reversed(names)}
    assert np.array_equal(model.decision_function(turned), model.decision_function(CROSS))
    with pytest.raises(ValueError, match="X lacks 'bump': a dict must name its matrices as fit"):
        model.predict({"line": CROSS[0], "bowl": CROSS[2], "hill": CROSS[1]})
    with pytest.raises(ValueError, match="X holds the unknown 'hill'"):
        model.predict({**new, "hill": CROSS[0]})
    with pytest.raises(ValueError, match=r"names of matrices must differ as text.*\[1, '1'\]"):
        MKLClassifier("precomputed").fit({1: TRAIN[0], "1": TRAIN[1]}, Y)


def labeled(K, rows="p"):
    columns = [f"p{i}" for i in range(K.shape[1])]
    return pd.DataFrame(K, index=[f"{rows}{i}" for i in range(len(K))], columns=columns)


def test_labels_of_data_frames_are_those_of_the_training_rows():
    frames, new = [labeled(K) for K in TRAIN], [labeled(K, "q") for K in CROSS]
    y = pd.Series(Y, index=frames[0].index)
    turn = np.random.default_rng(0).permutation(50)
    model = MKLClassifier("precomputed").fit(frames, y)
    assert model.feature_names_in_.tolist() == frames[0].columns.tolist()
    plain = MKLClassifier("precomputed").fit(TRAIN, Y)
    assert np.array_equal(model.decision_function(new), plain.decision_function(CROSS))
    with pytest.raises(ValueError, match=r"y has the row labels of X in another order"):
        MKLClassifier("precomputed").fit(frames, y.iloc[turn])
    with pytest.raises(ValueError, match=r"'kernel 0' and 'kernel 1' read the same rows, but row"):
        MKLClassifier("precomputed").fit([frames[0], frames[1].iloc[turn, turn]], y)
    with pytest.raises(ValueError, match=r"X: kernel 0: rows and columns of the data frame must"):
        MKLClassifier("precomputed").fit([frames[0].iloc[turn]], y)
    turned = [K.iloc[:, turn] for K in new]
    with pytest.raises(ValueError, match=r"X: column 0 of kernel 0 is 'p\d+', but row 0 of fit"):
        model.predict(turned)
    ordered = [K[model.feature_names_in_] for K in turned]
    assert np.array_equal(model.decision_function(ordered), plain.decision_function(CROSS))
    with pytest.raises(ValueError, match=r"'kernel 0' and 'kernel 1' read the same new rows"):
        model.predict([new[0], new[1].iloc[::-1], new[2]])
    assert not hasattr(model.fit(TRAIN, Y), "feature_names_in_")
    assert np.array_equal(model.decision_function(new), plain.decision_function(CROSS))
