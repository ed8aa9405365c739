"""What workers make of their rows: features of kernels, and what these leave of the exact kernels.

    K ⪰ FFᵀ,  E = K − FFᵀ:      wᵀKw  ≤  ‖Fᵀw‖² + (Σ_j √E_jj |u_j|)²        (``evaluation.py``)

√E_jj and what normalizations multiply rows by stay beside the factors, two numbers by row and
kernel.

Kernels of low rank need no approximation: each partition takes the rows that represent it up to
rounding (pivoted Cholesky), and of those of all partitions the same are taken once more. Whether
they represent all rows is seen from the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kernelweave._core.dask_cluster import Cluster, Spans
from kernelweave._core.tolerances import NOTHING
from kernelweave._core.types import Array, Places
from kernelweave.banks.approximation import Features, Landmarks, Normalized
from kernelweave.banks.member import TrainingKernel
from kernelweave.kernels._pivoted import truncated
from kernelweave.kernels.base import Kernel
from kernelweave.stacks.row_kernels import LAPLACIAN
from kernelweave.views.columns import View
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table

_MOST = 500  # landmarks of a kernel that is kept exactly
_LEFT = 100.0 * NOTHING  # share of the trace that they may leave: rounding of sums
FULL_RANK = (
    "has full rank, and rows on a cluster hold factors alone: give "
    "KernelBank(approximation=Nystroem(500)), or RandomFeatures(1000)"
)


class Mapped(NamedTuple):
    """A kernel and its features before normalization; whether they are all of it."""

    kernel: Kernel
    view: View
    features: Features
    exact: bool


Finished = tuple[View, Normalized, bool]  # normalized features, and whether they are exact


def is_low(kernel: Kernel, rows: Rows) -> bool:
    """Whether a kernel on numbers may have a low rank on any rows: smooth, and on one column."""
    entry = kernel.entry()
    if entry is None or entry.kind == LAPLACIAN or rows.table.sparse:
        return False
    return rows.width == 1 or kernel.most_rank(rows.width) <= _MOST


def most_rank(kernel: Kernel, rows: Rows) -> float:
    """The largest rank without an approximation, infinite where there is none."""
    return _MOST if kernel.numeric and is_low(kernel, rows) else math.inf


def landmarks(kernel: Kernel, rows: Rows, table: Any) -> Landmarks:
    """Rows that represent all others up to rounding."""
    tasks = table.cluster.map(_pivots, table.parts, kernel, rows.view)
    found: list[Table] = [some for some in table.cluster.get(tasks) if len(some)]
    some = Rows(reduce(lambda one, other: one.join(other), found), rows.view)
    G, pivots = _truncated(kernel, some)
    T = solve_triangular(G[:, pivots], np.eye(len(pivots)), check_finite=False)
    return Landmarks(kernel, Rows(some.table.take(pivots), rows.view), np.asarray(T))


def check_exact(one: TrainingKernel, left: float, trace: float) -> None:
    """Raise ValueError unless features are all of a kernel, up to rounding."""
    if left > _LEFT * trace:
        raise ValueError(f"{one.kernel.label()} {FULL_RANK}")


@dataclass(frozen=True)
class Rests:
    """What approximate kernels leave of exact ones, as ``evaluation.Exactness`` of one machine.

    ``parts`` are futures of arrays (2, m, n_p), √E_jj and what rows are multiplied by; ``numbers``
    are those of the kernels in the bank; ``counts`` say how often rows count, ``totals`` how much
    that is of those that have the view.
    """

    cluster: Cluster
    parts: list[Any]
    spans: Spans
    numbers: list[int]
    counts: Array | None
    totals: Array
    from_below: bool = True

    def quads(self, stack: Any, kept: Places, w: Array) -> Array:
        """Upper bounds of wᵀK_m w for the exact kernels, in the order of ``kept``: three trips."""
        cluster, each = self.cluster, self.spans.split(w)
        counts = [None] * len(each) if self.counts is None else self.spans.split(self.counts)
        means = cluster.get(cluster.sum(cluster.map(_weighed, self.parts, each))) / self.totals
        bounds = cluster.get(cluster.sum(cluster.map(_bounds, self.parts, each, counts, means)))
        places = [self.numbers.index(number) for number in kept]
        return np.asarray(stack.quad_forms(w) + bounds[places] ** 2)

    def values(self, kept: Places, weights: Array, w: Array) -> None:
        """Unknown: the exact kernels on all rows are too many."""
        return None


# ---- what workers do -----------------------------------------------------------------------------


def sums(table: Table, mapped: list[Mapped], counts: Any) -> tuple[tuple[Any, ...], ...]:
    """By kernel over a partition: Σ w k(x, x), Σ w (k(x, x) − |φ(x)|²), Σ w and Σ w φ(x)."""
    views, found = dict[int, Any](), list[tuple[Any, ...]]()
    for kernel, view, features, exact in mapped:
        having, rows = _having(views, table, view)
        w = np.ones(len(table)) if counts is None else counts
        w = w if having is None else w[having]
        own, phi = kernel.diagonal(rows), features(rows)
        left = w @ (own - np.einsum("ir,ir->i", phi, phi)) if exact else 0.0
        found.append((np.float64(w @ own), np.float64(left), np.float64(w.sum()), w @ phi))
    return tuple(zip(*found, strict=True))


def factors(table: Table, maps: list[Finished], kind: str) -> Array:
    """Fᵀ of a partition, of all kernels one after the other; 0 for rows that lack a view."""
    views, found = dict[int, Any](), list[Array]()
    for view, features, _ in maps:
        having, rows = _having(views, table, view)
        F = features(rows).T.astype(kind, copy=False)
        if having is not None:
            whole = np.zeros((len(F), len(table)), kind)
            whole[:, having] = F
            F = whole
        found.append(F)
    return np.ascontiguousarray(np.concatenate(found))


def rests(table: Table, maps: list[Finished]) -> Array:
    """√E_jj of each kernel, and what its rows are multiplied by: 0 where it is less no mean.

    It is not kept with the factors: two results of one task would count twice against memory.
    """
    views, out = dict[int, Any](), np.zeros((2, len(maps), len(table)))
    for k, (view, features, exact) in enumerate(maps):
        if exact:
            continue
        having, rows = _having(views, table, view)
        phi, own = features.features(rows), features.kernel.diagonal(rows)
        roots = np.sqrt(np.maximum(own - np.einsum("ir,ir->i", phi, phi), 0.0))
        size = features.size(phi, own if math.isnan(features.scale) else None)
        some = slice(None) if having is None else having
        plain = features.mean is None
        out[0, k, some], out[1, k, some] = (roots * size, 0.0) if plain else (roots, size)
    return out


def _having(known: dict[int, Any], table: Table, view: View) -> Any:
    """Which rows of a partition have a view, and these."""
    if id(view) not in known:
        known[id(view)] = Rows.having(table, view)
    return known[id(view)]


def _truncated(kernel: Kernel, rows: Rows) -> tuple[Array, Places]:
    entry: Any = kernel.entry()
    return truncated(rows.values, entry, kernel.diagonal(rows), NOTHING, min(_MOST, len(rows)))


def _pivots(table: Table, kernel: Kernel, view: View) -> Table:
    """The rows that represent a partition."""
    rows = Rows.having(table, view)[1]
    return rows.table.take(_truncated(kernel, rows)[1] if len(rows) else slice(0, 0))


def _weighed(rests: Array, w: Array) -> Array:
    return np.asarray(rests[1] @ w)


def _bounds(rests: Array, w: Array, counts: Any, means: Array) -> Array:
    """Σ_j √E_jj |u_j|: u = w, or size·w less its mean where a kernel is centered."""
    c = np.ones(w.size) if counts is None else counts
    centered = rests[1].any(axis=1)[:, None]
    u = np.where(centered, rests[1] * w - np.outer(means, c), w)
    return np.einsum("ki,ki->k", rests[0], np.abs(u))
