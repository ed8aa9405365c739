"""The loop that drives a learner: evaluator and incumbent opened, steps judged, the end told.

The problem is solved in standard units, and handed back in those of the user. A learner works with
plain numbers; before "optimal" is said both bounds are computed as they hold in exact arithmetic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.lost import ClusterLost
from kernelweave._core.settings import SETTINGS
from kernelweave._core.status import Bar, share_done
from kernelweave._core.tolerances import NOTICED
from kernelweave._core.types import Array
from kernelweave.learners.base import Learner, Step, check_able
from kernelweave.learners.trail import Trail
from kernelweave.learners.uniform import Uniform
from kernelweave.machines.certified import certified_bound, certified_point, expect
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.problems.problem import Problem
from kernelweave.shortfall import is_zero, warn_of_digits, warn_of_gap
from kernelweave.solution import Solution
from kernelweave.starting import unit_weights, weights_of_sample

_SAMPLE_STEPS = 30  # of the learner, on the sample
_SAMPLE_TOL = 1e-2  # rows that were not drawn move the weights by more
_SAMPLED = 0.1  # gap to expect at weights learned on a sample
_LAST_DIGITS, _LAST_PATIENCE = 1e-9, 25  # gaps that rounding may keep open, and steps in vain then
_FAILURES = 3  # times that bounds in exact arithmetic leave a gap which plain ones close


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
                share_done(self.gaps, self.tol),
                f"gap {gap:.1e} of {self.tol:g}, {active} of {best.e.size} kernels, "
                f"{seconds:.1f} s",
                f"iteration {len(self.gaps)}: objective {objective:.6g}, gap {gap:.2e}, "
                f"{active} kernels, {n_solves} solves, {seconds:.1f} s",
            )
        if self._step is not None and self._step():
            raise Ended("callback")

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
            self.bar.show(share_done(self.gaps, self.tol), f"solving an SVM, {now:.0f} s")

    def history(self) -> Mapping[str, Any]:
        """Arrays by name, one entry per iteration."""
        names = ("weights", "objective", "gap", "seconds", "n_svm_solves", "by")
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(names)
        return dict(zip(names, map(np.array, columns), strict=True))


def solve(
    problem: Problem,
    learner: Learner,
    tol: float = 1e-3,
    start: Solution | ArrayLike | None = None,
    max_iter: int = 1000,
    progress: Progress | None = None,
    seed: int = 0,
    trail: Trail | None = None,
) -> Solution:
    """Solve a problem whose arguments were checked; what ``learn`` does once it has one.

    ``seed``: of rows drawn to start from. ``trail`` has cuts at another C, and gets those of this.
    """
    check_able(learner, problem)
    progress = Progress(problem) if progress is None else progress
    enough, expected = SETTINGS.sample_times * SETTINGS.sample_least, 1.0
    if start is None and learner.begins_on_sample and problem.stack.n >= enough:
        start = weights_of_sample(problem, seed, partial(_learned_on, learner, tol, progress))
        expected = 1.0 if start is None else _SAMPLED
    run = _Run(problem, learner, float(tol), progress, start, trail)
    run.evaluator.expected = expected
    status = run.to_end(max_iter)
    solution = _solution(problem, run, status)
    if progress.bar is not None:
        progress.close(progress.bar, solution.status)
    precision = problem.stack.precision
    if solution.status not in ("optimal", "rule_met"):
        warn_of_gap(solution, run.last, run.learner, run.tol, status)
    elif solution.status == "optimal" and tol < np.finfo(precision).eps:
        warn_of_digits(tol, precision)
    return solution


def _learned_on(
    learner: Learner, tol: float, progress: Progress, sample: Problem, weights: Array | None
) -> Array:
    """Weights after some steps on a sample, begun at those of a smaller one."""
    left = progress.time_left()
    clock = Progress(sample, max_time=None if left == np.inf else left)
    run = _Run(sample, learner, max(tol, _SAMPLE_TOL), clock, weights)
    run.to_end(_SAMPLE_STEPS)
    assert run.incumbent.best is not None
    return np.asarray(sample.weight_set.scale * run.incumbent.best.e)


class _Run:
    """One fit: the learner, what it is given, and its last step.

    ``criterion`` is what the learner that was asked for minimizes. Where it ``settles``, the ledger
    holds what its steps settle; otherwise it hears of every point.
    """

    def __init__(
        self,
        problem: Problem,
        learner: Learner,
        tol: float,
        progress: Progress,
        start: Solution | ArrayLike | None,
        trail: Trail | None = None,
    ) -> None:
        inner, self._scale = problem, problem.weight_set.scale
        if learner.standard_units:
            inner = problem.in_standard_units()
        else:
            problem.refuse_extremes()
        self.tol, self.progress, self.criterion = tol, progress, learner.objective
        progress.unit, progress.tol = inner.size * inner.unit_of_v, tol
        alone = problem.stack.m == 1 and self.criterion == "margin" and not learner.reports
        self.learner = Uniform() if alone else learner  # there is nothing to choose
        self.settles = learner.settles and not alone
        self.evaluator = Evaluator(inner, progress)
        self.incumbent = Incumbent(self.evaluator.first_bound())
        if not self.settles:
            self.evaluator.watch = self.incumbent.offer
        self.last, self.trail = Step("start"), trail
        self._start, given = start, learner.start(problem) if start is None else start
        uniform = problem.weight_set.uniform
        self._e = uniform() if given is None else unit_weights(given, problem)

    def to_end(self, max_iter: int) -> str:
        """Run from the first weights to the end, and how it ended."""
        e = self._e
        try:
            if isinstance(self._start, Solution):
                self._resume(self._start, e)
            status = self._drive(e, max_iter)
            while status == "rounding" and (again := self._sharpened()) is not None:
                status = self._drive(again, max_iter)
        except Ended as end:
            status = str(end)
        except ClusterLost as lost:
            best = self.incumbent.best
            if best is None:
                raise
            raise lost.with_best(self._scale * best.e, self.incumbent.gap) from lost
        status = self._finished(e, status)
        if self.trail is not None and not self.settles:
            self.trail.leave(self.evaluator, self.incumbent.bound)
        return status

    def _resume(self, start: Solution, e: Array) -> None:
        """Take up an earlier solution: its machine, and where J is minimized its dual point too."""
        evaluator, machine = self.evaluator, self.evaluator.machine
        rows, unit = evaluator.problem.rows, evaluator.problem.unit_of_v
        proof = machine.from_alpha(start.dual_alpha[..., rows] / unit)
        if self.settles:
            evaluator.remember(proof)
        else:
            if self.trail is not None and self.trail.pairs:
                self.trail.offer(evaluator, self.incumbent)
            else:
                self.incumbent.offer_bound(evaluator.bound(proof, by="start"))
            v = machine.from_alpha(start.alpha[..., rows] / unit)
            if self.trail is None or self.trail.is_near(machine):
                evaluator.judge(e, v)
            else:
                evaluator.remember(v)

    def _sharpened(self) -> Array | None:
        """Go over to more exact passes, if the stack has any; the weights to go on from, or None.

        What is known so far was computed by rougher ones: the best point is judged anew, and so is
        the v of the best bound.
        """
        stack, best, proof = self.evaluator.stack.finer(), self.incumbent.best, self.incumbent.bound
        if stack is None or best is None:
            return None
        evaluator = self.evaluator = self.evaluator.on(stack)
        self.incumbent = Incumbent(evaluator.first_bound())
        if self.settles:
            evaluator.remember(best.v)
        else:
            evaluator.watch = self.incumbent.offer
            evaluator.judge(best.e, best.v)
            self.incumbent.offer_bound(evaluator.bound(proof.v))
        return best.e

    def _drive(self, e: Array, max_iter: int) -> str:
        """Run the learner until the certificate, its own rule, or patience ends it."""
        incumbent, learner, progress = self.incumbent, self.learner, self.progress
        if not learner.reports and self._reached():
            progress.record(incumbent, self.evaluator.last.solves, self.last)
            return "optimal"
        least, since, failures = np.inf, 0, 0
        steps, asked = learner.iterate, (self.evaluator, incumbent, e, self.tol)
        if self.trail is not None and learner.follows and self.evaluator.weight_set.is_simplex:
            steps = partial(self.trail.followed, learner)
        for step in steps(*asked):
            self.last = step
            if step.settled is not None:
                incumbent.best, incumbent.bound = step.settled
            reached = self._reached()
            progress.record(incumbent, self.evaluator.last.solves, step)
            if step.status == "rule_met":
                return "rule_met"
            if reached and (step.extras or not learner.reports):
                return "optimal"
            failures = failures + 1 if reached is not None else 0
            if failures >= _FAILURES:  # rounding, not the learner, keeps the gap open
                return "rounding"
            if len(progress.gaps) >= max_iter:
                return "max_iter"
            gap = incumbent.gap
            least, since = (gap, 0) if gap < 0.99 * least else (least, since + 1)
            last = max(gap, step.stationarity) <= _LAST_DIGITS
            if since >= (_LAST_PATIENCE if last else learner.patience):
                return "stopped"
            if gap >= 0.5 and is_zero(incumbent, self.evaluator.problem):
                return "stopped"
        return "stopped" if progress.time_left() > 0.0 else "max_time"

    def _near(self) -> bool:
        """Whether gap and stationarity are at most the tolerance, by the numbers at hand."""
        step, tol = self.last, self.tol
        return (
            step.status != "rule_unmet" and self.incumbent.gap <= tol and step.stationarity <= tol
        )

    def _reached(self) -> bool | None:
        """Whether they are in exact arithmetic: the incumbent then holds bounds that are.

        None where they are not by plain numbers.
        """
        if not self._near():
            return None
        proved = self._proved()
        if proved.gap > self.tol:
            return False
        self.incumbent.best, self.incumbent.bound = proved.best, proved.bound
        return True

    def _proved(self) -> Incumbent:
        """Point and bound as they hold in exact arithmetic.

        Double precision will do if rounding takes little of tol and changes no verdict. Otherwise
        extended precision is tried: its error bounds are mostly the better ones, but need not be.
        """
        plain, before = self._certified(fine=False), self.incumbent.gap
        same = (plain.gap <= self.tol) == (before <= self.tol)
        if same and plain.gap - before <= NOTICED * self.tol:
            return plain
        fine = self._certified(fine=True)
        return fine if fine.gap < plain.gap else plain

    def _certified(self, fine: bool) -> Incumbent:
        best, bound = self.incumbent.best, self.incumbent.bound
        assert best is not None
        if self.last.certify is not None:
            best, bound = self.last.certify(fine)
        else:
            if fine:
                expect(self.evaluator.machine, best, bound)
            best = certified_point(self.evaluator.machine, best, fine)
            bound = certified_bound(self.evaluator, bound, fine)
        return Incumbent(bound, best)

    def _finished(self, e: Array, status: str) -> str:
        """Put bounds into the incumbent that hold in exact arithmetic, whatever ended the fit."""
        incumbent, progress = self.incumbent, self.progress
        if incumbent.best is None:
            self.last = self.learner.unsolved(self.evaluator, e)
            assert self.last.settled is not None
            incumbent.best, incumbent.bound = self.last.settled
        if not progress.gaps:  # ended within its first iteration
            progress.record(incumbent, self.evaluator.last.solves, self.last)
        if status == "optimal":
            return status
        assert incumbent.best is not None
        if not self.settles:
            incumbent.best = self.evaluator.machine.improved(incumbent.best)
        proved = self._proved()
        incumbent.best, incumbent.bound = proved.best, proved.bound
        if self._near():  # by numbers that hold
            return status if status == "rule_met" else "optimal"
        if status in ("stopped", "max_iter", "max_time", "rounding") and is_zero(
            incumbent, self.evaluator.problem
        ):
            target = self.evaluator.problem.formulation.loss.target
            return "origin" if target == "nothing" else "zero"
        return status


def _solution(problem: Problem, run: _Run, status: str) -> Solution:
    """What the user gets, over all rows and in the user's units."""
    incumbent, machine, inner = run.incumbent, run.evaluator.machine, run.evaluator.problem
    best, bound = incumbent.best, incumbent.bound
    assert best is not None
    weights, C = problem.weight_set.scale * best.e, problem.formulation.C
    if problem.learns_C:
        weights, tau = weights[:-1], float(weights[-1])
        C = 1.0 / tau if tau > 0.0 else np.inf
    costs = np.array(C, dtype=float)
    _, scales, biases = best.fits.T
    biases = inner.size * (biases + list(map(attrgetter("origin"), machine.qps)))
    unit_of_value = inner.size * inner.unit_of_v
    models = machine.coefficients(best.v), machine.alpha(best.v), machine.alpha(bound.v)
    factors = np.array([scales, scales, np.ones(scales.size)])
    every = problem.to_all_rows(factors[:, :, None] * np.array(models) * inner.unit_of_v)
    coef, alpha, proof = every if problem.is_sum else every[:, 0]
    return Solution(
        weights=weights,
        coef=coef,
        alpha=alpha,
        dual_alpha=proof,
        bias=biases if problem.is_sum else float(biases[0]),
        primal=best.primal * unit_of_value,
        dual=bound.value * unit_of_value,
        gap=incumbent.gap,
        C=float(costs) if costs.ndim == 0 else costs,
        status="stopped" if status in ("rounding", "origin", "zero") else status,
        n_iter=len(run.progress.gaps),
        n_svm_solves=run.evaluator.last.solves,
        history=run.progress.history(),
        seconds=run.progress.seconds_so_far(),
        extras=dict(run.last.extras),
        criterion=run.criterion,
        loss=problem.formulation.task.asked,
        problem=problem,
    )
