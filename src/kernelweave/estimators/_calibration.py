"""Decision values of rows that were held out, and ``predict_proba``, which is made from them.

    read ─► folds ─► a fit on each, values of the rows held out ─► Calibration

Fits on folds are those of ``_search.py``: what depends on two rows alone is computed once for all
folds, and whatever is learned from rows is learned on those of each fold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import update_wrapper
from types import MethodType
from typing import Any, cast

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils.validation import check_consistent_length

from kernelweave._core.tensors import answering
from kernelweave._core.types import Array, Places
from kernelweave._core.warnings import warn
from kernelweave.estimators._candidates import Choice, Fold, as_folds, number_of_folds
from kernelweave.estimators._fit import Posed, fit_kernels, keep, pose, read, solve_all
from kernelweave.estimators._probabilities import Calibration
from kernelweave.estimators._search import Search, Trial, share_rows
from kernelweave.estimators._targets import Training
from kernelweave.stacks.resources import advised

_TOL = 1e-2  # relative gap of fits on folds, whose values hardly depend on it
_FEW = 1000  # rows below which isotonic regression follows chance
_OWN = "own"  # the name of an estimator's own bank and norm among candidates: the only ones

NO_PROBABILITIES = (
    "decision values are no probabilities. Use "
    "CalibratedClassifierCV(MKLClassifier(…), ensemble=False) of sklearn.calibration, which has "
    "predict_proba, as have MKLClassifier(calibration='sigmoid') and MKLClassifierCV()."
)


class WhereCalibrated:
    """A method that is there only where an estimator has probabilities, or will have some."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = answering(method)
        update_wrapper(cast(Any, self), method)

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.method
        fitted, asked = model.__sklearn_is_fitted__(), getattr(model, "calibration", None)
        if vars(model).get("calibration_", None if fitted else asked) is None:
            name, why = type(model).__name__, NO_PROBABILITIES
            if fitted and asked is not None:
                why = (
                    "there were too few held-out rows to make probabilities of decision values, "
                    "which fit warned of, or an older version fitted it. Fit it again, to two rows "
                    "of each class or more."
                )
            raise AttributeError(f"{name} has no predict_proba: {why}")
        return MethodType(self.method, model)


@advised
def fit_calibrated(
    model: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
) -> Any:
    """Fit a classifier on all rows, and what makes probabilities of its values on folds."""
    began = time.perf_counter()
    posed = pose(model, read(model, X, y, sample_weight))
    held = _cross_fitted(model, posed, groups)
    with model._callbacks(X, y) as step:
        bank = fit_kernels(posed, posed.options.n_jobs)
        keep(model, solve_all(bank, posed, step=step, began=began))
    vars(model).update(held)
    return model


def held_out(model: Any, training: Training, found: Iterable[tuple[Fold, Array]]) -> dict[str, Any]:
    """Fitted attributes from values (n_test, n_machines) of the rows that folds held out.

    Values of rows that several folds held out are averaged; rows that none did have none.
    """
    values, numbers = averaged(found, len(training.table))
    spread = np.full((training.n_given, values.shape[1]), np.nan)
    spread[training.places] = values
    folds = np.full(training.n_given, -1)
    folds[training.places] = numbers
    calibration, count = calibrated(model, training, values), np.count_nonzero(numbers >= 0)
    if calibration is None:
        _tell_none(f"of some class, fewer than two rows are among the {count} held out")
    elif model.calibration == "isotonic" and count < _FEW:
        warn(
            f"calibration='isotonic' on {count} rows: below about {_FEW} rows its steps follow "
            "chance; 'sigmoid' is safer."
        )
    return {
        "decision_values_": spread[:, 0] if spread.shape[1] == 1 else spread,
        "decision_folds_": folds,
        "calibration_": calibration,
    }


def averaged(found: Iterable[tuple[Fold, Array]], n: int) -> tuple[Array, Places]:
    """Mean values (n, n_machines) of n rows, NaN if never held out, and their first fold or −1."""
    total, counts, folds = np.zeros(()), np.zeros(n), np.full(n, -1)
    for fold, values in found:
        total = total if total.ndim else np.zeros((n, values.shape[1]))
        np.add.at(total, fold.test, values)
        np.add.at(counts, fold.test, 1.0)
        folds[fold.test] = np.where(folds[fold.test] < 0, fold.number, folds[fold.test])
    with np.errstate(invalid="ignore"):
        return total / counts[:, None], folds


def calibrated(model: Any, training: Training, values: Array) -> Calibration | None:
    """From values of some rows, NaN for the others; None if there are too few of a class."""
    classes = np.unique(training.targets)
    known = ~np.isnan(values[:, 0])
    numbers = np.searchsorted(classes, training.targets[known])
    if np.bincount(numbers, minlength=classes.size).min() < 2:
        return None
    weights = None if training.weights is None else training.weights[known]
    labels = numbers, classes.size, model.multi_class
    return Calibration.fit(model.calibration, values[known], *labels, weights)


def values_of_others(trials: Iterable[Trial], trial: Trial, candidate: int, n: int) -> Array:
    """A candidate's values of the rows that other folds held out, and this one did not."""
    others = [
        (one.fold, one.values[candidate])
        for one in trials
        if one.bank == trial.bank and one.fold.number != trial.fold.number
    ]
    values, _ = averaged(others, n)
    values[trial.fold.test] = np.nan
    return values


def needs_probabilities(scorer: Any) -> bool:
    """Whether a scorer asks for ``predict_proba``, or may: of a function nothing is known."""
    asked = getattr(scorer, "_response_method", "predict_proba")
    return "predict_proba" in ([asked] if isinstance(asked, str) else asked)


def _cross_fitted(model: Any, posed: Posed, groups: Any) -> dict[str, Any]:
    """What ``held_out`` says of stratified folds, five where there are as many rows of a class."""
    training, options = posed.training, posed.options
    training.bank.check(training.table)  # a fold may lack the very row that shows what is wrong
    y = training.targets
    if groups is not None:
        check_consistent_length(range(training.n_given), groups)
        groups = np.unique(np.asarray(groups)[training.places], return_inverse=True)[1]
    units = np.arange(len(y)) if groups is None else groups
    classes = np.unique(y)
    counts = [np.unique(units[y == label]).size for label in classes]
    if min(counts) < 2:
        what = "row" if groups is None else "group"
        rarest = classes.tolist()[int(np.argmin(counts))]
        _tell_none(f"class {rarest!r} has one {what} alone")
        return {"calibration_": None}
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    seed = model.random_state
    count = number_of_folds(None, min(counts), "rows of each class")
    splitter = kind(count, shuffle=seed is not None, random_state=seed)
    splits = splitter.split(np.empty((len(y), 1)), y, groups)
    folds = as_folds(splits, len(y), np.arange(len(y)))
    if any(np.setdiff1d(classes, y[fold.train]).size for fold in folds):
        _tell_none("folds of whole groups do not all have every class to learn from")
        return {"calibration_": None}
    share = None if options.max_time is None else options.max_time / (len(folds) + 1)
    asked = replace(options, tol=max(_TOL, options.tol), max_time=share, n_jobs=None, verbose=0)
    shared = replace(training, table=share_rows(training.table))
    choice = Choice(_OWN, training.bank, [_OWN])
    costs: list[Any] = [options.C]
    task = Search(model, shared, {_OWN: asked}, costs, [choice], folds, {}, options.verbose)
    trials = task.run(model.n_jobs, None)
    return held_out(model, training, [(trial.fold, trial.values[0]) for trial in trials])


def _tell_none(why: str) -> None:
    warn(f"No probabilities: {why}; predict works.")
