"""Semi-infinite linear programming: cutting planes on J [rakoto2007, §2.5].

    min_{θ, e ∈ Δ} θ    s.t.   θ ≥ l_k − ½ q_k·e   for every inner solution so far

Each LP gives the next weights, each SVM the next row. The LP is kept alive in HiGHS, rows are
added to it, and its multipliers make the dual point that proves the bound.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelweave._core.tolerances import LP_FEASIBILITY, LP_SMALLEST, TINY
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Cuts, inner_tol
from kernelweave.learners.base import Learner, Step, check_stop, first_point, status_by_change
from kernelweave.learners.simple import Simple
from kernelweave.machines.evaluator import Evaluator, Point
from kernelweave.machines.incumbent import Incumbent

_WARM = 0.1  # gap to which SimpleMKL runs before the first linear program


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
        Run SimpleMKL first, to a gap of 0.1; all its iterates are rows of the first linear program
        [rakoto2007, §4]. This saves some linear programs, about one in ten to a gap of 1e-4 on the
        sets of the paper, and costs the SVMs of SimpleMKL's line searches.
    """

    sums = True
    weight_norms = (1,)  # linear programming over the simplex
    patience = sys.maxsize  # cutting planes gain nothing for hundreds of iterations, and then do

    def __init__(self, stop: str = "gap", change: float = 0.01, warm_start: bool = False) -> None:
        self.stop = stop
        self.change = change
        self.warm_start = warm_start

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One LP and one SVM per step, from unit weights ``e``."""
        check_stop(self.stop, self.change)
        program, cuts = _Program(e.size), Cuts(evaluator, incumbent, tol)
        if self.warm_start:
            simple = Simple(drop=True, finish=False)
            for step in simple.iterate(evaluator, incumbent, e, max(tol, _WARM)):
                yield step
                assert step.settled is not None
                point = step.settled[0]
                if incumbent.gap <= _WARM:
                    break
                cuts.add(point)
                program.add(point)
        else:
            point = first_point(evaluator, e, inner_tol(incumbent.gap, tol))
        moved = np.inf
        while True:
            cuts.add(point)
            program.add(point)
            answer = program.solve(evaluator.time_left())
            if answer is not None:
                cuts.offer(answer[1])
            status = status_by_change(self.stop, self.change, moved)
            last = None if self.stop == "gap" else (point, incumbent.bound)  # which then counts
            yield Step("silp", status, settled=last)
            if answer is None:  # what the solve above gave still counts
                return
            before, point = point.e, evaluator.solve(answer[0], inner_tol(incumbent.gap, tol))
            moved = float(np.abs(point.e - before).max())


class _Program:
    """min θ over (e, θ) in a live HiGHS model; rows in units of the first cut's value."""

    def __init__(self, m: int) -> None:
        try:
            import highspy
        except ImportError:
            raise ImportError(
                "learner 'silp' needs highspy, the extra 'lp': pip install highspy"
            ) from None
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
        self.model.setOptionValue("time_limit", min(seconds, self.infinity))
        self.model.run()
        if self.model.getModelStatus() != self.optimal:
            return None
        answer = self.model.getSolution()
        e = np.maximum(np.array(answer.col_value)[: self.m], 0.0)
        multipliers = np.maximum(np.array(answer.row_dual)[1:], 0.0) / np.array(self.sizes)
        return e / e.sum(), multipliers / multipliers.sum()
