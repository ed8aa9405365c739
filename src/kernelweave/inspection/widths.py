"""Widths that a model has learned, by feature: as a table and as bars.

Widths are in the units in which kernels see the columns; by default these are standard deviations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave.inspection._models import check_readable
from kernelweave.inspection.plotting import plot_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def learned_widths(model: Any) -> list[tuple[str, str, float]]:
    """(kernel, feature, width), the narrowest first; a width for all features names its view."""
    check_readable("model", model, ("learned_kernels_", "bank_"))
    names = getattr(model, "feature_names_in_", None)
    rows: list[tuple[str, str, float]] = []
    for member in model.bank_.members:
        kernel = model.learned_kernels_.get(member.name)
        widths = np.atleast_1d(getattr(kernel, "width", []))
        columns = member.view.columns if widths.size == len(member.view.columns) else ()
        features = [f"column {c}" if names is None else str(names[c]) for c in columns]
        pairs = zip(features or [member.view_name] * widths.size, widths, strict=True)
        rows += [(member.name, feature, float(width)) for feature, width in pairs]
    return sorted(rows, key=lambda row: row[2])


def plot_widths(model: Any, ax: Axes | None = None, top: int = 20) -> Axes:
    """1/width of every feature as bars, the narrowest first: features without a bar hardly matter.

    Parameters
    ----------
    model : fitted estimator
        With kernels whose widths were learned, such as ``GaussianWidths(per_feature=True)``.
    ax : matplotlib axes, optional
        By default those of a new figure.
    top : int
        The largest number of bars.

    Returns
    -------
    matplotlib axes
    """
    rows = learned_widths(model)
    if not rows:
        raise ValueError(
            "model has no kernel whose widths were learned: give it "
            "GaussianWidths(per_feature=True)"
        )
    several = len({kernel for kernel, _, _ in rows}) > 1
    names = [f"{feature}, {kernel}" if several else feature for kernel, feature, _ in rows]
    ax = plot_weights([1.0 / width for _, _, width in rows], ax, names, top=min(top, len(rows)))
    ax.set_xlabel("1/width")
    return ax
