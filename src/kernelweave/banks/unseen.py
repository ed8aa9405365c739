"""Categories of new rows that no training row had: they agree with none, which is worth telling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelweave._core.checks import some
from kernelweave._core.warnings import UnseenCategory, warn
from kernelweave.banks.member import Member
from kernelweave.views.table import Table


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
