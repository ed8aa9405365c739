"""Which views help beyond chance: each against itself with its rows shuffled.

    J_v(π) = min_{d ∈ D} J(d)    with the rows of view v in the order π, those of others unchanged
    p_v = (1 + #{π: J_v(π) ≤ J}) / (1 + number of π)

A shuffled view is as rich as before but knows nothing of the targets. If view v is independent of
the targets and of the other views, every order is as likely as the one observed, and p_v ≤ α has a
probability of at most α. Weights are no such measure: they sum to one, whatever there is to find.

A fit stops close to its optimum, not at it: J_v(π) counts at the lower bound that the fit proves.

Views are selected by the rule of Benjamini and Hochberg: the share of false views among those
selected is at most ``level`` on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_level, check_number, some
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array
from kernelweave.inspection._frames import frame
from kernelweave.inspection._refits import LOOSE, Refit, Refits, run
from kernelweave.inspection._resampling import Blocks
from kernelweave.inspection.draws import summed_by_view
from kernelweave.inspection.report import SHOWN

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, repr=False, eq=False)
class Selection:
    """Which views help beyond chance.

    Attributes
    ----------
    views : tuple of str
    weights : array (V,)
        Of the fit to the rows as they are.
    loss : array (V,)
        By what share the objective rises, on average, when the rows of the view are shuffled.
    p_values, adjusted : arrays (V,)
        Of each view by itself, and adjusted for their number.
    selected : array (V,) of bool
        Adjusted p-value at most ``level``.
    level : float
        The share of false views among those selected that is allowed for, on average.
    """

    views: tuple[str, ...]
    weights: Array
    loss: Array
    p_values: Array
    level: float

    @property
    def adjusted(self) -> Array:
        """p-values adjusted by Benjamini and Hochberg."""
        return adjust(self.p_values)

    @property
    def selected(self) -> NDArray[np.bool_]:
        """Which views help beyond chance."""
        return self.adjusted <= self.level

    def frame(self) -> DataFrame:
        """One line per view: view, weight, loss, p_value, adjusted, selected."""
        return frame(
            {
                "view": self.views,
                "weight": self.weights,
                "loss": self.loss,
                "p_value": self.p_values,
                "adjusted": self.adjusted,
                "selected": self.selected,
            }
        )

    @property
    def verdict(self) -> str:
        """The same in words; a view whose weight rounds to 0.000 adds nothing to predictions."""
        chosen = [name for name, found in zip(self.views, self.selected, strict=True) if found]
        if not chosen:
            return "No view helps beyond chance: with its rows shuffled, the fit is about as good."
        light = {v for v, weight in zip(self.views, self.weights, strict=True) if weight < SHOWN}
        vain = [name for name in chosen if name in light]
        told = f"{self._how_many(chosen)}."
        if len(chosen) < len(self.views):
            others = [name for name in self.views if name not in chosen]
            told += f" There is no such evidence for {some(others, 10)}."
        if vain:
            add = "adds" if len(vain) == 1 else "add"
            told += f" But {some(vain, 10)} {add} nothing measurable to predictions."
        return told

    def _how_many(self, chosen: list[str]) -> str:
        if len(chosen) < len(self.views):
            return (
                f"{len(chosen)} of {len(self.views)} views help beyond chance: {some(chosen, 10)}"
            )
        all_of_them = {1: "The one view helps", 2: "Both views help"}
        return all_of_them.get(len(chosen), f"All {len(chosen)} views help") + " beyond chance"

    def __repr__(self) -> str:
        width = max(map(len, self.views))
        lines = [
            f"{name:<{width}}  p = {p:.3f}  {'helps' if chosen else ''}".rstrip()
            for name, p, chosen in zip(self.views, self.adjusted, self.selected, strict=True)
        ]
        return "\n".join([self.verdict, *lines])


def select_views(
    model: Any,
    X: Any,
    y: Any,
    *,
    level: float = 0.1,
    n_permutations: int | None = None,
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> Selection:
    """Which views help beyond chance, by shuffling the rows of one view at a time.

    Parameters
    ----------
    model, X, y
        As for ``stability``.
    level : float
        The share of false views among those selected that is allowed for, on average.
    n_permutations : int, optional
        Shuffles of each view; fewer for views that are soon seen not to be selected. V views need
        V / level − 1 or more, or one that helps could never be selected by itself; 100 or, if
        that is not enough, as many as needed by default.
    groups : array-like (n,), optional
        Whole groups of the same size change places.
    n_jobs, random_state, verbose
        As for ``stability``.

    Returns
    -------
    Selection
        ``verdict`` in words, ``frame()``.

    Notes
    -----
    If two views tell nearly the same, neither is selected: the one makes up for the other when
    that is shuffled. Each is selected if it tells something that the other does not.
    ``single_view`` tells what each can do alone.
    """
    level = check_level(level)
    refits = Refits.of(model, X, y, n_jobs)
    if refits.targets is None:
        raise ValueError(
            f"select_views asks what helps to predict targets, and {type(refits.model).__name__} "
            "has none."
        )
    views = [view for view in refits.views if refits.kernels_of(view).size]
    count = _count(n_permutations, len(views), level)
    units = Blocks(refits.n, groups=groups)
    units.check_exchangeable()
    base = refits.fit(tol=LOOSE)
    seeds = np.random.default_rng(random_state).integers(2**31, size=len(views)).tolist()
    enough = int(np.ceil(level * (count + 1)))

    def job(item: tuple[str, int]) -> tuple[float, float]:
        return _shuffle(refits, base, units, *item, count, enough)

    rows = run("select_views", job, list(zip(views, seeds, strict=True)), n_jobs, verbose)
    p_values, loss = np.array(rows).T
    names, sums = summed_by_view(base.weights, refits.bank.views)
    weights = sums[[names.index(view) for view in views]]
    return Selection(tuple(views), weights, loss, p_values, level)


def fewest(views: int, level: float) -> int:
    """Shuffles after which one of so many views can be selected, whatever the others are like."""
    count = int(np.ceil(views / level)) - 1
    return count if 1.0 / (1.0 + count) * views <= level else count + 1  # after rounding


def _count(asked: int | None, views: int, level: float) -> int:
    """How often to shuffle each view."""
    needed = fewest(views, level)
    if asked is None:
        return max(SETTINGS.permutations, needed)
    count: int = check_number("n_permutations", asked, int)
    if count < needed:
        several = "1 view" if views == 1 else f"{views} views"
        raise ValueError(
            f"n_permutations must be {needed} or more for {several} at level {level:g}, found "
            f"{count}: with fewer, a view that helps could never be selected by itself. Leave it "
            "out to have enough."
        )
    return count


def _shuffle(
    refits: Refits, base: Refit, units: Blocks, view: str, seed: int, count: int, enough: int
) -> tuple[float, float]:
    """p-value of a view, and how much its shuffles raise the objective on average.

    After ``enough`` shuffles as good as the view itself, p is above the level whatever else comes:
    it is then their share so far [Besag and Clifford, 1991].
    """
    rng, good, (value, _) = np.random.default_rng(seed), 0, _objective(base)
    found: list[float] = []
    while len(found) < count and good < enough:
        moved = refits.shuffled(view, units.permutation(rng))
        reached, bound = _objective(moved.fit(start=base.start, tol=LOOSE))
        found.append(reached)
        good += bound <= value
    p = good / len(found) if good == enough else (1.0 + good) / (1.0 + len(found))
    return p, float(np.mean(found)) / value - 1.0


def adjust(p_values: Array) -> Array:
    """p-values adjusted for the false discovery rate [Benjamini and Hochberg, 1995]."""
    order = np.argsort(-p_values)
    ranks = np.arange(p_values.size, 0, -1)
    adjusted = np.empty(p_values.size)
    adjusted[order] = np.minimum.accumulate(p_values[order] * p_values.size / ranks)
    return np.minimum(adjusted, 1.0)


def _objective(refit: Refit) -> tuple[float, float]:
    """The value that a fit reached, and a lower bound of the best, by the tolerance if by no more.

    A learner with a rule of its own to stop may prove less than the tolerance.
    """
    reached = refit.primal
    return reached, float(np.fmax(refit.dual, reached - LOOSE * abs(reached)))
