"""What rows lack, in training and later, and what new rows hold that no training row had.

Which views a row may lack is the user's choice; what lacks is said, and may get a kernel of who has
the view. Categories that no training row had agree with none, which is worth telling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from kernelweave._core.checks import shown, some
from kernelweave._core.types import Array, Mask
from kernelweave._core.warnings import LacksView, UnseenCategory, warn
from kernelweave.banks.member import Group, Member
from kernelweave.banks.normalize import RULES
from kernelweave.banks.plan import Planned, Request
from kernelweave.kernels.categorical import Hamming
from kernelweave.views.columns import View
from kernelweave.views.table import Table

MISSING = ("mean", "indicator", "error")
LITTLE = 0.05  # of the weight: rows whose views have less are told
BLIND = f"no view, or views with less than {100 * LITTLE:g} % of the weight"  # what these have


# ---- rows that lack a view -----------------------------------------------------------------------


def count_filled(plan: list[Planned], table: Table) -> dict[str, int]:
    """How many cells are filled in, by the name of their column; columns without any left out.

    A cell that several views fill counts once.
    """
    filled: dict[int, Mask] = {}
    for view in (planned.view for planned in plan):
        if view.filling is None:
            continue
        has = ~table.lacking(view.columns)
        for column in view.columns:
            filled[column] = filled.get(column, False) | (table.lacking([column]) & has)
    counts: Counter[str] = Counter()
    for column, cells in filled.items():
        counts[table.label(column)] += int(cells.sum())
    return dict(+counts)


def tell_missing(
    groups: list[Group], table: Table, weights: Array | None, missing: str, *, centered: bool
) -> list[Group]:
    """Tell which views are incomplete; refuse rows without any; the kernels of who has a view.

    ``centered``: the user has asked for centered kernels, and need not be told.
    """
    incomplete = dict[tuple[int, ...], Group]()
    for group in groups:
        if group.places is not None:
            incomplete[group.rows.view.columns] = group
    if not incomplete:
        return []
    _refuse_lost_rows(groups, len(table))
    if not centered:
        told = [
            f"{group.rows.view.name!r} ({len(table) - len(group.rows)})"
            for group in incomplete.values()
        ]
        sphere = all(RULES[group.rule][1] == "sphere" for group in incomplete.values())
        rule = "center+sphere" if sphere else "center+trace"
        warn(
            f"Rows lack a view (of {len(table)}): {some(told)}. Kernels on such a view are "
            "centered over the rows that have it, and the others stand at its mean. "
            f'KernelBank(normalize="{rule}") centers all kernels, without this warning.',
            LacksView,
        )
    if missing != "indicator":
        return []
    found = []
    for group in incomplete.values():
        view = replace(group.rows.view, presence=True, shift=None, factor=None, filling=None)
        request = Request(f"has {view.name}", view.name, Hamming())
        found.append(Planned(view, None, group.rule, [request]).fit(table, weights))
    return found


def _refuse_lost_rows(groups: list[Group], n: int) -> None:
    """Raise ValueError if rows lack every view: nothing is known of them."""
    lost = np.ones(n, dtype=bool)
    for group in groups:
        lost[slice(None) if group.places is None else group.places] = False
    if lost.any():
        raise ValueError(
            f"X: {np.count_nonzero(lost)} of {n} rows lack every view (all columns NaN); "
            f"the first is row {np.argmax(lost)}. Leave them out of X and y."
        )


# ---- new rows ------------------------------------------------------------------------------------


def read_new(X: Any, table: Table, members: Sequence[Member]) -> Table:
    """New rows for kernels fitted on ``table``: numbers where kernels read numbers.

    That holds for every kernel of the bank, whatever its weight. Warns of categories that are
    numbers here and strings there.
    """
    new = table.adopt(Table.read(X))
    same = bool((new.numeric == table.numeric).all())
    whole, views = set[int](), dict[View, bool]()
    for member in members:
        views[member.view] = member.numeric
    for view, numeric in views.items():
        if not numeric:
            continue
        if not same:
            new.check_still_numbers(view.columns)
        rows = view.in_rows(new) if view.may_lack else slice(None)
        if isinstance(rows, slice) and view.filling is None:
            whole.update(view.columns)
        else:
            new.floats(view.columns, rows, filling=view.filling)
    new.floats(sorted(whole))
    if not same:
        _tell_other_levels(new, table, members)
    return new


def seen_weight(new: Table, members: Sequence[Member], weights: Array) -> Array:
    """The share of the weight whose views each row has; the mean over machines, if there are some.

    ``weights``: of all kernels, (m,), or (k, m) for k machines.
    """
    if not any(map(attrgetter("view.may_lack"), members)):
        return np.ones(len(new))
    sizes = np.abs(np.atleast_2d(weights))
    totals = sizes.sum(axis=1, keepdims=True)
    shares = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0.0).mean(axis=0)
    by_view: dict[View, float] = {}
    for member, share in zip(members, shares.tolist(), strict=True):
        by_view[member.view] = by_view.get(member.view, 0.0) + share
    found, total = np.zeros(len(new)), 0.0
    for view, share in by_view.items():
        if share:
            found[view.in_rows(new)] += share
        total += share
    return found / total if total else np.ones(len(new))


def _tell_other_levels(new: Table, table: Table, members: Sequence[Member]) -> None:
    """Warn of columns of categories that held numbers in ``fit`` and strings now, or vice versa."""
    columns = {
        column
        for m in members
        if m.kernel is not None and m.kernel.reads == "levels" and not m.view.presence
        for column in m.view.columns
    }
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


def unseen_categories(new: Table, members: Sequence[Member]) -> dict[str, int]:
    """How many cells hold one, by column; empty cells do not count."""
    known = {
        member.view: codes
        for member in members
        if (codes := _codes(member.kernel)) and not member.view.presence
    }
    found = dict[str, int]()
    for view, codes in known.items():
        for column, levels in zip(view.columns, codes.levels, strict=True):
            cells = new.raw([column])[~new.lacking([column]), 0].tolist()
            if count := sum(cell not in levels for cell in cells):
                found[new.label(column)] = count
    return found


def _codes(kernel: Any) -> Any:
    """The levels that a kernel knows, or the one that features stand for; None without any."""
    return getattr(getattr(kernel, "kernel", kernel), "codes", None)


def tell_unseen(new: Table, members: Sequence[Member]) -> None:
    """Warn of them."""
    if found := unseen_categories(new, members):
        cells = some([f"{count} in {name!r}" for name, count in found.items()])
        warn(
            f"Of the {len(new)} rows of X, some hold categories that no training row had: {cells}. "
            "Such a category agrees with none.",
            UnseenCategory,
        )
