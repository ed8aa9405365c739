"""Transduction as a scikit-learn estimator: all rows are known in advance, but only some labels.

    K = ( K_tr     K_tr,t )
        ( K_tr,tᵀ  K_t    )        [lanckriet2004, eq. 17]

Normalization, trace and semidefiniteness refer to all rows; the machine uses the labeled ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import _safe_indexing, check_consistent_length

from kernelweave._core.checks import check_choice
from kernelweave._core.types import Array
from kernelweave.estimators._banks import as_bank
from kernelweave.estimators._base import MKLEstimator
from kernelweave.estimators._fit import fit_kernels, pose, solve_all
from kernelweave.estimators._labels import classes_of_known, labeled_rows, read_labels
from kernelweave.estimators._matrices import takes_matrices
from kernelweave.estimators._parameters import (
    check_loss_for,
    check_one_C,
    learnt_C,
    warn_of_learnt_C,
)
from kernelweave.estimators._targets import Targets
from kernelweave.estimators._training import Learnt, Training
from kernelweave.learners.base import Learner
from kernelweave.problems.groups import GroupNorm
from kernelweave.views.table import Table

_INDUCTION = ("weights", "per_point")


@dataclass(frozen=True)
class SomeLabels(Targets):
    """Labels −1 and +1 of two classes, 0 for rows without one."""

    classes: Any = None
    signed = True

    @classmethod
    def check(cls, model: Any) -> None:
        """Raise an error for parameters that do not go together."""
        check_choice("induction", model.induction, _INDUCTION)
        check_loss_for("labels", model.loss)
        check_one_C(model.C)

    @classmethod
    def read(cls, y: Any, model: Any) -> NDArray[Any]:
        """y, checked: one target per row of X."""
        if takes_matrices(model.kernels):
            raise ValueError(
                "kernels='precomputed' is not for transduction, whose rows are all given to fit: "
                "use kernels=[Precomputed(K1), …] and row numbers as X."
            )
        return labeled_rows(y, model.unlabeled)[0]

    @classmethod
    def of(cls, values: NDArray[Any], training: Training, model: Any, learner: Any) -> SomeLabels:
        """The targets of these rows, encoded."""
        _, known = read_labels(values, model.unlabeled)
        classes, signs = classes_of_known(values, known, model.unlabeled)
        everywhere = np.zeros(len(values))
        everywhere[known] = signs
        return cls((everywhere,), None, classes)

    def keep(self, model: Any, learnt: Learnt) -> None:
        """What values of the machines mean."""
        warn_of_learnt_C(model.C, learnt.solutions)
        model.classes_, model.C_ = self.classes, learnt_C(model.C, learnt.solutions)
        K = learnt.bank.stack.combined(learnt.weights[learnt.bank.kept])
        model._rows, model._signs = learnt.training.table, self.parts[0]
        model._start = learnt.solutions[0].weights
        model._known_values = K @ learnt.coef[0] + learnt.bias[0]
        values = np.where(model._signs != 0.0, model._signs, model._known_values)
        model.transduction_ = model._classes(values)


class TransductiveMKLClassifier(ClassifierMixin, MKLEstimator):
    """Complete a partly labeled data set with a learned combination of kernels.

    ``fit`` takes the rows to predict together with the labeled ones; y marks them as unlabeled, as
    in ``sklearn.semi_supervised``. Kernels are normalized over all rows. ``learner="sdp"`` may give
    kernels negative weights, as long as their combination is positive semidefinite on all rows.

    Parameters
    ----------
    kernels, C, learner, loss, weight_norm, tol, max_iter
        As for ``MKLClassifier``; ``learner`` may also be "sdp".
    n_jobs, random_state, verbose, max_time, solver
        As for ``MKLClassifier``.
    unlabeled : default=-1 (in ``learn`` and ``error_bound`` it is 0)
        The value in y for rows without a label: a number, a string, or None or NaN, each of which
        also covers NA. If the classes are -1 and +1, choose another value than the default. For
        cross-validation, choose a number or a string: scikit-learn's splitters refuse None and NaN.
    induction : {"weights", "per_point"}, default="weights"
        How to predict rows that were not given to ``fit``. "weights": with the learned kernel, if
        all weights are ≥ 0; if some are negative, only rows given to ``fit`` can be predicted.
        "per_point": each new row by its own fit, with this row added as unlabeled
        [lanckriet2004, §4.8], which costs one fit per row. Rows given to ``fit`` are recognized by
        exact equality: after a cast to float32 and back they count as new.
    trace : float, optional
        c of [lanckriet2004]: weights with Σ_m d_m tr K_m = c, traces over all rows; with weights of
        either sign the mean trace by default.

    Attributes
    ----------
    transduction_ : ndarray (n,)
        A label for every row given to ``fit``: its own, or the prediction if it has none.
    weights_, kernel_names_, support_, dual_coef_, intercept_, duality_gap_, solution_, classes_, …
        All attributes of ``MKLClassifier``. Support rows are always labeled.

    Notes
    -----
    A pickle holds all rows. Rows have no ``sample_weight`` here. For more than two classes, fit
    once per class against the others: scikit-learn's OneVsRestClassifier would treat rows without
    a label as one more class.

    If kernels learn no parameters from X and have unit diagonals (``normalize="sphere"``), weights
    ≥ 0 do not depend on the number of unlabeled rows, because the trace allowed grows with it
    [lanckriet2004, eq. 57–58]: new rows are predicted as if they had been in X.

    ``score`` leaves out rows without a label; ``scoring="accuracy"`` counts them as errors.

    To choose C with signed weights, do not use ``GridSearchCV``: held-out rows count as unseen, and
    negative weights cannot predict them (scores are NaN) unless ``induction="per_point"``. It is
    cheaper to hide some labels, fit all rows for each C, and compare ``transduction_`` with the
    hidden labels, as below.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kernelweave import TransductiveMKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, y = X[::3], y[::3]
    >>> partly = np.where(np.arange(len(y)) % 4, -1, y)  # one label in four
    >>> model = TransductiveMKLClassifier(learner="sdp").fit(X, partly)
    >>> bool(np.mean(model.transduction_ == y) > 0.9)
    True

    Choose C with a third of the labels hidden (better: each third in turn):

    >>> hidden = np.flatnonzero(partly != -1)[::3]
    >>> fewer = partly.copy()
    >>> fewer[hidden] = -1
    >>> scores = {}
    >>> for C in (0.01, 1.0):
    ...     model = TransductiveMKLClassifier(C=C, learner="sdp").fit(X, fewer)
    ...     scores[C] = float(np.mean(model.transduction_[hidden] == partly[hidden]))
    >>> best = max(scores, key=scores.get)
    """

    transduction_: NDArray[Any]
    classes_: NDArray[Any]

    _targets = SomeLabels

    def __init__(
        self,
        kernels: Any = None,
        C: float | str = 1.0,
        learner: str | Learner = "auto",
        loss: str = "hinge",
        weight_norm: float | GroupNorm | None = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        unlabeled: Any = -1,
        induction: str = "weights",
        max_time: float | None = None,
        trace: float | None = None,
        solver: str = "auto",
    ) -> None:
        super().__init__(
            kernels=kernels,
            learner=learner,
            weight_norm=weight_norm,
            tol=tol,
            max_iter=max_iter,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            max_time=max_time,
            solver=solver,
        )
        self.C = C
        self.trace = trace
        self.loss = loss
        self.unlabeled = unlabeled
        self.induction = induction

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn kernel weights and machine, and the labels of rows that have none.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read, for all rows.
        y : array-like (n,)
            Labels, of any type, of two classes; ``unlabeled`` for rows without one.

        Returns
        -------
        self
        """
        return self._fit_anew(X, y)

    def decision_function(self, X: Any) -> Array:
        """f(x) for every row of X, shape (n_new,); positive for ``classes_[1]``."""
        values = self._values(X)[:, 0]  # also validates X
        if self.induction == "weights" and self.weights_.min() >= 0.0:
            return values
        new = Table.read(X)
        places = self._rows.find(new)
        unseen = np.flatnonzero(places < 0)
        if unseen.size and self.induction == "weights":
            raise ValueError(
                f"{unseen.size} of {len(new)} rows of X were not given to fit with exactly these "
                f"values; the first is row {unseen[0]}. Some kernel weights are negative, so their "
                "combination may not be a kernel on new rows: give these rows to fit as well, "
                "without labels, or set induction='per_point'."
            )
        values = self._known_values[places]
        for row in unseen:
            values[row] = self._alone(new.take([row]))
        return values

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row of X, shape (n_new,)."""
        return self._classes(self.decision_function(X))

    def _classes(self, values: Array) -> NDArray[Any]:
        """The class of each decision value."""
        return self.classes_[(values > 0.0).astype(int)]

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on the rows of X that have a label in y."""
        labels, known = read_labels(y, self.unlabeled)
        check_consistent_length(X, labels, sample_weight)
        rows = np.flatnonzero(known)
        weight = None if sample_weight is None else _safe_indexing(sample_weight, rows)
        given = np.array(labels[rows].tolist())
        return float(super().score(_safe_indexing(X, rows), given, weight))

    def _alone(self, row: Table) -> float:
        """The decision value of a new row, from a fit that includes it."""
        table, signs = self._rows.join(row), np.append(self._signs, 0.0)
        places = np.arange(len(table))
        training = Training(as_bank(self.kernels), table, None, places, None, len(table))
        posed = pose(self, training, SomeLabels((signs,), None, self.classes_))
        bank = fit_kernels(training, posed, self.n_jobs)
        learnt = solve_all(bank, training, posed, self._start)
        last = learnt.bank.stack.combined(learnt.solutions[0].weights).rows([len(self._rows)])[0]
        return float(last @ learnt.coef[0] + learnt.bias[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
