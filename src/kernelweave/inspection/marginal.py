"""Whether a column has to do with the target, by itself and without any model.

Numbers: does their mean differ between classes (analysis of variance), or do their squared
deviations? Both are asked, and p = min(1, 2 min(p₁, p₂)). Of a numeric target: correlations.
Categories: the χ² test of independence, or the analysis of variance of a numeric target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency
from sklearn.feature_selection import f_classif, f_regression

from kernelweave._core.types import Array
from kernelweave.views.table import Table


def marginal_p_values(table: Table, y: Any, classes: bool) -> Array:
    """A p-value per column; NaN where there is none. Empty cells do not count.

    ``y``: labels, if ``classes``, or numbers, of shape (n,) or (n, targets): the smallest p-value
    of any target times their number.
    """
    found = np.full(table.n_columns, np.nan)
    if y is None:
        return found
    if not classes and np.asarray(y).dtype.kind not in "fiu":
        return found
    if not classes and np.ndim(y) == 2:
        each = np.array([marginal_p_values(table, one, False) for one in np.asarray(y).T])
        return np.minimum(each.min(axis=0) * len(each), 1.0)
    y = np.unique(y, return_inverse=True)[1] if classes else np.asarray(y, dtype=float)
    test = f_classif if classes else f_regression
    numbers: Any = table.numbers
    if table.sparse:
        numbers = numbers.toarray()
    usual = table.numeric & ~table.declared
    whole = usual & ~np.isnan(numbers).any(axis=0)
    if whole.any():
        found[whole] = _level_or_spread(test, numbers[:, whole], y)
    for column in np.flatnonzero(usual & ~whole).tolist():
        known = ~np.isnan(numbers[:, column])
        found[column] = _level_or_spread(test, numbers[known, column][:, None], y[known])[0]
    for column in np.flatnonzero(~usual).tolist():
        known = ~table.lacking([column])
        cells = np.array([str(cell) for cell in table.raw([column])[known, 0]])
        found[column] = _of_categories(cells, y[known], classes)
    return found


def _level_or_spread(test: Callable[..., Any], x: Array, y: Array) -> Array:
    """Of columns without gaps: p-values of their means and of their squared deviations."""
    varies = (x.max(axis=0) > x.min(axis=0)) if len(x) else np.zeros(x.shape[1], dtype=bool)
    found = np.full(x.shape[1], np.nan)
    if len(np.unique(y)) < 2 or not varies.any() or len(x) < 4:
        return found
    x = x[:, varies] - x[:, varies].mean(axis=0)
    with np.errstate(all="ignore"):
        p = np.array([test(part, y)[1] for part in (x, x**2)])
    p[np.isnan(p)] = 1.0  # two values alone: their squares may all be the same
    found[varies] = np.minimum(2.0 * p.min(axis=0), 1.0)
    return found


def _of_categories(cells: NDArray[Any], y: NDArray[Any], classes: bool) -> float:
    levels, codes = np.unique(cells, return_inverse=True)
    if len(levels) < 2 or len(np.unique(y)) < 2:
        return np.nan
    if not classes:
        if len(levels) == len(cells):
            return np.nan
        return float(f_classif(y[:, None], codes)[1][0])
    counts = np.zeros((len(levels), int(y.max()) + 1))
    np.add.at(counts, (codes, y), 1.0)
    return float(chi2_contingency(counts[:, counts.any(axis=0)])[1])
