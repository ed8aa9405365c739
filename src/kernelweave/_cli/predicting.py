"""Predictions for tables, some rows at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelweave._cli.data import (
    Source,
    check_finite,
    check_rows,
    check_target,
    counted,
    ids_of,
    join,
    read_ids,
    read_rows,
)
from kernelweave._cli.lacking import NewRows, numbers_of_model
from kernelweave._cli.models import Labeled, labels
from kernelweave._cli.output import Texts, say
from kernelweave._cli.tables import pieces, read_matrix
from kernelweave._core.atomic import written
from kernelweave._core.checks import some
from kernelweave.io.model_file import load
from kernelweave.views.cells import reads_as_number


@dataclass(frozen=True)
class Beside:
    """What is written beside the predictions."""

    decision: bool = False
    proba: bool = False

    def check(self, model: Any) -> None:
        """Raise ValueError for what the model does not have."""
        if self.decision and not hasattr(model, "decision_function"):
            raise ValueError(
                "--decision: a regression has no decision values beside its predictions"
            )
        if self.proba and not hasattr(model, "predict_proba"):
            why = "learn them with kernelweave fit --proba"
            if not hasattr(model, "classes_"):
                why = "it predicts numbers"
            raise ValueError(f"--proba: the model has no probabilities; {why}")


def predict_table(
    path: str, source: Source, output: str | None, columns: Beside, raw_text: bool
) -> None:
    """Write ids, predictions and what else is asked for, as CSV.

    Where rows may lack a view, also the share of the weight that their views have.
    """
    model, source = loaded(path, source)
    columns.check(model)
    rows, texts = NewRows(model), Texts(raw_text)
    with _opened(output) as file:
        for number, (ids, X) in enumerate(rows_of(model, source)):
            seen = rows.count(X)
            frame = _predicted(model, X, ids, columns)
            if rows.may_lack:
                frame["weight_seen"] = seen
            frame = texts.plain(frame, names=number == 0)
            frame.to_csv(file, index=False, header=number == 0, lineterminator="\n")
    texts.tell()
    rows.tell(
        "they stand at its mean; weight_seen says how much of the weight their other views have"
    )


def labeled_rows(path: str, source: Source) -> tuple[Any, Labeled]:
    """A model, and the rows of a table with their targets."""
    if not source.targets:
        raise ValueError("the targets of the rows are needed: name their column with --target")
    model, source = loaded(path, source)
    task = "classification" if hasattr(model, "classes_") else "regression"
    task = "survival" if hasattr(model, "predict_time") else task
    if (source.times is not None) != (task == "survival"):
        name = "--time and --event" if task == "survival" else "--target"
        raise ValueError(f"this is a model for {task}: name its targets with {name}")
    frame, source, left_out = read_rows(source)
    ((ids, X),) = _whole(model, source, frame)
    y = labels(check_target(frame, source), task)
    if left_out:
        say(left_out)
    known = {str(label) for label in getattr(model, "classes_", ())}
    strange = sorted({str(label) for label in y} - known) if known else []
    if strange:
        raise ValueError(f"the model does not know class {some(map(repr, strange))}")
    rows = NewRows(model)
    rows.count(X)
    rows.tell("there they count as average rows")
    words = getattr(getattr(model, "classes_", y), "dtype", y.dtype).kind == "U"
    return model, Labeled(X, y.astype(str) if words else y, ids)


def loaded(path: str, source: Source) -> tuple[Any, Source]:
    """A model, and the source with the columns in which it saw words."""
    model = load(path)
    _check_views(model, source)
    if not hasattr(model, "feature_names_in_"):
        return model, source
    numbers = set(numbers_of_model(model))
    words = tuple(name for name in _names(model) if name not in numbers)
    return model, replace(source, words=words)


def _check_views(model: Any, source: Source) -> None:
    """Raise ValueError if --view names what the model does not have, or not what it needs."""
    known = list(dict.fromkeys(model.bank_.views))
    columns = [str(name) for name in getattr(model, "feature_names_in_", ())]
    for view, _ in source.views:
        if view not in known and not any(name.startswith(f"{view}__") for name in columns):
            raise ValueError(f"the model has no view {view!r}; it has {some(map(repr, known))}")
    lacking = [view for view in known if view not in source.matrices]
    if getattr(model, "kernels", None) == "precomputed" and lacking:
        add = "".join(f" --view {view}=FILE.npy" for view in lacking)
        raise ValueError(f"the model reads kernel matrices, new rows by rows of training; add{add}")
    if columns and source.matrices:
        view, path = next(iter(source.matrices.items()))
        raise ValueError(f"--view {view}={path}: the model reads columns, no kernel matrices")


def rows_of(model: Any, source: Source) -> Iterator[tuple[Any, Any]]:
    """Ids and X, in pieces where there is a single table."""
    assert source.table is not None
    if source.files or source.matrices:
        yield from _whole(model, source, source.read(source.table))
        return
    start = 0
    texts = source.words if source.key is None else (*source.words, source.key)
    for frame in pieces(source.table, source.delimiter, texts=texts):
        ids = None if source.key is None else ids_of(frame, source.key, source.table, start)
        yield ids, _chosen(frame, ids, model, source, start)
        start += len(frame)


def _whole(model: Any, source: Source, frame: Any) -> Iterator[tuple[Any, Any]]:
    """Ids and X of the rows of a table, all at once."""
    assert source.table is not None
    ids = None if source.key is None else read_ids(frame, source.key, source.table)
    if source.matrices:
        yield ids, _matrices(source, len(frame))
        return
    joined = join(frame, ids, replace(source, target=None, times=None))
    yield ids, _chosen(joined, ids, model, source)


def _matrices(source: Source, rows: int) -> dict[str, Any]:
    found = {name: read_matrix(path) for name, path in source.matrices.items()}
    kept = np.ones(rows, dtype=bool) if source.kept is None else source.kept
    rows = len(kept)
    for name, matrix in found.items():
        if len(matrix) != rows:
            raise ValueError(
                f"--view {name}: the matrix must have {counted(rows, 'row')}, one for each row of "
                f"{source.table}; found {len(matrix)}"
            )
    return {name: matrix[kept] for name, matrix in found.items()}


def _names(model: Any) -> list[str]:
    if not hasattr(model, "feature_names_in_"):
        raise ValueError("the model was fitted without column names; predict in Python instead")
    return [str(name) for name in model.feature_names_in_]


def _chosen(frame: Any, ids: Any, model: Any, source: Source, start: int = 0) -> Any:
    """The columns of the model, checked; ``ids`` and ``start`` as in ``Source.where``."""
    names = _names(model)
    lacking = [name for name in names if name not in frame.columns]
    if lacking:
        raise ValueError(_lacks(lacking, model, source))
    X = frame[names]
    views = {m.view: [names[c] for c in m.view.columns] for m in model.bank_.members if m.numeric}
    read = list(dict.fromkeys(name for columns in views.values() for name in columns))
    for name in read:
        _check_numbers(X[name], ids, source, start)
    check_finite(X[read], ids, source, start)
    for view, columns in views.items():
        if not view.may_lack:
            check_rows(X[columns], ids, source, start)
        if view.filling is None and not view.presence:
            _refuse_gaps(X[columns], ids, view.may_lack, source, start)
    return X


def _lacks(lacking: list[str], model: Any, source: Source) -> str:
    """Which file lacks columns of the model, and what to add."""
    views = [view for view in dict.fromkeys(model.bank_.views) if view not in source.files]
    files = [view for view in views if any(name.startswith(f"{view}__") for name in lacking)]
    if files:
        add = "".join(f" --view {view}=FILE" for view in files)
        key = "" if source.key is not None else " --id ID"
        told = (
            f"{source.table} lacks columns of the model: {some(map(repr, lacking))}; add{key}{add}"
        )
        return f"{told}. Where no row has a view, FILE may be a header alone"
    homes = [source.home(name) for name in lacking]
    path = homes[0][0]
    there = [column for home, column in homes if home == path]
    what, them = ("a column", "it") if len(there) == 1 else ("columns", "them")
    fills = all(member.view.filling is not None for member in model.bank_.members)
    empty = ", cells may be empty" if fills and len(lacking) < len(_names(model)) else ""
    return f"{path} lacks {what} of the model: {some(map(repr, there))}; add {them}{empty}"


def _check_numbers(cells: Any, ids: Any, source: Source, start: int) -> None:
    """Raise ValueError for text in a column that kernels on numbers read."""
    if cells.dtype.kind in "biuf":
        return
    words = {row: cell for row, cell in enumerate(cells) if isinstance(cell, str)}
    if words:
        row = next((row for row, cell in words.items() if not reads_as_number(cell)), min(words))
        raise ValueError(
            f"{source.named(cells.name)} held numbers in training, but holds {words[row]!r} in "
            f"{source.where(row, ids, start)}: correct it, or empty the cell"
        )


def _refuse_gaps(cells: Any, ids: Any, may_lack: bool, source: Source, start: int) -> None:
    """Raise ValueError for an empty cell of a model that fills none; rows may lack the view."""
    empty = cells.isna().to_numpy()
    empty[empty.all(axis=1) & may_lack] = False
    if empty.any():
        row, place = (int(found[0]) for found in np.nonzero(empty))
        raise ValueError(
            f"{source.named(cells.columns[place])} is empty in {source.where(row, ids, start)}: "
            "fill it in; the model fills no cells, as --impute none asks"
        )


def _predicted(model: Any, X: Any, ids: Any, asked: Beside) -> Any:
    import pandas as pd

    columns = {} if ids is None else {str(ids.name): ids.to_numpy()}
    if hasattr(model, "predict_time"):
        risk = model.predict(X)
        return pd.DataFrame({**columns, "risk": risk, "time": np.exp(-risk)})
    columns["prediction"] = model.predict(X)
    if asked.proba:
        shares = model.predict_proba(X).T
        columns |= {f"probability {c}": p for c, p in zip(model.classes_, shares, strict=True)}
    if asked.decision:
        values = np.asarray(model.decision_function(X))
        if values.ndim == 1:
            columns["decision"] = values
        else:
            names = model.classes_ if values.shape[1] == len(model.classes_) else range(10**6)
            columns |= {
                f"decision {name}": part for name, part in zip(names, values.T, strict=False)
            }
    return pd.DataFrame(columns)


def _opened(output: str | None) -> AbstractContextManager[Any]:
    if output is None or output == "-":
        return nullcontext(sys.stdout)
    return written(output, "w", encoding="utf-8", newline="")
