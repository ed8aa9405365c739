"""One table from the tables of several views, row by row of the same thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, overload

import numpy as np

from kernelweave._core.checks import is_sparse, shown, some
from kernelweave._core.extras import missing
from kernelweave._core.warnings import warn


class JoinedViews(NamedTuple):
    """``X``: one data frame; ``views``: the columns of each view by position."""

    X: Any
    views: dict[str, slice]


class JoinedTarget(NamedTuple):
    """``X``: one data frame; ``views``: the columns of each view by position; ``y``: the target."""

    X: Any
    views: dict[str, slice]
    y: Any


@overload
def join_views(frames: Any, target: None = None) -> JoinedViews: ...


@overload
def join_views(frames: Any, target: str) -> JoinedTarget: ...


def join_views(frames: Any, target: str | None = None) -> JoinedViews | JoinedTarget:
    """Join the tables of several views into one, aligned on their index.

    Parameters
    ----------
    frames : {name: table}, list of tables, MuData or AnnData
        Data frames whose index names the rows, in any order; or arrays and other tables without
        an index, whose rows are in the same order. Views in a list are named view1, view2, ….
        AnnData is the table of its ``X``, observations by variables; MuData has such a table for
        each modality. Sparse ones become dense. Other layers: ``adata.to_df(layer=…)``.
    target : str, optional
        The column of ``obs`` to predict, of MuData or of the first AnnData that has it. Rows
        without a target are left out.

    Returns
    -------
    X : DataFrame
        Columns ``view__column``. Rows are those of the first table, then those that only later
        ones have. A row that a table does not have lacks that view: its columns are NaN, and a
        warning counts and names such rows. ``y.loc[X.index]`` puts labels in the same order.
    views : {name: slice}
        For ``KernelBank(views=…)``, by position, which still works where another step strips
        names. The columns of X must keep their order: a step that moves them, such as a
        ``ColumnTransformer``, mixes up the views. ``KernelBank(impute="median")`` fills empty cells
        without one.
    y : Series
        Only with ``target``: its values, by row of X.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelweave import KernelBank, MKLClassifier, join_views
    >>> gene = pd.DataFrame({"a": [0.1, 2.0, 0.3, 1.9]}, index=["p1", "p2", "p3", "p4"])
    >>> lipid = pd.DataFrame({"a": [7.0, 1.0, 8.0, 2.0]}, index=["p4", "p3", "p2", "p1"])
    >>> X, views = join_views({"gene": gene, "lipid": lipid})
    >>> list(X.columns), views
    (['gene__a', 'lipid__a'], {'gene': slice(0, 1, None), 'lipid': slice(1, 2, None)})
    >>> model = MKLClassifier(KernelBank(views=views)).fit(X, [0, 1, 0, 1])
    """
    given = _named(frames)
    y = None if target is None else _target([frames, *given.values()], target)
    tables = {name: _table(name, table) for name, table in given.items()}
    read = {name: _read(name, table) for name, table in tables.items()}
    if not all(hasattr(table, "iloc") for table in tables.values()):
        _check_same_rows(read)
    _check_names(read)
    ids = _ids(read)
    parts, views, start = [], {}, 0
    for name, frame in read.items():
        parts.append(_aligned(frame, ids).add_prefix(f"{name}__"))
        views[name] = slice(start, start + frame.shape[1])
        start += frame.shape[1]
    import pandas as pd

    X = pd.concat(parts, axis=1)
    if y is None:
        return JoinedViews(X, views)
    X = X[X.index.isin(y.index)]
    if not len(X):
        raise ValueError(f"join_views: no row has a value of the target {target!r}.")
    return JoinedTarget(X, views, y.loc[X.index])


def _is_annotated(table: Any) -> bool:
    """Whether this is an AnnData: a matrix with names of its rows and columns."""
    return all(hasattr(table, name) for name in ("X", "obs", "var", "to_df"))


def _table(name: str, table: Any) -> Any:
    """A table as it is; that of an AnnData."""
    if not _is_annotated(table):
        return table
    if table.X is None:
        raise ValueError(
            f"join_views: {name!r} is an AnnData without X; give a layer as a table, "
            "adata.to_df(layer=…)."
        )
    return table.to_df()


def _target(holders: list[Any], name: str) -> Any:
    """A column of the annotations of rows, those without a value left out."""
    known: list[Any] = []
    for holder in holders:
        obs = getattr(holder, "obs", None)
        if obs is None or not hasattr(obs, "columns"):
            continue
        if name in obs.columns:
            return obs[name].dropna()
        known += [column for column in obs.columns if column not in known]
    told = f"they have {some(map(repr, known))}" if known else "only AnnData and MuData have some"
    raise ValueError(f"join_views: no annotations of rows have a column {name!r}; {told}.")


def _named(frames: Any) -> dict[str, Any]:
    if hasattr(frames, "mod") and hasattr(frames, "obs"):  # MuData
        return {str(name): table for name, table in frames.mod.items()}
    if _is_annotated(frames):
        return {"view1": frames}
    if isinstance(frames, Mapping):
        tables = {str(name): table for name, table in frames.items()}
    elif isinstance(frames, Iterable) and not hasattr(frames, "columns"):
        tables = {f"view{k}": table for k, table in enumerate(frames, start=1)}
    else:
        raise TypeError(
            f"join_views takes {{name: table}} or a list of tables; found {type(frames).__name__}."
        )
    if not tables:
        raise ValueError("join_views: no table was given.")
    return tables


def _read(name: str, table: Any) -> Any:
    """The table as a data frame with flat column names and one row per id."""
    try:
        import pandas as pd
    except ImportError:
        raise missing("join_views needs", "pandas", "pandas") from None
    if is_sparse(table):
        raise TypeError(
            f"join_views: {name!r} is sparse. Join sparse tables of the same rows by "
            "scipy.sparse.hstack, and give their columns as slices in KernelBank(views=…)."
        )
    if isinstance(table, pd.Series):
        table = table.to_frame(name if table.name is None else table.name)
    elif hasattr(table, "columns") and not hasattr(table, "iloc"):  # a frame of another library
        table = pd.DataFrame({column: table[column].to_numpy() for column in table.columns})
    elif not hasattr(table, "iloc"):
        table = np.asarray(table)
        if table.ndim not in (1, 2):
            raise ValueError(
                f"join_views: {name!r} must be a table, an array of two dimensions; found "
                f"{shown(table)}."
            )
        table = pd.DataFrame(table).add_prefix("x")
    table = table.set_axis([_flat(column) for column in table.columns], axis=1)
    for what, labels, cure in (
        ("columns", table.columns, "frame.loc[:, ~frame.columns.duplicated()]"),
        (
            "ids in its index",
            table.index,
            "frame[~frame.index.duplicated()] or frame.groupby(level=0).mean()",
        ),
    ):
        twice = labels[labels.duplicated()].unique()
        if len(twice):
            raise ValueError(
                f"join_views: {name!r} has {len(twice)} {what} more than once: "
                f"{some(map(repr, twice))}. Keep one of each, such as {cure}."
            )
    if not table.shape[1]:
        raise ValueError(f"join_views: {name!r} has no columns.")
    return table


def _flat(column: Any) -> str:
    return "_".join(map(str, column)) if isinstance(column, tuple) else str(column)


def _check_same_rows(read: dict[str, Any]) -> None:
    """Tables without an index are aligned by position: all must have the same rows."""
    lengths = {name: len(frame) for name, frame in read.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"join_views: tables without an index must have the same rows; found {lengths} rows. "
            "Give data frames whose index names the rows."
        )
    named = [name for name, frame in read.items() if list(frame.index) != list(range(len(frame)))]
    if named:
        raise ValueError(
            f"join_views: {named[0]!r} names its rows in its index, but others have no index. Give "
            "all as data frames with an index, or frame.to_numpy() if rows are in the same order."
        )


def _check_names(read: dict[str, Any]) -> None:
    """Raise ValueError if columns of two views get the same name."""
    owners: dict[str, str] = {}
    for view, frame in read.items():
        for column in frame.columns:
            name = f"{view}__{column}"
            if name in owners:
                raise ValueError(
                    f"join_views: views {owners[name]!r} and {view!r} both give a column {name!r}. "
                    "Rename one of the views."
                )
            owners[name] = view


def _ids(read: dict[str, Any]) -> Any:
    """All ids, those of the first table first; warns of rows that some table does not have."""
    names = list(read)
    ids = read[names[0]].index
    for name in names[1:]:
        own = read[name].index
        if not ids.isin(own).any():
            raise ValueError(
                f"join_views: {name!r} has no id in common with the tables before it: "
                f"{some(map(repr, own), 3)} against {some(map(repr, ids), 3)}. Give all the same "
                "ids, frame.set_index(…), as numbers or as strings."
            )
        ids = ids.append(own[~own.isin(ids)])
    told = []
    for name, frame in read.items():
        lacking = ids[~ids.isin(frame.index)]
        if len(lacking):
            told.append(f"{name!r} lacks {len(lacking)} ({some(map(repr, lacking))})")
    if told:
        warn(
            f"join_views: of {len(ids)} rows, {'; '.join(told)}. These rows lack the view, see "
            "KernelBank(missing=…). For rows that all have, X.dropna()."
        )
    return ids


def _aligned(frame: Any, ids: Any) -> Any:
    """The rows of these ids; booleans become numbers where rows are missing."""
    if ids.isin(frame.index).all():
        return frame.reindex(ids)
    flags = {column: float for column, dtype in frame.dtypes.items() if str(dtype) == "bool"}
    return frame.astype(flags).reindex(ids)
