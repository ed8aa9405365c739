"""What a fit will take, told before anything large is allocated.

    matrix    n² numbers            factor    n·r numbers            learning    a few K(d) besides

Ranks are looked at on some hundreds of the rows. On more, they grow as they did from half of these
to all of them: not at all for kernels of low rank, and as n does for others.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._core.html import html_table
from kernelweave._core.status import Bar
from kernelweave.banks.factoring import Recipe, find_factor, largest_rank, pays
from kernelweave.banks.member import Group, Member, TrainingKernel
from kernelweave.stacks.factors import FactorStack
from kernelweave.stacks.memory import (
    CHUNK_ROWS,
    GIB,
    SAMPLE_ROWS,
    SAMPLE_ROWS_OF_FACTORS,
    SAMPLE_TIMES,
    available_bytes,
)
from kernelweave.views.rows import Rows

_PROBE = 800  # rows on which ranks are looked at
_COMBINED = 3.5  # n × n arrays of float64 that learning holds: K(d) at 3 or 4 weights
_VECTORS = 30  # numbers per row besides: the row itself, scaled; bounds, gradients, directions


@dataclass(frozen=True)
class Forecast:
    """How a bank will keep its kernels on n rows, and the memory that a fit takes with them.

    Attributes
    ----------
    names : tuple of str
        The kernels, those that views without content lose left out.
    storage : tuple of str
        "matrix", "factor", "on demand" or the class of a storage, for each of them.
    ranks : tuple of int
        The columns of its factor, about; n for a matrix.
    nbytes : tuple of int
        What each takes.
    peak : int
        Bytes that a fit takes at the most, learning included. On demand it may take more, where
        thousands of support vectors are free: ``largest_chunk`` of stacks/memory.py.
    available : int or None
        Bytes that there are; None where the system does not say.
    """

    n: int
    names: tuple[str, ...]
    storage: tuple[str, ...]
    ranks: tuple[int, ...]
    nbytes: tuple[int, ...]
    peak: int
    available: int | None

    @property
    def fits(self) -> bool:
        """Whether there is memory enough."""
        return self.available is None or self.peak <= self.available

    def __str__(self) -> str:
        words = {"matrix": "as matrices", "factor": "as factors", "on demand": "on demand"}
        counts = {kind: self.storage.count(kind) for kind in dict.fromkeys([*words, *self.storage])}
        kept = ", ".join(
            f"{count} {words.get(kind, f'in {kind}')}" for kind, count in counts.items() if count
        )
        return (
            f"{len(self.names)} kernels on {self.n} rows: {kept}, {_gib(sum(self.nbytes))}; "
            f"a fit takes up to {_gib(self.peak)}"
        )

    def _kernels(self) -> list[tuple[str, str, int, str]]:
        sizes = [_gib(size) for size in self.nbytes]
        return list(zip(self.names, self.storage, self.ranks, sizes, strict=True))

    def _told(self) -> str:
        free = "" if self.available is None else f"; {_gib(self.available)} are available"
        return f"{self}{free}"

    def __repr__(self) -> str:
        lines = [
            f"{name:<40} {kind:<9} rank {rank:<7} {size}"
            for name, kind, rank, size in self._kernels()
        ]
        return "\n".join([self._told(), *lines])

    def _repr_html_(self) -> str:
        return html_table(self._told(), ("kernel", "kept as", "rank", "size"), self._kernels())

    def require(self, recipe: Recipe) -> None:
        """Raise ``MemoryError`` unless it fits, and say what would."""
        if self.fits:
            return
        assert self.available is not None
        ways = ["KernelBank(approximation=Nystroem(300))", "fewer rows"]
        if "matrix" in self.storage:
            ways.insert(1, "KernelBank(storage='lazy'), slower")
        if len(self.names) > 1:
            ways.append("fewer kernels")
        if recipe.approximation is not None:
            ways[0] = "fewer features in the approximation"
        elif "matrix" in self.storage and recipe.dtype == np.float64:
            ways.append("KernelBank(dtype='float32'), for half of the matrices")
        raise MemoryError(
            f"{self}, but only {_gib(self.available)} are available; what takes less: "
            + ", ".join(ways)
        )


def forecast(groups: list[Group], n: int, recipe: Recipe) -> Forecast:
    """The memory that these kernels will take on n rows."""
    if not isinstance(recipe.storage, str) and recipe.approximation is None:
        return _foreign(groups, n, recipe.storage)
    live = [
        (group, member) for group in groups for member in group.members if member.kernel is not None
    ]
    probes = {id(group): _probes(group.rows) for group in groups}
    ranks = [_rank(member, *probes[id(group)], n, recipe) for group, member in live]
    lazy = recipe.storage == "lazy" and recipe.approximation is None
    low = [rank for rank in ranks if rank is not None]
    if (recipe.approximation, recipe.storage) == (None, "auto") and not pays(low, len(live), n):
        ranks = [None] * len(live)
    item = recipe.dtype.itemsize
    whole = 0 if lazy else n * n * item  # of a kernel without a factor
    nbytes = [whole if rank is None else n * rank * item for rank in ranks]
    besides = _on_demand(ranks, n, recipe) if lazy else _besides(ranks, n, item)
    return Forecast(
        n,
        tuple(member.name for _, member in live),
        tuple(("on demand" if lazy else "matrix") if r is None else "factor" for r in ranks),
        tuple(n if rank is None else rank for rank in ranks),
        tuple(nbytes),
        sum(nbytes) + besides + 8 * _VECTORS * n,
        available_bytes(),
    )


def _foreign(groups: list[Group], n: int, storage: Any) -> Forecast:
    """What an object says that it takes, if it does."""
    every = ((group, member) for group in groups for member in group.members)
    live = [TrainingKernel(m, group, n) for group, m in every if m.kernel is not None]
    plan = getattr(storage, "plan", None)
    nbytes = [0] * len(live) if plan is None else [int(size) for size in plan(live)]
    kinds = (type(storage).__name__,) * len(live)
    names = tuple(one.name for one in live)
    peak = sum(nbytes) + 8 * _VECTORS * n
    return Forecast(n, names, kinds, (n,) * len(live), tuple(nbytes), peak, available_bytes())


def worst(groups: list[Group], n: int, recipe: Recipe) -> int:
    """Bytes that no fit exceeds, without a look at any kernel."""
    m, item = sum(len(group.members) for group in groups), recipe.dtype.itemsize
    return m * n * n * item + _besides([None] * m, n, item) + _besides([n] * m, n, item)


def _besides(ranks: list[int | None], n: int, item: int) -> int:
    """What learning takes besides the kernels."""
    low = [rank for rank in ranks if rank is not None]
    written_out = len(low) < len(ranks) or n <= FactorStack.most_dense
    arrays = int(_COMBINED * n * n) * 8 if written_out and len(ranks) > 1 else 0
    return arrays + _beside_factors(low, n, item)


def _beside_factors(low: list[int], n: int, item: int) -> int:
    """Factors are float64 until they are normalized, one of them twice; some rows are copied."""
    copied = 8 * min(n, SAMPLE_ROWS_OF_FACTORS)
    return sum(low) * (n * (8 - item) + copied) + 8 * n * max(low, default=0)


def _on_demand(ranks: list[int | None], n: int, recipe: Recipe) -> int:
    """The same where kernels are computed on demand: rows that are kept, blocks of rows in play."""
    low = [rank for rank in ranks if rank is not None]
    rows = min(recipe.cache_size * 2**20, 8.0 * len(ranks) * n * n)
    blocks = 4 * 8 * min(CHUNK_ROWS, n) ** 2
    if n >= SAMPLE_TIMES * SAMPLE_ROWS and len(ranks) > 1:
        blocks += int(8 * (len(ranks) + _COMBINED) * SAMPLE_ROWS**2)
    return int(rows) + blocks + _beside_factors(low, n, recipe.dtype.itemsize)


def _probes(rows: Rows) -> tuple[Rows, Rows]:
    """Some of the rows, and half of these."""
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), _PROBE)).astype(np.intp)
    some = Rows(rows.table.take(chosen), rows.view)
    return some, Rows(some.table.take(slice(None, None, 2)), rows.view)


def _rank(member: Member, probe: Rows, half: Rows, n: int, recipe: Recipe) -> int | None:
    """The rank of a kernel's factor on n rows, None for a matrix."""
    kernel = member.kernel
    assert kernel is not None
    if recipe.approximation is not None:
        most = kernel.most_rank(probe.values.shape[1]) if kernel.numeric else math.inf
        return int(min(recipe.approximation.most_rank(n), most))
    found = [find_factor(member, rows, recipe.storage, len(rows)) for rows in (probe, half)]
    ranks = [0 if G is None else len(G) for G in found]
    if not min(ranks):
        return None
    growth = np.clip(math.log2(ranks[0] / ranks[1]), 0.0, 1.0)
    rank = round(ranks[0] * (n / len(probe)) ** growth)
    return rank if rank <= largest_rank(member, recipe.storage, n) else None


class Told:
    """Says on standard error how many kernels are computed."""

    def __init__(self, total: int, verbose: int) -> None:
        self.total, self.done, self._bar = total, 0, Bar(verbose)
        self._began = time.perf_counter()

    def one(self) -> None:
        """One more is done."""
        self.done += 1
        seconds = time.perf_counter() - self._began
        text = f"kernel {self.done} of {self.total}, {seconds:.0f} s"
        self._bar.show(self.done / self.total, text)


def _gib(size: float) -> str:
    return f"{size / GIB:.3g} GiB"
