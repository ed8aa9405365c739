"""Scores of candidates over folds, in the form of ``GridSearchCV``, and the choice among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import get_scorer_names

from kernelweave._core.checks import check_choice, did_you_mean, shown
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn

SELECTIONS = ("best", "one_se")
_NEEDS = {  # by whether targets are numbers
    True: "R² needs two rows in each fold, with different targets: use fewer folds (cv)",
    False: "Some scores need rows of every class in each fold: use stratified folds (an integer "
    "cv)",
}


def check_selection(selection: Any) -> str:
    """``selection``, if it is a valid name; raises ValueError otherwise."""
    check_choice("selection", selection, SELECTIONS)
    return str(selection)


def check_one_score(scoring: Any) -> None:
    """Raise an error unless ``scoring`` is one score: a name, a scorer or None."""
    if isinstance(scoring, str) and scoring not in (known := get_scorer_names()):
        raise ValueError(
            f"scoring must be the name of a score, found {scoring!r}; "
            f"{did_you_mean(scoring, known)}"
        )
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise TypeError(
            "scoring must be one score: a name such as 'accuracy', a scorer (model, X, y) -> "
            f"number, or None; found {shown(scoring)}. The candidate with the best score is "
            "chosen; compute other scores of the fitted model."
        )


def as_score(value: Any) -> float:
    """What a scorer returned, as a float; raises TypeError unless it is one number."""
    if np.ndim(value) or np.asarray(value).dtype.kind not in "biuf":
        raise TypeError(f"scoring must return one number for a model, but gave {shown(value)}.")
    return float(value)


def check_scores(scores: Array, values: bool) -> None:
    """Warn if some scores (n_candidates, n_folds) are not finite; raise ValueError if none will do.

    A candidate needs a score on every fold. ``values``: of numbers, not of classes.
    """
    bad = ~np.isfinite(scores)
    if not bad.any():
        return
    candidate, fold = (int(place) for place in np.argwhere(bad)[0])
    told = (
        f"{np.count_nonzero(bad)} of {bad.size} scores are not finite, the first "
        f"{scores[candidate, fold]} for candidate {candidate} on fold {fold}. {_NEEDS[values]}, or "
        "use other scoring."
    )
    if bad.any(axis=1).all():
        raise ValueError(f"No candidate can be chosen: {told}")
    warn(f"{told} Candidates without a score on every fold are not chosen.")


def results(params: list[dict[str, Any]], scores: Array) -> dict[str, Any]:
    """``cv_results_`` from scores (n_candidates, n_folds)."""
    found: dict[str, Any] = {}
    for name in params[0]:
        values = np.ma.MaskedArray(np.empty(len(params), dtype=object), mask=False)
        values[:] = [candidate[name] for candidate in params]
        found[f"param_{name}"] = values
    found["params"] = params
    for k in range(scores.shape[1]):
        found[f"split{k}_test_score"] = scores[:, k]
    found["mean_test_score"] = scores.mean(axis=1)
    found["std_test_score"] = scores.std(axis=1)
    worst = np.nan_to_num(found["mean_test_score"], nan=-np.inf)
    found["rank_test_score"] = rankdata(-worst, method="min").astype(np.int32)
    return found


def choose(selection: str, params: list[dict[str, Any]], scores: Array) -> int:
    """The number of the candidate chosen.

    "best": the highest mean score. "one_se": the smallest C among all candidates whose mean is
    within one standard error of the highest, since these cannot be told apart. Ties go to the
    higher mean, then to the first.
    """
    means = np.nan_to_num(scores.mean(axis=1), nan=-np.inf)
    best = int(np.argmax(means))
    if selection == "best" or scores.shape[1] < 2 or not np.isfinite(means[best]):
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    near = np.flatnonzero(means >= means[best] - error)
    return int(min(near, key=lambda k: (params[k]["C"], -means[k], k)))
