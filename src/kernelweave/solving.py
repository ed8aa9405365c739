"""The loop that drives a learner: evaluator and incumbent opened, steps judged, the end told.

The problem is solved in standard units, and handed back in those of the user. A learner works with
plain numbers; before "optimal" is said both bounds are computed as they hold in exact arithmetic.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_vector
from kernelweave._core.tolerances import COINCIDE
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave.learners.base import Learner, Step, at_given_weights, check_able
from kernelweave.learners.uniform import Uniform
from kernelweave.machines.certified import certified_bound, certified_given, certified_point
from kernelweave.machines.evaluator import Evaluator, Point
from kernelweave.machines.incumbent import Bound, Incumbent
from kernelweave.problems.dual_qp import relative_gap
from kernelweave.problems.losses import LOSSES
from kernelweave.problems.problem import Problem
from kernelweave.progress import Ended, Progress
from kernelweave.solution import Solution
from kernelweave.stacks.memory import SAMPLE_ROWS, SAMPLE_ROWS_OF_FACTORS, SAMPLE_TIMES

_SAMPLE_STEPS = 30  # of the learner, on the sample
_GIVEN = ("none", "alignment")  # objectives that take the weights as given
_NOTICED = 0.01  # share of the tolerance from which on rounding is worth extended precision
_LAST_DIGITS, _LAST_PATIENCE = 1e-9, 25  # gaps that rounding may keep open, and steps in vain then
_ADVICE = {
    "max_time": "allow more max_time, or raise {}",
    "callback": "a callback ended the fit",
    "rounding": "rounding alone is more than that, since C times the diagonal of the kernels is "
    "large; raise {}, or lower C or the scale of the kernels",
    "max_iter": "raise max_iter, or {}",
    "stopped": "the learner could do no more: raise {}, or try another learner or kernels "
    "checked to be positive semidefinite",
    "origin": "the optimum is 0, of which no relative gap can be told: the rows lie on all sides "
    "of the origin, and no machine tells them from it; use Gaussian kernels",
    "zero": "the optimum is 0 up to rounding, of which no relative gap can be told: the targets "
    "are the same number up to rounding or up to epsilon, and nothing is left to learn",
}


def solve(
    problem: Problem,
    learner: Learner,
    tol: float = 1e-3,
    start: Solution | ArrayLike | None = None,
    max_iter: int = 1000,
    progress: Progress | None = None,
    seed: int = 0,
) -> Solution:
    """Solve a problem whose arguments were checked; what ``learn`` does once it has one.

    ``seed``: of the rows drawn to start from, where there are many.
    """
    check_able(learner, problem)
    progress = Progress(problem) if progress is None else progress
    if start is None:
        start = _weights_of_sample(problem, learner, tol, progress, seed)
    e = _starting_weights(start, problem, learner)
    run, status = _driven(problem, learner, tol, start, e, max_iter, progress)
    solution = _solution(problem, run, status, progress)
    progress.close(solution.status)
    _warn_unless_optimal(solution, run.learner, problem, run.last, tol, status)
    return solution


def _driven(
    problem: Problem,
    learner: Learner,
    tol: float,
    start: Solution | ArrayLike | None,
    e: Array,
    max_iter: int,
    progress: Progress,
) -> tuple[_Run, str]:
    """The run from unit weights e to its end, and how it ended."""
    run = _Run(problem, learner, float(tol), progress)
    try:
        if isinstance(start, Solution):
            run.resume(start, e)
        status = run.drive(e, max_iter, progress)
    except Ended as end:
        status = str(end)
    return run, run.finish(e, status, progress)


def _weights_of_sample(
    problem: Problem, learner: Learner, tol: float, progress: Progress, seed: int
) -> Array | None:
    """Weights to begin with, learned on some of the rows where all of them have no array.

    A machine on all rows takes longer by as much as they are more, at least, and the weights depend
    on it little. The certificate is over all rows.
    """
    stack, asked = problem.stack, learner.begins_on_sample and not problem.learns_C
    if stack.n < SAMPLE_TIMES * SAMPLE_ROWS or stack.m == 1 or not asked:
        return None
    uniform = problem.weight_set.uniform()
    K = stack.combined(uniform)
    if K.is_dense or any(qp.is_hard for qp in problem.qps):
        return None
    size = SAMPLE_ROWS if K.factor() is None else SAMPLE_ROWS_OF_FACTORS
    if stack.n < SAMPLE_TIMES * size:
        return None
    rows = np.sort(np.random.default_rng(seed).permutation(stack.n)[:size])
    sample = problem.on_sample(rows)
    left = progress.time_left()
    clock = Progress(sample, max_time=None if left == np.inf else left)
    run, _ = _driven(sample, learner, tol, None, uniform, _SAMPLE_STEPS, clock)
    assert run.incumbent.best is not None
    return np.asarray(problem.weight_set.scale * run.incumbent.best.e)


def _open(problem: Problem, progress: Progress, own: bool) -> tuple[Evaluator, Incumbent]:
    """Evaluator and ledger, which hears of every point unless the objective is a learner's own."""
    evaluator = Evaluator(problem, progress)
    incumbent = Incumbent(evaluator.first_bound())
    evaluator.watch = None if own else incumbent.offer
    return evaluator, incumbent


