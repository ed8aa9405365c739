"""Parts of one table, such as the folds of a cross-validation, that share what two rows determine.

Inner products, distances and kernels of fixed parameters depend on the two rows alone. They are
computed once for all pairs of rows, and each part reads its own pairs. Whatever depends on more
rows (widths, means, standardized columns) has no place here: each part learns it for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.types import Array
from kernelweave.views import products
from kernelweave.views.columns import View
from kernelweave.views.table import Table


class PairStore:
    """Lower triangles over all rows of a table, by view and kind, up to ``limit`` bytes.

    A kind is whatever can be compared: the name of a distance, a kernel.
    """

    def __init__(self, table: Table, limit: float) -> None:
        self.table, self.room = table, limit
        self._found: dict[tuple[int, ...], list[tuple[Any, Array | None]]] = {}
        self._made: dict[Any, Any] = {}
        self._local = threading.local()

    def triangle(self, view: View, kind: Any, compute: Callable[[], Array]) -> Array | None:
        """``compute()``, a triangle over all rows; None if too large, or if rows lack the view."""
        found = self._found.setdefault(view.columns, [])
        for known, kept in found:
            if known == kind:
                return kept
        size = 8 * products.size(len(self.table))
        complete = view.rows_of(self.table) is None
        kept = compute() if complete and self.room >= size else None
        self.room -= 0 if kept is None else size
        found.append((kind, kept))
        return kept

    def once(self, key: Any, make: Callable[[Table], Any]) -> Any:
        """``make(table)``, kept for all parts."""
        if key not in self._made:
            self._made[key] = make(self.table)
        return self._made[key]

    def latest(self, view: View, make: Callable[[Table], Any]) -> Any:
        """``make(table)``, kept until another view is asked for: what its kernels share."""
        if getattr(self._local, "columns", None) != view.columns:
            self._local.made, self._local.columns = make(self.table), view.columns
        return self._local.made


@dataclass(frozen=True)
class TablePart(Table):
    """Some rows of a table whose parts share a store: ``index`` says which."""

    shares: ClassVar[bool] = True
    store: PairStore | None = None
    index: NDArray[np.intp] | None = None

    def take(self, rows: Any) -> TablePart:
        """Some of the rows, as a copy."""
        assert self.store is not None and self.index is not None
        return _part(super().take(rows), self.store, self.index[rows])

    def block(self, rows: slice) -> TablePart:
        """Consecutive rows, as a view of the same memory."""
        assert self.store is not None and self.index is not None
        return _part(super().block(rows), self.store, self.index[rows])

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds the rows alone."""
        return Table, tuple({**_values(self), "source": None}.values())


def share(X: Any, limit: float) -> Table:
    """X, to be cut into parts that share at most ``limit`` bytes; nothing if sparse or apart."""
    table = Table.read(X)
    if table.sparse or table.apart:
        return table
    return _part(table, PairStore(table, limit), np.arange(len(table)))


def apart(table: Any) -> Table:
    """The same rows, on this machine and for themselves: they share nothing."""
    if table.apart:
        here: Table = table.here()
        return here
    return Table(**_values(table)) if table.shares else table


def store_of(a: Table, b: Table, view: View) -> PairStore | None:
    """The store of two tables; None unless both are parts of one and see this view unchanged."""
    store = getattr(a, "store", None)
    same = store is getattr(b, "store", None)
    learned = (view.shift, view.factor, view.filling)
    unchanged = all(array is None for array in learned) and not view.presence
    return store if same and unchanged else None


def places(part: Any) -> NDArray[np.intp]:
    """Numbers of these rows in the table that parts share."""
    return part.index


def _values(table: Table) -> dict[str, Any]:
    return {field.name: getattr(table, field.name) for field in fields(Table)}


def _part(table: Table, store: PairStore, index: NDArray[np.intp]) -> TablePart:
    return TablePart(**_values(table), store=store, index=index)
