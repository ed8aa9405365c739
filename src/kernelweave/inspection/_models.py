"""Whether a report can be made of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelweave._core.checks import some
from kernelweave.estimators._base import MKLEstimator, read_new
from kernelweave.inspection._fits import found_instead


def check_readable(name: str, model: Any, needs: tuple[str, ...], other: str = "") -> None:
    """Raise an error, before a report, if the model is none of ours or not fitted.

    ``needs``: the attributes that the report reads; ``other``: what it can read beside a model.
    """
    if isinstance(model, MKLEstimator):
        check_is_fitted(model)
    elif isinstance(model, type) or not all(hasattr(model, need) for need in needs):
        raise TypeError(
            f"{name} must be a fitted estimator of kernelweave, such as MKLClassifier{other}, "
            f"found {found_instead(model)}"
        )


def check_rows_of(model: Any, X: Any, y: Any) -> None:
    """Raise ValueError if these are no rows that the model can have been fitted to."""
    if isinstance(model, MKLEstimator):
        read_new(model, X, model.bank_)
    classes = getattr(model, "classes_", None)
    if y is None or classes is None or hasattr(model, "unlabeled"):
        return
    strange = sorted({*np.ravel(np.asarray(y, dtype=object))} - {*classes.tolist()}, key=str)
    if strange:
        raise ValueError(
            f"y holds {some(map(repr, strange))}, but the model knows the classes "
            f"{some(map(repr, classes.tolist()))}; give the rows that it was fitted to"
        )
