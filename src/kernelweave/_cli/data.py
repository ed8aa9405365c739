"""What a command line says about its data: one table or several, a target, and views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._cli.tables import MATRIX, column, is_file, read_matrix, read_table
from kernelweave._core.checks import did_you_mean, some
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
    drop: tuple[str, ...] = ()  # columns that are left out
    text_ids: bool = False  # whether 007 and 7 are ids of different rows
    labeled: bool = False  # whether rows without a target are left out
    kept: Any = None  # which rows of the table are not
    times: tuple[str, str] | None = None  # columns of times and events, in place of a target

    def read(self, path: str, view: str = "") -> Any:
        """A table; ids, where 007 is not 7, and columns of words are read as text."""
        start = f"{view}__" if view else ""
        texts = [name.removeprefix(start) for name in self.words if name.startswith(start)]
        ids = () if self.key is None else (self.key,)
        return read_table(path, self.delimiter, (*texts, *ids), may_be_empty=bool(view))

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns that are predicted."""
        return self.times or (() if self.target is None else (self.target,))

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

    def home(self, name: str) -> tuple[str, str]:
        """The file of a column that a model names, and the name that it has there."""
        views = [view for view in self.files if name.startswith(f"{view}__")]
        if not views:
            return str(self.table), name
        view = max(views, key=len)
        return self.files[view], name.removeprefix(f"{view}__")

    def named(self, name: str) -> str:
        """A column that a model names, as an error calls it."""
        path, column = self.home(name)
        return f"{path}: column {column!r}"

    def keeps(self, name: str) -> bool:
        """Whether a column is not left out, by its name in the model or in its file."""
        return not any(fits(name, what) or fits(self.home(name)[1], what) for what in self.drop)

    def where(self, row: int, ids: Any, start: int = 0) -> str:
        """A row of the table as its user finds it: by id, or by its place in the file.

        ``ids``: those of the rows, if there are some. ``start``: how many rows stand before them.
        """
        if ids is not None:
            return f"{self.key} {ids.iloc[row]}"
        return _place(start + row if self.kept is None else int(np.flatnonzero(self.kept)[row]))


