"""Figures of papers that are drawn from results, as PNGs readable at page width."""

from __future__ import annotations

import pathlib
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from kernelweave.inspection import plotting


def save(figure: Any, folder: pathlib.Path, name: str) -> None:
    """Write ``name``.png to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=110)
    plt.close(figure)


def plain(ax: Any) -> None:
    """No frame above and at the right."""
    ax.spines[["top", "right"]].set_visible(False)


def bach2004_2(panels: dict[str, list[dict[str, Any]]], folder: pathlib.Path) -> None:
    """Seconds by m or n, one panel per data set; each row is a size and the seconds by program."""
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.1 * len(panels), 4.2), layout="constrained", squeeze=False
    )
    for ax, (panel, rows) in zip(axes[0], panels.items(), strict=True):
        for place, who in enumerate(k for k in rows[0] if k != "at"):
            known = [(row["at"], row[who]) for row in rows if row[who] is not None]
            if known:
                dashed = "--" if who.endswith("paper's") else "-"
                color = plotting.COLORS[place]
                ax.plot(*zip(*known, strict=True), dashed, marker=".", color=color, label=who)
        ax.set(xscale="log", yscale="log", xlabel="n" if panel.endswith("n") else "m")
        sizes = [row["at"] for row in rows]
        ax.set_xticks(sizes[:: -(-len(sizes) // 4)])
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        ax.set_title(panel, loc="left", fontsize="medium")
        plain(ax)
    axes[0][0].set_ylabel("seconds")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    save(figure, folder, "bach2004_2")


def bars_by_group(
    groups: list[str], series: dict[str, list[float]], label: str, low: float | None = None
) -> Any:
    """One group of bars per name, one bar of each series in it."""
    figure, ax = plt.subplots(figsize=(9.0, 4.2), layout="constrained")
    width = 0.8 / len(series)
    for place, (name, values) in enumerate(series.items()):
        at = [k + width * (place - 0.5 * (len(series) - 1)) for k in range(len(groups))]
        ax.bar(at, values, width=0.92 * width, color=plotting.COLORS[place], label=name)
    ax.set_xticks(range(len(groups)), groups)
    ax.set_ylabel(label)
    if low is not None:
        high = max(map(max, series.values()))
        ax.set_ylim(low, high + 0.05 * (high - low))
    plain(ax)
    figure.legend(loc="outside upper center", ncols=len(series), frameon=False)
    return figure
