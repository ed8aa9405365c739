"""Which columns inside the views: asked where it takes seconds, beside the marginal test."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.checks import some
from kernelweave.inspection._refits import Refits
from kernelweave.inspection.features import FeatureImportance, feature_importance
from kernelweave.kernels.precomputed import Precomputed

_DRAWS, _SHUFFLES = 10, 2
_STEPS = 2e9  # rows² × columns × machines: above this it takes more than seconds
_ENOUGH = 500  # rows from which on slopes rank columns well
_BY_SLOPE, _BY_TEST = 5, 3  # columns of each view that are shown
_MOST_VIEWS = 12
_LEVEL = 0.05  # of the marginal test


def important_columns(
    refits: Refits, model: Any, X: Any, y: Any, common: dict[str, Any]
) -> FeatureImportance | str:
    """The importance of columns, or why it is not asked."""
    members = [refits.bank.members[k] for k in refits.bank.kept]
    if any(isinstance(member.kernel, Precomputed) for member in members):
        return "kernels are given as matrices."
    columns = {column for member in members for column in member.view.columns}
    if len(columns) == 1:
        return "there is one column."
    machines = len(np.atleast_2d(refits.fit().learned.coef))
    if refits.training.table.sparse or refits.n**2 * len(columns) * machines > _STEPS:
        return "with so many rows and columns it takes long; feature_importance does it."
    return feature_importance(model, X, y, n_resamples=_DRAWS, n_shuffles=_SHUFFLES, **common)


def in_words(found: FeatureImportance, rows: int) -> list[str]:
    """How to read it, what to trust with so many rows, and what stands out."""
    text = [
        "Importance is how much the model's value changes when the column moves by one standard "
        "deviation: what the model uses. The test looks at each column alone, without the model; p "
        "is adjusted for the number of columns."
    ]
    known = ~np.isnan(found.adjusted)
    if known.any():
        more = (
            "both can be trusted to rank columns; where they differ, a column may matter through "
            "others, or repeat one."
            if rows >= _ENOUGH
            else f"trust the test first: slopes rank columns well from some {_ENOUGH} rows on."
        )
        text.append(f"With {rows} rows, {more}")
        passed = np.flatnonzero(known & (found.adjusted <= _LEVEL))
        names = [found.columns[k] for k in passed[np.argsort(found.adjusted[passed])]]
        told = f": {some(names, 8)}" if names else ""
        text.append(f"{len(names)} of {known.sum()} columns pass the test (p ≤ {_LEVEL:g}){told}.")
    return text


def of_each_view(found: FeatureImportance) -> list[tuple[Any, ...]]:
    """Rows of a table: of each view, the first columns by importance, and by the test."""
    low, high = found.intervals
    views, shown = np.array(found.views, dtype=object), list[tuple[Any, ...]]()
    best = {view: found.importance[views == view].max() for view in dict.fromkeys(found.views)}
    for view in sorted(best, key=lambda view: -best[view])[:_MOST_VIEWS]:
        own = np.flatnonzero(views == view)
        tested = own[found.adjusted[own] <= _LEVEL]
        first = {
            *own[np.argsort(-found.importance[own], kind="stable")][:_BY_SLOPE].tolist(),
            *tested[np.argsort(found.adjusted[tested], kind="stable")][:_BY_TEST].tolist(),
        }
        for k in sorted(first, key=lambda k: -found.importance[k]):
            p = found.adjusted[k]
            numbers = (float(found.importance[k]), float(low[k]), float(high[k]))
            shown.append((view, found.columns[k], *numbers, "" if np.isnan(p) else float(p)))
    return shown
