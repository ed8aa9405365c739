"""SimpleMKL: reduced gradient descent on the kernel weights [rakoto2007, Alg. 1].

    min_{e ∈ Δ} J(e),      ∂J/∂e_m = −½ q_m

With μ the largest weight, the reduced gradient is r_m = ∂J_m − ∂J_μ; the direction is
D_m = −r_m, or 0 where e_m = 0 and r_m > 0, and D_μ = −Σ_{m≠μ} D_m. An iteration ends where J is
least along D, at most where the first weight reaches zero; golden section finds that place, with
one SVM per look, started from the one before.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator

import numpy as np

from kernelweave._core.checks import check_number
from kernelweave._core.tolerances import TIGHTEST, TINY
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Cuts, descend
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.learners.grouped import learner_of_norms
from kernelweave.machines.evaluator import Evaluator, Point
from kernelweave.machines.incumbent import Incumbent
from kernelweave.stacks.combined import between

_TELL = 1e-2  # SVMs are solved to this share of the last fall of J
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_BRACKET, _SECTIONS = 0.1, 60  # the bracket is closed to this share of the step; at most so often
_STALLS = 5  # iterations in which the gap may not fall by a tenth before the bundle takes over
_KEPT = 20  # past points that the bundle begins with


class Simple(Learner):
    """Reduced gradient with a line search, finished by cuts where J has kinks.

    ``Solution.history["by"]`` says who made each step: "simple", or "bundle" once the reduced
    gradient has stalled. Under a weight norm p > 1 there is no simplex to walk on: a closed form
    takes its place.

    Parameters
    ----------
    small : float
        Weights below this are set to zero after each iteration. A weight that is nearly zero would
        keep all later steps short.
    stop : "gap" or "change"
        What ends it: the duality gap; or no weight changing by ``change`` in an iteration, whatever
        the gap. The experiments of the paper are ``Simple(stop="change", small=1e-3)`` with
        ``learn(…, max_iter=500)``.
    change : float
        See ``stop``.
    drop : bool
        Before each line search, while J falls, go to where the first weight reaches zero and on
        without that weight. This is the rule of the journal version of the paper (JMLR 9, 2008),
        and not in [rakoto2007]. It saves one iteration per kernel that has no place.
    finish : bool
        Whether the bundle of past solutions takes over where the gap hardly falls. False leaves
        the algorithm of the paper and nothing else, which ends short of ``tol`` where it meets a
        kink of J. With ``stop="change"`` the bundle is not needed.
    """

    sums = True
    groups = True

    def __init__(
        self,
        small: float = 1e-8,
        stop: str = "gap",
        change: float = 0.01,
        drop: bool = False,
        finish: bool = True,
    ) -> None:
        self.small = small
        self.stop = stop
        self.change = change
        self.drop = drop
        self.finish = finish

    @property
    def patience(self) -> int:
        """Without the bundle it ends itself: J may fall for long before the gap does."""
        return super().patience if self._finishes else sys.maxsize

    @property
    def _finishes(self) -> bool:
        return self.finish and self.stop == "gap"

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Descend from unit weights ``e``, one step per iteration."""
        check_stop(self.stop, self.change)
        if evaluator.weight_set.norm > 1.0:
            yield from learner_of_norms(evaluator).iterate(evaluator, incumbent, e, tol)
            return
        recent: deque[Point] = deque(maxlen=_KEPT)
        close = max(1e-3 * min(tol, 1e-2), TIGHTEST)
        point = first_point(evaluator, e, close)
        moved, gap, stalls = np.inf, np.inf, 0
        while not (self._finishes and stalls > _STALLS):
            recent.append(point)
            incumbent.offer_bound(evaluator.bound(point.v, point.q))
            yield Step("simple", self._status(moved), settled=(point, incumbent.bound))
            stalls = stalls + 1 if incumbent.gap > 0.9 * gap else 0
            gap = incumbent.gap
            after, close = self._descend(evaluator, point, close)
            if after is point and self.stop == "gap":
                break
            moved, point = float(np.abs(after.e - point.e).max()), after
        if self._finishes:
            cuts = Cuts(evaluator, incumbent, tol)
            for past in recent:
                cuts.add(past)
            for _ in descend(cuts):
                yield Step("bundle")

    def _status(self, moved: float) -> str:
        if self.stop == "gap":
            return "running"
        return "rule_met" if moved < self.change else "rule_unmet"

    def _descend(self, evaluator: Evaluator, point: Point, close: float) -> tuple[Point, float]:
        """The next point, ``point`` itself where J falls no more, and how tightly to solve next.

        SVMs solved to ``close`` tell apart values of J that differ by more than that: where the
        fall is less, the iteration is made again with tighter ones.
        """
        while True:
            after = descent_step(evaluator, point, point.q, close, self.small, drop=self.drop)
            fall = (point.value - after.value) / max(abs(point.value), TINY)
            if fall > close or self.stop == "change":
                finer = _TELL * fall if fall > 0.0 else close  # cutting small weights may raise J
                return after, float(np.clip(finer, TIGHTEST, close))
            if close <= TIGHTEST:
                return point, close
            close = max(_TELL * close, TIGHTEST)
            point = evaluator.solve(point.e, close)


