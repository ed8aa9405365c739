"""Everything chosen in one fit: C, the bank of kernels and the weight norm, by cross-validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from kernelweave._core.types import Array
from kernelweave.estimators._base import store
from kernelweave.estimators._calibration import (
    WhereCalibrated,
    calibrated,
    held_out,
    needs_probabilities,
    values_of_others,
)
from kernelweave.estimators._candidates import Fold, equal_if_as_good, number_of_folds
from kernelweave.estimators._probabilities import Calibration
from kernelweave.estimators._search import CrossValidated, Search, Trial, search
from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.regressor import MKLRegressor, takes_intervals
from kernelweave.kernels.numeric import Gaussian, Linear
from kernelweave.learners.base import Learner
from kernelweave.problems.losses import Loss


class MKLClassifierCV(ClassifierMixin, CrossValidated):
    """``MKLClassifier`` that chooses C, the kernels and the weight norm by cross-validation.

    Nothing need be set. On each fold the kernels of a bank are computed once, each norm has one
    warm-started path over C, and the rows held out meet each kernel once. What depends on two rows
    alone is computed once for all folds; whatever is learned from rows (widths, means, scales,
    dropped kernels) is learned on the training rows of each fold. The scores are those of
    ``GridSearchCV(MKLClassifier(…))``, at a fraction of its time.

    Parameters
    ----------
    banks : dict {name: bank}, bank, kernel or list of kernels, default=None
        What to choose the kernels from. None: a linear kernel alone; the default kernels and
        Laplacians on all columns ("all"); if ``views`` are given, the default kernels on each view
        ("views"); and those of "all" with three kernels on each column ("each"). Of banks that
        score alike the first is taken, which is the simplest. Those that do not suit X or would
        take too much memory are skipped: see ``skipped_``. Where four fifths of X are zeros, in
        ten columns or more, kernels on all columns compare directions (``normalize="sphere"``).
        Kernel matrices are ``[Precomputed(K1), …]``, with row numbers as X.
    Cs : int or list of float, default=6
        Values of C to try, or how many between 0.01 and 1000.
    weight_norms : list, default=(1, 4/3, 2, "equal")
        Norms to try, as in ``MKLClassifier``; "equal" stands for equal weights. A kernel alone
        has the first of them in ``cv_results_``: it makes no difference.
    cv : int, splitter or iterable, default=None
        As in ``GridSearchCV``. An integer: so many stratified folds, of whole groups if ``groups``
        are given to ``fit``. None: five, or fewer if a class has fewer rows.
    scoring : str, callable or None, default=None
        One score to maximize, as in ``GridSearchCV``; None is accuracy.
    selection : {"best", "one_se"}, default="best"
        "one_se" takes the smallest C among all candidates whose mean score is within one standard
        error of the highest. Either way, equal weights of the bank chosen are taken in place of
        learned ones where they score as well, up to one standard error of the difference over the
        folds.
    refit : bool, default=True
        Whether to fit the candidate chosen to all rows. Without, there is nothing to predict with.
    views : dict {name: columns}, default=None
        Views of X, as in ``KernelBank``, for ``banks=None``.
    learner, loss, tol, max_iter
        As in ``MKLClassifier``; ``tol`` is for the final fit.
    cv_tol : float or None, default=1e-2
        Relative duality gap to reach in folds, where scores hardly depend on it; None is ``tol``.
    n_jobs : int, default=None
        Number of threads, each with the kernels of one fold; None is one, -1 is one per core.
        Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Shuffles the rows before an integer ``cv`` cuts them; None keeps their order.
    verbose : int, default=0
        1 prints to standard error: a line per fold and bank.
    multi_class, class_weight
        As in ``MKLClassifier``. Classes share their kernel weights.
    impute : {"median", "mean"} or None, default=None
        What fills in single empty cells, as in ``KernelBank``, for ``banks=None``; learned on the
        training rows of each fold.
    device : None, "cpu", "auto", "cuda", "cuda:1" or "mps", default=None
        Where all fits take place, as in ``MKLClassifier``.
    calibration : {"sigmoid", "isotonic", "temperature"}, default="sigmoid"
        What makes probabilities of decision values, as in ``MKLClassifier``. The folds hold rows
        out anyway, so that it takes no further fit.

    Attributes
    ----------
    best_params_ : dict
        "bank", "weight_norm" and "C" chosen.
    best_score_ : float
        Their mean score over the folds; it may be less than the highest by what cannot be told from
        chance.
    best_index_ : int
        Their number in ``cv_results_``.
    cv_results_ : dict
        As ``GridSearchCV`` has it: "params", "param_C", …, "split0_test_score", …,
        "mean_test_score", "std_test_score", "rank_test_score".
    C_ : float
        The C chosen.
    C_at_edge_ : bool
        Whether it is the least or the greatest of several in ``Cs``: values beyond may do better.
    best_estimator_ : MKLClassifier
        The final fit. Its fitted attributes (``weights_``, ``bank_``, ``duality_gap_``, …) are
        also attributes of this object.
    banks_ : dict
        The banks that were tried, by name.
    skipped_ : dict
        Banks that were not tried, and why.
    n_splits_ : int
        Number of folds.
    classes_ : ndarray
        Class labels.
    decision_values_ : ndarray (n,) or (n, n_machines)
        The decision value of each row of X in the folds that held it out, by the candidate chosen;
        the mean of several, NaN of none.
    decision_folds_ : ndarray (n,)
        The number of the first of these folds; −1 if there is none.
    calibration_ : Calibration or None
        What makes probabilities of decision values, fitted to ``decision_values_``; None if fewer
        than two rows of a class were held out.

    Notes
    -----
    Scores of probabilities, such as ``scoring="neg_log_loss"``, are of curves fitted to the rows
    of the other folds. ``predict`` goes by decision values, as in ``MKLClassifier``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kernelweave import MKLClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, y = X[::3], y[::3]
    >>> model = MKLClassifierCV(Cs=[0.1, 1, 10], weight_norms=[1, "equal"]).fit(X, y)
    >>> sorted(model.best_params_)
    ['C', 'bank', 'weight_norm']
    >>> bool(model.best_score_ > 0.9)
    True
    """

    best_estimator_: MKLClassifier
    classes_: NDArray[Any]
    calibration_: Calibration | None
    _single = MKLClassifier

    def __init__(
        self,
        banks: Any = None,
        Cs: Any = 6,
        weight_norms: Any = (1, 4 / 3, 2, "equal"),
        cv: Any = None,
        scoring: Any = None,
        selection: str = "best",
        refit: bool = True,
        views: Any = None,
        learner: str | Learner = "auto",
        loss: str | Loss = "hinge",
        tol: float = 1e-3,
        cv_tol: float | None = 1e-2,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        multi_class: str = "ovr",
        class_weight: Any = None,
        impute: str | None = None,
        device: str | None = None,
        calibration: str = "sigmoid",
    ) -> None:
        store(self, locals())

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Choose by cross-validation, then fit the candidate chosen to all rows.

        Parameters
        ----------
        X : array, list of rows or data frame (n, n_features)
            Columns that the kernels read.
        y : array-like (n,)
            Labels, of any type.
        groups : array-like (n,), optional
            Rows of one group, such as the visits of a patient, are never on both sides of a split.
        sample_weight : array-like (n,), optional
            How often each row counts, ≥ 0, in fits and in scores.

        Returns
        -------
        self
        """
        return search(self, X, y, groups, sample_weight)

    def decision_function(self, X: Any) -> Array:
        """How far each row of X is on the side of a class, as in ``MKLClassifier``."""
        return self._fitted().decision_function(X)

    @WhereCalibrated
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class for every row of X, (n_new, n_classes)."""
        found: Array = self._fitted().predict_proba(X)
        return found

    def _knowing(
        self, scorer: Any, task: Search, trials: list[Trial], trial: Trial
    ) -> Iterator[Any]:
        asked = self.scoring is not None and needs_probabilities(scorer)
        for candidate, model in enumerate(super()._knowing(scorer, task, trials, trial)):
            if asked:
                others = values_of_others(trials, trial, candidate, len(task.training.table))
                model.calibration_ = calibrated(self, task.training, others)
            yield model

    def _held_out(self, task: Search, trials: list[Trial], place: int) -> dict[str, Any]:
        return held_out(
            self, task.training, [(trial.fold, trial.values[place]) for trial in trials]
        )

    def _best(self, params: list[dict[str, Any]], scores: Array) -> int:
        return equal_if_as_good(super()._best(params, scores), params, scores)

    def _score(self, scorer: Any, model: Any, y: Any, weights: Array | None) -> float:
        if self.scoring is not None:
            return super()._score(scorer, model, y, weights)
        return float(np.average(model.predict(None) == y, weights=weights))  # without checks

    def _splitter(self, y: Any, grouped: bool) -> Any:
        classes, counts = np.unique(y, return_counts=True)
        rarest = classes.tolist()[int(counts.argmin())]
        what = f"rows of each class (class {rarest!r} has the fewest)"
        count = number_of_folds(self.cv, int(counts.min()), what)
        kind = StratifiedGroupKFold if grouped else StratifiedKFold
        return kind(count, shuffle=self.random_state is not None, random_state=self.random_state)

    def _check_fold(self, fold: Fold, y: Any) -> None:
        lacking = np.setdiff1d(y, y[fold.train])
        if lacking.size:
            raise ValueError(
                f"cv: the training rows of split {fold.number} lack class "
                f"{lacking.tolist()[0]!r}; use stratified folds (an integer cv), or fewer."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        single = MKLClassifier(learner=self.learner).__sklearn_tags__()
        tags.classifier_tags.multi_class = single.classifier_tags.multi_class
        return tags


class MKLRegressorCV(RegressorMixin, MultiOutputMixin, CrossValidated):
    """``MKLRegressor`` that chooses C, the kernels and the weight norm by cross-validation.

    As ``MKLClassifierCV``, for numbers. In each fold the targets are standardized anew.

    Parameters
    ----------
    banks, Cs, weight_norms, selection, refit, views, tol, cv_tol, max_iter, n_jobs, verbose,
    impute, device
        As in ``MKLClassifierCV``. ``banks=None`` also tries Gaussians of four widths alone.
    cv : int, splitter or iterable, default=None
        As in ``GridSearchCV``. An integer: so many folds, of whole groups if ``groups`` are given
        to ``fit``. None: five.
    scoring : str, callable or None, default=None
        One score to maximize; None is R². For ``loss="quantile"``, choose one for quantiles, such
        as ``make_scorer(mean_pinball_loss, alpha=…, greater_is_better=False)``.
    loss : {"squared", "epsilon_insensitive", "huber", "quantile", "interval"}, default="squared"
        As in ``MKLRegressor``, whose default is another: the squared loss, since what is chosen by
        is R², which counts squared errors. "epsilon_insensitive" where some targets are far off.
        "interval" is chosen by minus the mean cost, with the ``epsilon`` given.
    learner, epsilon, quantile
        As in ``MKLRegressor``. Targets share their kernel weights.
    random_state : int, RandomState or None, default=None
        Shuffles the rows before an integer ``cv`` cuts them; None keeps their order.

    Attributes
    ----------
    best_params_, best_score_, best_index_, cv_results_, C_, C_at_edge_, banks_, skipped_, n_splits_
        As in ``MKLClassifierCV``.
    best_estimator_ : MKLRegressor
        The final fit, whose fitted attributes are also attributes of this object.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kernelweave import MKLRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MKLRegressorCV(Cs=[0.1, 1], weight_norms=["equal"]).fit(X[:200], y[:200])
    >>> bool(model.score(X[200:], y[200:]) > 0.4)
    True
    """

    best_estimator_: MKLRegressor
    _single = MKLRegressor
    _lone = Linear(), *(Gaussian(width, relative=True) for width in (0.5, 1.0, 2.0, 4.0))

    def __init__(
        self,
        banks: Any = None,
        Cs: Any = 6,
        weight_norms: Any = (1, 4 / 3, 2, "equal"),
        cv: Any = None,
        scoring: Any = None,
        selection: str = "best",
        refit: bool = True,
        views: Any = None,
        learner: str | Learner = "auto",
        loss: str | Loss = "squared",
        tol: float = 1e-3,
        cv_tol: float | None = 1e-2,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        epsilon: float = 0.1,
        quantile: float = 0.5,
        impute: str | None = None,
        device: str | None = None,
    ) -> None:
        store(self, locals())

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Choose by cross-validation, then fit the candidate chosen to all rows.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read.
        y : array-like (n,) or (n, n_targets)
            Numbers to predict; with loss="interval", ends as in ``MKLRegressor``.
        groups, sample_weight : array-like (n,), optional
            As in ``MKLClassifierCV``.

        Returns
        -------
        self
        """
        return search(self, X, y, groups, sample_weight)

    def _splitter(self, y: Any, grouped: bool) -> Any:
        count = number_of_folds(self.cv, len(y), "rows", each=1 if self.scoring else 2)  # R²
        shuffled = {"shuffle": self.random_state is not None, "random_state": self.random_state}
        return GroupKFold(count) if grouped else KFold(count, **shuffled)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R²; with loss="interval" minus the mean cost, as in ``MKLRegressor``."""
        return float(self._fitted().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = not (ends := takes_intervals(self.loss))
        tags.regressor_tags.poor_score = ends  # which is a cost, not R²
        return tags
