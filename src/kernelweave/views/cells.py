"""What the cells of a table hold: numbers, categories, nothing."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

NUMBERS = "biuf"  # NumPy's kinds of real numbers


def is_category(dtype: Any) -> bool:
    """Whether pandas or polars call the column one of categories."""
    return str(dtype).partition("(")[0] in ("category", "Categorical", "Enum")


def as_numbers(column: NDArray[Any]) -> Array | None:
    """A column of objects as floats; None if it holds anything else, or more than a float can."""
    if column.dtype.kind != "O" or any(isinstance(value, str | bytes) for value in column):
        return None
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def token(value: Any) -> Any:
    """``value``, or its pickle if it is not hashable."""
    try:
        hash(value)
    except TypeError:
        return pickle.dumps(value)
    return value


def is_missing(value: Any) -> bool:
    """Whether it is None, NaN, NaT or NA; none of the last three equals itself."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA is neither true nor false; arrays are many
        return type(value).__name__ == "NAType"


def filled(values: Array, filling: Array | None) -> Array:
    """``values``, with ``filling`` put into the empty cells of rows that hold something else."""
    if filling is not None:
        empty = np.isnan(values)
        empty &= ~empty.all(axis=1, keepdims=True)
        np.copyto(values, filling, where=empty)
    return values


def all_equal(column: NDArray[Any]) -> bool:
    """Whether all cells of a column of objects are equal."""
    return all(_same(value, column[0]) for value in column)


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(np.all(a == b))
    except ValueError:  # arrays of different shapes
        return False


def is_huge(value: Any) -> bool:
    """Whether it is a number too large for a float, as integers of Python may be."""
    try:
        float(value)
    except OverflowError:
        return True
    except (TypeError, ValueError):
        pass
    return False


def reads_as_number(value: Any) -> bool:
    """Whether a cell is a number that a float can hold, or text that spells one."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def describe_ragged(X: Sequence[Any]) -> str:
    """What is wrong with rows that do not make an array."""
    lengths = [len(row) if hasattr(row, "__len__") else 1 for row in X]
    other = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
    if other is None:
        return "X must hold one value in each cell, found sequences in some: give them columns."
    return (
        f"X must have as many values in every row, found {lengths[0]} in row 0, but "
        f"{lengths[other]} in row {other}."
    )
