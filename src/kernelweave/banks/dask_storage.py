"""Kernels on rows of a Dask cluster: features are computed where the rows are, and stay there.

    K_k ≈ F_kF_kᵀ,   F_k = φ_k(rows), normalized:   tr K_k, Σ_i φ_k(x_i) are sums over partitions

A pass over the partitions gives the sums that normalizations are learned from, a second one the
factors. Landmarks are fetched. Linear kernels are their columns; every other kernel needs an
approximation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from kernelweave._core.checks import check_number
from kernelweave._core.dask_cluster import Cluster
from kernelweave._core.tolerances import DUPLICATE
from kernelweave._core.types import Array
from kernelweave.banks.approximation import (
    Columns,
    Features,
    LowRank,
    Normalized,
    RandomFeatures,
    check_approximable,
)
from kernelweave.banks.member import TrainingKernel
from kernelweave.banks.normalize import RULES, Normalizer, learn_normalizer
from kernelweave.banks.storage import Kept, Place, Recipe, leave_out_equal
from kernelweave.kernels.base import Kernel
from kernelweave.stacks.dask_stack import DaskStack
from kernelweave.stacks.resources import GIB, OutOfMemory
from kernelweave.views.columns import View
from kernelweave.views.dask_table import DaskTable
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table

_ALIKE = 100.0  # sums of n entries differ by this much more than an entry
_USABLE = 0.6  # share of a worker's memory that Dask fills before it writes to disk

Mapped = tuple[Kernel, View, Features]


class DaskStorage:
    """Where estimators keep the kernels of dask arrays and data frames: ``KernelBank(storage=…)``.

    Parameters
    ----------
    client : dask.distributed.Client, optional
        The cluster; by default the current client. It is never pickled.
    timeout : float
        Seconds that the cluster may be without a worker before a fit ends with an error.
    """

    learns = True

    def __init__(self, client: Any = None, timeout: float = 300.0) -> None:
        self.client, self.timeout = client, check_number("timeout", timeout)

    def read(self, X: Any) -> DaskTable:
        """The rows of a dask array or data frame, where they are."""
        return DaskTable.of(X, Cluster(self.client, self.timeout), self)

    def build(self, kernels: list[TrainingKernel]) -> Kept:
        """Refused: these rows are on this machine."""
        raise TypeError(
            "DaskStorage keeps the kernels of dask arrays and data frames; X is on this machine: "
            "leave storage out, or give dask.array.from_array(X, chunks=…)"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"client": None, "timeout": self.timeout}

    def __repr__(self) -> str:
        return f"DaskStorage(timeout={self.timeout:g})"


class OnCluster:
    """The storage of one fit on a cluster."""

    learns = True

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def build(self, kernels: list[TrainingKernel]) -> Kept:
        """Maps from some rows, sums from all, factors where the rows are."""
        table: Any = kernels[0].group.rows.table
        cluster, rows = table.cluster, kernels[0].group.rows
        self._require(kernels)
        mapped = [self._mapped(one) for one in kernels]
        counts = rows.weights
        each = [None] * len(table.parts) if counts is None else table.spans.split(counts)
        asked = cluster.put(mapped)
        sums = cluster.get(cluster.sum(cluster.map(_sums, table.parts, asked, each)))
        total = float(len(table) if counts is None else counts.sum())
        left, maps = list[TrainingKernel](), list[tuple[View, Normalized]]()
        for one, (kernel, view, features), trace, phi in zip(kernels, mapped, *sums, strict=True):
            found = self._learned(one, trace, phi / total, total)
            if found is not None:
                maps.append((view, Normalized(features, kernel, *found)))
                left.append(one)
        if not left:
            return Kept([], None)
        finished = cluster.put(maps)
        kind = np.dtype(self.recipe.dtype)
        parts = cluster.map(_factors, table.parts, finished, kind.str)
        for one, (_, features_of) in zip(left, maps, strict=True):
            one.member = replace(
                one.member.fitted(Normalizer(features_of.scale)),
                kernel=LowRank(one.kernel, features_of),
                normalizer=Normalizer(),
                alone=False,
            )
        ranks = [sums[1][kernels.index(one)].size for one in left]
        stack = DaskStack.of(cluster, parts, ranks, kind)
        table.let_go()
        return self._without_equal(left, stack)

    def _mapped(self, one: TrainingKernel) -> Mapped:
        """The features of a kernel, before normalization."""
        rows, approximation = one.group.rows, self.recipe.approximation
        check_approximable(one.kernel)
        if one.kernel.is_linear and (
            approximation is None or approximation.is_exact(one.kernel, rows)
        ):
            return one.kernel, rows.view, Columns()
        if approximation is None:
            raise ValueError(
                f"{one.kernel.label()} has full rank, and rows on a cluster hold factors alone: "
                "give KernelBank(approximation=Nystroem(500)), or RandomFeatures(1000)"
            )
        return one.kernel, rows.view, approximation.map(one.kernel, rows)

    def _learned(
        self, one: TrainingKernel, trace: float, mean: Array, total: float
    ) -> tuple[float, Array | None] | None:
        """Scale and center of a kernel; None where it is left out."""
        rule = RULES[one.group.rule]
        # one row in the place of all: its trace and mean are theirs, and it counts as often
        each, whole = np.array([trace / total]), np.array([total])
        found = learn_normalizer(rule, each, lambda _: np.array([mean @ mean]), one.name, whole)
        if one.tell is not None:
            one.tell()
        if isinstance(found, str):
            one.leave_out(found)
            return None
        return found.scale, mean if rule[0] else None

    def _without_equal(self, kernels: list[TrainingKernel], stack: DaskStack) -> Kept:
        """Leave kernels out that equal an earlier one, by aᵀKa, aᵀKb and bᵀKb for random a, b."""
        rng = np.random.default_rng(0)
        a, b = (stack.onto(rng.uniform(0.5, 1.5, stack.n) * s) for s in _signs(rng, stack.n))
        found = np.array([stack.by_kernel(u * v) for u, v in ((a, a), (a, b), (b, b))]).T
        any_scale = all(one.group.rule is not None for one in kernels)
        if any_scale:
            found = found / np.abs(found).max(axis=1, keepdims=True)
        tolerance = _ALIKE * DUPLICATE[np.dtype(self.recipe.dtype)]
        widths = tolerance * np.abs(found).max(axis=1)

        def equal(j: int, k: int) -> bool:
            return bool(np.abs(found[j] - found[k]).max() <= widths[k])

        leave_out_equal(kernels, found[:, 0], widths, equal, any_scale=any_scale)
        kept = [place for place, one in enumerate(kernels) if not one.dropped]
        if len(kept) < len(kernels):
            stack = stack.select(np.array(kept, np.intp))
        return Kept([kernels[place] for place in kept], stack)

    # ---- memory --------------------------------------------------------------------------------

    def plan(self, kernels: list[TrainingKernel]) -> list[Place]:
        """A factor for each."""
        item = np.dtype(self.recipe.dtype).itemsize
        ranks = map(self._rank, kernels)
        return [Place("factor", r, one.n * r * item) for one, r in zip(kernels, ranks, strict=True)]

    def available(self, kernels: list[TrainingKernel]) -> int | None:
        """Bytes that the workers may hold before they write to disk; None without a limit."""
        table: Any = kernels[0].group.rows.table
        workers = table.cluster.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [worker["memory_limit"] for worker in workers]
        return int(_USABLE * sum(limits)) if limits and all(limits) else None

    def _rank(self, one: TrainingKernel) -> int:
        rows, approximation = one.group.rows, self.recipe.approximation
        most = one.kernel.most_rank(rows.width) if one.kernel.numeric else math.inf
        if one.kernel.is_linear and approximation is None:
            return rows.width
        if approximation is None:
            return one.n
        if isinstance(approximation, RandomFeatures):
            return approximation.n_features
        return int(min(approximation.most_rank(one.n), most))

    def _require(self, kernels: list[TrainingKernel]) -> None:
        """Raise ``MemoryError`` where workers cannot hold the factors."""
        needed, there = sum(place.nbytes for place in self.plan(kernels)), self.available(kernels)
        if there is not None and needed > there:
            raise OutOfMemory(
                f"the factors of {len(kernels)} kernels on {kernels[0].n} rows take "
                f"{needed / GIB:.3g} GiB, but the workers hold {there / GIB:.3g} GiB before they "
                "write to disk; what takes less: fewer features in the approximation, "
                "KernelBank(dtype='float32'), fewer kernels; or more workers"
            )


# ---- what workers do -----------------------------------------------------------------------------


def _signs(rng: Any, n: int) -> tuple[Array, Array]:
    return rng.choice([-1.0, 1.0], n), np.ones(n)


def _sums(table: Table, mapped: list[Mapped], counts: Any) -> tuple[Any, ...]:
    """Σ w k(x, x) and Σ w φ(x) of each kernel over a partition."""
    w, seen = np.ones(len(table)) if counts is None else counts, dict[int, Rows]()
    traces, sums = list[Any](), list[Any]()
    for kernel, view, features in mapped:
        rows = seen.setdefault(id(view), Rows(table, view))
        traces.append(np.float64(w @ kernel.diagonal(rows)))
        sums.append(w @ features(rows))
    return tuple(traces), tuple(sums)


def _factors(table: Table, maps: list[tuple[View, Normalized]], kind: str) -> Array:
    """Fᵀ of a partition, of all kernels one after the other."""
    seen = dict[int, Rows]()
    found = list[Array]()
    for view, features in maps:
        rows = seen.setdefault(id(view), Rows(table, view))
        found.append(features(rows).T.astype(kind, copy=False))
    return np.ascontiguousarray(np.concatenate(found))
