"""Views: named sets of columns, and how kernels see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.types import Array
from kernelweave.views import weighted
from kernelweave.views.table import Table


@dataclass(frozen=True, eq=False)
class View:
    """A named set of columns of X; kernels see (x − shift)·factor if these are set.

    ``may_lack``: a row may lack the view, with nothing in any of its columns.
    ``presence``: kernels see one column instead, 1 for rows that have the view and 0 for others.
    """

    name: str
    columns: tuple[int, ...]
    shift: Array | None = None
    factor: Array | None = None
    may_lack: bool = False
    presence: bool = False

    def rows_of(self, table: Table) -> NDArray[np.intp] | None:
        """Numbers of the rows that have the view; None if all do, or must."""
        if not self.may_lack or self.presence:
            return None
        lacks = table.lacking(self.columns)
        return np.flatnonzero(~lacks) if lacks.any() else None

    def scaled(self, scale: str, table: Table, weights: Array | None = None) -> View:
        """The view with each column at mean 0 and scaled by ``SCALES[scale]``, on these rows.

        Row i counts ``weights[i]`` times.
        """
        values = table.floats(self.columns)
        with np.errstate(over="ignore", invalid="ignore"):
            shift = weighted.mean(values, weights)
            deviation = weighted.deviation(values, weights)
        if not (np.isfinite(shift).all() and np.isfinite(deviation).all()):
            raise ValueError(f"View {self.name!r}: values too large to standardize (overflow).")
        deviation[values.max(axis=0) == values.min(axis=0)] = 0.0
        return replace(self, shift=shift, factor=SCALES[scale](deviation))


def _inverse(deviation: Array) -> Array:
    """1/deviation; a column that is constant becomes 0 everywhere, because its scale is unknown."""
    return np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0.0)


def _common_inverse(deviation: Array) -> Array:
    """One number for all columns, which makes their variances 1 on average."""
    common = _inverse(np.sqrt(np.mean(deviation**2, keepdims=True)))
    return np.broadcast_to(common, deviation.shape).copy()


SCALES: dict[str, Callable[[Array], Array]] = {"standard": _inverse, "common": _common_inverse}
"""Factors of the columns from their standard deviations."""
