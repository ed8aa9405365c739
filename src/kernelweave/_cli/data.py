"""What a command line says about its data: one table or several, a target, and views."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._cli.tables import MATRIX, TEXTS, column, is_file, read_matrix, read_table
from kernelweave._core.checks import some
from kernelweave._core.warnings import warn
from kernelweave.views.joining import join_views
from kernelweave.views.table import Table


@dataclass(frozen=True)
class Source:
    """Where the data are: the table, its columns with a special role, and the views."""

    table: str | None
    target: str | None = None
    key: str | None = None
    views: tuple[tuple[str, str], ...] = ()  # name, and columns or file
    delimiter: str | None = None
    words: tuple[str, ...] = ()  # columns, as a model names them, that hold words

    def read(self, path: str, view: str = "") -> Any:
        """A table; ids, where 007 is not 7, and columns of words are read as text."""
        start = f"{view}__" if view else ""
        texts = [name.removeprefix(start) for name in self.words if name.startswith(start)]
        ids = () if self.key is None else (self.key,)
        return read_table(path, self.delimiter, (*texts, *ids), may_be_empty=bool(view))

    @property
    def matrices(self) -> dict[str, str]:
        """Views that are kernel matrices: name and file."""
        return {name: what for name, what in self.views if what.lower().endswith(MATRIX)}

    @property
    def files(self) -> dict[str, str]:
        """Views that are tables of their own: name and file."""
        return {
            name: what
            for name, what in self.views
            if is_file(what) and not what.lower().endswith(MATRIX)
        }


@dataclass(frozen=True)
class Data:
    """Rows as read: columns by view, or a kernel matrix by view; targets and ids if asked for."""

    frame: Any
    views: dict[str, list[str]]
    matrices: dict[str, Any] = field(default_factory=dict)
    target: Any = None
    ids: Any = None
    unused: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The columns that kernels on numbers read: also true, false and empty cells."""
        table = Table.read(self.frame)
        places = range(table.n_columns)
        return frozenset(table.label(c) for c in places if table.kind(c) == "number")


def parse_view(text: str) -> tuple[str, str]:
    """``name=columns`` or ``name=file``."""
    name, equals, what = text.partition("=")
    if not (equals and name.strip() and what.strip()):
        raise ValueError(
            f"--view must be name=columns or name=file, such as clinical=age,chol*; found {text!r}"
        )
    return name.strip(), what.strip()


def read_data(source: Source) -> Data:
    """Read and join all files, and find the columns of each view."""
    names = [name for name, _ in source.views]
    if len(set(names)) < len(names):
        raise ValueError(f"--view: {max(names, key=names.count)!r} is named twice")
    if source.table is None:
        raise ValueError("a table is needed, which holds the target")
    frame = source.read(source.table)
    ids = None if source.key is None else read_ids(frame, source.key, source.table)
    target = None if source.target is None else check_target(frame, source)
    if source.matrices:
        return Data(frame, {}, _matrices(source, len(frame)), target, ids)
    views, unused = _views(source, [str(name) for name in _features(frame, source).columns])
    joined = join(frame, ids, source)
    for view, path in source.files.items():
        views[view] = [name for name in joined.columns if str(name).startswith(f"{view}__")]
        if not views[view]:
            raise ValueError(f"{path} has no columns beside {source.key!r}")
        if joined[views[view]].isna().all(axis=None):
            raise ValueError(f"{path} has no rows")
    used = list(dict.fromkeys(name for names in views.values() for name in names))
    _check_cells(joined, used, source)
    return Data(joined[used], views, {}, target, ids, unused)


def _check_cells(frame: Any, used: list[str], source: Source) -> None:
    """Raise ValueError for columns and rows without a value, and for infinity."""
    for name in used:
        cells = frame[name]
        if cells.isna().all():
            raise ValueError(f"column {name!r} is empty: leave it out with --view")
        infinite = np.isinf(cells.to_numpy()) if cells.dtype.kind == "f" else np.zeros(1)
        if infinite.any():
            where = _where(frame, int(infinite.argmax()), source)
            raise ValueError(f"column {name!r} holds infinity, first in {where}: empty the cell")
    nothing = frame[used].isna().all(axis=1).to_numpy()
    if nothing.any():
        where = _where(frame, int(nothing.argmax()), source)
        raise ValueError(f"{source.table}: no view has a value in {where}; leave it out")


