"""Numbers and tables as a reader wants them. Nothing here needs kernelweave."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def short(x: Any) -> str:
    """A number as a reader wants it; a dash for nothing."""
    if x is None:
        return "–"
    if isinstance(x, bool | np.bool_):
        return "yes" if x else "no"
    if isinstance(x, float | np.floating):
        return f"{x:.3g}"
    return str(x)


def ms(times: dict[str, float]) -> str:
    """Milliseconds: the median, and the quartiles where they differ from it."""
    low, median, high = (f"{1e3 * times[key]:.3g}" for key in ("low", "median", "high"))
    return median if low == high else f"{median} ({low}–{high})"


def markdown(header: list[str], rows: list[list[Any]]) -> str:
    """A table, its columns aligned for readers of the text too."""
    text = [header, *([short(x) for x in row] for row in rows)]
    widths = [max(len(row[k]) for row in text) for k in range(len(header))]
    lines = []
    for row in text:
        cells = [
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("| " + " | ".join(cells) + " |")
    rules = [":" + "-" * (widths[0] + 1), *("-" * (width + 1) + ":" for width in widths[1:])]
    lines.insert(1, "|" + "|".join(rules) + "|")
    return "\n".join(lines)


def table(header: list[str], rows: list[list[Any]]) -> None:
    """Print a Markdown table, nothing where it has no rows."""
    if rows:
        print(markdown(header, rows) + "\n")


def standard_error(values: Any) -> float:
    """Of the mean of these values; 0 for one alone."""
    v = np.asarray(values, dtype=float)
    return float(v.std(ddof=1) / math.sqrt(v.size)) if v.size > 1 else 0.0


def mean(records: list[dict[str, Any]], field: str) -> float | None:
    """Mean of a field over the records that have it."""
    values = [r[field] for r in records if r.get(field) is not None]
    return float(np.mean(values)) if values else None
