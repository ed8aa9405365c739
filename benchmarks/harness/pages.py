"""From results to pages: tables, a paper's figures beside ours, and docs/results/NAME.md.

Nothing here needs kernelweave: a page is what ``NAME.py --report`` prints of its JSON, under the
experiment's own words, the command that runs it again, its date and the machine.
"""

from __future__ import annotations

import ast
import json
import math
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
ENOUGH = 80.0  # per cent of a paper's cells that must agree
CHOICES = ("--learners", "--only", "--panels", "--parts", "--sets")  # of some cells among all


# ---- tables ------------------------------------------------------------------------------------


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


def corrected_t_test(differences: Any, shared: float) -> tuple[float, float, float]:
    """Mean of paired differences over random splits, half of its 95 % interval, two-sided p.

        t = mean / (s √(1/J + ρ/(1 − ρ))),    J − 1 degrees of freedom

    [Nadeau and Bengio 2003], s the standard deviation over J splits and ρ their correlation, for
    which stands ``shared``, the share of test rows that two of them have in common: ρ/(1 − ρ) is
    n_test/n_train where a split uses all rows.
    """
    values = np.asarray(differences, dtype=float)
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    error = spread * math.sqrt(1.0 / values.size + shared / (1.0 - shared))
    if error == 0.0:
        return mean, 0.0, float(mean == 0.0)
    t = scipy.stats.t(values.size - 1)
    return mean, float(t.ppf(0.975)) * error, 2.0 * float(t.sf(abs(mean) / error))


# ---- a paper's figures beside ours -------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """A cell of a paper's table and ours; ``allowed`` is 2 √(SE_paper² + SE_ours²)."""

    label: tuple[str, ...]
    ours: float
    error: float
    paper: float
    difference: float
    allowed: float

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= self.allowed + 1e-9


class Comparison:
    """Cells printed in a paper, ours beside them, and how many agree."""

    def __init__(self, *columns: str) -> None:
        self.columns, self.pairs = columns, list[Pair]()

    def add(
        self, label: tuple[str, ...], ours: Any, paper: float, paper_se: float | None = None
    ) -> None:
        """A cell: our values over the draws, the paper's mean, and its standard error.

        Ours stands for both where the paper gives none. Nothing of ours is rounded.
        """
        values = np.asarray(ours, dtype=float)
        if values.size == 0:
            return
        value = float(values.mean())
        error = float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else 0.0
        allowed = 2.0 * math.hypot(error, error if paper_se is None else paper_se)
        self.pairs.append(Pair(label, value, error, paper, value - paper, allowed))

    def show(
        self, results: Any, wanted: int, what: str = "accuracies", likely: str | None = None
    ) -> None:
        """Print all cells, those that disagree first, and the bar; judged if all are there.

        ``likely`` says why cells disagree, where some do.
        """
        agree = sum(pair.agrees for pair in self.pairs)
        print(f"{what}: ours (mean ± standard error) beside the paper's\n")
        rows = [
            [
                *pair.label,
                f"{pair.ours:.2f} ± {pair.error:.2f}",
                pair.paper,
                f"{pair.difference:+.2f}",
                f"{pair.allowed:.2f}",
                pair.agrees,
            ]
            for pair in sorted(self.pairs, key=lambda pair: pair.agrees)
        ]
        table([*self.columns, "ours", "paper", "difference", "allowed", "agrees"], rows)
        if likely and agree < len(self.pairs):
            print(f"likely reason where they do not agree: {likely}\n")
        share = 100.0 * agree / len(self.pairs) if self.pairs else None
        results.bar(
            f"{what}: at least {ENOUGH:.0f} % of the cells within 2 √(SE² + SE²) of the paper",
            f"{agree} of {len(self.pairs)}" + (f", {share:.0f} %" if self.pairs else ""),
            share is not None and share >= ENOUGH if len(self.pairs) == wanted else None,
        )


# ---- experiments and their pages ---------------------------------------------------------------


