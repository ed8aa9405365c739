"""Whole weights give what repeated rows give: in means, medians, widths and normalizations."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from kernelweave import BagOfWords, Gaussian, KernelBank, Laplacian, Linear, Polynomial
from kernelweave.banks.normalize import RULES
from kernelweave.views import weighted

rng = np.random.default_rng(2)
X = rng.normal(size=(17, 3)) * [1.0, 30.0, 0.1] + 4.0
TIMES = rng.integers(1, 5, size=17)
NEW = rng.normal(size=(6, 3)) + 4.0
AGAIN = np.repeat(np.arange(17), TIMES)
KERNELS = [Linear(), Polynomial(2), Gaussian(0.5, relative=True), Laplacian(2.0, relative=True)]


@pytest.mark.parametrize("values", [X[:, 0], np.round(X[:, 0])], ids=["apart", "ties"])
@pytest.mark.parametrize("times", [TIMES, np.ones(17, dtype=int), np.arange(1, 18)], ids=str)
def test_as_if_repeated(values, times):
    again, weights = np.repeat(values, times), times.astype(float)
    for unit in (1.0, 2.0**-5):
        assert weighted.median(values, unit * weights) == pytest.approx(np.median(again))
        assert weighted.mean(values, unit * weights) == pytest.approx(again.mean())
        found = weighted.deviation(values[:, None], unit * weights)
        assert found == pytest.approx(again.std())


@pytest.mark.parametrize("weights", [None, TIMES.astype(float)], ids=["once", "weighted"])
def test_deviations_of_tiny_columns(weights):
    """Other units that are powers of two change no bit."""
    plain = weighted.deviation(X, weights)
    if weights is None:
        np.testing.assert_array_equal(plain, X.std(axis=0))
    for exponent in (-1000, -600, 400):
        found = weighted.deviation(np.ldexp(X, exponent), weights)
        np.testing.assert_array_equal(found, np.ldexp(plain, exponent))
    assert weighted.deviation(np.zeros((4, 2)), None).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("scale", ["standard", "common"])
def test_the_unit_of_the_columns_does_not_matter(scale):
    bank = KernelBank(KERNELS, scale=scale)
    expected = bank.fit(X)
    for exponent in (-1000, -600, 400):
        other = bank.fit(np.ldexp(X, exponent))
        assert other.names == expected.names and other.stack.m == len(KERNELS)
        for unit in np.eye(len(KERNELS)):
            blocks = (fitted.stack.combined(unit).dense() for fitted in (other, expected))
            np.testing.assert_array_equal(*blocks)


def test_evenly_spaced_rows_are_spread_by_weight():
    weights = np.r_[np.full(500, 1.0), np.full(500, 3.0)]
    chosen = weighted.evenly_spaced(1000, weights, 400)
    assert chosen[0] == 0 and chosen[-1] < 1000 and (np.diff(chosen) >= 0).all()
    assert np.count_nonzero(chosen >= 500) == 300


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [None, "standard"])
def test_a_bank_with_weights_is_that_of_repeated_rows(rule, scale):
    bank = KernelBank(KERNELS, "all+each", rule, scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kernels that are equal are dropped in both
        one = bank.fit(X, sample_weight=TIMES)
        many = bank.fit(X[AGAIN])
        plain = bank.fit(X)
    assert one.names == many.names and one.kept.tolist() == many.kept.tolist()
    for unit in np.eye(one.stack.m):
        small, large = (fitted.stack.combined(unit).dense() for fitted in (one, many))
        np.testing.assert_allclose(small[np.ix_(AGAIN, AGAIN)], large, rtol=1e-9, atol=1e-10)
    cross, expected = one.cross_stack(NEW)[:, :, AGAIN], many.cross_stack(NEW)
    np.testing.assert_allclose(cross, expected, rtol=1e-9, atol=1e-10)
    if rule not in ("sphere", None):
        assert not np.allclose(one.scales, plain.scales, rtol=1e-3)


def test_more_rows_than_a_median_looks_at():
    Z = rng.normal(size=(1500, 2))
    wide = np.where(Z[:, 0] > 0, 100.0, 1.0)
    bank = KernelBank(Gaussian(1.0, relative=True), scale=None)
    widths = [bank.fit(Z, sample_weight=w).members[0].kernel.width for w in (wide, None)]
    assert widths[0] < 0.9 * widths[1]  # half of the plane has nearly all weight


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 16, r"sample_weight must have shape \(17,\), found \(16,\)"),
        ([0.0] + [1.0] * 16, "sample_weight must hold positive numbers, found 0"),
        (["a"] * 17, "sample_weight must hold real numbers, found strings"),
    ],
)
def test_weights_a_bank_refuses(weights, message):
    with pytest.raises((TypeError, ValueError), match=message):
        KernelBank(Linear()).fit(X, sample_weight=weights)


def test_kernels_that_learn_more_than_a_width_refuse_weights():
    texts = np.array([["red green"], ["green blue"], ["blue sky"]], dtype=object)
    bank = KernelBank([BagOfWords()])
    bank.fit(texts, sample_weight=[2.0, 2.0, 2.0])
    with pytest.raises(ValueError, match=r"BagOfWords.*cannot weigh them: leave sample_weight out"):
        bank.fit(texts, sample_weight=[1.0, 2.0, 1.0])
