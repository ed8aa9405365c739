"""Lower triangles: where entries stand, and that nothing is lost on the way there and back."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import Gaussian, KernelBank, Laplacian, Linear, Polynomial
from kernelweave.views import products
from kernelweave.views.products import from_half_products

rng = np.random.default_rng(5)


def symmetric(n):
    A = rng.normal(size=(n, n))
    return A + A.T


def packed(A):
    return A[np.tril_indices(len(A))].copy()


sizes = pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 31, 130])


@sizes
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_there_and_back(n, dtype):
    A = symmetric(n)
    half = np.full(products.size(n), np.nan)
    for first in range(0, n, 3):  # rows in blocks, each as wide as it happens to be
        products.pack(A[first : first + 3].copy(), first, half)
    assert np.array_equal(half, packed(A))
    out = np.full((n, n), np.nan, dtype)
    products.unpack(half, 1.0, out)
    assert np.array_equal(out, A.astype(dtype))
    products.unpack(half, 0.3, out)
    assert np.array_equal(out, (0.3 * A).astype(dtype))


@sizes
def test_in_the_matrix_s_own_memory(n):
    A, out = symmetric(n), np.full((n, n), np.nan)
    products.room(out)[:] = packed(A)
    products.unpack_in_place(0.3, out)
    assert np.array_equal(out, 0.3 * A)


@sizes
def test_what_is_read_off_a_triangle(n):
    A = symmetric(n)
    half = packed(A)
    assert np.array_equal(products.diagonal(half, n), A.diagonal())
    np.testing.assert_allclose(products.means(half, np.ones(n)), A.mean(axis=1), atol=1e-14 * n)
    weights = rng.uniform(0.5, 2.0, n)
    expected = np.average(A, 1, weights)
    np.testing.assert_allclose(products.means(half, weights), expected, atol=1e-14 * n)


def test_means_of_many_equal_numbers():
    """0.1 added up three thousand times, one by one, is off by more than 1e-13."""
    half = np.full(products.size(3000), 0.1)
    np.testing.assert_allclose(products.means(half, np.ones(3000)), 0.1, rtol=2e-14)


@sizes
def test_centering_and_rescaling(n):
    A, shift, factor = symmetric(n), rng.normal(size=n), rng.normal(size=n)
    half = packed(A)
    products.center(half, shift)
    products.rescale(half, factor)
    expected = np.outer(factor, factor) * (A - np.add.outer(shift, shift))
    np.testing.assert_allclose(half, packed(expected), atol=1e-12)


@sizes
def test_products_and_differences(n):
    X = rng.normal(size=(n, 3))
    half, x = np.empty(products.size(n)), X[:, 0].copy()
    products.products(x, half)
    assert np.array_equal(half, packed(np.outer(x, x)))
    products.sq_differences(x, half)
    assert np.array_equal(half, packed(np.subtract.outer(x, x) ** 2))


@sizes
def test_distances(n):
    X = rng.normal(size=(n, 3))
    half = packed(X @ X.T)
    from_half_products(X, (X**2).sum(axis=1), half)
    exact = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(half, packed(exact), rtol=1e-11)
    assert not products.diagonal(half, n).any()


@pytest.mark.parametrize("kernel", [Gaussian(1.3), Laplacian(), Polynomial(3), Linear()], ids=repr)
@pytest.mark.parametrize("rule", ["trace", "sphere", None])
def test_one_column_is_the_same_bits_against_new_rows(kernel, rule):
    """The training matrix passes through a triangle, a kernel against new rows does not."""
    x = rng.normal(size=(300, 1))  # more rows than are computed at a time
    fitted = KernelBank(kernel, normalize=rule, storage="dense").fit(x)
    assert np.array_equal(fitted.cross(x, [1.0]), fitted.stack.combine([1.0]))
