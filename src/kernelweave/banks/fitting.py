"""Fits the kernels of a view to the training rows that have it, and reads new rows.

Which views a row may lack is the user's choice; what lacks is said, and may get a kernel of who has
the view.
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
from kernelweave._core.warnings import LacksView, warn
from kernelweave.banks.member import Group, Member, named
from kernelweave.banks.normalize import RULES
from kernelweave.banks.plan import Planned, Request
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.categorical import Hamming
from kernelweave.kernels.precomputed import Precomputed, check_same_rows
from kernelweave.views.columns import View
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table

MISSING = ("mean", "indicator", "error")
LITTLE = 0.05  # of the weight: rows whose views have less are told
BLIND = f"no view, or views with less than {100 * LITTLE:g} % of the weight"  # what these have


# ---- training rows -------------------------------------------------------------------------------


def fit_view(planned: Planned, table: Table, weights: Array | None) -> Group:
    """Fitted kernels of one view; all dropped if its columns are constant on its rows."""
    check_view(planned, table)
    view, numeric = planned.view, planned.numeric
    places = view.rows_of(table) if view.may_lack else None
    if places is not None:
        table, weights = table.take(places), None if weights is None else weights[places]
    if numeric and planned.scale is not None and len(table):
        view = view.scaled(planned.scale, table, weights)
    rows, members = Rows(table, view, weights), list[Member]()
    why = _nothing_to_learn(view, table, numeric)
    for name, label, kernel in planned.requests:
        if why is not None:
            members.append(Member(name, label, view, numeric, dropped=why))
            continue
        for suffix, fitted in _expanded(name, kernel, rows):
            whole = f"{name} [{suffix}]" if suffix else name
            alone = table.shares and kernel.of_two_rows and fitted == kernel
            members.append(Member(whole, label, view, kernel.numeric, fitted, alone=alone))
    if places is not None and table.apart:
        held: Any = table
        held.let_go()  # workers need not hold a copy of these rows for each view
    return Group(rows, members, planned.rule, places)


def check_view(planned: Planned, table: Table) -> None:
    """Raise an error that names what kernels of the view cannot read."""
    view, requests = planned.view, planned.requests
    matrices = [one for one in requests if isinstance(one.kernel, Precomputed)]
    if matrices:
        check_same_rows(matrices)
    if table.sparse:
        _check_sparse(requests)
    if planned.numeric:
        rows: Any = Rows.having(table, view)[1]
        read = rows.table.check_finite if table.apart else rows.table.floats
        read(view.columns, gaps=planned.gaps, filling=view.filling)


def _check_sparse(requests: list[Request]) -> None:
    """Raise TypeError if some kernel needs X dense."""
    dense = [kernel.label() for _, _, kernel in requests if not kernel.takes_sparse]
    if dense:
        raise TypeError(
            f"Sparse data was passed for X, but {some(dense)} needs dense data. Use Linear, "
            "Polynomial or Gaussian, or X.toarray()."
        )


def _nothing_to_learn(view: View, table: Table, numeric: bool) -> str | None:
    """Why no kernel learns from the view; to kernels on categories an empty cell is a level."""
    if not len(table):
        return "no training row has its view"
    filling = view.filling if numeric else None
    if len(table) > 1 and not view.presence and table.constant(view.columns, filling):
        return "its columns are constant on the training rows"
    return None


def _expanded(name: str, kernel: Kernel, rows: Rows) -> list[tuple[str, Kernel]]:
    """The fitted kernels of one item; errors name it."""
    weights = rows.weights
    if not kernel.takes_weights and weights is not None and weights.min() < weights.max():
        raise ValueError(
            f"Kernel {name!r} learns from the training rows and cannot weigh them: leave "
            "sample_weight out, repeat rows, or give class_weight, which kernels do not see."
        )
    with named(name):
        return kernel.expand(rows)


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
        found.append(fit_view(Planned(view, None, group.rule, [request]), table, weights))
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
