"""What a report tells of a model: each part computed where the data allow it, else why not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor

from kernelweave._core.types import Array, Places
from kernelweave.banks.unseen import LITTLE
from kernelweave.estimators._base import recalled
from kernelweave.estimators._candidates import Fold
from kernelweave.estimators._fit import pose
from kernelweave.inspection._refits import Refits, quiet
from kernelweave.inspection.comparison import Comparison, compare
from kernelweave.inspection.draws import WeightDraws, WeightPath
from kernelweave.inspection.features import FeatureImportance
from kernelweave.inspection.held_out import HeldOut, How, Splits
from kernelweave.inspection.html.columns import important_columns
from kernelweave.inspection.importance import permutation_importance
from kernelweave.inspection.selection import Selection, select_views
from kernelweave.inspection.uncertainty import over_C, stability

_SMALL = 500  # rows up to which everything is drawn in full
_LARGE = 3000  # rows above which views are not shuffled and C is not varied
_MOST_VIEWS = 10  # views that are shuffled one by one
_MOST_POINTS = 1000  # rows of heat maps and kernel PCA
_BIN, _BINS = 20, 10  # rows of a bin of probabilities, and bins, at the most
_SHOWN = 30  # kernels, the heaviest, that are compared with each other and the target


@dataclass(frozen=True)
class Asked:
    """What the user wants to know, and with how much effort."""

    cv: Any = 5
    scoring: Any = None
    groups: Any = None
    n_resamples: int | None = None
    n_jobs: int | None = None
    random_state: Any = 0
    verbose: int = 0

    def common(self) -> dict[str, Any]:
        """Options of all functions that draw."""
        return {
            "groups": self.groups,
            "n_jobs": self.n_jobs,
            "random_state": self.random_state,
            "verbose": self.verbose,
        }


@dataclass(frozen=True)
class LackedView:
    """Rows without a view, and the share of these, and of the others, that is predicted right."""

    view: str
    rows: int
    right: float | None = None
    others_right: float | None = None


@dataclass(frozen=True)
class Reliability:
    """Probabilities of rows held out: how often they come true, and their Brier score.

    ``what``: of which event they are. Bins: mean probability, share that came true, its interval,
    number of rows. ``constant``: the Brier score of the shares of the classes for every row.
    """

    what: str
    method: str
    brier: float
    constant: float
    said: tuple[float, ...]
    found: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Predicted:
    """Rows predicted by models that had not seen them.

    ``scores``: the decision value of two classes, or the risk without the bias of its fit, which
    differs between folds; else None. ``doubt``: per row, the larger the worse it was predicted.
    ``shares``: probabilities of the classes, if the model has some.
    """

    truth: NDArray[Any]
    said: NDArray[Any]
    scores: Array | None
    doubt: Array
    rows: Places
    shares: Array | None = None

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which rows were predicted right."""
        return np.asarray(self.said == self.truth)


@dataclass(frozen=True)
class Facts:
    """What was found out; None for what was not, with the reason in ``left_out``.

    ``guessed``: the score of one constant answer, ``guess_words``. ``untested``: why no views were
    selected. ``lacking``: rows that lack a view, by incomplete view. ``blind``: how many have no
    view, or views of little weight alone. ``classes``: name, rows held out, rows found.
    """

    draws: WeightDraws | None = None
    comparison: Comparison | None = None
    guessed: float | None = None
    guess_words: str = ""
    selection: Selection | None = None
    untested: str = ""
    importance: HeldOut | None = None
    path: WeightPath | None = None
    predicted: Predicted | None = None
    alignment: tuple[list[str], Array] | None = None
    points: tuple[Array, NDArray[Any]] | None = None
    n_rows: int | None = None
    lacking: tuple[LackedView, ...] = ()
    blind: int = 0
    classes: tuple[tuple[str, int, int], ...] = ()
    reliability: Reliability | None = None
    columns: FeatureImportance | None = None
    left_out: dict[str, str] = field(default_factory=dict)


