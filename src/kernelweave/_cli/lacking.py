"""What rows lack: whole views and single cells, counted and told once for a whole command."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kernelweave._cli.data import Data, counted
from kernelweave._cli.models import Options, bank_of, rows_of
from kernelweave._cli.output import say
from kernelweave._core.checks import some
from kernelweave._core.types import Array
from kernelweave._core.warnings import SeesLittle
from kernelweave.banks.unseen import BLIND, LITTLE, count_filled
from kernelweave.views.table import Table

Part = tuple[str, tuple[str, ...]]  # a view, and the names of those of its columns that go together


def told_of_data(data: Data, options: Options) -> list[str]:
    """What is told of rows to learn from that lack views or cells.

    Raises ValueError if cells are empty and the user wants none filled.
    """
    rows = Lacking(_parts_of_data(data))
    rows.count(data.frame)
    return [*rows.told("there they count as average rows"), *_told_filled(data, options)]


class NewRows:
    """Rows for a fitted model: counts those that lack a view, and the empty cells of the others."""

    def __init__(self, model: Any) -> None:
        warnings.simplefilter("ignore", SeesLittle)  # told here
        self._model = model
        self._rows = self._blind = 0
        self._lacking = Lacking(_parts_of_model(model))
        self._views = list({member.view: member for member in model.bank_.members}.values())
        self._cells = Counter[str]()
        self._numbers = numbers_of_model(model)

    @property
    def may_lack(self) -> bool:
        """Whether rows may lack a view and have another one."""
        return self._lacking.possible

    def count(self, X: Any) -> Array:
        """Look at the rows of one more table, or of matrices, which have no cells to fill.

        Returns the share of the weight whose views each row has.
        """
        self._lacking.count(X)
        seen: Array = self._model.seen_weight(X)
        self._rows += len(seen)
        self._blind += int(np.count_nonzero(seen < LITTLE))
        if hasattr(X, "columns") and X.isna().to_numpy().any():
            self._cells.update(count_filled(self._views, Table.read(X)))
        return seen

    def tell(self, then: str) -> None:
        """Say what was found; ``then``: what becomes of rows that lack a view."""
        for line in self._lacking.told(then):
            say(line)
        if self._blind:
            say(
                f"of {counted(self._rows, 'row')}, {self._blind} have {BLIND}: they get about the "
                "value of an average row, whatever else they hold"
            )
        for line in _told_cells(self._cells, self._numbers, "filled as in training"):
            say(line)


class Lacking:
    """Counts the rows of some tables that lack a view, or all its numbers or words."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = list(parts)
        self._rows = self._lost = 0
        self._counts = Counter[str]()

    @property
    def possible(self) -> bool:
        """Whether rows may lack some part; they must have the only one."""
        return len(self._parts) > 1

    def count(self, frame: Any) -> None:
        """Look at the rows of one more table."""
        if not self.possible:
            return
        self._rows += len(frame)
        lacks: dict[str, Any] = {}
        for view, names in self._parts:
            lacks[view] = lacks.get(view, False) | frame[list(names)].isna().all(axis=1)
        self._counts.update({view: int(rows.sum()) for view, rows in lacks.items()})
        every = [name for _, part in self._parts for name in part]
        self._lost += int(frame[every].isna().all(axis=1).sum())

    def told(self, then: str) -> list[str]:
        """How many rows lack which view, or all, and what becomes of them: a line for each."""
        told = [f"{view!r} ({count})" for view, count in self._counts.items() if count]
        parts = Counter(view for view, _ in self._parts)
        mixed = any(parts[view] > 1 for view, count in self._counts.items() if count)
        part = ", or all its numbers or all its words" if mixed else ""
        rows = counted(self._rows, "row")
        lines = [f"of {rows}, some lack a view{part}: {', '.join(told)}; {then}"] if told else []
        if self._lost:
            lines.append(
                f"of {rows}, {self._lost} without a value in any view: nothing is known of them"
            )
        return lines


def _parts_of_data(data: Data) -> list[Part]:
    """The numbers and the words of each view: kernels read them apart."""
    found = []
    for view, names in data.views.items():
        numbers = tuple(name for name in names if name in data.numbers)
        words = tuple(name for name in names if name not in data.numbers)
        found += [(view, part) for part in (numbers, words) if part]
    return found


def numbers_of_model(model: Any) -> list[str]:
    """The columns that held numbers when the model was fitted; none of a model of matrices."""
    names = map(str, getattr(model, "feature_names_in_", ()))
    return [name for name, number in zip(names, model.bank_.table.numeric, strict=False) if number]


def _parts_of_model(model: Any) -> list[Part]:
    """What rows may lack, as the model was fitted."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    views = [(m.view_name, m.view.columns) for m in model.bank_.members if m.view.may_lack]
    return [(view, tuple(names[c] for c in columns)) for view, columns in dict.fromkeys(views)]


def _told_filled(data: Data, options: Options) -> list[str]:
    if data.matrices or not data.frame.isna().to_numpy().any():
        return []
    filling = replace(options, impute=options.impute or "median")
    counts = bank_of(data, filling).filled_cells(rows_of(data))
    if counts and options.impute is None:
        raise ValueError(
            f"empty cells: {_by_column(counts)}; --impute none refuses them. Without that option "
            "numbers are filled with the median of the training rows"
        )
    how = f"filled with the {options.impute} of the training rows"
    return _told_cells(counts, data.numbers, how)


def _told_cells(counts: Mapping[str, int], numbers: Iterable[str], how: str) -> list[str]:
    """What is put into empty cells, in words: a line for numbers, and one for categories."""
    groups = {how: set(numbers) & set(counts), "a level of their own": set(counts) - set(numbers)}
    found = {
        then: {n: c for n, c in counts.items() if n in names} for then, names in groups.items()
    }
    return [f"empty cells: {_by_column(cells)}; {then}" for then, cells in found.items() if cells]


def _by_column(counts: Mapping[str, int]) -> str:
    return some([f"{count} in {name!r}" for name, count in counts.items()])
