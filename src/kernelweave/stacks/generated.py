"""Very many kernels over few rows: Gaussians and polynomials on sets of columns, never kept.

    K_{s,γ}[i, j] = a·exp(−|x_i − x_j|²_s / (2γ²)),      K_{s,p}[i, j] = a·(x_i·x_j + 1)^p on set s

A pass goes through the sets. The distances of a set are computed once for all its widths, for the
pairs of rows that have a coefficient; the kernels follow in memory that stays in cache. A million
kernels then take the memory of their weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import as_places, check_number, check_vector
from kernelweave._core.jit import jit
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import decay, frozen
from kernelweave.stacks.defaults import BlockStack
from kernelweave.stacks.dense import DenseCombined


class GeneratedStack(BlockStack):
    """A Gaussian for each width and a polynomial for each degree, on each set of columns.

    Kernel k is number k mod g on set k div g, with g = len(widths) + len(degrees), widths first.
    Each is scaled to the trace ``trace``.

    Parameters
    ----------
    X : array (n, columns)
        The rows, at a scale of your choice.
    sets : sequence of sequences of int
        The columns that each group of kernels reads.
    widths : sequence of float
        Widths of the Gaussians.
    degrees : sequence of int
        Degrees of the polynomials (x·z + 1)^degree.
    trace : float
        The trace of every kernel; a kernel that is zero stays zero.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 5))
    >>> pairs = [(i, j) for i in range(5) for j in range(i)]
    >>> stack = kw.GeneratedStack(X, pairs, widths=[0.5, 1.0, 2.0], degrees=[1, 2])
    >>> stack
    GeneratedStack(m=50, n=40)
    >>> bool(kw.learn(stack, np.sign(X[:, 0] * X[:, 1]), C=10.0).gap <= 1e-3)
    True
    """

    def __init__(
        self,
        X: ArrayLike,
        sets: Sequence[Sequence[int]],
        widths: Sequence[float] = (),
        degrees: Sequence[int] = (),
        trace: float = 1.0,
    ) -> None:
        self._X = np.ascontiguousarray(np.asarray(X, dtype=float).T)
        if self._X.ndim != 2 or not np.isfinite(self._X).all():
            raise ValueError("X must be a finite array (n, columns)")
        self._sets = [as_places(columns, len(self._X), "sets") for columns in sets]
        for width in widths:
            check_number("widths", width)
        for degree in degrees:
            check_number("degrees", degree, int)
        self._rates = np.array([0.5 / float(width) ** 2 for width in widths])
        self._degrees = [int(degree) for degree in degrees]
        self._each = len(self._rates) + len(self._degrees)
        self.n, self.m = int(self._X.shape[1]), len(self._sets) * self._each
        if not self.m:
            raise ValueError("there must be a set of columns, and a width or a degree; found none")
        self._scale = np.ones(self.m)
        sums = self.traces()
        self._scale = check_number("trace", trace) / np.where(sums > 0.0, sums, 1.0)

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n)."""
        out = np.ones((self.m, self.n))
        for number, columns in enumerate(self._sets):
            norms = np.einsum("ci,ci->i", *(self._X[columns],) * 2)
            for place, degree in enumerate(self._degrees, number * self._each + self._rates.size):
                out[place] = (norms + 1.0) ** degree
        out *= self._scale[:, None]
        return out

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, a new array."""
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        kernel = int(kernel) % self.m
        number, kind = divmod(kernel, self._each)
        a, b = (self._X[self._sets[number]][:, p] for p in (left, right))
        if kind < self._rates.size:
            far = np.square(a[:, :, None] - b[:, None, :]).sum(axis=0)
            out = np.empty_like(far)
            decay(far, self._rates[kind], out)
        else:
            out = (a.T @ b + 1.0) ** self._degrees[kind - self._rates.size]
        return np.asarray(self._scale[kernel] * out)

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """VᵀK_k v for each of ``kernels``."""
        x = check_vector("v", v, self.n, finite=False)
        rows = np.flatnonzero(x)
        chosen = as_places(kernels, self.m, "kernels")
        i, j = np.tril_indices(rows.size, -1)
        twice, squares = 2.0 * x[rows][i] * x[rows][j], x[rows] ** 2
        out = np.empty(chosen.size)
        for to, E, diagonal in self._passed(chosen, rows):
            out[to] = E @ twice + diagonal @ squares
        return out * self._scale[chosen]

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k[rows] v for each of ``kernels``."""
        x = check_vector("v", v, self.n, finite=False)
        places = as_places(rows, self.n, "rows")
        used = np.union1d(np.flatnonzero(x), places)
        at = np.searchsorted(used, places)
        chosen = as_places(kernels, self.m, "kernels")
        out, xs = np.empty((chosen.size, places.size)), x[used]
        for to, E, diagonal in self._passed(chosen, used):
            found = diagonal * xs
            _add_products(E, xs, found)
            out[to] = found[:, at]
        out *= self._scale[chosen][:, None]
        return out

    def combined(self, weights: ArrayLike) -> DenseCombined:
        """K(d) as an array: rows are few."""
        w = check_vector("weights", weights, self.m, finite=False) * self._scale
        rows, active = np.arange(self.n), np.flatnonzero(w)
        i, j = np.tril_indices(self.n, -1)
        K, total, own = np.zeros((self.n, self.n)), np.zeros(i.size), np.zeros(self.n)
        for to, E, diagonal in self._passed(active, rows):
            total += w[active[to]] @ E
            own += w[active[to]] @ diagonal
        K[i, j] = K[j, i] = total
        K[rows, rows] = own
        return DenseCombined(frozen(K))

    def _passed(self, chosen: Places, rows: Places) -> Iterator[tuple[Places, Array, Array]]:
        """Set by set: which of ``chosen`` it has, their entries at pairs of rows, their diagonals.

        The pairs are i > j, row by row; nothing is scaled yet. The arrays are used again for the
        next set.
        """
        order = np.argsort(chosen, kind="stable")
        cuts = np.flatnonzero(np.diff(chosen[order] // self._each)) + 1
        x, pairs = np.ascontiguousarray(self._X[:, rows]), rows.size * (rows.size - 1) // 2
        far, base, norms = np.empty(pairs), np.empty(pairs), np.empty(rows.size)
        groups = np.split(order, cuts) if chosen.size else []
        most = max(map(len, groups), default=0)
        E, diagonal = np.empty((most, pairs)), np.empty((most, rows.size))
        for to in groups:
            number, kinds = int(chosen[to[0]] // self._each), chosen[to] % self._each
            _pairs(x, self._sets[number], far, base, norms)
            g = int(np.searchsorted(kinds, self._rates.size))
            np.multiply(self._rates[kinds[:g], None], far, out=E[:g])
            decay(E[:g], 1.0, E[:g])
            diagonal[:g] = 1.0
            for place in range(g, kinds.size):
                degree = self._degrees[kinds[place] - self._rates.size]
                _power(base, degree, E[place])
                _power(norms, degree, diagonal[place])
            yield to, E[: kinds.size], diagonal[: kinds.size]

    def __repr__(self) -> str:
        return f"GeneratedStack(m={self.m}, n={self.n})"


def _power(base: Array, degree: int, out: Array) -> None:
    out[:] = base
    for _ in range(degree - 1):
        out *= base


@jit
def _pairs(x, columns, far, base, norms):  # type: ignore[no-untyped-def]
    """Squared distances and products plus 1 of all pairs i > j, and |x_i|² + 1."""
    far[:] = 0.0
    base[:] = 1.0
    norms[:] = 1.0
    for c in columns:
        row, first = x[c], 0
        for i in range(row.size):
            norms[i] += row[i] * row[i]
            for j in range(i):
                far[first + j] += (row[i] - row[j]) * (row[i] - row[j])
                base[first + j] += row[i] * row[j]
            first += i


@jit
def _add_products(E, v, out):  # type: ignore[no-untyped-def]
    """out[k] ← out[k] + K_k v without the diagonal; E[k] has K_k[i, j] for i > j, row by row."""
    for k in range(E.shape[0]):
        first = 0
        for i in range(1, v.size):
            row, own, total = E[k, first : first + i], v[i], 0.0
            for j in range(i):
                total += row[j] * v[j]
            for j in range(i):
                out[k, j] += row[j] * own
            out[k, i] += total
            first += i
