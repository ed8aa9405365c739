"""Predictions for tables, some rows at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from kernelweave._cli.data import Source, check_target, join, read_ids
from kernelweave._cli.lacking import Lacking, parts_of_model
from kernelweave._cli.models import Labelled, labels
from kernelweave._cli.tables import column, pieces, read_matrix
from kernelweave._core.atomic import written
from kernelweave._core.checks import some
from kernelweave.io.model_file import load


def predict_table(path: str, source: Source, output: str | None, decision: bool) -> None:
    """Write ids, predictions and, if asked for, decision values, as CSV."""
    model, source = _loaded(path, source)
    if decision and not hasattr(model, "decision_function"):
        raise ValueError("--decision: a regression has no decision values beside its predictions")
    rows = Lacking(parts_of_model(model))
    with _opened(output) as file:
        for number, (ids, X) in enumerate(_rows(model, source)):
            rows.count(X)
            frame = _predicted(model, X, ids, decision)
            frame.to_csv(file, index=False, header=number == 0, lineterminator="\n")
    rows.tell("they are predicted from what they have")


def labelled_rows(path: str, source: Source) -> tuple[Any, Labelled]:
    """A model, and the rows of a table with their targets."""
    if source.target is None:
        raise ValueError("the targets of the rows are needed: name their column with --target")
    model, source = _loaded(path, source)
    task = "classification" if hasattr(model, "classes_") else "regression"
    ((ids, X),) = _whole(model, source)
    assert source.table is not None
    y = labels(check_target(source.read(source.table), source), task)
    rows = Lacking(parts_of_model(model))
    rows.count(X)
    rows.tell("there they count as average rows")
    known = {str(label) for label in getattr(model, "classes_", y)}
    strange = sorted({str(label) for label in y} - known)
    if strange:
        raise ValueError(f"the model does not know class {some(map(repr, strange))}")
    words = getattr(getattr(model, "classes_", y), "dtype", y.dtype).kind == "U"
    return model, Labelled(X, y.astype(str) if words else y, ids)


def _loaded(path: str, source: Source) -> tuple[Any, Source]:
    """A model, and the source with the columns in which it saw words."""
    model = load(path)
    if not hasattr(model, "feature_names_in_"):
        return model, source
    numeric = model.bank_.table.numeric
    words = [name for name, number in zip(_names(model), numeric, strict=True) if not number]
    return model, replace(source, words=tuple(words))


def _rows(model: Any, source: Source) -> Iterator[tuple[Any, Any]]:
    """Ids and X, in pieces where there is a single table."""
    if source.files or source.matrices:
        yield from _whole(model, source)
        return
    assert source.table is not None
    names = _names(model)
    texts = source.words if source.key is None else (*source.words, source.key)
    for frame in pieces(source.table, source.delimiter, texts=texts):
        yield _ids(frame, source), _chosen(frame, names, model, source)


def _whole(model: Any, source: Source) -> Iterator[tuple[Any, Any]]:
    """Ids and X, all rows at once."""
    assert source.table is not None
    frame = source.read(source.table)
    ids = None if source.key is None else read_ids(frame, source.key, source.table)
    if source.matrices:
        yield ids, {name: read_matrix(path) for name, path in source.matrices.items()}
        return
    joined = join(frame, ids, replace(source, target=None))
    yield ids, _chosen(joined, _names(model), model, source)


def _names(model: Any) -> list[str]:
    if not hasattr(model, "feature_names_in_"):
        raise ValueError("the model was fitted without column names; predict in Python instead")
    return [str(name) for name in model.feature_names_in_]


def _chosen(frame: Any, names: list[str], model: Any, source: Source) -> Any:
    lacking = [name for name in names if name not in frame.columns]
    if not lacking:
        return frame[names]
    told = f"{source.table} lacks columns of the model: {some(map(repr, lacking))}"
    views = [view for view in dict.fromkeys(model.bank_.views) if view not in source.files]
    files = [view for view in views if any(name.startswith(f"{view}__") for name in lacking)]
    if files:
        add = "".join(f" --view {view}=FILE" for view in files)
        key = "" if source.key is not None else " --id ID"
        told += f"; add{key}{add}. Where no row has a view, FILE may be a header alone"
    raise ValueError(told)


def _ids(frame: Any, source: Source) -> Any:
    return None if source.key is None else column(frame, source.key, str(source.table))


def _predicted(model: Any, X: Any, ids: Any, decision: bool) -> Any:
    import pandas as pd

    columns = {} if ids is None else {str(ids.name): ids.to_numpy()}
    columns["prediction"] = model.predict(X)
    if decision:
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