def join(frame: Any, ids: Any, source: Source) -> Any:
    """The table with the columns of the other files, each named ``view__column``, by id.

    Rows that a file lacks are empty in its columns: the model treats them as lacking the view.
    """
    import pandas as pd

    if not source.files:
        return frame
    others = {}
    for view, path in source.files.items():
        if ids is None or source.key is None:
            raise ValueError(f"--view {view}={path}: tables are joined on ids; name them with --id")
        other = source.read(path, view)
        keys = read_ids(other, source.key, path)
        if len(keys) and not keys.isin(ids).any():
            raise ValueError(f"{path} has none of the ids of {source.table}, such as {ids.iloc[0]}")
        strange = keys[~keys.isin(ids)]
        if len(strange):
            told = f"{len(strange)} rows whose ids {source.table} lacks are left out"
            warn(f"{path}: {told}: {some(strange)}")
        others[view] = _features(other, source).set_index(keys)
    found = _side_by_side(others, ids)
    return pd.concat([frame.reset_index(drop=True), found.reset_index(drop=True)], axis=1)


def _side_by_side(others: dict[str, Any], ids: Any) -> Any:
    """The columns of all views, a row for each id; empty where a view lacks it."""
    import pandas as pd

    full = {view: other for view, other in others.items() if len(other)}
    found = join_views(full).X.reindex(ids) if full else pd.DataFrame(index=ids)
    hollow = [f"{view}__{name}" for view in others if view not in full for name in others[view]]
    return found.assign(**dict.fromkeys(hollow, np.nan))


def check_target(frame: Any, source: Source) -> Any:
    """The column of the targets; refuses rows without one."""
    target = column(frame, str(source.target), str(source.table))
    empty = target.isna().to_numpy()
    if empty.any():
        where, count = _where(frame, int(np.argmax(empty)), source), np.count_nonzero(empty)
        have = "row has" if count == 1 else "rows have"
        first = "it is" if count == 1 else "the first is"
        raise ValueError(
            f"{source.table}: {count} {have} no {source.target!r}, {first} {where}; leave "
            f"{'it' if count == 1 else 'them'} out"
        )
    return target


def _where(frame: Any, row: int, source: Source) -> str:
    """A row as its user finds it: by id, or by its place in the file."""
    if source.key is not None:
        return f"{source.key} {frame[source.key].iloc[row]}"
    if str(source.table).lower().endswith(TEXTS):
        return f"line {row + 2} of the file"  # the header is line 1
    return f"row {row + 1}"


def read_ids(frame: Any, key: str, path: str) -> Any:
    """The ids of a table as text; each may occur once."""
    ids = column(frame, key, path).astype("str")
    twice = ids[ids.duplicated()]
    if len(twice):
        raise ValueError(f"{path}: id {twice.iloc[0]} occurs twice in column {key!r}")
    return ids


def _features(frame: Any, source: Source) -> Any:
    special = [name for name in (source.target, source.key) if name in frame.columns]
    return frame.drop(columns=special)


def _views(source: Source, names: list[str]) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Columns by view, and those in none; without any view of columns, all are one."""
    views: dict[str, list[str]] = {}
    for view, what in source.views:
        if is_file(what):
            continue
        views[view] = []
        for pattern in (part.strip() for part in what.split(",")):
            found = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
            if not found:
                raise ValueError(
                    f"--view {view}: {source.table} has no column {pattern!r}; it has {some(names)}"
                )
            views[view] += [name for name in found if name not in views[view]]
    if not views and names:
        views[Path(str(source.table)).name.split(".")[0]] = names
    if not views and not source.files:
        raise ValueError(f"{source.table} has no column beside the target")
    used = {name for columns in views.values() for name in columns}
    return views, tuple(name for name in names if name not in used)


def _matrices(source: Source, rows: int) -> dict[str, Any]:
    if len(source.matrices) < len(source.views):
        raise ValueError("--view: kernel matrices (.npy) and columns cannot be mixed")
    found = {name: read_matrix(path) for name, path in source.matrices.items()}
    for name, matrix in found.items():
        if matrix.shape != (rows, rows):
            raise ValueError(
                f"--view {name}: the matrix must be {rows} × {rows}, a row and a column for each "
                f"row of {source.table}; found {matrix.shape[0]} × {matrix.shape[1]}"
            )
    return found
