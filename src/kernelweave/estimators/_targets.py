"""What y means: read, encoded for machines, and their values decoded.

Every task has a subclass of ``Targets``. More than two classes are a sum of two-class machines:

    ovr    one machine per class: +1 for its rows, −1 for all others
    ovo    one machine per pair of classes a < b: −1 for a, +1 for b; other rows take no part
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import assert_all_finite, column_or_1d

from kernelweave._core.checks import check_number, refuse_masked, shown, some
from kernelweave._core.types import Array, Places
from kernelweave._core.warnings import warn
from kernelweave.learners import make_learner
from kernelweave.learners.base import Learner
from kernelweave.solution import Solution
from kernelweave.views.weighted import total

if TYPE_CHECKING:
    from kernelweave.banks.bank import KernelBank
    from kernelweave.estimators._fit import Learned
    from kernelweave.views.table import Table

FORMS = ("ovr", "ovo")


@dataclass(frozen=True)
class Training:
    """Rows to learn from: all but those of weight 0.

    ``targets`` are theirs, None where there are none; ``places`` are their numbers among the
    ``n_given`` rows of X; ``weights`` say how often each counts, None for once. ``names``: those of
    the columns, or of the rows where X holds ``matrices``.
    """

    bank: KernelBank
    table: Table
    targets: Any
    places: Places
    weights: Array | None
    n_given: int
    names: Any = None
    matrices: bool = False

    def take(self, rows: Places) -> Training:
        """The same for some of these rows."""
        return replace(
            self,
            table=self.table.take(rows),
            targets=None if self.targets is None else self.targets[rows],
            places=self.places[rows],
            weights=None if self.weights is None else self.weights[rows],
        )


@dataclass(frozen=True)
class Targets:
    """The targets of some rows as machines learn them; a subclass for every task.

    ``parts``: one array per problem to solve, (n,), or (n, k) for k machines that share their
    weights. ``factors``: what C is multiplied by, one number or one per row; None for 1.
    """

    parts: tuple[Array, ...] = ()
    factors: Any = None

    kind: ClassVar[str] = "labels"  # the losses that go with it; "nothing" takes no y
    also: ClassVar[tuple[str, ...]] = ()  # words of other losses that the estimator may have
    loss: ClassVar[str] = "hinge"  # of estimators that have no such parameter
    signed: ClassVar[bool] = False  # whether kernels may have negative weights
    learns_C: ClassVar[bool] = False
    metric: ClassVar[str | None] = None  # what ``score`` is, if not accuracy or R², and its most
    most: ClassVar[float] = 1.0
    constant: ClassVar[str] = "always saying the mean"  # the simplest rival, in words

    @classmethod
    def check(cls, model: Any) -> None:
        """Raise an error if parameters of the estimator do not go together."""

    @classmethod
    def read(cls, y: Any, model: Any) -> Any:
        """What y holds, checked: one target per row of X, or None where there are none."""
        raise NotImplementedError

    @classmethod
    def encode(cls, training: Training, model: Any, learner: Learner) -> Self:
        """The targets of these rows; raises an error if the learner cannot learn them."""
        raise NotImplementedError

    @classmethod
    def known(cls, model: Any) -> Self:
        """Those of a fitted estimator, to decode with."""
        return cls()

    @property
    def attributes(self) -> dict[str, Any]:
        """Fitted attributes from which ``known`` makes them again."""
        return {}

    @classmethod
    def strata(cls, targets: Any) -> Any:
        """What folds shall have equal shares of, beside classes; None where there is nothing."""
        return None

    @classmethod
    def numbers(cls, targets: Any) -> Array:
        """Targets as finite numbers, for pictures: (n,) or (n, k)."""
        return np.asarray(targets, dtype=float)

    @classmethod
    def distance(cls, targets: Any, said: Array) -> Array:
        """How far predictions are off, (n,)."""
        return np.abs(said - targets).reshape(len(targets), -1).sum(axis=1)

    def check_kernels(self, stack: Any, weights: Array | None) -> None:
        """Raise an error if nothing can be learned with these kernels."""

    def in_units(self, coef: Array, bias: Array) -> tuple[Array, Array]:
        """Coefficients (k, n) and biases (k,) of the machines in the units of y."""
        return coef, bias

    def scores(self, values: Array) -> Array:
        """What tells of new rows, from the values of all machines, (n_new, k)."""
        return values[:, 0] if values.shape[1] == 1 else values

    def decode(self, scores: Array) -> NDArray[Any]:
        """Predictions in terms of y, from scores."""
        return scores

    def keep(self, model: Any, learned: Learned) -> dict[str, Any]:
        """Fitted attributes beside ``attributes`` that this task alone has."""
        return {}


def as_vector(y: Any) -> NDArray[Any]:
    """``y`` as an array (n,); a single column is taken with a warning at the user's line."""
    vector = column_or_1d(y)
    if np.asarray(y).ndim > 1:
        warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape "
            "of y to (n_samples,), for example using ravel().",
            DataConversionWarning,
        )
    return np.asarray(vector)


