"""Which columns of X a view has: by name, wildcard, position, slice, mask, dtype or a function.

Positions still work where another step has stripped the names of a data frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from inspect import signature
from typing import Any

import numpy as np

from kernelweave._core.checks import did_you_mean, is_whole, shown
from kernelweave.views.table import Table

_WILD = frozenset("*?[")


def find_columns(columns: Any, table: Table, who: str) -> tuple[int, ...]:
    """Positions of ``columns``, as ``KernelBank`` describes them; ``who`` begins errors."""
    found = _found(columns, table, who)
    if not found:
        raise ValueError(f"{who}: no column is selected by {shown(columns)}.")
    if len(set(found)) < len(found):
        raise ValueError(f"{who}: {shown(columns)} names a column twice.")
    return tuple(found)


def _found(columns: Any, table: Table, who: str) -> list[int]:
    if isinstance(columns, type) or hasattr(columns, "na_value"):
        return _by_dtype(columns, table, who)
    if callable(columns):
        return _by_function(columns, table, who)
    if isinstance(columns, slice):
        return _by_slice(columns, table, who)
    if isinstance(columns, str | tuple) or is_whole(columns):
        return _by_one(columns, table, who)
    if isinstance(columns, Sequence) or hasattr(columns, "__array__"):
        return _from_list(list(columns), table, who)
    raise TypeError(
        f"{who}: columns must be a name, an integer, a slice, a mask, a list of names or "
        f"integers, a dtype or a function of X; found {shown(columns)}."
    )


def _from_list(columns: list[Any], table: Table, who: str) -> list[int]:
    if columns and all(isinstance(column, bool | np.bool_) for column in columns):
        if len(columns) != table.n_columns:
            raise ValueError(
                f"{who}: the mask has {len(columns)} entries, but X has {table.n_columns} columns."
            )
        return [position for position, chosen in enumerate(columns) if chosen]
    return [place for column in columns for place in _by_one(column, table, who)]


def _by_one(column: Any, table: Table, who: str) -> list[int]:
    """The columns of one name, wildcard or position in a list."""
    if is_whole(column):
        return [_by_position(int(column), table, who)]
    if isinstance(column, tuple) and not _levels(table):
        return _from_list(list(column), table, who)
    if isinstance(column, str | tuple):
        return _by_name(column, table, who)
    raise TypeError(f"{who}: columns are names or integers; found {shown(column)}.")


def _by_position(position: int, table: Table, who: str) -> int:
    if not -table.n_columns <= position < table.n_columns:
        raise ValueError(
            f"{who}: column {position} is out of range; X has {table.n_columns} columns."
        )
    return position % table.n_columns


def _by_name(name: Any, table: Table, who: str) -> list[int]:
    """Columns of this name; of several levels, those that begin with it; or those it matches."""
    if table.names is None:
        raise ValueError(
            f"{who}: column {name!r} is requested by name, but X has no column names; "
            "pass a pandas DataFrame, or give positions, as bank.by_position(frame) does. In a "
            'pipeline, .set_output(transform="pandas") on the earlier steps keeps the names.'
        )
    found = [place for place, other in enumerate(table.names) if other == name]
    if len(found) > 1:
        raise ValueError(f"{who}: {len(found)} columns of X are named {name!r}; give positions.")
    if not found and _levels(table):
        top = name if isinstance(name, tuple) else (name,)
        found = [place for place, other in enumerate(table.names) if other[: len(top)] == top]
    if not found and isinstance(name, str) and _WILD & set(name):
        names = [str(other) for other in table.names]
        found = [place for place, other in enumerate(names) if fnmatchcase(other, name)]
        if not found:
            raise ValueError(
                f"{who}: no column of X matches {name!r}; {did_you_mean(name, table.names)}"
            )
    if not found:
        hint = did_you_mean(name, table.names)
        raise ValueError(f"{who}: X has no column named {name!r}; {hint}")
    return found


def _levels(table: Table) -> bool:
    """Whether column names have several levels (a pandas MultiIndex)."""
    return table.names is not None and isinstance(table.names[0], tuple)


def _by_slice(columns: slice, table: Table, who: str) -> list[int]:
    """Positions as in Python; names as in pandas, the last one included."""
    ends = [columns.start, columns.stop]
    if any(isinstance(end, str) for end in ends):
        start, stop = (None if end is None else _only(end, table, who) for end in ends)
        columns = slice(start, None if stop is None else stop + 1, columns.step)
    return list(range(table.n_columns))[columns]


def _only(name: Any, table: Table, who: str) -> int:
    found = _by_one(name, table, who)
    if len(found) != 1:
        raise ValueError(f"{who}: a slice ends at one column; {name!r} is {len(found)}.")
    return found[0]


def _by_dtype(kind: Any, table: Table, who: str) -> list[int]:
    """Columns of a dtype, as ``DataFrame.select_dtypes`` understands it."""
    frame = _frame(table, who, f"the dtype {getattr(kind, '__name__', kind)}")
    header = frame.iloc[:0].set_axis(range(table.n_columns), axis=1)
    return [int(place) for place in header.select_dtypes(include=kind).columns]


def _by_function(function: Callable[[Any], Any], table: Table, who: str) -> list[int]:
    """Columns that a function of X names, such as scikit-learn's ``make_column_selector``."""
    what = f"the function {shown(function)}"
    frame = _frame(table, who, what)
    if not _takes_one(function):
        raise TypeError(
            f"{who}: {what} is called with X and must return columns of it; let it take one "
            "argument, X."
        )
    return _found(function(frame), table, f"{who}, by {what} of X")


def _takes_one(function: Callable[[Any], Any]) -> bool:
    """Whether a function can be called with one argument; True if it does not tell."""
    try:
        signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def _frame(table: Table, who: str, what: str) -> Any:
    if table.source is None or not hasattr(table.source, "iloc"):
        raise ValueError(
            f"{who}: columns are selected by {what}, which needs a pandas DataFrame; give names or "
            "positions, as bank.by_position(frame) does."
        )
    return table.source
