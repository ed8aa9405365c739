"""Do learned weights pay? Against equal weights, the best single view, and concatenation.

All are fitted to the same training rows and scored on the same rows held out. The single view is
chosen inside the training rows, by a cross-validation of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelweave._core.types import Places
from kernelweave.banks.bank import KernelBank
from kernelweave.estimators._candidates import Fold
from kernelweave.inspection._refits import CHOOSING, Refits
from kernelweave.inspection.held_out import HeldOut, How, Splits, signed, told

LEARNED, EQUAL, SINGLE, JOINT = (
    "learned weights",
    "equal weights",
    "best single view",
    "all views as one",
)
_INNER = 3  # folds that choose the single view
_MOST_VIEWS = 50  # to choose from


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(HeldOut):
    """Scores of learned weights and of what they compete with; the verdict comes first."""

    @property
    def verdict(self) -> str:
        """What the scores say, in a sentence per rival."""
        return " ".join(self.sentence(name) for name in self.names[1:])

    def sentence(self, rival: str) -> str:
        """What they say about one rival."""
        mean, low, high = self.difference(rival)
        word = "no better than" if mean <= 0.0 else "not shown to be better than"
        word = "better than" if low > 0.0 else "worse than" if high < 0.0 else word
        ours, theirs = self.score(LEARNED)[0], self.score(rival)[0]
        said = {SINGLE: f"the {SINGLE}", JOINT: "one view of all columns"}.get(rival, rival)
        return (
            f"Learned weights are {word} {said}: {self.scoring} {signed(ours)} against "
            f"{signed(theirs)}, difference {told(mean, low, high)}."
        )

    def __repr__(self) -> str:
        sentences = [self.sentence(name) for name in self.names[1:]]
        reasons = [f"Not compared with {name}: {why}" for name, why in self.left_out.items()]
        return "\n".join([*sentences, *reasons])


def compare(
    model: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    n_repeats: int = 4,
    scoring: Any = None,
    groups: Any = None,
    level: float = 0.95,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> Comparison:
    """Whether learned weights predict better than simpler ways to use the same kernels.

    Parameters
    ----------
    model : estimator
        As for ``stability``. An estimator that chooses by cross-validation enters with the choice
        it made on all rows, which favors learned weights a little.
    X, y
        The rows to learn from and to score.
    cv : int, splitter or iterable
        A number of folds, by class where there are classes; or as scikit-learn takes it.
    n_repeats : int
        How often rows are cut into ``cv`` folds, if that is a number.
    scoring : str or callable, optional
        As in scikit-learn; accuracy or R² by default.
    groups : array-like (n,), optional
        Rows of one group are never on both sides of a split.
    level : float
        Of the intervals.
    n_jobs, random_state, verbose
        As for ``stability``.

    Returns
    -------
    Comparison
        ``verdict`` in words, ``frame()``, ``tidy()``, ``plot()``.
    """
    how = How(cv, n_repeats, scoring, groups, level, n_jobs, random_state, verbose)
    refits = Refits.of(model, X, y, n_jobs)
    splits = Splits.of(refits, how)
    joint, left_out = _concatenated(refits)
    if len(refits.views) < 2:
        left_out[SINGLE] = f"there is one view, {refits.views[0]!r}."
    elif len(refits.views) > _MOST_VIEWS:
        left_out[SINGLE] = f"to choose among {len(refits.views)} views would take long."

    def ask(part: Refits, fold: Fold) -> Mapping[str, Any]:
        scores = {
            LEARNED: splits.score_refit(part, fold.test),
            EQUAL: splits.score_refit(part, fold.test, learner="uniform", weight_norm=1),
        }
        if SINGLE not in left_out:
            view = _best_view(part, how, fold.train)
            scores[SINGLE] = splits.score_refit(part.only(part.kernels_of(view)), fold.test)
        if joint is not None:
            scores[JOINT] = replace(splits, refits=joint).score_refit(
                joint.part(fold.train), fold.test
            )
        return scores

    found = splits.run("compare", ask, how, left_out=left_out)
    return Comparison(**vars(found))


def _best_view(part: Refits, how: How, rows: Places) -> str:
    """The view that predicts best by itself, by cross-validation within the rows of ``part``."""
    views = [view for view in part.views if part.kernels_of(view).size]
    if len(views) == 1:
        return views[0]
    groups = None if how.groups is None else np.asarray(how.groups)[rows]
    inner = Splits.of(part, How(_INNER, 1, how.scoring, groups))
    tol, total = max(part.model.tol, CHOOSING), np.zeros(len(views))
    for fold in inner.folds:
        learning = part.part(fold.train)
        for k, view in enumerate(views):
            kernels = learning.kernels_of(view)
            total[k] += (
                inner.score_refit(learning.only(kernels), fold.test, tol=tol).value
                if kernels.size
                else -np.inf
            )
    return views[int(total.argmax())]


def _concatenated(refits: Refits) -> tuple[Refits | None, dict[str, str]]:
    """The same kernels on the columns of all views at once; None where that cannot be."""
    bank, table = refits.training.bank, refits.training.table
    made = _joint_bank(bank, refits)
    if isinstance(made, str):
        return None, {JOINT: made}
    try:
        made.check(table)
    except (TypeError, ValueError) as error:
        return None, {JOINT: _incomplete(refits) or f"{error}"}
    try:
        fitted = made.fit(table)
    except (TypeError, ValueError) as error:
        return None, {JOINT: f"{error}"}
    model = refits.model.__class__(**{**refits.model.get_params(deep=False), "kernels": made})
    if not isinstance(refits.model.weight_norm, int | float | None):
        model.set_params(weight_norm=1)  # groups of kernels are those of the views
    training = replace(refits.training, bank=made)
    return replace(refits, model=model, training=training, bank=fitted), {}


def _incomplete(refits: Refits) -> str:
    """How many rows lack a view, in words; nothing if all rows have all."""
    count = int(np.any([*refits.lacking.values()], axis=0).sum())
    return f"{count} {'row lacks' if count == 1 else 'rows lack'} a view." if count else ""


def _joint_bank(bank: KernelBank, refits: Refits) -> KernelBank | str:
    """The bank, or why there is none."""
    items = bank.kernels if isinstance(bank.kernels, list | tuple) else [bank.kernels]
    if any(isinstance(item, tuple) for item in items):
        return "its kernels are made for columns of their own."
    if len(refits.views) == 1:
        return "all columns are one view already."
    columns = sorted({c for member in refits.bank.members for c in member.view.columns})
    return KernelBank(**{**bank.get_params(deep=False), "views": {JOINT: columns}})
