"""What a fit will take, told before anything large is allocated.

    matrix    n² numbers            factor    n·r numbers            learning    a few K(d) besides

Storages say what they keep and what they need besides. Ranks are looked at on some hundreds of
the rows. On more, they grow as they did from half of these to all of them: not at all for kernels
of low rank, and as n does for others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._core.html import html_table
from kernelweave._core.status import Bar, tell
from kernelweave.banks.member import TrainingKernel
from kernelweave.banks.storage import Place, Recipe, Storage, beside_factors, beside_matrices
from kernelweave.stacks.resources import GIB, OutOfMemory, available_bytes

_BUFFERS = 2**26  # bytes that BLAS takes for itself, in NumPy and in SciPy
_VECTORS = 30  # numbers per row besides: the row itself, scaled; bounds, gradients, directions


@dataclass(frozen=True)
class Forecast:
    """How a bank will keep its kernels on n rows, and the memory that a fit takes with them.

    Attributes
    ----------
    names : tuple of str
        The kernels, those that views without content lose left out.
    storage : tuple of str
        "matrix", "factor", "shared columns", "generated", "on demand" or the class of a storage,
        for each of them.
    ranks : tuple of int
        The columns of its factor, about; n for a matrix.
    nbytes : tuple of int
        What each takes.
    peak : int
        Bytes that a fit takes at the most, learning included. On demand it may take more, where
        thousands of support vectors are free: ``largest_chunk`` of stacks/resources.py.
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
        words = {"matrix": "as matrices", "factor": "as factors"}
        words |= {"generated": "generated from rows", "on demand": "on demand"}
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
        raise OutOfMemory(
            f"{self}, but only {_gib(self.available)} are available; what takes less: "
            + ", ".join(ways)
        )


def check_memory(
    storage: Storage, kernels: list[TrainingKernel], n: int, recipe: Recipe, verbose: int
) -> None:
    """Raise ``MemoryError`` unless a fit on these kernels fits; ``verbose`` says what it takes."""
    if not verbose:
        available = available_bytes()
        if available is None or worst(len(kernels), n, recipe.dtype.itemsize) <= available:
            return
    told = forecast(storage, kernels, n)
    told.require(recipe)
    if verbose:
        tell(str(told))


def forecast(storage: Any, kernels: list[TrainingKernel], n: int) -> Forecast:
    """The memory that these kernels will take on n rows, as their storage says."""
    kind = type(storage).__name__
    told = storage.plan(kernels) if hasattr(storage, "plan") else [0] * len(kernels)
    places = [one if isinstance(one, Place) else Place(kind, n, int(one)) for one in told]
    names = tuple(one.name for one in kernels)
    kinds, ranks, nbytes = zip(*places, strict=True) if places else ((), (), ())
    besides = storage.besides(places, n) if hasattr(storage, "besides") else 0
    peak = sum(nbytes) + besides + 8 * _VECTORS * n + _BUFFERS
    there = storage.available(kernels) if hasattr(storage, "available") else available_bytes()
    return Forecast(n, names, kinds, ranks, nbytes, peak, there)


def worst(m: int, n: int, item: int) -> int:
    """Bytes that no fit on m kernels exceeds, without a look at any of them."""
    besides = beside_matrices(m, n) + beside_factors([n] * m, n, item) + _BUFFERS
    return m * n * n * item + besides


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
