"""What each view is worth: the model without it, it alone, and the model with its rows shuffled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernelweave._core.checks import check_number
from kernelweave.estimators._candidates import Fold
from kernelweave.inspection._refits import Refits
from kernelweave.inspection.held_out import HeldOut, How, Splits
from kernelweave.inspection.held_rows import Score

ALL, SHUFFLED = "all views", " shuffled"
Ask = Callable[[Splits, Refits, Fold], Mapping[str, Any]]  # scores of several models on one split


def drop_view(model: Any, X: Any, y: Any, **options: Any) -> HeldOut:
    """Held-out scores with each view left out in turn, weights learned anew.

    A view that others can replace loses nothing, however informative it is by itself: see
    ``single_view``.

    Parameters
    ----------
    model, X, y
        As for ``compare``.
    **options
        ``cv``, ``n_repeats``, ``scoring``, ``groups``, ``level``, ``n_jobs``, ``random_state`` and
        ``verbose``, as for ``compare``.

    Returns
    -------
    HeldOut
        The first model has all views; the difference is what is lost without one.
    """

    def ask(splits: Splits, part: Refits, fold: Fold) -> Mapping[str, Any]:
        scores = {ALL: splits.score_refit(part, fold.test)}
        for view in splits.refits.views:
            rest = part.only(part.kernels_of(*(other for other in part.views if other != view)))
            scores[f"without {view}"] = splits.score_refit(rest, fold.test)
        return scores

    return _asked("drop_view", ask, (model, X, y), options, least=2)


def single_view(model: Any, X: Any, y: Any, **options: Any) -> HeldOut:
    """Held-out scores of each view alone, its kernels weighted as the model does.

    Parameters are those of ``drop_view``. The first model has all views; the difference is what is
    lost with one view only.
    """

    def ask(splits: Splits, part: Refits, fold: Fold) -> Mapping[str, Any]:
        scores = {ALL: splits.score_refit(part, fold.test)}
        for view in splits.refits.views:
            alone = part.only(part.kernels_of(view))
            scores[f"only {view}"] = splits.score_refit(alone, fold.test)
        return scores

    return _asked("single_view", ask, (model, X, y), options, least=2)


def permutation_importance(
    model: Any, X: Any, y: Any, *, n_shuffles: int = 10, **options: Any
) -> HeldOut:
    """Held-out scores when one view of the held-out rows is shuffled: its columns move together.

    The model is fitted once per split. Its value is a sum over views, of which one is shuffled:
    nothing is computed anew.

    Parameters are those of ``drop_view``; ``n_shuffles`` are averaged for each split and view. The
    difference is what is lost by the shuffle.
    """
    shuffles = check_number("n_shuffles", n_shuffles, int)
    seed = options.get("random_state", 0)

    def ask(splits: Splits, part: Refits, fold: Fold) -> Mapping[str, Any]:
        rng = np.random.default_rng([fold.number, seed if isinstance(seed, int) else 0])
        fitted = part.estimator(part.fit())
        values = splits.refits.values(fitted, fold.test)
        scores = {ALL: splits.score(fitted, values, fold.test)}
        for view in splits.refits.views:
            share = splits.refits.values(fitted, fold.test, view)
            rest, orders = values - share, [rng.permutation(len(share)) for _ in range(shuffles)]
            found = [splits.score(fitted, rest + share[order], fold.test) for order in orders]
            scores[f"{view}{SHUFFLED}"] = Score.mean(found)
        return scores

    return _asked("permutation_importance", ask, (model, X, y), options)


def _asked(
    what: str, ask: Ask, rows: tuple[Any, Any, Any], options: dict[str, Any], least: int = 1
) -> HeldOut:
    """Ask on every split of ``rows``, which are model, X and y, with so many views at least."""
    how = How.of(what, options)
    refits = Refits.of(*rows, how.n_jobs)
    if len(refits.views) < least:
        raise ValueError(
            f"{what} needs several views, found one, {refits.views[0]!r}: name them in "
            "KernelBank(views={name: columns})."
        )
    splits = Splits.of(refits, how)
    return splits.run(what, lambda part, fold: ask(splits, part, fold), how)
