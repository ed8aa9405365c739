"""What rows held out can prove, however much the scores of splits agree.

Splits that agree are no certainty: 40 rows, all predicted right, still allow for a model that errs
in 8.8 % of all rows. Where a score is a share of rows predicted right, of all or of each class, the
interval is the exact one of Clopper and Pearson (Biometrika 26, 1934, pages 404–413): for k of n
rows, with quantiles of the Beta distribution,

    l = B(α/2; k, n − k + 1),    u = B(1 − α/2; k + 1, n − k)

Two models differ in the rows that only one of them predicts right: a share b for the first, a share
c for the second, and these are correlated by −ρ. Their limits make those of b − c (Newcombe,
Statistics in Medicine 17, 1998, pages 2635–2650, with exact limits in place of Wilson's):

    b − c − √((b − l_b)² + 2ρ (b − l_b)(u_c − c) + (u_c − c)²),    and the upper end alike

Other scores are not sums over rows. A share ε = 1 − (α/2)^(1/n) of all rows may be unlike the n
that were seen, of the rarest class where there are classes. Predicted as by chance, these take a
score down by ε times what it is above chance, and by twice that if predicted as badly as can be.
Intervals of scores of classes, which hits and misses move in steps, are no narrower than that.
Scores of numbers differ from split to split; their intervals need it only where nothing differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import betaincinv

from kernelweave._core.tolerances import SAME_SCORE
from kernelweave._core.types import Array, Places

_FEWEST = 4.0  # degrees of freedom that repeated splits have, unless there are fewer splits

Ends = tuple[float, float]


@dataclass(frozen=True)
class Score:
    """The score of one model on one split.

    ``right``: per row held out, whether it was predicted right, or how often; None for scores that
    are no share of such rows. ``chance``: the score of the same values in random order.
    """

    value: float
    right: Any = None
    chance: float = np.nan

    @classmethod
    def mean(cls, scores: Sequence[Score]) -> Score:
        """Of several predictions of the same rows."""
        right = None if scores[0].right is None else np.mean([s.right for s in scores], axis=0)
        value, chance = (
            float(np.mean([getattr(score, name) for score in scores]))
            for name in ("value", "chance")
        )
        return cls(value, right, chance)


@dataclass(frozen=True)
class Held:
    """The rows held out in one split.

    ``units``: their numbers, or those of the groups they belong to. ``parts``: equal for rows that
    count alike, such as those of a class. ``weights``: what each row counts in the score.
    """

    units: Places
    parts: Places
    weights: Array

    @classmethod
    def of(cls, units: Places, parts: Places) -> Held:
        """All parts count alike, and all rows of a part."""
        sizes = np.bincount(parts)
        return cls(units, parts, 1.0 / (np.count_nonzero(sizes) * sizes[parts]))


@dataclass(frozen=True)
class HeldRows:
    """The rows held out in all splits, as intervals count them.

    Attributes
    ----------
    held : Held
        A line for each row and split; weights sum to 1.
    times : float
        How often a row is held out.
    right : array (n_lines, n_models) or None
        As in ``Score``.
    reach : array (n_models,)
        By how much scores exceed those of shuffled values.
    classes : bool
        Whether classes are predicted.
    """

    held: Held
    times: float
    right: Array | None
    reach: Array
    classes: bool

    @classmethod
    def of(
        cls, held: Sequence[Held], found: Sequence[Mapping[str, Score]], classes: bool
    ) -> HeldRows:
        """Those of some splits, with the scores of all models on each."""
        names = list(found[0])
        units, parts, weights = (
            np.concatenate([getattr(one, name) for one in held])
            for name in ("units", "parts", "weights")
        )
        right: Any = None
        if found[0][names[0]].right is not None:
            right = np.vstack([np.column_stack([s[k].right for k in names]) for s in found])
        gain = [[scores[name].value - scores[name].chance for name in names] for scores in found]
        parts = np.unique(parts, return_inverse=True)[1]  # those that were held out
        lines = Held(units, parts, weights / len(held))
        times = len(units) / len(np.unique(units))
        return cls(lines, times, right, np.abs(np.mean(gain, axis=0)), classes)

    def freedom(self, splits: int) -> float:
        """Degrees of freedom of a mean over splits; cutting the same rows again adds few."""
        if self.right is not None:
            return splits - 1.0
        return min(splits - 1.0, max(splits / self.times - 1.0, _FEWEST))

    def of_score(self, model: int, ends: Ends, level: float) -> Ends:
        """The interval of a model's score, widened to what the rows leave open."""
        if self.right is None:
            return self._unlike([model], ends, level)
        shares, limits = self._shares(self.right[:, model], level)
        return self._joined(shares, shares - limits[0], limits[1] - shares, ends, 0.0)

    def of_difference(self, one: int, other: int, ends: Ends, level: float) -> Ends:
        """The same for the difference of two models."""
        if self.right is None:
            return self._unlike([one, other], ends, level)
        gain = self.right[:, one] - self.right[:, other]
        b, b_limits = self._shares(np.maximum(gain, 0.0), level)
        c, c_limits = self._shares(np.maximum(-gain, 0.0), level)
        spread = np.sqrt((1.0 - b) * (1.0 - c))
        rho = np.divide(np.sqrt(b * c), spread, out=np.zeros_like(b), where=spread > 0.0)
        below = _root(b - b_limits[0], c_limits[1] - c, rho)
        above = _root(b_limits[1] - b, c - c_limits[0], rho)
        return self._joined(b - c, below, above, ends, -1.0)

    @cached_property
    def _parts(self) -> tuple[Array, Array, bool]:
        """What each part weighs, how many units it has, and whether units are in several parts.

        Units of different weight count as so many of equal weight [Kish].
        """
        cells, place = np.unique([self.held.parts, self.held.units], axis=1, return_inverse=True)
        weights = np.bincount(place.ravel(), self.held.weights)
        whole = np.asarray(np.bincount(cells[0], weights), dtype=np.float64)
        mixed = bool(cells.shape[1] > len(np.unique(cells[1])))
        return whole, whole**2 / np.bincount(cells[0], weights**2), mixed

    def _shares(self, right: Array, level: float) -> tuple[Array, tuple[Array, Array]]:
        """The share of each part, and its limits."""
        whole, sizes, _ = self._parts
        shares = np.bincount(self.held.parts, self.held.weights * right) / whole
        return shares, exact(shares, sizes, level)

    def _joined(self, shares: Array, below: Array, above: Array, ends: Ends, least: float) -> Ends:
        """The wider of ``ends`` and the interval of all parts together, between ``least`` and 1."""
        whole, _, mixed = self._parts
        mean = float(whole @ shares)
        order = 1 if mixed else 2  # of parts that are independent, squares add up
        low, high = (
            mean - np.linalg.norm(whole * below, order),
            mean + np.linalg.norm(whole * above, order),
        )
        return max(least, min(float(low), ends[0])), min(1.0, max(float(high), ends[1]))

    def _unlike(self, models: list[int], ends: Ends, level: float) -> Ends:
        """At least as wide as rows unlike these could move the score."""
        low, high = ends
        alike = high - low <= SAME_SCORE * max(abs(low), abs(high))
        if not (self.classes or alike):
            return ends
        share = 1.0 - (0.5 - level / 2.0) ** (1.0 / self._parts[1].min())
        reach = 2.0 * share * float(self.reach[models].max())
        if alike and not reach > 0.0:
            return -np.inf, np.inf
        mean = (low + high) / 2.0
        return min(low, mean - reach), max(high, mean + reach)


def exact(shares: Array, sizes: Array, level: float) -> tuple[Array, Array]:
    """The limits of Clopper and Pearson for shares of so many rows, which need not be whole."""
    tail = 0.5 - level / 2.0
    right, wrong = sizes * shares, sizes * (1.0 - shares)
    none, all_ = right <= SAME_SCORE * sizes, wrong <= SAME_SCORE * sizes
    low = betaincinv(np.where(none, 1.0, right), wrong + 1.0, tail)
    high = betaincinv(right + 1.0, np.where(all_, 1.0, wrong), 1.0 - tail)
    return np.where(none, 0.0, low), np.where(all_, 1.0, high)


def _root(a: Array, b: Array, rho: Array) -> Array:
    return np.sqrt(a * a + 2.0 * rho * a * b + b * b)