def check_stop(stop: str, change: float) -> None:
    """Complain about a stopping rule that is none."""
    check_number("change", change)
    if stop not in ("gap", "change"):
        raise ValueError(f"stop must be 'gap' or 'change', found {stop!r}")


def descent_step(
    evaluator: Evaluator, point: Point, q: Array, tol: float, small: float = 1e-8, *, drop: bool
) -> Point:
    """One iteration: the point after the line search, ``point`` itself if J did not fall.

    ``q`` is that of ``point``; SVMs are solved to ``tol``.
    """
    gradient = -0.5 * q
    largest = int(np.argmax(point.e))
    direction = gradient[largest] - gradient
    direction[(point.e <= 0.0) & (direction < 0.0)] = 0.0
    direction[largest] = -direction.sum()
    end = point
    while float(direction @ gradient) < 0.0 and (falling := np.flatnonzero(direction < 0.0)).size:
        reach = -end.e[falling] / direction[falling]
        first = falling[int(np.argmin(reach))]
        e = end.e + reach.min() * direction
        e[first] = 0.0
        trial = evaluator.solve(_on_simplex(e, 0.0), tol)
        if not (drop and trial.value < end.value):
            end = _line_search(evaluator, end, trial, tol)
            break
        end = trial
        direction[largest] += direction[first]
        direction[first] = 0.0
    e = _on_simplex(end.e, small)
    return end if (e > 0.0).sum() == (end.e > 0.0).sum() else evaluator.solve(e, tol)


def _line_search(evaluator: Evaluator, point: Point, end: Point, tol: float) -> Point:
    """Where J is least on the line from ``point`` to ``end``, by golden section."""

    def at(share: float) -> Point:
        e = (1.0 - share) * point.e + share * end.e
        return evaluator.solve(e, tol, K=between(point.K, end.K, share))

    low, high, left, right = 0.0, 1.0, 1.0 - _GOLDEN, _GOLDEN
    one, other = at(left), at(right)
    looks = [(0.0, point), (1.0, end), (left, one), (right, other)]
    for _ in range(_SECTIONS):
        best, found = min(looks, key=lambda look: look[1].value)
        if high - low <= _BRACKET * best:
            break
        if one.value <= other.value:
            high, right, other = right, left, one
            left = high - _GOLDEN * (high - low)
            one = at(left)
            looks = [(best, found), (left, one)]
        else:
            low, left, one = left, right, other
            right = low + _GOLDEN * (high - low)
            other = at(right)
            looks = [(best, found), (right, other)]
    share, found = min(looks, key=lambda look: look[1].value)
    if share in (0.0, 1.0):
        return found
    return evaluator.solve(found.e, tol, found.v)  # under its own kernel, without rounding of two


def _on_simplex(e: Array, small: float) -> Array:
    """Nonnegative weights that sum to one, small ones zero."""
    e = np.where(e >= min(small, e.max()), np.maximum(e, 0.0), 0.0)
    return e / e.sum()