def gather(model: Any, X: Any, y: Any, asked: Asked) -> Facts:
    """Everything that the rows tell of a model; a refit of it is judged, not the model itself."""
    refits = Refits.of(model, X, y, asked.n_jobs)
    how = How(asked.cv, 1, asked.scoring, asked.groups, random_state=asked.random_state)
    splits = None if refits.targets is None else Splits.of(refits, how)  # complains at once
    n, left_out = refits.n, dict[str, str]()
    small, count = n <= _SMALL, asked.n_resamples
    draws = stability(model, X, y, n_resamples=count or (100 if small else 20), **asked.common())
    lacking = tuple(LackedView(view, int(rows.sum())) for view, rows in refits.lacking.items())
    blind = int(np.count_nonzero(model.seen_weight(X) < LITTLE))
    facts = Facts(draws=draws, n_rows=n, lacking=lacking, blind=blind, left_out=left_out)
    facts = replace(facts, alignment=alignments(refits, draws.weights), points=_points(refits))
    if splits is None:
        left_out["held-out scores"] = f"{type(refits.model).__name__} has no targets to score."
        return facts
    repeats = {"cv": asked.cv, "n_repeats": 4 if small else 1, "scoring": asked.scoring}
    facts = replace(facts, comparison=compare(model, X, y, **repeats, **asked.common()))
    with quiet():
        facts = replace(facts, **_on_rows(model, splits, refits.lacking))
    guess = _guessed(splits)
    facts = replace(facts, guessed=guess[0], guess_words=guess[1])
    if len(refits.views) > 1:
        importance = permutation_importance(model, X, y, **repeats, **asked.common())
        facts = replace(facts, importance=importance)
    columns = important_columns(refits, model, X, y, asked.common())
    if isinstance(columns, str):
        left_out["which columns"] = columns
    else:
        facts = replace(facts, columns=columns)
    if n > _LARGE:
        left_out["weights over C"] = f"fits to {n} rows for several C would take long."
    elif "C" in refits.model.get_params(deep=False):
        facts = replace(facts, path=over_C(model, X, y, n_jobs=asked.n_jobs))
    if why := _untested(refits):
        return replace(facts, untested=why)
    return replace(facts, selection=select_views(model, X, y, **asked.common()))


def _untested(refits: Refits) -> str:
    """Why it is not asked which views help beyond chance; nothing where it is."""
    if len(refits.views) == 1:
        return "There is one view."
    if refits.learns_parameters:
        return (
            "Parameters of kernels are learned from the targets, and shuffled rows would know them."
        )
    if len(refits.views) > _MOST_VIEWS:
        return f"There are more than {_MOST_VIEWS} views; select_views does it."
    if refits.n > _LARGE:
        return f"There are more than {_LARGE} rows; select_views does it."
    return ""


def _guessed(splits: Splits) -> tuple[float | None, str]:
    """The score of one constant answer, and what it is.

    Of accuracy it is the share of the commonest class in the data, which folds would blur; None if
    it has no score, as a scorer may ask for more than predictions.
    """
    refits = splits.refits
    y, blank, scores = refits.targets[refits.training.places], np.zeros((refits.n, 1)), []
    if is_classifier(refits.model):
        classes, counts = np.unique(y, return_counts=True)
        common = f"always saying “{classes[counts.argmax()]}”"
        if splits.scoring == "accuracy":
            return float(counts.max() / counts.sum()), common
        if splits.scoring == "balanced accuracy":
            return 1.0 / len(classes), common
    elif splits.scoring == "R²":
        return 0.0, "always saying the mean"
    for fold in splits.folds:
        guess = _constant(refits, fold, y, blank)
        try:
            scores.append(float(splits.scorer(guess, blank[fold.test], y[fold.test])))
        except (AttributeError, TypeError, ValueError):
            return None, ""
    usual = np.isfinite(splits.most) and not is_classifier(refits.model)
    return float(np.mean(scores)), str(
        refits.model._targets.constant if usual else "one constant answer"
    )


