"""Times to an event, with everything chosen by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from kernelweave._core.types import Array
from kernelweave.estimators._base import store
from kernelweave.estimators._candidates import Fold, number_of_folds
from kernelweave.estimators._search import CrossValidated, Search, Trial, search
from kernelweave.estimators._targets import Training
from kernelweave.estimators._times import concordance
from kernelweave.estimators.survival import Curves, MKLSurvival, curves_of
from kernelweave.learners.base import Learner


class MKLSurvivalCV(Curves, CrossValidated):
    """``MKLSurvival`` that chooses C, the kernels and the weight norm by cross-validation.

    As ``MKLClassifierCV``, for times to an event. Folds have equal shares of events, and the risks
    of rows held out, by the candidate chosen, make the survival curves.

    Parameters
    ----------
    banks, weight_norms, selection, refit, views, tol, cv_tol, max_iter, n_jobs, verbose, impute,
    device
        As in ``MKLClassifierCV``.
    Cs : int or list of float, default=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
        Values of C to try: smaller ones than for classes, as times are noisy. A number as in
        ``MKLClassifierCV``.
    cv : int, splitter or iterable, default=None
        As in ``MKLClassifierCV``, where events take the place of classes.
    scoring : callable or None, default=None
        One score to maximize; None is the C-index.
    learner, epsilon
        As in ``MKLSurvival``.
    random_state : int, RandomState or None, default=None
        Shuffles the rows before an integer ``cv`` cuts them; None keeps their order.

    Attributes
    ----------
    best_params_, best_score_, best_index_, cv_results_, C_, C_at_edge_, banks_, skipped_, n_splits_
        As in ``MKLClassifierCV``.
    held_out_risks_, event_times_, baseline_hazard_, risk_slope_, risk_origin_
        As in ``MKLSurvival``, of the candidate chosen, in the folds that it was chosen by.
    best_estimator_ : MKLSurvival
        The final fit, whose fitted attributes are also attributes of this object.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import MKLSurvivalCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 3))
    >>> time = np.exp(X[:, 0] + 0.5 * rng.normal(size=120))
    >>> y = np.column_stack([np.minimum(time, 2.0), time <= 2.0])
    >>> model = MKLSurvivalCV(Cs=[0.01, 0.1], weight_norms=[1]).fit(X, y)
    >>> bool(model.best_score_ > 0.7)
    True
    """

    best_estimator_: MKLSurvival
    _single = MKLSurvival

    def __init__(
        self,
        banks: Any = None,
        Cs: Any = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
        weight_norms: Any = (1, 4 / 3, 2, "equal"),
        cv: Any = None,
        scoring: Any = None,
        selection: str = "best",
        refit: bool = True,
        views: Any = None,
        learner: str | Learner = "auto",
        tol: float = 1e-3,
        cv_tol: float | None = 1e-2,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        epsilon: float = 0.1,
        impute: str | None = None,
        device: str | None = None,
    ) -> None:
        store(self, locals())

    def fit(
        self,
        X: Any,
        y: Any,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Choose by cross-validation, then fit the candidate chosen to all rows.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read.
        y : structured array (n,), array-like or frame (n, 2), or array-like (n,)
            Times and events, as in ``MKLSurvival``.
        groups, sample_weight : array-like (n,), optional
            As in ``MKLClassifierCV``.

        Returns
        -------
        self
        """
        return search(self, X, y, groups, sample_weight)

    def _candidate(self, bank: Any, norm: float | str, C: float) -> Any:
        return super()._candidate(bank, norm, C).set_params(folds=None)

    def _folds(self, training: Training, groups: Any) -> list[Fold]:
        events = training.targets["event"].astype(int)
        return super()._folds(replace(training, targets=events), groups)

    def _splitter(self, y: Any, grouped: bool) -> Any:
        what = "rows with an event"
        count = number_of_folds(self.cv, int(np.count_nonzero(y)), what)
        kind = StratifiedGroupKFold if grouped else StratifiedKFold
        return kind(count, shuffle=self.random_state is not None, random_state=self.random_state)

    def _score(self, scorer: Any, model: Any, y: Any, weights: Array | None) -> float:
        if self.scoring is not None:
            return super()._score(scorer, model, y, weights)
        found = concordance(y["time"], y["event"], model.predict(None), weights)
        return 0.5 if np.isnan(found) else found  # no two rows to compare: all candidates are alike

    def _check_fold(self, fold: Fold, y: Any) -> None:
        if not y["event"][fold.train].any():
            raise ValueError(
                f"cv: the training rows of split {fold.number} hold no event; use an integer cv, "
                "whose folds have equal shares of events, or fewer folds."
            )

    def _held_out(self, task: Search, trials: list[Trial], place: int) -> dict[str, Any]:
        return curves_of(task.training, trials, place)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.positive_only = True
        return tags
