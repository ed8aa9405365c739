"""Views: named sets of columns, and how kernels see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import shown, some
from kernelweave._core.types import Array
from kernelweave.views import weighted
from kernelweave.views.selectors import find_columns
from kernelweave.views.table import Table

_NAMED = ("all", "each", "all+each")


@dataclass(frozen=True, eq=False)
class View:
    """A named set of columns of X; kernels see (x − shift)·factor if these are set.

    ``filling``: what x is in an empty cell, by column, for a row that has the view; NaN in columns
    that hold no numbers, where an empty cell is a level of its own. None: empty cells are refused.
    ``may_lack``: a row may lack the view, with nothing in any of its columns.
    ``presence``: kernels see one column instead, 1 for rows that have the view and 0 for others.
    """

    name: str
    columns: tuple[int, ...]
    shift: Array | None = None
    factor: Array | None = None
    may_lack: bool = False
    presence: bool = False
    filling: Array | None = None

    def rows_of(self, table: Table) -> NDArray[np.intp] | None:
        """Numbers of the rows that have the view; None if all do, or must."""
        if not self.may_lack or self.presence:
            return None
        lacks = table.lacking(self.columns)
        return np.flatnonzero(~lacks) if lacks.any() else None

    def in_rows(self, table: Table) -> Any:
        """What picks the rows that have the view: their numbers, or a slice of all."""
        having = self.rows_of(table) if self.may_lack else None
        return slice(None) if having is None else having

    def filled(self, how: str | None, table: Table, weights: Array | None = None) -> View:
        """The view with its empty cells filled as ``FILLINGS`` says, learned on these rows.

        Row i counts ``weights[i]`` times. Cells of a sparse table are never filled.
        """
        if how is None or table.sparse:
            return self
        filling = np.full(len(self.columns), np.nan)
        nobody = bool(table.lacking(self.columns).all())
        for place, column in enumerate(self.columns):
            if nobody or not table.numeric[column]:
                continue
            value = _filling(how, table, column, weights)
            if value is None:
                raise ValueError(
                    f"Column {table.label(column)!r} of X is empty in all {len(table)} training "
                    f"rows: impute={how!r} finds no value to fill in. Leave the column out: in a "
                    "cross-validation, the training rows of every fold need one."
                )
            filling[place] = value
            if not np.isfinite(value):
                raise ValueError(
                    f"Column {table.label(column)!r} of X: values too large for their {how} "
                    "(overflow); use other units."
                )
        return replace(self, filling=filling)

    def scaled(self, scale: str, table: Any, weights: Array | None = None) -> View:
        """The view with its columns scaled as ``SCALES`` says, learned on these rows.

        Row i counts ``weights[i]`` times.
        """
        if table.apart:
            _, mean, deviation, least, most = table.moments(self.columns, weights, self.filling)
        else:
            values = table.floats(self.columns, filling=self.filling)
            least, most = values.min(axis=0), values.max(axis=0)
            with np.errstate(over="ignore", invalid="ignore"):
                mean = weighted.mean(values, weights)
                deviation = weighted.deviation(values, weights)
        large = ~(np.isfinite(mean) & np.isfinite(deviation))
        if large.any():
            told = some(repr(table.label(self.columns[k])) for k in np.flatnonzero(large))
            raise ValueError(
                f"View {self.name!r}: values of column {told} are too large to standardize "
                "(overflow); use other units."
            )
        deviation[most == least] = 0.0
        shift, factor = SCALES[scale](mean, deviation)
        return replace(self, shift=shift, factor=factor)


def make_views(views: Any, table: Table) -> list[View]:
    """The views of a bank: "all", "each", "all+each" or {name: columns}."""
    every = tuple(range(table.n_columns))
    if isinstance(views, Mapping):
        if not views:
            raise ValueError("views must name at least one view; found {}.")
        return [
            View(str(name), find_columns(columns, table, f"view {name!r}"))
            for name, columns in views.items()
        ]
    if not isinstance(views, str) or views not in _NAMED:
        raise ValueError(
            f"views must be one of {_NAMED} or {{name: columns}}; found {shown(views)}."
        )
    found = [View("all", every)] if views.startswith("all") else []
    if views.endswith("each"):
        found += [View(table.label(column), (column,)) for column in every]
    return found


def _standard(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """Mean 0 and variance 1. A constant column becomes 0 everywhere: its scale is unknown."""
    return mean, _inverse(deviation)


def _common(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """One number for all columns: variances are 1 on average, and zero stays zero."""
    unit = weighted.power_of_two(deviation.max())
    one = _inverse(unit * np.sqrt(np.mean((deviation / unit) ** 2, keepdims=True)))
    return np.zeros_like(mean), np.broadcast_to(one, deviation.shape).copy()


def _inverse(deviation: Array) -> Array:
    large = deviation >= np.finfo(float).tiny  # the inverse of less would overflow
    return np.divide(1.0, deviation, out=np.zeros_like(deviation), where=large)


def tally(table: Any, column: int) -> Counter[Any]:
    """How often each value of a column comes, empty cells left out."""
    if table.apart:
        found: Counter[Any] = table.tally(column)
        return found
    return Counter(table.raw([column])[~table.lacking([column]), 0].tolist())


def _filling(how: str, table: Any, column: int, weights: Array | None) -> float | None:
    """What an empty cell of a column holds; None where no row has a value."""
    if table.apart:
        told: float | None = table.filling(how, column, weights)
        return told
    values = table.raw([column])[:, 0]
    known = ~np.isnan(values)
    if not known.any():
        return None
    if np.isinf(values[known]).any():
        return 0.0  # who reads infinity refuses it
    with np.errstate(over="ignore"):
        return FILLINGS[how](values[known], None if weights is None else weights[known])


FILLINGS: dict[str, Callable[[Array, Array | None], float]] = {
    "median": weighted.median,
    "mean": weighted.mean,
}
"""What an empty cell holds, from the values of its column and the weights of their rows."""

SCALES: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "standard": _standard,
    "common": _common,
}
"""Shift and factor of the columns from their means and standard deviations."""
