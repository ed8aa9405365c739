"""Semi-infinite linear programming: cutting planes on J [rakoto2007, §2.5].

    min_{θ, e ∈ Δ} θ    s.t.   θ ≥ l_k − ½ q_k·e   for every inner solution so far

Each LP gives the next weights, each SVM the next row. The LP is kept alive in HiGHS, rows are
added to it, and its multipliers make the dual point that proves the bound.

Where it stays near, the SVM is solved between the LP's weights e and the best ones so far ē, at
x = (1 − h)e + hē. Its row cuts e off, or else J(x) is below J(ē), and the gap to θ falls to a share
of h: where J(x) ≥ J(ē), the row, which is J(x) at x and at most J(ē) at ē, is at least J(ē) at e.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._core.extras import missing
from kernelweave._core.tolerances import LP_FEASIBILITY, LP_SMALLEST, TINY
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Cuts, inner_tol
from kernelweave._solvers.reduced_gradient import short_steps
from kernelweave.learners.base import Learner, Step, check_stop, first_point, status_by_change
from kernelweave.machines.evaluator import Bound, Evaluator, Incumbent
from kernelweave.machines.machine import Point

_WARM, _ITERATIONS = 0.3, 10  # SimpleMKL runs to this gap before the first LP; at most so long
_HOLD = 0.8  # h, the share of the best weights so far where the next SVM is solved


@dataclass(eq=False, repr=False)
class Silp(Learner):
    """Cutting planes, from equal weights or from where SimpleMKL got to.

    Parameters
    ----------
    stop : "gap" or "change"
        What ends it: the duality gap; or, whatever the gap, that no weight changes by ``change``
        from one linear program to the next. The experiments of [rakoto2007, §3] are
        ``Silp(stop="change")`` with ``learn(…, max_iter=500)``.
    change : float
        See ``stop``.
    warm_start : bool
        Run SimpleMKL first [rakoto2007, §4], to a gap of 0.3 and with steps that are halved until J
        falls; all its SVMs are rows of the first linear program.
    stay_near : bool or None
        Stay near the best weights so far, SimpleMKL's at first: the next SVM is solved a fifth of
        the way from there to the weights of the linear program. On four sets of the paper both
        together take 370 linear programs where 1,232 were needed, and less than half the time (see
        ``docs/learners/silp.md``). None: if ``warm_start``. ``Silp(warm_start=True,
        stay_near=False)`` is the paper's proposal alone, which helps nothing.
    """

    sums = True
    weight_norms = (1,)  # linear programming over the simplex
    patience = sys.maxsize  # cutting planes gain nothing for hundreds of iterations, and then do

    stop: str = "gap"
    change: float = 0.01
    warm_start: bool = False
    stay_near: bool | None = None

    @property
    def follows(self) -> bool:  # type: ignore[override]
        """Where the gap decides."""
        return self.stop == "gap"

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One LP and one SVM per step, from unit weights ``e``."""
        check_stop(self.stop, self.change)
        program, cuts = _LinearProgram(e.size), Cuts(tol, evaluator=evaluator, incumbent=incumbent)
        point = first_point(evaluator, e, inner_tol(incumbent.gap, tol))
        _enter(point, program, cuts)
        for _ in range(_ITERATIONS if self.warm_start else 0):
            before = point
            if incumbent.gap <= max(tol, _WARM):
                break
            yield Step("simple", settled=self._last(point, incumbent))
            for point in short_steps(evaluator, before, inner_tol(incumbent.gap, tol)):
                _enter(point, program, cuts)
            if point.value >= before.value:
                point = before
                break
        best, weights, moved = point, point.e, np.inf
        hold = _HOLD if (self.warm_start if self.stay_near is None else self.stay_near) else 0.0
        while True:
            answer = program.solve(evaluator.time_left())
            if answer is not None:
                cuts.offer(answer[1])
            status = status_by_change(self.stop, self.change, moved)
            yield Step("silp", status, settled=self._last(point, incumbent))
            if answer is None:  # what the solve above gave still counts
                return
            moved, weights = float(np.abs(answer[0] - weights).max()), answer[0]
            e = (1.0 - hold) * weights + hold * best.e if hold else weights
            point = evaluator.solve(e, inner_tol(incumbent.gap, tol))
            _enter(point, program, cuts)
            best = min(best, point, key=lambda each: each.primal)

    def _last(self, point: Point, incumbent: Incumbent) -> tuple[Point, Bound] | None:
        """What a step settles: where the gap does not decide, the last point counts."""
        return None if self.stop == "gap" else (point, incumbent.bound)


def _enter(point: Point, program: _LinearProgram, cuts: Cuts) -> None:
    """A row of the linear program, and a cut."""
    cuts.keep(point.v, point.linear, point.q)
    program.add(point)


class _LinearProgram:
    """min θ over (e, θ) in a live HiGHS model; rows in units of the first cut's value."""

    def __init__(self, m: int) -> None:
        try:
            import highspy
        except ImportError:
            raise missing("learner 'silp' needs", "highspy", "lp") from None
        self.m, self.infinity, self.unit = m, highspy.kHighsInf, 0.0
        self.optimal = highspy.HighsModelStatus.kOptimal
        self.sizes: list[float] = []
        self.model: Any = highspy.Highs()
        self.model.setOptionValue("output_flag", False)
        self.model.setOptionValue("threads", 1)
        self.model.setOptionValue("primal_feasibility_tolerance", LP_FEASIBILITY)
        self.model.setOptionValue("dual_feasibility_tolerance", LP_FEASIBILITY)
        self.model.setOptionValue("small_matrix_value", LP_SMALLEST)
        for cost, least in [(0.0, 0.0)] * m + [(1.0, -self.infinity)]:
            self.model.addCol(cost, least, self.infinity, 0, np.empty(0, np.int32), np.empty(0))
        self._row(np.append(np.ones(m), 0.0), 1.0, 1.0)

    def add(self, point: Point) -> None:
        """Another row, l ≤ ½q·e + θ, brought to entries of at most 1."""
        linear, g = point.linear, 0.5 * point.q
        self.unit = self.unit or max(abs(linear), float(g.max()), TINY)
        size = max(self.unit, float(g.max()), abs(linear))
        self.sizes.append(size)
        self._row(np.append(g, self.unit) / size, linear / size, self.infinity)

    def _row(self, values: Array, least: float, most: float) -> None:
        places = np.flatnonzero(values > 10.0 * LP_SMALLEST).astype(np.int32)
        self.model.addRow(least, most, places.size, places, values[places])

    def solve(self, seconds: float) -> tuple[Array, Array] | None:
        """Minimizing e, and the multipliers of the cuts; None where HiGHS finds no optimum."""
        limit = self.model.getRunTime() + seconds  # its clock runs through all linear programs
        self.model.setOptionValue("time_limit", min(limit, self.infinity))
        self.model.run()
        if self.model.getModelStatus() != self.optimal:
            return None
        answer = self.model.getSolution()
        e = np.maximum(np.array(answer.col_value)[: self.m], 0.0)
        multipliers = np.maximum(np.array(answer.row_dual)[1:], 0.0) / np.array(self.sizes)
        return e / e.sum(), multipliers / multipliers.sum()