def _constant(refits: Refits, fold: Fold, y: NDArray[Any], blank: Array) -> Any:
    """A model that says one thing of all rows, learned from the training rows of a fold."""
    if y.dtype.names is None:
        guess: Any = DummyClassifier() if is_classifier(refits.model) else DummyRegressor()
        return guess.fit(blank[fold.train], y[fold.train])
    targets = pose(refits.model, refits.training.take(fold.train)).targets
    mean = targets.in_units(np.zeros((1, 1)), np.zeros(1))[1]
    return recalled(refits.model, np.tile(mean, (fold.test.size, 1)), targets)


def _on_rows(model: Any, splits: Splits, lacking: Any) -> dict[str, Any]:
    """Facts of single rows held out: what was said of them, of which kinds it is right."""
    found = _predicted(splits, getattr(model, "calibration_", None))
    if not is_classifier(splits.refits.model):
        return {"predicted": found}
    right = np.zeros(splits.refits.n)
    np.add.at(right, found.rows, found.right)
    right /= np.maximum(np.bincount(found.rows, minlength=len(right)), 1)
    parts = [
        LackedView(view, int(rows.sum()), float(right[rows].mean()), float(right[~rows].mean()))
        if not rows.all()
        else LackedView(view, int(rows.sum()))
        for view, rows in lacking.items()
    ]
    names = np.unique(found.truth)
    classes = [
        (str(name), int((found.truth == name).sum()), int(found.right[found.truth == name].sum()))
        for name in names
    ]
    reliability = None if found.shares is None else _reliability(found, model.calibration_.method)
    return {
        "predicted": found,
        "lacking": tuple(parts),
        "classes": tuple(classes),
        "reliability": reliability,
    }


def _predicted(splits: Splits, calibration: Any = None) -> Predicted:
    """The rows of each split that were held out, as a fit to the others predicts them.

    Probabilities are by curves like ``calibration``, fitted to the other splits.
    """
    refits, found, values = splits.refits, [], []
    for fold in splits.folds:
        part = refits.part(fold.train)
        fitted = part.estimator(part.fit())
        values.append(refits.values(fitted, fold.test))
        known: Any = recalled(fitted, values[-1])
        truth = refits.targets[refits.training.places[fold.test]]
        said, dummy = known.predict(np.empty((fold.test.size, 0))), np.empty((fold.test.size, 0))
        if is_classifier(refits.model):
            scores = known.decision_function(dummy)
            doubt = _doubt(scores, truth, fitted.classes_)
            scores = scores if scores.ndim == 1 else np.full(len(truth), np.nan)
        else:
            scores = np.full(len(truth), np.nan)
            if hasattr(known, "predict_time"):
                scores = said + fitted.intercept_[0]
            doubt = refits.model._targets.distance(truth, said)
        found.append((truth, said, scores, doubt, fold.test))
    truth, said, scores, doubt, rows = (np.concatenate(part) for part in zip(*found, strict=True))
    shown = None if np.isnan(scores).all() else scores
    shares = (
        None if calibration is None else _shares(values, [one[0] for one in found], calibration)
    )
    return Predicted(truth, said, shown, doubt, rows, shares)


def _shares(values: list[Array], truths: list[NDArray[Any]], like: Any) -> Array | None:
    """Probabilities of each part of rows, by curves fitted to the other parts; None if too few."""
    classes, shares = np.unique(np.concatenate(truths)), []
    if any(part.shape[1] != len(like.curves) for part in values) or len(classes) != like.n_classes:
        return None
    for k, part in enumerate(values):
        others = np.concatenate([one for j, one in enumerate(truths) if j != k])
        if len(np.unique(others)) < len(classes):
            return None
        rest = np.vstack([one for j, one in enumerate(values) if j != k])
        numbers = np.searchsorted(classes, others)
        shares.append(like.fit(like.method, rest, numbers, like.n_classes, like.multi_class)(part))
    return np.vstack(shares)


