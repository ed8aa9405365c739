"""The history of a fit, and what a patient user sees of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelweave.learners.base import Step
from kernelweave.machines.incumbent import Incumbent
from kernelweave.problems.problem import Problem


class TimeUp(Exception):
    """``max_time`` has passed."""


class Progress:
    """Records every step; with ``verbose`` it prints a line per step to standard error.

    ``unit`` is that of the objective: values are divided by it. ``tick`` ends the fit by ``TimeUp``
    once ``max_time`` seconds have passed.
    """

    def __init__(
        self,
        problem: Problem,
        verbose: int = 0,
        began: float | None = None,
        max_time: float | None = None,
    ) -> None:
        self.problem, self.verbose, self.max_time, self.unit = problem, verbose, max_time, 1.0
        self.began = time.perf_counter() if began is None else began
        self.gaps: list[float] = []
        self._rows: list[tuple[Any, ...]] = []
        self._spoke = 0.0

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
        objective = best.primal / self.unit
        self._rows.append((weights, objective, gap, seconds, n_solves, step.by))
        if self.verbose:
            self._spoke = seconds
            sys.stderr.write(
                f"[kernelweave] iteration {len(self.gaps)}: objective {objective:.6g}, "
                f"gap {gap:.2e}, {np.count_nonzero(best.e)} kernels, "
                f"{n_solves} solves, {seconds:.1f} s\n"
            )

    def time_left(self) -> float:
        """Seconds left; infinite without ``max_time``."""
        if self.max_time is None:
            return np.inf
        return max(self.max_time - self.seconds_so_far(), 0.0)

    def tick(self) -> None:
        """Called often during a long inner solve."""
        if self.max_time is None and not self.verbose:
            return
        now = self.seconds_so_far()
        if self.max_time is not None and now > self.max_time:
            raise TimeUp
        if self.verbose and now - self._spoke > 2.0:
            self._spoke = now
            sys.stderr.write(f"[kernelweave] solving an SVM, {now:.0f} s\n")

    def history(self) -> Mapping[str, Any]:
        """Arrays by name, one entry per iteration."""
        names = ("weights", "objective", "gap", "seconds", "n_svm_solves", "by")
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(names)
        return {name: np.array(column) for name, column in zip(names, columns, strict=True)}
