"""The loop that drives a learner: evaluator and incumbent opened, steps judged, the end told.

The problem is solved in standard units, and handed back in those of the user. A learner works with
plain numbers; before "optimal" is said both bounds are computed as they hold in exact arithmetic.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_vector
from kernelweave._core.lost import ClusterLost
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import COINCIDE, NOTICED
from kernelweave._core.types import Array
from kernelweave.learners.base import Learner, Step, check_able
from kernelweave.learners.trail import Trail
from kernelweave.learners.uniform import Uniform
from kernelweave.machines.certified import certified_bound, certified_point, expect
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.problems.problem import Problem
from kernelweave.progress import Ended, Progress
from kernelweave.shortfall import warn_of_digits, warn_of_gap
from kernelweave.solution import Solution

_SAMPLE_STEPS = 30  # of the learner, on the sample
_SAMPLE_TOL = 1e-2  # rows that were not drawn move the weights by more
_RUNGS_OF_FACTORS = 2  # a few thousand rows are an array, on which kinks are passed quickly
_RUNGS = 10  # of a ladder of samples, each of five times the rows of the last
_LAST_DIGITS, _LAST_PATIENCE = 1e-9, 25  # gaps that rounding may keep open, and steps in vain then
_FAILURES = 3  # times that bounds in exact arithmetic leave a gap which plain ones close


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

    ``seed``: of the rows drawn to start from, where there are many. ``trail`` has cuts of the same
    problem at another C, and gets those of this one.
    """
    check_able(learner, problem)
    progress = Progress(problem) if progress is None else progress
    if start is None and learner.begins_on_sample:
        start = _weights_of_sample(problem, learner, tol, progress, seed)
    run = _Run(problem, learner, float(tol), progress, trail)
    status = run.to_end(_unit_weights(start, problem, learner), max_iter, start)
    solution = _solution(problem, run, status)
    progress.close(solution.status)
    precision = problem.stack.precision
    if solution.status not in ("optimal", "rule_met"):
        warn_of_gap(solution, run.last, run.learner, run.tol, status)
    elif solution.status == "optimal" and tol < np.finfo(precision).eps:
        warn_of_digits(tol, precision)
    return solution


def _weights_of_sample(
    problem: Problem, learner: Learner, tol: float, progress: Progress, seed: int
) -> Array | None:
    """Weights to begin with, learned on some of the rows where they are many; None where not.

    A machine on all rows takes longer by as much as they are more, at least, and the weights depend
    on it little. Large samples begin with the weights of smaller ones. The certificate is over all
    rows.
    """
    sizes, full_rank = _sample_sizes(problem)
    tol = max(tol, _SAMPLE_TOL)
    order = np.random.default_rng(seed).permutation(problem.stack.n) if sizes else None
    weights = None
    for size in sizes:
        assert order is not None
        sample = problem.on_sample(np.sort(order[:size]), full_rank)
        left = progress.time_left()
        clock = Progress(sample, max_time=None if left == np.inf else left)
        run = _Run(sample, learner, tol, clock)
        run.to_end(_unit_weights(weights, sample, learner), _SAMPLE_STEPS)
        assert run.incumbent.best is not None
        weights = np.asarray(problem.weight_set.scale * run.incumbent.best.e)
    return weights


