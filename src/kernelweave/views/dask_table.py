"""Rows of X that lie on a Dask cluster: a table of which only some rows can be fetched.

What is learned from all rows (ranges, moments, shares) comes as sums over the partitions, in two
trips; what is learned from some (medians of distances, landmarks) from these rows, fetched. They
are the rows that a table on this machine would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kernelweave._core.checks import shown, some
from kernelweave._core.dask_cluster import Cluster, Spans, check_alike
from kernelweave._core.types import Array, Mask, Places
from kernelweave.views import weighted
from kernelweave.views.table import WHOLE_VIEWS, Table

_FEW = 1000  # rows that may be fetched together: as many as a median distance is taken of


class Seen(NamedTuple):
    """What one partition says of its columns; counts are of cells."""

    rows: int
    numeric: Mask
    declared: Mask
    kinds: tuple[str, ...]
    nan: Any
    infinite: Any
    least: Array
    most: Array


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
    cluster. ``kinds`` says what each column holds, as ``kind`` does.
    """

    cluster: Any = None
    parts: list[Any] = field(default_factory=list)
    spans: Any = None
    seen: Any = None
    home: Any = None
    sizes: tuple[int, ...] = ()  # rows of each partition of X, empty ones too
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
        blocks = np.ravel(X.to_delayed()).tolist()
        parts = cluster.map(_read, cluster.compute(blocks))
        found: list[Seen] = cluster.get(cluster.map(_seen, parts))
        kept = [number for number, one in enumerate(found) if one.rows]
        if not kept:
            raise ValueError(f"X has no rows in any of its {len(found)} partitions.")
        seen = _together([found[number] for number in kept])
        names = tuple(X.columns) if frame else None
        return cls(
            np.empty((0, seen.numeric.size)),
            None if seen.numeric.all() else np.empty((0, seen.numeric.size), object),
            seen.numeric,
            names,
            seen.declared,
            None,
            cluster,
            [parts[number] for number in kept],
            Spans([found[number].rows for number in kept]),
            seen,
            home,
            tuple(one.rows for one in found),
        )

    def __len__(self) -> int:
        return int(self.spans.n)

    def let_go(self) -> None:
        """Rows are not needed any more: workers may forget them."""
        self.parts.clear()

    def local(self) -> Table:
        """The columns without a row, for models: what new rows are read by."""
        return Table(self.numbers, self.objects, self.numeric, self.names, self.declared)

    def having_weight(self, weights: Array) -> tuple[DaskTable, Places]:
        """Without the rows of weight 0; the numbers of the others."""
        rows = np.flatnonzero(weights)
        if rows.size == len(self):
            return self, rows
        found = self.spans.find(rows)
        parts = [self.parts[part] for part, _, _ in found]
        taken = self.cluster.map(_take, parts, [inside for _, inside, _ in found])
        seen: list[Seen] = self.cluster.get(self.cluster.map(_seen, taken))
        spans = Spans([one.rows for one in seen])
        more = {"parts": taken, "spans": spans, "seen": _together(seen), "_known": {}}
        return DaskTable(**{**self.__dict__, **more}), rows

    def take(self, rows: Any) -> Table:
        """Some of the rows, fetched; the table itself for all of them."""
        if isinstance(rows, slice) and rows == slice(None):
            return self
        places = np.arange(len(self))[rows]
        once, back = np.unique(places, return_inverse=True)
        found = self.spans.find(once)
        parts = [self.parts[part] for part, _, _ in found]
        tasks = self.cluster.map(_take, parts, [inside for _, inside, _ in found])
        tables: list[Table] = self.cluster.get(tasks)
        whole = tables[0]
        for table in tables[1:]:
            whole = whole.join(table)
        return whole.take(back)

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
            raise ValueError(_NOT_HERE)
        return self.take(np.arange(len(self))).floats(columns, rows, gaps, filling)

    def raw(self, columns: Sequence[int], filling: Any = None) -> Any:
        """Columns unchanged, where there are few rows."""
        if len(self) > _FEW:
            raise ValueError(_NOT_HERE)
        return self.take(np.arange(len(self))).raw(columns, filling)

    def check_finite(
        self, columns: Sequence[int], gaps: str = WHOLE_VIEWS, filling: Any = None
    ) -> None:
        """Raise ValueError unless columns hold finite numbers in all partitions."""
        seen = self.seen
        for column in columns:
            if not seen.numeric[column]:
                raise ValueError(
                    f"Column {self.label(column)!r} of X does not hold numbers in every partition: "
                    "encode it as numbers, or leave it out."
                )
        told = [
            f"{self.label(j)!r} ({int(seen.nan[j])} NaN and {int(seen.infinite[j])} infinity)"
            for j in columns
            if seen.nan[j] or seen.infinite[j]
        ]
        if told:
            raise ValueError(
                f"Input X contains NaN or infinity in column {some(told)} among {len(self)} rows. "
                "On a cluster every cell must hold a finite number: fill them first, "
                "X.fillna(X.mean()), or drop these rows, X.dropna()."
            )

    def lacking(self, columns: Sequence[int]) -> Mask:
        """No row: what is missing is refused, see ``check_finite``."""
        return np.zeros(len(self), dtype=bool)

    def constant(self, columns: Sequence[int], filling: Any = None) -> bool:
        """Whether each of these columns has one value in all rows."""
        seen = self.seen
        return all(seen.numeric[j] and seen.least[j] == seen.most[j] for j in columns)

    def moments(self, columns: Sequence[int], weights: Any = None) -> Moments:
        """Of columns of numbers, where row i counts ``weights[i]`` times: two trips for all."""
        self.check_finite(columns)
        mean, deviation, _ = self._summaries(weights)
        index, seen = list(columns), self.seen
        ends = seen.least[index], seen.most[index]
        return Moments(len(self), mean[index], deviation[index], *ends)

    def share_filled(self, columns: Sequence[int], weights: Any) -> float:
        """The share of cells that are not 0."""
        return float(self._summaries(weights)[2][list(columns)].mean())

    def _summaries(self, weights: Any) -> tuple[Array, Array, Array]:
        """Mean, standard deviation, and the share that is not 0, of every column."""
        key = None if weights is None else weights.tobytes()
        if key not in self._known:
            cluster, parts = self.cluster, self.parts
            counts = [None] * len(parts) if weights is None else self.spans.split(weights)
            total = float(len(self) if weights is None else weights.sum())
            sums = cluster.get(cluster.sum(cluster.map(_sums, parts, counts)))
            mean, filled = sums[0] / total, sums[1] / total
            units = weighted.power_of_two(np.maximum(self.seen.most, -self.seen.least))
            squares = cluster.map(_squares, parts, counts, mean / units, units)
            spread = np.sqrt(cluster.get(cluster.sum(squares)) / total) * units
            self._known[key] = mean, spread, filled
        found: tuple[Array, Array, Array] = self._known[key]
        return found


