"""What is learned from a column as a whole: moments, shares, and whether its numbers are finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelweave._core.types import Array
from kernelweave.views import weighted

WHOLE_VIEWS = (
    'If KernelBank has several views and missing="mean", a row may lack one as a whole, all of its '
    "columns NaN."
)


class Moments(NamedTuple):
    """How many rows there are, and by column mean, standard deviation, least and largest value."""

    rows: int
    mean: Any
    deviation: Any
    least: Any
    most: Any


class Summaries:
    """Sums over the rows of a table, from its ``floats`` and ``raw``."""

    floats: Any
    raw: Any

    def check_finite(
        self, columns: Sequence[int], gaps: str = WHOLE_VIEWS, filling: Array | None = None
    ) -> None:
        """Raise the errors of ``floats``."""
        self.floats(columns, gaps=gaps, filling=filling)

    def moments(
        self,
        columns: Sequence[int],
        weights: Any = None,
        rows: Any = slice(None),
        gaps: str = WHOLE_VIEWS,
        filling: Array | None = None,
    ) -> Moments:
        """Of columns of numbers at some rows, where row i counts ``weights[i]`` times."""
        values = self.floats(columns, rows, gaps, filling)
        if not len(values):
            none = np.zeros(values.shape[1])
            return Moments(0, none, none, none, none)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = weighted.mean(values, weights), weighted.deviation(values, weights)
        return Moments(len(values), mean, deviation, values.min(axis=0), values.max(axis=0))

    def share_filled(
        self, columns: Sequence[int], weights: Any, rows: Any, filling: Array | None
    ) -> float:
        """The share of cells that are not 0; 1 where there is no row."""
        found = (self.raw(columns, filling)[rows] != 0).sum(axis=1)
        shares = np.ravel(found) / len(columns)
        return float(weighted.mean(shares, weights)) if shares.size else 1.0