class _Run:
    """One fit: the learner, what it is given, and its last step.

    ``criterion`` is what the learner that was asked for minimizes; ``own`` says that the ledger
    holds what steps settle, not all points.
    """

    def __init__(self, problem: Problem, learner: Learner, tol: float, progress: Progress) -> None:
        inner = problem.in_standard_units() if learner.standard_units else problem
        progress.unit, progress.tol = inner.unit, tol
        self.criterion = "given" if learner.objective in _GIVEN else learner.objective
        margin = self.criterion == "margin"
        alone = problem.stack.m == 1 and margin and not learner.reports
        self.learner = Uniform() if alone else learner  # there is nothing to choose
        self.own = not margin or self.learner.signed
        self.evaluator, self.incumbent = _open(inner, progress, self.own)
        self.tol, self.last = tol, Step("start")
        self._target = LOSSES[problem.formulation.loss].target

    def resume(self, start: Solution, e: Array) -> None:
        """Take up an earlier solution: its machine, and where J is minimized its dual point too."""
        evaluator, machine = self.evaluator, self.evaluator.machine
        rows, unit = evaluator.problem.rows, evaluator.problem.unit
        proof = machine.from_alpha(unit * start.dual_alpha[..., rows])
        if self.own:
            evaluator.remember(proof)
        else:
            self.incumbent.offer_bound(evaluator.bound(proof, by="start"))
            evaluator.judge(e, machine.from_alpha(unit * start.alpha[..., rows]))

    def drive(self, e: Array, max_iter: int, progress: Progress) -> str:
        """Run the learner until the certificate, its own rule, or patience ends it."""
        incumbent, learner = self.incumbent, self.learner
        if not learner.reports and self._reached():
            progress.record(incumbent, self.evaluator.n_solves, self.last)
            return "optimal"
        least, since, failures = np.inf, 0, 0
        for step in learner.iterate(self.evaluator, incumbent, e, self.tol):
            self.last = step
            if step.settled is not None:
                incumbent.settle(*step.settled)
            near = self._near()
            reached = near and self._reached()
            progress.record(incumbent, self.evaluator.n_solves, step)
            if step.status == "rule_met":
                return "rule_met"
            if reached:
                return "optimal"
            failures = failures + 1 if near else 0
            if failures >= 3:  # rounding, not the learner, keeps the gap open
                return "rounding"
            if len(progress.gaps) >= max_iter:
                return "max_iter"
            gap = incumbent.gap
            least, since = (gap, 0) if gap < 0.99 * least else (least, since + 1)
            last = max(gap, step.stationarity) <= _LAST_DIGITS
            if since >= (_LAST_PATIENCE if last else learner.patience) or self._is_zero():
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
        if self._target == "values":
            nothing = sum(qp.loss_of_rounding() for qp in problem.qps)
        return max(abs(incumbent.best.primal), abs(incumbent.bound.value)) <= nothing

    def _near(self) -> bool:
        """Whether gap and stationarity are at most the tolerance, by plain numbers."""
        step, tol = self.last, self.tol
        return (
            step.status != "rule_unmet" and self.incumbent.gap <= tol and step.stationarity <= tol
        )

    def _reached(self) -> bool:
        """Whether they are in exact arithmetic; the incumbent then holds bounds that are."""
        if not self._near():
            return False
        proved = self._proved()
        if _gap_of(proved) > self.tol:
            return False
        self.incumbent.settle(*proved)
        return True

    def _proved(self) -> tuple[Point, Bound]:
        """Point and bound as they hold in exact arithmetic.

        Double precision will do if rounding takes little of tol and changes no verdict. Otherwise
        extended precision is tried: its error bounds are mostly the better ones, but need not be.
        """
        plain = self._certified(fine=False)
        gap, before = _gap_of(plain), self.incumbent.gap
        little = gap - before <= _NOTICED * self.tol
        same = (gap <= self.tol) == (before <= self.tol)
        if little and same:
            return plain
        return min(plain, self._certified(fine=True), key=_gap_of)

    def _certified(self, fine: bool) -> tuple[Point, Bound]:
        """Point and bound of the incumbent as they hold in exact arithmetic."""
        best, bound = self.incumbent.best, self.incumbent.bound
        assert best is not None
        if self.last.certify is not None:
            return self.last.certify(fine)
        point = certified_point(self.evaluator, best, fine)
        if self.learner.signed:
            return point, bound  # which is charged by the learner
        if self.learner.objective in _GIVEN:
            return point, certified_given(self.evaluator, best, fine)
        return point, certified_bound(self.evaluator, bound, fine)

    def finish(self, e: Array, status: str, progress: Progress) -> str:
        """Put bounds into the incumbent that hold in exact arithmetic, whatever ended the fit."""
        incumbent = self.incumbent
        if incumbent.best is None:  # no time for one solve: f = 0
            point = self.evaluator.judge(e, self.evaluator.machine.feasible())
            incumbent.settle(point, at_given_weights(point) if self.own else incumbent.bound)
        if not progress.gaps:  # ended within its first iteration
            progress.record(incumbent, self.evaluator.n_solves, self.last)
        if status == "optimal":
            return status
        if not self.own:
            best = incumbent.best
            assert best is not None
            improved = replace(best, answer=self.evaluator.machine.improved(best.answer))
            incumbent.settle(improved, incumbent.bound)
        incumbent.settle(*self._proved())
        if self._near():  # by numbers that hold
            return status if status == "rule_met" else "optimal"
        if status in ("stopped", "max_iter", "max_time", "rounding") and self._is_zero():
            return "zero" if self._target == "values" else "origin"
        return status


