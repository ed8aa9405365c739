"""Which kernel reads which columns: the items and views of a bank, applied to a table, and fitted.

Where no kernels are named, a bank has the default ones, normalized and scaled as suits the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from kernelweave._core.checks import check_choice, shown, some
from kernelweave._core.types import Array
from kernelweave.banks.member import Group, Member, named
from kernelweave.kernels.adapters import as_kernel
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.categorical import Hamming
from kernelweave.kernels.numeric import Gaussian, Linear, Polynomial
from kernelweave.kernels.precomputed import Precomputed, check_same_rows
from kernelweave.views import weighted
from kernelweave.views.cells import reads_as_number
from kernelweave.views.columns import SCALES, View, make_views, tally
from kernelweave.views.rows import Rows
from kernelweave.views.selectors import find_columns
from kernelweave.views.table import WHOLE_VIEWS, Table

WIDTHS = (0.5, 1.0, 2.0)

_LIKE = 4.0  # how much wider than the median column the widest may be, in one unit
_FILLED, _MANY = 0.2, 10  # share of cells up to which columns are mostly zeros; how many of them
_UNLIKE = 2.0  # ratio of deviations from which it matters whether columns are standardized
_STRICT = (
    'KernelBank has missing="error"; missing="mean" allows rows that lack a whole view of several.'
)


class Request(NamedTuple):
    """A kernel to fit: its name, that of its view, and the kernel as the user gave it."""

    name: str
    view: str
    kernel: Kernel


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

    @property
    def numeric(self) -> bool:
        """Whether some kernel reads the columns as numbers."""
        return any(map(attrgetter("kernel.numeric"), self.requests))

    def fit(self, table: Table, weights: Array | None) -> Group:
        """Fitted kernels of the view; all dropped if its columns are constant on its rows."""
        self.check(table)
        view, numeric = self.view, self.numeric
        places = view.rows_of(table) if view.may_lack else None
        if places is not None:
            table, weights = table.take(places), None if weights is None else weights[places]
        if numeric and self.scale is not None and len(table):
            view = view.scaled(self.scale, table, weights)
        rows, members = Rows(table, view, weights), list[Member]()
        why, filling = None, view.filling if numeric else None  # else an empty cell is a level
        if not len(table):
            why = "no training row has its view"
        elif len(table) > 1 and not view.presence and table.constant(view.columns, filling):
            why = "its columns are constant on the training rows"
        for name, label, kernel in self.requests:
            if why is not None:
                members.append(Member(name, label, view, numeric, dropped=why))
                continue
            if weights is not None:
                _check_weighable(name, kernel, weights)
            with named(name):
                expanded = kernel.expand(rows)
            for suffix, fitted in expanded:
                whole = f"{name} [{suffix}]" if suffix else name
                alone = table.shares and kernel.of_two_rows and fitted == kernel
                members.append(Member(whole, label, view, kernel.numeric, fitted, alone=alone))
        if places is not None and table.apart:
            held: Any = table
            held.let_go()  # workers need not hold a copy of these rows for each view
        return Group(rows, members, self.rule, places)

    def check(self, table: Any) -> None:
        """Raise an error that names what kernels of the view cannot read."""
        view, matrices, dense = self.view, list[Request](), list[str]()
        for one in self.requests:
            if isinstance(one.kernel, Precomputed):
                matrices.append(one)
            if table.sparse and not one.kernel.takes_sparse:
                dense.append(one.kernel.label())
        if matrices:
            check_same_rows(matrices)
        if dense:
            raise TypeError(
                f"Sparse data was passed for X, but {some(dense)} needs dense data. Use Linear, "
                "Polynomial or Gaussian, or X.toarray()."
            )
        if self.numeric and table.apart:
            having = table.take(view.in_rows(table))
            having.check_finite(view.columns, self.gaps, view.filling)
        elif self.numeric:
            table.floats(view.columns, view.in_rows(table), self.gaps, view.filling)


def _check_weighable(name: str, kernel: Kernel, weights: Array) -> None:
    """Raise ValueError if rows count unequally for a kernel that cannot weigh them."""
    if not kernel.takes_weights and weights.min() < weights.max():
        raise ValueError(
            f"Kernel {name!r} learns from the training rows and cannot weigh them: leave "
            "sample_weight out, repeat rows, or give class_weight, which kernels do not see."
        )


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
    requests = _default(views, table) if kernels is None else _named(kernels, views, table)
    for view, request in requests:
        plan.setdefault(view.columns, (view, []))[1].append(request)
    may_lack = optional and len(plan) > 1
    gaps = WHOLE_VIEWS if optional else _STRICT
    found = []
    for view, readers in plan.values():
        view = replace(view, may_lack=may_lack)
        if impute is not None:
            view = view.filled(impute, table, weights)
        rule = normalize
        if normalize == "auto":
            rule = "trace" if kernels is not None else default_rule(view, table, weights)
        found.append(Planned(view, usual if scale == "auto" else scale, rule, readers, gaps))
        both = kernels is None and scale == "auto" and not table.sparse
        if both and share_a_unit(view, table, weights, gaps):
            again = [one._replace(name=f"{one.name}, common scale") for one in readers]
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


def _default(views: Any, table: Table) -> Iterator[tuple[View, Request]]:
    """The numbers and the categories of each view, with their default kernels."""
    for view in make_views(views, table):
        numbers, levels, others = _kinds(view, table)
        if others:
            table.floats(others)  # raises: no default kernel reads it
        if levels:
            _refuse_ids(levels, table)
        for what, columns in (("numbers", numbers), ("categories", levels)):
            if not columns:
                continue
            part = _part(view, what, columns) if numbers and levels else view
            for kernel in default_kernels() if columns is numbers else _of_levels(len(levels)):
                yield part, Request(f"{kernel.label()} on {view.name}", view.name, kernel)


def _named(kernels: Any, views: Any, table: Table) -> Iterator[tuple[View, Request]]:
    """The items of a bank: kernels on each view, and kernels on columns of their own."""
    items = as_list(kernels)
    if not items:
        raise ValueError("kernels: the bank is empty; give at least one kernel.")
    crossed = [_checked(item) for item in items if not isinstance(item, tuple)]
    for view in make_views(views, table) if crossed else []:
        for part, readers in _split(view, crossed, table):
            for kernel in readers:
                yield part, Request(f"{kernel.label()} on {view.name}", view.name, kernel)
    for item in (item for item in items if isinstance(item, tuple)):
        name, kernel, columns = _named_item(item)
        found = find_columns(columns, table, f"kernel {name!r}")
        alone = len(item) == 3 and len(found) == 1
        view = View(table.label(found[0]) if alone else name, found)
        yield view, Request(name, view.name, kernel)


def _split(view: View, kernels: list[Kernel], table: Table) -> Iterator[tuple[View, list[Kernel]]]:
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
    if table.holds_numbers(view.columns):
        return list(view.columns), [], []
    numbers, levels, others = list[int](), list[int](), list[int]()
    kinds = {"number": numbers, "string": levels, "category": levels, "object": others}
    for column in view.columns:
        kinds[table.kind(column)].append(column)
    return numbers, levels, others


def _part(view: View, what: str, columns: list[int]) -> View:
    return View(f"{view.name} ({what})", tuple(columns))


def _refuse_ids(columns: list[int], table: Table) -> None:
    """Raise ValueError for strings that hardly repeat: they are names or texts, not categories."""
    for column in columns:
        if table.kind(column) != "string":
            continue
        values = tally(table, column)
        count, total = len(values), values.total()
        if 2 * count > total > 1:
            strange = [value for value in values.elements() if not reads_as_number(value)]
            if not strange:
                table.floats([column])  # raises: it should be converted
            name = table.label(column)
            if 2 * len(strange) < total:
                raise ValueError(
                    f"Column {name!r} of X holds numbers, but also {shown(strange[0])}: correct "
                    "it, or leave the column out of X."
                )
            raise ValueError(
                f"Column {name!r} of X has {count} different strings in {total} rows, as "
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


def _named_item(item: tuple[Any, ...]) -> tuple[str, Kernel, Any]:
    if not has_name(item):
        raise ValueError(
            "kernels: a named kernel is (name, kernel), or (name, kernel, columns) on its own "
            f"columns, the name a string; found {shown(item)}."
        )
    return item[0], _checked(item[1]), item[2] if len(item) == 3 else slice(None)


# ---- the default bank ----------------------------------------------------------------------------


def default_kernels() -> list[Kernel]:
    """On numbers: xᵀz, (xᵀz + 1)², and Gaussians of ½, 1 and 2 times the median distance.

    ``KernelBank(None)`` applies them to each view and, under ``scale="auto"``, standardizes the
    columns to mean 0 and variance 1 (see ``share_a_unit``). They therefore work on a raw table, and
    do not change when columns are shifted or rescaled. Narrower Gaussians tend to overfit where
    classes overlap.
    """
    return [Linear(), Polynomial(2), *map(partial(Gaussian, relative=True), WIDTHS)]


def _of_levels(columns: int) -> list[Kernel]:
    """On categories: the share of columns that agree, and, of several columns, its square."""
    return [Hamming(), Hamming(2)] if columns > 1 else [Hamming()]


def default_rule(view: View, table: Any, weights: Array | None) -> str:
    """How the default kernels are normalized: on the sphere where ten columns or more are mostly 0.

    Indicators and counts make rows of very unequal length, all the more once they are standardized,
    and the few long ones would decide which kernels get weight. Their directions can be compared.
    """
    if len(view.columns) < _MANY or not table.holds_numbers(view.columns):
        return "trace"
    rows = view.in_rows(table)
    counts = None if weights is None else weights[rows]
    if table.apart:
        share = table.take(rows).share_filled(view.columns, counts, view.filling)
    else:
        values = table.raw(view.columns, view.filling)[rows]
        filled = np.ravel((values != 0).sum(axis=1)) / len(view.columns)
        share = weighted.mean(filled, counts) if filled.size else 1
    return "sphere" if share <= _FILLED else "trace"


def share_a_unit(view: View, table: Any, weights: Array | None, gaps: str) -> bool:
    """Whether columns may be in one unit (pixels, counts, spectra), though they vary unequally.

    No range is more than four times the median range, yet the deviations differ: their 90 % and
    10 % quantiles by more than a factor of two. Then a column that varies little may be one that
    matters little, and standardizing would blow it up. ``gaps``: as in ``Planned``.
    """
    if not table.holds_numbers(view.columns):
        return False
    rows = view.in_rows(table)
    counts = None if weights is None else weights[rows]
    if table.apart:
        n, _, spread, least, most = table.take(rows).moments(
            view.columns, counts, view.filling, gaps
        )
        ranges = most - least
    else:
        values = table.floats(view.columns, rows, gaps, view.filling)
        n = len(values)
        with np.errstate(over="ignore", invalid="ignore"):
            ranges = values.max(axis=0) - values.min(axis=0) if n else np.zeros(0)
            spread = weighted.deviation(values, counts) if n else np.zeros(0)
    if n < 2:
        return False
    ranges, spread = ranges[ranges > 0.0], spread[ranges > 0.0]
    if len(ranges) < 2 or not np.isfinite(spread).all():
        return False
    low, high = np.quantile(spread, (0.1, 0.9))
    return bool(ranges.max() <= _LIKE * np.median(ranges) and high > _UNLIKE * low)
