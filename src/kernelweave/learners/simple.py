"""SimpleMKL: reduced gradient descent on the kernel weights [rakoto2007, §1.2].

    min_{e ∈ Δ} J(e),      ∂J/∂e_m = −½ q_m

With μ the largest weight, the reduced gradient is r_m = ∂J_m − ∂J_μ; the direction is
D_m = −r_m, or 0 where e_m = 0 and r_m > 0, and D_μ = −Σ_{m≠μ} D_m. While J falls, e goes to where
the first weight reaches zero and goes on without that weight; then an Armijo line search ends
the iteration.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Cuts, descend, inner_tol
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.learners.grouped import learner_of_norms
from kernelweave.machines.evaluator import Evaluator, Point
from kernelweave.machines.incumbent import Incumbent


class Simple(Learner):
    """Reduced gradient with Armijo line search, finished by cuts where J has kinks.

    Parameters
    ----------
    small : float
        Weights below this are set to zero (the paper: 1e-3).
    min_change : float
        Stop when no weight changes by more than this between iterations (the paper: 0.01);
        0 leaves stopping to the duality gap.
    finish : bool
        Whether the bundle of past solutions takes over where the line search stalls.
    """

    sums = True
    groups = True

    def __init__(self, small: float = 1e-8, min_change: float = 0.0, finish: bool = True) -> None:
        self.small = small
        self.min_change = min_change
        self.finish = finish

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Descend from unit weights ``e``, one step per iteration."""
        if evaluator.weight_set.norm > 1.0:  # no simplex to walk on; the closed form is faster
            yield from learner_of_norms(evaluator).iterate(evaluator, incumbent, e, tol)
            return
        cuts = Cuts(evaluator, incumbent, tol)
        point = first_point(evaluator, e, inner_tol(1.0, tol))
        stalls = 0
        while True:
            cuts.add(point)
            yield Step("simple")
            before, gap = point, incumbent.gap
            point = descent_step(evaluator, point, point.q, inner_tol(gap, tol), self.small)
            change = float(np.abs(point.e - before.e).max())
            if 0.0 < change < self.min_change:
                return
            stalls = stalls + 1 if incumbent.gap > 0.9 * gap else 0
            if point is before or stalls > 5:
                break
        if self.finish:
            for _ in descend(cuts):
                yield Step("bundle")


def descent_step(
    evaluator: Evaluator, point: Point, q: Array, tol: float, small: float = 1e-8
) -> Point:
    """One iteration: the point after the line search, ``point`` itself if J did not fall.

    ``q`` is that of ``point``.
    """
    gradient = -0.5 * q
    largest = int(np.argmax(point.e))
    direction = gradient[largest] - gradient
    direction[(point.e <= 0.0) & (direction < 0.0)] = 0.0
    direction[largest] = -direction.sum()
    while True:
        falling = np.flatnonzero(direction < 0.0)
        if falling.size == 0:
            return point
        reach = -point.e[falling] / direction[falling]
        first = falling[int(np.argmin(reach))]
        longest = float(reach.min())
        e = point.e + longest * direction
        e[first] = 0.0
        trial = evaluator.solve(_clean(e, small), tol)
        if not trial.value < point.value:
            return _armijo(evaluator, point, direction, longest, trial.value, tol, small)
        point = trial
        direction[largest] += direction[first]
        direction[first] = 0.0
        if float(direction @ gradient) >= 0.0:
            return point


def _armijo(
    evaluator: Evaluator,
    point: Point,
    direction: Array,
    step: float,
    value: float,
    tol: float,
    small: float,
) -> Point:
    """Backtrack from ``step``, where J is ``value``, by parabolas through what is known."""
    slope = float(direction @ (-0.5 * point.q))
    if slope >= 0.0:
        return point
    for _ in range(30):
        bend = value - point.value - slope * step
        shorter = -0.5 * slope * step * step / bend if bend > 0.0 else 0.5 * step
        step = float(np.clip(shorter, 0.05 * step, 0.5 * step))
        trial = evaluator.solve(_clean(point.e + step * direction, small), tol)
        value = trial.value
        if value <= point.value + 1e-4 * step * slope:
            return trial
    return point


def _clean(e: Array, small: float) -> Array:
    """Nonnegative weights that sum to one, small ones zero."""
    e = np.where(e >= min(small, e.max()), e, 0.0)
    return e / e.sum()
