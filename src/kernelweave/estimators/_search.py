"""What cross-validated estimators share: candidates, folds, scores, the choice and the final fit.

A subclass says what its machines learn (``_targets``), how the values of held-out rows are scored
(``_recall``), and which estimator is fitted in the end (``_single``).
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kernelweave._core.checks import check_number, is_whole, shown
from kernelweave._core.types import Array
from kernelweave.banks.bank import KernelBank
from kernelweave.estimators._banks import as_bank, takes_sparse, takes_strings
from kernelweave.estimators._candidates import Way, read_banks, read_Cs, read_ways
from kernelweave.estimators._folds import Fold, Task, as_folds, run_all, share_rows
from kernelweave.estimators._saving import Saved
from kernelweave.estimators._selection import check_selection, choose, results
from kernelweave.learners.base import Learner
from kernelweave.views.table import Table


class CrossValidated(Saved, BaseEstimator):
    """The base class of estimators that choose by cross-validation; not for use by itself."""

    best_estimator_: Any

    def __init__(
        self,
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

    # ---- what a subclass says ------------------------------------------------------------------

    def _single(self, bank: KernelBank, way: Way, C: float) -> Any:
        """The estimator of one candidate."""
        raise NotImplementedError

    def _targets(self, y: Any) -> Array:
        """What the machines learn, per row; checks y."""
        raise NotImplementedError

    def _recall(self, values: Array) -> Any:
        """An estimator that gives these values, (n, n_machines), for the rows held out."""
        raise NotImplementedError

    def _splits(self, X: Any, y: Any, groups: Any) -> Any:
        """Pairs (train, test) for an integer ``cv``, or for None."""
        raise NotImplementedError

    def _check_folds(self, folds: list[Fold], y: Any) -> None:
        """Raise ValueError if some fold cannot be learned on."""

    # ---- learning ------------------------------------------------------------------------------

    def _fit_anew(self, X: Any, y: Any, groups: Any) -> Self:
        """Choose and fit; if anything fails, an earlier fit stays intact."""
        fresh = copy(self)
        for name in [name for name in vars(fresh) if name.endswith("_") and name[0] != "_"]:
            delattr(fresh, name)
        fresh._fit(X, y, groups)
        self.__dict__ = fresh.__dict__
        return self

    def _fit(self, X: Any, y: Any, groups: Any) -> None:
        check_selection(self.selection)
        check_random_state(self.random_state)
        if not isinstance(self.refit, bool | np.bool_):
            raise TypeError(f"refit must be True or False, found {shown(self.refit)}")
        ways, Cs = read_ways(self.weight_norms), read_Cs(self.Cs)
        probe = self._single(KernelBank(), ways[0], float(Cs[0]))
        probe._check_columns(X, y)
        targets = self._targets(y)
        table = Table.read(X)
        check_consistent_length(range(len(table)), targets)
        scorer = check_scoring(probe, scoring=self.scoring)
        self.banks_, self.skipped_ = read_banks(self.banks, self.views, table)
        for bank in self.banks_.values():
            bank.check(table)  # a fold may lack the very row that shows what is wrong
        folds = self._folds(table, y, groups)
        tol = self.tol if self.cv_tol is None else check_number("cv_tol", self.cv_tol)
        options = {"loss": self.loss, "tol": tol, "max_iter": self.max_iter}
        rows = share_rows(table)
        task = Task(rows, targets, Cs, ways, self.learner, options, self.verbose)
        trials = run_all(task, self.banks_, folds, self.n_jobs)
        params = [
            {"bank": name, "weight_norm": way.norm, "C": float(C)}
            for name in self.banks_
            for way in ways
            for C in Cs
        ]
        scores = np.empty((len(self.banks_), len(ways) * len(Cs), len(folds)))
        order = [*self.banks_]
        y = np.asarray(y)
        for trial in trials:
            held = y[trial.fold.test]
            values = trial.values.reshape(-1, *trial.values.shape[2:])
            scores[order.index(trial.bank), :, trial.fold.number] = [
                scorer(self._recall(value), np.empty((len(held), 0)), held) for value in values
            ]
        self._choose(params, scores.reshape(len(params), len(folds)))
        if self.refit:
            self._refit(X, y)

    def _folds(self, table: Table, y: Any, groups: Any) -> list[Fold]:
        if groups is not None:
            check_consistent_length(y, groups)
        if self.cv is None or is_whole(self.cv):
            splits = self._splits(table.numbers, y, groups)
        else:
            try:
                splits = check_cv(self.cv).split(table.numbers, y, groups)
            except (TypeError, ValueError) as error:
                if hasattr(self.cv, "get_n_splits"):
                    raise
                raise type(error)(
                    "cv must be a number of folds, a splitter of sklearn.model_selection or pairs "
                    f"(train, test) of row numbers, found {shown(self.cv)}"
                ) from error
        folds = as_folds(splits, len(table))
        self._check_folds(folds, y)
        return folds

    def _choose(self, params: list[dict[str, Any]], scores: Array) -> None:
        self.n_splits_ = scores.shape[1]
        self.cv_results_ = results(params, scores)
        self.best_index_ = choose(self.selection, params, scores)
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.C_ = self.best_params_["C"]

    def _refit(self, X: Any, y: Any) -> None:
        """Fit the candidate chosen to all rows; its attributes become attributes of this object."""
        chosen = self.best_params_
        bank, way = self.banks_[chosen["bank"]], Way(chosen["weight_norm"])
        self.best_estimator_ = self._single(bank, way, chosen["C"]).fit(X, y)
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
        banks = [*self.banks.values()] if isinstance(self.banks, dict) else [self.banks]
        tags.input_tags.string = all(takes_strings(bank) for bank in banks)
        tags.input_tags.sparse = all(takes_sparse(bank) for bank in banks)
        tags.input_tags.allow_nan = all(as_bank(bank).allows_gaps() for bank in banks)
        return tags
