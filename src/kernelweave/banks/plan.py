"""Which kernel reads which columns: the items and views of a bank, applied to a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelweave._core.checks import check_choice, shown
from kernelweave._core.types import Array
from kernelweave.banks.default import (
    default_category_kernels,
    default_kernels,
    default_rule,
    share_a_unit,
)
from kernelweave.kernels.adapters import as_kernel
from kernelweave.kernels.base import Kernel
from kernelweave.views.columns import SCALES, View
from kernelweave.views.selectors import find_columns, make_views
from kernelweave.views.table import WHOLE_VIEWS, Table, reads_as_number

Request = tuple[str, str, Kernel]  # name of the kernel, name of its view, the kernel

_STRICT = (
    'KernelBank has missing="error"; missing="mean" allows rows that lack a whole view of several.'
)


@dataclass(frozen=True)
class Planned:
    """Kernels that read the same columns at the same scale.

    ``rule``: how they are normalized.
    ``gaps``: what an error about NaN says of rows that lack a view.
    """

    view: View
    scale: str | None
    rule: str | None
    requests: list[Request]
    gaps: str = WHOLE_VIEWS


def make_plan(
    kernels: Any,
    views: Any,
    scale: Any,
    normalize: str | None,
    optional: bool,
    impute: str | None,
    table: Table,
    weights: Array | None,
) -> list[Planned]:
    """Each distinct set of columns, with all kernels that read it.

    ``optional``: rows may lack a view, if there are others. ``impute``: what single empty cells of
    a row that has the view hold; see ``FILLINGS``.
    """
    check_choice("scale", scale, ("auto", *SCALES, None))
    if table.sparse and scale in SCALES:
        raise ValueError(
            f"scale={scale!r} would fill in the zeros of a sparse X: use scale='auto' or None, "
            "which leave its columns as they are. To give columns one size, put "
            "sklearn.preprocessing.MaxAbsScaler before the bank; or pass X.toarray()."
        )
    usual = None if table.sparse else "standard"
    plan: dict[tuple[int, ...], tuple[View, list[Request]]] = {}
    for view, request in _requests(kernels, views, table):
        plan.setdefault(view.columns, (view, []))[1].append(request)
    may_lack = optional and len(plan) > 1
    gaps = WHOLE_VIEWS if optional else _STRICT
    found = []
    for view, requests in plan.values():
        view = replace(view, may_lack=may_lack).filled(impute, table, weights)
        rule = normalize
        if normalize == "auto":
            rule = "trace" if kernels is not None else default_rule(view, table, weights)
        found.append(Planned(view, usual if scale == "auto" else scale, rule, requests, gaps))
        both = kernels is None and scale == "auto" and not table.sparse
        if both and share_a_unit(view, table, weights, gaps):
            again = [(f"{name}, common scale", label, k) for name, label, k in requests]
            found.append(Planned(view, "common", rule, again, gaps))
    return found


def by_position(kernels: Any, views: Any, table: Table) -> tuple[Any, Any]:
    """The items and views of a bank, with columns as positions in ``table``."""

    def placed(item: Any) -> Any:
        if not (has_name(item) and len(item) == 3):
            return item
        name, kernel, columns = item
        return name, kernel, list(find_columns(columns, table, f"kernel {name!r}"))

    items = kernels if kernels is None else [placed(item) for item in as_list(kernels)]
    if isinstance(views, Mapping):
        views = {view.name: list(view.columns) for view in make_views(views, table)}
    return items, views


def _requests(kernels: Any, views: Any, table: Table) -> Iterator[tuple[View, Request]]:
    items = [] if kernels is None else as_list(kernels)
    if not items and kernels is not None:
        raise ValueError("kernels: the bank is empty; give at least one kernel.")
    crossed = [_checked(item) for item in items if not isinstance(item, tuple)]
    for view in make_views(views, table) if crossed or kernels is None else []:
        parts = _default_parts(view, table) if kernels is None else _split(view, crossed, table)
        for part, readers in parts:
            for kernel in readers:
                yield part, (f"{kernel.label()} on {view.name}", view.name, kernel)
    for item in (item for item in items if isinstance(item, tuple)):
        name, kernel, columns = _named(item)
        found = find_columns(columns, table, f"kernel {name!r}")
        alone = len(item) == 3 and len(found) == 1
        view = View(table.label(found[0]) if alone else name, found)
        yield view, (name, view.name, kernel)


Part = tuple[View, list[Kernel]]  # some columns of a view, and the kernels that read them


def _default_parts(view: View, table: Table) -> Iterator[Part]:
    """The numbers and the categories of a view, each with its default kernels."""
    numbers, levels, others = _kinds(view, table)
    if others:
        table.floats(others)  # raises: no default kernel reads it
    _refuse_ids(levels, table)
    whole = not (numbers and levels)
    if numbers:
        yield _part(view, "numbers", numbers, whole), default_kernels()
    if levels:
        yield _part(view, "categories", levels, whole), default_category_kernels(len(levels))


def _split(view: View, kernels: list[Kernel], table: Table) -> Iterator[Part]:
    """A view of numbers and categories by what its kernels read, if each has its kernels.

    Kernels that read all columns get the whole view.
    """
    numbers, levels, others = _kinds(view, table)
    mixed = numbers and levels and not others
    if not mixed or not {"numbers", "levels"} <= {kernel.reads for kernel in kernels}:
        yield view, kernels
        return
    for reads, part in (
        ("numbers", _part(view, "numbers", numbers)),
        ("levels", _part(view, "categories", levels)),
        ("all", view),
    ):
        yield part, [kernel for kernel in kernels if kernel.reads == reads]


def _kinds(view: View, table: Table) -> tuple[list[int], list[int], list[int]]:
    """The columns of a view that hold numbers, categories, and anything else."""
    kinds = {column: table.kind(column) for column in view.columns}
    groups = (("number",), ("string", "category"), ("object",))
    found = [[column for column, kind in kinds.items() if kind in group] for group in groups]
    return found[0], found[1], found[2]


def _part(view: View, what: str, columns: list[int], whole: bool = False) -> View:
    return view if whole else View(f"{view.name} ({what})", tuple(columns))


def _refuse_ids(columns: list[int], table: Table) -> None:
    """Raise ValueError for strings that hardly repeat: they are names or texts, not categories."""
    for column in columns:
        if table.kind(column) != "string":
            continue
        values = table.raw([column])[~table.lacking([column]), 0].tolist()
        count = len(set(values))
        if 2 * count > len(values) > 1:
            strange = [value for value in values if not reads_as_number(value)]
            if not strange:
                table.floats([column])  # raises: it should be converted
            name = table.label(column)
            if 2 * len(strange) < len(values):
                raise ValueError(
                    f"Column {name!r} of X holds numbers, but also {shown(strange[0])}: correct "
                    "it, or leave the column out of X."
                )
            raise ValueError(
                f"Column {name!r} of X has {count} different strings in {len(values)} rows, as "
                "identifiers or texts have: leave it out of X, or give texts a kernel of their "
                f"own, (name, BagOfWords(), {name!r}). If it holds categories, say so: "
                f"X[{name!r}].astype('category')."
            )


def as_list(kernels: Any) -> list[Any]:
    """A list of items. A tuple that begins with a name is one; ("rbf", "chi2") is two kernels."""
    if not isinstance(kernels, list | tuple):
        return [kernels]
    item = has_name(kernels) and not (len(kernels) == 2 and isinstance(kernels[1], str))
    return [kernels] if item else list(kernels)


def has_name(item: Any) -> bool:
    """Whether the item is (name, kernel) or (name, kernel, columns)."""
    return isinstance(item, tuple) and len(item) in (2, 3) and isinstance(item[0], str)


def several_views(kernels: Any, views: Any) -> bool:
    """Whether kernels read different columns, so that a row may lack some and have others."""
    items = as_list(kernels)
    named = [item for item in items if isinstance(item, tuple)]
    crossed = 0.0 if len(named) == len(items) else _count_views(views)
    return crossed + sum(len(item) == 3 for item in named) > 1


def _count_views(views: Any) -> float:
    """How many views there are to lack; NaN in one column is a gap in "all"."""
    return len(views) if isinstance(views, Mapping) else np.inf if views == "each" else 1


def _checked(item: Any) -> Kernel:
    kernel = as_kernel(item)
    kernel.validate()
    return kernel


def _named(item: tuple[Any, ...]) -> tuple[str, Kernel, Any]:
    if not has_name(item):
        raise ValueError(
            "kernels: a named kernel is (name, kernel), or (name, kernel, columns) on its own "
            f"columns, the name a string; found {shown(item)}."
        )
    return item[0], _checked(item[1]), item[2] if len(item) == 3 else slice(None)
