"""Rows of X as one view sees them, and what all kernels of a view share: products, distances."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .table import FloatArray, Table
from .views import View

_ENOUGH = 1000  # rows from which a median distance is taken


class Rows:
    """Rows of X in one view, converted to what a kernel asks for when it first asks."""

    def __init__(self, table: Table, view: View) -> None:
        self.table = table
        self.view = view
        self._memory: dict[Hashable, FloatArray] = {}

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def raw(self) -> NDArray[Any]:
        """The columns as they came, floats if all of them are numbers."""
        return self.table.raw(self.view.columns)

    @cached_property
    def values(self) -> FloatArray:
        """The columns as finite floats, standardised if the view says so."""
        values = self.table.floats(self.view.columns)
        if self.view.shift is not None and self.view.factor is not None:
            values -= self.view.shift
            values *= self.view.factor
        return values

    @cached_property
    def sq_norms(self) -> FloatArray:
        """|x|² of every row."""
        return np.einsum("ij,ij->i", self.values, self.values)

    @cached_property
    def median_distance(self) -> float:
        """Median of |x − z| over pairs of rows that differ (1 if none do)."""
        return _median(np.sqrt(_apart(self._sample_pair().sq_distances)))

    @cached_property
    def median_l1_distance(self) -> float:
        """Median of |x − z|₁ over pairs of rows that differ (1 if none do)."""
        return _median(_apart(self._sample_pair().l1_distances))

    def _sample_pair(self) -> Pair:
        rows = self
        if len(self) > _ENOUGH:
            spread = np.linspace(0, len(self) - 1, _ENOUGH).astype(int)
            rows = Rows(self.table.take(spread), self.view)
        return Pair(rows, rows)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "view": self.view, "_memory": {}}

    def remember(self, key: Hashable, compute: Callable[[], FloatArray]) -> FloatArray:
        """``compute()``, once for each key: features several kernels read off these rows."""
        if key not in self._memory:
            self._memory[key] = compute()
        return self._memory[key]


class Scratch:
    """Arrays that one view's pair hands on to the next.

    Fresh memory costs more than the arithmetic done in it: the system clears every page.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, FloatArray] = {}

    def __call__(self, use: str, shape: tuple[int, int]) -> FloatArray:
        """An uninitialised array of this shape, the same memory for the same use."""
        flat = self._arrays.get(use)
        if flat is None or flat.size < shape[0] * shape[1]:
            flat = self._arrays[use] = np.empty(shape[0] * shape[1])
        return flat[: shape[0] * shape[1]].reshape(shape)


class Pair:
    """Products and distances between the rows ``a`` and ``b`` of one view, each computed once.

    Between rows and themselves they are exactly symmetric, and distances exactly zero on the
    diagonal. They live in ``scratch``: a pair is done with when the next one begins.
    """

    def __init__(self, a: Rows, b: Rows, scratch: Scratch | None = None) -> None:
        self.a = a
        self.b = b
        self._scratch = Scratch() if scratch is None else scratch

    @property
    def same(self) -> bool:
        """Whether these are rows and themselves: the matrix is then square and symmetric."""
        return self.a is self.b

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows on either side."""
        return len(self.a), len(self.b)

    def scratch(self, use: str) -> FloatArray:
        """Room for a matrix of this pair's shape, until the next asks for the same use."""
        return self._scratch(use, self.shape)

    @cached_property
    def products(self) -> FloatArray:
        """xᵀz for every pair."""
        return _products(self.a.values, self.b.values, self.scratch("products"))

    @cached_property
    def sq_distances(self) -> FloatArray:
        """|x − z|² for every pair.

        One column: differences, squared. More: |x|² + |z|² − 2 xᵀz about the mean of ``b``, so
        that columns far from zero lose no digits.
        """
        a, b = self.a.values, self.b.values
        if a.shape[1] == 1:
            distances = np.subtract(a, b.T, out=self.scratch("distances"))
            return np.multiply(distances, distances, out=distances)
        centre = b.mean(axis=0)
        b = b - centre
        a = b if self.same else a - centre
        distances = _products(a, b, self.scratch("distances"))
        distances *= -2.0
        norms = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
        distances += np.add.outer(*norms, out=self.scratch("sums"))
        np.maximum(distances, 0.0, out=distances)
        if self.same:
            np.fill_diagonal(distances, 0.0)
        return distances

    @cached_property
    def l1_distances(self) -> FloatArray:
        """Σ_j |x_j − z_j| for every pair."""
        from scipy.spatial.distance import cdist

        return cdist(self.a.values, self.b.values, "cityblock")


def _products(a: FloatArray, b: FloatArray, out: FloatArray) -> FloatArray:
    if a.shape[1] == 1:
        return np.multiply(a, b.T, out=out)
    return np.matmul(a, b.T, out=out)  # BLAS mirrors one triangle where a is b


def _apart(distances: FloatArray) -> FloatArray:
    """Distances above the diagonal, less those between equal rows (zero up to rounding)."""
    from scipy.spatial.distance import squareform

    above = squareform(distances, checks=False)
    return above[above > 1e-12 * above.max(initial=0.0)]


def _median(distances: FloatArray) -> float:
    return float(np.median(distances)) if distances.size else 1.0
