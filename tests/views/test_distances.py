"""Squared distances keep their digits wherever rows lie."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import Gaussian, KernelBank, MKLClassifier
from kernelweave.views.products import sq_distances

rng = np.random.default_rng(0)


def wild(n=100):
    """Ordinary rows, and one entry that is anything but."""
    X = rng.normal(size=(n, 3))
    X[0, 0] = 1e9
    return X


def positions(n=50):
    """A large column in which rows agree, beside a small one in which they do not."""
    return np.column_stack([rng.uniform(0, 1e8, n).repeat(4), rng.normal(size=4 * n)])


def exact(A, B):
    return ((A[:, None] - B[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("make", [wild, positions])
def test_near_rows_far_from_the_mean(make):
    X = make()
    np.testing.assert_allclose(sq_distances(X, X), exact(X, X), rtol=1e-11)
    np.testing.assert_allclose(sq_distances(X[:7], X), exact(X[:7], X), rtol=1e-11)
    fitted = KernelBank(Gaussian(1.0), normalize=None, scale=None).fit(X)
    K = fitted.stack.combine([1.0])
    np.testing.assert_allclose(K, np.exp(-0.5 * exact(X, X)), atol=1e-11)
    np.testing.assert_allclose(fitted.cross(X, [1.0]), K, atol=1e-14)
    assert np.linalg.eigvalsh(K)[0] > -1e-10


def test_symmetric_and_zero_between_equal_rows():
    X = rng.normal(size=(60, 4))[rng.integers(0, 30, 60)] + 1e3
    found = sq_distances(X, X)
    assert np.array_equal(found, found.T)
    assert np.array_equal(found == 0.0, exact(X, X) == 0.0)


def test_columns_too_large_to_square_are_named():
    X = rng.normal(size=(60, 4)) * 1e200
    with pytest.raises(
        ValueError, match=r"view 'all' reach \d.*e\+200, too large to square. Scale"
    ):
        MKLClassifier(KernelBank(Gaussian(1.0), scale=None)).fit(X, X[:, 0] > 0)
