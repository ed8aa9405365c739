"""Sparse X: products, distances and tables equal those of the same rows stored densely."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse as formats

from kernelweave.views import products, sparse
from kernelweave.views.table import Table

rng = np.random.default_rng(2)


def some_rows(n, d, density=0.2):
    return formats.csr_array(rng.uniform(size=(n, d)) * (rng.uniform(size=(n, d)) < density))


@pytest.mark.parametrize("density", [0.0, 0.03, 0.3, 1.0])
def test_products_and_distances_equal_the_dense_ones(density):
    a, b = some_rows(23, 17, density), some_rows(31, 17, density)
    x, z = a.toarray(), b.toarray()
    exact = ((x[:, None] - z) ** 2).sum(axis=2)
    np.testing.assert_allclose(sparse.products(a, b, np.empty((23, 31))), x @ z.T, atol=1e-14)
    np.testing.assert_allclose(sparse.sq_distances(a, b, np.empty((23, 31))), exact, rtol=1e-12)
    np.testing.assert_allclose(sparse.sq_norms(a), (x**2).sum(axis=1), atol=1e-14)


def test_triangles_equal_whole_matrices_to_the_last_bit():
    a = some_rows(40, 12, 0.4)
    below = np.tril_indices(40)
    whole = sparse.products(a, a, np.empty((40, 40)))
    distances = sparse.sq_distances(a, a, np.empty((40, 40)))
    assert np.array_equal(whole, whole.T)
    assert np.array_equal(distances, distances.T)
    assert not distances.diagonal().any()
    half = np.empty(products.size(40))
    assert np.array_equal(sparse.half_products(a, half), whole[below])
    assert np.array_equal(sparse.half_sq_distances(a, sparse.sq_norms(a), half), distances[below])


def test_near_rows_far_from_zero_keep_their_digits():
    """|x|² + |z|² − 2xᵀz alone would leave no digit of 1e-16."""
    x = np.zeros((3, 50))
    x[:, [3, 20, 41]] = 1e4 * rng.uniform(1.0, 2.0, 3)
    x[1, 7] = 1e-8
    x[2, 20] += 0.125
    distances = sparse.sq_distances(*2 * [formats.csr_array(x)], np.empty((3, 3)))
    assert distances[0, 1] == pytest.approx(1e-16, rel=1e-12)
    assert distances[0, 2] == 0.125**2


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("of", ["array", "matrix"])
def test_every_format_is_read(kind, of):
    dense = some_rows(7, 5, 0.5).toarray()
    X = getattr(formats, f"{kind}_{of}")(dense)
    table = Table.read(X)
    assert table.sparse and len(table) == 7 and table.n_columns == 5
    assert table.numbers.format == "csr"
    assert np.array_equal(table.floats(range(5)).toarray(), dense)
    assert np.array_equal(table.floats([4, 1]).toarray(), dense[:, [4, 1]])


def test_repeated_entries_are_added_and_x_is_left_alone():
    X = formats.csr_array((np.ones(3), np.array([2, 0, 2]), np.array([0, 3, 3])), shape=(2, 4))
    table = Table.read(X)
    assert np.array_equal(table.numbers.toarray(), [[1.0, 0.0, 2.0, 0.0], np.zeros(4)])
    assert X.nnz == 3 and X.indices.tolist() == [2, 0, 2]
    own = table.take(slice(None))
    X.data[:] = 9.0
    assert own.numbers.max() == 2.0


def test_rows_are_found_joined_and_compared():
    X = some_rows(9, 6, 0.5)
    table, spoilt = Table.read(X), X.copy()
    spoilt.data[0] = 0.0  # an explicit zero
    new = Table.read(formats.vstack([X[[4, 2]], spoilt[[0]], some_rows(1, 6, 1.0)]))
    assert table.find(new).tolist() == [4, 2, -1, -1]
    assert table.find(Table.read(X[[4]].toarray())).tolist() == [4]
    both = table.join(new)
    assert both.sparse and len(both) == 13
    assert np.array_equal(both.block(slice(9, 11)).numbers.toarray(), X[[4, 2]].toarray())
    assert Table.read(formats.csr_array([[1.0, 0.0], [1.0, 0.0]])).constant([0, 1])
    assert not Table.read(formats.csr_array([[1.0, 0.0], [0.0, 0.0]])).constant([0, 1])


def test_new_rows_take_the_form_of_the_training_rows():
    X = some_rows(6, 4, 0.5)
    sparsely, densely = Table.read(X), Table.read(X.toarray())
    assert sparsely.adopt(densely).sparse
    assert np.array_equal(sparsely.adopt(densely).numbers.toarray(), X.toarray())
    with pytest.raises(TypeError, match=r"X is sparse, but .* dense.*toarray"):
        densely.adopt(sparsely)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_indices_of_64_bits_unsorted_and_repeated_are_right(kind: type) -> None:
    """The fit, and its predictions, are those of the same rows in order."""
    from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier

    X = some_rows(30, 6, 0.5)
    rows, columns = X.nonzero()
    order = rng.permutation(np.repeat(np.arange(X.nnz), 2))  # each number in two halves
    order = order[np.argsort(rows[order], kind="stable")]
    starts = np.concatenate([[0], np.bincount(rows[order], minlength=30).cumsum()]).astype(kind)
    halves = 0.5 * X.data[order], columns[order].astype(kind), starts
    odd = formats.csr_array(halves, shape=X.shape)
    assert odd.indices.dtype == kind and not odd.has_canonical_format
    y, model = np.arange(30) % 2, MKLClassifier(KernelBank([Linear(), Gaussian(1.0)]))
    right = model.fit(X, y).decision_function(X)
    found = model.fit(odd, y)
    np.testing.assert_allclose(found.decision_function(odd), right, rtol=1e-9, atol=1e-12)
    assert odd.nnz == 2 * X.nnz and odd.indices.dtype == kind


@pytest.mark.parametrize("wrong", [30, 10**6, -1])
@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "lil"])
def test_indices_out_of_range_are_refused(kind: str, wrong: int) -> None:
    """SciPy's own conversions read and write beyond their arrays, too."""
    from kernelweave import MKLClassifier

    X = formats.random(30, 5, density=0.5, format=kind, random_state=0)
    if kind == "lil":
        X.rows[2] = [*X.rows[2][:-1], wrong]
    else:
        (X.col if kind == "coo" else X.indices)[3] = wrong
    with pytest.raises(ValueError, match="X is a sparse matrix with damaged indices"):
        MKLClassifier().fit(X, np.arange(30) % 2)
