"""Derivatives by the columns of X against differences of decision values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from kernelweave import (
    Gaussian,
    GaussianRange,
    GaussianWidths,
    Hamming,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    Polynomial,
    Tanimoto,
)
from kernelweave.banks.gradients import gradient, without_gradient
from kernelweave.banks.normalize import RULES

rng = np.random.default_rng(3)
X = rng.normal(size=(30, 5)) * [1.0, 3.0, 0.2, 1.0, 10.0] + [0.0, 5.0, 0.0, -1.0, 2.0]
NEW = rng.normal(size=(4, 5)) * [1.0, 3.0, 0.2, 1.0, 10.0] + [0.0, 5.0, 0.0, -1.0, 2.0]
KERNELS = [
    Linear(),
    Polynomial(1, 2.0),
    Polynomial(3, 0.5),
    Gaussian(1.3),
    Gaussian(0.8, relative=True),
    Laplacian(4.0),
    GaussianWidths(np.array([1.0, 2.0, 0.7, 1.5, 3.0])),
    GaussianRange(),
    Tanimoto(),
]


def differences(bank, new, weights, coef):
    """Central differences of f in every column."""
    found = np.empty(new.shape)
    for column in range(new.shape[1]):
        step = np.zeros(new.shape[1])
        step[column] = 1e-5 * max(1.0, np.nanmax(np.abs(X[:, column])))
        up, down = (bank.decision(new + sign * step, weights, coef) for sign in (1.0, -1.0))
        found[:, column] = (up - down) / (2.0 * step[column])
    return found


def check(bank, new, rows=None):
    bank = bank if rows is None else bank.compact(np.arange(bank.m_all), rows)
    weights = rng.uniform(0.5, 1.5, bank.m_all)
    coef = rng.normal(size=bank.n_rows)
    found = gradient(bank, bank.read(new), weights, coef)
    expected = differences(bank, new, weights, coef)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_agrees_with_differences(kernel, rule):
    counts = rng.integers(1, 4, len(X)).astype(float)
    bank = KernelBank([kernel], normalize=rule, scale="standard").fit(X, sample_weight=counts)
    check(bank, NEW)
    check(bank, NEW, rows=np.array([3, 8, 9, 20]))


@pytest.mark.filterwarnings("ignore::kernelweave._core.warnings.LacksView")
@pytest.mark.parametrize("rule", ["trace", "sphere", "center+sphere"])
@pytest.mark.parametrize("scale", ["standard", "common", None])
def test_through_scales_and_views_that_rows_lack(rule, scale):
    gaps = X.copy()
    gaps[:6, :2] = np.nan
    gaps[8, 3] = np.nan  # one empty cell, filled in
    views = {"a": [0, 1], "b": [1, 3, 4], "c": [2, 3]}
    kernels = [Gaussian(2.0), Polynomial(2)]
    bank = KernelBank(kernels, views, rule, scale, impute="median").fit(gaps)
    new = NEW.copy()
    new[1, :2] = np.nan
    new[2, 3] = np.nan
    table = bank.read(new)
    weights, coef = np.ones(bank.m_all), rng.normal(size=bank.n_rows)
    found = gradient(bank, table, weights, coef)
    full = ~np.isnan(new)
    expected = differences(bank, new, weights, coef)
    scale_of = np.abs(expected[full]).max()
    np.testing.assert_allclose(found[full], expected[full], rtol=1e-5, atol=1e-5 * scale_of)
    lacked = np.zeros(5, dtype=bool)
    lacked[0] = True  # column 0 is read in view a alone
    assert not found[1, lacked].any()


def test_sparse_rows():
    counts = rng.poisson(0.6, (30, 6)).astype(float)
    kernels = [Linear(), Polynomial(2), Gaussian(1.5), Tanimoto()]
    dense = KernelBank(kernels, scale=None, normalize="sphere").fit(counts)
    bank = KernelBank(kernels, scale=None, normalize="sphere").fit(csr_array(counts))
    coef = rng.normal(size=30)
    new = rng.poisson(0.6, (4, 6)).astype(float)
    found = gradient(bank, bank.read(csr_array(new)), np.ones(4), coef)
    expected = gradient(dense, dense.read(new), np.ones(4), coef)
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


def test_linear_kernels_give_the_coefficients():
    y = X[:, 0] > X[:, 3]
    model = MKLClassifier(KernelBank([Linear()], scale=None, normalize=None)).fit(X, y)
    bank, weights = model.bank_, model.weights_
    found = gradient(bank, bank.read(NEW), weights, model.dual_coef_[0])
    coefficients = weights[0] * model.dual_coef_[0] @ X[model.support_]
    np.testing.assert_allclose(found, np.tile(coefficients, (len(NEW), 1)), rtol=1e-12)


def test_columns_without_derivatives_are_named():
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame["kind"] = np.where(X[:, 2] > 0, "u", "v")
    bank = KernelBank(views={"all": ["a", "b", "kind"]}).fit(frame)
    assert without_gradient(bank, np.ones(bank.m_all)) == [2]
    hamming = KernelBank([Hamming()]).fit(frame)
    assert without_gradient(hamming, np.zeros(1)) == []
    assert not gradient(hamming, hamming.read(frame), np.ones(1), np.ones(30)).any()
