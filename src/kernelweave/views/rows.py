"""Rows of X in one view, and the products and distances that kernels of a view share."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from functools import partial, partialmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.blocks import blocks
from kernelweave._core.cached import cached_property
from kernelweave._core.checks import is_sparse
from kernelweave._core.tolerances import COINCIDE
from kernelweave._core.types import Array
from kernelweave.views import products, sparse, weighted
from kernelweave.views.columns import View
from kernelweave.views.parts import apart, places, store_of
from kernelweave.views.products import from_half_products, sq_distances, sq_norms
from kernelweave.views.table import Table

_ENOUGH = 1000  # at most this many rows are used for a median distance
_STEP = 256  # rows of a matrix computed at a time


class Rows:
    """Rows of X in one view; conversions happen on first use and are cached.

    ``weights``: how often each row counts in what is learned from the rows; None for once.
    """

    table: Table
    view: View

    def __init__(self, table: Table, view: View, weights: Array | None = None) -> None:
        self.table = table
        self.view = view
        self.weights = weights
        self._memory: dict[Hashable, Array] = {}

    @classmethod
    def having(cls, table: Table, view: View) -> tuple[NDArray[np.intp] | None, Rows]:
        """Which rows of a table have the view, None for all; these rows."""
        places = view.rows_of(table) if view.may_lack else None
        return places, cls(table if places is None else table.take(places), view)

    def __len__(self) -> int:
        return len(self.table)

    def pieces(self, width: int, entries: int) -> Iterator[tuple[slice, Rows]]:
        """Some of the rows at a time: with ``width`` numbers for each, ``entries`` at most."""
        for piece in blocks(max(1, len(self)), width, entries):
            yield piece, Rows(self.table.block(piece), self.view)

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return 1 if self.view.presence else len(self.view.columns)

    @cached_property
    def raw(self) -> NDArray[Any]:
        """The columns neither scaled nor encoded; floats if all of them are numbers."""
        if self.view.presence:
            return (~self.table.lacking(self.view.columns)).astype(np.float64)[:, None]
        return self.table.raw(self.view.columns, self.view.filling)

    def levels(self) -> list[list[Any]]:
        """The columns as lists; None in empty cells, which a view without filling refuses."""
        found, columns = self.raw.T.tolist(), self.view.columns
        if self.view.presence:
            return found
        if self.view.filling is None or self.table.lacking(columns).any():
            self.table.check_filled(columns, self.view.filling is not None)
            return found
        for column, cells in zip(columns, found, strict=True):
            for row in np.flatnonzero(self.table.lacking([column])):
                cells[row] = None
        return found

    def distinct(self) -> list[list[Any]]:
        """The levels of each column, in the order in which they come."""
        table: Any = self.table
        if not table.apart:
            return [[*dict.fromkeys(cells)] for cells in self.levels()]
        if self.view.filling is None and not self.view.presence:
            table.check_filled(self.view.columns, False)
        found: list[list[Any]] = table.distinct(self.view)
        return found

    def only_column(self, who: str, what: str, advice: str = "") -> NDArray[Any]:
        """The only column of the view, unchanged; errors say that ``who`` needs ``what``."""
        if self.raw.shape[1] != 1:
            raise ValueError(
                f"{who} takes one column of {what}; view {self.view.name!r} has "
                f"{self.raw.shape[1]} columns. {advice}Use (name, kernel, column)."
            )
        return self.raw[:, 0]

    @cached_property
    def values(self) -> Array:
        """The columns as finite floats, standardized if the view is; CSR where X is sparse."""
        values = self.table.floats(self.view.columns, filling=self.view.filling)
        if self.view.shift is not None and self.view.factor is not None:
            values -= self.view.shift
            values *= self.view.factor
        return values  # type: ignore[return-value]  # float64, though annotated wider

    @cached_property
    def sq_norms(self) -> Array:
        """|x|² of every row."""
        return sparse.sq_norms(self.values) if self.table.sparse else sq_norms(self.values)

    @cached_property
    def median_distance(self) -> float:
        """Median of |x − z| over pairs of rows that differ (1 if none do)."""
        return self._median(Gram.sq_distances_in, np.sqrt)

    @cached_property
    def median_l1_distance(self) -> float:
        """Median of |x − z|₁ over pairs of rows that differ (1 if none do)."""
        return self._median(Gram.l1_distances_in, np.asarray)

    def _median(self, compute: Callable[[Gram], Array], then: Callable[[Array], Array]) -> float:
        """Of ``then`` of the distances between rows that differ, up to rounding."""
        rows, weights = self, self.weights
        if len(self) > _ENOUGH:
            spread = weighted.evenly_spaced(len(self), weights, _ENOUGH)
            rows, weights = Rows(apart(self.table.take(spread)), self.view), None
        gram = Gram(rows)
        distances = compute(gram)
        differ = distances > COINCIDE * distances.max(initial=0.0)
        if not differ.any():
            return 1.0
        if weights is None:
            return weighted.median(then(distances[differ]), None)
        pairs = np.empty(gram.shape)  # how often each pair counts
        gram.outer(weights, weights, pairs)
        return weighted.median(then(distances[differ]), pairs[differ])

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "view": self.view, "weights": self.weights, "_memory": {}}

    def remember(self, key: Hashable, compute: Callable[[], Array]) -> Array:
        """``compute()``, cached by key: for features that several kernels share."""
        if key not in self._memory:
            self._memory[key] = compute()
        return self._memory[key]


class Scratch(dict[str, Array]):
    """Work arrays that successive pairs reuse.

    Allocating new memory costs more than the arithmetic, because the system clears every page.
    """

    def __call__(self, use: str, shape: tuple[int, ...]) -> Array:
        """An uninitialized array of this shape; the same ``use`` gets the same memory."""
        size = math.prod(shape)
        flat = self.get(use)
        if flat is None or flat.size < size:
            flat = self[use] = np.empty(size)
        return flat[:size].reshape(shape)


class Pair:
    """Products and distances between the rows ``a`` and ``b`` of one view, each computed once.

    They are stored in ``scratch``, which the next pair overwrites. ``shared``: whether several
    kernels read them. A single kernel may have them in its own result (``products_in``).
    ``shape``: of all arrays of this pair, the number of rows on each side. ``scratch(use)`` is a
    work array of this shape, valid until the same ``use`` is requested again.
    """

    def __init__(
        self,
        a: Rows,
        b: Rows,
        scratch: Scratch | None = None,
        shared: bool = True,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.a, self.b, self.shared = a, b, shared
        self.shape = (len(a), len(b)) if shape is None else shape
        self._scratch = Scratch() if scratch is None else scratch
        self.scratch = partial(self._scratch, shape=self.shape)
        self._computed: dict[str, Array] = {}

    @property
    def same(self) -> bool:
        """Whether both sides are the same rows."""
        return self.a is self.b

    def _known(self, write: str, out: Array | None = None) -> Array:
        """What the method ``write`` computes, once for all kernels that share it."""
        if write in self._computed:
            return self._computed[write]
        alone = out is not None and not self.shared
        room = out if out is not None and alone else self.scratch(write)
        if not (self.a.table.shares and self.look_up(write, getattr(Gram, write), room)):
            getattr(self, write)(room)
        if not alone:
            self._computed[write] = room
        return room

    # For every pair xᵀz, |x − z|² and Σ_j |x_j − z_j|: ``products_in(out)`` is the shared array, or
    # ``out`` if no other kernel needs it.
    products_in = partialmethod(_known, "write_products")
    sq_distances_in = partialmethod(_known, "write_sq_distances")
    l1_distances_in = partialmethod(_known, "write_l1_distances")

    def look_up(self, kind: Any, write: Callable[[Gram, Array], None], out: Array) -> bool:
        """Write what parts of one table share, if both sides are such; else return False.

        ``write(gram, half)`` computes it for all rows of that table, once for all parts.
        """
        view = self.a.view
        store = store_of(self.a.table, self.b.table, view)
        if store is None:
            return False

        def over_all() -> Array:
            gram = store.latest(view, lambda table: Gram(Rows(table, view), centered=False))
            half = np.empty(gram.shape)
            write(gram, half)
            return half

        half = store.triangle(view, kind, over_all)
        if half is not None:
            self._pick(half, out)
        return half is not None

    def _pick(self, half: Array, out: Array) -> None:
        """Write these pairs of a triangle over all rows of the table that parts share."""
        products.block(half, places(self.a.table), places(self.b.table), out)

    def write_products(self, out: Array, a: Any = None, b: Any = None) -> None:
        """Compute xᵀz for every pair, or the products of features ``a`` and ``b``, dense or CSR."""
        a, b = (self.a.values, self.b.values) if a is None else (a, b)
        if is_sparse(a):
            sparse.products(a, b, out)
        elif a.shape[1] == 1:
            self.outer(a[:, 0], b[:, 0], out)
        else:
            np.matmul(a, b.T, out=out)

    def write_sq_distances(self, out: Array) -> None:
        """Compute |x − z|² for every pair."""
        distances = sparse.sq_distances if self.a.table.sparse else sq_distances
        distances(self.a.values, self.b.values, out)

    def write_l1_distances(self, out: Array) -> None:
        """Compute Σ_j |x_j − z_j| for every pair."""
        from scipy.spatial.distance import cdist

        a, b = self.a.values, self.b.values
        for rows, columns in self.blocks():
            self.put(rows, cdist(a[rows], b[columns], "cityblock"), out)

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Blocks of rows of ``a``, each with the rows of ``b`` to compare it with."""
        for start in range(0, len(self.a), _STEP):
            yield slice(start, start + _STEP), slice(None)

    def put(self, rows: slice, block: Array, out: Array) -> None:
        """Write the result for one of the ``blocks`` into ``out``."""
        out[rows] = block

    def outer(self, u: Array, v: Array, out: Array) -> None:
        """Write u_i v_j for every row i of ``a`` and row j of ``b``."""
        np.multiply.outer(u, v, out=out)


