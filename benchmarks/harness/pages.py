"""From results to pages: which experiments there are, and docs/results/NAME.md.

Nothing here needs kernelweave. A page is what an experiment prints with ``--report``, under its own
words, the command that runs it again, its date and the machine.
"""

from __future__ import annotations

import ast
import json
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.folders import BENCHMARKS, GROUPS, output_folder, results_file
from benchmarks.harness.markdown_tables import markdown

CHOICES = (
    "--learners",
    "--only",
    "--panels",
    "--parts",
    "--sets",
)  # of some cells among all


@dataclass(frozen=True)
class Experiment:
    """A file of a group that has a ``main``; its docstring opens with what it shows.

    ``SHOWS`` in the file names the table or figure of a paper, where it redoes one.
    """

    path: pathlib.Path
    title: str
    words: str
    shows: str | None

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def module(self) -> str:
        """What ``python -m`` runs."""
        return f"benchmarks.{self.path.parent.name}.{self.name}"

    def results(self, quick: bool) -> dict[str, Any] | None:
        """What its JSON holds, None where it never ran."""
        file = results_file(self.name, quick)
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def command(self, known: dict[str, Any]) -> list[str]:
        """What runs all of it again: as it was run last, but for the choice of some cells."""
        kept, chooses = [], False
        for word in known["options"]:
            chooses = word in CHOICES if word.startswith("--") else chooses
            kept += [] if chooses else [word]
        return ["python", "-m", self.module, *kept]

    def minutes(self, quick: bool = False) -> float | None:
        """What its cells took, all together."""
        known = self.results(quick)
        return (
            sum(cell.get("took", 0.0) for cell in known["cells"].values()) / 60 if known else None
        )


def experiments() -> dict[str, Experiment]:
    """All experiments by name, read without being run."""
    found = {}
    paths = [path for group in GROUPS for path in (BENCHMARKS / group).glob("*.py")]
    for path in sorted(paths, key=lambda path: path.stem):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "main" not in functions:
            continue
        title, _, words = (ast.get_docstring(tree) or path.stem).partition("\n")
        shows = None
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHOWS":
                shows = ast.literal_eval(node.value)
        found[path.stem] = Experiment(path, title.rstrip("."), words.strip("\n"), shows)
    return found


def overview(quick: bool = False) -> str:
    """One line per experiment: question, paper's table or figure, command, minutes."""
    rows = [
        [e.title, e.shows, f"`python -m {e.module}`", e.minutes(quick)]
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
        [sys.executable, *command[1:], "--report"],
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
    page = output_folder("results", quick) / f"{experiment.name}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
    return page


def write_index(quick: bool = False) -> None:
    """The page that leads to the others, and the overview in benchmarks/README.md."""
    folder = output_folder("results", quick)
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
            "Written from `benchmarks/results/` by `python -m benchmarks.run --pages`.\n\n"
            + markdown(["experiment", "table or figure", "bars met", "last run"], rows)
            + "\n",
            encoding="utf-8",
        )
    if not quick:
        readme = BENCHMARKS / "README.md"
        before, start, rest = readme.read_text(encoding="utf-8").partition("<!-- overview -->\n")
        _, end, after = rest.partition("<!-- /overview -->")
        text = before + start + overview() + "\n" + end + after
        readme.write_text(text, encoding="utf-8")
