"""A factor F (n, R) whose rows lie on the workers of a cluster, in partitions.

    Fᵀv = Σ_p F_pᵀv_p        Fᵀ diag(w) F = Σ_p F_pᵀ diag(w_p) F_p        Fz = (F_1 z, F_2 z, …)

Each partition does what a factor of this machine does. What arrives here are vectors of n, and sums
of the order of the rank. A system with I + FᵀWF is factored on a worker, once for all right sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kernelweave._core.dask_cluster import Cluster, Spans, added
from kernelweave._core.types import Array, Places
from kernelweave.stacks.factor import DerivedFactor, JoinedFactor

Runs = tuple[tuple[int, int], ...]  # rows of F_pᵀ that are used, as (first, last + 1)


class DaskFactor(DerivedFactor):
    """Some columns of partitions Fᵀ_p (R, n_p), each times a number.

    ``parts`` are futures of these arrays, ``runs`` say which columns of F are used, ``scale`` has a
    number for each of them.
    """

    def __init__(
        self, cluster: Cluster, parts: list[Any], spans: Spans, runs: Runs, scale: Array
    ) -> None:
        self.cluster, self.parts, self.spans = cluster, parts, spans
        self.runs, self.scale = runs, scale

    @property
    def shape(self) -> tuple[int, int]:
        """(n, R)."""
        return self.spans.n, self.scale.size

    def scaled(self, scale: Array) -> DaskFactor:
        """The same columns, each times another number."""
        return DaskFactor(self.cluster, self.parts, self.spans, self.runs, scale)

    def onto(self, v: Array) -> Array:
        """Fᵀv, for one vector or the columns of (n, k)."""
        if not v.any():
            return np.zeros((self.scale.size, *v.shape[1:]))
        found: Array = self.cluster.get(self.cluster.sum(self._onto(v)))
        return found

    def times(self, z: Array) -> Array:
        """Fz, for one vector or the columns of (R, k)."""
        return self._joined(self._map(_times, z))

    def product(self, v: Array, middle: Array | None = None) -> Array:
        """F diag(middle) Fᵀv, 1 by default, in one trip."""
        if not v.any():
            return np.zeros(v.shape)
        return self._joined(self._map(_times_sum, self.cluster.few(self._onto(v)), middle))

    def shrinking(self, weights: Array, kind: type = np.float64) -> Callable[[Array], Array]:
        """What multiplies by F(I + FᵀWF)⁻¹Fᵀ: the matrix is made with the first right side."""
        return _Shrinking(self, weights, kind)

    def gram(self, weights: Array, kind: type = np.float64) -> Array:
        """Fᵀ diag(weights) F for weights that are not negative, (R, R)."""
        terms = self._map(_gram, self.spans.split(weights), np.dtype(kind).str)
        found: Array = self.cluster.get(self.cluster.sum(terms))
        return found

    def gram_and_sum(self, weights: Array) -> tuple[Array, Array]:
        """Fᵀ diag(weights) F, and Fᵀ weights."""
        terms = self._map(_gram_and_sum, self.spans.split(weights))
        gram, total = self.cluster.get(self.cluster.sum(terms))
        return gram, total

    def sizes(self) -> Array:
        """The squared norm of each row, (FFᵀ)_ii."""
        return self._joined(self._map(_sizes))

    def take(self, rows: Places) -> JoinedFactor:
        """Some rows of F, fetched."""
        return JoinedFactor.of(self.array(rows))

    def array(self, rows: Places | None = None) -> Array:
        """F as a new array, or some rows of it: fetched."""
        rows = np.arange(self.spans.n)[slice(None) if rows is None else rows]
        found = self.spans.find(rows)
        each = [self.parts[part] for part, _, _ in found], [inside for _, inside, _ in found]
        out = np.empty((rows.size, self.scale.size))
        tasks = self.cluster.map(_array, *each, self.runs, self.scale)
        for (_, _, asked), some in zip(found, self.cluster.get(tasks), strict=True):
            out[asked] = some
        return out

    def _map(self, work: Callable[..., Any], *more: Any) -> list[Any]:
        """One task for each partition."""
        return self.cluster.map(work, self.parts, self.runs, self.scale, *more)

    def _onto(self, v: Array) -> list[Any]:
        return self._map(_onto, self.spans.split(v))

    def _joined(self, tasks: list[Any]) -> Array:
        return np.concatenate(self.cluster.get(tasks))


class _Shrinking:
    """Multiplies by F(I + FᵀWF)⁻¹Fᵀ, one trip for each right side or several columns of them.

    Where float32 leaves no positive definite matrix, float64 takes its place.
    """

    def __init__(self, F: DaskFactor, weights: Array, kind: type) -> None:
        self.F, self.weights, self.kind = F, weights, kind
        self._root: Any = None

    def __call__(self, g: Array) -> Array:
        try:
            return self._tried(g)
        except LinAlgError:
            if self.kind is np.float64:
                raise
            self.kind, self._root = np.float64, None
            return self._tried(g)

    def _tried(self, g: Array) -> Array:
        F = self.F
        if self._root is not None:
            return F._joined(F._map(_times_solved, F.cluster.few(F._onto(g)), self._root))
        each, kind = (F.spans.split(self.weights), F.spans.split(g)), np.dtype(self.kind).str
        self._root = F.cluster.sum(F._map(_gram_and_onto, *each, kind), _rooted)
        return F._joined(F._map(_times_first, self._root))


# ---- what workers do -----------------------------------------------------------------------------


def _local(G: Array, runs: Runs, scale: Array) -> JoinedFactor:
    return JoinedFactor([G[a:b] for a, b in runs] or [G[:0]], scale)


def _onto(G: Array, runs: Runs, scale: Array, v: Array) -> Array:
    return _local(G, runs, scale).onto(v)


def _times(G: Array, runs: Runs, scale: Array, z: Array) -> Array:
    return _local(G, runs, scale).times(z)


def _gram(G: Array, runs: Runs, scale: Array, weights: Array, kind: str) -> Array:
    return _local(G, runs, scale).gram(weights, np.dtype(kind).type)


def _gram_and_sum(G: Array, runs: Runs, scale: Array, weights: Array) -> tuple[Array, Array]:
    F = _local(G, runs, scale)
    return F.gram(weights), F.onto(weights)


def _sizes(G: Array, runs: Runs, scale: Array) -> Array:
    return _local(G, runs, scale).sizes()


def _array(G: Array, rows: Places, runs: Runs, scale: Array) -> Array:
    return _local(G, runs, scale).array(rows)


def _gram_and_onto(
    G: Array, runs: Runs, scale: Array, weights: Array, v: Array, kind: str
) -> tuple[Array, Array]:
    F = _local(G, runs, scale)
    return F.gram(weights, np.dtype(kind).type), F.onto(v)


def _times_sum(
    G: Array, runs: Runs, scale: Array, terms: tuple[Array, ...], middle: Array | None
) -> Array:
    z = added(terms)
    if middle is not None:
        z = middle * z if z.ndim == 1 else middle[:, None] * z
    return _times(G, runs, scale, z)


def _rooted(both: tuple[Array, Array]) -> tuple[Any, Array]:
    """A root of I + FᵀWF, and what it makes of the first right side."""
    matrix, onto = both
    matrix[np.diag_indices_from(matrix)] += 1.0
    root = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    return root, cho_solve(root, onto, check_finite=False)


def _times_first(G: Array, runs: Runs, scale: Array, known: tuple[Any, Array]) -> Array:
    return _times(G, runs, scale, known[1])


def _times_solved(
    G: Array, runs: Runs, scale: Array, terms: tuple[Array, ...], known: tuple[Any, Array]
) -> Array:
    return _times(G, runs, scale, cho_solve(known[0], added(terms), check_finite=False))
