"""Sums, means and medians in which row i counts w_i times; without weights, once.

Whole weights give what repeated rows give, up to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.checks import check_positive
from kernelweave._core.types import Array

_LEAST = -1000  # 2 to this power, and its inverse, are floats


def check_row_weights(sample_weight: ArrayLike | None, n: int) -> Array | None:
    """One positive weight for each of ``n`` rows, or None; rows of weight 0 must be left out."""
    if sample_weight is None:
        return None
    return check_positive("sample_weight", sample_weight, n)


def total(values: Array, weights: Array | None) -> float:
    """Σ_i w_i x_i."""
    return float(values.sum() if weights is None else weights @ values)


def mean(values: NDArray[Any], weights: Array | None, axis: int = 0) -> Any:
    """Σ_i w_i x_i / Σ_i w_i along an axis."""
    return values.mean(axis=axis) if weights is None else np.average(values, axis, weights)


def power_of_two(sizes: NDArray[Any]) -> Any:
    """A power of two near each size below 1, else 1.

    Small numbers divided by it keep all bits, and their squares do not underflow. Those too large
    to square stay so: who asks refuses them.
    """
    return np.ldexp(1.0, np.clip(np.frexp(sizes)[1], _LEAST, 0))


def deviation(values: NDArray[Any], weights: Array | None) -> Any:
    """The standard deviation of each column, however small it is."""
    units = power_of_two(np.maximum(values.max(axis=0), -values.min(axis=0)))
    scaled = values / units
    if weights is None:
        return scaled.std(axis=0) * units
    return np.sqrt(np.average((scaled - mean(scaled, weights)) ** 2, 0, weights)) * units


def median(values: Array, weights: Array | None) -> float:
    """The value with half of the weight on either side; midway where two share the middle."""
    if weights is None:
        return float(np.median(values))
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    middle = [np.searchsorted(reached, 0.5 * reached[-1], side) for side in ("left", "right")]
    return float(values[order[np.minimum(middle, values.size - 1)]].mean())


def evenly_spaced(n: int, weights: Array | None, count: int) -> NDArray[np.intp]:
    """Numbers of ``count`` of the n rows, at even distances of weight; heavy rows repeat."""
    if weights is None:
        return np.linspace(0, n - 1, count).astype(np.intp)
    reached = np.cumsum(weights)
    steps = np.linspace(0.0, reached[-1], count, endpoint=False)
    return np.searchsorted(reached, steps, side="right")
