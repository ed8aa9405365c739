"""Fits the kernels of one view to the training rows that have it."""

from __future__ import annotations

from kernelweave._core.checks import some
from kernelweave._core.types import Array
from kernelweave.banks.member import Group, Member, named
from kernelweave.banks.plan import Planned, Request
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.precomputed import check_same_rows
from kernelweave.views.columns import View
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table


def fit_view(planned: Planned, table: Table, weights: Array | None) -> Group:
    """Fitted kernels of one view; all dropped if its columns are constant on its rows."""
    check_view(planned, table)
    view, requests = planned.view, planned.requests
    places = view.rows_of(table)
    if places is not None:
        table, weights = table.take(places), None if weights is None else weights[places]
    numeric = any(kernel.numeric for _, _, kernel in requests)
    if numeric and planned.scale is not None and len(table):
        view = view.scaled(planned.scale, table, weights)
    rows = Rows(table, view, weights)
    if why := _nothing_to_learn(view, table, numeric):
        members = [Member(name, label, view, numeric, dropped=why) for name, label, _ in requests]
        return Group(rows, members, planned.rule, places)
    members = [
        Member(
            f"{name} [{suffix}]" if suffix else name,
            label,
            view,
            kernel.numeric,
            fitted,
            alone=kernel.of_two_rows and fitted == kernel,
        )
        for name, label, kernel in requests
        for suffix, fitted in _expanded(name, kernel, rows)
    ]
    return Group(rows, members, planned.rule, places)


def check_view(planned: Planned, table: Table) -> None:
    """Raise an error that names what kernels of the view cannot read."""
    view, requests = planned.view, planned.requests
    check_same_rows((name, kernel) for name, _, kernel in requests)
    _check_sparse(table, requests)
    if any(kernel.numeric for _, _, kernel in requests):
        Rows.having(table, view)[1].table.floats(
            view.columns, gaps=planned.gaps, filling=view.filling
        )


def _check_sparse(table: Table, requests: list[Request]) -> None:
    """Raise TypeError if X is sparse and some kernel needs it dense."""
    dense = [kernel.label() for _, _, kernel in requests if not kernel.takes_sparse]
    if table.sparse and dense:
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
