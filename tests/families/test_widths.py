"""All widths at once: g against plain sums, its bound against a fine grid."""

import numpy as np
import pytest

from kernelweave.families.widths import _FOURTH, _SLOPE, WidthRange, largest_gaussian


def g(X, V, width):
    D = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = np.exp(-0.5 * D / width**2)
    return sum(v @ K @ v for v in V)


@pytest.mark.parametrize(
    ("low", "high"), [(0.05, 20.0), (1.0, 1.0), (0.5, 0.505), (1e-4, 1e-3), (1e3, 1e5)]
)
@pytest.mark.parametrize("machines", [1, 3])
def test_bound_is_above_all_widths_and_near_the_largest(low, high, machines):
    rng = np.random.default_rng(machines)
    X = rng.normal(size=(60, 3))
    X[7], X[9] = X[8], X[10] * (1.0 + 1e-13)  # equal rows, and nearly equal ones
    V = rng.normal(size=(machines, 60))
    found = largest_gaussian(X, V, low, high)
    highest = max(g(X, V, width) for width in np.geomspace(low, high, 500))
    allowed = 1e-6 * (np.abs(V) @ np.ones(60)) @ (np.abs(V) @ np.ones(60))
    assert highest <= found.bound <= highest + allowed
    assert all(low <= width <= high for width in found.kernels)
    assert max(g(X, V, width) for width in found.kernels) >= highest - allowed


def test_bounds_of_derivatives():
    z = np.linspace(-40.0, 9.0, 400_001)
    a = 0.5 * np.exp(z)
    fourth = (a**4 - 6.0 * a**3 + 7.0 * a**2 - a) * np.exp(-a)
    assert 0.99 * _FOURTH <= np.abs(fourth).max() <= _FOURTH
    assert 0.99 * _SLOPE <= np.abs(a * np.exp(-a)).max() <= _SLOPE


def test_arguments():
    with pytest.raises(ValueError, match="low must not exceed high, found low=2"):
        WidthRange(np.ones((3, 2)), 2.0, 1.0)
    with pytest.raises(ValueError, match="X must be rows of finite numbers"):
        WidthRange([[1.0, np.nan]], 1.0, 2.0)
    with pytest.raises(ValueError, match="low must be"):
        WidthRange(np.ones((3, 2)), 0.0, 1.0)
