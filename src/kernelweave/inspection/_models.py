"""Whether a report can be made of a model."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from kernelweave._core.checks import shown
from kernelweave.estimators._base import MKLEstimator


def check_readable(name: str, model: Any, needs: tuple[str, ...], other: str = "") -> None:
    """Raise an error, before a report, if the model is none of ours or not fitted.

    ``needs``: the attributes that the report reads; ``other``: what it can read beside a model.
    """
    if isinstance(model, MKLEstimator):
        check_is_fitted(model)
    elif isinstance(model, type) or not all(hasattr(model, need) for need in needs):
        found = shown(model)
        if hasattr(model, "steps"):
            found = f"a {type(model).__name__}: pass its last step, pipeline[-1]"
        elif hasattr(model, "param_grid") or hasattr(model, "best_estimator_"):
            found = f"a {type(model).__name__}: pass its best_estimator_"
        raise TypeError(
            f"{name} must be a fitted estimator of kernelweave, such as MKLClassifier{other}, "
            f"found {found}"
        )