def refuse_another_order(X: Any, y: Any) -> None:
    """Raise ValueError if frames X and y name the same rows in another order."""
    if not (hasattr(X, "iloc") and hasattr(y, "iloc")):
        return
    rows, labels = X.index, y.index
    if len(rows) != len(labels) or rows.equals(labels):
        return
    if rows.is_unique and labels.is_unique and labels.isin(rows).all():
        raise ValueError(
            "y has the row labels of X in another order, but rows are matched by position. Give "
            "y.loc[X.index] to match them by label, or y.to_numpy() if their order is right."
        )


# ---- labels ------------------------------------------------------------------------------------


def check_classes(y: Any) -> NDArray[Any]:
    """Labels of classes as an array, of one type, none missing."""
    refuse_masked("y", y, "leave rows without a label out of X and y.")
    refuse_complex(y)
    y = as_vector(y)
    if y.dtype.kind == "O":
        missing = [row for row, label in enumerate(y) if is_nothing(label)]
    else:
        missing = np.flatnonzero(y != y).tolist()  # NaN or NaT
    if missing:
        raise ValueError(
            f"{len(missing)} labels in y are missing ({y[missing[0]]}), the first in row "
            f"{missing[0]}; leave these rows out of X and y, or predict them with "
            "TransductiveMKLClassifier(unlabeled=None)."
        )
    assert_all_finite(y, input_name="y")
    try:
        np.unique(y)
    except TypeError:
        found = sorted({type(label).__name__ for label in y})
        raise TypeError(f"y must hold labels of one type, found {', '.join(found)}.") from None
    if y.dtype.kind == "O" and y.size and not isinstance(y[0], str | bytes):
        _refuse_objects(y)
    with np.errstate(invalid="ignore"):  # numbers beyond all integers
        kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind == "continuous":
        _refuse_numbers(y)
    check_classification_targets(y)
    return y


def refuse_complex(y: Any) -> None:
    """Raise ValueError for complex numbers, which are no labels."""
    if np.asarray(y).dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: y holds complex numbers; if they name classes, give "
            "np.asarray(y).astype(str)."
        )