@dataclass(frozen=True)
class Experiment:
    """A file of this folder that has a ``main``; its docstring opens with what it shows.

    ``SHOWS`` in the file names the table or figure of a paper, where it redoes one.
    """

    path: pathlib.Path
    title: str
    words: str
    shows: str | None

    @property
    def name(self) -> str:
        return self.path.stem

    def results(self, quick: bool) -> dict[str, Any] | None:
        """What its JSON holds, None where it never ran."""
        file = HERE / "results" / f"{self.name}{'.quick' if quick else ''}.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def command(self, known: dict[str, Any]) -> list[str]:
        """What runs all of it again: as it was run last, but for the choice of some cells."""
        kept, chooses = [], False
        for word in known["options"]:
            chooses = word in CHOICES if word.startswith("--") else chooses
            kept += [] if chooses else [word]
        return ["python", f"benchmarks/{self.name}.py", *kept]

    def minutes(self, quick: bool = False) -> float | None:
        """What its cells took, all together."""
        known = self.results(quick)
        return (
            sum(cell.get("took", 0.0) for cell in known["cells"].values()) / 60 if known else None
        )


def experiments() -> dict[str, Experiment]:
    """All experiments of the folder by name, read without being run."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "main" not in functions or path.stem == "run":
            continue
        title, _, words = (ast.get_docstring(tree) or path.stem).partition("\n")
        shows = None
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHOWS":
                shows = ast.literal_eval(node.value)
        found[path.stem] = Experiment(path, title.rstrip("."), words.strip("\n"), shows)
    return found


def overview(quick: bool = False) -> str:
    """One line an experiment: question, paper's table or figure, command, minutes."""
    rows = [
        [e.title, e.shows, f"`python benchmarks/{e.name}.py`", e.minutes(quick)]
        for e in experiments().values()
    ]
    return markdown(["experiment", "table or figure", "command", "minutes"], rows)


def write_page(experiment: Experiment, quick: bool = False) -> pathlib.Path | None:
    """docs/results/NAME.md (of a quick run build/results/NAME.md) from the JSON; None without."""
    known = experiment.results(quick)
    if known is None or not known["runs"]:
        return None
    command, run = experiment.command(known), known["runs"][-1]
    printed = subprocess.run(
        [sys.executable, str(experiment.path), *command[2:], "--report"],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    ).stdout
    versions = ", ".join(f"{name} {v}" for name, v in run["versions"].items() if v)
    dates = sorted({each["date"][:10] for each in known["runs"]})
    shows = f"Paper: {experiment.shows}.\n\n" if experiment.shows else ""
    skipped = "".join(f"- {key}: {reason}\n" for key, reason in known.get("skipped", {}).items())
    text = (
        f"# {experiment.title}\n\n{shows}{experiment.words}\n\n"
        f"Run again with `{' '.join(command)}`. Last run {dates[-1]}"
        f"{f' (first cells {dates[0]})' if dates[0] != dates[-1] else ''}: "
        f"kernelweave {run['kernelweave']} ({run['commit']}), Python {run['python']}, {versions}; "
        f"{run['processor']}, {run['cores']} cores; threads: {', '.join(run['threads'])}; "
        f"load at the start {run['load']:.1f}.\n\n{printed.strip()}\n"
        + (f"\nNot measured:\n\n{skipped}" if skipped else "")
    )
    page = ROOT / ("build" if quick else "docs") / "results" / f"{experiment.name}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
    return page


def write_index(quick: bool = False) -> None:
    """The page that leads to the others, and the overview in benchmarks/README.md."""
    folder = ROOT / ("build" if quick else "docs") / "results"
    rows = []
    for experiment in experiments().values():
        known = experiment.results(quick)
        if known is None or not (folder / f"{experiment.name}.md").exists():
            continue
        bars = [bar["met"] for bar in known["bars"]]
        met = f"{bars.count(True)} of {len(bars)}" if bars else None
        date = known["runs"][-1]["date"][:10]
        rows.append([f"[{experiment.title}]({experiment.name}.md)", experiment.shows, met, date])
    if rows:
        (folder / "README.md").write_text(
            "# Results\n\n"
            "Written from `benchmarks/results/` by `python benchmarks/run.py --pages`.\n\n"
            + markdown(["experiment", "table or figure", "bars met", "last run"], rows)
            + "\n",
            encoding="utf-8",
        )
    if not quick:
        readme = HERE / "README.md"
        before, start, rest = readme.read_text(encoding="utf-8").partition("<!-- overview -->\n")
        _, end, after = rest.partition("<!-- /overview -->")
        text = before + start + overview() + "\n" + end + after
        readme.write_text(text, encoding="utf-8")
