"""More than two classes as a sum of two-class machines.

ovr    one machine per class: +1 for its rows, −1 for all others
ovo    one machine per pair of classes a < b: −1 for a, +1 for b; other rows take no part
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_number, shown, some
from kernelweave._core.types import Array, Places
from kernelweave.views.weighted import total

FORMS = ("ovr", "ovo")


def machine_labels(numbers: Places, n_classes: int, multi_class: str) -> Array:
    """−1 and +1 per row and machine, 0 where a row takes no part; (n,) for two classes."""
    if n_classes == 2:
        return np.where(numbers == 1, 1.0, -1.0)
    if multi_class == "ovr":
        return np.where(numbers[:, None] == np.arange(n_classes), 1.0, -1.0)
    a, b = np.array([*combinations(range(n_classes), 2)]).T
    return (numbers[:, None] == b) * 1.0 - (numbers[:, None] == a)


def class_scores(values: Array, n_classes: int, multi_class: str) -> Array:
    """A score per class from the values of all machines; the largest is the class predicted.

    ovo: the number of pairs that a class wins. Ties are broken by the sum of its margins, shrunk
    monotonically to less than a third of a win either way, as scikit-learn does.
    """
    if multi_class == "ovr":
        return values
    wins, margins = np.zeros((2, len(values), n_classes))
    for machine, (a, b) in enumerate(combinations(range(n_classes), 2)):
        value = values[:, machine]
        margins[:, a] -= value
        margins[:, b] += value
        wins[:, a] += value <= 0.0
        wins[:, b] += value > 0.0
    return wins + margins / (3.0 * (np.abs(margins) + 1.0))


def class_factors(
    class_weight: Any, classes: NDArray[Any], numbers: Places, weights: Array | None
) -> Array | None:
    """What ``class_weight`` multiplies C by, per row; None for 1.

    "balanced" is n / (n_classes · n_c) for a class of n_c rows, counted by weight.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        ones = np.ones(numbers.size) if weights is None else weights
        sizes = np.array([total(ones, numbers == k) for k in range(classes.size)])
        factors = sizes.sum() / (classes.size * sizes)
    elif isinstance(class_weight, Mapping):
        factors = _from_mapping(class_weight, classes.tolist())
    else:
        raise ValueError(
            "class_weight must be None, 'balanced' or a dict {class: weight}, found "
            f"{shown(class_weight)}"
        )
    return factors[numbers]


def _from_mapping(class_weight: Mapping[Any, Any], classes: list[Any]) -> Array:
    unknown = [label for label in class_weight if label not in classes]
    missing = [label for label in classes if label not in class_weight]
    if unknown and missing:  # a dict may name classes that these rows lack
        raise ValueError(
            f"class_weight has no class {some(map(repr, unknown))} to weigh: the classes in y are "
            f"{some(map(repr, classes))}; use their own names and types as keys."
        )
    return np.array(
        [
            check_number(f"class_weight[{label!r}]", class_weight.get(label, 1.0))
            for label in classes
        ]
    )
