"""Decision values in parts: of views, and of the columns inside a view.

    f(x) = b + Σ_v f_v(x),    f_v = Σ_m d_m Σ_j coef_j k_m(·, x_j) over the kernels of view v

A view's part is f_v(x) − f_v(mean), where f_v(mean) is what a row without the view gets: the mean
of f_v over the training rows, and 0 if the kernel is centered. A view that x lacks has the part 0.

Columns of kernels with derivatives get integrated gradients [sundararajan2017] from the row x̄ of
all means,

    (x_j − x̄_j) ∫₀¹ ∂f_v/∂x_j (x̄ + t(x − x̄)) dt,

which sum to f_v(x) − f_v(x̄); the rest, f_v(x̄) − f_v(mean), is the same for all rows. For other
kernels there is no path: what is told is "local", the part less what it is on average when the cell
holds what training rows have there, and does not add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelweave._core.types import Array, Mask
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.gradients import gradient, readers
from kernelweave.views.table import Table

_NODES, _PANELS = 8, 64  # of Gauss and Legendre in a panel; most panels, where kernels have kinks
_CLOSE = 1e-7  # share of the part up to which integrals must add up
_OTHERS = 50  # training rows whose cells are tried in place of one


@dataclass(frozen=True)
class Parts:
    """A fitted model on new rows: ``bank`` with ``weights`` (k, m) and ``coef`` (n, k).

    ``train``: the training rows, or the support rows where a model keeps no others; None if X
    holds kernel matrices.
    """

    bank: FittedBank
    weights: Array
    coef: Array
    table: Table
    train: Table | None

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views, each once."""
        return tuple(dict.fromkeys(self.bank.views))

    def of_view(self, view: str) -> Array:
        """The weights of the kernels of one view, 0 for others."""
        return np.asarray(self.weights * np.array([name == view for name in self.bank.views]))

    def values(self, table: Table, weights: Array) -> Array:
        """Σ_m d_m f_m of rows for each machine, (rows, k)."""
        return self.bank.decision(table, weights, self.coef)

    def at_mean(self, weights: Array) -> Array:
        """What rows without the views of these kernels get, (k,)."""
        found, rest = np.zeros(len(weights)), weights.copy()
        for number in np.flatnonzero(weights.any(axis=0)):
            member = self.bank.members[number]
            if member.centered:
                rest[:, number] = 0.0
            elif member.average is not None:
                found += weights[:, number] * (member.average @ self.coef)
                rest[:, number] = 0.0
        if rest.any() and self.train is not None:
            found += self.values(self.train, rest).mean(axis=0)
        return found

    def having(self, view: str) -> Mask:
        """Which rows have something of the view."""
        found = np.zeros(len(self.table), dtype=bool)
        for member in self.bank.members:
            if member.view_name == view:
                found[member.view.in_rows(self.table)] = True
        return found

    def smooth(self, weights: Array) -> Array:
        """The weights of the kernels with derivatives, 0 for others."""
        steep = [m.kernel is not None and m.kernel.has_gradient for m in self.bank.members]
        return np.asarray(weights * np.array(steep))


@dataclass(frozen=True)
class Cells:
    """The parts of one column in one view, (n_rows, k); ``how``: "integrated" or "local"."""

    view: str
    column: int
    parts: Array
    how: str


def cells_of(parts: Parts, view: str) -> Iterator[Cells]:
    """The parts of all columns that kernels of the view read."""
    if parts.train is None:
        return
    weights = parts.of_view(view)
    smooth = parts.smooth(weights)
    found, how = dict[int, Array](), dict[int, str]()
    if smooth.any():
        for column, values in _integrated(parts, smooth).items():
            found[column], how[column] = values, "integrated"
    rough = weights - smooth
    for column in columns_read(parts.bank, rough):
        found[column] = found.get(column, 0.0) + _local(parts, rough, column)
        how[column] = "local"
    for column in sorted(found):
        yield Cells(view, column, found[column], how[column])


def columns_read(bank: FittedBank, weights: Array) -> list[int]:
    """The columns that kernels with a weight read."""
    active = np.flatnonzero(np.atleast_2d(weights).any(axis=0))
    return sorted({column for k in active for column in bank.members[k].view.columns})


def mean_row(parts: Parts, columns: list[int]) -> Array:
    """The means of columns of numbers over the training rows, empty cells left out."""
    assert parts.train is not None
    numbers: Any = parts.train.numbers
    if parts.train.sparse:
        return np.asarray(numbers.mean(axis=0)).ravel()[columns]
    values = numbers[:, columns]
    known = ~np.isnan(values)
    return np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)


