"""One self-contained file: a template that escapes all it is given, one script, no other source.

The content security policy forbids everything but images in data URLs, inline styles, and the one
script whose hash it states. Nothing a data set or a name contains can become markup or run.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from kernelweave._core.atomic import check_place, written
from kernelweave._core.checks import check_number
from kernelweave._core.extras import missing
from kernelweave.inspection._models import check_readable, check_rows_of
from kernelweave.inspection.html.bars import lines
from kernelweave.inspection.html.facts import Asked, Facts, gather
from kernelweave.inspection.html.findings import better
from kernelweave.inspection.html.plain import PLAIN
from kernelweave.inspection.html.sections import Reader

_NEEDS = ("weights_", "bank_", "solution_", "duality_gap_")


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    cv: Any = 5,
    scoring: Any = None,
    groups: Any = None,
    row_ids: Sequence[Any] | None = None,
    title: str | None = None,
    target: str | None = None,
    n_resamples: int | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> str:
    """Write what a fitted model is worth to one file that can be sent to a colleague.

    It opens with whether the model predicts, which views it needs, and for how many rows, in plain
    words. There follow predictions of rows held out, probabilities, the hardest rows and those that
    lack something; kernels, tests and the certificate are folded below. Without data it tells what
    the model alone can tell.

    Parameters
    ----------
    model : fitted estimator
    path : str or path
        The file to write; it appears whole or not at all. Its ending says what it is: ".md" is
        Markdown and ".json" is JSON, both of the first screen alone; all others are HTML.
    X, y : optional
        The rows that the model was fitted to.
    cv, scoring, groups, n_jobs, random_state, verbose
        As for ``kernelweave.inspection.compare``.
    row_ids : sequence, optional
        Names of the rows, to be shown beside the hardest ones. Left out by default: rows may be
        people.
    title : str, optional
        The heading; by default made of the target and the views.
    target : str, optional
        The name of what is predicted; by default that of ``y``, if it is a column with a name.
    n_resamples : int, optional
        Draws for intervals of the weights; by default 100, or 20 where there are many rows.

    Returns
    -------
    str
        The verdict that the report opens with, a sentence per line.
    """
    model = getattr(model, "best_estimator_", model)
    check_readable("model", model, _NEEDS)
    kind = os.path.splitext(os.fspath(path))[1].lower()
    environment = None if kind in PLAIN else _environment()
    if n_resamples is not None:
        check_number("n_resamples", n_resamples, int)
    check_place(path)
    if X is None and y is not None:
        raise ValueError("y is given without X: give both, or neither")
    if X is not None:
        check_rows_of(model, X, y)
    names = None if row_ids is None else [str(name) for name in row_ids]
    if names is not None and y is not None and len(names) != len(y):
        raise ValueError(f"row_ids must name {len(y)} rows, found {len(names)}")
    asked = Asked(cv, scoring, groups, n_resamples, n_jobs, random_state, verbose)
    facts = Facts() if X is None else gather(model, X, y, asked)
    target = getattr(y, "name", None) if target is None else target
    about = title, None if target is None else str(target)
    reader = Reader(model, facts, names, random_state, *about)
    text = PLAIN[kind](reader.findings) if kind in PLAIN else _render(environment, reader)
    with written(path, "w", encoding="utf-8") as file:
        file.write(text)
    return "\n".join(reader.findings.sentences())


def _render(environment: Any, reader: Reader) -> str:
    from markupsafe import Markup

    script = _part("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    findings = reader.findings
    template = environment.from_string(_part("report.html.jinja"))
    return str(
        template.render(
            policy=Markup(policy),
            css=Markup(_part("report.css")),
            script=Markup(script),
            found=findings,
            lines=lines(findings),
            sections=list(reader.sections()),
            statistics=list(reader.statistics()),
        )
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _figure(x: float) -> str:
    """A number as people read it: as many digits after the point down a whole column."""
    if isinstance(x, int):
        return str(x)
    return f"{x:.3f}" if x == 0.0 or 5e-4 <= abs(x) < 1e3 else f"{x:.3g}"


def _environment() -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise missing("reports need", "jinja2", "report") from None
    made = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["figure"] = _figure
    made.filters["better"] = better
    made.filters["yesno"] = lambda x: {True: "yes", False: "no"}.get(x, x) if x in (0, 1) else x
    return made