@dataclass(frozen=True)
class Data:
    """Rows as read: columns by view, or a kernel matrix by view; targets and ids if asked for."""

    frame: Any
    views: dict[str, list[str]]
    matrices: dict[str, Any] = field(default_factory=dict)
    target: Any = None
    ids: Any = None
    unused: tuple[str, ...] = ()
    left_out: str = ""

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The columns that kernels on numbers read: also true, false and empty cells."""
        table = Table.read(self.frame)
        places = range(table.n_columns)
        return frozenset(table.label(c) for c in places if table.kind(c) == "number")


def read_data(source: Source) -> Data:
    """Read and join all files, and find the columns of each view."""
    names = [name for name, _ in source.views]
    if len(set(names)) < len(names):
        raise ValueError(f"--view: {max(names, key=names.count)!r} is named twice")
    if source.table is None:
        raise ValueError("a table is needed, which holds the target")
    frame, source, left_out = read_rows(source)
    ids = None if source.key is None else read_ids(frame, source.key, str(source.table))
    target = check_target(frame, source) if source.targets else None
    own = [str(name) for name in _features(frame, source).columns]
    kept = [name for name in own if source.keeps(name)]
    if source.matrices:
        _check_drop(own, source)
        return Data(frame, {}, _matrices(source, len(frame)), target, ids, tuple(kept), left_out)
    views, unused = views_of(source, kept)
    _refuse_mixed_up(views, own, source)
    joined = join(frame, ids, source)
    _check_drop([*own, *joined.columns[frame.shape[1] :]], source)
    for view, path in source.files.items():
        theirs = [name for name in joined.columns if str(name).startswith(f"{view}__")]
        views[view] = [name for name in theirs if source.keeps(name)]
        if not views[view]:
            beside = " and those of --drop" if theirs else ""
            raise ValueError(f"{path} has no columns beside {source.key!r}{beside}")
        if joined[theirs].isna().all(axis=None):
            raise ValueError(f"{path} has no value for any row of {source.table}")
    used = list(dict.fromkeys(name for names in views.values() for name in names))
    _check_cells(joined[used], ids, source)
    return Data(joined[used], views, {}, target, ids, unused, left_out)


def read_rows(source: Source) -> tuple[Any, Source, str]:
    """The table that holds the target, without rows that lack it if so asked.

    Returns also the source that knows which rows these are, and what was left out, in words.
    """
    path = str(source.table)
    frame = source.read(path)
    if not source.labeled or not source.targets:
        return frame, source, ""
    cells = [column(frame, name, path).notna().to_numpy() for name in source.targets]
    known = np.all(cells, axis=0)
    count = int(np.count_nonzero(~known))
    if not known.any() or not count:  # who has no target at all is told so
        return frame, source, ""
    are = "is" if count == 1 else "are"
    lacks = " or ".join(map(repr, source.targets))
    told = f"{path}: {counted(count, 'row')} without {lacks} {are} left out"
    return frame[known].reset_index(drop=True), replace(source, kept=known), told


def _refuse_mixed_up(views: dict[str, list[str]], own: list[str], source: Source) -> None:
    """Raise ValueError if columns ``view__column`` could be taken for those of another view."""
    for view, path in source.files.items():
        told = f"--view {view}={path}"
        if view in views:
            raise ValueError(f"{told}: {source.table} is itself a view {view!r}; name this another")
        if alike := [name for name in own if name.startswith(f"{view}__")]:
            raise ValueError(
                f"{told}: {source.table} has a column {alike[0]!r}, which reads as one of the "
                "view; give the view another name"
            )
        if longer := [name for name in source.files if name.startswith(f"{view}__")]:
            raise ValueError(
                f"{told}: columns of --view {longer[0]} would read as its own; give one of the "
                "views another name"
            )


def _check_cells(frame: Any, ids: Any, source: Source) -> None:
    """Raise ValueError for columns and rows without a value, and for infinity."""
    for name in frame.columns:
        if frame[name].isna().all():
            column = source.home(name)[1]
            raise ValueError(
                f"{source.named(name)} is empty: delete it, or leave it out with --drop {column}"
            )
    check_finite(frame, ids, source)
    check_rows(frame, ids, source)


def check_rows(frame: Any, ids: Any, source: Source, start: int = 0) -> None:
    """Raise ValueError for a row without a value; ``ids`` and ``start`` as in ``Source.where``."""
    nothing = frame.isna().all(axis=1).to_numpy()
    if nothing.any():
        where = source.where(int(nothing.argmax()), ids, start)
        raise ValueError(f"{source.table}: no view has a value in {where}; leave it out")


def check_finite(frame: Any, ids: Any, source: Source, start: int = 0) -> None:
    """Raise ValueError for infinity; ``ids`` and ``start`` as in ``Source.where``."""
    for name in frame.columns:
        cells = frame[name]
        infinite = np.isinf(cells.to_numpy()) if cells.dtype.kind == "f" else np.zeros(1)
        if infinite.any():
            where = source.where(int(infinite.argmax()), ids, start)
            told = f"holds infinity, first in {where}: empty the cell"
            raise ValueError(f"{source.named(name)} {told}")


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
        if not source.text_ids:
            _refuse_zeros(keys, ids, path, source)
        _check_match(keys, ids, path, source)
        others[view] = _features(other, source).set_index(keys)
        _tell_kernel(others[view], path, source)
    found = _side_by_side(others, ids)
    return pd.concat([frame.reset_index(drop=True), found.reset_index(drop=True)], axis=1)


def _check_match(keys: Any, ids: Any, path: str, source: Source) -> None:
    """Raise ValueError if a file has no id of the table; warn of ids that the table lacks."""
    strange = keys[~keys.isin(ids)]
    if not len(strange):
        return
    if len(strange) == len(keys):
        raise ValueError(f"{path} has none of the ids of {source.table}, such as {ids.iloc[0]}")
    whose, are = ("id", "is") if len(strange) == 1 else ("ids", "are")
    told = f"{counted(len(strange), 'row')} whose {whose} {source.table} lacks {are} left out"
    warn(f"{path}: {told}: {some(strange)}")


def _refuse_zeros(keys: Any, ids: Any, path: str, source: Source) -> None:
    """Raise ValueError if ids that are not found are there with other leading zeros."""
    bare = {one.lstrip("0"): one for one in ids[~ids.isin(keys)]}
    pairs = [
        (key, bare[key.lstrip("0")]) for key in keys[~keys.isin(ids)] if key.lstrip("0") in bare
    ]
    if pairs:
        differ = "id differs" if len(pairs) == 1 else "ids differ"
        raise ValueError(
            f"{len(pairs)} {differ} only by leading zeros, as {pairs[0][0]} in {path} and "
            f"{pairs[0][1]} in {source.table} do: write ids alike, or, if they are others, say "
            "--text-ids"
        )


def _tell_kernel(other: Any, path: str, source: Source) -> None:
    """Warn if the columns of a view file are named as its rows are."""
    if len(other) > 1 and {*map(str, other.columns)} == {*other.index}:
        warn(
            f"{path}: columns are named as rows are, as in a kernel matrix, but taken as features. "
            f"To use it as a kernel, save it as .npy, rows and columns as in {source.table}"
        )


def _side_by_side(others: dict[str, Any], ids: Any) -> Any:
    """The columns of all views, a row for each id; empty where a view lacks it."""
    import pandas as pd

    full = {view: other for view, other in others.items() if len(other)}
    found = join_views(full).X.reindex(ids) if full else pd.DataFrame(index=ids)
    hollow = [f"{view}__{name}" for view in others if view not in full for name in others[view]]
    return found.assign(**dict.fromkeys(hollow, np.nan))


def check_target(frame: Any, source: Source) -> Any:
    """The column of the targets, or those of times and events; refuses rows without one."""

    def where(row: int) -> str:
        return source.where(row, None if source.key is None else frame[source.key])

    for name in source.targets:
        cells = column(frame, name, str(source.table))
        _refuse_empty(cells, str(source.table), where, "leave {} out, or say --drop-unlabeled")
    return cells if source.times is None else frame[list(source.times)]


def read_ids(frame: Any, key: str, path: str) -> Any:
    """The ids of a table as text; each row has one, and each may occur once."""
    ids = ids_of(frame, key, path)
    twice = ids[ids.duplicated()]
    if len(twice):
        raise ValueError(f"{path}: id {twice.iloc[0]} occurs twice in column {key!r}")
    return ids


def ids_of(frame: Any, key: str, path: str, start: int = 0) -> Any:
    """The ids of some rows as text, each not empty; ``start`` as in ``Source.where``."""
    cells = column(frame, key, path)
    ids = cells.astype("str")

    def where(row: int) -> str:
        return _place(start + row)

    _refuse_empty(cells.where(ids.str.strip() != ""), path, where, "give {0} one, or delete {0}")
    strange = ids.str.contains("\0", regex=False).to_numpy()
    if strange.any():
        row = where(int(strange.argmax()))
        raise ValueError(f"{path}: the id in {row} holds a NUL character: correct it")
    return ids


def _refuse_empty(cells: Any, path: str, where: Callable[[int], str], cure: str) -> None:
    """Raise ValueError if a column that every row must have is empty somewhere."""
    empty = cells.isna().to_numpy()
    if empty.any():
        count = int(np.count_nonzero(empty))
        one = count == 1
        have, first, them = ("has", "it is", "it") if one else ("have", "the first is", "them")
        told = f"{path}: {counted(count, 'row')} {have} no {cells.name!r}, {first}"
        raise ValueError(f"{told} {where(int(empty.argmax()))}; {cure.format(them)}")


def _place(row: int) -> str:
    return f"row {row + 1} below the header"  # lines may be blank, and cells may hold several


def counted(count: int, what: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _features(frame: Any, source: Source) -> Any:
    return frame.drop(columns=[*source.targets, source.key], errors="ignore")


def fits(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def views_of(source: Source, names: list[str]) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Columns by view, and those in none; without any view of columns, all are one."""
    views: dict[str, list[str]] = {}
    for view, what in source.views:
        if is_file(what):
            continue
        views[view] = []
        for pattern in (part.strip() for part in what.split(",")):
            found = [name for name in names if fits(name, pattern)]
            if not found:
                raise ValueError(f"--view {view}: {_no_feature(pattern, names, source)}")
            views[view] += [name for name in found if name not in views[view]]
    if not views and names:
        views[Path(str(source.table)).name.split(".")[0]] = names
    if not views and not source.files:
        raise ValueError(f"{source.table} has no column beside the target")
    used = {name for columns in views.values() for name in columns}
    return views, tuple(name for name in names if name not in used)


