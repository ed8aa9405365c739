"""Rows that lack a view: how many, told once for a whole command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kernelweave._cli.data import Data
from kernelweave._cli.output import say

Part = tuple[str, tuple[str, ...]]  # a view, and the names of those of its columns that go together


def parts_of_data(data: Data) -> list[Part]:
    """The numbers and the words of each view: kernels read them apart."""
    found = []
    for view, names in data.views.items():
        numbers = tuple(name for name in names if name in data.numbers)
        words = tuple(name for name in names if name not in numbers)
        found += [(view, part) for part in (numbers, words) if part]
    return found


def parts_of_model(model: Any) -> list[Part]:
    """What rows may lack, as the model was fitted."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    views = [(m.view_name, m.view.columns) for m in model.bank_.members if m.view.may_lack]
    return [(view, tuple(names[c] for c in columns)) for view, columns in dict.fromkeys(views)]


class Lacking:
    """Counts the rows of some tables that lack a view, or all its numbers or words."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = list(parts)
        self._rows = 0
        self._counts = Counter[str]()

    def count(self, frame: Any) -> None:
        """Look at the rows of one more table."""
        if len(self._parts) < 2:  # rows must have the only one
            return
        self._rows += len(frame)
        lacks: dict[str, Any] = {}
        for view, names in self._parts:
            lacks[view] = lacks.get(view, False) | frame[list(names)].isna().all(axis=1)
        self._counts.update({view: int(rows.sum()) for view, rows in lacks.items()})

    def tell(self, then: str) -> None:
        """Say how many rows lack which view, and what becomes of them."""
        told = [f"{view!r} ({count})" for view, count in self._counts.items() if count]
        parts = Counter(view for view, _ in self._parts)
        mixed = any(parts[view] > 1 for view, count in self._counts.items() if count)
        part = ", or all its numbers or all its words" if mixed else ""
        if told:
            say(f"of {self._rows} rows, some lack a view{part}: {', '.join(told)}; {then}")
