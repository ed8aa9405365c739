"""One row's value drawn: views as bars around 0, and inside each its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernelweave.inspection.explanation import Explanation
from kernelweave.inspection.plotting import COLORS, GRAY, _axes, _finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_row(
    found: Explanation, row: int, machine: int, ax: Axes | None = None, top: int = 20
) -> Axes:
    """The parts of one row and machine, views in the order of their size."""
    ax = _axes(ax)
    parts = found.parts[row, machine]
    inside = found.inside()
    sizes = sorted((abs(cell.parts[row, machine]) for cell in inside), reverse=True)
    least = sizes[min(top, len(sizes)) - 1] if sizes else np.inf
    labels, widths, colors, heights = list[str](), list[float](), list[str](), list[float]()
    for place in np.argsort(-np.abs(parts), kind="stable"):
        view = found.views[place]
        labels.append(view)
        widths.append(float(parts[place]))
        colors.append(COLORS[0])
        heights.append(0.8)
        own = [cell for cell in inside if cell.view == view]
        for cell in sorted(own, key=lambda cell: -abs(cell.parts[row, machine])):
            value = float(cell.parts[row, machine])
            if value and abs(value) >= least:
                local = " (local)" if cell.how == "local" else ""
                labels.append(f"    {found.named(cell)}{local}")
                widths.append(value)
                colors.append(GRAY)
                heights.append(0.5)
    ax.barh(np.arange(len(labels)), widths, heights, color=colors)
    ax.axvline(0.0, color=GRAY, linewidth=1.0)
    ax.set_yticks(np.arange(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    value, base = found.values[row, machine], found.baseline[machine]
    _finish(ax, f"{found.machines[machine]}: {value:.3g} = baseline {base:.3g} + these parts", "")
    ax.tick_params(axis="y", length=0)
    return ax