def _check_drop(names: list[str], source: Source) -> None:
    """Raise ValueError if --drop names a column that there is not."""
    known = list(dict.fromkeys([*names, *(source.home(name)[1] for name in names)]))
    for pattern in source.drop:
        if not any(fits(name, pattern) for name in known):
            raise ValueError(f"--drop: {_no_feature(pattern, known, source, 'no file has a')}")


def _no_feature(name: str, names: list[str], source: Source, lacks: str = "") -> str:
    """Why a column is not among those to learn from."""
    roles = dict.fromkeys(source.targets, "the target") | {source.key: "the column of ids"}
    if name in roles:
        return f"{name!r} is {roles[name]}, which is in no view; do not name it here"
    if not lacks and not source.keeps(name):
        return f"{name!r} is left out by --drop; do not name it here"
    lacks = lacks or f"{source.table} has no"
    return f"{lacks} column {name!r}; {did_you_mean(name, names)}"


def _matrices(source: Source, rows: int) -> dict[str, Any]:
    if len(source.matrices) < len(source.views):
        raise ValueError("--view: kernel matrices (.npy) and columns cannot be mixed")
    found = {name: read_matrix(path) for name, path in source.matrices.items()}
    kept = np.ones(rows, dtype=bool) if source.kept is None else source.kept
    rows = len(kept)
    for name, matrix in found.items():
        if matrix.shape != (rows, rows):
            raise ValueError(
                f"--view {name}: the matrix must be {rows} × {rows}, a row and a column for each "
                f"row of {source.table}; found {matrix.shape[0]} × {matrix.shape[1]}"
            )
    return {name: matrix[np.ix_(kept, kept)] for name, matrix in found.items()}
