"""Scores on rows held out, and intervals that respect how splits overlap and how few rows are.

The training sets of a cross-validation share most of their rows, so that scores of J splits are not
J independent ones. For their mean, or the mean of differences between two models, the interval is
that of a t-test with the variance of Nadeau and Bengio (Machine Learning 52, 2003, pages 239–281):

    mean ± t_ν √((1/J + n_test/n_train) s²)

or what the rows held out leave open, where that is wider (``held_rows.py``). ν is J − 1 where rows
are counted one by one, and else one less than the splits that hold each row out once, or 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)

from kernelweave._core.checks import check_level, check_number, did_you_mean, is_whole
from kernelweave._core.tolerances import SAME_SCORE
from kernelweave._core.types import Array, Places
from kernelweave.estimators._base import MKLEstimator, recalled
from kernelweave.estimators._candidates import Fold, as_folds
from kernelweave.inspection._frames import frame
from kernelweave.inspection._refits import Refits, run
from kernelweave.inspection.held_rows import Held, HeldRows, Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_SHARES = ("accuracy", "balanced_accuracy")  # of rows predicted right
_AT_MOST_1 = (*_SHARES, "r2")  # scores that end there

Ask = Callable[[Refits, Fold], Mapping[str, Score]]  # scores of several models on one split


@dataclass(frozen=True)
class How:
    """How rows are held out and scored: the options of ``compare`` and of all that do the same."""

    cv: Any = 5
    n_repeats: int = 4
    scoring: Any = None
    groups: Any = None
    level: float = 0.95
    n_jobs: int | None = None
    random_state: Any = 0
    verbose: int = 0

    def __post_init__(self) -> None:
        check_number("n_repeats", self.n_repeats, int)
        check_level(self.level)

    @classmethod
    def of(cls, what: str, options: Mapping[str, Any]) -> How:
        """The options of the function ``what``."""
        known = [one.name for one in fields(cls)]
        for name in options:
            if name not in known:
                raise TypeError(f"{what} has no option {name!r}; {did_you_mean(name, known)}")
        return cls(**options)


@dataclass(frozen=True, repr=False, eq=False)
class HeldOut:
    """Scores of several models on the same splits.

    Attributes
    ----------
    names : tuple of str
        The models; the first is the one that others are compared with.
    scores : array (n_splits, n_models)
    scoring : str
        What the scores are; more is better.
    ratio : float
        Rows held out for each row to learn from.
    level : float
        Of the intervals.
    left_out : mapping
        Models that could not be made, and why.
    most : float
        The largest score there is; intervals end there.
    rows : HeldRows, optional
        The rows held out; without them, intervals count splits alone.
    """

    names: tuple[str, ...]
    scores: Array
    scoring: str
    ratio: float
    level: float = 0.95
    left_out: Mapping[str, str] = field(default_factory=dict)
    most: float = np.inf
    rows: HeldRows | None = None

    def interval(self, values: Array) -> tuple[float, float, float]:
        """Mean, lower and upper end for one value per split, as far as splits tell."""
        mean, count = float(values.mean()), len(values)
        spread = np.sqrt((1.0 / count + self.ratio) * values.var(ddof=1))
        freedom = count - 1.0 if self.rows is None else self.rows.freedom(count)
        half = float(student.ppf(0.5 + self.level / 2.0, freedom) * spread)
        return mean, mean - half, mean + half

    def score(self, name: str) -> tuple[float, float, float]:
        """Mean score of a model, and its interval."""
        place = self._place(name)
        mean, low, high = self.interval(self.scores[:, place])
        if self.rows is not None:
            low, high = self.rows.of_score(place, (low, high), self.level)
        return mean, low, min(high, self.most)

    def difference(self, name: str) -> tuple[float, float, float]:
        """By how much the first model exceeds another, and the interval of that."""
        place = self._place(name)
        mean, low, high = self.interval(self.scores[:, 0] - self.scores[:, place])
        if self.rows is not None and place:
            low, high = self.rows.of_difference(0, place, (low, high), self.level)
        return mean, low, high

    def _place(self, name: str) -> int:
        """The column of a model's scores."""
        if name in self.names:
            return self.names.index(name)
        why = f"it was left out: {self.left_out[name]}" if name in self.left_out else ""
        why = why or f"known: {', '.join(map(repr, self.names))}"
        raise ValueError(f"{name!r} is none of the models that were scored; {why}")

    def frame(self) -> DataFrame:
        """One line per model: model, score, low, high, difference, difference_low, difference_high.

        The difference is the score of the first model less that of this one.
        """
        score = np.array([self.score(name) for name in self.names])
        less = np.array([self.difference(name) for name in self.names])
        columns = ("score", "low", "high", "difference", "difference_low", "difference_high")
        return frame({"model": self.names, **dict(zip(columns, [*score.T, *less.T], strict=True))})

    def tidy(self) -> DataFrame:
        """One line per split and model: split, model, score."""
        splits, models = self.scores.shape
        return frame(
            {
                "split": np.repeat(np.arange(splits), models),
                "model": np.tile(np.array(self.names, dtype=object), splits),
                "score": self.scores.ravel(),
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Differences from the first model, with their intervals."""
        from kernelweave.inspection.interval_plots import plot_differences

        return plot_differences(self, ax)

    def __repr__(self) -> str:
        width = max(map(len, self.names))
        lines = [f"{self.scoring} on {len(self.scores)} splits; by how much the first is better"]
        for name in self.names:
            less = "" if name == self.names[0] else f"   {told(*self.difference(name))}"
            lines.append(f"{name:<{width}}  {self.score(name)[0]:.3f}{less}")
        return "\n".join([*lines, *(f"{name}: {why}" for name, why in self.left_out.items())])


def told(mean: float, low: float, high: float) -> str:
    """A number and its interval, as people write them: ends show on which side of 0 they are."""
    ends = [abs(end) for end in (low, high) if abs(end) > SAME_SCORE]
    digits = next(k for k in range(2, 10) if all(float(f"{end:.{k}f}") for end in ends))
    shown = [signed(x, digits).replace("inf", "∞") for x in (mean, low, high)]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def signed(x: float, digits: int = 2) -> str:
    """So many digits after the point, with a minus sign that is one; no minus before zeros."""
    text = f"{x:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.removeprefix("-")


@dataclass(frozen=True)
class Splits:
    """The rows of some refits cut into folds, and how held-out rows are scored.

    ``units``: numbers of the rows, or of the groups they belong to. ``parts``: those of their
    classes; zeros under accuracy, and without classes. ``by_row``: whether the score is a share of
    rows predicted right.
    """

    refits: Refits
    folds: list[Fold]
    scorer: Callable[..., float]
    scoring: str
    most: float
    units: Places
    parts: Places
    by_row: bool

    @classmethod
    def of(cls, refits: Refits, how: How) -> Splits:
        """Folds by class and by whole groups if ``cv`` is a number, else those of the splitter."""
        if refits.targets is None:
            raise ValueError(
                f"scores on held-out rows need targets, and {type(refits.model).__name__} has none."
            )
        scoring = how.scoring
        scorer = check_scoring(refits.model, scoring=scoring)
        task = refits.model._targets
        named = scoring if isinstance(scoring, str) else "score"
        usual = "accuracy" if is_classifier(refits.model) else "R²"
        name = (task.metric or usual) if scoring is None else named
        folds = as_folds(_pairs(refits, how), refits.n, np.arange(refits.n))
        if len(folds) < 2:
            raise ValueError("cv must make two splits or more, found 1: one has no interval")
        most = 1.0 if scoring in _AT_MOST_1 else np.inf
        most = task.most if scoring is None else most
        every = np.arange(refits.n)
        units = every if how.groups is None else _numbered(how.groups)
        by_row, parts = name in _SHARES, np.zeros_like(every)
        if is_classifier(refits.model) and name != "accuracy":
            parts = _numbered(refits.targets[refits.training.places])
        return cls(refits, folds, scorer, name.replace("_", " "), most, units, parts, by_row)

    @property
    def ratio(self) -> float:
        """Rows held out for each row to learn from, on average."""
        return float(np.mean([fold.test.size / fold.train.size for fold in self.folds]))

    def score(self, fitted: MKLEstimator, values: Array, rows: Places) -> Score:
        """The score of an estimator whose values of these rows are known."""
        truth = self.refits.targets[self.refits.training.places[rows]]
        blank = np.empty((rows.size, 0))
        if self.by_row:
            right = np.asarray(recalled(fitted, values).predict(blank) == truth, dtype=float)
            return Score(float(self._held(rows).weights @ right), right)
        order = np.random.default_rng(0).permutation(rows.size)
        value, chance = (
            float(self.scorer(recalled(fitted, found), blank, truth))
            for found in (values, values[order])
        )
        return Score(value, None, chance)

    def score_refit(self, part: Refits, rows: Places, **params: Any) -> Score:
        """Fit the rows of ``part``, and score other rows."""
        fitted = part.estimator(part.fit(**params))
        return self.score(fitted, self.refits.values(fitted, rows), rows)

    def run(self, what: str, ask: Ask, how: How, **more: Any) -> HeldOut:
        """Ask on every fold, with kernels fitted to its training rows."""

        def job(fold: Fold) -> Mapping[str, Score]:
            return ask(self.refits.part(fold.train), fold)

        found = run(what, job, self.folds, how.n_jobs, how.verbose)
        names = tuple(found[0])
        scores = np.array([[scores[name].value for name in names] for scores in found])
        held = [self._held(fold.test) for fold in self.folds]
        rows = HeldRows.of(held, found, is_classifier(self.refits.model))
        shown = names, scores, self.scoring, self.ratio, how.level
        return HeldOut(*shown, most=self.most, rows=rows, **more)

    def _held(self, rows: Places) -> Held:
        return Held.of(self.units[rows], self.parts[rows])


def _numbered(values: Any) -> Places:
    """Equal values have equal numbers."""
    return np.unique(np.asarray(values), return_inverse=True)[1]


def _pairs(refits: Refits, how: How) -> Any:
    cv, groups = how.cv, how.groups
    classes, dummy = refits.strata, np.zeros(refits.n)
    y = refits.targets[refits.training.places] if classes is None else classes
    if not is_whole(cv):
        return list(check_cv(cv, y, classifier=classes is not None).split(dummy, y, groups))
    kinds = {
        (True, False): StratifiedKFold,
        (True, True): StratifiedGroupKFold,
        (False, False): KFold,
        (False, True): GroupKFold,
    }
    kind = kinds[classes is not None, groups is not None]
    shared = y if classes is not None else dummy
    most = np.unique(shared, return_counts=True)[1].max() if groups is None else len(set(groups))
    if not 2 <= cv <= most:
        raise ValueError(f"cv must lie between 2 and {most} on these rows, found {cv}")
    seeds = np.random.default_rng(how.random_state).integers(2**31, size=how.n_repeats)
    return [
        pair
        for s in seeds.tolist()
        for pair in kind(cv, shuffle=True, random_state=s).split(dummy, y, groups)
    ]
