"""Everything chosen in one fit: C, the bank of kernels and the weight norm, by cross-validation."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from kernelweave._core.types import Array
from kernelweave.banks.bank import KernelBank
from kernelweave.estimators._candidates import Way
from kernelweave.estimators._folds import Fold, number_of_folds
from kernelweave.estimators._labels import two_classes
from kernelweave.estimators._search import CrossValidated
from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.learners.base import Learner


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
        What to choose the kernels from. None: the default kernels and Laplacians on all columns
        ("all"); these and three kernels on each column ("each"); and, if ``views`` are given, the
        default kernels on each view ("views"). Those that do not suit X or would take too much
        memory are skipped: see ``skipped_``.
    Cs : int or list of float, default=6
        Values of C to try, or how many between 0.01 and 1000.
    weight_norms : list, default=(1, 4/3, 2, "equal")
        Norms to try, as in ``MKLClassifier``; "equal" stands for equal weights.
    cv : int, splitter or iterable, default=None
        As in ``GridSearchCV``. An integer: so many stratified folds, of whole groups if ``groups``
        are given to ``fit``. None: five, or fewer if a class has fewer rows.
    scoring : str, callable or None, default=None
        One score to maximize, as in ``GridSearchCV``; None is accuracy.
    selection : {"best", "one_se"}, default="best"
        "one_se" takes the smallest C among all candidates whose mean score is within one standard
        error of the highest.
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

    Attributes
    ----------
    best_params_ : dict
        "bank", "weight_norm" and "C" chosen.
    best_score_ : float
        Their mean score over the folds.
    best_index_ : int
        Their number in ``cv_results_``.
    cv_results_ : dict
        As ``GridSearchCV`` has it: "params", "param_C", …, "split0_test_score", …,
        "mean_test_score", "std_test_score", "rank_test_score".
    C_ : float
        The C chosen.
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
        loss: str = "hinge",
        tol: float = 1e-3,
        cv_tol: float | None = 1e-2,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            banks,
            Cs,
            weight_norms,
            cv,
            scoring,
            selection,
            refit,
            views,
            learner,
            loss,
            tol,
            cv_tol,
            max_iter,
            n_jobs,
            random_state,
            verbose,
        )

    def fit(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Choose by cross-validation, then fit the candidate chosen to all rows.

        Parameters
        ----------
        X : array, list of rows or data frame (n, n_features)
            Columns that the kernels read.
        y : array-like (n,)
            Labels, of any type, of two classes.
        groups : array-like (n,), optional
            Rows of one group, such as the visits of a patient, are never on both sides of a split.

        Returns
        -------
        self
        """
        return self._fit_anew(X, y, groups)

    def decision_function(self, X: Any) -> Array:
        """f(x) for every row of X; positive for ``classes_[1]``."""
        return self._fitted().decision_function(X)

    def _single(self, bank: KernelBank, way: Way, C: float) -> MKLClassifier:
        return MKLClassifier(
            bank,
            C=C,
            loss=self.loss,
            tol=self.tol,
            max_iter=self.max_iter,
            **way.options(self.learner),
        )

    def _targets(self, y: Any) -> Array:
        self.classes_, signs = two_classes(y)
        return signs

    def _recall(self, values: Array) -> _Recalled:
        return _Recalled(self.classes_, values[:, 0])

    def _splits(self, X: Any, y: Any, groups: Any) -> Any:
        smallest = int(np.unique(np.asarray(y), return_counts=True)[1].min())
        count = number_of_folds(self.cv, smallest, "rows of each class")
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        shuffled = self.random_state is not None
        return kind(count, shuffle=shuffled, random_state=self.random_state).split(X, y, groups)

    def _check_folds(self, folds: list[Fold], y: Any) -> None:
        y = np.asarray(y)
        for fold in folds:
            lacking = np.setdiff1d(self.classes_, y[fold.train])
            if lacking.size:
                raise ValueError(
                    f"cv: the training rows of split {fold.number} lack class "
                    f"{lacking.tolist()[0]!r}; use stratified folds (an integer cv), "
                    "or fewer."
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class _Recalled(MKLClassifier):
    """The classifier of a fold, whose values for the rows held out are known."""

    def __init__(self, classes: NDArray[Any], values: Array) -> None:
        super().__init__()
        self.classes_, self._known = classes, values

    def decision_function(self, X: Any) -> Array:
        """The values known."""
        return self._known
