"""Views: named sets of columns, selected by name, position, slice or mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import did_you_mean, is_whole, shown
from kernelweave._core.types import Array
from kernelweave.views import weighted
from kernelweave.views.table import Table

_NAMED = ("all", "each", "all+each")


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

    def standardized(self, table: Table, weights: Array | None = None) -> View:
        """The view with each column scaled to mean 0 and variance 1 on these rows.

        Row i counts ``weights[i]`` times. A column that is constant on these rows becomes 0
        everywhere: its scale is unknown.
        """
        values = table.floats(self.columns)
        with np.errstate(over="ignore", invalid="ignore"):
            shift = weighted.mean(values, weights)
            deviation = weighted.deviation(values, weights)
        if not (np.isfinite(shift).all() and np.isfinite(deviation).all()):
            raise ValueError(f"View {self.name!r}: values too large to standardize (overflow).")
        varies = (values.max(axis=0) > values.min(axis=0)) & (deviation > 0)
        factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
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


def find_columns(columns: Any, table: Table, who: str) -> tuple[int, ...]:
    """Positions of ``columns``: names, integers, a slice or a mask; ``who`` begins errors."""
    if isinstance(columns, str):
        found = [_by_name(columns, table, who)]
    elif isinstance(columns, slice):
        if any(isinstance(end, str) for end in (columns.start, columns.stop)):
            raise ValueError(f"{who}: slices take positions, not names; found {shown(columns)}.")
        found = list(range(table.n_columns))[columns]
    elif is_whole(columns):
        found = [_by_position(int(columns), table, who)]
    elif isinstance(columns, Sequence) or hasattr(columns, "__array__"):
        found = _from_list(list(columns), table, who)
    else:
        raise TypeError(
            f"{who}: columns must be a name, an integer, a slice, a mask or a list of names or "
            f"integers; found {shown(columns)}."
        )
    if not found:
        raise ValueError(f"{who}: no column is selected by {shown(columns)}.")
    if len(set(found)) < len(found):
        raise ValueError(f"{who}: {shown(columns)} names a column twice.")
    return tuple(found)


def _from_list(columns: list[Any], table: Table, who: str) -> list[int]:
    if columns and all(isinstance(column, bool | np.bool_) for column in columns):
        if len(columns) != table.n_columns:
            raise ValueError(
                f"{who}: the mask has {len(columns)} entries, but X has {table.n_columns} columns."
            )
        return [position for position, chosen in enumerate(columns) if chosen]
    found = []
    for column in columns:
        if isinstance(column, str):
            found.append(_by_name(column, table, who))
        elif is_whole(column):
            found.append(_by_position(int(column), table, who))
        else:
            raise TypeError(f"{who}: columns are names or integers; found {shown(column)}.")
    return found


def _by_position(position: int, table: Table, who: str) -> int:
    if not -table.n_columns <= position < table.n_columns:
        raise ValueError(
            f"{who}: column {position} is out of range; X has {table.n_columns} columns."
        )
    return position % table.n_columns


def _by_name(name: str, table: Table, who: str) -> int:
    if table.names is None:
        raise ValueError(
            f"{who}: column {name!r} is requested by name, but X has no column names; "
            "pass a pandas DataFrame, or give positions. In a pipeline, "
            '.set_output(transform="pandas") on the earlier steps keeps the names.'
        )
    count = table.names.count(name)
    if count == 1:
        return table.names.index(name)
    if count:
        raise ValueError(f"{who}: {count} columns of X are named {name!r}; give positions.")
    hint = did_you_mean(name, table.names)
    raise ValueError(f"{who}: X has no column named {name!r}; {hint}")
