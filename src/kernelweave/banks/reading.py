"""Reads new rows for a fitted bank: the columns of ``fit``, with what its kernels can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelweave._core.checks import shown
from kernelweave._core.warnings import warn
from kernelweave.banks.member import Member
from kernelweave.views.table import Table


def read_new(X: Any, table: Table, members: Sequence[Member]) -> Table:
    """New rows for kernels fitted on ``table``: numbers where kernels read numbers.

    That holds for every kernel of the bank, whatever its weight. Warns of rows that lack every
    view, and of categories that are numbers here and strings there.
    """
    new = table.adopt(Table.read(X))
    whole: set[int] = set()
    lost = np.ones(len(new), dtype=bool)
    for view, numeric in {m.view: m.numeric for m in members}.items():
        if numeric:
            new.check_still_numbers(view.columns)
        having = view.rows_of(new)
        rows = slice(None) if having is None else having
        lost[rows] = False
        if numeric and having is None and view.filling is None:
            whole.update(view.columns)
        elif numeric:
            new.floats(view.columns, rows, filling=view.filling)
    new.floats(sorted(whole))
    _tell_other_levels(new, table, members)
    if lost.any():
        warn(
            f"{np.count_nonzero(lost)} of {len(new)} rows of X lack every view, the first is "
            f"row {np.argmax(lost)}: nothing is known of them, and they get the value of an "
            "average row, which is the bias if all kernels are centered."
        )
    return new


def _tell_other_levels(new: Table, table: Table, members: Sequence[Member]) -> None:
    """Warn of columns of categories that held numbers in ``fit`` and strings now, or vice versa."""
    readers = [m for m in members if m.kernel is not None and m.kernel.reads == "levels"]
    columns = {column for m in readers if not m.view.presence for column in m.view.columns}
    for column in sorted(columns):
        if new.numeric[column] == table.numeric[column]:
            continue
        old, found = (t.raw([column])[~t.lacking([column]), 0].tolist() for t in (table, new))
        if old and found and not set(old) & set(found):
            warn(
                f"Column {new.label(column)!r} of X: no value is known from fit, which had "
                f"{type(old[0]).__name__} such as {shown(old[0])}; found "
                f"{type(found[0]).__name__} such as {shown(found[0])}. Convert the column as for "
                "fit: a value that fit has not seen agrees with none."
            )
