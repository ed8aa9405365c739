"""The chart of the first screen: a line per view, drawn by the page itself, so that it fits phones.

Each line has what the view weighs, what is lost without it and how many rows have it; numbers are
places on their axes, in percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from kernelweave.inspection.held_out import signed
from kernelweave.inspection.html.findings import Estimate, Findings, ViewFound
from kernelweave.inspection.plotting import COLORS

_MOST = 20  # views that have a line
_COLORS = COLORS[:-1]  # without black, which dark pages hide


def colors(names: Sequence[str]) -> dict[str, str]:
    """One color per view, the same in all charts."""
    return {name: _COLORS[k % len(_COLORS)] for k, name in enumerate(names)}


@dataclass(frozen=True)
class IntervalBar:
    """An interval, its point and the zero of its axis, in percent of the axis; and as text."""

    left: float
    width: float
    point: float
    zero: float
    text: str


@dataclass(frozen=True)
class ViewLine:
    """One view."""

    name: str
    color: str
    weight: IntervalBar
    lost: IntervalBar | None
    rows: int | None
    share: float
    verdict: str


def lines(findings: Findings) -> list[ViewLine]:
    """Views with a line, the heaviest first."""
    views = sorted(findings.views, key=lambda view: -abs(view.weight.value))[:_MOST]
    color = colors([view.name for view in findings.views])
    known = [view.lost for view in views if view.lost is not None]
    weights, losses = _ends([view.weight for view in views]), _ends(known)
    return [
        ViewLine(
            view.name,
            color[view.name],
            _bar(view.weight, weights, f"{view.weight.value:.2f}"),
            None if view.lost is None else _bar(view.lost, losses, _loss(view, findings)),
            view.rows,
            100.0 * (view.rows or 0) / max(findings.rows or 1, 1),
            view.verdict,
        )
        for view in views
    ]


def _loss(view: ViewFound, findings: Findings) -> str:
    assert view.lost is not None
    if findings.in_percent:
        number = signed(100.0 * view.lost.value, 0)
        return f"{number} point{'s' * (number.lstrip('−-') != '1')}"
    return signed(view.lost.value)


def _ends(found: Sequence[Estimate]) -> tuple[float, float]:
    """An axis that holds 0 and all intervals."""
    numbers: list[Any] = [0.0]
    for one in found:
        numbers += [x for x in (one.value, one.low, one.high) if isfinite(x)]
    return min(numbers), max(*numbers, min(numbers) + 1e-9)


def _bar(found: Estimate, ends: tuple[float, float], text: str) -> IntervalBar:
    def place(x: float) -> float:
        return round(100.0 * (x - ends[0]) / (ends[1] - ends[0]), 2)

    low, high = (x if isfinite(x) else found.value for x in (found.low, found.high))
    return IntervalBar(
        place(low), round(place(high) - place(low), 2), place(found.value), place(0.0), text
    )
