"""Exact kernels that are never held whole: rows are computed on demand, and some are kept.

    block(k, rows, columns)    from rows that are kept, else computed
    K_k v                      from the rows of K_k where v is not zero, which are kept where there
                               is room: machines ask for the same rows again and again

Rows are kept by kernel, since K(d) changes with the weights and its rows would be of no use then.
So is the last product with all kernels: bounds, machines and judges ask for the same v in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.blocks import blocks
from kernelweave._core.checks import as_places, check_number, check_vector
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Index, Mask, Places
from kernelweave.stacks._passes import add_rows, frozen
from kernelweave.stacks.defaults import BlockStack
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.rounding import Units

_ARRAYS = 2**29  # bytes up to which some of the points get arrays
Compute = Callable[[int, Places, Places], Array]  # kernel, rows, columns


class LazyStack(BlockStack):
    """Kernels behind a function that computes blocks of them, with a cache of rows.

    Parameters
    ----------
    compute : function (kernel, rows, columns) → array
        The block of a kernel, a new array of float64.
    diagonals : array (m, n)
        All K_k[i, i].
    cache_size : float
        Megabytes of rows that are kept at the most.
    operations : int
        How many units in the last place an entry may differ from one block to another, as a share
        of √(K_ii K_jj).
    """

    def __init__(
        self,
        compute: Compute,
        diagonals: ArrayLike,
        cache_size: float = 200.0,
        operations: int = 0,
    ) -> None:
        self._compute, self.units = compute, Units(operations=operations)
        self._diagonals = frozen(np.array(diagonals, dtype=float))
        self.m, self.n = self._diagonals.shape
        check_number("cache_size", cache_size, zero=True)
        self._keep_rows(cache_size)

    def _keep_rows(self, cache_size: float) -> None:
        room = int(cache_size * 2**20 // (8 * max(1, self.n)))
        self._kept = _RowCache(self.n, min(room, self.m * self.n))

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n), read-only."""
        return self._diagonals

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, from kept rows where all of either are kept."""
        kernel = int(kernel) % self.m
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        for whole, other, turned in ((left, right, False), (right, left, True)):
            found = self._kept.block(kernel, whole, other)
            if found is not None:
                return np.ascontiguousarray(found.T) if turned else found
        return self._compute(kernel, left, right)

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """vᵀK_k v for each of ``kernels``; where no v_i is zero all of K_k v is known, and kept."""
        x = check_vector("v", v, self.n, finite=False)
        return self.matvecs(x, kernels=kernels) @ x if x.all() else super().quad_forms(x, kernels)

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k v, or some rows of it, for each of ``kernels``.

        Where all rows are asked for, the rows of K_k where v is not zero are kept as far as there
        is room.
        """
        x = check_vector("v", v, self.n, finite=False)
        support, places = np.flatnonzero(x), as_places(rows, self.n, "rows")
        chosen = as_places(kernels, self.m, "kernels")
        last, products = self._kept.product
        if rows is None and np.array_equal(last, x):
            return products[chosen]
        out = np.zeros((chosen.size, places.size))
        self._kept.stamp += 1
        for place, k in enumerate(chosen):
            for piece in blocks(support.size, self.n, SETTINGS.computed):
                some = None if rows is None else places
                out[place] += self._part(int(k), x, support[piece], some)
        if rows is None and np.array_equal(chosen, np.arange(self.m)):
            self._kept.product = x.copy(), out.copy()
        return out

    def _part(self, kernel: int, x: Array, piece: Places, places: Places | None) -> Array:
        """Σ_{i in piece} x_i K[i], at all places or some.

        Rows are summed in one order whichever of them are kept, so that bits repeat.
        """
        if places is None and (total := self._kept.summed(kernel, piece, x[piece])) is not None:
            return total
        K, missing = self._kept.find(kernel, piece, places)
        if missing.any():
            every = np.arange(self.n) if places is None else places
            K[missing] = fresh = self._compute(kernel, piece[missing], every)
            if places is None:
                self._kept.add(kernel, piece[missing], fresh)
        if places is not None:
            return np.asarray(x[piece] @ K)
        total = np.zeros(self.n)
        add_rows(K, np.arange(piece.size), x[piece], total)
        return total

    def restrict(self, rows: Index) -> Stack:
        """The same kernels on some of the points: as arrays where these are small."""
        places = as_places(rows, self.n, "rows", empty=False)
        if places.size == self.n or 8 * self.m * places.size**2 > _ARRAYS:
            return super().restrict(places)
        K = KernelStack.allocate(self.m, places.size)
        for k in range(self.m):
            block = self.block(k, places, places)
            np.multiply(0.5, block + block.T, out=K[k])
        return KernelStack._trusted(K, None, self.precision, self.units)

    def __repr__(self) -> str:
        return f"LazyStack(m={self.m}, n={self.n})"


