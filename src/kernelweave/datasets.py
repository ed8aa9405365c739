"""Data sets in views: columns grouped by what they measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ViewData:
    """Rows ``X``, labels ``y``, and the columns of each view by name."""

    X: NDArray[np.float64]
    y: NDArray[Any]
    views: dict[str, list[int]]
    columns: list[str]


def breast_cancer() -> ViewData:
    """Wisconsin diagnostic breast cancer, from scikit-learn: 569 tumours, 30 measurements.

    Each of ten properties of the cell nuclei is given by its mean, its standard error and its
    worst value. View ``size``: radius, perimeter, area. View ``shape``: texture, smoothness,
    compactness, concavity, concave points, symmetry, fractal dimension.
    """
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    columns = [str(name) for name in data.feature_names]
    size = [any(word in name for word in ("radius", "perimeter", "area")) for name in columns]
    views = {
        "size": [j for j, chosen in enumerate(size) if chosen],
        "shape": [j for j, chosen in enumerate(size) if not chosen],
    }
    return ViewData(data.data, data.target_names[data.target], views, columns)
