"""Kernels of low rank whose rows lie on a Dask cluster: K_k = F_kF_kᵀ, in partitions of rows.

    quad_forms(v)_k = ‖Σ_p F_kpᵀv_p‖²        K(d) v = (F_p diag(d) Σ_q F_qᵀv_q)_p

Partitions may have any size, and none of their rows; they stay where they are. The driver has
vectors of n numbers and sums of the order of the rank, and whatever solvers ask of a stack that is
m × n, or rows × R, is a sum on the workers (``dask_products.py``, ``squeezed`` below). A sample of
the rows, on which weights are learned first, is fetched.

    stack = DaskStack([F1, F2])        # dask arrays (n, r_k), in the same chunks of rows
    kernelweave.learn(stack, y)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg import eigh

from kernelweave._core.checks import as_places, check_vector, float_type, shown
from kernelweave._core.dask_cluster import Cluster, Spans, added, check_alike
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import TINY
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks.combined import BaseCombined
from kernelweave.stacks.dask_factor import DaskFactor, Runs
from kernelweave.stacks.dask_products import Diagonals, Products
from kernelweave.stacks.factors import FactorStack
from kernelweave.stacks.protocol import KernelSolver
from kernelweave.stacks.rounding import FINE, PlainSums, Units

_FIRM = 1e-8  # share of the largest diagonal that a ridge must be for Woodbury's formula to hold


class DaskStack(PlainSums):
    """Positive semidefinite kernels F_1F_1ᵀ, …, F_mF_mᵀ whose rows lie on a cluster.

    Parameters
    ----------
    factors : sequence of m dask arrays (n, r_k)
        In the same chunks of rows.
    client : dask.distributed.Client, optional
        By default the current one.
    timeout : float
        Seconds that the cluster may be without a worker.
    dtype : float64 (None) or float32
        How factors are kept; sums are float64 whatever it is.
    """

    def __init__(
        self,
        factors: Sequence[Any],
        *,
        client: Any = None,
        timeout: float = 300.0,
        dtype: DTypeLike | None = None,
    ) -> None:
        kind = float_type(dtype)
        blocks = _blocks_of(factors)
        cluster = Cluster(client, timeout)
        check_alike(cluster)
        lists = [cluster.compute(some) for some in blocks]
        parts = cluster.map(_beside, *lists, kind.str)
        self._begin(cluster, parts, [int(F.shape[1]) for F in factors], kind)

    @classmethod
    def of(
        cls, cluster: Cluster, parts: list[Any], ranks: Sequence[int], precision: np.dtype
    ) -> DaskStack:
        """From futures of arrays (R, n_p), the columns of one factor after the other."""
        stack = cls.__new__(cls)
        stack._begin(cluster, parts, ranks, precision)
        return stack

    def _begin(
        self, cluster: Cluster, parts: list[Any], ranks: Sequence[int], precision: np.dtype
    ) -> None:
        """Look at all partitions once: their sizes, traces, and whether they are finite."""
        self.cluster, self.precision = cluster, precision
        self.m, self.ranks = len(ranks), np.array(ranks, np.intp)
        self._ends = np.concatenate([[0], np.cumsum(self.ranks)]).astype(np.intp)
        self.owners = np.repeat(np.arange(self.m), self.ranks)
        told = cluster.get(cluster.map(_told, parts, self._ends))
        if not all(finite for *_, finite in told):
            bad = [number for number, (*_, finite) in enumerate(told) if not finite]
            raise ValueError(f"factors must be finite, found NaN or infinity in partition {bad[0]}")
        kept = [number for number, (size, *_) in enumerate(told) if size]
        if not kept:
            raise ValueError("factors must hold at least one row, found none in any partition")
        self.parts = [parts[number] for number in kept]
        self.spans = Spans([told[number][0] for number in kept])
        traces = added([told[number][1] for number in kept])
        self._diagonals = Diagonals(self, traces, np.max([told[k][2] for k in kept], axis=0))
        self.units = Units(operations=int(self.ranks.max(initial=0)))

    @property
    def n(self) -> int:
        """Number of points."""
        return self.spans.n

    # ---- what workers are asked for ------------------------------------------------------------

    def joined(self, work: Any, *more: Any) -> Array:
        """A vector of n, from each partition its part."""
        return np.concatenate(self.cluster.get(self.cluster.map(work, self.parts, *more)))

    def summed(self, work: Any, *more: Any) -> Any:
        """What all partitions give, added up."""
        return self.cluster.get(self.cluster.sum(self.cluster.map(work, self.parts, *more)))

    def onto(self, v: Array) -> Array:
        """Gv, (R,), in the precision of v."""
        if not v.any():
            return np.zeros(self.owners.size, v.dtype)
        if v.dtype == FINE:
            return np.asarray(self.summed(_onto_wide, self.spans.split(v)))
        return self.columns(np.arange(self.m)).onto(v)

    def by_kernel(self, values: Array) -> Array:
        """A number of each column of G, added up by kernel."""
        out = np.zeros(self.m, values.dtype)
        np.add.at(out, self.owners, values)
        return out

    def fetched(self, rows: Places) -> Array:
        """Some columns of G, all R numbers of these points: for a sample, and for few."""
        return np.ascontiguousarray(self.columns(np.arange(self.m)).array(rows).T)

    def columns(self, kernels: Places) -> DaskFactor:
        """The factors of some kernels side by side, each column times 1."""
        runs: list[tuple[int, int]] = []
        for k in kernels:
            first, last = int(self._ends[k]), int(self._ends[k + 1])
            if runs and runs[-1][1] == first:
                runs[-1] = runs[-1][0], last
            elif last > first:
                runs.append((first, last))
        given: Runs = tuple(runs)
        scale = np.ones(int(self.ranks[kernels].sum()))
        return DaskFactor(self.cluster, self.parts, self.spans, given, scale)

    # ---- the stack protocol --------------------------------------------------------------------

    def diagonals(self) -> Any:
        """All K_k[i, i]: what multiplies like an array (m, n)."""
        return self._diagonals

    def traces(self) -> Array:
        """All tr K_k."""
        return self._diagonals.sum(axis=1)

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, fetched."""
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        F = self.columns(np.array([int(kernel)]))
        return np.asarray(F.array(left) @ F.array(right).T)

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """‖F_kᵀv‖² for each of ``kernels``."""
        chosen = as_places(kernels, self.m, "kernels")
        u = self.onto(check_vector("v", v, self.n, finite=False))
        return self.by_kernel(u * u)[chosen]

    def matvecs(self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None) -> Any:
        """F_k(F_kᵀv): what multiplies like an array (m', n')."""
        x = check_vector("v", v, self.n, finite=False)
        places = None if rows is None else as_places(rows, self.n, "rows")
        chosen = as_places(kernels, self.m, "kernels")
        at = x if places is None else x[places]
        whole = places is None or np.count_nonzero(at) == np.count_nonzero(x)
        return Products(self, self.onto(x), chosen, places, v=at if whole else None)

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w in the precision of ``w``."""
        return np.ones(1) @ self.fine_products(np.array([kernel]), rows, support, w)

    def fine_products(self, kernels: Places, rows: Places, support: Places, w: np.ndarray) -> Any:
        """The same of several kernels: what multiplies like an array."""
        whole = np.zeros(self.n, w.dtype)
        whole[support] = w
        return Products(self, self.onto(whole), kernels, rows)

    def combined(self, weights: ArrayLike) -> DaskCombined:
        """K(d) as one factor."""
        return DaskCombined(self, check_vector("weights", weights, self.m, finite=False))

    def restrict(self, rows: Index) -> DaskStack | FactorStack:
        """Some of the points: fetched where they are few, else where they are."""
        places = as_places(rows, self.n, "rows", empty=False)
        if np.array_equal(places, np.arange(self.n)):
            return self
        if places.size <= SETTINGS.sample_rows_of_factors or not np.all(np.diff(places) > 0):
            G = self.fetched(places).astype(self.precision, copy=False)
            return FactorStack._trusted(G, self._ends.astype(np.int64), None)
        found = self.spans.find(places)
        parts = [self.parts[part] for part, _, _ in found]
        taken = self.cluster.map(_taken, parts, [inside for _, inside, _ in found])
        return self.of(self.cluster, taken, self.ranks.tolist(), self.precision)

    def select(self, kernels: Index) -> DaskStack:
        """Some of the kernels on the same points."""
        chosen = as_places(kernels, self.m, "kernels", empty=False)
        some = np.concatenate([np.arange(self._ends[k], self._ends[k + 1]) for k in chosen])
        parts = self.cluster.map(_rows_of, self.parts, some)
        return self.of(self.cluster, parts, self.ranks[chosen].tolist(), self.precision)

    def threaded(self, n_jobs: int | None) -> DaskStack:
        """The stack itself: workers have the threads that they were started with."""
        return self

    def __repr__(self) -> str:
        sizes = np.diff(self.spans.ends)
        return (
            f"DaskStack(m={self.m}, n={self.n}, ranks {self.ranks.min()} to {self.ranks.max()}, "
            f"{sizes.size} partitions of {sizes.min()} to {sizes.max()} rows)"
        )


class DaskCombined(BaseCombined):
    """K(d) = G diag(w) Gᵀ of the kernels with a weight."""

    squeezes = True

    def __init__(self, stack: DaskStack, weights: Array) -> None:
        self.stack, self.weights, self.n = stack, weights, stack.n
        self.active = np.flatnonzero(weights)
        self._G = stack.columns(self.active)
        self._w = weights[stack.owners][np.isin(stack.owners, self.active)]

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return np.asarray(self.weights @ self.stack.diagonals())

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, fetched."""
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        return np.asarray((self._w * self._G.array(left)) @ self._G.array(right).T)

    def __matmul__(self, v: Array) -> Array:
        return self._G.product(v, self._w)

    def factor(self) -> tuple[DaskFactor, float] | None:
        """F = G diag(w)^½; None where a weight is negative."""
        if self._w.size and self._w.min() < 0.0:
            return None
        return self._G.scaled(np.sqrt(self._w)), 0.0

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """Systems with K[rows, rows] + diag(ridge), where no ridge is near rounding."""
        found = self.factor()
        if found is None or np.unique(rows).size < rows.size:
            return None
        if not ridge.min() > _FIRM * float(self.diagonal().max(initial=0.0)):
            return None
        return _Woodbury(found[0], rows, ridge)

    def squeezed(
        self, rows: Places, ridges: Array, soft: float, products: Any
    ) -> tuple[Array, Array, Array] | None:
        """A root N of [G, 1]ᵀD⁻¹[G, 1] at these rows: its columns stand for those of [G, 1]."""
        if self._w.size and self._w.min() < 0.0:
            return None
        mean = float(self.diagonal()[rows].mean())
        D = np.maximum(ridges + soft * mean, TINY)
        stack = self.stack
        weights = np.bincount(rows, 1.0 / D, minlength=self.n).astype(float)
        gram, total = stack.columns(np.arange(stack.m)).gram_and_sum(weights)
        M = np.block([[gram, total[:, None]], [total[None], np.array([[weights.sum()]])]])
        s, V = eigh(M, overwrite_a=True, check_finite=False)
        N = np.sqrt(np.maximum(s, 0.0))[:, None] * V.T
        G, ones, owners = N[:, :-1], N[:, -1], stack.owners
        F = (G * np.sqrt(self.weights[owners])).compress(self.weights[owners] > 0.0, axis=1)
        weighted = G * (products.weights[owners] * products.u)
        Q = np.zeros((len(N), stack.m))
        for k in products.kernels:
            Q[:, k] = weighted[:, owners == k].sum(axis=1)
        return np.ascontiguousarray(F), Q[:, products.kernels], ones


