"""Whether the parts of a loaded model fit each other: by their shapes, and by a prediction."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kernelweave.io._registry import ESTIMATORS, name_of

_ROWS, _PAIRS = 100, 20_000  # rows that are predicted, and pairs of rows compared, at the most


def check_whole(model: Any) -> None:
    """Raise an error unless this is an estimator, and what it predicts can be predicted."""
    if name_of(type(model)) not in ESTIMATORS:
        raise TypeError("what it holds is no estimator")
    fitted = getattr(model, "best_estimator_", model)
    _check_shapes(fitted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these rows need not have all views, or names
        _check_predictions(model, _own_rows(fitted, fitted._expansion[0]))


def _check_shapes(fitted: Any) -> None:
    bank, coef, constants = fitted._expansion
    n = bank.n_rows
    averages = [member.average for member in bank.members if member.average is not None]
    means = getattr(bank, "_means", {})  # of features, where rows stayed elsewhere
    stands_for = [
        number in means or one.average is not None
        for number, one in enumerate(bank.members)
        if one.kernel is not None and one.view.may_lack and not one.centered
    ]
    fits = {
        "weights": fitted.weights_.shape in ((bank.m_all,), (len(coef), bank.m_all)),
        "coefficients": coef.shape == (len(coef), n),
        "intercepts": constants.shape == coef.shape[:1],
        "rows": int(bank.places.max(initial=-1)) < len(bank.table),
        "averages": all(stands_for)
        and all(a.shape == (n,) and np.isfinite(a).all() for a in averages),
        "names": _names(bank.table.names) == _names(getattr(fitted, "feature_names_in_", None)),
        "views": all(_reads(view, bank.table) for view in {m.view for m in bank.members}),
    }
    if wrong := [name for name, right in fits.items() if not right]:
        raise ValueError(f"its {wrong[0]} do not fit the rest")


def _reads(view: Any, table: Any) -> bool:
    """Whether a view has what it needs for each of its columns, which are some of the table's."""
    numbers = table.numeric[[*view.columns]]
    known = [part for part in (view.shift, view.factor, view.filling) if part is not None]
    alike = all(part.shape == numbers.shape for part in known)
    return alike and (view.filling is None or bool(np.isfinite(view.filling[numbers]).all()))


def _names(found: Any) -> Any:
    """Names of columns where all are words, as scikit-learn keeps them; else None."""
    words = found is not None and all(isinstance(name, str) for name in found)
    return list(found) if words else None


def _own_rows(fitted: Any, bank: Any) -> Any:
    """Some of the rows that it was fitted to, as X; zeros where it takes kernel matrices."""
    if fitted._given_matrices:
        return {name: np.zeros((1, fitted.n_features_in_)) for name in bank.names}
    n = len(bank.table)
    count = min(n, _ROWS, max(1, _PAIRS // max(n, 1)))
    some = bank.table.take(np.linspace(0, n - 1, count).astype(np.intp))
    return some.raw(range(some.n_columns))


def _check_predictions(model: Any, X: Any) -> None:
    """Raise an error unless rows of its own can be predicted, if it has some."""
    if not (isinstance(X, dict) or X.shape[0]) or not hasattr(model, "predict"):
        return
    values = model.decision_function(X) if hasattr(model, "decision_function") else None
    found = np.asarray(model.predict(X))
    numbers = found if values is None else np.asarray(values)
    if not np.isfinite(numbers.astype(np.float64)).all():
        raise ValueError("predictions of its own rows are not finite")
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(X)
        if shares.shape != (len(found), len(model.classes_)) or not np.isfinite(shares).all():
            raise ValueError("its probabilities are not those of its classes")
    known = getattr(model, "classes_", None)
    if known is not None and not np.isin(found, known).all():
        raise ValueError("it predicts what is none of its classes")
