"""Transduction as a scikit-learn estimator: all rows are known in advance, but only some labels.

    K = ( K_tr     K_tr,t )
        ( K_tr,tᵀ  K_t    )        [lanckriet2004, eq. 17]

Normalization, trace and semidefiniteness refer to all rows; the machine uses the labeled ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import _safe_indexing, check_consistent_length

from kernelweave._core.checks import check_choice, refuse_masked, shown, some
from kernelweave._core.types import Array
from kernelweave.estimators._base import MKLEstimator, store
from kernelweave.estimators._fit import Learned, fit, fit_kernels, pose, solve_all
from kernelweave.estimators._targets import (
    Targets,
    Training,
    as_vector,
    check_classes,
    is_nothing,
    learned_C,
    refuse_complex,
    several_classes,
)
from kernelweave.learners.base import Learner
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.losses import Loss
from kernelweave.solution import Solution
from kernelweave.views.table import Table

_INDUCTION = ("weights", "per_point")


@dataclass(frozen=True)
class SomeLabels(Targets):
    """Labels −1 and +1 of two classes, 0 for rows without one."""

    classes: Any = None

    signed = True
    learns_C = True

    @classmethod
    def check(cls, model: Any) -> None:
        """Raise an error if parameters of the estimator do not go together."""
        check_choice("induction", model.induction, _INDUCTION)

    @classmethod
    def read(cls, y: Any, model: Any) -> NDArray[Any]:
        """Labels of any type, some of them the value of ``unlabeled``."""
        if model._given_matrices:
            raise ValueError(
                "kernels='precomputed' is not for transduction, whose rows are all given to fit: "
                "use kernels=[Precomputed(K1), …] and row numbers as X."
            )
        labels, known = read_labels(y, model.unlabeled)
        refuse_unclear(labels, known, model.unlabeled)
        return labels

    @classmethod
    def encode(cls, training: Training, model: Any, learner: Learner) -> SomeLabels:
        """The targets of these rows."""
        classes, signs = two_classes(training.targets, model.unlabeled)
        return cls((signs,), None, classes)

    @classmethod
    def known(cls, model: Any) -> SomeLabels:
        """Those of a fitted estimator, to decode with."""
        return cls((), None, model.classes_)

    @property
    def attributes(self) -> dict[str, Any]:
        """Fitted attributes from which ``known`` makes them again."""
        return {"classes_": self.classes}

    def decode(self, scores: Array) -> NDArray[Any]:
        """The class of each score."""
        return self.classes[(scores > 0.0).astype(int)]

    def keep(self, model: Any, learned: Learned) -> dict[str, Any]:
        """C as learned, a label for all rows, and what decides about new ones."""
        weights, signs = learned.solutions[0].weights, self.parts[0]
        values = learned.bank.stack.combined(weights) @ learned.coef[0] + learned.bias[0]
        return {
            "C_": learned_C(learned.solutions) if isinstance(model.C, str) else float(model.C),
            "transduction_": self.decode(np.where(signs != 0.0, signs, values)),
            "_rows": learned.posed.training.table,
            "_signs": signs,
            "_start": weights,
            "_known_values": values,
        }


class TransductiveMKLClassifier(ClassifierMixin, MKLEstimator):
    """Complete a partly labeled data set with a learned combination of kernels.

    ``fit`` takes the rows to predict together with the labeled ones; y marks them as unlabeled, as
    in ``sklearn.semi_supervised``. Kernels are normalized over all rows. ``learner="sdp"`` may give
    kernels negative weights, as long as their combination is positive semidefinite on all rows.

    Parameters
    ----------
    kernels, C, learner, loss, weight_norm, tol, max_iter
        As for ``MKLClassifier``; ``learner`` may also be "sdp".
    n_jobs, random_state, verbose, max_time, solver, device
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

    If nothing is learned from X but the weights (``scale=None``, kernels of given parameters) and
    diagonals are 1 (``normalize="sphere"``), weights ≥ 0 do not depend on the number of unlabeled
    rows, because the trace allowed grows with it [lanckriet2004, eq. 57–58]: new rows are predicted
    as if they had been in X.

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
        loss: str | Loss = "hinge",
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
        device: str | None = None,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: ArrayLike, start: Solution | None = None) -> Self:
        """Learn kernel weights and machine, and the labels of rows that have none.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read, for all rows.
        y : array-like (n,)
            Labels, of any type, of two classes; ``unlabeled`` for rows without one.
        start : Solution, optional
            Where to begin: the ``solution_`` of an earlier fit to the first rows of X, as where
            rows arrive one by one [lanckriet2004, §4.8]. The rows after them may have labels or
            not. The result is that of a fit from the start, and its certificate, too.

        Returns
        -------
        self
        """
        begin = None if start is None else (_lengthened(start, len(as_vector(y))),)
        return fit(self, X, y, start=begin)

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
        scores = self.decision_function(X)
        return self._targets.known(self).decode(scores)

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
        n = len(table)
        training = Training(self._bank, table, None, np.arange(n), None, n)
        posed = pose(self, training, targets=SomeLabels((signs,), None, self.classes_))
        bank = fit_kernels(posed, self.n_jobs)
        known = len(self._start) == bank.stack.m
        start = (_lengthened(self.solution_, n),) if known else None
        learned = solve_all(bank, posed, start)
        last = bank.stack.combined(learned.solutions[0].weights).rows(np.array([n - 1]))[0]
        return float(last @ learned.coef[0] + learned.bias[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _lengthened(start: Any, n: int) -> Solution:
    """The same machine where rows have come after its own, which it does not use."""
    if not isinstance(start, Solution):
        raise TypeError(
            f"start must be a Solution, such as the solution_ of an earlier fit, found {start!r}"
        )
    more = n - start.coef.size
    if more < 0 or start.coef.ndim != 1:
        raise ValueError(
            "start must be the solution of a fit to the first rows of X: found one of "
            f"{start.coef.shape[-1]} rows, and X has {n}"
        )
    lengthened: dict[str, Any] = {
        name: np.append(getattr(start, name), np.zeros(more))
        for name in ("coef", "alpha", "dual_alpha")
    }
    return replace(start, **lengthened)


def read_labels(y: Any, unlabeled: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """``y`` as an array, and which rows have a label; at least one must."""
    refuse_complex(y)
    refuse_masked("y", y, "mark rows without a label with the value of unlabeled.")
    if isinstance(unlabeled, list | tuple | set | dict) or np.ndim(unlabeled) > 0:
        raise TypeError(f"unlabeled must be one value, found {shown(unlabeled)}")
    mixed = isinstance(y, list | tuple) and len({type(label) for label in y}) > 1
    if mixed or type(getattr(y, "dtype", None)).__module__.startswith("pandas"):
        y = np.asarray(y, dtype=object)  # else strings or NA would convert all other labels
    labels = as_vector(y)
    known = labeled(labels, unlabeled)
    if not known.any():
        raise ValueError(f"y holds no label: all of it is {unlabeled!r}, the value of unlabeled.")
    return labels, known


def labeled(labels: NDArray[Any], unlabeled: Any) -> NDArray[np.bool_]:
    """Which rows have a label."""
    return np.array([not _same(label, unlabeled) for label in labels.tolist()], dtype=bool)


def _same(label: Any, mark: Any) -> bool:
    """Whether the label equals the mark; True and False do not equal 1 and 0."""
    if is_nothing(label) or is_nothing(mark):
        return is_nothing(label) and is_nothing(mark)
    truth = (bool, np.bool_)
    return isinstance(label, truth) == isinstance(mark, truth) and bool(label == mark)


def refuse_unclear(labels: NDArray[Any], known: NDArray[np.bool_], unlabeled: Any) -> None:
    """Raise ValueError if it is unclear which rows have a label."""
    if gaps := [row for row in np.flatnonzero(known) if is_nothing(labels[row])]:
        raise ValueError(
            f"{len(gaps)} labels in y are missing ({labels[gaps[0]]}), the first in row {gaps[0]}, "
            f"but unlabeled={unlabeled!r}; if these are the rows without a label, set "
            "unlabeled=None."
        )
    classes = set(labels[known].tolist())
    if len(classes) == 1 and not known.all():
        raise ValueError(
            f"y contains only one class, {classes.pop()!r}; {np.count_nonzero(~known)} of "
            f"{known.size} rows hold unlabeled={unlabeled!r}, which means no label. If that is a "
            "class, set unlabeled to another value, and mark rows without a label with it."
        )


def two_classes(labels: NDArray[Any], unlabeled: Any) -> tuple[NDArray[Any], Array]:
    """The two classes, and −1 or +1 for each label, 0 for none."""
    known = labeled(labels, unlabeled)
    given = labels[known]
    if given.dtype == object and not any(isinstance(label, str) for label in given):
        given = np.array(given.tolist())
    try:
        classes, numbers = several_classes(check_classes(given))
        if len(classes) > 2:
            names = sorted({repr(label) for label in given.tolist()})
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y contains {len(classes)} classes. They are {some(names)}. If one of them marks "
                f"rows without a label, set unlabeled to it (now {unlabeled!r}); if not, fit once "
                "per class against the others."
            )
    except ValueError as error:
        if known.all():
            error.add_note(f"Every row has a label: nothing in y is unlabeled={unlabeled!r}.")
        raise
    signs = np.zeros(len(labels))
    signs[known] = np.where(numbers == 1, 1.0, -1.0)
    return classes, signs