class _RowCache:
    """At most ``most`` rows of n numbers, by kernel; rows of the latest pass stay."""

    def __init__(self, n: int, most: int) -> None:
        self.stamp = 0  # the number of the latest pass
        self.product: tuple[Array, Array] = (np.empty(0), np.empty(0))  # the latest v, all K_k v
        self.rows = np.empty((most, n))  # takes memory as it is filled
        self._where: dict[int, Places] = {}  # by kernel, the slot of each row, −1 for none
        self._owner = np.full((most, 2), -1, np.intp)  # by slot, kernel and row
        self._seen = np.full(most, -1, np.int64)  # by slot, the pass that asked for it last
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy begins empty."""
        return _RowCache, (self.rows.shape[1], len(self.rows))

    def summed(self, kernel: int, rows: Places, weights: Array) -> Array | None:
        """Σ weights_i K[rows_i] where all of these rows are kept."""
        with self._lock:
            slots = self._slots(kernel, rows)
            if slots.min(initial=0) < 0:
                return None
            self._seen[slots] = self.stamp
            total = np.zeros(self.rows.shape[1])
            add_rows(self.rows, slots, weights, total)
        return total

    def find(self, kernel: int, rows: Places, places: Places | None) -> tuple[Array, Mask]:
        """Room for these rows at all places or some, kept ones filled in; which are not."""
        n = self.rows.shape[1]
        out = np.empty((rows.size, n if places is None else places.size))
        with self._lock:
            slots = self._slots(kernel, rows)
            kept = slots >= 0
            self._seen[slots[kept]] = self.stamp
            at = slots[kept]
            out[kept] = self.rows[at] if places is None else self.rows[np.ix_(at, places)]
        return out, ~kept

    def block(self, kernel: int, rows: Places, places: Places) -> Array | None:
        """These rows at some places, if all of them are kept."""
        with self._lock:
            slots = self._slots(kernel, rows)
            if not slots.size or slots.min() < 0:
                return None
            return self.rows[np.ix_(slots, places)]

    def add(self, kernel: int, rows: Places, values: Array) -> None:
        """Keep as many of these rows as there is room for, in the place of the oldest."""
        with self._lock:
            old = np.flatnonzero(self._seen < self.stamp)
            old = old[np.argsort(self._seen[old], kind="stable")][: rows.size]
            for before, row in self._owner[old]:
                if before >= 0:
                    self._where[int(before)][row] = -1
            taken = rows[: old.size]
            self.rows[old] = values[: old.size]
            self._owner[old, 0], self._owner[old, 1], self._seen[old] = kernel, taken, self.stamp
            none = np.full(self.rows.shape[1], -1, np.intp)
            self._where.setdefault(kernel, none)[taken] = old

    def _slots(self, kernel: int, rows: Places) -> Places:
        """Where these rows are kept, −1 for those that are not."""
        found = self._where.get(kernel)
        return np.full(rows.size, -1, np.intp) if found is None else found[rows]
