"""Why rows of a table get their predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._cli.data import Source
from kernelweave._cli.lacking import NewRows
from kernelweave._cli.output import show_json
from kernelweave._cli.predicting import loaded, rows_of
from kernelweave._core.checks import some
from kernelweave.inspection import explain


def explain_rows(
    path: str, source: Source, wanted: tuple[str, ...], picture: str | None, as_json: bool
) -> None:
    """Print, for each row wanted, what its views and columns add; draw the first of them.

    ``wanted``: ids where the source has a column of them, else numbers of rows, the first is 1.
    """
    model, source = loaded(path, source)
    found = list[tuple[str, Any]]()
    for ids, X in rows_of(model, source):
        names = [str(name) for name in ids] if ids is not None else _numbers(X, len(found))
        found += [(name, (X, place)) for place, name in enumerate(names)]
    known = dict(found)
    strange = [name for name in wanted if name not in known]
    if strange:
        what = "row" if source.key is None else source.key
        several = some([name for name, _ in found], 3)
        raise ValueError(f"{source.table} has no {what} {some(strange)}; it has {several}, …")
    lacking, told = NewRows(model), list[dict[str, Any]]()
    for number, name in enumerate(wanted):
        X, place = known[name]
        row = X.iloc[[place]] if hasattr(X, "iloc") else {v: K[[place]] for v, K in X.items()}
        lacking.count(row)
        explained = explain(model, row)
        if number == 0 and picture is not None:
            drawn: Any = explained.plot().figure
            drawn.savefig(picture, bbox_inches="tight", dpi=150)
        if as_json:
            told.append({"row": name, **_described(explained)})
        else:
            print(f"{'row' if source.key is None else source.key} {name}")
            print(f"{explained.in_words(first=1)}\n")
    if as_json:
        show_json(told)
    lacking.tell("these views add nothing to such a row's value")


def _numbers(X: Any, start: int) -> list[str]:
    size = len(X) if hasattr(X, "iloc") else len(next(iter(X.values())))
    return [str(start + row + 1) for row in range(size)]


def _described(explained: Any) -> dict[str, Any]:
    views = explained.by_view().drop(columns="row").to_dict("records")
    columns = explained.by_column().drop(columns="row").to_dict("records")
    value = dict(zip(explained.machines, np.round(explained.values[0], 12).tolist(), strict=True))
    pairs = zip(explained.nearest[0].tolist(), explained.similarity[0].tolist(), strict=True)
    near = [{"training row": row + 1, "kernel": value} for row, value in pairs]
    seen = float(explained.seen[0])
    return {"value": value, "views": views, "columns": columns, "nearest": near, "seen": seen}
