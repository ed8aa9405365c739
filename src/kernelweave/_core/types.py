"""The array types that signatures name."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
"""Numbers, in double precision."""

Places = NDArray[np.intp]
"""Positions of rows or kernels."""

Mask = NDArray[np.bool_]
"""One truth value per row or kernel."""

Index = ArrayLike | slice
"""What picks rows or kernels, as NumPy understands it: numbers, a mask or a slice."""
