"""Kernels of low rank as factors: ``storage="auto"``, ``"factors"`` and ``"lazy"``; approximations.

A kernel gets a factor where that is the cheaper form: K = FFᵀ up to 1e-13 of its trace, which is
rounding, with a rank of at most a quarter of the rows. The others are matrices, or on demand. With
an approximation every kernel gets the factor that this makes of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import DUPLICATE, NOTHING
from kernelweave._core.types import Array, Places
from kernelweave.banks.approximation import (
    Columns,
    Features,
    check_approximable,
    normalized,
)
from kernelweave.banks.member import TrainingKernel
from kernelweave.banks.row_kernels import roundings
from kernelweave.banks.storage import (
    Dense,
    Kept,
    Place,
    Recipe,
    beside_factors,
    beside_matrices,
    beside_rows,
    joined,
    keep,
    leave_out_equal,
)
from kernelweave.kernels._pivoted import pivoted
from kernelweave.kernels.base import Kernel
from kernelweave.stacks.factors import FactorStack
from kernelweave.stacks.lazy import LazyStack
from kernelweave.views import weighted
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table

if TYPE_CHECKING:
    from kernelweave.banks.one_matrix import OneMatrix
    from kernelweave.banks.shared_columns import SharedColumns

_FEW = 100  # rows below which matrices are small anyway
_ALIKE = 100.0  # a sketch sums n entries: it may differ by this much more than an entry
_CHEAPER = 4  # a factor's passes cost what a matrix's cost at n over this
_ON_DEMAND = 500  # finding a factor takes n·r² steps: beyond this rank rows on demand take fewer
_COLUMN, _ENTRY = 0.04, 0.6  # nanoseconds to generate an entry: by column of a view, by kernel
_TOUCHED = 16.0  # nanoseconds to compute an entry of a matrix, and to write it to new memory
_PASSES = 8  # of a fit
_PROBE = 800  # rows on which ranks are looked at


@dataclass(frozen=True)
class _Blocks:
    """Blocks of any of these kernels."""

    kernels: tuple[TrainingKernel, ...]

    def __call__(self, kernel: int, rows: Places, columns: Places) -> Array:
        return self.kernels[kernel].block(rows, columns)


@dataclass(frozen=True)
class OnDemand:
    """Blocks of any rows, computed when they are asked for, and a cache of rows."""

    cache_size: float

    def build(self, kernels: list[TrainingKernel]) -> LazyStack:
        """Nothing is computed but diagonals."""
        for one in kernels:
            if not one.kernel.known_psd:
                raise ValueError(
                    f"{one.kernel.label()} may not be positive semidefinite, and on demand nobody "
                    "checks: use a kernel of kernelweave, or storage='dense'."
                )
        diagonals = np.array([one.diagonal() for one in kernels])
        most = max(map(roundings, kernels))
        return LazyStack(_Blocks(tuple(kernels)), diagonals, self.cache_size, most)

    def plan(self, kernels: list[TrainingKernel]) -> list[Place]:
        """Nothing is kept but rows in the cache."""
        return [Place("on demand", one.n, 0) for one in kernels]


class Found(NamedTuple):
    """Fᵀ of one kernel before normalization, and the features that approximate it, if any do."""

    place: int
    G: Array
    features: Features | None = None


class Factors:
    """A factor of every kernel on numbers, whatever its rank; the others as matrices.

    ``always``: factors are sought to the end, however slowly the rest falls; else only where the
    number of columns says that the rank is low, or the rest falls fast. ``fewest``: rows.
    """

    learns = True
    always: ClassVar[bool] = True
    fewest: ClassVar[int] = 0

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.dtype = recipe, recipe.dtype
        self.rest: Any = Dense(recipe)  # the storage of kernels that get no factor

    def most(self, kernel: Kernel, n: int) -> int:
        """The rank up to which a kernel on n rows is kept as a factor."""
        return n

    def factor(self, kernel: Kernel, rows: Rows, most: int) -> Array | None:
        """Fᵀ (r, n) of the training matrix, or None where its rank exceeds ``most``."""
        entry = kernel.entry()
        if entry is None or len(rows) < self.fewest:
            return None
        x: Any = rows.values
        if rows.table.sparse:
            few = kernel.is_linear and x.shape[1] <= most
            return np.ascontiguousarray(Columns()(rows).T) if few else None
        diagonal = kernel.diagonal(rows)
        if not (np.isfinite(diagonal).all() and diagonal.any()):
            return None  # which the storage of matrices has words for
        hopeful = self.always or kernel.most_rank(x.shape[1]) <= most
        return pivoted(x, entry, diagonal, NOTHING, most, hopeful)

    def find(self, kernels: list[TrainingKernel]) -> Iterable[Found]:
        """The kernels that get a factor, by place."""
        for place, one in enumerate(kernels):
            rows = one.group.rows
            G = self.factor(one.kernel, rows, self.most(one.kernel, len(rows)))
            if G is not None:
                yield Found(place, G)

    def build(self, kernels: list[TrainingKernel]) -> Kept:
        """Factors, normalized, without those that equal an earlier one; and the rest."""
        seen, kept = set[int](), dict[int, Array]()
        for found in self.find(kernels):
            seen.add(found.place)
            G = self._normalized(kernels[found.place], found)
            if G is not None:
                kept[found.place] = G
        rest = kernels
        if seen:
            rest = [one for place, one in enumerate(kernels) if place not in seen]
        made = keep(self.rest, rest)
        if not kept:
            return made
        self._leave_out_equal(kernels, kept)
        left = [kernels[place] for place in kept]
        return joined([made, Kept(left, self._stack(kept))])

    def _normalized(self, one: TrainingKernel, found: Found) -> Array | None:
        """The factor of the normalized kernel, None where the kernel is left out."""
        G, diagonal = found.G, one.kernel.diagonal(one.group.rows)
        if not one.learn(diagonal, lambda counts: (G @ counts) @ G / counts.sum()):
            return None
        normalizer = one.normalizer
        if found.features is not None:
            mean = weighted.mean(G, normalizer.weights, axis=1)
            made = normalized(found.features, one.kernel, normalizer, mean)
            one.approximate(made, diagonal - np.einsum("rj,rj->j", G, G))
        G = normalizer.factor(G)
        if one.places is not None:  # rows that lack the view have entries zero
            whole = np.zeros((len(G), one.n))
            whole[:, one.places] = G
            G = whole
        return G.astype(self.dtype, copy=False)

    def _leave_out_equal(self, kernels: list[TrainingKernel], kept: dict[int, Array]) -> None:
        """Leave out kernels that equal an earlier one, by K·Ω for two random columns of Ω."""
        omega = np.random.default_rng(0).uniform(0.5, 1.5, (kernels[0].n, 2))
        sketches = [np.ravel((G @ omega).T @ G) for G in kept.values()]
        any_scale = all(one.group.rule is not None for one in kernels)
        if any_scale:
            sketches = [sketch / np.abs(sketch).max() for sketch in sketches]
        tolerance = _ALIKE * DUPLICATE[np.dtype(self.dtype)]
        widths = np.array([tolerance * np.abs(sketch).max() for sketch in sketches])

        def equal(j: int, k: int) -> bool:
            return bool(np.abs(sketches[j] - sketches[k]).max() <= widths[k])

        found = [kernels[place] for place in kept]
        keys = np.array([sketch[0] for sketch in sketches])
        leave_out_equal(found, keys, widths, equal, any_scale=any_scale)
        for place in [*kept]:
            if kernels[place].dropped:
                del kept[place]

    def _stack(self, kept: dict[int, Array]) -> FactorStack:
        """The factors in one array, handed over one by one: no copy of all is made."""
        ends = np.concatenate([[0], np.cumsum([len(G) for G in kept.values()])]).astype(np.int64)
        whole = np.empty((int(ends[-1]), next(iter(kept.values())).shape[1]), self.dtype)
        for begin, end, place in zip(ends, ends[1:], [*kept], strict=False):
            whole[begin:end] = kept.pop(place)
        return FactorStack._trusted(whole, ends, None)

    def plan(self, kernels: list[TrainingKernel]) -> list[Place]:
        """Ranks, looked at on some hundreds of the rows."""
        probes, ranks, item = _Probes(), list[int | None](), self.dtype.itemsize
        for one in kernels:
            ranks.append(self.rank(one, *probes(one.group.rows)))
        return [
            self.rest.plan([one])[0] if r is None else Place("factor", r, one.n * r * item)
            for one, r in zip(kernels, ranks, strict=True)
        ]

    def rank(self, one: TrainingKernel, probe: Rows, half: Rows) -> int | None:
        """The rank of a kernel's factor on all rows, None where it gets none."""
        found = [self.factor(one.kernel, rows, len(rows)) for rows in (probe, half)]
        ranks = [0 if G is None else len(G) for G in found]
        if not min(ranks):
            return None
        growth = np.clip(math.log2(ranks[0] / ranks[1]), 0.0, 1.0)
        rank = round(ranks[0] * (one.n / len(probe)) ** growth)
        return rank if rank <= self.most(one.kernel, one.n) else None

    def besides(self, places: list[Place], n: int) -> int:
        """Combined kernels where some kernel is a matrix or rows are few, and factors in making."""
        low = [place.rank for place in places if place.kind == "factor"]
        written_out = len(low) < len(places) or n <= FactorStack.most_dense
        arrays = beside_matrices(len(places), n) if written_out else 0
        return arrays + beside_factors(low, n, self.dtype.itemsize)