def _gap_of(proved: tuple[Point, Bound]) -> float:
    return relative_gap(proved[0].primal, proved[1].value)


def _solution(problem: Problem, run: _Run, status: str, progress: Progress) -> Solution:
    """What the user gets, over all rows and in the user's units."""
    incumbent, machine, unit = run.incumbent, run.evaluator.machine, run.evaluator.problem.unit
    best, bound = incumbent.best, incumbent.bound
    assert best is not None
    weights = problem.weight_set.scale * best.e
    C = problem.formulation.C
    if problem.learns_C:
        weights, tau = weights[:-1], float(weights[-1])
        C = 1.0 / tau if tau > 0.0 else np.inf
    costs = np.array(C, dtype=float)
    coef, alpha, bias = machine.model(best.answer)
    coef, alpha, proof = (
        problem.to_all_rows((x if problem.is_sum else x[0]) / unit)
        for x in (coef, alpha, machine.alpha(bound.v))
    )
    return Solution(
        weights=weights,
        coef=coef,
        alpha=alpha,
        dual_alpha=proof,
        bias=bias if problem.is_sum else float(bias[0]),
        primal=best.primal / unit,
        dual=bound.value / unit,
        gap=incumbent.gap,
        C=float(costs) if costs.ndim == 0 else costs,
        status="stopped" if status in ("rounding", "origin", "zero") else status,
        n_iter=len(progress.gaps),
        n_svm_solves=run.evaluator.n_solves,
        history=progress.history(),
        seconds=progress.seconds_so_far(),
        extras=dict(run.last.extras),
        criterion=run.criterion,
        loss=problem.formulation.loss,
        problem=problem,
    )


def _warn_unless_optimal(
    solution: Solution, learner: Learner, problem: Problem, last: Step, tol: float, why: str
) -> None:
    """Say by how much ``tol`` is missed, or that it asks for more digits than the kernels have."""
    precision = problem.stack.precision
    if solution.status not in ("optimal", "rule_met"):
        what, reached = "duality gap", solution.gap
        missed, knob = f"not tol={tol:g}", "tol"
        if last.status == "rule_unmet":
            missed, knob = f"and the stopping rule of {learner!r} is not met", "its tolerances"
        elif reached <= tol:
            what, reached = "stationarity", last.stationarity
        warn_unconverged(
            f"the {what} reached is {reached:.2g}, {missed} (status "
            f"{solution.status!r} after {solution.n_iter} iterations, {solution.n_svm_solves} SVM "
            f"solves); {_ADVICE[why].format(knob)}"
        )
    elif solution.status == "optimal" and tol < (rounding := np.finfo(precision).eps):
        warn_unconverged(
            f"tol={tol:g} is below the rounding of {precision} kernels, {rounding:.1g}: "
            "the gap holds for the kernels as rounded; use a larger tol"
            + ", or float64"
            * (precision == np.float32)
        )


def _starting_weights(
    start: Solution | ArrayLike | None, problem: Problem, learner: Learner
) -> Array:
    """Unit weights to begin with; for a radius, by default those of kernels of equal trace."""
    weight_set, traces = problem.weight_set, problem.stack.traces()
    if start is None and learner.objective == "radius" and traces.any():
        start = np.divide(1.0, traces, out=np.zeros(traces.size), where=traces > 0.0)
    if start is None:
        return weight_set.uniform()
    m, tau = problem.stack.m - problem.learns_C, None
    if isinstance(start, Solution):
        weights = check_vector("start.weights", start.weights, m)
        shape = np.shape(start.alpha)
        n = problem.whole.n
        expected = (len(problem.qps), n) if problem.is_sum else (n,)
        if shape != expected:
            raise ValueError(f"start.alpha must have shape {expected}, found {shape}")
        tau = 1.0 / start.C if isinstance(start.C, float) else None
    else:
        weights = check_vector("start", start, m)
    if weights.min() < 0.0 and not learner.signed:
        raise ValueError(f"start must hold weights ≥ 0, found {weights.min():g}")
    if problem.learns_C:
        weights = np.append(weights, weights.mean() if tau is None else tau)
    scale = weight_set.scale
    e = np.divide(weights, scale, out=np.zeros_like(weights), where=scale > 0.0)
    size = float(e.sum()) if learner.signed else weight_set.size(e)
    if not size > 0.0:
        found = "weights of trace ≤ 0" if e.any() else "only zero weights"
        raise ValueError(f"start holds {found}; leave it out to start uniformly")
    return e / size
