"""Parts of a table share what two rows determine, and nothing else."""

import pickle

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from kernelweave import Gaussian, KernelBank, Laplacian, Linear, Polynomial
from kernelweave.views import products
from kernelweave.views.parts import share
from kernelweave.views.table import Table

FIXED = [Gaussian(0.7), Gaussian(3.0), Laplacian(2.0), Polynomial(2), Linear()]
RELATIVE = [Gaussian(0.5, relative=True), Laplacian(1.0, relative=True)]


@pytest.fixture
def X():
    rows = np.random.default_rng(0).standard_normal((40, 4))
    return rows + np.array([0.0, 2.0, -3.0, 10.0])


def dense(fitted):
    return np.stack([fitted.stack.combine(e) for e in np.eye(fitted.stack.m)])


def test_triangles_are_read_in_any_order():
    K = np.random.default_rng(1).standard_normal((9, 9))
    K = K + K.T
    half = np.empty(products.size(9))
    products.pack(K, 0, half)
    rows, columns = np.array([5, 0, 8, 2]), np.array([7, 1, 3])
    block = np.empty((4, 3))
    products.block(half, rows, columns, block)
    assert np.array_equal(block, K[np.ix_(rows, columns)])
    part = np.empty(products.size(4))
    products.take(half, rows, part)
    assert np.array_equal(part, K[np.ix_(rows, rows)][np.tril_indices(4)])


@pytest.mark.parametrize("limit", [1e9, 20_000.0, 0.0])  # all, some, nothing is shared
@pytest.mark.parametrize("scale", [None, "auto"])
@pytest.mark.parametrize("normalize", ["trace", "sphere", "center+trace"])
def test_a_part_has_the_kernels_of_its_rows(X, limit, scale, normalize):
    bank = KernelBank(FIXED + RELATIVE, views="all+each", normalize=normalize, scale=scale)
    whole = share(X, limit)
    for train in (np.arange(0, 30), np.arange(39, 5, -2)):
        test = np.setdiff1d(np.arange(40), train)
        shared, alone = bank.fit(whole.take(train)), bank.fit(X[train])
        assert shared.names == alone.names and shared.dropped == alone.dropped
        assert np.allclose(dense(shared), dense(alone), rtol=1e-9, atol=1e-11)
        cross = [
            fitted.cross_stack(rows)
            for fitted, rows in ((shared, whole.take(test)), (alone, X[test]))
        ]
        assert np.allclose(*cross, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("scale", [None, "standard", "common"])
def test_held_out_rows_do_not_change_a_bit(X, scale):
    bank = KernelBank(FIXED + RELATIVE, views="all+each", scale=scale)
    train, test = np.arange(30), np.arange(30, 40)
    changed = X.copy()
    changed[test] *= 1e6
    first, second = (dense(bank.fit(share(Z, 1e9).take(train))) for Z in (X, changed))
    assert np.array_equal(first, second)


def test_what_folds_share_is_computed_once(X, monkeypatch):
    calls = []
    fill = Gaussian.fill
    monkeypatch.setattr(Gaussian, "fill", lambda self, *a: calls.append(1) or fill(self, *a))
    whole, bank = share(X, 1e9), KernelBank([Gaussian(1.0), Gaussian(2.0)], scale=None)
    for k in range(4):
        fitted = bank.fit(whole.take(np.arange(40) % 4 != k))
        fitted.cross_stack(whole.take(np.arange(40) % 4 == k))
    assert len(calls) == 2


def test_kernels_that_others_compute_see_training_rows_only(X):
    seen = []

    def linear(a, b):
        seen.append(len(a))
        return a @ b.T

    KernelBank([linear, RBF()]).fit(share(X, 1e9).take(np.arange(12)))
    assert set(seen) == {12}


def test_a_pickle_holds_the_rows_alone(X):
    whole = share(X, 1e9)
    KernelBank(FIXED, scale=None).fit(whole)
    copied = pickle.loads(pickle.dumps(whole.take([3, 1])))
    assert type(copied) is Table
    assert np.array_equal(copied.numbers, X[[3, 1]])
