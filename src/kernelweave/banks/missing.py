"""Rows that lack a view: which views they may lack, what is said, and the kernel of who has it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from kernelweave._core.checks import check_choice, some
from kernelweave._core.types import Array, Mask
from kernelweave._core.warnings import LacksView, warn
from kernelweave.banks.fitting import fit_view
from kernelweave.banks.member import Group
from kernelweave.banks.normalize import RULES
from kernelweave.banks.plan import Planned
from kernelweave.kernels.categorical import Hamming
from kernelweave.views.columns import FILLINGS
from kernelweave.views.table import Table

MISSING = ("mean", "indicator", "error")


def check_missing(missing: Any) -> bool:
    """Whether rows may lack a view; raises ValueError unless ``missing`` is one of the three."""
    check_choice("missing", missing, MISSING)
    return bool(missing != "error")


def check_impute(impute: Any) -> str | None:
    """``impute``; raises ValueError unless it names a way to fill empty cells, or is None."""
    check_choice("impute", impute, (None, *FILLINGS))
    return impute


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
    incomplete = {group.rows.view.columns: group for group in groups if group.places is not None}
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
        request = (f"has {view.name}", view.name, Hamming())
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