def _sample_sizes(problem: Problem) -> tuple[list[int], bool]:
    """How many rows to begin with, smaller samples first; whether the kernels have a full rank.

    Samples of an array are as large as pays. Others are as large as their arrays can be; there is a
    ladder of them where machines are solved on factors, or by products with K(d).
    """
    stack, times = problem.stack, SETTINGS.sample_times
    most, least = stack.n // times, SETTINGS.sample_least
    if most < least or stack.m == 1 or problem.learns_C or any(qp.is_hard for qp in problem.qps):
        return [], False
    if stack.combined(np.zeros(stack.m)).is_dense:
        sizes = [most // times**rung for rung in reversed(range(_RUNGS))]
        return [size for size in sizes if size >= least], True
    if most < SETTINGS.sample_rows:
        return [], False
    K = stack.combined(problem.weight_set.uniform())
    full_rank = K.factor() is None
    rungs = _RUNGS if K.has_landmarks else 1 if full_rank else _RUNGS_OF_FACTORS
    sizes = [SETTINGS.sample_rows * 5**rung for rung in range(rungs)]
    return [size for size in sizes if size <= most], full_rank


def _unit_weights(start: Solution | ArrayLike | None, problem: Problem, learner: Learner) -> Array:
    """Unit weights to begin with, by default those of the learner."""
    weight_set, m, tau = problem.weight_set, problem.stack.m - problem.learns_C, None
    signed = problem.formulation.signed
    if isinstance(start, Solution):
        weights = check_vector("start.weights", start.weights, m)
        shape = np.shape(start.alpha)
        expected = (len(problem.qps), problem.whole.n) if problem.is_sum else (problem.whole.n,)
        if shape != expected:
            raise ValueError(f"start.alpha must have shape {expected}, found {shape}")
        tau = 1.0 / start.C if isinstance(start.C, float) else None
    elif start is not None:
        weights = check_vector("start", start, m)
    else:
        own = learner.start(problem)
        if own is None:
            return weight_set.uniform()
        weights = own
    if weights.min() < 0.0 and not signed:
        raise ValueError(f"start must hold weights ≥ 0, found {weights.min():g}")
    if problem.learns_C:
        weights = np.append(weights, weights.mean() if tau is None else tau)
    scale = weight_set.scale
    e = np.divide(weights, scale, out=np.zeros_like(weights), where=scale > 0.0)
    size = float(e.sum()) if signed else weight_set.size(e)
    if not size > 0.0:
        found = "weights of trace ≤ 0" if e.any() else "only zero weights"
        raise ValueError(f"start holds {found}; leave it out to start uniformly")
    return e / size


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
        self._target = problem.formulation.loss.target

    def to_end(self, e: Array, max_iter: int, start: Solution | ArrayLike | None = None) -> str:
        """Run from unit weights e to the end, and how it ended."""
        try:
            if isinstance(start, Solution):
                self._resume(start, e)
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
                incumbent.settle(*step.settled)
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
            if gap >= 0.5 and self._is_zero():
                return "stopped"
        return "stopped" if progress.time_left() > 0.0 else "max_time"

    def _is_zero(self) -> bool:
        """Whether nothing is known of the optimum but that it is 0 up to rounding.

        That of one class is −½αᵀKα with Σα = 1, and 0 where rows lie on all sides of the origin.
        That of a regression is 0 where a constant fits the targets: then only slacks of the size of
        rounding have a loss.
        """
        incumbent, problem = self.incumbent, self.evaluator.problem
        if incumbent.best is None or incumbent.gap < 0.5 or self._target == "labels":
            return False
        sizes = problem.weight_set.scale * problem.stack.traces() / problem.stack.n
        nothing = COINCIDE * float(sizes.max())
        if self._target != "nothing":
            nothing = sum(qp.loss_of_rounding() for qp in problem.qps)
        return max(abs(incumbent.best.primal), abs(incumbent.bound.value)) <= nothing

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
        self.incumbent.settle(proved.best, proved.bound)
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
            incumbent.settle(*self.last.settled)
        if not progress.gaps:  # ended within its first iteration
            progress.record(incumbent, self.evaluator.last.solves, self.last)
        if status == "optimal":
            return status
        assert incumbent.best is not None
        if not self.settles:
            incumbent.best = self.evaluator.machine.improved(incumbent.best)
        proved = self._proved()
        incumbent.settle(proved.best, proved.bound)
        if self._near():  # by numbers that hold
            return status if status == "rule_met" else "optimal"
        if status in ("stopped", "max_iter", "max_time", "rounding") and self._is_zero():
            return "origin" if self._target == "nothing" else "zero"
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
