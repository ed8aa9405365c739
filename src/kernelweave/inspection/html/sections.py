"""The sections of a report: words, charts and tables made of facts."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from kernelweave._core.checks import is_number, shown
from kernelweave._core.types import Array
from kernelweave.banks.unseen import BLIND
from kernelweave.inspection._fits import weights_of
from kernelweave.inspection.draws import summed_by_view
from kernelweave.inspection.held_out import HeldOut, told
from kernelweave.inspection.html import charts
from kernelweave.inspection.html.charts import Chart
from kernelweave.inspection.html.code import as_code
from kernelweave.inspection.html.columns import in_words, of_each_view
from kernelweave.inspection.html.facts import Facts, Predicted
from kernelweave.inspection.html.findings import Findings
from kernelweave.inspection.report import SHOWN
from kernelweave.inspection.widths import learned_widths
from kernelweave.solution import Solution

_HARDEST = 20
_TWO_QUESTIONS = (
    "The first table asks whether a view tells anything of the targets of these rows; the second "
    "asks how much worse predictions of other rows get without it. A view may help beyond chance "
    "while the second interval includes 0: then it tells something, but what it adds to the "
    "predictions is too little to be shown with so many rows."
)
_PACKAGES = ("kernelweave", "numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True)
class ReportTable:
    """Rows of cells; cells that are numbers are shown and sorted as such."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers."""
        return any(is_number(row[column]) for row in self.rows[:1])


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    text: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[ReportTable] = ()
    code: str = ""


