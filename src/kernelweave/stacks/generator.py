"""Entries of kernels from their rows, in float32 or float64: blocks, sums and products.

    Σ_k w_k K_k at any rows and columns, its products, and all K_k v, through ``_tiles``

How far float32 may be from the truth, as a share of √(K_ii K_jj), is ``eps``. With u the rounding
of one operation and R the largest norm of a row, less the mean of all, exp(−a|x − z|²) errs by at
most

    u/e·(columns + 8)  for the distance,      2uR√a  for the rows,      2⁻²³·2  for the exponential

since t·exp(−t) ≤ 1/e and √t·exp(−t) < 1/2. Centering takes off numbers of the size of the entry,
and leaves K_ii, by which it is divided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.cached import cached_property
from kernelweave._core.tolerances import NEGATIVITY
from kernelweave._core.types import Array, Mask, Places
from kernelweave.stacks import _tiles
from kernelweave.stacks._tiles import BAND, Recipes, TileSide
from kernelweave.stacks.resources import run
from kernelweave.stacks.row_kernels import GAUSSIAN, LAPLACIAN, POLYNOMIAL, RowKernels

_STRIPS = 8  # sums that are made apart in a pass over a triangle: bits do not depend on threads


class Generator:
    """The kernels of some views over the same n rows; all arrays are of ``dtype``.

    Kernels have an order of their own here: those that share distances or products stand together.
    ``numbers`` says which kernel of the stack each of them is. Distances do not change when the
    mean is taken off all rows, products do: each has its own columns.
    """

    def __init__(self, views: Sequence[RowKernels], dtype: np.dtype) -> None:
        self.dtype, self.n = np.dtype(dtype), views[0].n
        parts = [part for view in views for part in _families(view)]
        self.numbers = np.concatenate([view.numbers[chosen] for view, chosen, _ in parts])
        self.columns = _ranges([x.shape[1] for _, _, x in parts])
        self.ranges = _ranges([int(chosen.sum()) for _, chosen, _ in parts])
        self.x = np.concatenate([x for _, _, x in parts], axis=1).astype(dtype)
        self.kinds, self.b, self.a, self.scale = (
            np.concatenate([getattr(view, name)[chosen] for view, chosen, _ in parts])
            for name in ("kinds", "b", "a", "scale")
        )
        self.means = [row for view, chosen, _ in parts for row in _each(view.means, chosen)]
        self.norms = [row for view, chosen, _ in parts for row in _each(view.norms, chosen)]

    @property
    def m(self) -> int:
        """The number of kernels."""
        return self.numbers.size

    @cached_property
    def eps(self) -> float:
        """How far an entry may be off, as a share of √(K_ii K_jj)."""
        u = 0.5 * float(np.finfo(self.dtype).eps)
        shares = [self._share(k, u) for k in range(self.m)]
        return max(shares) + (self.m + 4) * u

    def _share(self, k: int, u: float) -> float:
        part = int(np.searchsorted(self.ranges[:, 1], k, side="right"))
        first, last = self.columns[part]
        x, a = self.x[:, first:last].astype(float), float(self.a[k])
        count, own = last - first, np.ones(self.n)
        if self.kinds[k] == POLYNOMIAL:
            own = (np.einsum("ic,ic->i", x, x) + a) ** self.b[k]
            lost = (self.b[k] * (count + 4)) * u * own
        elif self.kinds[k] == LAPLACIAN:
            lost = (count + 8) * u / math.e + 2.0 * a * u * np.abs(x).sum(axis=1) + 4.0 * u
        else:
            reach = math.sqrt(a) * np.sqrt(np.einsum("ic,ic->i", x, x))
            lost = (count + 8) * u / math.e + 2.0 * u * reach + 4.0 * u
        lost = np.broadcast_to(lost, own.shape)
        c, r = self.means[k], self.norms[k]
        if c is not None:
            lost = lost + 4.0 * u * (own + 2.0 * np.abs(c))
            own = own - 2.0 * c
            own += NEGATIVITY[np.dtype(np.float64)] * own.sum()  # as row norms have it
        counts = own > 0.0 if r is None else r > 0.0
        return float((lost[counts] / own[counts]).max(initial=0.0))

    def fill(self, weights: Array, out: NDArray[Any], threads: int) -> None:
        """Write Σ_k w_k K_k over all rows."""
        recipes, side = self._recipes(weights), self._side(weights, slice(None))
        tasks = (-(-self.n // BAND) + 1) // 2
        z = np.ascontiguousarray(side.x.T)
        run(_tiles.fill, tasks, self._work(weights, out.size // 2), threads, recipes, side, z, out)

    def block(self, weights: Array, rows: Places, columns: Places, threads: int) -> Array:
        """Σ_k w_k K_k at some rows and columns."""
        out = np.empty((rows.size, columns.size))
        self._rectangle(_tiles.block, weights, rows, columns, threads, out)
        return out

    def products(
        self, weights: Array, rows: Places, columns: Places, V: Array, threads: int
    ) -> Array:
        """Σ_k w_k K_k[rows, columns] V, for the columns of V."""
        out = np.zeros((V.shape[1], rows.size))
        if columns.size:
            V = np.ascontiguousarray(V.T)
            self._rectangle(_tiles.products, weights, rows, columns, threads, V, out)
        return out.T

    def _rectangle(
        self,
        work: Any,
        weights: Array,
        rows: Places,
        columns: Places,
        threads: int,
        *arrays: NDArray[Any],
    ) -> None:
        left, right = self._side(weights, rows), self._side(weights, columns)
        z, reads = np.ascontiguousarray(right.x.T), self._work(weights, rows.size * columns.size)
        tasks = -(-rows.size // BAND)
        run(work, tasks, reads, threads, self._recipes(weights), left, right, z, *arrays)

    def matvecs(self, chosen: Mask, v: Array, rows: Places, support: Places, threads: int) -> Array:
        """K_k[rows, support] v for each kernel that is chosen; v has the numbers of the support."""
        weights = chosen.astype(float)
        kernels = np.flatnonzero(chosen)
        norms = [self.norms[k] for k in kernels]
        V = np.array([v if r is None else r[support] * v for r in norms])
        recipes = self._recipes(weights, plain=True)
        same = np.array_equal(rows, support)
        x = self.x[rows]
        z = np.ascontiguousarray((x if same else self.x[support]).T)
        reads = self._work(weights, rows.size * support.size)
        out = np.zeros((kernels.size, rows.size))
        if same and out.size:
            sums = np.empty((_STRIPS, *out.shape))
            run(_tiles.symmetric_matvecs, _STRIPS, reads // 2, threads, recipes, x, z, V, sums)
            out = sums.sum(axis=0)
        elif out.size and support.size:
            tasks = -(-rows.size // BAND)
            run(_tiles.matvecs, tasks, reads, threads, recipes, x, z, V, out)
        for place, k in enumerate(kernels):
            self._normalize(out[place], k, V[place], rows, support)
        return out

    def _normalize(self, product: Array, k: Any, v: Array, rows: Places, support: Places) -> None:
        """From Σ_j φ(x_i, x_j) v_j to K_k v, in place."""
        c, r = self.means[k], self.norms[k]
        if c is not None:
            product -= c[rows] * v.sum() + c[support] @ v
        if r is not None:
            product *= r[rows]
        product *= self.scale[k]

    def _recipes(self, weights: Array, plain: bool = False) -> Recipes:
        """The kernels with a weight; ``plain``: each φ_k itself."""
        active = weights != 0.0
        ends = np.concatenate([[0], np.cumsum(active)])
        ranges = ends[self.ranges]
        used = ranges[:, 1] > ranges[:, 0]
        kernels = np.flatnonzero(active)
        normed = np.array([self.norms[k] is not None and not plain for k in kernels], dtype=bool)
        places = np.where(normed, np.cumsum(normed) - 1, -1)
        return Recipes(
            columns=self.columns[used],
            kernels=ranges[used],
            kinds=self.kinds[kernels],
            a=self.a[kernels].astype(self.dtype),
            b=self.b[kernels],
            weights=(weights * self.scale)[kernels].astype(self.dtype),
            normed=places.astype(np.int64),
        )

    def _side(self, weights: Array, rows: Any) -> TileSide:
        """Some of the rows, with what normalizes the kernels that have a weight."""
        x = self.x[rows]
        shift, means, norms = np.zeros(len(x)), [], []
        for k in np.flatnonzero(weights):
            c, r = self.means[k], self.norms[k]
            if r is not None:
                norms.append(r[rows])
                means.append(np.zeros(len(x)) if c is None else c[rows])
            elif c is not None:
                shift += weights[k] * self.scale[k] * c[rows]
        shape = (len(norms), len(x))
        return TileSide(
            np.array(x, order="C"),
            shift.astype(self.dtype),
            np.array(means, dtype=self.dtype).reshape(shape),
            np.array(norms, dtype=self.dtype).reshape(shape),
        )

    def _work(self, weights: Array, entries: int) -> int:
        """What it takes to compute so many entries, in numbers read."""
        return int(entries * (np.count_nonzero(weights) + self.x.shape[1] // 8 + 1))


def _families(view: RowKernels) -> list[tuple[RowKernels, Mask, Array]]:
    """The kernels of a view by what they read: distances of centered rows, products of rows."""
    radial, found = (view.kinds == GAUSSIAN) | (view.kinds == LAPLACIAN), []
    if radial.any():
        found.append((view, radial, view.x - view.x.mean(axis=0)))
    if not radial.all():
        found.append((view, ~radial, view.x))
    return found


def _each(rows: Array | None, chosen: Mask) -> list[Array | None]:
    return [None] * int(chosen.sum()) if rows is None else list(rows[chosen])


def _ranges(sizes: Sequence[int]) -> Places:
    """Begin and end of consecutive parts of these sizes."""
    ends = np.cumsum(sizes)
    return np.stack([ends - sizes, ends], axis=1).astype(np.int64)