def is_nothing(label: Any) -> bool:
    """Whether this is None, NaN or the NA of pandas."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def _refuse_objects(y: NDArray[Any]) -> None:
    """Raise ValueError for labels that scikit-learn does not know, such as intervals of pandas."""
    whole = all(isinstance(label, Integral) and abs(int(label)) < 2**63 for label in y)
    raise ValueError(
        f"Unknown label type: y holds objects of type {type(y[0]).__name__}, such as "
        f"{shown(y[0])}; give np.asarray(y).astype({'int' if whole else 'str'})."
    )


def _refuse_numbers(y: NDArray[Any]) -> None:
    """Raise ValueError for numbers that are no classes: with fractions, or beyond all integers."""
    told = "Unknown label type: continuous. y holds numbers"
    fraction = next((label for label in y if label % 1), None)
    if fraction is None:
        raise ValueError(
            f"{told} too large for labels, such as {np.abs(y).max():g}: to predict numbers, use "
            "MKLRegressor; for classes, give smaller whole numbers, or names, y.astype(str)."
        )
    raise ValueError(
        f"{told} with fractions, such as {fraction:g}: to predict numbers, use MKLRegressor; for "
        "classes, give whole numbers or names."
    )


def several_classes(labels: NDArray[Any]) -> tuple[NDArray[Any], Places]:
    """The classes, sorted, and the number of the class of each label."""
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(
            f"y contains only one class, {classes.tolist()[0]!r}; a classifier needs two (rows of "
            "sample_weight 0 do not count). To learn what rows of one class have in common, use "
            "MKLOneClass."
        )
    return classes, numbers


# ---- classes as machines -----------------------------------------------------------------------


def machine_labels(numbers: Places, n_classes: int, multi_class: str) -> Array:
    """−1 and +1 per row and machine, 0 where a row takes no part; (n,) for two classes."""
    if n_classes == 2:
        return np.where(numbers == 1, 1.0, -1.0)
    if multi_class == "ovr":
        return np.where(numbers[:, None] == np.arange(n_classes), 1.0, -1.0)
    a, b = np.array([*combinations(range(n_classes), 2)]).T
    return (numbers[:, None] == b) * 1.0 - (numbers[:, None] == a)


def class_scores(values: Array, n_classes: int, multi_class: str) -> Array:
    """A score per class from the values of all machines; the largest is the class predicted.

    ovo: the number of pairs that a class wins. Ties are broken by the sum of its margins, shrunk
    monotonically to less than a third of a win either way, as scikit-learn does.
    """
    if multi_class == "ovr":
        return values
    wins, margins = np.zeros((2, len(values), n_classes))
    for machine, (a, b) in enumerate(combinations(range(n_classes), 2)):
        value = values[:, machine]
        margins[:, a] -= value
        margins[:, b] += value
        wins[:, a] += value <= 0.0
        wins[:, b] += value > 0.0
    return wins + margins / (3.0 * (np.abs(margins) + 1.0))


def class_factors(
    class_weight: Any, classes: NDArray[Any], numbers: Places, weights: Array | None
) -> Array:
    """What ``class_weight`` multiplies C by, per row.

    "balanced" is n / (n_classes · n_c) for a class of n_c rows, counted by weight.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        ones = np.ones(numbers.size) if weights is None else weights
        sizes = np.array([total(ones, numbers == k) for k in range(classes.size)])
        factors = sizes.sum() / (classes.size * sizes)
    elif isinstance(class_weight, Mapping):
        factors = _from_mapping(class_weight, classes.tolist())
    else:
        raise ValueError(
            "class_weight must be None, 'balanced' or a dict {class: weight}, found "
            f"{shown(class_weight)}"
        )
    return factors[numbers]


def _from_mapping(class_weight: Mapping[Any, Any], classes: list[Any]) -> Array:
    unknown = [label for label in class_weight if label not in classes]
    missing = [label for label in classes if label not in class_weight]
    if unknown and missing:  # a dict may name classes that these rows lack
        raise ValueError(
            f"class_weight has no class {some(map(repr, unknown))} to weigh: the classes in y are "
            f"{some(map(repr, classes))}; use their own names and types as keys."
        )
    return np.array(
        [
            check_number(f"class_weight[{label!r}]", class_weight.get(label, 1.0))
            for label in classes
        ]
    )


def learned_C(solutions: tuple[Solution, ...]) -> Any:
    """C as learned, one for all machines or one per machine.

    Warns where it ended where it should not: without a kernel, or without a slack.
    """
    learned = [float(solution.C) for solution in solutions]
    if not all(solution.weights.any() for solution in solutions):
        warn(
            "No kernel has a weight: C='learn' gave all of it to the identity. No kernel helps "
            "to tell the classes apart, and all rows are predicted as one class. Try other "
            "kernels or columns, or set C yourself.",
        )
    elif np.isinf(learned).any():
        warn(
            "C='learn' gave the identity no weight: C_ is infinite, a hard margin. The kernels "
            "separate the training rows perfectly, which may be overfitting; consider choosing "
            "C by cross-validation.",
        )
    return learned[0] if len(learned) == 1 else np.array(learned)


def takes_several(learner: Any, shared_weights: Any) -> bool:
    """Whether there may be several machines: with weights of their own, or a learner that sums."""
    try:
        return not shared_weights or make_learner(learner).sums
    except (TypeError, ValueError):  # no learner, which fit will report
        return True
