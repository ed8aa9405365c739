"""The array types that signatures name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Numbers, in double precision."""

Places = NDArray[np.intp]
"""Positions of rows or kernels."""

Mask = NDArray[np.bool_]
"""One truth value per row or kernel."""

Index = Any
"""What picks rows or kernels, as NumPy understands it: numbers, a mask or a slice."""
