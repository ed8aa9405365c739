"""Kernel weights of many fits: what is common to them, by kernel and by view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._core.types import Array
from kernelweave.inspection._frames import frame
from kernelweave.inspection.report import SHOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


def summed_by_view(weights: Array, views: tuple[str, ...]) -> tuple[tuple[str, ...], Array]:
    """The views, each once, and their sums of the last axis of ``weights``."""
    names = tuple(dict.fromkeys(views))
    member = np.array([[view == name for name in names] for view in views], dtype=float)
    return names, weights @ member


@dataclass(frozen=True, repr=False, eq=False)
class WeightDraws:
    """The weights of one fit, and of many like it.

    Attributes
    ----------
    names, views : tuple of str
        Name and view of each kernel.
    weights : array (m,)
        The fit to all rows.
    draws : array (n_draws, m)
        The other fits.
    what : str
        What they are: "resamples", or "permutations" of the targets.
    level : float
        The share of the draws that an interval holds.
    """

    names: tuple[str, ...]
    views: tuple[str, ...]
    weights: Array
    draws: Array
    what: str
    level: float = 0.95

    def by_kernel(self) -> DataFrame:
        """One line per kernel: kernel, view, weight, mean, low, high, selected.

        ``low`` and ``high`` are quantiles of the draws; ``selected`` is the share of draws in
        which the kernel has a weight.
        """
        given = {"kernel": self.names, "view": self.views}
        return frame({**given, **self.summary(self.weights, self.draws)})

    def by_view(self) -> DataFrame:
        """The same for sums over the kernels of a view."""
        names, weights, draws = self.of_views()
        return frame({"view": names, **self.summary(weights, draws)})

    def tidy(self) -> DataFrame:
        """One line per draw and kernel: draw, kernel, view, weight."""
        count, m = self.draws.shape
        return frame(
            {
                "draw": np.repeat(np.arange(count), m),
                "kernel": np.tile(np.array(self.names, dtype=object), count),
                "view": np.tile(np.array(self.views, dtype=object), count),
                "weight": self.draws.ravel(),
            }
        )

    def plot(self, ax: Axes | None = None, by: str = "view", top: int = 20) -> Axes:
        """The ``top`` weights of views, or with ``by="kernel"`` of kernels, with intervals."""
        from kernelweave.inspection.interval_plots import plot_draws

        return plot_draws(self, ax, by, top)

    def of_views(self) -> tuple[tuple[str, ...], Array, Array]:
        """Views, their weights (V,), and the draws of these (n_draws, V)."""
        names, weights = summed_by_view(self.weights, self.views)
        return names, weights, summed_by_view(self.draws, self.views)[1]

    def summary(self, weights: Array, draws: Array) -> dict[str, Array]:
        """Columns of numbers, one entry per kernel or view."""
        tail = (1.0 - self.level) / 2.0
        low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
        return {
            "weight": weights,
            "mean": draws.mean(axis=0),
            "low": low,
            "high": high,
            "selected": (np.abs(draws) > SHOWN).mean(axis=0),
        }

    def __repr__(self) -> str:
        names, weights, draws = self.of_views()
        columns = self.summary(weights, draws)
        width = max(len(name) for name in names)
        lines = [f"{len(self.draws)} {self.what}, weight by view [{100 * self.level:g} % of them]"]
        for k in np.argsort(-weights, kind="stable")[:20]:
            interval = f"[{columns['low'][k]:.3f}, {columns['high'][k]:.3f}]"
            lines.append(f"{names[k]:<{width}}  {weights[k]:.3f} {interval}")
        return "\n".join(lines + (["…"] if len(names) > 20 else []))


@dataclass(frozen=True, repr=False, eq=False)
class WeightPath:
    """Kernel weights for several C, (n_Cs, m), with the names and views of the kernels."""

    names: tuple[str, ...]
    views: tuple[str, ...]
    Cs: Array
    weights: Array

    def by_kernel(self) -> DataFrame:
        """One line per C and kernel: C, kernel, view, weight."""
        count, m = self.weights.shape
        return frame(
            {
                "C": np.repeat(self.Cs, m),
                "kernel": np.tile(np.array(self.names, dtype=object), count),
                "view": np.tile(np.array(self.views, dtype=object), count),
                "weight": self.weights.ravel(),
            }
        )

    def by_view(self) -> DataFrame:
        """One line per C and view: C, view, weight."""
        names, sums = summed_by_view(self.weights, self.views)
        return frame(
            {
                "C": np.repeat(self.Cs, len(names)),
                "view": np.tile(np.array(names, dtype=object), len(self.Cs)),
                "weight": sums.ravel(),
            }
        )

    def plot(self, ax: Axes | None = None, by: str = "view", **options: Any) -> Axes:
        """Weights by C, of views or (``by="kernel"``) of kernels, as ``plot_weight_path`` does."""
        from kernelweave.inspection.plotting import plot_weight_path

        names, weights = (
            summed_by_view(self.weights, self.views) if by == "view" else (self.names, self.weights)
        )
        return plot_weight_path(list(weights), self.Cs, ax, names, **options)

    def __repr__(self) -> str:
        names, sums = summed_by_view(self.weights, self.views)
        lines = ["weight by view for each C", "C         " + "  ".join(names)]
        for C, row in zip(self.Cs, sums, strict=True):
            cells = (f"{x:<{len(name)}.3f}" for x, name in zip(row, names, strict=True))
            lines.append(f"{C:<8.3g}  " + "  ".join(cells))
        return "\n".join(lines)
