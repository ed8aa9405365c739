"""A paper's figures beside ours, and paired tests over random splits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

from benchmarks.harness.markdown_tables import standard_error, table

ENOUGH = 80.0  # per cent of a paper's cells that must agree


@dataclass(frozen=True)
class Pair:
    """A cell of a paper's table and ours; ``allowed`` is 2 √(SE_paper² + SE_ours²).

    One draw has no standard error: it neither agrees nor disagrees.
    """

    label: tuple[str, ...]
    ours: float
    error: float
    paper: float
    difference: float
    allowed: float | None

    @property
    def agrees(self) -> bool | None:
        if self.allowed is None:
            return None
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
        error = standard_error(values)
        both = 2.0 * math.hypot(error, error if paper_se is None else paper_se)
        allowed = both if values.size > 1 else None
        self.pairs.append(Pair(label, value, error, paper, value - paper, allowed))

    def show(
        self,
        results: Any,
        wanted: int,
        what: str = "accuracies",
        guess: str | None = None,
        enough: float = ENOUGH,
    ) -> None:
        """Print all cells, those that disagree first, and the bar; judged if all are there.

        ``guess`` is a cause for cells that disagree, made after seeing them; ``enough`` is the bar
        in per cent.
        """
        judged = [pair for pair in self.pairs if pair.agrees is not None]
        agree = sum(bool(pair.agrees) for pair in judged)
        print(f"{what}: ours (mean ± standard error) beside the paper's\n")
        rows = [
            [
                *pair.label,
                f"{pair.ours:.2f} ± {pair.error:.2f}",
                pair.paper,
                f"{pair.difference:+.2f}",
                None if pair.allowed is None else f"{pair.allowed:.2f}",
                pair.agrees,
            ]
            for pair in sorted(self.pairs, key=lambda pair: bool(pair.agrees))
        ]
        table([*self.columns, "ours", "paper", "difference", "allowed", "agrees"], rows)
        if guess and agree < len(judged):
            print(f"A guess, made after the misses were seen: {guess}\n")
        share = 100.0 * agree / len(judged) if judged else None
        results.bar(
            f"{what}: at least {enough:.0f} % of the cells within 2 √(SE² + SE²) of the paper",
            f"{agree} of {len(judged)}" + (f", {share:.0f} %" if judged else ""),
            share is not None and share >= enough if len(judged) == wanted else None,
        )


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
