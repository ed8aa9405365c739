"""The default kernels of a bank, and the scales at which they see the columns."""

from __future__ import annotations

import numpy as np

from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.categorical import Hamming
from kernelweave.kernels.numeric import Gaussian, Linear, Polynomial
from kernelweave.views import weighted
from kernelweave.views.columns import View
from kernelweave.views.table import Table

WIDTHS = (0.5, 1.0, 2.0)

_LIKE = 4.0  # how much wider than the median column the widest may be, in one unit
_FILLED, _MANY = 0.2, 10  # share of cells up to which columns are mostly zeros; how many of them
_UNLIKE = 2.0  # ratio of deviations from which it matters whether columns are standardized


def default_kernels() -> list[Kernel]:
    """On numbers: xᵀz, (xᵀz + 1)², and Gaussians of ½, 1 and 2 times the median distance.

    ``KernelBank(None)`` applies them to each view and, under ``scale="auto"``, standardizes the
    columns to mean 0 and variance 1 (see ``share_a_unit``). They therefore work on a raw table, and
    do not change when columns are shifted or rescaled. Narrower Gaussians tend to overfit where
    classes overlap.
    """
    return [Linear(), Polynomial(2), *(Gaussian(width, relative=True) for width in WIDTHS)]


def default_category_kernels(columns: int) -> list[Kernel]:
    """On categories: the share of columns that agree, and, of several columns, its square."""
    return [Hamming(), Hamming(2)] if columns > 1 else [Hamming()]


def default_rule(view: View, table: Table, weights: Array | None) -> str:
    """How the default kernels are normalized: on the sphere where ten columns or more are mostly 0.

    Indicators and counts make rows of very unequal length, all the more once they are standardized,
    and the few long ones would decide which kernels get weight. Their directions can be compared.
    """
    numbers = all(table.kind(column) == "number" for column in view.columns)
    if not numbers or len(view.columns) < _MANY:
        return "trace"
    having = view.rows_of(table)
    rows = slice(None) if having is None else having
    filled = np.ravel((table.raw(view.columns, view.filling)[rows] != 0).sum(axis=1)) / len(
        view.columns
    )
    share = weighted.mean(filled, None if weights is None else weights[rows]) if filled.size else 1
    return "sphere" if share <= _FILLED else "trace"


def share_a_unit(view: View, table: Table, weights: Array | None, gaps: str) -> bool:
    """Whether columns may be in one unit (pixels, counts, spectra), though they vary unequally.

    No range is more than four times the median range, yet the deviations differ: their 90 % and
    10 % quantiles by more than a factor of two. Then a column that varies little may be one that
    matters little, and standardizing would blow it up. ``gaps``: as in ``Planned``.
    """
    if not all(table.kind(column) == "number" for column in view.columns):
        return False
    having = view.rows_of(table)
    rows = slice(None) if having is None else having
    values = table.floats(view.columns, rows, gaps, view.filling)
    if len(values) < 2:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        ranges = values.max(axis=0) - values.min(axis=0)
        spread = weighted.deviation(values, None if weights is None else weights[rows])
    ranges, spread = ranges[ranges > 0.0], spread[ranges > 0.0]
    if len(ranges) < 2 or not np.isfinite(spread).all():
        return False
    low, high = np.quantile(spread, (0.1, 0.9))
    return bool(ranges.max() <= _LIKE * np.median(ranges) and high > _UNLIKE * low)
