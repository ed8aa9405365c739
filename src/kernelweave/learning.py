"""``learn``: kernels and labels in, certified solution out.

A learner moves the weights, the evaluator solves the machine at them, the incumbent keeps the best
bounds. The loop here drives the three, stops on the gap, and speaks to the user.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_number, check_vector
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave.learners import make_learner
from kernelweave.learners.base import Learner, Step, check_able, check_supported
from kernelweave.learners.uniform import Uniform
from kernelweave.machines.evaluator import Evaluator
from kernelweave.machines.incumbent import Incumbent
from kernelweave.problems.problem import Problem, make_formulation
from kernelweave.problems.weight_sets import norm
from kernelweave.progress import Progress
from kernelweave.solution import Solution
from kernelweave.stacks.defaults import as_stack
from kernelweave.stacks.protocol import Stack

_ADVICE = {
    "max_iter": "raise max_iter, or {}",
    "stopped": "the learner could do no more: raise {}, or try another learner or kernels "
    "checked to be positive semidefinite",
}


def learn(
    K: ArrayLike | Stack,
    y: ArrayLike,
    C: ArrayLike | str = 1.0,
    learner: str | Learner = "auto",
    loss: str = "hinge",
    weight_norm: float | None = 1,
    tol: float = 1e-3,
    start: Solution | ArrayLike | None = None,
    *,
    trace: float | None = None,
    recenter: bool = False,
    ridge: float = 0.0,
    max_iter: int = 1000,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Solution:
    """Learn kernel weights and the support vector machine that uses them.

    Parameters
    ----------
    K : array (m, n, n), KernelStack or another stack
        Kernel matrices, symmetric and positive semidefinite. An array is validated on every
        call, a stack was validated when it was built. Any object that keeps the protocol of
        ``kernelweave.stacks.protocol`` will do.
    y : array (n,)
        Labels -1 and +1; 0 for rows without a label. The machine is over the labelled rows, trace
        and semidefiniteness over all; ``coef`` is 0 for the others, and K @ coef + bias is the
        transduction [lanckriet2004, eq. 17].
    C : float, array (n,) or "learn"
        Cost of a slack, one for all or, with the hinge, one per row; ``inf`` is the hard margin.
        "learn", with the squared hinge: 1/C is learnt as the weight of the identity, under a
        trace constraint that counts it in; ``Solution.C`` is what was learnt, infinite where no
        ridge helps.
    learner : str or learner object
        "auto" (Newton), "newton", "simple", "skm", "silp", "alternate", "qcqp", "uniform", "sdp",
        "alignment", "radius", "radius_bound", or an object with knobs of its own, such as
        ``Radius("gradient")`` after ``from kernelweave.learners import Radius``. "sdp" learns
        weights of either sign under a trace constraint (see ``trace``).
    loss : "hinge" or "squared_hinge"
        C Σξ or (C/2) Σξ².
    weight_norm : float or None
        p ≥ 1 (``inf`` too): weights in the unit ℓp ball; 1 is the simplex, and sparse. None, with
        ``radius`` only: no constraint but d ≥ 0; weights are then those of a ball of radius 1.
    tol : float
        Relative duality gap to reach.
    start : Solution or array (m,), optional
        Where to continue from: an earlier solution (other C allowed) or kernel weights.
    trace : float, optional
        Replaces Σd = 1 by Σ d_m tr K_m = trace. Signed weights always have this constraint; the
        mean trace is its default.
    recenter : bool
        Replaces Σd = 1 by Σ d_m T(K_m) = trace, T(K) = tr K − 1ᵀK1/n the trace that K has once
        centred [chapelle2008, eq. 1]; without ``trace``, the mean of the T(K_m).
    ridge : float
        Added to the diagonal of the combined kernel; makes J(d) differentiable
        [rakoto2007, §1.2.1]. Predictions use the kernel without it.
    max_iter : int
        Iterations of the learner.
    n_jobs : int, optional
        Threads for passes over the kernels; -1 is one per core. Results do not depend on it.
    verbose : int
        1 prints a line per iteration to standard error.

    Returns
    -------
    Solution
        With a certificate computed from the data. A ``ConvergenceWarning`` says when ``tol`` was
        not reached.
    """
    began = time.perf_counter()
    made = check_options(learner, C, weight_norm, tol, max_iter)
    formulation = make_formulation(y, C, loss, weight_norm, trace, recenter, ridge, made.signed)
    stack = as_stack(K)
    problem = formulation.on(stack if n_jobs is None else stack.threaded(n_jobs))
    return solve(problem, made, tol, start, max_iter, Progress(problem, verbose, began))


def check_options(
    learner: str | Learner, C: object, weight_norm: float | None, tol: float, max_iter: int
) -> Learner:
    """Complain, before any work, about what needs no kernels to be judged; returns the learner."""
    made = make_learner(learner)
    check_supported(made, C, weight_norm)
    check_number("tol", tol)
    check_number("max_iter", max_iter, int)
    return made


def solve(
    problem: Problem,
    learner: Learner,
    tol: float = 1e-3,
    start: Solution | ArrayLike | None = None,
    max_iter: int = 1000,
    progress: Progress | None = None,
) -> Solution:
    """Solve a problem whose arguments were checked; what ``learn`` does once it has one."""
    check_able(learner, problem)
    e = _starting_weights(start, problem, learner)
    progress = Progress(problem) if progress is None else progress
    own = learner.objective != "margin" or learner.signed
    evaluator, incumbent = _open(problem, progress, own)
    if isinstance(start, Solution):
        _resume(evaluator, incumbent, start, e, own)
    if problem.stack.m == 1 and learner.objective == "margin" and not learner.reports:
        learner = Uniform()  # nothing to choose
    status, last = _drive(learner, evaluator, incumbent, e, float(tol), max_iter, progress)
    if incumbent.gap > tol and not own:
        _improve(evaluator, incumbent)
        status = "optimal" if _reached(evaluator, incumbent, last, tol) else status
    solution = replace(
        _solution(problem, evaluator, incumbent, status, last, progress),
        criterion={"none": "given", "alignment": "given"}.get(learner.objective, learner.objective),
    )
    _warn_unless_optimal(solution, learner, problem, last, tol)
    return solution


def _open(problem: Problem, progress: Progress, own: bool) -> tuple[Evaluator, Incumbent]:
    """Evaluator and ledger, which hears of every point unless the objective is a learner's own."""
    evaluator = Evaluator(problem, progress.tick)
    incumbent = Incumbent(evaluator.first_bound())
    if not own:
        evaluator = Evaluator(problem, progress.tick, incumbent.offer)
    return evaluator, incumbent


