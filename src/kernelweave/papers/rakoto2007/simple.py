"""SimpleMKL: reduced gradient descent on the kernel weights [rakoto2007, Alg. 1].

    min_{e ∈ Δ} J(e),      ∂J/∂e_m = −½ q_m

Each iteration is a line search along the reduced gradient (``_solvers/reduced_gradient.py``). Where
these stall, at a kink of J, the bundle of past solutions goes on.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelweave._core.tolerances import TIGHTEST, TINY
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Cuts, descend
from kernelweave._solvers.reduced_gradient import descent_step
from kernelweave.learners.base import Learner, Step, check_stop, first_point, status_by_change
from kernelweave.learners.grouped import learner_of_norms
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.machines.machine import Point

_TELL = 1e-2  # SVMs are solved to this share of the last fall of J
_STALLS = 5  # iterations in which the gap may not fall by a tenth before the bundle takes over
_KEPT = 20  # past points that the bundle begins with


@dataclass(eq=False, repr=False)
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

    small: float = 1e-8
    stop: str = "gap"
    change: float = 0.01
    drop: bool = False
    finish: bool = True

    @property
    def patience(self) -> int:  # type: ignore[override]
        """Without the bundle it ends itself: J may fall for long before the gap does."""
        return super().patience if self._finishes else sys.maxsize

    @property
    def follows(self) -> bool:  # type: ignore[override]
        """Where the bundle may take part."""
        return self._finishes

    @property
    def _finishes(self) -> bool:
        return self.finish and self.stop == "gap"

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Descend from unit weights ``e``, one step per iteration."""
        check_stop(self.stop, self.change)
        if not evaluator.weight_set.is_simplex:
            yield from learner_of_norms(evaluator).iterate(evaluator, incumbent, e, tol)
            return
        recent: deque[Point] = deque(maxlen=_KEPT)
        close = max(1e-3 * min(tol, 1e-2), TIGHTEST)
        point = first_point(evaluator, e, close)
        moved, gap, stalls = np.inf, np.inf, 0
        while not (self._finishes and stalls > _STALLS):
            recent.append(point)
            incumbent.offer_bound(evaluator.bound(point.v, point.q))
            status = status_by_change(self.stop, self.change, moved)
            yield Step("simple", status, settled=(point, incumbent.bound))
            stalls = stalls + 1 if incumbent.gap > 0.9 * gap else 0
            gap = incumbent.gap
            after, close = self._descend(evaluator, point, close)
            if after is point and self.stop == "gap":
                break
            moved, point = float(np.abs(after.e - point.e).max()), after
        if self._finishes:
            cuts = Cuts(tol, evaluator=evaluator, incumbent=incumbent)
            for past in recent:
                cuts.keep(past.v, past.linear, past.q)
            for _ in descend(cuts):
                yield Step("bundle")

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
