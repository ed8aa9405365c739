"""The history of a fit, and what a patient user sees of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernelweave._core.status import Bar
from kernelweave._core.tolerances import TINY
from kernelweave.learners.base import Step
from kernelweave.machines.evaluator import Incumbent
from kernelweave.problems.problem import Problem


class Ended(Exception):
    """The fit ends here, for a reason that is no matter of the problem: its status."""


class Progress:
    """Records every step; with ``verbose`` it shows them on standard error.

    ``unit`` is that of the objective: values are multiplied by it. ``tol`` is the gap aimed at. The
    fit is ended by ``Ended`` once ``max_time`` seconds have passed, or ``step``, which is called
    after every step, returns true.
    """

    def __init__(
        self,
        problem: Problem,
        verbose: int = 0,
        began: float | None = None,
        max_time: float | None = None,
        step: Callable[[], bool] | None = None,
    ) -> None:
        self.problem, self.max_time, self.unit, self.tol = problem, max_time, 1.0, 1e-3
        self.bar, self._step = Bar(verbose) if verbose else None, step
        self.began = time.perf_counter() if began is None else began
        self.gaps: list[float] = []
        self._rows: list[tuple[Any, ...]] = []

    def seconds_so_far(self) -> float:
        """Time since the fit began."""
        return time.perf_counter() - self.began

    def record(self, incumbent: Incumbent, n_solves: int, step: Step) -> None:
        """One iteration is done."""
        best = incumbent.best
        assert best is not None
        weights = self.problem.weight_set.scale * best.e
        weights = weights[:-1] if self.problem.learns_C else weights
        gap, seconds = incumbent.gap, self.seconds_so_far()
        self.gaps.append(gap)
        objective = best.primal * self.unit
        self._rows.append((weights, objective, gap, seconds, n_solves, step.by))
        if self.bar is not None:
            active = np.count_nonzero(best.e)
            self.bar.show(
                self._closed(),
                f"gap {gap:.1e} of {self.tol:g}, {active} of {best.e.size} kernels, "
                f"{seconds:.1f} s",
                f"iteration {len(self.gaps)}: objective {objective:.6g}, gap {gap:.2e}, "
                f"{active} kernels, {n_solves} solves, {seconds:.1f} s",
            )
        if self._step is not None and self._step():
            raise Ended("callback")

    def _closed(self) -> float:
        """How much of the way from the first gap to ``tol`` is done, by orders of magnitude."""
        if not self.gaps:
            return 0.0
        first, gap, goal = min(self.gaps[0], 1.0), self.gaps[-1], max(self.tol, TINY)
        if gap <= goal:
            return 1.0
        return math.log(first / gap) / math.log(first / goal) if gap < first else 0.0

    def close(self, bar: Bar, status: str) -> None:
        """The fit is over."""
        gap, seconds = self.gaps[-1], self.seconds_so_far()
        bar.end(f"{status}: gap {gap:.1e}, {len(self.gaps)} iterations, {seconds:.1f} s")

    def time_left(self) -> float:
        """Seconds left; infinite without ``max_time``."""
        if self.max_time is None:
            return np.inf
        return max(self.max_time - self.seconds_so_far(), 0.0)

    def tick(self) -> None:
        """Called often during a long inner solve."""
        if self.max_time is None and self.bar is None:
            return
        now = self.seconds_so_far()
        if self.max_time is not None and now > self.max_time:
            raise Ended("max_time")
        if self.bar is not None:
            self.bar.show(self._closed(), f"solving an SVM, {now:.0f} s")

    def history(self) -> Mapping[str, Any]:
        """Arrays by name, one entry per iteration."""
        names = ("weights", "objective", "gap", "seconds", "n_svm_solves", "by")
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(names)
        return dict(zip(names, map(np.array, columns), strict=True))
