"""exp(−rate · x): as good as NumPy's, whatever the numbers and wherever they stand."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave.stacks._passes import decay

LAST = np.finfo(np.float64).eps  # NumPy's own may be off by one unit in the last place, too


def of(x, rate):
    out = np.full(np.shape(x), 7.0)
    decay(np.asarray(x, dtype=np.float64), rate, out)
    return out


@pytest.mark.parametrize("rate", [1e-300, 1e-8, 0.3, 1.0, 17.0, 1e8, 1e300])
def test_relative_error(rate):
    rng = np.random.default_rng(0)
    exponents = np.concatenate([rng.uniform(0, 708, 50_000), 10.0 ** rng.uniform(-20, 2, 50_000)])
    x = exponents / rate
    np.testing.assert_allclose(of(x, rate), np.exp(-rate * x), rtol=1.5 * LAST, atol=0.0)


def test_more_exactly():
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("long double is no longer than double here")
    x = np.random.default_rng(1).uniform(0.0, 708.0, 100_000)
    exact = np.exp(-x.astype(np.longdouble))
    assert np.abs(of(x, 1.0) / exact - 1).max() < LAST


def test_ends():
    assert np.array_equal(of([0.0, 1e-320, 1e-20], 1.0), np.ones(3))  # diagonals are exactly 1
    assert np.array_equal(of([708.001, 746.0, 1e300, np.inf], 1.0), np.zeros(4))
    assert np.array_equal(of([1e200], 1e200), [0.0])
    assert np.isnan(of([np.nan], 1.0)).all()
    below = np.exp(-708.0)
    assert of([708.0 - 1e-9], 1.0)[0] == pytest.approx(below, rel=1e-8)


def test_falls_and_stays_in_bounds():
    x = np.sort(np.random.default_rng(2).exponential(5.0, 100_000))
    y = of(x, 1.0)
    assert (np.diff(y) <= 2 * LAST * y[1:]).all()
    assert y.max() <= 1.0 and y.min() >= 0.0


def test_the_bits_do_not_depend_on_the_place():
    x = np.random.default_rng(3).exponential(5.0, 1003)
    whole = of(x, 0.7)
    for start, stop in ((1, 1003), (3, 20), (500, 501), (997, 1003)):
        assert np.array_equal(of(x[start:stop].copy(), 0.7), whole[start:stop])
    assert np.array_equal(of(x[:1000].reshape(40, 25), 0.7).ravel(), whole[:1000])
    same = x.copy()
    decay(same, 0.7, same)
    assert np.array_equal(same, whole)
