"""Looks at arguments that many functions have: numbers and vectors of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_number(name: str, x: object, kind: type) -> None:
    """Complain unless ``x`` is a positive number of that kind."""
    kinds = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
    if isinstance(x, bool) or not isinstance(x, kinds):
        raise TypeError(f"{name} must be a positive {kind.__name__}, found {x!r}")
    if not 0 < x < np.inf:
        raise ValueError(f"{name} must be positive, found {x!r}")


def check_vector(name: str, x: ArrayLike, size: int) -> NDArray[np.float64]:
    """``x`` as ``size`` finite floats."""
    try:
        vector = np.asarray(x, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, found {type(x).__name__}") from None
    if vector.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), found {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite, found NaN or infinity")
    return vector


def check_nonnegative(name: str, x: ArrayLike, size: int) -> NDArray[np.float64]:
    """``x`` as ``size`` finite floats, none of them negative."""
    vector = check_vector(name, x, size)
    if vector.min() < 0.0:
        raise ValueError(f"{name} must be nonnegative, found {vector.min():g}")
    return vector