@dataclass(frozen=True)
class Reader:
    """What sections read: a fitted model, the facts, and who the rows are, if it may be told."""

    model: Any
    facts: Facts
    row_ids: Sequence[Any] | None = None
    seed: Any = field(default=0)
    title: str | None = None
    target: str | None = None

    @property
    def findings(self) -> Findings:
        """What everybody is told."""
        proof = certificate_in_words(self.model)
        return Findings.of(self.model, self.facts, self.title, self.target, proof)

    def sections(self) -> Iterator[Section]:
        """For everybody: predictions, columns, probabilities, rows."""
        yield from self._predictions()
        yield from self._which_columns()
        yield from self._probabilities()
        yield from self._hardest()
        yield from self._lacking()

    def statistics(self) -> Iterator[Section]:
        """For statisticians: kernels, tests, comparisons, the solver."""
        yield self._weights()
        yield from self._scores()
        yield from self._pictures()
        yield self._solver()
        yield self._settings()

    def _weights(self) -> Section:
        model, facts = self.model, self.facts
        bank = model.bank_
        if facts.draws is None:
            weights = weights_of(model)
            views, sums = summed_by_view(weights, bank.views)
            tables = [
                ReportTable(
                    "Weight by view", ("view", "weight"), _sorted(zip(views, sums, strict=True))
                ),
                ReportTable(
                    "Weight by kernel",
                    ("kernel", "view", "weight"),
                    _sorted(zip(bank.names, bank.views, weights, strict=True)),
                ),
            ]
            told = "Without data there are no intervals: give X and y to see how stable these are."
            text = [self._active(), told, *self._dropped()]
            return Section("Weights", text, (), [*tables, *self._widths()])
        draws = facts.draws
        names, sums, found = draws.of_views()
        text = [
            self._active(),
            f"Intervals hold {100 * draws.level:g} % of {len(draws.draws)} resamples of the rows. "
            "“Selected” is the share of resamples in which there is a weight. Neither says that a "
            "view is of use: weights sum to a constant, whatever there is to find.",
            *self._dropped(),
        ]
        header = ("weight", "mean", "low", "high", "selected")
        by_view = zip(names, *_columns(draws.summary(sums, found), header), strict=True)
        by_kernel = zip(
            draws.names,
            draws.views,
            *_columns(draws.summary(draws.weights, draws.draws), header),
            strict=True,
        )
        tables = [
            ReportTable("Weight by view", ("view", *header), _sorted(by_view, -5)),
            ReportTable("Weight by kernel", ("kernel", "view", *header), _sorted(by_kernel, -5)),
            *self._widths(),
        ]
        return Section("Weights", text, [charts.weights(draws)], tables)

    def _active(self) -> str:
        """How many kernels have a weight that shows."""
        bank, active = self.model.bank_, np.count_nonzero(np.abs(weights_of(self.model)) >= SHOWN)
        count = len(set(bank.views))
        views = f"{count} {'view' if count == 1 else 'views'}"
        return f"{active} of {bank.m_all} kernels have a weight of 0.001 or more, on {views}."

    def _widths(self) -> list[ReportTable]:
        rows = learned_widths(self.model)
        return [ReportTable("Learned widths", ("kernel", "feature", "width"), rows)] if rows else []

    def _dropped(self) -> list[str]:
        dropped = self.model.bank_.dropped
        return [f"Left out: {name}: {why}." for name, why in list(dropped.items())[:10]]

    def _scores(self) -> Iterator[Section]:
        facts = self.facts
        if facts.comparison is not None:
            found = facts.comparison
            text = [
                f"Mean {found.scoring} over {len(found.scores)} splits. Intervals respect that "
                "training sets overlap (Nadeau and Bengio), and are no narrower than the number of "
                "rows held out allows.",
                *(f"Not compared with {name}: {why}" for name, why in found.left_out.items()),
            ]
            yield Section(
                "Scores against simpler ways",
                text,
                [charts.differences(found)],
                [_score_table(found)],
            )
        tables, pictures, text = [], [], self.findings.on_views()
        if facts.selection is not None:
            s = facts.selection
            text.append(
                "A view helps if the objective rises when its rows are shuffled, more than chance "
                f"explains; at most {100 * s.level:g} % of the views found are false, on average."
            )
            rows = zip(s.views, s.weights, s.loss, s.p_values, s.adjusted, s.selected, strict=True)
            header = ("view", "weight", "rise of objective", "p", "adjusted p", "helps")
            tables.append(
                ReportTable("Which views help beyond chance", header, [*map(tuple, rows)])
            )
        if facts.importance is not None:
            text.append(
                "The chart shows what is lost when a view of the rows held out is shuffled."
            )
            text += [_TWO_QUESTIONS] if facts.selection is not None else []
            pictures.append(charts.differences(facts.importance))
            tables.append(_score_table(facts.importance))
        if tables:
            yield Section("What each view is worth", text, pictures, tables)

    def _predictions(self) -> Iterator[Section]:
        found = self.facts.predicted
        if found is None:
            return
        classes = getattr(self.model, "classes_", None)
        if _timed(found):
            pictures = [charts.risk_thirds(found)]
        elif classes is None:
            pictures = [charts.residuals(found, self.model._targets.numbers(found.truth))]
        else:
            pictures = [charts.confusion(found, classes)]
            if found.scores is not None:
                pictures.insert(0, charts.roc(found, classes[-1]))
        yield Section("Predictions of rows held out", (), pictures)

    def _which_columns(self) -> Iterator[Section]:
        found, rows = self.facts.columns, self.facts.n_rows
        if found is None or rows is None:
            return
        header = ("view", "column", "importance", "low", "high", "p of the test")
        table = ReportTable("The first columns of each view", header, of_each_view(found))
        views = tuple(dict.fromkeys(self.model.bank_.views))
        picture = charts.columns(found, views)
        yield Section("Which columns", in_words(found, rows), [picture], [table])

    def _probabilities(self) -> Iterator[Section]:
        found = self.facts.reliability
        if found is None:
            return
        text = [
            f"Of rows to which the model gives {found.what} a probability of 30 %, 30 in 100 "
            "should turn out so. Each dot stands for as many rows held out; on the dotted line "
            "probabilities come true. Bars are 95 % intervals.",
            f"Brier score {found.brier:.3f}, the mean squared error of the probabilities; the "
            f"shares of the classes for every row would give {found.constant:.3f}. Less is better. "
            f"Method: {found.method}, fitted to the rows of the other folds.",
        ]
        yield Section("Probabilities", text, [charts.reliability(found)])

    def _hardest(self) -> Iterator[Section]:
        found = self.facts.predicted
        if found is None:
            return
        worst = np.argsort(-found.doubt, kind="stable")[:_HARDEST]
        header, ids = ["rank", "truth", "prediction", "how far off"], self.row_ids
        timed = _timed(found)
        said = [f"{x:.4g}" for x in np.exp(-found.said)] if timed else found.said
        rows = [
            [rank + 1, _shown(found.truth[k]), _shown(said[k]), float(found.doubt[k])]
            for rank, k in enumerate(worst)
        ]
        text = [
            "Row names are left out: they may be names of people. Ask for them with row_ids, or "
            "--name-rows on the command line."
        ]
        if timed:
            text.insert(0, "Times; 12+ is a row that was last seen at 12, without the event.")
        if ids is not None:
            header.insert(1, "row")
            for row, k in zip(rows, worst, strict=True):
                row.insert(1, str(ids[found.rows[k]]))
            text.pop()
        yield Section(
            "Hardest rows", text, (), [ReportTable("Rows held out, the worst first", header, rows)]
        )

    def _lacking(self) -> Iterator[Section]:
        facts = self.facts
        if not facts.lacking:
            return
        text = [
            "A row that lacks a view, or all its numbers or categories, is predicted from its "
            "other views; what it lacks counts as the mean of the rows that have it."
        ]
        if facts.blind:
            have = "row has" if facts.blind == 1 else "rows have"
            text.append(
                f"{facts.blind} {have} {BLIND}: of these the model says what it says of an average "
                "row."
            )
        header = ("view", "rows without it", "share of these right", "share of the others right")
        rows = [
            (one.view, one.rows, *("" if x is None else x for x in (one.right, one.others_right)))
            for one in facts.lacking
        ]
        table = ReportTable("Rows held out, by what they lack", header, rows)
        yield Section("Rows that lack what matters", text, (), [table])

    def _pictures(self) -> Iterator[Section]:
        facts = self.facts
        if facts.alignment is not None:
            text = [
                "1 where two kernels say the same of all pairs of rows, 0 where they have nothing "
                "in common. Kernels that are alike can take weight from one another."
            ]
            yield Section("How alike kernels are", text, [charts.alignment(*facts.alignment)])
        if facts.points is not None:
            classes = getattr(self.model, "classes_", None)
            picture = charts.points(*facts.points, classes)
            yield Section("The learned kernel", (), [picture])
        if facts.path is not None:
            text = ["If weights change with C, they tell of the fit as much as of the data."]
            yield Section("Weights over C", text, [charts.path(facts.path)])

    def _solver(self) -> Section:
        model = self.model
        text = [
            certificate_in_words(model),
            "This is proved from the data, whatever the solver did: the objective of any other "
            "weights and machines is lower by no more than this.",
            f"{model.n_iter_} iterations, {model.n_svm_solves_} machines solved.",
        ]
        return Section("Certificate and convergence", text, [charts.convergence(model)])

    def _settings(self) -> Section:
        params = self.model.get_params(deep=False)
        rows = [(name, shown(value, 300)) for name, value in params.items()]
        rows += [(name, _version(name)) for name in _PACKAGES]
        rows += [("Python", platform.python_version()), ("seed", shown(self.seed))]
        left = [f"Left out, {what}: {why}" for what, why in self.facts.left_out.items()]
        if self.facts.untested:
            left.append(f"Left out, which views help beyond chance: {self.facts.untested}")
        table = ReportTable("Parameters and versions", ("name", "value"), rows)
        return Section("Settings", left, (), [table], as_code(self.model))


