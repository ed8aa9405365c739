"""Precomputed kernels: row numbers, what a matrix must be, sharing."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import cosine_similarity

from kernelweave import Gaussian, KernelBank, Precomputed

rng = np.random.default_rng(7)
X = rng.normal(size=(20, 3))
K_ALL = X @ X.T
ROWS = np.arange(12).reshape(-1, 1)


def raw(kernel, X, **options):
    return KernelBank(kernel, normalize=None, **options).fit(X)


@pytest.mark.parametrize("numbers", [ROWS, ROWS.astype(float), ROWS.tolist(), ROWS.astype(object)])
def test_precomputed_reads_row_numbers(numbers):
    fitted = raw(Precomputed(K_ALL), numbers)
    np.testing.assert_array_equal(fitted.stack.combine([1.0]), K_ALL[:12, :12])
    np.testing.assert_array_equal(
        fitted.cross([[19], [3]], [1.0], rows=[5, 0]), K_ALL[[19, 3]][:, [5, 0]]
    )
    sphere = KernelBank(Precomputed(K_ALL), normalize="sphere").fit(numbers)
    np.testing.assert_allclose(sphere.cross([[19]], [1.0]), cosine_similarity(X)[19:, :12])


def test_precomputed_is_not_scaled_by_the_bank():
    fitted = raw([Precomputed(K_ALL), Gaussian()], ROWS, scale="standard")
    np.testing.assert_array_equal(fitted.cross([[19]], [1.0, 0.0]), K_ALL[19:, :12])


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([[0], [-1]], "must be non-negative; found -1 in row 1 of X"),
        ([[0.5], [1]], "must be whole numbers; found 0.5 in row 0 of X"),
        ([[0], [20]], "below 20, the size of the matrix; found 20"),
        ([[0], [np.nan]], "must be finite; found nan"),
        ([["a"], ["b"]], "must be numbers; found 'a'"),
        ([[0, 1], [1, 2]], "takes one column of row numbers; view 'all' has 2 columns"),
        (K_ALL, r"For all rows, X is np.arange\(len\(K\)\).reshape\(-1, 1\), not K"),
    ],
)
def test_bad_row_numbers(numbers, message):
    with pytest.raises(ValueError, match=message):
        raw(Precomputed(K_ALL), numbers)


def test_bad_row_numbers_at_prediction():
    fitted = raw(Precomputed(K_ALL), ROWS)
    with pytest.raises(ValueError, match="found -3"):
        fitted.cross([[-3]], [1.0])


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((2, 3)), r"Precomputed: K must be a square matrix, found shape \(2, 3\)"),
        (np.ones(3), "square matrix"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), r"K has 2 NaN and 0 .*the first at \[0, 1\]"),
        (np.array([[1.0, 0.5], [0.1, 1.0]]), r"not symmetric.* \(K \+ K.T\) / 2"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), 'eigenvalue -1 .*K, indefinite="clip".*check=F'),
        (pd.DataFrame(np.eye(2), ["a", "b"], ["b", "a"]), "rows 'a', 'b' and columns 'b', 'a'"),
        (
            pd.DataFrame(np.eye(4), columns=[*"abcd"]),
            "rows '0', '1', '2' and 1 more and.*_col=0",
        ),
    ],
)
def test_bad_matrices(K, message):
    with pytest.raises(ValueError, match=message):
        Precomputed(K)


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.eye(2) * 1j, "Precomputed: K must hold real numbers, found .* complex128"),
        ([["a", "b"], ["c", "d"]], "must hold real numbers"),
        (np.ma.masked_equal(np.eye(3), 0.0), "Precomputed: K is a masked array; fill its gaps"),
    ],
)
def test_matrices_of_another_type(K, message):
    with pytest.raises(TypeError, match=message):
        Precomputed(K)


def test_a_matrix_of_objects_is_one_of_numbers():
    frame = pd.DataFrame(K_ALL).astype("Float64")  # NumPy sees objects
    assert np.array_equal(Precomputed(frame).K, K_ALL)


def test_data_frame_keeps_its_labels():
    frame = pd.DataFrame(K_ALL, labels := [f"s{i}" for i in range(20)], labels)
    kernel = Precomputed(frame)
    np.testing.assert_array_equal(kernel.K, K_ALL)
    assert clone(kernel).labels == kernel.set_params(check=False).labels == tuple(labels)
    assert Precomputed(pd.DataFrame(K_ALL)).labels is None
    text = pd.DataFrame(K_ALL, columns=[str(i) for i in range(20)])  # as read_csv spells it
    assert kernel.set_params(K=text).labels is None


def test_float32_matrix_is_judged_as_rounded():
    K = (K_ALL - 1e-6 * np.linalg.norm(K_ALL, 2) * np.eye(20)).astype(np.float32)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        Precomputed(K.astype(float))
    K[0, 1] *= 1 + 1e-6
    kernel = Precomputed(K)
    assert kernel.K.dtype == np.float64 and np.array_equal(kernel.K, kernel.K.T)
    with pytest.raises(ValueError, match="not symmetric"):
        Precomputed(K.astype(float))


def test_float32_function_is_judged_as_rounded():
    """Where float64 numbers would be refused, as for a matrix."""
    K = (K_ALL - 1e-6 * np.linalg.norm(K_ALL, 2) * np.eye(20)).astype(np.float32)
    K[0, 1] *= 1 + 1e-6

    def rough(A, B):
        return K[np.ix_(A[:, 0].astype(int), B[:, 0].astype(int))]

    rows = np.arange(20).reshape(-1, 1)
    found = raw(rough, rows).stack.combine([1.0])
    np.testing.assert_allclose(found, K, rtol=1e-6)
    assert np.array_equal(found, found.T)
    for message, fault in (("not symmetric", K), ("not positive semidefinite", (K + K.T) / 2)):
        with pytest.raises(ValueError, match=message):
            raw(lambda A, B, K=fault: K.astype(float), rows)


def test_a_rounded_matrix_is_clipped():
    correlation = np.corrcoef(X).round(6)
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        Precomputed(correlation)
    kernel = Precomputed(correlation, indefinite="clip")
    np.testing.assert_allclose(kernel.K, correlation, atol=1e-5)
    assert np.linalg.eigvalsh(kernel.K)[0] > -1e-12
    assert clone(kernel) == kernel
    with pytest.raises(ValueError, match="indefinite must be 'raise' or 'clip'; found 'drop'"):
        Precomputed(correlation, indefinite="drop")


def test_unchecked_matrix():
    assert len(Precomputed(np.array([[1.0, 2.0], [2.0, 1.0]]), check=False).K) == 2


def test_precomputed_is_shared_and_read_only():
    K = K_ALL.copy()
    kernel = Precomputed(K)
    assert K.flags.writeable
    for other in (
        clone(kernel),
        copy.deepcopy(kernel),
        clone(KernelBank([("one", kernel, 0)])).kernels[0][1],
        clone(KernelBank([kernel])).kernels[0],
        raw(kernel, ROWS).members[0].kernel,
    ):
        assert np.shares_memory(other.K, K)
        assert other is not kernel
        assert other == kernel
    with pytest.raises(ValueError, match="read-only"):
        kernel.K[0, 0] = 3.0
    restored = pickle.loads(pickle.dumps(kernel))
    assert restored == kernel
    assert not restored.K.flags.writeable


def test_precomputed_is_symmetrized_and_set_with_a_check():
    kernel = Precomputed(K_ALL + 1e-14 * rng.normal(size=(20, 20)))
    assert np.array_equal(kernel.K, kernel.K.T)
    assert repr(kernel) == "Precomputed(20×20)"
    other = clone(kernel).set_params(K=np.eye(3))
    assert (len(other.K), len(kernel.K)) == (3, 20)
    with pytest.raises(ValueError, match="square"):
        kernel.set_params(K=np.ones((2, 3)))
