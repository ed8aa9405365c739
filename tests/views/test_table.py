"""What X may hold: numbers in any dress, text for those that ask, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from _helpers.small_table import FRAME, NEW, X, quiet, words

from kernelweave import Gaussian, KernelBank, Linear


@pytest.mark.parametrize(
    "data",
    [X.tolist(), X.astype(object), X.astype(np.float32), np.asfortranarray(X), FRAME,
     FRAME.astype("Float64"), FRAME.astype(object), [tuple(row) for row in X]],
    ids=["list", "object", "float32", "fortran", "frame", "nullable", "object frame", "tuples"],
)  # fmt: skip
def test_numbers_in_any_dress(data):
    expected = quiet(KernelBank(Gaussian(1.0)), X).cross(NEW, [1.0])
    fitted = quiet(KernelBank(Gaussian(1.0)), data)
    np.testing.assert_allclose(fitted.cross(NEW, [1.0]), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (None, TypeError, "X must be a table: .*; found None"),
        ([], ValueError, r"X has no rows: found \[\]"),
        ([[1, 2], [3]] * 9, ValueError, "X must have as many values .* 2 in row 0, but 1 in row 1"),
        ([[1, [2, 3]], [3, 4]], ValueError, "X must hold one value in each cell"),
        ([[1, 2], [10**400, 3]], ValueError, "Column 'x0' of X .* too large for a float in row 1"),
        (FRAME.assign(age=[10**5000] * 15), ValueError, "Column 'age' of X .* in row 0, above"),
    ],
    ids=["nothing", "empty", "ragged", "nested", "huge", "digits"],
)
def test_what_is_no_table_of_numbers(data, error, message):
    with pytest.raises(error, match=message):
        KernelBank(Linear()).fit(data)


def test_a_number_too_large_in_new_rows():
    fitted = quiet(KernelBank(Linear()), FRAME)
    with pytest.raises(ValueError, match="Column 'age' of X holds a number too large for a float"):
        fitted.cross(FRAME.assign(age=[10**400] * 15), [1.0])


def test_integers_and_booleans_are_numbers():
    flags = X > 0
    expected = quiet(KernelBank(Linear()), flags.astype(float)).stack.combine([1.0])
    for data in (flags, flags.astype(np.uint8), pd.DataFrame(flags)):
        assert np.array_equal(quiet(KernelBank(Linear()), data).stack.combine([1.0]), expected)


def mixed_frame():
    return FRAME.assign(site=["a", "b", "c"] * 5, when=pd.Timestamp("2020-01-01"))


def test_mixed_frame_reaches_the_kernels_that_ask():
    data = mixed_frame()
    received = []

    def product(A, B):
        received.append((A.dtype, B.dtype))
        return A @ B.T

    bank = KernelBank(
        [("site", words, "site"), ("age", Gaussian(1.0), "age"), ("f", product, ["age", "dose"])],
        scale="standard",
    )
    fitted = quiet(bank, data)
    np.testing.assert_array_equal(fitted.stack.combine([1.0, 0, 0]), np.tile(np.eye(3), (5, 5)))
    np.testing.assert_array_equal(fitted.cross(data[:2], [1.0, 0, 0])[:, :3], np.eye(3)[:2])
    A = X[:, [0, 3]]
    np.testing.assert_allclose(
        fitted.cross(data[:2], [0, 0, 1.0]) / fitted.scales[2], A[:2] @ A.T, rtol=1e-12
    )
    assert set(received) == {(np.dtype(float), np.dtype(float))}  # numbers come as numbers
    small = pickle.loads(pickle.dumps(fitted.compact([0], [1, 4])))
    np.testing.assert_array_equal(small.cross(data[:2], [1.0, 0, 0]), [[0, 0], [1, 1]])


def test_numeric_kernel_on_text():
    with pytest.raises(
        ValueError, match=r"Column 'site' of X .* string to float: 'a'; .*Hamming.*give it"
    ):
        KernelBank(Gaussian()).fit(mixed_frame())
    with pytest.raises(TypeError, match="Column 'when' of X does not hold numbers"):
        KernelBank(Gaussian()).fit(mixed_frame().drop(columns="site"))
    with pytest.raises(ValueError, match=r"'x0' of X .* but strings, found '1.0'; .*pd.to_numeric"):
        KernelBank(Gaussian()).fit([["1.0"], ["2.0"]])
    with pytest.raises(ValueError, match=r"'x0' of X .* string to float: '2,5'; .*give it"):
        KernelBank(Gaussian()).fit([["1.0"], ["2,5"]])
    with pytest.raises(ValueError, match=r"Column 'x1' of X .* string to float: 'b'"):
        KernelBank(("one", Gaussian(), 1)).fit(np.array([["a", "b"]]))
    odd = X.astype(object)
    odd[0, 0] = {"foo": "bar"}
    with pytest.raises(TypeError, match=r"Column 'x0'.*argument must be .* string.* number"):
        KernelBank(Gaussian()).fit(odd)


@pytest.mark.parametrize("where", ["fit", "cross"])
@pytest.mark.parametrize("dress", [np.asarray, lambda a: a.astype(object)])
def test_missing_and_infinite_values(where, dress):
    fitted = quiet(KernelBank(Gaussian()), X)
    data = X.copy()
    data[2:4, 1], data[5, 3], data[6, 3] = np.nan, np.inf, -np.inf
    message = (
        r"Input X contains NaN or infinity in column 'x1' \(2 NaN\), 'x3' \(2 infinity\) among 15"
    )
    with pytest.raises(ValueError, match=message):
        if where == "fit":
            KernelBank(Gaussian()).fit(dress(data))
        else:
            fitted.cross(dress(data), [1.0])


@pytest.mark.parametrize("views", ["each", "all+each"])
def test_a_column_of_infinities_is_not_constant(views):
    data = X.copy()
    data[:, 1] = np.inf
    with pytest.raises(ValueError, match="'x1' \\(15 infinity\\)"):
        KernelBank(Gaussian(), views=views).fit(data)


def test_missing_values_in_a_nullable_column():
    data = FRAME.astype("Float64")
    data.iloc[3, 2] = pd.NA
    with pytest.raises(ValueError, match=r"column 'height' \(1 NaN\)"):
        KernelBank(Gaussian()).fit(data)


def test_missing_values_are_for_functions_to_judge():
    data = X.copy()
    data[0, 0] = np.nan

    def f(A, B):
        return np.nan_to_num(A) @ np.nan_to_num(B).T

    assert np.isfinite(quiet(KernelBank(f), data).stack.combine([1.0])).all()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (X[:, 0], ValueError, r"Expected 2D array, got 1D array[\s\S]*Reshape your data"),
        (FRAME["age"], ValueError, "Expected 2D array"),
        (3.0, ValueError, "Expected 2D array, got scalar"),
        (X[None], ValueError, "Found array with dim 3"),
        (X[:0], ValueError, r"0 sample\(s\) \(shape=\(0, 4\)\) while a minimum of 1 is required"),
        (X[:, :0], ValueError, r"0 feature\(s\) \(shape=\(15, 0\)\) while a minimum of 1"),
        (FRAME[[]], ValueError, r"0 feature\(s\)"),
        (X + 1j, ValueError, "Complex data not supported"),
        (pd.DataFrame(X + 1j), ValueError, "Complex data not supported"),
        (np.ma.masked_array(X, mask=X > 1.0), TypeError, r"masked array; .*\.filled\(value\)"),
    ],
)
def test_shapes_and_types(data, error, message):
    with pytest.raises(error, match=message):
        KernelBank(Gaussian()).fit(data)
    if not hasattr(data, "dtype") or data.dtype != complex:
        fitted = quiet(KernelBank(Gaussian()), X)
        with pytest.raises(error, match=message):
            fitted.cross(data, [1.0])


def test_a_masked_array_in_which_nothing_is_masked_is_an_array():
    fitted, same = (KernelBank(Gaussian()).fit(data) for data in (X, np.ma.masked_array(X)))
    assert np.array_equal(fitted.cross(X, [1.0]), same.cross(np.ma.masked_array(X), [1.0]))


def test_other_columns_at_prediction():
    fitted = quiet(KernelBank(Gaussian()), FRAME)
    with pytest.raises(ValueError, match="X has 3 features, but KernelBank is expecting 4 feat"):
        fitted.cross(X[:, :3], [1.0])
    with pytest.raises(ValueError, match=r"unseen at fit time: 'size'\n.*now missing: 'height'"):
        fitted.cross(FRAME.rename(columns={"height": "size"}), [1.0])
    with pytest.raises(ValueError, match="must be in the same order"):
        fitted.cross(FRAME[FRAME.columns[::-1]], [1.0])
    assert np.array_equal(fitted.cross(X, [1.0]), fitted.cross(FRAME, [1.0]))


def test_one_row():
    fitted = quiet(KernelBank(Gaussian(1.0, relative=True)), X[:1])
    assert fitted.stack.combine([1.0]) == [[1.0]]
    with pytest.warns(UserWarning, match="4 of 5 kernels are left out"):
        assert KernelBank().fit(X[:1]).stack.m == 1
