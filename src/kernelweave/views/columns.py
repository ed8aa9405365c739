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
        """The view with its columns scaled as ``SCALES`` says, learned on these rows.

        Row i counts ``weights[i]`` times.
        """
        values = table.floats(self.columns)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = weighted.mean(values, weights)
            deviation = weighted.deviation(values, weights)
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
            raise ValueError(f"View {self.name!r}: values too large to standardize (overflow).")
        deviation[values.max(axis=0) == values.min(axis=0)] = 0.0
        shift, factor = SCALES[scale](mean, deviation)
        return replace(self, shift=shift, factor=factor)


def _standard(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """Mean 0 and variance 1. A constant column becomes 0 everywhere: its scale is unknown."""
    return mean, _inverse(deviation)


def _common(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """One number for all columns: variances are 1 on average, and zero stays zero."""
    one = _inverse(np.sqrt(np.mean(deviation**2, keepdims=True)))
    return np.zeros_like(mean), np.broadcast_to(one, deviation.shape).copy()


def _inverse(deviation: Array) -> Array:
    return np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0.0)


SCALES: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "standard": _standard,
    "common": _common,
}
"""Shift and factor of the columns from their means and standard deviations."""
