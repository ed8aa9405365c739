"""Reads labels of any type: classes by number; marked rows have no label."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import assert_all_finite

from kernelweave._core.checks import refuse_masked, shown, some
from kernelweave._core.types import Array, Places
from kernelweave.estimators._training import as_vector


def check_classes(y: Any) -> NDArray[Any]:
    """Labels of classes as an array, of one type, none missing."""
    refuse_masked("y", y, "leave rows without a label out of X and y.")
    _refuse_complex(y)
    y = as_vector(y)
    if missing := [row for row, label in enumerate(y) if _is_nothing(label)]:
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
    _refuse_objects(y)
    with np.errstate(invalid="ignore"):  # numbers beyond all integers
        kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind == "continuous":
        _refuse_numbers(y)
    check_classification_targets(y)
    return y


def _refuse_complex(y: Any) -> None:
    if np.asarray(y).dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: y holds complex numbers; if they name classes, give "
            "np.asarray(y).astype(str)."
        )


def _refuse_objects(y: NDArray[Any]) -> None:
    """Raise ValueError for labels that scikit-learn does not know, such as intervals of pandas."""
    if y.dtype.kind != "O" or not y.size or isinstance(y[0], str | bytes):
        return
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


def two_classes(y: Any, advice: str = "MKLClassifier takes them.") -> tuple[NDArray[Any], Array]:
    """The two classes in ``y``, sorted, and −1 or +1 for each label.

    ``advice`` ends the error message if there are more classes.
    """
    classes, numbers = several_classes(check_classes(y))
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"y contains {len(classes)} classes. {advice}"
        )
    return classes, np.where(numbers == 1, 1.0, -1.0)


def read_labels(y: Any, unlabeled: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """``y`` as an array, and which rows have a label; at least one must."""
    _refuse_complex(y)
    refuse_masked("y", y, "mark rows without a label with the value of unlabeled.")
    if isinstance(unlabeled, list | tuple | set | dict) or np.ndim(unlabeled) > 0:
        raise TypeError(f"unlabeled must be one value, found {shown(unlabeled)}")
    mixed = isinstance(y, list | tuple) and len({type(label) for label in y}) > 1
    if mixed or type(getattr(y, "dtype", None)).__module__.startswith("pandas"):
        y = np.asarray(y, dtype=object)  # else strings or NA would convert all other labels
    labels = as_vector(y)
    known = np.array([not _same(label, unlabeled) for label in labels.tolist()], dtype=bool)
    if not known.any():
        raise ValueError(f"y holds no label: all of it is {unlabeled!r}, the value of unlabeled.")
    return labels, known


def labeled_rows(y: Any, unlabeled: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """As ``read_labels``; raises ValueError if it is unclear which rows have a label."""
    labels, known = read_labels(y, unlabeled)
    if gaps := [row for row in np.flatnonzero(known) if _is_nothing(labels[row])]:
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
    return labels, known


def _same(label: Any, mark: Any) -> bool:
    """Whether the label equals the mark; True and False do not equal 1 and 0."""
    if _is_nothing(label) or _is_nothing(mark):
        return _is_nothing(label) and _is_nothing(mark)
    truth = (bool, np.bool_)
    return isinstance(label, truth) == isinstance(mark, truth) and bool(label == mark)


def _is_nothing(label: Any) -> bool:
    """Whether this is None, NaN or the NA of pandas."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def classes_of_known(
    labels: NDArray[Any], known: NDArray[np.bool_], unlabeled: Any
) -> tuple[NDArray[Any], Array]:
    """The two classes, and −1 or +1 for each label that is known."""
    given = labels[known]
    if given.dtype == object and not any(isinstance(label, str) for label in given):
        given = np.array(given.tolist())
    names = sorted({repr(label) for label in given.tolist()})
    advice = (
        f"They are {some(names)}. If one of them marks rows "
        f"without a label, set unlabeled to it (now {unlabeled!r}); if not, fit once per class "
        "against the others."
    )
    try:
        return two_classes(given, advice)
    except ValueError as error:
        if known.all():
            error.add_note(f"Every row has a label: nothing in y is unlabeled={unlabeled!r}.")
        raise