class _Woodbury:
    """(FFᵀ[rows, rows] + diag ridge)⁻¹ by Woodbury's formula."""

    def __init__(self, F: DaskFactor, rows: Places, ridge: Array) -> None:
        self._rows, self._ridge, self._n = rows, ridge, F.shape[0]
        self._shrink = F.shrinking(self._spread(1.0 / ridge))

    def solve(self, B: Array) -> Array:
        """A⁻¹B."""
        ridge = self._ridge if B.ndim == 1 else self._ridge[:, None]
        x = B / ridge
        return np.asarray(x - self._shrink(self._spread(x))[self._rows] / ridge)

    def half(self, B: Array) -> Array:
        """S with SᵀS = BᵀA⁻¹B, which is all that is asked of a root times B."""
        s, V = eigh(B.T @ self.solve(B), check_finite=False)
        return np.asarray(np.sqrt(np.maximum(s, 0.0))[:, None] * V.T)

    def _spread(self, values: Array) -> Array:
        whole = np.zeros((self._n, *values.shape[1:]))
        whole[self._rows] = values
        return whole


# ---- what workers do -----------------------------------------------------------------------------


def _blocks_of(factors: Sequence[Any]) -> list[list[Any]]:
    """The delayed blocks of each factor; raises an error unless they are partitioned alike."""
    if not len(factors):
        raise ValueError("factors must hold at least one dask array (n, rank), found none")
    known = []
    for k, F in enumerate(factors):
        if not hasattr(F, "to_delayed") or getattr(F, "ndim", 0) != 2:
            raise TypeError(f"factors[{k}] must be a dask array (n, rank), found {shown(F)}")
        known.append(F.rechunk({1: -1}))
        if known[-1].chunks[0] != known[0].chunks[0]:
            raise ValueError(
                f"factors must be in the same chunks of rows: factors[0] has {known[0].chunks[0]}, "
                f"factors[{k}] {known[-1].chunks[0]}"
            )
    return [F.to_delayed()[:, 0].tolist() for F in known]


def _beside(*blocks: Any) -> Array:
    """Fᵀ of a partition, of all kernels one after the other; the last argument is the type."""
    *arrays, kind = blocks
    return np.ascontiguousarray(np.concatenate([F.T for F in arrays]), dtype=kind)


def _told(G: Array, ends: Places) -> tuple[int, Array, Array, bool]:
    """The rows of a partition, traces and largest diagonals there, whether all is finite."""
    n, m = G.shape[1], ends.size - 1
    traces, most = np.zeros(m), np.zeros(m)
    for k in range(m) if n else ():
        own = np.einsum("ri,ri->i", *(G[ends[k] : ends[k + 1]],) * 2, dtype=float)
        traces[k], most[k] = own.sum(), own.max()
    return n, traces, most, bool(np.isfinite(traces).all())


def _onto_wide(G: Array, v: Array) -> Array:
    """G v in the precision of v, some rows at a time."""
    out = np.zeros(len(G), v.dtype)
    for row, values in enumerate(G):
        out[row] = values.astype(v.dtype) @ v
    return out


def _taken(G: Array, points: Places) -> Array:
    return np.ascontiguousarray(G[:, points])


def _rows_of(G: Array, rows: Places) -> Array:
    return G[rows]
