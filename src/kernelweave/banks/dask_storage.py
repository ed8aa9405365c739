"""Kernels on rows of a Dask cluster: features are computed where the rows are, and stay there.

    K_k ≈ F_kF_kᵀ,   F_k = φ_k(rows), normalized:   tr K_k, Σ_i φ_k(x_i) are sums over partitions

A pass over the partitions gives the sums that normalizations are learned from, a second one the
factors. Landmarks are fetched. Linear kernels are their columns; kernels of low rank, as those on
one column, have landmarks that represent all rows up to rounding (``dask_features.py``); all others
need an approximation. Rows that lack a view have features zero.
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
from kernelweave.banks import dask_features
from kernelweave.banks.approximation import (
    Columns,
    LowRank,
    Normalized,
    RandomFeatures,
    check_approximable,
)
from kernelweave.banks.dask_features import Finished, Mapped, Rests
from kernelweave.banks.member import TrainingKernel
from kernelweave.banks.normalize import RULES, Normalizer, learn_normalizer
from kernelweave.banks.storage import Kept, Place, Recipe, leave_out_equal
from kernelweave.stacks.dask_stack import DaskStack
from kernelweave.stacks.resources import GIB, OutOfMemory
from kernelweave.views.dask_table import DaskTable

_ALIKE = 100.0  # sums of n entries differ by this much more than an entry
_SOME = 100  # rows on which kernels are compared
_USABLE = 0.6  # share of a worker's memory that Dask fills before it writes to disk


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
    """The storage of one fit on a cluster; ``rests`` are what approximations leave of kernels."""

    learns = True

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.rests: Rests | None = None

    def build(self, kernels: list[TrainingKernel]) -> Kept:
        """Maps from some rows, sums from all, factors where the rows are."""
        table, counts = _all_rows(kernels)
        cluster = table.cluster
        self._require(kernels)
        mapped = [self._mapped(one, table) for one in kernels]
        each = [None] * len(table.parts) if counts is None else table.spans.split(counts)
        asked = cluster.put(mapped)
        sums = cluster.get(cluster.sum(cluster.map(dask_features.sums, table.parts, asked, each)))
        left, maps = list[TrainingKernel](), list[Finished]()
        ranks, totals = list[int](), list[float]()
        for one, known, trace, rest, total, phi in zip(kernels, mapped, *sums, strict=True):
            if known.exact:
                dask_features.check_exact(one, float(rest), float(trace))
            found = self._learned(one, trace, phi / total, total)
            if found is None:
                continue
            features = Normalized(known.features, known.kernel, *found)
            one.member = replace(
                one.member.fitted(Normalizer(features.scale)),
                kernel=LowRank(one.kernel, features),
                normalizer=Normalizer(),
                alone=False,
            )
            left.append(one)
            maps.append((known.view, features, known.exact))
            ranks.append(phi.size)
            totals.append(total)
        if not left:
            return Kept([], None)
        kind, finished = np.dtype(self.recipe.dtype), cluster.put(maps)
        parts = cluster.map(dask_features.factors, table.parts, finished, kind.str)
        stack = DaskStack.of(cluster, parts, ranks, kind)
        if self.recipe.approximation is None or self.recipe.approximation.from_below:
            rests = cluster.map(dask_features.rests, table.parts, finished)
            cluster.get(cluster.map(len, rests))  # before the rows are let go
            numbers = [one.number for one in left]
            self.rests = Rests(cluster, rests, table.spans, numbers, counts, np.array(totals))
        table.let_go()
        return self._without_equal(left, stack)

    def _mapped(self, one: TrainingKernel, table: Any) -> Mapped:
        """The features of a kernel, before normalization."""
        rows, approximation = one.group.rows, self.recipe.approximation
        check_approximable(one.kernel)
        if one.kernel.is_linear and (
            approximation is None or approximation.is_exact(one.kernel, rows)
        ):
            return Mapped(one.kernel, rows.view, Columns(), True)
        if approximation is not None:
            return Mapped(one.kernel, rows.view, approximation.map(one.kernel, rows), False)
        if dask_features.is_low(one.kernel, rows):
            found = dask_features.landmarks(one.kernel, rows, table)
            return Mapped(one.kernel, rows.view, found, True)
        raise ValueError(f"{one.kernel.label()} {dask_features.FULL_RANK}")

    def _learned(
        self, one: TrainingKernel, trace: float, mean: Array, total: float
    ) -> tuple[float, Array | None] | None:
        """Scale and center of a kernel; None where it is left out."""
        center, scaling = RULES[one.group.rule]
        rule = center or one.places is not None, scaling
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
        """Leave kernels out that equal an earlier one, by KΩ at some rows and the diagonal of ΩᵀKΩ.

        Ω has two random columns. Sums over all rows alone would not do: of a million rows drawn
        alike, those of different kernels differ by less than rounding of single precision.
        """
        omega = np.random.default_rng(0).uniform(0.5, 1.5, (stack.n, 2))
        onto = stack.columns(np.arange(stack.m)).onto(omega)
        some = stack.fetched(np.linspace(0, stack.n - 1, min(stack.n, _SOME)).astype(np.intp))
        any_scale = all(one.group.rule is not None for one in kernels)
        sizes = stack.traces() if any_scale else np.ones(stack.m)
        own = [stack.owners == k for k in range(stack.m)]
        sketches = [onto[k].T @ some[k] / size for k, size in zip(own, sizes, strict=True)]
        sums = np.array([(onto[k] ** 2).sum(axis=0) for k in own]) / sizes[:, None]
        tolerance = _ALIKE * DUPLICATE[np.dtype(self.recipe.dtype)]

        def alike(a: Array, b: Array) -> bool:
            return bool(np.abs(a - b).max() <= tolerance * np.abs(b).max())

        def equal(j: int, k: int) -> bool:
            return alike(sums[j], sums[k]) and alike(sketches[j], sketches[k])

        keys = sums[:, 0]
        leave_out_equal(kernels, keys, tolerance * keys, equal, any_scale=any_scale)
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
        if approximation is None:
            return int(min(one.n, most, dask_features.most_rank(one.kernel, rows)))
        if isinstance(approximation, RandomFeatures):
            return approximation.n_features
        return int(min(approximation.most_rank(one.n), most))

    def _require(self, kernels: list[TrainingKernel]) -> None:
        """Raise ``MemoryError`` where workers cannot hold the factors."""
        rests = 16 * len(kernels) * kernels[0].n
        needed = sum(place.nbytes for place in self.plan(kernels)) + rests
        there = self.available(kernels)
        if there is not None and needed > there:
            raise OutOfMemory(
                f"the factors of {len(kernels)} kernels on {kernels[0].n} rows take "
                f"{needed / GIB:.3g} GiB, but the workers hold {there / GIB:.3g} GiB before they "
                "write to disk; what takes less: fewer features in the approximation, "
                "KernelBank(dtype='float32'), fewer kernels; or more workers"
            )


def _all_rows(kernels: list[TrainingKernel]) -> tuple[Any, Array | None]:
    """The table of all rows, of which views may lack some, and how often each counts."""
    table: Any = kernels[0].group.rows.table
    while len(table) < kernels[0].n:
        table = table.whole
    if kernels[0].group.rows.weights is None:
        return table, None
    counts = np.zeros(len(table))
    for one in kernels:
        counts[slice(None) if one.places is None else one.places] = one.group.rows.weights
    return table, counts
