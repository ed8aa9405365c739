"""From data to a model: the task, the bank of kernels, the estimator and its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._cli.data import Data, Source, counted
from kernelweave._core.checks import some
from kernelweave.banks.bank import KernelBank
from kernelweave.estimators._targets import class_factors
from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.cross_validated import MKLClassifierCV, MKLRegressorCV
from kernelweave.estimators.regressor import MKLRegressor, in_standard_units, standard_units
from kernelweave.estimators.survival import MKLSurvival, Times, log_ends
from kernelweave.estimators.survival_cv import MKLSurvivalCV
from kernelweave.kernels.precomputed import Precomputed
from kernelweave.views.cells import reads_as_number

_ESTIMATORS: dict[str, tuple[Any, Any]] = {
    "classification": (MKLClassifier, MKLClassifierCV),
    "regression": (MKLRegressor, MKLRegressorCV),
    "survival": (MKLSurvival, MKLSurvivalCV),
}
_METRICS = {"classification": "accuracy", "regression": "R²", "survival": "C-index"}
_FEW = 20  # as many different whole numbers are classes, more are values


@dataclass(frozen=True)
class Options:
    """What the user says about learning."""

    C: float | None = 1.0  # None: chosen by cross-validation, and the norm as well
    learner: str = "auto"
    norm: float = 1.0
    seed: int = 0
    jobs: int | None = None
    impute: str | None = "median"
    class_weight: str | None = None
    calibration: str | None = None


@dataclass(frozen=True)
class Labeled:
    """Rows as a model takes them, their targets, and their ids if there are some."""

    X: Any
    y: NDArray[Any]
    ids: Any = None

    @classmethod
    def of(cls, data: Data, task: str) -> Labeled:
        """All rows of the data."""
        return cls(data.matrices or data.frame, labels(data.target, task), data.ids)


def task_of(target: Any, asked: str = "auto") -> str:
    """Whether to classify or to regress, or to predict times to an event."""
    if hasattr(target, "columns"):
        if asked != "auto":
            raise ValueError(f"--task {asked} goes without --time and --event: leave it out")
        return "survival"
    values = target.to_numpy()
    number = values.dtype.kind in "iuf"
    if asked == "regression" and not number:
        raise ValueError(f"regression needs numbers in {target.name!r}, found {values[0]!r}")
    if asked != "auto":
        return asked
    whole = number and np.array_equal(values, np.round(values))
    return "classification" if not number or (whole and few(values)) else "regression"


def few(values: NDArray[Any]) -> bool:
    """Whether there are so few different values that they are rather classes."""
    return len(np.unique(values)) <= _FEW


def told(target: Any, task: str) -> str:
    """What was found, in words."""
    if task == "survival":
        time, event = target.columns
        seen = np.count_nonzero(labels(target, task)["event"])
        return f"{time!r} is a time to {event!r}, seen in {seen} of {len(target)} rows: survival"
    if task == "regression":
        return f"{target.name!r} is a number: regression"
    classes = sorted({str(label) for label in target})
    if len(classes) == 1:
        raise ValueError(
            f"{target.name!r} is {classes[0]} in every row: rows of two classes or more are needed"
        )
    return f"{target.name!r} has {len(classes)} classes ({some(classes)}): classification"


def class_weight_of(asked: str, target: Any, task: str) -> str | None:
    """What ``--class-weight`` says to an estimator."""
    if asked == "none":
        return None
    _need_classes("--class-weight", target, task)
    return asked


def calibration_of(asked: bool, target: Any, task: str) -> str | None:
    """What ``--proba`` says to an estimator."""
    if not asked:
        return None
    _need_classes("--proba", target, task)
    return "sigmoid"


def _need_classes(option: str, target: Any, task: str) -> None:
    """Raise ValueError for an option that only classes have."""
    if task == "survival":
        raise ValueError(f"{option} needs classes: leave it out with --time and --event")
    if task == "regression":
        raise ValueError(
            f"{option} needs classes, and {target.name!r} is a number: leave it out, or say "
            "--task classification"
        )


def labels(target: Any, task: str) -> NDArray[Any]:
    """The target as a model takes it."""
    if task == "survival":
        return np.asarray(Times.read(target, None))
    values = target.to_numpy()
    if task == "regression":
        return values.astype(np.float64)
    return values.astype(str) if values.dtype.kind not in "biuf" else values


def bank_of(data: Data, options: Options) -> KernelBank:
    """The default kernels on each view, or the matrices."""
    if data.matrices:
        return KernelBank([(name, Precomputed(K)) for name, K in data.matrices.items()])
    return KernelBank(views=data.views, impute=options.impute)


def check_words(data: Data, source: Source) -> None:
    """Raise ValueError for a column that no default kernel reads; tells why, and what to do."""
    if data.matrices:
        return
    bank = KernelBank()
    for name in data.frame.columns:
        cells = data.frame[[name]].dropna()
        if name in data.numbers or not len(cells):
            continue
        try:
            bank.check(cells)
        except (ValueError, TypeError) as error:
            told = f"{source.named(name)} {_unread(data, name, source)}"
            raise ValueError(f"{told}, or --drop {source.home(name)[1]}") from error


def _unread(data: Data, name: str, source: Source) -> str:
    """Why no kernel reads a column: few of its cells are no numbers, or its words are no levels."""
    cells = data.frame[name]
    filled = cells.dropna()
    odd = ~(cells.isna() | cells.map(reads_as_number)).to_numpy(dtype=bool)
    if not odd.any():
        return f"holds numbers as text, such as {filled.iloc[0]!r}: save them as numbers"
    row = int(odd.argmax())
    if 2 * np.count_nonzero(odd) < len(filled):
        where = source.where(row, data.ids)
        return f"holds numbers, but also {cells.iloc[row]!r}, first in {where}: correct it"
    if all(isinstance(cell, str) for cell in filled):
        return (
            f"has {filled.nunique()} different entries in {counted(len(filled), 'row')}, as names "
            "and texts have, and no kernel here compares those: delete it"
        )
    return f"holds neither numbers nor words, such as {cells.iloc[row]}: save it as one of them"


def rows_of(data: Data) -> Any:
    """X of the bank: columns, or row numbers if there are matrices."""
    return np.arange(len(data)).reshape(-1, 1) if data.matrices else data.frame


def estimator(kernels: Any, task: str, options: Options) -> Any:
    """An estimator that is not fitted."""
    shared: dict[str, Any] = {
        "learner": options.learner,
        "n_jobs": options.jobs,
        "random_state": options.seed,
    }
    if task == "classification":
        shared["class_weight"] = options.class_weight
    single, chosen = _ESTIMATORS[task]
    if options.C is None:
        return chosen(kernels, scoring=scoring_of(options), **shared)
    if task == "classification":
        shared["calibration"] = options.calibration
    return single(kernels, C=options.C, weight_norm=options.norm, **shared)


def default_C(task: str) -> float:
    """What C is if nothing is said."""
    return float(_ESTIMATORS[task][0]().C)


def scoring_of(said: Any) -> str | None:
    """The score of options or of a model: what has class weights is judged class by class."""
    return None if getattr(said, "class_weight", None) is None else "balanced_accuracy"


def fitted(data: Data, task: str, options: Options) -> Any:
    """A model of all rows; of matrices, one that predicts from matrices."""
    if data.matrices and options.C is None:
        raise ValueError("-C auto needs columns: it cannot split the rows of kernel matrices")
    rows = Labeled.of(data, task)
    kernels = "precomputed" if data.matrices else bank_of(data, options)
    return estimator(kernels, task, options).fit(rows.X, rows.y)


def check_folds(data: Data, task: str, folds: int | None, option: str) -> None:
    """Raise ValueError if the rows are too few to be cut into so many folds, for an option."""
    if folds is None:
        return
    most, there = len(data), f"{counted(len(data), 'row')} in all"
    if task == "classification":
        classes, counts = np.unique(labels(data.target, task), return_counts=True)
        most = int(counts.min())
        there = f"{counted(most, 'row')} of class {str(classes[counts.argmin()])!r}"
    if task == "survival":
        most = int(np.count_nonzero(labels(data.target, task)["event"]))
        there = f"{counted(most, 'row')} with an event"
    if most < 2:
        each = {"classification": " of each class", "survival": " with an event"}.get(task, "")
        raise ValueError(f"{option} holds rows out, and needs 2 or more{each}; found {there}")
    if not 2 <= folds <= most:
        raise ValueError(f"{option} must lie between 2 and {most}, found {folds}; {there}")


def held_out(data: Data, task: str, options: Options, folds: int) -> dict[str, Any]:
    """Scores on held-out rows, by cross-validation."""
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

    y = labels(data.target, task)
    kind = KFold if task == "regression" else StratifiedKFold
    cutter = kind(folds, shuffle=True, random_state=options.seed)
    splits = list(cutter.split(np.zeros(len(y)), y["event"] if task == "survival" else y))
    model = estimator(bank_of(data, options), task, options)
    scoring = scoring_of(options)
    how: dict[str, Any] = {"cv": splits, "scoring": scoring, "error_score": "raise"}
    scores = cross_val_score(model, rows_of(data), y, **how)
    return {
        "metric": _METRICS[task] if scoring is None else scoring.replace("_", " "),
        "mean": float(np.mean(scores)),
        "scores": [float(score) for score in scores],
    }


def compared(data: Data, task: str, options: Options, folds: int, repeats: int) -> Any:
    """Learned weights against equal weights, the best single view, and all views as one."""
    from kernelweave.inspection import compare

    return compare(
        estimator(bank_of(data, options), task, options),
        rows_of(data),
        labels(data.target, task),
        cv=folds,
        n_repeats=repeats,
        scoring=scoring_of(options),
        n_jobs=options.jobs,
        random_state=options.seed,
    )


def scores(model: Any, rows: Labeled) -> dict[str, float]:
    """How good predictions are, by several measures."""
    from sklearn import metrics

    X, y = rows.X, rows.y
    if hasattr(model, "predict_time"):
        return {"C-index": float(model.score(X, y))}
    predicted = model.predict(X)
    if not hasattr(model, "classes_"):
        return {
            "R²": float(metrics.r2_score(y, predicted)),
            "root mean squared error": float(metrics.root_mean_squared_error(y, predicted)),
            "mean absolute error": float(metrics.mean_absolute_error(y, predicted)),
        }
    found = {
        "accuracy": float(metrics.accuracy_score(y, predicted)),
        "balanced accuracy": float(metrics.balanced_accuracy_score(y, predicted)),
    }
    if len(model.classes_) == 2 and len(np.unique(y)) == 2:
        values = model.decision_function(X)
        found["area under ROC"] = float(metrics.roc_auc_score(y == model.classes_[1], values))
    return found


def parse_costs(text: str) -> list[float]:
    """The values of ``--Cs``."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--Cs must be numbers separated by commas, found {text!r}") from None


