"""What cross-validated estimators share: candidates, folds, scores, the choice and the final fit.

A subclass says what its machines learn (``_pose``), what their values mean (``_recall``), how rows
are cut into folds (``_splitter``), and which estimator is fitted in the end (``_single``).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.metrics import check_scoring
from sklearn.model_selection import PredefinedSplit, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kernelweave._core.checks import check_number, check_truth, check_verbose, is_whole, shown
from kernelweave._core.status import tell
from kernelweave._core.types import Array, Places
from kernelweave.banks.bank import KernelBank
from kernelweave.estimators._banks import as_bank, takes_sparse, takes_strings
from kernelweave.estimators._callbacks import Called
from kernelweave.estimators._candidates import Way, read_choices, read_Cs, read_ways
from kernelweave.estimators._folds import Fold, Posed, Task, Trial, as_folds, run_all, share_rows
from kernelweave.estimators._inspected import Inspected
from kernelweave.estimators._matrices import ROW_NUMBERS, takes_matrices
from kernelweave.estimators._selection import (
    as_score,
    check_one_score,
    check_scores,
    check_selection,
    choose,
    results,
)
from kernelweave.estimators._training import used_rows
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.numeric import Linear
from kernelweave.learners.base import Learner
from kernelweave.parameters.bank import refuse_parameters
from kernelweave.views.table import Table


class CrossValidated(Called, Inspected, BaseEstimator):
    """The base class of estimators that choose by cross-validation; not for use by itself."""

    best_estimator_: Any

    _lone: ClassVar[tuple[Kernel, ...]] = (Linear(),)  # kernels that are tried by themselves, too
    _other_scores = "choose another score."  # the advice if a score needs what is not there

    def __init__(
        self,
        *,
        banks: Any,
        Cs: Any,
        weight_norms: Any,
        cv: Any,
        scoring: Any,
        selection: str,
        refit: bool,
        views: Any,
        learner: str | Learner,
        loss: str,
        tol: float,
        cv_tol: float | None,
        max_iter: int,
        n_jobs: int | None,
        random_state: Any,
        verbose: int,
        impute: str | None,
    ) -> None:
        self.banks = banks
        self.Cs = Cs
        self.weight_norms = weight_norms
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.refit = refit
        self.views = views
        self.learner = learner
        self.loss = loss
        self.tol = tol
        self.cv_tol = cv_tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.impute = impute

    # ---- what a subclass says ------------------------------------------------------------------

    def _single(self, bank: KernelBank, way: Way, C: float) -> Any:
        """The estimator of one candidate."""
        raise NotImplementedError

    def _check_y(self, y: Any) -> Any:
        """Targets as an array, a row per row of X."""
        raise NotImplementedError

    def _know(self, y: Any) -> None:
        """Keep what must be known of the targets of all rows that count."""

    def _pose(self, y: Any, weights: Array | None) -> Posed:
        """What machines learn from these targets, in which row i counts ``weights[i]`` times."""
        raise NotImplementedError

    def _recall(self, values: Array) -> Any:
        """An estimator that has these values, (n, n_machines), for the rows held out."""
        raise NotImplementedError

    def _splitter(self, y: Any, grouped: bool) -> Any:
        """What an integer ``cv``, or None, stands for."""
        raise NotImplementedError

    # ---- learning ------------------------------------------------------------------------------

    def _fit_anew(self, *data: Any) -> Self:
        """Choose and fit; if anything fails, an earlier fit stays intact."""
        fresh = copy(self)
        for name in [name for name in vars(fresh) if name.endswith("_") and name[0] != "_"]:
            delattr(fresh, name)
        try:
            fresh._fit(*data)
        finally:
            fresh._leave_fit()
        self.__dict__ = fresh.__dict__
        return self

    def _fit(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> None:
        ways, Cs = self._check_parameters()
        probe = self._single(KernelBank(), ways[0], float(Cs[0]))
        probe._check_columns(X, y)
        targets, table = self._check_y(y), Table.read(X)
        check_consistent_length(range(len(table)), targets)
        scorer = self._make_scorer(probe)
        n = len(table)
        used, weights = used_rows(sample_weight, n)
        table, targets = table.take(used) if len(used) < n else table, targets[used]
        self._know(targets)
        choices, self.skipped_ = read_choices(
            self.banks, self.views, self.impute, ways, self._lone, table
        )
        self.banks_ = {choice.name: choice.bank for choice in choices}
        folds = self._folds(targets, groups, used, n)

        def pose(rows: Places) -> Posed:
            return self._pose(targets[rows], None if weights is None else weights[rows])

        pose(np.arange(len(used)))  # complains of parameters before any work
        for fold in folds:
            self._check_fold(fold, targets)
        task = Task(share_rows(table), weights, pose, Cs, self.learner, self.verbose)
        self._begin_fit(X, y, len(choices) * len(folds))
        trials = run_all(task, choices, folds, self.n_jobs, self._step)
        params = [
            {"bank": choice.name, "weight_norm": way.norm, "C": float(C)}
            for choice in choices
            for way in choice.ways
            for C in Cs
        ]
        scores = np.empty((len(params), len(folds)))
        banks = np.array([candidate["bank"] for candidate in params])
        for trial in trials:
            place = banks == trial.bank, trial.fold.number
            scores[place] = self._scores(scorer, trial, targets, weights)
        self._choose(params, scores)
        if self.refit:
            self._refit(X, y, sample_weight)
        self._end_fit(X, y)

    def _given_banks(self) -> list[KernelBank]:
        """The banks named in ``banks``; the default bank if there is none."""
        several = isinstance(self.banks, Mapping)
        return [as_bank(bank) for bank in (self.banks.values() if several else [self.banks])]

    def _check_parameters(self) -> tuple[list[Way], Array]:
        check_selection(self.selection)
        check_verbose(self.verbose)
        for bank in self._given_banks():
            refuse_parameters(bank, type(self).__name__)
        if any(takes_matrices(bank) for bank in self._given_banks()):
            raise ValueError(
                f"kernels='precomputed' is not for {type(self).__name__}. {ROW_NUMBERS}"
            )
        check_random_state(self.random_state)
        check_truth("refit", self.refit)
        if self.cv_tol is not None:
            check_number("cv_tol", self.cv_tol)
        return read_ways(self.weight_norms), read_Cs(self.Cs)

    def _make_scorer(self, probe: Any) -> Any:
        """The scorer; raises an error if there is none, or it needs a method that is not there."""
        check_one_score(self.scoring)
        scorer = check_scoring(probe, scoring=self.scoring)
        needed = getattr(scorer, "_response_method", "predict")
        methods = [needed] if isinstance(needed, str) else list(needed)
        if not any(hasattr(probe, method) for method in methods):
            raise ValueError(
                f"scoring={shown(self.scoring)} needs {' or '.join(methods)}, which "
                f"{type(self).__name__} does not have; {self._other_scores}"
            )
        return scorer

    def _folds(self, y: Any, groups: Any, used: Places, n: int) -> list[Fold]:
        """Folds of the ``used`` rows among n, whose targets are y.

        A splitter cuts these rows; what lists rows by itself lists them among all.
        """
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

    def _check_fold(self, fold: Fold, y: Any) -> None:
        """Raise ValueError if a fold cannot be learned on."""

    def _scores(self, scorer: Any, trial: Trial, y: Any, weights: Array | None) -> list[float]:
        """The score of every candidate on the rows held out, which count by weight."""
        rows = trial.fold.test
        held = y[rows], None if weights is None else weights[rows]
        return [self._score(scorer, self._recall(value), *held) for value in trial.values]

    def _score(self, scorer: Any, model: Any, y: Any, weights: Array | None) -> float:
        """The score of a model that has the values of all rows held out."""
        count = {} if weights is None else {"sample_weight": weights}
        return as_score(scorer(model, np.empty((len(y), 0)), y, **count))

    def _path_options(self, weights: Array | None, **more: Any) -> dict[str, Any]:
        """Options of ``regularization_path`` in a fold."""
        tol = self.tol if self.cv_tol is None else self.cv_tol
        common = {"loss": self.loss, "tol": tol, "max_iter": self.max_iter}
        return {**common, "sample_weight": weights, **more}

    def _choose(self, params: list[dict[str, Any]], scores: Array) -> None:
        check_scores(scores, is_regressor(self))
        self.n_splits_ = scores.shape[1]
        self.cv_results_ = results(params, scores)
        self.best_index_ = choose(self.selection, params, scores)
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.C_ = self.best_params_["C"]
        Cs = [candidate["C"] for candidate in params]
        self.C_at_edge_ = min(Cs) < max(Cs) and self.C_ in (min(Cs), max(Cs))
        if self.verbose and self.C_at_edge_:
            tell(f"C={self.C_:g} was chosen at the edge of Cs: values beyond may do better")

    def _refit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit the candidate chosen to all rows; its attributes become attributes of this object."""
        chosen = self.best_params_
        bank, way = self.banks_[chosen["bank"]], Way(chosen["weight_norm"])
        self.best_estimator_ = self._single(bank, way, chosen["C"])
        self.best_estimator_.fit(X, y, sample_weight)
        own = vars(self).keys()
        for name, value in vars(self.best_estimator_).items():
            if name.endswith("_") and not name.startswith("_") and name not in own:
                setattr(self, name, value)

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
