"""Choosing in one fit: every candidate learned on each fold, nothing computed twice, then the best.

    read ─► candidates, folds ─► try_all ─► scores ─► choice ─► the fit of the candidate chosen

A fold's kernels are computed once for all norms and all C, from what folds may share
(``kernelweave.views.parts``). Within a fold each norm has one path over C, started from its
neighbor [rakoto2007, §3.1], and the held-out rows meet each kernel once, for all candidates
together. Fits are those of ``_fit.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_regressor
from sklearn.model_selection import PredefinedSplit, check_cv
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kernelweave._core.checks import (
    check_choice,
    check_number,
    check_truth,
    check_verbose,
    is_one_of,
    is_whole,
    shown,
)
from kernelweave._core.status import tell
from kernelweave._core.types import Array, Places
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._base import (
    Estimator,
    MKLEstimator,
    as_bank,
    recalled,
    replace_fitted,
    takes_sparse,
    takes_strings,
)
from kernelweave.estimators._candidates import (
    EQUAL,
    SELECTIONS,
    Choice,
    Fold,
    as_folds,
    as_score,
    check_scores,
    choose,
    read_choices,
    read_Cs,
    read_norms,
    read_scorer,
    results,
)
from kernelweave.estimators._fit import (
    FitOptions,
    Learned,
    fit,
    fit_kernels,
    pose,
    read,
    solve_all,
    values_of,
)
from kernelweave.estimators._matrices import ROW_NUMBERS
from kernelweave.estimators._targets import Targets, Training
from kernelweave.estimators._threads import in_threads
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.numeric import Linear
from kernelweave.learners.base import Learner
from kernelweave.learners.trail import Trail
from kernelweave.parameters.bank import refuse_parameters
from kernelweave.stacks.resources import GIB, advised, available_bytes
from kernelweave.views.parts import share
from kernelweave.views.table import Table

_SHARE, _MOST = 0.25, 4.0 * GIB  # of the available memory that folds may share


@dataclass(frozen=True)
class Trial:
    """One bank on one fold: values of the held-out rows, (n_candidates, n_test, n_machines).

    ``biases``: their part that is the same for all rows, (n_candidates, n_machines). ``targets``:
    those of the rows learned on, which say what values mean.
    """

    bank: str
    fold: Fold
    values: Array
    biases: Array
    targets: Targets


@dataclass(frozen=True)
class Search:
    """What is tried, and on which rows: banks with their norms, values of C, and folds.

    ``single``: any of the candidates, for what they have in common; ``options``: theirs, by norm.
    """

    single: MKLEstimator
    training: Training
    options: Mapping[float | str, FitOptions]
    Cs: list[float]
    choices: list[Choice]
    folds: list[Fold]
    skipped: Mapping[str, str] = field(default_factory=dict)
    verbose: int = 0

    @property
    def params(self) -> list[dict[str, Any]]:
        """The candidates, by bank as trials have them."""
        return [
            {"bank": choice.name, "weight_norm": norm, "C": C}
            for choice in self.choices
            for norm in choice.norms
            for C in self.Cs
        ]

    def run(self, n_jobs: int | None, step: Callable[[], bool] | None) -> list[Trial]:
        """Every bank on every fold; ``step`` is called after each."""
        if self.training.table.apart:
            from kernelweave.estimators._cluster import alone

            n_jobs = alone(n_jobs)
        pairs = [(choice, fold) for choice in self.choices for fold in self.folds]
        fits = len(self.params) * len(self.folds)
        return in_threads(
            self.trial,
            pairs,
            n_jobs,
            lambda late: f"{late} of {fits} fits in folds did not reach tol",
            lambda done: step and step(),
        )

    def trial(self, pair: tuple[Choice, Fold]) -> Trial:
        """Learn all candidates of a bank on the rows of a fold, and meet the rows held out."""
        began, (choice, fold) = time.perf_counter(), pair
        bank, learned = self.learn(choice, fold.train)
        values = values_of(bank, learned, self.training.table.take(fold.test))
        if self.verbose:
            tell(
                f"fold {fold.number + 1}, bank {choice.name!r}: {bank.m_all} kernels, "
                f"{len(learned)} fits, {time.perf_counter() - began:.1f} s"
            )
        biases = np.array([one.bias for one in learned])
        return Trial(choice.name, fold, values, biases, learned[0].posed.targets)

    def learn(self, choice: Choice, rows: Places) -> tuple[FittedBank, list[Learned]]:
        """The kernels of a bank on these rows, and what every candidate learns."""
        training = replace(self.training.take(rows), bank=choice.bank)
        first = pose(self.single, training, self.options[choice.norms[0]])
        bank = fit_kernels(first, exact=False)
        found: dict[tuple[float | str, float], Learned] = {}
        for norm in choice.norms:
            start, trails = None, [Trail() for _ in first.problems]
            for C in sorted(self.Cs, reverse=True):
                options = replace(self.options[norm], C=C)
                posed = pose(self.single, training, options, first.targets)
                learned = found[norm, C] = solve_all(bank, posed, start, trails=trails)
                start = learned.solutions
        return bank, [found[norm, C] for norm in choice.norms for C in self.Cs]


def share_rows(table: Table) -> Table:
    """Rows to be cut into parts that share what depends on two of them alone, if they are here."""
    available = available_bytes()
    return share(table, _MOST if available is None else min(_MOST, _SHARE * available))


@advised
def search(
    model: CrossValidated, X: Any, y: Any, groups: Any = None, sample_weight: Any = None
) -> Any:
    """Choose, and fit the candidate chosen; fitted attributes change in the end, and not before."""
    task, scorer, targets = plan(model, X, y, groups, sample_weight)
    with model._callbacks(X, y, len(task.choices) * len(task.folds)) as step:
        trials = task.run(model.n_jobs, step)
        banks = {choice.name: choice.bank for choice in task.choices}
        found = {"banks_": banks, "skipped_": task.skipped, **targets.attributes}
        found |= model._chosen(task.params, model._scores(scorer, task, trials))
        name, norm, C = found["best_params_"].values()
        place = found["best_index_"] - [one["bank"] for one in task.params].index(name)
        held_out = model._held_out(task, [one for one in trials if one.bank == name], place)
        found |= held_out
        if model.refit:
            best: Any = fit(model._candidate(banks[name], norm, C), X, y, sample_weight)
            vars(best).update(held_out)
            found = {**vars(best), **found, "best_estimator_": best}
        replace_fitted(model, {k: v for k, v in found.items() if k[-1] == "_" != k[0]})
    return model


def plan(
    model: CrossValidated, X: Any, y: Any, groups: Any, sample_weight: Any
) -> tuple[Search, Any, Targets]:
    """What to try, how to score it, and the targets of all rows; complains before any work."""
    norms, Cs = model._check_parameters()
    single = model._candidate(KernelBank(), norms[0], Cs[0])
    training = read(single, X, y, sample_weight)
    scorer, table = read_scorer(model.scoring, single, model._other_scores), training.table
    choices, skipped = read_choices(
        model.banks, model.views, model.impute, norms, model._lone, table
    )
    device = getattr(model, "device", None)  # estimators of users may know none
    if device is not None:
        choices = [replace(one, bank=one.bank.on_device(device)) for one in choices]
    folds = model._folds(training, groups)
    options = {}
    for norm in norms:
        asked = FitOptions.of(
            model._candidate(KernelBank(), norm, Cs[0]), sample_weight is not None
        )
        options[norm] = asked if model.cv_tol is None else replace(asked, tol=model.cv_tol)
        targets = pose(single, training, options[norm]).targets
    for fold in folds:
        model._check_fold(fold, training.targets)
    shared = replace(training, table=share_rows(table))
    task = Search(single, shared, options, Cs, choices, folds, skipped, model.verbose)
    return task, scorer, targets


class CrossValidated(Estimator):
    """The base class of estimators that choose by cross-validation; not for use by itself.

    A subclass says what it fits (``_single``), and how rows are cut into folds (``_splitter``).
    """

    banks: Any
    weight_norms: Any
    Cs: Any
    views: Any
    impute: str | None
    cv: Any
    scoring: Any
    selection: str
    refit: bool
    learner: str | Learner
    cv_tol: float | None
    n_jobs: int | None
    random_state: Any
    verbose: int

    best_estimator_: Any

    _single: ClassVar[type[MKLEstimator]]
    _lone: ClassVar[tuple[Kernel, ...]] = (Linear(),)  # kernels that are tried by themselves, too
    _other_scores = "choose another score."  # the advice if a score needs what is not there

    def _splitter(self, y: Any, grouped: bool) -> Any:
        """What an integer ``cv``, or None, stands for."""
        raise NotImplementedError

    def _check_fold(self, fold: Fold, y: Any) -> None:
        """Raise ValueError if a fold cannot be learned on."""

    def _check_parameters(self) -> tuple[list[float | str], list[float]]:
        """The norms and the values of C to try; raises an error for what is none's but ours."""
        check_choice("selection", self.selection, SELECTIONS)
        check_verbose(self.verbose)
        check_truth("refit", self.refit)
        if self.cv_tol is not None:
            check_number("cv_tol", self.cv_tol)
        for bank in self._given_banks():
            refuse_parameters(bank, type(self).__name__)
            if is_one_of(bank.kernels, ("precomputed",)):
                raise ValueError(
                    f"kernels='precomputed' is not for {type(self).__name__}. {ROW_NUMBERS}"
                )
        return read_norms(self.weight_norms), read_Cs(self.Cs).tolist()

    def _given_banks(self) -> list[KernelBank]:
        """The banks named in ``banks``; the default bank if there is none."""
        several = isinstance(self.banks, Mapping)
        return [as_bank(bank) for bank in (self.banks.values() if several else [self.banks])]

    def _candidate(self, bank: KernelBank, norm: float | str, C: float) -> MKLEstimator:
        """The estimator of one candidate, with the parameters that it shares with this one."""
        given, own = self.get_params(deep=False), self._single().get_params(deep=False)
        shared = (own.keys() & given.keys()) - {"n_jobs", "verbose", "views"}
        weighting: dict[str, Any] = {"weight_norm": norm}
        if norm == EQUAL:
            weighting = {"learner": "uniform", "weight_norm": 1}
        options = {name: given[name] for name in shared} | weighting
        return self._single(**{**options, "kernels": bank, "C": C})

    def _folds(self, training: Training, groups: Any) -> list[Fold]:
        """Folds of the rows to learn from.

        A splitter cuts these rows; what lists rows by itself lists them among all of X.
        """
        y, used, n = training.targets, training.places, training.n_given
        if groups is not None:
            check_consistent_length(range(n), groups)
            groups = np.asarray(groups)[used]
        cv, listed = self.cv, isinstance(self.cv, PredefinedSplit)
        if cv is None or is_whole(cv):
            cv = self._splitter(y, groups is not None)
        elif not hasattr(cv, "split") or isinstance(cv, str):
            try:
                cv, listed = check_cv(cv), True
            except (TypeError, ValueError) as error:
                raise type(error)(
                    "cv must be a number of folds, a splitter of sklearn.model_selection or pairs "
                    f"(train, test) of row numbers, found {shown(self.cv)}"
                ) from error
        splits = cv.split(np.empty((len(y), 1)), y, groups)
        return as_folds(splits, n, used) if listed else as_folds(splits, len(y), np.arange(len(y)))

    def _scores(self, scorer: Any, task: Search, trials: list[Trial]) -> Array:
        """The score of every candidate on every fold, (n_candidates, n_folds)."""
        y, weights = task.training.targets, task.training.weights
        banks = np.array([candidate["bank"] for candidate in task.params])
        scores = np.empty((len(banks), len(task.folds)))
        for trial in trials:
            rows = trial.fold.test
            held = y[rows], None if weights is None else weights[rows]
            scores[banks == trial.bank, trial.fold.number] = [
                self._score(scorer, model, *held)
                for model in self._knowing(scorer, task, trials, trial)
            ]
        return scores

    def _knowing(
        self, scorer: Any, task: Search, trials: list[Trial], trial: Trial
    ) -> Iterator[Any]:
        """A model for each candidate of a trial that has its values of the rows held out."""
        return (recalled(task.single, values, trial.targets) for values in trial.values)

    def _score(self, scorer: Any, model: Any, y: Any, weights: Array | None) -> float:
        """The score of a model that has the values of all rows held out, which count by weight."""
        count = {} if weights is None else {"sample_weight": weights}
        return as_score(scorer(model, np.empty((len(y), 0)), y, **count))

    def _held_out(self, task: Search, trials: list[Trial], place: int) -> dict[str, Any]:
        """Fitted attributes from rows held out, ``values[place]`` of trials of the best bank."""
        return {}

    def _best(self, params: list[dict[str, Any]], scores: Array) -> int:
        """The number of the candidate chosen."""
        return choose(self.selection, params, scores)

    def _chosen(self, params: list[dict[str, Any]], scores: Array) -> dict[str, Any]:
        """What is chosen by scores, (n_candidates, n_folds), as fitted attributes."""
        check_scores(scores, is_regressor(self))
        cv_results, best = results(params, scores), self._best(params, scores)
        C, Cs = params[best]["C"], [candidate["C"] for candidate in params]
        at_edge = min(Cs) < max(Cs) and C in (min(Cs), max(Cs))
        if self.verbose and at_edge:
            tell(f"C={C:g} was chosen at the edge of Cs: values beyond may do better")
        return {
            "n_splits_": scores.shape[1],
            "cv_results_": cv_results,
            "best_index_": best,
            "best_params_": params[best],
            "best_score_": float(cv_results["mean_test_score"][best]),
            "C_": C,
            "C_at_edge_": at_edge,
        }

    # ---- new rows ------------------------------------------------------------------------------

    def _fitted(self) -> Any:
        check_is_fitted(self)
        if not self.refit:
            raise AttributeError(
                f"{type(self).__name__} was fitted with refit=False: it chose, but kept no model; "
                "set refit=True."
            )
        return self.best_estimator_

    def predict(self, X: Any) -> Any:
        """The prediction of the candidate chosen for every row of X."""
        return self._fitted().predict(X)

    def seen_weight(self, X: Any) -> Array:
        """The share of the kernel weights whose views each row has, as in ``best_estimator_``."""
        return self._fitted().seen_weight(X)

    def combined_kernel(self, X: Any) -> Array:
        """The learned kernel against all training rows, as in ``best_estimator_``."""
        return self._fitted().combined_kernel(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cv_results_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        banks = self._given_banks()
        tags.input_tags.string = all(takes_strings(bank) for bank in banks)
        tags.input_tags.sparse = all(takes_sparse(bank) for bank in banks)
        tags.input_tags.allow_nan = all(bank.allows_gaps() for bank in banks)
        return tags