class Auto(Factors):
    """Each kernel in its cheaper form: a factor or a matrix, and all as matrices if few gain.

    Where matrices would be large, kernels are generated and only K(d) is one, unless all of them
    have a low rank.
    """

    always, fewest = False, _FEW

    def most(self, kernel: Kernel, n: int) -> int:
        """A quarter of the rows."""
        return n // _CHEAPER

    def find(self, kernels: list[TrainingKernel]) -> Iterable[Found]:
        """Factors, if they save half of the memory."""
        found, ranks = [*super().find(kernels)], list[int]()
        for one in found:
            ranks.append(len(one.G))
        return found if _pays(ranks, len(kernels), kernels[0].n) else []

    def build(self, kernels: list[TrainingKernel]) -> Kept:
        """By matrices and factors, by shared columns, or generated."""
        n, item, large = kernels[0].n, self.dtype.itemsize, None
        if len(kernels) * n * n * item >= SETTINGS.one_matrix:
            large = self._large(kernels)
        return super().build(kernels) if large is None else large.build(kernels)

    def plan(self, kernels: list[TrainingKernel]) -> list[Place]:
        """As many factors as there will be."""
        large = self._large(kernels) if kernels else None
        if large is not None:
            return large.plan(kernels)
        places = super().plan(kernels)
        low = [place.rank for place in places if place.kind == "factor"]
        pays = not kernels or _pays(low, len(kernels), kernels[0].n)
        return places if pays else self.rest.plan(kernels)

    def besides(self, places: list[Place], n: int) -> int:
        """As it is built."""
        kinds = {place.kind for place in places}
        if "shared columns" in kinds:
            return self.sharing.besides(places, n)
        generated = "generated" in kinds
        return self.generating.besides(places, n) if generated else super().besides(places, n)

    def _large(self, kernels: list[TrainingKernel]) -> SharedColumns | OneMatrix | None:
        """What keeps a large bank in less than matrices and factors would take, if anything."""
        if self.sharing.takes(kernels):
            return self.sharing
        return self.generating if self._generates(kernels) else None

    @property
    def sharing(self) -> SharedColumns:
        """The storage of linear kernels on views that overlap."""
        from kernelweave.banks.shared_columns import SharedColumns

        return SharedColumns(self.recipe, self)

    @property
    def generating(self) -> OneMatrix:
        """The storage of large banks."""
        from kernelweave.banks.one_matrix import OneMatrix

        return OneMatrix(self.recipe)

    def _generates(self, kernels: list[TrainingKernel]) -> bool:
        """Whether matrices would be large and slow, and some kernel has no low rank on any rows.

        A pass generates entries anew, from all columns of a view; a matrix is made once, but to
        touch its memory takes longer than to compute it.
        """
        from kernelweave.banks.row_kernels import is_row_kernel

        n, ours = kernels[0].n, [one for one in kernels if is_row_kernel(one)]
        size = len(ours) * n * n * self.dtype.itemsize
        if size < SETTINGS.one_matrix:
            return False
        columns = sum({id(one.values): one.values.shape[1] for one in ours}.values())
        generating = _PASSES * (_COLUMN * columns + _ENTRY * len(ours))
        if generating > _TOUCHED * len(ours) and size < SETTINGS.most_matrices:
            return False
        places = super().plan(ours)
        low = [place.rank for place in places if place.kind == "factor"]
        return len(low) < len(ours) or not _pays(low, len(ours), n)


