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


class Progress:
    """Records every step; with ``verbose`` it prints a line per step to standard error."""

    def __init__(self, problem: Problem, verbose: int = 0, began: float | None = None) -> None:
        self.problem, self.verbose = problem, verbose
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
        self._rows.append((weights, best.primal, gap, seconds, n_solves, step.by))
        if self.verbose:
            self._spoke = seconds
            sys.stderr.write(
                f"[kernelweave] iteration {len(self.gaps)}: objective {best.primal:.6g}, "
                f"gap {gap:.2e}, {np.count_nonzero(best.e)} kernels, "
                f"{n_solves} solves, {seconds:.1f} s\n"
            )

    def tick(self) -> None:
        """Called often during a long inner solve."""
        if self.verbose and (now := self.seconds_so_far()) - self._spoke > 2.0:
            self._spoke = now
            sys.stderr.write(f"[kernelweave] solving an SVM, {now:.0f} s\n")

    def history(self) -> Mapping[str, Any]:
        """Arrays by name, one entry per iteration."""
        names = ("weights", "objective", "gap", "seconds", "n_svm_solves", "by")
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(names)
        return {name: np.array(column) for name, column in zip(names, columns, strict=True)}
