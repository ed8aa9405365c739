"""What y and the weights of the rows may be: labels, numbers, or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats, check_vector, refuse_masked, some
from kernelweave._core.types import Array, Mask

_REGRESSION = "loss='squared', 'epsilon_insensitive' or 'quantile'"


def check_labels(
    y: ArrayLike, n: int | None = None, partly: bool = False, columns: bool = False
) -> Array:
    """Labels as an array of ±1.0, both present; one for each of ``n`` kernel rows, if n is given.

    ``partly``: 0 is allowed, too, and means that a row has no label. ``columns``: y may have shape
    (n, k), one machine per column, with both labels in each.
    """
    also = ", or give them 0" if partly else ""
    refuse_masked("y", y, f"leave rows without a label out{also}")
    labels = np.asarray(y)
    if labels.dtype.kind not in "iufb":
        raise ValueError(f"y must hold the numbers -1 and +1, found dtype {labels.dtype}")
    _check_shape(labels, n, columns)
    labels = labels.astype(float)
    if not np.isfinite(labels).all():
        raise ValueError("y must be finite, found NaN or infinity")
    found = np.unique(labels)
    if not set(found.tolist()) <= ({-1.0, 0.0, 1.0} if partly else {-1.0, 1.0}):
        also = "; 0 means no label" if partly else ""
        told = some(f"{value:g}" for value in found)
        if found.size > 3 or (found != np.round(found)).any():
            also += f"; targets that are numbers need {_REGRESSION}"
        raise ValueError(f"y must hold the labels -1 and +1 only, found {told}{also}")
    _check_classes(labels)
    return labels


def check_values(y: ArrayLike) -> Array:
    """Targets of a regression as floats, all finite, shape (n,) or (n, k)."""
    values = np.array(check_floats("y", y), order="C")
    _check_shape(values, None, columns=True)
    if not values.size:
        raise ValueError("y holds no number")
    if not np.isfinite(values).all():
        raise ValueError("y must be finite, found NaN or infinity")
    return values


def check_rows(y: ArrayLike | None) -> Array:
    """One zero per entry of y, whatever it holds: for losses without a target."""
    if y is None:
        raise TypeError("y=None does not say how many rows there are: pass np.zeros(n)")
    return np.zeros(len(np.asarray(y)))


def check_target(kind: str, y: Any) -> tuple[Array, Mask]:
    """y as a loss of this kind takes it, and which rows have a target."""
    if kind == "labels":
        labels = check_labels(y, partly=True, columns=True)
        return labels, (_columns(labels) != 0.0).any(axis=1)
    values = check_values(y) if kind == "values" else check_rows(y)
    return values, np.ones(len(values), dtype=bool)


def check_sample_weight(sample_weight: ArrayLike | None, n: int) -> Array | None:
    """Weights of n rows: finite, none negative, not all zero."""
    if sample_weight is None:
        return None
    weights = check_vector("sample_weight", sample_weight, n)
    if weights.min() < 0.0:
        raise ValueError(f"sample_weight must hold numbers ≥ 0, found {weights.min():g}")
    if not weights.any():
        raise ValueError("sample_weight is 0 for every row: no row is left")
    return weights


def check_left(labels: Array) -> None:
    """Complain where rows of weight zero were all that a class had."""
    try:
        _check_classes(labels)
    except ValueError as problem:
        raise ValueError(f"among the rows with a positive sample_weight, {problem}") from None


def _check_shape(y: np.ndarray[Any, Any], n: int | None, columns: bool) -> None:
    if y.ndim != 1 and not (columns and y.ndim == 2 and y.shape[1] > 0):
        several = ", or have a column per machine" if columns else ""
        raise ValueError(f"y must be one-dimensional{several}, found shape {y.shape}")
    if n is not None and len(y) != n:
        raise ValueError(f"y has {len(y)} labels, but the kernels have {n} rows")


def _columns(y: Array) -> Array:
    """y with a column per machine."""
    return y[:, None] if y.ndim == 1 else y


def _check_classes(labels: Array) -> None:
    """Complain about a machine without both labels."""
    for place, column in enumerate(_columns(labels).T):
        where = "y" if labels.ndim == 1 else f"column {place} of y"
        found = np.unique(column)
        classes = found[found != 0.0]
        if classes.size < 2:
            which = "no class" if not classes.size else f"one class only ({classes[0]:+g})"
            also = " beside 0, which means no label" if found.size > classes.size else ""
            advice = ": for labels 0 and 1 pass 2 * y - 1" if found.tolist() == [0.0, 1.0] else ""
            raise ValueError(f"{where} holds {which}{also}; both -1 and +1 are needed{advice}")
