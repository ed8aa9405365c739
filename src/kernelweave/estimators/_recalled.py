"""Estimators of a fold, for scorers: their values for the rows held out are known."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from kernelweave._core.types import Array
from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.regressor import MKLRegressor


class RecalledClassifier(MKLClassifier):
    """The classifier of a fold, whose values for the rows held out are known."""

    def __init__(self, classes: NDArray[Any], multi_class: str, values: Array) -> None:
        super().__init__(multi_class=multi_class)
        self.classes_, self._known = classes, values

    def _values(self, X: Any) -> Array:
        return self._known


class RecalledRegressor(MKLRegressor):
    """The regressor of a fold, whose values for the rows held out are known."""

    def __init__(self, values: Array) -> None:
        super().__init__()
        self._known, self._one_column = values, values.shape[1] == 1

    def _values(self, X: Any) -> Array:
        return self._known
