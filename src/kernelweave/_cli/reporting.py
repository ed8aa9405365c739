"""Reports: what a model and its views are worth, as an HTML file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelweave._cli.data import Source
from kernelweave._cli.models import Labeled, scoring_of
from kernelweave._cli.output import check_output

_ENDINGS = (".html", ".htm", ".md", ".json")


@dataclass(frozen=True)
class Report:
    """A report that is asked for: where, and with how much effort."""

    path: str
    cv: int | None = None
    jobs: int | None = None
    seed: int = 0
    name_rows: bool = False

    def check(self, option: str, source: Source, *inputs: str) -> None:
        """Complain before the work, if the report could not be written after it."""
        if not self.path.lower().endswith(_ENDINGS):
            raise ValueError(f"{option} must name an .html, .md or .json file, found {self.path!r}")
        if self.name_rows and source.key is None:
            raise ValueError("--name-rows needs ids: name their column with --id")
        check_output(option, self.path, source, *inputs)

    def write(self, model: Any, rows: Labeled | None, target: str | None) -> str:
        """Write it, and return its verdict; without rows it tells what the model knows."""
        if rows is None:
            return str(model.report(self.path, random_state=self.seed, target=target))
        found = model.report(
            self.path,
            rows.X,
            rows.y,
            cv=5 if self.cv is None else self.cv,
            scoring=scoring_of(model),
            target=target,
            row_ids=list(rows.ids) if self.name_rows else None,
            n_jobs=self.jobs,
            random_state=self.seed,
            verbose=1,
        )
        return str(found)