def _resume(
    evaluator: Evaluator, incumbent: Incumbent, start: Solution, e: Array, own: bool
) -> None:
    """Take up an earlier solution: its machine, and where J is minimized its dual point too."""
    problem, machine = evaluator.problem, evaluator.machine
    rows = problem.rows
    proof = machine.from_alpha(start.dual_alpha[..., rows])
    if own:
        evaluator.remember(proof)
    else:
        incumbent.offer_bound(evaluator.bound(proof, by="start"))
        evaluator.judge(e, machine.from_alpha(start.alpha[..., rows]))


def _drive(
    learner: Learner,
    evaluator: Evaluator,
    incumbent: Incumbent,
    e: Array,
    tol: float,
    max_iter: int,
    progress: Progress,
) -> tuple[str, Step]:
    """Run the learner until the certificate, its own rule, or patience ends it."""
    step = Step("start")
    if incumbent.gap <= tol and not learner.reports:
        progress.record(incumbent, evaluator.n_solves, step)
        return "optimal", step
    least, since = np.inf, 0
    for step in learner.iterate(evaluator, incumbent, e, tol):
        if step.settled is not None:
            incumbent.settle(*step.settled)
        reached = _reached(evaluator, incumbent, step, tol)
        progress.record(incumbent, evaluator.n_solves, step)
        if step.status == "rule_met":
            return "rule_met", step
        if reached:
            return "optimal", step
        if len(progress.gaps) >= max_iter:
            return "max_iter", step
        gap = incumbent.gap
        least, since = (gap, 0) if gap < 0.99 * least else (least, since + 1)
        if since >= learner.patience:
            return "stopped", step
    return "stopped", step


def _reached(evaluator: Evaluator, incumbent: Incumbent, step: Step, tol: float) -> bool:
    """Whether gap and stationarity are at most ``tol``, the bound evaluated exactly."""
    if step.status == "rule_unmet" or incumbent.gap > tol or step.stationarity > tol:
        return False
    bound = incumbent.bound
    if not bound.exact:
        assert incumbent.best is not None
        incumbent.settle(incumbent.best, evaluator.bound(bound.v, by=bound.by))
    return incumbent.gap <= tol


def _improve(evaluator: Evaluator, incumbent: Incumbent) -> None:
    """Scale and bias of f chosen anew, and the bound evaluated exactly, where the gap is open."""
    best, bound = incumbent.best, incumbent.bound
    assert best is not None
    if not bound.exact:
        bound = evaluator.bound(bound.v, by=bound.by)
    incumbent.settle(replace(best, answer=evaluator.machine.improved(best.answer)), bound)


def _solution(
    problem: Problem,
    evaluator: Evaluator,
    incumbent: Incumbent,
    status: str,
    last: Step,
    progress: Progress,
) -> Solution:
    """What the user gets, over all rows and in the user's units."""
    best, bound, machine = incumbent.best, incumbent.bound, evaluator.machine
    assert best is not None
    weights = problem.weight_set.scale * best.e
    C = problem.formulation.C
    if problem.learns_C:
        weights, tau = weights[:-1], float(weights[-1])
        C = 1.0 / tau if tau > 0.0 else np.inf
    costs = np.array(C, dtype=float)
    coef, alpha, bias = machine.model(best.answer)
    return Solution(
        weights=weights,
        coef=problem.to_all_rows(coef),
        alpha=problem.to_all_rows(alpha),
        dual_alpha=problem.to_all_rows(machine.alpha(bound.v)),
        bias=bias,
        primal=best.primal,
        dual=bound.value,
        gap=incumbent.gap,
        C=float(costs) if costs.ndim == 0 else costs,
        status=status,
        n_iter=len(progress.gaps),
        n_svm_solves=evaluator.n_solves,
        history=progress.history(),
        seconds=progress.seconds_so_far(),
        extras=dict(last.extras),
        problem=problem,
    )


def _warn_unless_optimal(
    solution: Solution, learner: Learner, problem: Problem, last: Step, tol: float
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
            f"solves); {_ADVICE[solution.status].format(knob)}"
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
        check_vector("start.alpha", start.alpha, problem.whole.n)
        tau = 1.0 / start.C if isinstance(start.C, float) else None
    else:
        weights = check_vector("start", start, m)
    if weights.min() < 0.0 and not learner.signed:
        raise ValueError(f"start must hold weights ≥ 0, found {weights.min():g}")
    if problem.learns_C:
        weights = np.append(weights, weights.mean() if tau is None else tau)
    scale = weight_set.scale
    e = np.divide(weights, scale, out=np.zeros_like(weights), where=scale > 0.0)
    size = float(e.sum()) if learner.signed else norm(e, weight_set.norm)
    if not size > 0.0:
        found = "weights of trace ≤ 0" if e.any() else "only zero weights"
        raise ValueError(f"start holds {found}; leave it out to start uniformly")
    return e / size
