"""Small tables for notebooks; every cell is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_MOST = 20  # rows shown


def html_table(caption: str, header: Sequence[str], rows: Sequence[Iterable[object]]) -> str:
    """An HTML table of the first rows; a last line counts the others."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows[:_MOST]
    )
    if len(rows) > _MOST:
        body += f'<tr><td colspan="{len(header)}">… and {len(rows) - _MOST} more</td></tr>'
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