class Lazy(Factors):
    """Factors of low rank; all other kernels are computed on demand."""

    always = False

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.rest = OnDemand(recipe.cache_size)

    def most(self, kernel: Kernel, n: int) -> int:
        """A quarter of the rows, and not so many that rows on demand would take fewer steps."""
        return min(n // _CHEAPER, n if kernel.is_linear else _ON_DEMAND)

    def besides(self, places: list[Place], n: int) -> int:
        """Rows that are kept, blocks of rows in play, and factors in making."""
        low = [place.rank for place in places if place.kind == "factor"]
        rows = beside_rows(len(places), n, self.recipe.cache_size)
        return rows + beside_factors(low, n, self.dtype.itemsize)


class Approximated(Factors):
    """Kernels of few features in the place of the exact ones: each gets a factor."""

    def find(self, kernels: list[TrainingKernel]) -> Iterator[Found]:
        """What the approximation makes of each kernel."""
        assert self.recipe.approximation is not None
        for place, one in enumerate(kernels):
            check_approximable(one.kernel)
            features, G = self.recipe.approximation.features(one.kernel, one.group.rows)
            yield Found(place, G, features)

    def rank(self, one: TrainingKernel, probe: Rows, half: Rows) -> int:
        """The number of features."""
        assert self.recipe.approximation is not None
        most = one.kernel.most_rank(probe.values.shape[1]) if one.kernel.numeric else math.inf
        return int(min(self.recipe.approximation.most_rank(one.n), most))


def _pays(ranks: list[int], kernels: int, n: int) -> bool:
    """Whether factors of these ranks, for some of the kernels, save half of the memory."""
    return 2 * (sum(ranks) + (kernels - len(ranks)) * n) <= kernels * n


class _Probes:
    """Some of the rows of a view, and half of these; views share the tables, which are large."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[Table, Table]] = {}
        self._rows: Rows | None = None  # of the last view, whose kernels follow one another
        self._last: tuple[Rows, Rows]

    def __call__(self, rows: Rows) -> tuple[Rows, Rows]:
        if rows is not self._rows:
            table, view = rows.table, rows.view
            if id(table) not in self._tables:
                chosen = np.linspace(0, len(table) - 1, min(len(table), _PROBE)).astype(np.intp)
                some = table.take(chosen) if len(table) > _PROBE else table
                self._tables[id(table)] = some, some.take(slice(None, None, 2))
            some, half = self._tables[id(table)]
            self._rows, self._last = rows, (Rows(some, view), Rows(half, view))
        return self._last