def _reliability(found: Predicted, method: str) -> Reliability:
    """Bins of equal numbers of rows: of the second class, or of the class of the largest share."""
    shares = found.shares
    assert shares is not None
    classes, numbers = np.unique(found.truth, return_inverse=True)
    truth = np.eye(len(classes))[numbers]
    said, true = shares[:, 1], truth[:, 1]
    what, columns = f"“{classes[1]}”", slice(1, 2)
    if len(classes) > 2:
        best = shares.argmax(axis=1)
        said, true = shares.max(axis=1), 1.0 * (best == numbers)
        what, columns = "the likeliest class", slice(None)
    parts = np.array_split(np.argsort(said, kind="stable"), np.clip(len(said) // _BIN, 2, _BINS))
    ends = [
        binomtest(int(true[part].sum()), len(part)).proportion_ci(method="wilson") for part in parts
    ]
    return Reliability(
        what,
        method,
        float(np.square(shares - truth)[:, columns].sum(axis=1).mean()),
        float(np.square(truth.mean(axis=0) - truth)[:, columns].sum(axis=1).mean()),
        tuple(float(said[part].mean()) for part in parts),
        tuple(float(true[part].mean()) for part in parts),
        tuple(float(end.low) for end in ends),
        tuple(float(end.high) for end in ends),
        tuple(len(part) for part in parts),
    )


def _doubt(scores: Array, truth: NDArray[Any], classes: NDArray[Any]) -> Array:
    """How far the best other class is ahead of the true one; negative where the true one wins."""
    if scores.ndim == 1:
        return np.where(truth == classes[1], -scores, scores)
    own = np.searchsorted(classes, truth)
    rows = np.arange(len(truth))
    others = scores.copy()
    others[rows, own] = -np.inf
    return others.max(axis=1) - scores[rows, own]


def alignments(refits: Refits, weights: Array) -> tuple[list[str], Array]:
    """Names and centered alignments of the heaviest kernels, with the target as the first."""
    rows = _some(refits.n)
    kept = refits.bank.kept
    order = kept[np.argsort(-weights[kept], kind="stable")[:_SHOWN]]
    shown = np.array(sorted(order.tolist()))
    stack = refits.bank.stack
    places = {int(number): place for place, number in enumerate(kept)}
    matrices = [stack.block(places[int(number)], rows, rows) for number in shown]
    names = [refits.bank.names[number] for number in shown]
    if refits.targets is not None:
        matrices.insert(0, _target_kernel(refits, rows))
        names.insert(0, "target")
    flat = np.array([_centered(K).ravel() for K in matrices])
    sizes = np.linalg.norm(flat, axis=1)
    flat /= np.where(sizes > 0.0, sizes, 1.0)[:, None]
    return names, flat @ flat.T


def _target_kernel(refits: Refits, rows: Places) -> Array:
    targets = refits.targets[refits.training.places[rows]]
    if is_classifier(refits.model):
        return (targets[:, None] == targets[None, :]).astype(float)
    columns = refits.model._targets.numbers(targets).reshape(len(targets), -1)
    columns = (columns - columns.mean(axis=0)) / np.maximum(
        columns.std(axis=0), np.finfo(float).tiny
    )
    return columns @ columns.T


def _points(refits: Refits) -> tuple[Array, NDArray[Any]] | None:
    """Kernel PCA of the learned kernel: two coordinates per row, and the target of each."""
    rows, refit = _some(refits.n), refits.fit()
    K = refits.bank.stack.combined(refit.start).block(rows, rows)
    values, vectors = np.linalg.eigh(_centered(K))
    top = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 0.0))
    if refits.targets is None:
        return top, np.zeros(len(rows))
    targets = refits.targets[refits.training.places[rows]]
    if not is_classifier(refits.model):
        targets = refits.model._targets.numbers(targets)
    return top, targets if targets.ndim == 1 else targets[:, 0]


def _centered(K: Array) -> Array:
    means = K.mean(axis=0)
    return K - means - K.mean(axis=1)[:, None] + means.mean()


def _some(n: int) -> Places:
    """All rows, or as many as fit into a picture, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).astype(np.intp))
