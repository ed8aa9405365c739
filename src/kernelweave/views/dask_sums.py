"""What workers say of a partition of rows, and what all of them say together, column by column.

Medians are found without sorting: the bits of a float, turned so that they are ordered as numbers
are, are read from the highest down, eight at a time. A count of each of their 256 values, over all
rows that agree so far, tells which of them the middle has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.dask_cluster import Cluster
from kernelweave._core.types import Array, Mask, Places
from kernelweave.views.cells import all_equal, filled
from kernelweave.views.columns import View
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table

_DIGIT, _VALUES = 8, 256  # bits that a trip finds, and how many values they have
_SIGN = np.uint64(1 << 63)


class Seen(NamedTuple):
    """What is seen of the columns of some rows; counts are of cells, ends of numbers alone.

    ``first`` has a cell of each column that holds no numbers, ``same`` says whether all are alike.
    """

    rows: int
    sparse: bool
    numeric: Mask
    declared: Mask
    kinds: tuple[str, ...]
    missing: Any
    infinite: Any
    least: Array
    most: Array
    first: tuple[Any, ...]
    same: Mask


def read(block: Any) -> Table:
    """A partition as a table; without a row it has columns all the same."""
    if block.shape[0]:
        return Table.read(block)
    names = tuple(block.columns) if hasattr(block, "columns") else None
    none = np.zeros(block.shape[1], dtype=bool)
    return Table(np.empty((0, none.size)), None, ~none, names, none)


def agreed(table: Table, numeric: Mask) -> Table:
    """The same where only these columns hold numbers in all partitions."""
    return table if numeric.all() else replace(table, numeric=numeric, objects=table._objects)


def taken(table: Table, rows: Places) -> Table:
    """Some of the rows."""
    return table.take(rows)


def seen(table: Table) -> Seen:
    """What is seen of one partition."""
    d = range(table.n_columns)
    known = len(table), table.sparse, table.numeric, table.declared
    if not len(table):
        none = np.zeros(len(d))
        return Seen(*known, (), none, none, none, none, (), none > 0.0)
    x: Any = table.numbers
    objects = table.objects
    if table.sparse:
        bad = np.isnan(x.data), np.isinf(x.data)
        missing, infinite = (np.bincount(x.indices[some], minlength=len(d)) for some in bad)
        least, most = (np.ravel(ends.toarray()) for ends in (x.min(axis=0), x.max(axis=0)))
    else:
        missing, infinite = np.isnan(x).sum(axis=0), np.isinf(x).sum(axis=0)
        least, most = np.fmin.reduce(x, axis=0), np.fmax.reduce(x, axis=0)
    first, same = [None for _ in d], np.ones(len(d), bool)
    for j in np.flatnonzero(~table.numeric).tolist():
        assert objects is not None
        missing[j] = table.lacking([j]).sum()
        first[j], same[j] = objects[0, j], all_equal(objects[:, j])
    kinds = tuple(map(table.kind, d))
    return Seen(*known, kinds, missing, infinite, least, most, tuple(first), same)


def together(found: list[Seen]) -> Seen:
    """What all partitions say."""
    rows, sparse, numeric, declared, kinds, missing, infinite, *ends, first, same = zip(
        *found, strict=True
    )
    told = tuple("object" if len({*each}) > 1 else each[0] for each in zip(*kinds, strict=True))
    alike = np.all(same, axis=0)
    for j in np.flatnonzero(~np.all(numeric, axis=0)).tolist():
        cells = np.empty(len(first), object)
        cells[:] = [each[j] for each in first]
        alike[j] &= all_equal(cells)
    return Seen(
        sum(rows),
        any(sparse),
        np.all(numeric, axis=0),
        np.any(declared, axis=0),
        told,
        np.sum(missing, axis=0),
        np.sum(infinite, axis=0),
        np.fmin.reduce(ends[0], axis=0),
        np.fmax.reduce(ends[1], axis=0),
        first[0],
        alike,
    )


def lacking(table: Table, columns: Sequence[int]) -> Mask:
    """Which rows have nothing in these columns."""
    return table.lacking(columns)


def distinct(table: Table, view: View) -> list[list[Any]]:
    """The levels of each column of a view."""
    return Rows(table, view).distinct()


def sums(
    table: Table, counts: Any, columns: Places | None, filling: Array | None
) -> tuple[Array, Array]:
    """Σ w x and Σ w [x ≠ 0] of columns, None for all, their empty cells filled."""
    x, w = _values(table, columns, filling), _counts(table, counts)
    return np.asarray(w @ x), np.asarray(w @ (x != 0.0))


def squares(
    table: Table,
    counts: Any,
    columns: Places | None,
    filling: Array | None,
    mean: Array,
    units: Array,
) -> Array:
    """Σ w (x/u − mean)² of columns in units u."""
    x = _values(table, columns, filling)
    return np.asarray(_counts(table, counts) @ (x / units - mean) ** 2)


def known_sums(table: Table, counts: Any) -> tuple[Array, Array]:
    """Σ w x and Σ w over the cells of each column that are not empty."""
    w, known = _counts(table, counts), ~np.isnan(table.numbers)
    return w @ np.where(known, table.numbers, 0.0), w @ known


def medians(cluster: Cluster, parts: list[Any], counts: list[Any], d: int) -> Array:
    """The median of each column over its cells that are not empty, as ``weighted.median`` has it.

    The two values with half of the weight on either side are looked for together.
    """
    bits, below, half = np.zeros((2, d), np.uint64), np.zeros((2, d)), np.zeros(d)
    for shift in range(64 - _DIGIT, -1, -_DIGIT):
        found = cluster.get(cluster.sum(cluster.map(_digits, parts, counts, bits, shift)))
        reached = below[..., None] + np.cumsum(found, axis=2)
        if shift == 64 - _DIGIT:
            half = 0.5 * reached[0, :, -1]
        short = np.array([reached[0] < half[:, None], reached[1] <= half[:, None]])
        last = _VALUES - 1 - np.argmax(found[..., ::-1] > 0.0, axis=2)  # rounding ends there
        digit = np.minimum(short.sum(axis=2), last)
        here = np.take_along_axis(reached - found, digit[..., None], axis=2)
        below = here[..., 0]
        bits |= digit.astype(np.uint64) << np.uint64(shift)
    plain = np.where(bits & _SIGN, bits ^ _SIGN, ~bits)
    middle: Array = plain.view(np.float64).mean(axis=0)
    return middle


def _digits(table: Table, counts: Any, bits: NDArray[np.uint64], shift: int) -> Array:
    """How much weight has each value of the next bits, of both ends and all columns."""
    x, w = table.numbers + 0.0, _counts(table, counts)  # −0 is 0
    plain = x.view(np.uint64)
    keys = np.where(plain & _SIGN, ~plain, plain | _SIGN)
    out = np.zeros((*bits.shape, _VALUES))
    for end, column in np.ndindex(*bits.shape):
        rest = (keys[:, column] ^ bits[end, column]) >> np.uint64(shift)
        some = (rest < _VALUES) & ~np.isnan(x[:, column])
        out[end, column] = np.bincount(rest[some].astype(np.intp), w[some], _VALUES)
    return out


def _values(table: Table, columns: Places | None, filling: Array | None) -> Any:
    return table.numbers if columns is None else filled(table.numbers[:, columns], filling)


def _counts(table: Table, counts: Any) -> Array:
    return np.ones(len(table)) if counts is None else np.asarray(counts)