def certificate_in_words(model: Any) -> str:
    """How close to the optimum the model is proved to be."""
    found = model.solution_
    solutions: tuple[Solution, ...] = found if isinstance(found, tuple) else (found,)
    given = solutions[0].criterion == "given"
    best = "best model with these weights" if given else "best weights for this objective"
    status, gap = solutions[0].status, f"{100.0 * model.duality_gap_:.2g} %"
    if status in ("optimal", "rule_met"):
        return f"Certificate: the solver found the {best}, proved to within {gap}."
    return f"Certificate: the fit ended early ({status}), proved to be within {gap} of the {best}."


def _timed(found: Predicted) -> bool:
    """Whether targets are times to an event."""
    return "event" in (found.truth.dtype.names or ())


def _shown(target: Any) -> str:
    """A target or a prediction as people read it: a time, open at the end, or an interval."""
    names = getattr(getattr(target, "dtype", None), "names", None)
    if names is None:
        return str(target)
    if "event" in names:
        return f"{target['time']:g}{'' if target['event'] else '+'}"
    low, high = target["lower"], target["upper"]
    return f"{low:g}" if low == high else f"{low:g} to {high:g}".replace("inf", "∞")


def _score_table(found: HeldOut) -> ReportTable:
    rows = []
    for name in found.names:
        mean, low, high = found.score(name)
        less = told(*found.difference(name)) if name != found.names[0] else ""
        rows.append((name, mean, low, high, less))
    header = ("model", found.scoring, "low", "high", f"{found.names[0]}: better by")
    return ReportTable(f"{found.scoring} of rows held out", header, rows)


def _columns(summary: dict[str, Array], names: Sequence[str]) -> list[list[float]]:
    """Columns of weights by name; a millionth of the largest is shown as none."""
    least = 1e-6 * max(float(np.abs(column).max()) for column in summary.values())
    found = (summary[name] for name in names)
    return [np.where(np.abs(column) > least, column, 0.0).tolist() for column in found]


def _sorted(rows: Any, key: int = -1) -> list[tuple[Any, ...]]:
    """Rows with the largest number of one column first."""
    return sorted((tuple(row) for row in rows), key=lambda row: -row[key])


def _version(package: str) -> str:
    if package == "kernelweave":
        from kernelweave import __version__

        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
