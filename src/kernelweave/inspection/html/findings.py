"""What a report tells everybody, as plain values: the first screen, the JSON and the Markdown.

No names of kernels, and one verdict on each view: whether it tells something, and whether the
predictions need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np

from kernelweave import __version__
from kernelweave._core.checks import some
from kernelweave.banks.unseen import BLIND
from kernelweave.inspection._fits import weights_of
from kernelweave.inspection.comparison import EQUAL, JOINT, SINGLE
from kernelweave.inspection.draws import summed_by_view
from kernelweave.inspection.held_out import HeldOut, told
from kernelweave.inspection.html.facts import Facts, LackedView, Predicted, Reliability
from kernelweave.inspection.importance import SHUFFLED
from kernelweave.inspection.report import SHOWN

SCHEMA = "kernelweave report 1"
WAYS = {EQUAL: "equal weights", SINGLE: "the best view alone", JOINT: "all columns as one view"}
NEEDED, SPARE, SPARE_SHOWN, IDLE, UNTOLD = (
    "needed",
    "informative, not shown to be needed",
    "informative, but not needed",
    "not shown to help",
    "not tested",
)
_NOTHING = 0.005  # differences of accuracy or R² below this are shown as 0.00
_SHARES = ("accuracy", "balanced accuracy")
_MOST = 12  # views that are named


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ViewFound:
    """A view: its weight, what is lost without it, how many rows have it, and the verdict."""

    name: str
    weight: Estimate
    lost: Estimate | None
    rows: int | None
    p: float | None
    verdict: str


@dataclass(frozen=True)
class Way:
    """A simpler way to predict, and by how much the model is better."""

    name: str
    score: float
    better_by: Estimate
    verdict: str


@dataclass(frozen=True)
class Findings:
    """All of it; None where it was not asked or cannot be known."""

    title: str
    target: str | None
    model: str
    rows: int | None
    score_name: str | None = None
    level: float | None = None
    score: Estimate | None = None
    baseline: float | None = None
    baseline_words: str = ""
    predicts: bool | None = None
    views: tuple[ViewFound, ...] = ()
    ways: tuple[Way, ...] = ()
    lacking: tuple[LackedView, ...] = ()
    blind: int = 0
    classes: tuple[tuple[str, int, int], ...] = ()
    hardest: str = ""
    probabilities: Reliability | None = None
    certificate: str = ""
    gap: float | None = None
    untested: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    schema: str = SCHEMA
    version: str = __version__

    @classmethod
    def of(
        cls, model: Any, facts: Facts, title: str | None, target: str | None, proof: str
    ) -> Findings:
        """Those of a fitted model."""
        views = tuple(dict.fromkeys(model.bank_.views))
        what = "A model of" if target is None else f"Predicting {target} from"
        common: dict[str, Any] = {
            "title": title or f"{what} {_views(views, model)}",
            "target": target,
            "model": type(model).__name__,
            "rows": facts.n_rows,
            "views": tuple(_view(name, model, facts) for name in views),
            "lacking": facts.lacking,
            "blind": facts.blind,
            "classes": facts.classes,
            "hardest": "" if facts.predicted is None else _hardest_third(facts.predicted),
            "probabilities": facts.reliability,
            "certificate": proof,
            "gap": float(model.duality_gap_),
            "untested": facts.untested if len(views) > 1 else "",
            "left_out": dict(facts.left_out),
        }
        found = facts.comparison
        if found is None:
            return cls(**common)
        score, guess = Estimate(*found.score(found.names[0])), facts.guessed
        known = guess is not None and np.isfinite(guess)
        return cls(
            **common,
            score_name=found.scoring,
            level=found.level,
            score=score,
            baseline=guess if known else None,
            baseline_words=facts.guess_words,
            predicts=bool(guess is not None and score.low > guess) if known else None,
            ways=tuple(_way(name, found) for name in found.names[1:]),
        )

    @property
    def in_percent(self) -> bool:
        """Whether the score is a share of rows."""
        return self.score_name in _SHARES

    def shown(self, value: float, unit: bool = True) -> str:
        """A score as people write it."""
        if self.in_percent:
            return f"{100.0 * value:.0f}{' %' if unit else ''}"
        return f"{value:.2f}".replace("-", "−")

    # ---- words ---------------------------------------------------------------------------------

    def sentences(self) -> list[str]:
        """The verdict: what a reader must know, the most important first."""
        return [
            *self.headline(),
            *self.on_views(),
            *self.on_ways(),
            *self.on_rows(),
            self.certificate,
        ]

    def headline(self) -> list[str]:
        """Whether it predicts, how well, and against what."""
        if self.score is None:
            return []
        what = self.target or "the target"
        if self.in_percent:
            each = "" if self.score_name == "accuracy" else ", counted class by class"
            number = f"{self.shown(self.score.value)} of rows it had not seen are right{each}"
        else:
            number = f"{self.score_name} {self.shown(self.score.value)} on rows it had not seen"
        low, high = self.shown(self.score.low, False), self.shown(self.score.high)
        found = f"{number} ({100 * (self.level or 0.0):g} % interval {low} to {high})"
        if self.baseline is None:
            return [f"Of {what}: {found}."]
        word = "predicts" if self.predicts else "is not shown to predict"
        return [
            f"The model {word} {what}: {found}; {self.baseline_words} gives "
            f"{self.shown(self.baseline)}."
        ]

    def on_views(self) -> list[str]:
        """Which views it needs, and which not: one verdict on each."""
        if len(self.views) < 2:
            return []
        groups = {
            verdict: [view.name for view in self.views if view.verdict == verdict]
            for verdict in (NEEDED, SPARE, SPARE_SHOWN, IDLE)
        }
        if not any(groups.values()):
            return [f"Not tested: which views help beyond chance. {self.untested}"] * bool(
                self.untested
            )
        lines = [
            f"{verdict[0].upper()}{verdict[1:]}: {some(names, _MOST)}."
            for verdict, names in groups.items()
            if names
        ]
        return [" ".join(lines)]

    def on_ways(self) -> list[str]:
        """What simpler ways do, in one line."""
        if not self.ways:
            return []
        parts = [
            f"{way.verdict} than {way.name} ({told(*astuple(way.better_by))})" for way in self.ways
        ]
        return [f"The model is {'; '.join(parts)}."]

    def on_rows(self) -> list[str]:
        """For how many rows, and for which it does not work as well."""
        if self.rows is None:
            return []
        lines = [f"Learned from {self.rows} rows."]
        for one in self.lacking:
            line = f"{one.rows} lack {one.view}"
            if one.right is not None and one.others_right is not None:
                line += f": it is right for {100 * one.right:.0f} % of these, and for "
                line += f"{100 * one.others_right:.0f} % of the other rows"
            lines.append(f"{line}.")
        if self.blind:
            have = "row has" if self.blind == 1 else "rows have"
            lines.append(
                f"{self.blind} {have} {BLIND}: what the model says of these is not about them."
            )
        if self.classes:
            name, count, right = min(self.classes, key=lambda one: one[2] / max(one[1], 1))
            lines.append(
                f"It does least well for {name}: it finds {right} of the {count} rows that are "
                f"{name}, each predicted by a model that had not seen it."
            )
        if self.hardest:
            lines.append(self.hardest)
        return [" ".join(lines)]


def _hardest_third(found: Predicted) -> str:
    """Of numbers: which third of the targets is predicted least well."""
    truth = found.truth
    if truth.ndim != 1 or truth.dtype.kind not in "fiu" or np.unique(truth).size < _MOST:
        return ""
    if not np.array_equal(found.doubt, np.abs(truth - found.said)):
        return ""
    low, high = np.quantile(truth, (1 / 3, 2 / 3))
    third = np.searchsorted([low, high], truth)
    errors = [float(found.doubt[third == part].mean()) for part in range(3)]
    worst = int(np.argmax(errors))
    where = (f"up to {low:.3g}", f"from {low:.3g} to {high:.3g}", f"above {high:.3g}")[worst]
    others = float(found.doubt[third != worst].mean())
    return (
        f"It does least well where targets are {where}, which is a third of the rows: it is off by "
        f"{errors[worst]:.3g} on average there, and by {others:.3g} elsewhere."
    )


def _view(name: str, model: Any, facts: Facts) -> ViewFound:
    """What is known of one view."""
    names, sums = summed_by_view(weights_of(model), model.bank_.views)
    place = names.index(name)
    weight = Estimate(float(sums[place]), float("nan"), float("nan"))
    if facts.draws is not None:
        names, sums, drawn = facts.draws.of_views()
        found, place = facts.draws.summary(sums, drawn), names.index(name)
        weight = Estimate(*(float(found[key][place]) for key in ("weight", "low", "high")))
    lost, key = None, f"{name}{SHUFFLED}"
    if facts.importance is not None and key in facts.importance.names:
        lost = Estimate(*facts.importance.difference(key))
    p = helps = None
    if facts.selection is not None and name in facts.selection.views:
        place = facts.selection.views.index(name)
        p, helps = float(facts.selection.adjusted[place]), bool(facts.selection.selected[place])
    rows = facts.n_rows
    if rows is not None:
        rows -= sum(one.rows for one in facts.lacking if one.view == name)
    scaled = facts.importance is not None and bool(np.isfinite(facts.importance.most))
    return ViewFound(name, weight, lost, rows, p, _judged(weight.value, lost, helps, scaled))


def _judged(weight: float, lost: Estimate | None, helps: bool | None, scaled: bool) -> str:
    """One verdict: whether the view tells something, and whether predictions need it.

    ``scaled``: whether it is known what a small loss is.
    """
    if helps is None and lost is None:
        return UNTOLD
    if helps is None:
        return NEEDED if lost is not None and lost.low > 0.0 else IDLE
    if not helps:
        return IDLE
    if lost is not None and lost.low > 0.0:
        return NEEDED
    idle = scaled and lost is not None and abs(lost.value) < _NOTHING
    return SPARE_SHOWN if idle or weight < SHOWN else SPARE


def _way(name: str, found: HeldOut) -> Way:
    mean, low, high = found.difference(name)
    verdict = "better" if low > 0.0 else "worse" if high < 0.0 else "not shown to be better"
    return Way(WAYS.get(name, name), found.score(name)[0], Estimate(mean, low, high), verdict)


def better(way: Way) -> str:
    """What the model is beside a simpler way: by how much, and what that says."""
    found = way.better_by
    by = "better than this by" if found.low > 0.0 else f"{way.verdict} than this: it differs by"
    return f"{by} {told(found.value, found.low, found.high)}"


def _views(names: Sequence[str], model: Any) -> str:
    if names == ("all",):
        return f"{model.n_features_in_} columns"
    return some(names, _MOST)