class Gram(Pair):
    """Rows against themselves; all arrays are lower triangles (``kernelweave.views.products``).

    Distances are exactly zero on the diagonal. ``centered``: they are computed from centered rows,
    which is quicker, but lets all rows have a part in the rounding of each distance.
    """

    def __init__(
        self,
        rows: Rows,
        scratch: Scratch | None = None,
        shared: bool = True,
        centered: bool = True,
    ) -> None:
        super().__init__(rows, rows, scratch, shared, (products.size(len(rows)),))
        self._centered = centered

    def write_products(self, out: Array, a: Any = None, b: Any = None) -> None:
        """Compute xᵀz for every pair, or the products of the features ``a`` with each other."""
        a = self.a.values if a is None else a
        if is_sparse(a):
            sparse.half_products(a, out)
        elif a.shape[1] == 1:
            products.products(a[:, 0], out)
        else:
            for rows, columns in self.blocks():
                self.put(rows, a[rows] @ a[columns].T, out)

    def _pick(self, half: Array, out: Array) -> None:
        """Write these pairs of a triangle over all rows of the table that parts share."""
        products.take(half, places(self.a.table), out)

    def write_sq_distances(self, out: Array) -> None:
        """Compute |x − z|² for every pair."""
        x, is_csr = self.a.values, self.a.table.sparse
        if x.shape[1] == 1 and not is_csr:
            products.sq_differences(x[:, 0], out)
            return
        centered = x - x.mean(axis=0) if self._centered and not is_csr else x
        norms = self.a.sq_norms if centered is x else sq_norms(centered)
        if not np.isfinite(norms).all():
            raise ValueError(
                f"X: columns of view {self.a.view.name!r} reach {abs(x).max():.3g}, too large to "
                "square. Scale them, or, if X is dense, use KernelBank(scale='standard')."
            )
        if is_csr:
            sparse.half_sq_distances(x, norms, out)
        else:
            self.write_products(out, centered)
            from_half_products(x, norms, out)

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Blocks of rows, each with all rows up to its last."""
        for start in range(0, len(self.a), _STEP):
            yield slice(start, start + _STEP), slice(start + _STEP)

    def put(self, rows: slice, block: Array, out: Array) -> None:
        """Write a block, which reaches at least to the diagonal, into ``out``."""
        products.pack(np.ascontiguousarray(block), rows.start, out)

    def outer(self, u: Array, v: Array, out: Array) -> None:
        """Write u_i u_j for every pair; ``v`` equals ``u``."""
        products.products(np.ascontiguousarray(u), out)

    def whole(self) -> Pair:
        """The same rows as a pair whose arrays are whole matrices."""
        return Pair(self.a, self.b, self._scratch)