def along_path(data: Data, task: str, options: Options, Cs: list[float]) -> dict[str, Any]:
    """Weights by view for each C, and how certain each solution is."""
    from kernelweave.path import regularization_path

    bank = bank_of(data, options).fit(rows_of(data), n_jobs=options.jobs)
    y = labels(data.target, task)
    factors, loss = None, {"regression": "epsilon_insensitive", "survival": "interval"}
    if task == "regression":
        signs = (y - y.mean()) / (y.std() or 1.0)
    elif task == "survival":
        ends = log_ends(y)
        signs = in_standard_units(ends, *standard_units(ends["lower"][:, None], None))
    else:
        classes, numbers = np.unique(y, return_inverse=True)
        signs = np.where(numbers[:, None] == np.arange(len(classes)), 1.0, -1.0)
        signs = signs[:, 1] if len(classes) == 2 else signs
        if options.class_weight is not None:
            factors = class_factors(options.class_weight, classes, numbers, None)
    solutions = regularization_path(
        bank.stack,
        signs,
        Cs,
        factors=1.0 if factors is None else factors,
        loss=loss.get(task, "hinge"),
        weight_norm=options.norm,
        learner=options.learner,
    )
    return {
        "C": Cs,
        "gap": [float(solution.gap) for solution in solutions],
        "views": by_view(bank.views, np.array([bank.spread(one.weights) for one in solutions])),
    }


def by_view(views: tuple[str, ...], weights: NDArray[Any]) -> dict[str, Any]:
    """The weights (…, m) of all kernels of a view, added up."""
    names = np.array(views)
    return {
        view: weights[..., names == view].sum(axis=-1).tolist() for view in dict.fromkeys(views)
    }