_NOT_HERE = (
    "the rows are on a cluster, and a kernel asks for all of them here: give "
    "KernelBank(approximation=Nystroem(500)), which reads some; kernels of others and kernels on "
    "structures are for rows on one machine"
)


# ---- what workers do -----------------------------------------------------------------------------


def _read(block: Any) -> Table:
    """A partition as a table; without a row it has columns all the same."""
    if len(block):
        return Table.read(block)
    names = tuple(block.columns) if hasattr(block, "columns") else None
    none = np.zeros(block.shape[1], dtype=bool)
    return Table(np.empty((0, none.size)), None, ~none, names, none)


def _take(table: Table, rows: Places) -> Table:
    return table.take(rows)


def _seen(table: Table) -> Seen:
    d = range(table.n_columns)
    if not len(table):
        none = np.zeros(len(d))
        return Seen(0, table.numeric, table.declared, (), none, none, none, none)
    if table.sparse:
        raise TypeError(
            "partitions of X hold sparse matrices: on a cluster rows are dense for now, "
            "X.map_blocks(lambda part: part.toarray())"
        )
    x = table.numbers
    with np.errstate(invalid="ignore"):
        ends = x.min(axis=0), x.max(axis=0)
    kinds = tuple(map(table.kind, d))
    found = np.isnan(x).sum(axis=0), np.isinf(x).sum(axis=0)
    return Seen(len(table), table.numeric, table.declared, kinds, *found, *ends)


def _together(found: list[Seen]) -> Seen:
    """What all partitions say."""
    rows, numeric, declared, kinds, nan, infinite, least, most = zip(*found, strict=True)
    whole = np.all(numeric, axis=0)
    told = tuple("object" if len({*each}) > 1 else each[0] for each in zip(*kinds, strict=True))
    sums = np.sum(nan, axis=0), np.sum(infinite, axis=0)
    ends = np.min(least, axis=0), np.max(most, axis=0)
    return Seen(sum(rows), whole, np.any(declared, axis=0), told, *sums, *ends)


def _sums(table: Table, counts: Any) -> tuple[Array, Array]:
    w = np.ones(len(table)) if counts is None else counts
    return np.asarray(w @ table.numbers), np.asarray(w @ (table.numbers != 0.0))


def _squares(table: Table, counts: Any, mean: Array, units: Array) -> Array:
    w = np.ones(len(table)) if counts is None else counts
    return np.asarray(w @ (table.numbers / units - mean) ** 2)