def _integrated(parts: Parts, weights: Array) -> dict[int, Array]:
    """Integrated gradients of every column, by its number, each (n_rows, k)."""
    columns = columns_read(parts.bank, weights)
    start = mean_row(parts, columns)
    found = np.zeros((len(columns), len(parts.table), len(weights)))
    fillings, has = _fillings(parts, columns, weights), _has(parts, columns, weights)
    values = parts.values(parts.table, weights)
    for row in range(len(parts.table)):
        given = parts.table.take([row])
        cells = np.asarray(_numbers(given)[0, columns])
        end, lacks = np.where(np.isnan(cells), fillings, cells), ~has[row]
        end[lacks] = start[lacks]
        base = parts.values(_points(given, columns, start[None], lacks), weights)[0]
        for machine in range(len(weights)):
            aim = values[row, machine] - base[machine]
            path = given, columns, start, end, lacks
            found[:, row, machine] = _along(parts, weights[machine], machine, path, aim)
    return {column: found[place] for place, column in enumerate(columns)}


def _along(parts: Parts, weights: Array, machine: int, path: Any, aim: float) -> Array:
    """(x − x̄)∘∫∇f, in as many panels as it takes to add up to ``aim``.

    Where derivatives jump, what the last panels miss is spread over the columns by their size.
    """
    given, columns, start, end, lacks = path
    nodes, shares = np.polynomial.legendre.leggauss(_NODES)
    panels, found = 1, np.zeros(len(columns))
    while panels <= _PANELS:
        t = ((np.arange(panels)[:, None] + (nodes + 1.0) / 2.0) / panels).ravel()
        points = _points(given, columns, start + t[:, None] * (end - start), lacks)
        steep = gradient(parts.bank, points, weights, parts.coef[:, machine])[:, columns]
        found = (end - start) * (np.tile(shares / (2.0 * panels), panels) @ steep)
        if abs(found.sum() - aim) <= _CLOSE * max(abs(aim), 1e-9 * np.abs(found).sum()):
            return found
        panels *= 4
    sizes = np.abs(found)
    return found + (aim - found.sum()) * sizes / max(sizes.sum(), np.finfo(float).tiny)


def _points(given: Table, columns: list[int], cells: Array, lacks: Mask) -> Table:
    """Copies of one row, with other numbers in some columns; what it lacks stays empty."""
    from kernelweave.views.sparse_table import SparseTable

    if given.sparse:
        from scipy.sparse import csr_array

        rows = np.tile(_numbers(given), (len(cells), 1))
        rows[:, columns] = cells
        return SparseTable.of(csr_array(rows))
    made = given.take(np.zeros(len(cells), dtype=np.intp))
    kept = np.flatnonzero(~lacks)
    made.numbers[:, np.asarray(columns)[kept]] = cells[:, kept]
    return replace(made, source=None)


def _numbers(table: Table) -> Array:
    numbers: Any = table.numbers
    return np.asarray(numbers.toarray()) if table.sparse else numbers


def _fillings(parts: Parts, columns: list[int], weights: Array) -> Array:
    """What kernels see in an empty cell of each column; NaN where it cannot be empty."""
    found = np.full(len(columns), np.nan)
    for number in np.flatnonzero(weights.any(axis=0)):
        view = parts.bank.members[number].view
        if view.filling is not None:
            places = [columns.index(column) for column in view.columns]
            found[places] = view.filling
    return found


def _has(parts: Parts, columns: list[int], weights: Array) -> Mask:
    """Which rows have the view that each column is in, (n_rows, n_columns)."""
    found = np.zeros((len(parts.table), len(columns)), dtype=bool)
    for view in {parts.bank.members[number].view for number in np.flatnonzero(weights.any(axis=0))}:
        places = np.array([columns.index(column) for column in view.columns])
        rows = view.rows_of(parts.table)
        found[np.ix_(np.arange(len(found)) if rows is None else rows, places)] = True
    return found


def _local(parts: Parts, weights: Array, column: int) -> Array:
    """f less its mean with the cells of training rows in a column, (n_rows, k)."""
    assert parts.train is not None
    read = readers(parts.bank, weights, [column])
    filled = np.flatnonzero(~parts.train.lacking([column]))
    some = filled[np.linspace(0, filled.size - 1, min(filled.size, _OTHERS)).astype(np.intp)]
    others, table = parts.train.take(some), parts.table
    found = parts.values(table, read)
    for row in range(len(table)):
        if table.lacking([column])[row] or not some.size:
            found[row] = 0.0
            continue
        tried = table.take(np.full(some.size, row))
        tried.numbers[:, column] = others.numbers[:, column]
        if tried.objects is not None and others.objects is not None:
            tried.objects[:, column] = others.objects[:, column]
        found[row] -= parts.values(replace(tried, source=None), read).mean(axis=0)
    return found
