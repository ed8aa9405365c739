"""The first screen of a report as JSON, for programs, and as Markdown, for notes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from kernelweave.inspection.held_out import told
from kernelweave.inspection.html.findings import Findings


def as_json(findings: Findings) -> str:
    """All findings by their names; the guide on reports says what each is."""
    found = {**asdict(findings), "sentences": findings.sentences()}
    found["classes"] = [
        {"name": name, "rows": rows, "found": right} for name, rows, right in findings.classes
    ]
    return json.dumps(_finite(found), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(findings: Findings) -> str:
    """Title, verdict, and two tables."""
    lines = [f"# {_cell(findings.title)}", ""]
    lines += [f"- {_cell(sentence)}" for sentence in findings.sentences()]
    header = ["view", "weight", "lost without it", "rows", "verdict"]
    rows = [
        (
            view.name,
            _estimate(view.weight),
            _estimate(view.lost),
            "" if view.rows is None else str(view.rows),
            view.verdict,
        )
        for view in findings.views
    ]
    lines += _table(header, rows)
    if findings.ways:
        header = ["simpler way", str(findings.score_name), "the model is better by", "verdict"]
        lines += _table(
            header,
            [
                (way.name, findings.shown(way.score), _estimate(way.better_by), way.verdict)
                for way in findings.ways
            ],
        )
    return "\n".join(lines) + "\n"


def _estimate(found: Any) -> str:
    if found is None:
        return ""
    if not isfinite(found.low):
        return f"{found.value:.2f}"
    return told(found.value, found.low, found.high)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    made = [header, ["---"] * len(header), *rows]
    return ["", *("| " + " | ".join(map(_cell, row)) + " |" for row in made)]


def _cell(text: str) -> str:
    """Text that is neither markup nor the end of a cell, whatever a name holds."""
    plain = " ".join(text.split())
    for sign in "\\`*_[]<>|#&":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def _finite(value: Any) -> Any:
    """The same with null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


PLAIN = {".json": as_json, ".md": as_markdown}
