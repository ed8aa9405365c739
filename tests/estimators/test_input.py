"""What the classifier refuses, and when: before kernels are computed if it can."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning, NotFittedError

from kernelweave import (
    Gaussian,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    TransductiveMKLClassifier,
)

rng = np.random.default_rng(5)
X = rng.normal(size=(80, 4))
Y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=80) > 0.8, 1, 0)
NEW = rng.normal(size=(23, 4))


def fit(*args, X=X, y=Y, **params):
    return MKLClassifier(*args, **params).fit(X, y)


def spoilt(value):
    data = X.copy()
    data[3, 2] = value
    return data


@pytest.mark.parametrize(
    ("data", "y", "error", "message"),
    [
        (spoilt(np.nan), Y, ValueError, r"Input X contains NaN.*column 'x2' \(1 NaN\)"),
        (spoilt(np.inf), Y, ValueError, r"Input X.*column 'x2' \(1 infinity\)"),
        (spoilt(-np.inf), Y, ValueError, r"Input X.*column 'x2' \(1 infinity\)"),
        (X[:, 0], Y, ValueError, "Expected 2D array, got 1D array"),
        (X[None], Y, ValueError, "Found array with dim 3"),
        (3, Y, ValueError, "Expected 2D array, got scalar"),
        (X[:0], Y[:0], ValueError, r"0 sample\(s\)|at least one|only one class|empty"),
        (X[:, :0], Y, ValueError, r"0 feature\(s\)"),
        (X.astype(str), Y, ValueError, "Column 'x0' of X does not hold numbers"),
        (None, Y, TypeError, "X must be a table: .*found None"),
        ([], [], ValueError, "X has no rows"),
        ([[1, 2], [3]] * 40, Y, ValueError, "X must have as many values in every row"),
        ([*X.tolist()[:79], [10**400] * 4], Y, ValueError, "Column 'x0' of X .* large .* row 79"),
        (X + 1j, Y, ValueError, "Complex data not supported"),
        (X, Y[:-1], ValueError, "X has 80 rows, but y has 79 labels"),
        (X, None, ValueError, "requires y to be passed, but the target y is None"),
        (X, np.ones(80), ValueError, "y contains only one class, 1.0; a classifier needs two"),
        (X, ["a"] * 80, ValueError, "y contains only one class, 'a'"),
        (X, X[:, 0], ValueError, "Unknown label type: continuous.*use MKLRegressor"),
        (X, np.ma.masked_equal(Y, 1), TypeError, "y is a masked array; leave rows without a label"),
        (X, np.column_stack([Y, Y]), ValueError, r"y should be a 1d array.*\(80, 2\)"),
        (X, np.where(Y, np.nan, 1.0), ValueError, r"labels in y are missing \(nan\).*row 0"),
        (X, np.where(Y, np.inf, 1.0), ValueError, "Input y contains infinity"),
        (X, np.array([3, "a"] * 40, dtype=object), TypeError, "labels of one type, found int, str"),
        (X, ["b", None] + ["a"] * 78, ValueError, r"1 labels in y are missing \(None\).*row 1;"),
        (X, [True, pd.NA] * 40, ValueError, r"40 labels in y are missing \(<NA>\).*row 1;"),
        (X, np.array([1, np.nan] * 40, dtype=object), ValueError, r"y are missing.*Transductive"),
        (X, np.where(Y, 1e19, -1e19), ValueError, r"y .* too large for labels, such as 1e\+19"),
        (X, np.where(Y, 1j, 1.0), ValueError, r"y holds complex numbers.*\.astype\(str\)"),
        (X, pd.cut(X[:, 0], 3), ValueError, r"y holds .* Interval, .{,60}; .*\.astype\(str\)"),
        (X, [pd.Period("2020"), pd.Period("2021")] * 40, ValueError, r"Period.*\.astype\(str\)"),
        (X, np.array([0, 10**400] * 40, dtype=object), ValueError, r"int, .*\.astype\(str\)"),
        (X, Y.astype(object), ValueError, r"y holds objects of type int.*\.astype\(int\)"),
    ],
)
def test_bad_data(data, y, error, message):
    with pytest.raises(error, match=message):
        MKLClassifier().fit(data, y)


@pytest.mark.parametrize(
    "model",
    [
        MKLClassifier(),
        TransductiveMKLClassifier(unlabeled=None),
        MKLRegressor(learner="skm", loss="squared"),
    ],
)
def test_a_column_of_labels_is_told_at_the_users_line(model):
    with pytest.warns(DataConversionWarning, match="column-vector y") as told:
        model.fit(X, Y[:, None])
    assert [warning.filename for warning in told] == [__file__]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"C": 0.0}, ValueError, "C must be positive, found 0"),
        ({"C": -1}, ValueError, "C must be positive, found -1"),
        ({"C": np.nan}, ValueError, "C must be positive, found nan"),
        ({"C": "1"}, TypeError, "C must be a positive number or 'learn', found '1'$"),
        ({"C": [1.0] * 80}, ValueError, r"C must be one number, found ndarray of shape \(80,\)$"),
        ({"C": None}, TypeError, "C must be a positive number or 'learn', found None$"),
        ({"C": True}, TypeError, "C must be a positive number or 'learn', found True$"),
        ({"C": 1j}, TypeError, "C must be a positive number or 'learn', found 1j$"),
        ({"loss": "log"}, ValueError, r"loss must be one of \['hinge'.*found 'log'"),
        ({"learner": "fast"}, ValueError, r"learner must be one of \['auto'.*'fast'; 'sdp' is for"),
        ({"random_state": "junk"}, ValueError, "'junk' cannot be used to seed"),
        ({"learner": None}, TypeError, "learner must be .*found None"),
        ({"weight_norm": 0.5}, ValueError, "weight_norm must be .*found 0.5"),
        ({"tol": 0.0}, ValueError, "tol must be positive, found 0"),
        ({"max_iter": 0}, ValueError, "max_iter must be positive, found 0"),
        ({"max_iter": 1.5}, TypeError, "max_iter must be a positive int, found 1.5"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be .*found 0"),
        ({"kernels": []}, ValueError, "kernels: the bank is empty"),
        ({"kernels": 3}, TypeError, "kernels: an item is a kernel.*found 3"),
        ({"kernels": Gaussian}, TypeError, r"found the class Gaussian; pass an object"),
        ({"kernels": "rbff"}, ValueError, "no kernel named 'rbff'; did you mean 'rbf'"),
        ({"kernels": [("a", Linear(), "age")]}, ValueError, "column 'age' is requested by name"),
        ({"kernels": [("a", Linear(), 9)]}, ValueError, "column 9 is out of range"),
        ({"kernels": KernelBank(views={"a": [0, 9]})}, ValueError, "view 'a': column 9"),
        ({"kernels": KernelBank(normalize="l2")}, ValueError, "normalize must be .*found 'l2'"),
        ({"kernels": Gaussian(-1.0)}, ValueError, "width must be positive, found -1"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        fit(**params)


@pytest.mark.parametrize(
    "params",
    [
        {"tol": 0.0},
        {"max_iter": 0},
        {"weight_norm": 0.5},
        {"weight_norm": 2, "C": "learn", "loss": "squared_hinge"},
        {"weight_norm": 2, "learner": "silp"},
        {"weight_norm": 3, "learner": "radius_bound"},
        {"weight_norm": None},
        {"C": "learn", "learner": "radius", "loss": "squared_hinge"},
        {"C": "learn", "learner": "uniform", "loss": "squared_hinge"},
    ],
)
def test_bad_parameters_are_found_before_kernels_are_computed(params):
    def kernel(A, B):
        raise AssertionError("a kernel was computed")

    with pytest.raises(ValueError, match=next(iter(params))):
        fit(kernel, **params)


def test_a_fitted_model_has_no_matrices():
    with pytest.raises(ValueError, match=r"models.*do not keep.*KernelBank.*fit\(X\)\.stack"):
        _ = fit().bank_.stack


@pytest.mark.parametrize("unit", [1e-150, 1e-200, 1e-300, 1e150])
def test_the_unit_of_X_does_not_matter(unit):
    model, other = fit(tol=1e-8), fit(X=X * unit, tol=1e-8)
    np.testing.assert_allclose(other.weights_, model.weights_, atol=1e-4)
    values = [one.decision_function(NEW * scale) for one, scale in ((model, 1.0), (other, unit))]
    np.testing.assert_allclose(*values, atol=1e-4)


def test_nothing_to_predict():
    with pytest.raises(TypeError, match=r"X must be a table: .*found None"):
        fit().predict(None)


def test_bad_data_at_prediction():
    model = fit()
    for data, message in (
        (NEW[:, :3], "X has 3 features, but MKLClassifier is expecting 4 features"),
        (NEW[0], "Expected 2D array, got 1D array"),
        (spoilt(np.nan), "Input X contains NaN"),
        (spoilt(np.inf), "Input X contains NaN or infinity"),
    ):
        for method in (model.predict, model.decision_function, model.combined_kernel):
            with pytest.raises(ValueError, match=message):
                method(data)
    for method in ("predict", "decision_function", "combined_kernel"):
        with pytest.raises(NotFittedError, match="MKLClassifier instance is not fitted yet"):
            getattr(MKLClassifier(), method)(NEW)


def test_a_kernel_that_is_not_finite_at_prediction():
    """Comparing NaN with zero would make it the first class."""

    def product(A, B):
        return np.where(np.abs(A).max(axis=1, keepdims=True) > 90.0, np.nan, A @ B.T)

    model, strange = fit(("mine", product)), NEW.copy()
    strange[0, 0] = 99.0
    for method in (model.predict, model.decision_function, model.combined_kernel):
        with pytest.raises(ValueError, match="Kernel 'mine' is not finite"):
            method(strange)


@pytest.fixture(scope="module")
def sparse():
    """A model that gives column d no weight, and does not read b, c and note."""
    table = pd.DataFrame(X, columns=[*"abcd"]).assign(note="word")
    bank = KernelBank([Linear()], views={"a": ["a"], "d": ["d"]}, missing="error")
    model = MKLClassifier(bank, C=0.1).fit(table, X[:, 0] > 0.0)
    assert model.weights_[1] == 0.0
    return model, table


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"NaN or infinity in column 'd' \(1 NaN\)"),
        (np.inf, r"NaN or infinity in column 'd' \(1 infinity\)"),
        (None, "column 'd'"),
        ("high", "Column 'd' of X held numbers in fit, but holds 'high' in row 5"),
    ],
)
def test_columns_of_kernels_without_weight_are_checked_too(sparse, value, message):
    """As SVC does: else bad rows would be noticed or not by the luck of the weights."""
    model, table = sparse
    spoilt = table.astype(object)
    spoilt.loc[5, "d"] = value
    for method in (model.predict, model.decision_function, model.combined_kernel):
        with pytest.raises(ValueError, match=message):
            method(spoilt)
    back = pickle.loads(pickle.dumps(model))
    with pytest.raises(ValueError, match=message):
        back.predict(spoilt)


def test_columns_that_no_kernel_reads_may_hold_anything(sparse):
    model, table = sparse
    expected = model.decision_function(table)
    for note in (np.nan, None, "other", 3.0):
        assert np.array_equal(model.decision_function(table.assign(note=note)), expected)


def test_columns_that_were_constant_in_fit_are_checked_too():
    table = X.copy()
    table[:, 3] = 1.0
    bank = KernelBank([Linear()], views="each", missing="error")
    with pytest.warns(UserWarning, match="left out"):
        model = MKLClassifier(bank).fit(table, Y)
    table[0, 3] = np.nan
    with pytest.raises(ValueError, match="column 'x3'"):
        model.predict(table)


def test_words_that_a_kernel_without_weight_reads():
    """Kernels on words take what they took in fit."""

    def same(A, B):
        return (A[:, :1] == B[:, :1].T).astype(float)

    rows = np.column_stack([X[:, 0], np.where(np.arange(80) % 2, "p", "q")]).astype(object)
    rows[:, 0] = X[:, 0]
    kernels = [("number", Linear(), [0]), ("word", same, [1])]
    model = MKLClassifier(kernels, C=0.1).fit(rows, X[:, 0] > 0.0)
    assert model.weights_[1] == 0.0
    rows[0, 1] = "new"
    assert model.predict(rows).shape == (80,)
