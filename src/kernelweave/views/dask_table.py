"""Rows of X that lie on a Dask cluster: a table of which only some rows can be fetched.

What is learned from all rows (ranges, moments, shares, levels, what empty cells hold) comes as sums
over the partitions, ``dask_sums.py``; what is learned from some (medians of distances, landmarks)
from these rows, fetched. They are the rows that a table on this machine would take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kernelweave._core.checks import shown
from kernelweave._core.dask_cluster import Cluster, Spans, check_alike, partitions
from kernelweave._core.types import Array, Mask
from kernelweave.views import dask_sums, weighted
from kernelweave.views.columns import View, tally
from kernelweave.views.dask_sums import Seen
from kernelweave.views.table import WHOLE_VIEWS, Table

_FEW = 1000  # rows that may be fetched together: as many as a median distance is taken of


class Moments(NamedTuple):
    """How many rows there are, and by column mean, standard deviation, least and largest value."""

    rows: int
    mean: Any
    deviation: Any
    least: Any
    most: Any


@dataclass(frozen=True, eq=False)
class DaskTable(Table):
    """Rows in partitions: ``parts`` are futures of tables, those without rows left out.

    ``numbers`` has the columns and no row. ``home`` is the storage that keeps kernels on the
    cluster. ``whole`` is the table that these rows were taken of, if they were, ``places`` their
    numbers there.
    """

    cluster: Any = None
    spans: Any = None
    home: Any = None
    sizes: tuple[int, ...] = ()  # rows of each partition of X, empty ones too
    whole: Any = None
    places: Any = None
    _known: dict[Any, Any] = field(default_factory=dict)

    apart: ClassVar[bool] = True

    @classmethod
    def of(cls, X: Any, cluster: Cluster, home: Any) -> DaskTable:
        """Read a dask array or data frame; one trip looks at every partition."""
        check_alike(cluster)
        frame = hasattr(X, "_meta") and hasattr(X._meta, "columns")
        if not frame and getattr(X, "ndim", 2) != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D dask array instead: {shown(X)}.")
        if not frame and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        parts = cluster.map(dask_sums.read, cluster.compute(partitions(X)))
        found: list[Seen] = cluster.get(cluster.map(dask_sums.seen, parts))
        kept = [number for number, one in enumerate(found) if one.rows]
        if not kept:
            raise ValueError(f"X has no rows in any of its {len(found)} partitions.")
        parts, some = [parts[number] for number in kept], [found[number] for number in kept]
        seen, known = dask_sums.together(some), dict[Any, Any]()
        if len({one.sparse for one in some}) > 1:
            raise TypeError("X holds sparse matrices in some partitions, and arrays in others")
        if all((one.numeric == seen.numeric).all() for one in some):
            known["seen"] = seen
        else:  # what holds strings elsewhere may hold nothing but gaps, or numbers, here
            parts = cluster.map(dask_sums.agreed, parts, seen.numeric)
        d = seen.numeric.size
        none, kind = np.empty((0, d)), SparseDaskTable if seen.sparse else cls
        return kind(
            _empty_rows(d) if seen.sparse else none,
            None if seen.numeric.all() else none.astype(object),
            seen.numeric,
            tuple(X.columns) if frame else None,
            seen.declared,
            None,
            cluster,
            Spans([one.rows for one in some]),
            home,
            tuple(one.rows for one in found),
            _known={**known, "parts": parts},
        )

    def __len__(self) -> int:
        return int(self.spans.n)

    @property
    def parts(self) -> list[Any]:
        """The rows: of a table that was taken of another, they are made with the first look."""
        if "parts" not in self._known:
            found = self.whole.spans.find(self.places)
            parts = [self.whole.parts[part] for part, _, _ in found]
            inside = [inside for _, inside, _ in found]
            self._known["parts"] = (
                self.cluster.map(dask_sums.taken, parts, inside) if found else list[Any]()
            )
        known: list[Any] = self._known["parts"]
        return known

    @property
    def seen(self) -> Seen:
        """What is seen of the columns."""
        if "seen" not in self._known:
            tasks = self.cluster.map(dask_sums.seen, self.parts)
            self._known["seen"] = dask_sums.together(self.cluster.get(tasks))
        known: Seen = self._known["seen"]
        return known

    def let_go(self) -> None:
        """Rows are not needed any more: workers may forget them."""
        self._known.pop("parts", None)

    def local(self) -> Table:
        """The columns without a row, for models: what new rows are read by."""
        return Table(self.numbers, self.objects, self.numeric, self.names, self.declared)

    def take(self, rows: Any) -> DaskTable:
        """Some of the rows, in ascending order, where they are."""
        places = np.arange(len(self))[rows]
        if np.any(np.diff(places) < 0):
            raise ValueError(f"rows on a cluster are taken in ascending order, found {places}")
        if places.size == len(self) and np.array_equal(places, np.arange(len(self))):
            return replace(self, _known={**self._known})
        spans = Spans([inside.size for _, inside, _ in self.spans.find(places)])
        more: dict[str, Any] = {"whole": self, "places": places, "_known": {}}
        return replace(self, spans=spans, sizes=(), **more)

    def here(self) -> Table:
        """All rows, fetched: for few."""
        tables: list[Table] = self.cluster.get(self.parts)
        return reduce(lambda one, other: one.join(other), tables)

    def block(self, rows: slice) -> Table:
        """Refused: kernels on all rows are computed where these are."""
        raise ValueError(_NOT_HERE)

    def kind(self, column: int) -> str:
        """What a column holds."""
        return str(self.seen.kinds[column])

    def floats(
        self,
        columns: Sequence[int],
        rows: Any = slice(None),
        gaps: str = WHOLE_VIEWS,
        filling: Any = None,
    ) -> Any:
        """Columns as finite floats, where there are few rows."""
        if len(self) > _FEW:
            self.check_finite(columns, gaps, filling)
            raise ValueError(_NOT_HERE)
        return self.here().floats(columns, rows, gaps, filling)

    def raw(self, columns: Sequence[int], filling: Any = None) -> Any:
        """Columns unchanged, where there are few rows."""
        if len(self) > _FEW:
            raise ValueError(_NOT_HERE)
        return self.here().raw(columns, filling)

    def tally(self, column: int) -> Counter[Any]:
        """How often each value of a column comes, empty cells left out."""
        found = self.cluster.get(self.cluster.map(tally, self.parts, column))
        return sum(found, Counter())

    def distinct(self, view: View) -> list[list[Any]]:
        """The levels of each column of a view, in the order of the rows."""
        found = self.cluster.get(self.cluster.map(dask_sums.distinct, self.parts, view))
        return [[*dict.fromkeys(chain.from_iterable(each))] for each in zip(*found, strict=True)]

    def check_finite(
        self, columns: Sequence[int], gaps: str = WHOLE_VIEWS, filling: Any = None
    ) -> None:
        """Raise ValueError unless columns hold finite numbers in all partitions."""
        if not len(self):
            return
        seen, index = self.seen, list(columns)
        for column in columns:
            if not seen.numeric[column]:
                raise ValueError(
                    f"Column {self.label(column)!r} of X does not hold numbers in every partition: "
                    "add Hamming() to the kernels if it holds categories, encode it as numbers, or "
                    "leave it out."
                )
        found = seen.missing[index], seen.infinite[index]
        if filling is not None and found[0].any():
            found = np.full(len(index), self.lacking(columns).sum()), found[1]
        if found[0].any() or found[1].any():
            raise ValueError(self._describe_gaps(columns, *found, gaps, filling is None))

    def lacking(self, columns: Sequence[int]) -> Mask:
        """Which rows have nothing in these columns."""
        key = "lacking", tuple(columns)
        if not (len(self) and self.seen.missing[list(columns)].all()):
            return np.zeros(len(self), dtype=bool)
        if key not in self._known:
            tasks = self.cluster.map(dask_sums.lacking, self.parts, key[1])
            self._known[key] = np.concatenate(self.cluster.get(tasks))
        found: Mask = self._known[key]
        return found.copy()

    def constant(self, columns: Sequence[int], filling: Any = None) -> bool:
        """Whether each of these columns has one value in all rows, its empty cells filled."""
        seen = self.seen
        for place, j in enumerate(columns):
            ends = [seen.least[j], seen.most[j]]
            if seen.missing[j] and filling is not None:
                ends.append(filling[place])
            gaps = bool(seen.missing[j]) and filling is None
            if not (seen.same[j] if not seen.numeric[j] else max(ends) <= min(ends) and not gaps):
                return False
        return True

    def filling(self, how: str, column: int, weights: Any = None) -> float | None:
        """The median or the mean of a column over the rows that have a value; None without one."""
        if self.seen.missing[column] == len(self):
            return None
        if self.seen.infinite[column]:
            return 0.0  # who reads infinity refuses it
        key = how, _name(weights)
        if key not in self._known:
            cluster, counts = self.cluster, self._counts(weights)
            if how == "median":
                found = dask_sums.medians(cluster, self.parts, counts, self.n_columns)
            else:
                total = cluster.get(
                    cluster.sum(cluster.map(dask_sums.known_sums, self.parts, counts))
                )
                with np.errstate(invalid="ignore"):
                    found = total[0] / total[1]
            self._known[key] = found
        return float(self._known[key][column])

    def moments(
        self,
        columns: Sequence[int],
        weights: Any = None,
        filling: Any = None,
        gaps: str = WHOLE_VIEWS,
    ) -> Moments:
        """Of columns of numbers, where row i counts ``weights[i]`` times: two trips for all."""
        self.check_finite(columns, gaps, filling)
        if not len(self):
            return Moments(0, *np.zeros((4, len(columns))))
        index, seen = list(columns), self.seen
        mean, deviation, _ = self._summaries(columns, weights, filling)
        least, most = seen.least[index], seen.most[index]
        if filling is not None:  # of a column that is empty in these rows
            least, most = (np.where(np.isnan(end), filling, end) for end in (least, most))
        return Moments(len(self), mean, deviation, least, most)

    def share_filled(self, columns: Sequence[int], weights: Any, filling: Any = None) -> float:
        """The share of cells that are not 0."""
        return float(self._summaries(columns, weights, filling)[2].mean()) if len(self) else 1.0

    def _summaries(
        self, columns: Sequence[int], weights: Any, filling: Any
    ) -> tuple[Array, Array, Array]:
        """Mean, standard deviation, and the share that is not 0.

        Where no cell is filled, those of all columns: nobody asks for the others again.
        """
        index, seen = np.array(columns, np.intp), self.seen
        every = filling is None or not seen.missing[index].any()
        key = None if every else tuple(columns), _name(weights)
        if key not in self._known:
            cluster, counts = self.cluster, self._counts(weights)
            asked = (None, None) if every else (index, filling)
            total = float(len(self) if weights is None else weights.sum())
            sums = cluster.get(cluster.sum(cluster.map(dask_sums.sums, self.parts, counts, *asked)))
            mean, filled = sums[0] / total, sums[1] / total
            spread = np.zeros_like(mean)
            if not self.sparse:
                ends = np.fmax(seen.most, -seen.least)[slice(None) if every else index]
                units = weighted.power_of_two(np.nan_to_num(ends))
                more = *asked, mean / units, units
                found = cluster.sum(cluster.map(dask_sums.squares, self.parts, counts, *more))
                spread = np.sqrt(cluster.get(found) / total) * units
            self._known[key] = mean, spread, filled
        chosen = index if every else slice(None)
        mean, spread, filled = (values[chosen] for values in self._known[key])
        return mean, spread, filled

    def _counts(self, weights: Any) -> list[Any]:
        """How often rows count, by partition."""
        return [None] * len(self.parts) if weights is None else self.spans.split(weights)


@dataclass(frozen=True, eq=False)
class SparseDaskTable(DaskTable):
    """The same of sparse matrices: ``numbers`` is a CSR array without a row."""

    sparse: ClassVar[bool] = True

    def local(self) -> Table:
        """The columns without a row, for models."""
        from kernelweave.views.sparse_table import SparseTable

        return SparseTable(self.numbers, None, self.numeric, self.names, self.declared)

    def lacking(self, columns: Sequence[int]) -> Mask:
        """No row: what is not stored is zero, and a stored NaN is an error."""
        return np.zeros(len(self), dtype=bool)


_NOT_HERE = (
    "the rows are on a cluster, and a kernel asks for all of them here: give "
    "KernelBank(approximation=Nystroem(500)), which reads some; kernels of others and kernels on "
    "structures are for rows on one machine"
)


def _empty_rows(d: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((0, d))


def _name(weights: Any) -> Any:
    """What stands for an array among what is known."""
    return None if weights is None else weights.tobytes()
