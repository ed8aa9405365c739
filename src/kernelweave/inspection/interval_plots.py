"""Plots of numbers with intervals: weights under resampling, differences between models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelweave._core.checks import check_choice
from kernelweave._core.types import Array
from kernelweave.inspection.draws import WeightDraws
from kernelweave.inspection.held_out import HeldOut
from kernelweave.inspection.plotting import COLORS, GRAY, _axes, _finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BY = {"view": "views", "kernel": "kernels"}


def plot_intervals(
    names: Sequence[str],
    values: Array,
    low: Array,
    high: Array,
    ax: Axes | None = None,
    label: str = "",
    zero: bool = False,
    color: Sequence[str] | None = None,
) -> Axes:
    """A point and a horizontal bar from ``low`` to ``high`` per name, from top to bottom.

    ``color``: one per name; by default the same for all.
    """
    color = [COLORS[0]] * len(names) if color is None else list(color)
    ax = _axes(ax)
    places = np.arange(len(names))
    if zero:
        ax.axvline(0.0, color=GRAY, linewidth=1.0, zorder=1.0)
    ax.hlines(places, low, high, color=color, linewidth=2.0)
    ax.scatter(values, places, 25.0, color, zorder=2.5)
    ax.set_yticks(places, list(names))
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)
    _finish(ax, label, "")
    ax.tick_params(axis="y", length=0)
    return ax


def plot_draws(draws: WeightDraws, ax: Axes | None = None, by: str = "view", top: int = 20) -> Axes:
    """Weights of views or kernels with the interval of their draws, the heaviest first."""
    check_choice("by", by, _BY)
    names, weights, values = (
        draws.of_views() if by == "view" else (draws.names, draws.weights, draws.draws)
    )
    columns = draws.summary(weights, values)
    shown = np.argsort(-np.maximum(weights, columns["high"]), kind="stable")[:top]
    return plot_intervals(
        [names[k] for k in shown],
        weights[shown],
        columns["low"][shown],
        columns["high"][shown],
        ax,
        f"weight, and {100 * draws.level:g} % of {len(draws.draws)} {draws.what}",
    )


def plot_differences(scores: HeldOut, ax: Axes | None = None) -> Axes:
    """By how much the first model exceeds each other one, with the interval of that."""
    others = scores.names[1:]
    found = np.array([scores.difference(name) for name in others]).reshape(-1, 3).T
    label = f"{scores.scoring} of {scores.names[0]} less that of …"
    return plot_intervals(others, found[0], found[1], found[2], ax, label, zero=True)
