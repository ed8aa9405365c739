"""``learn``: kernels and labels in, certified solution out.

A learner moves the weights, an oracle solves the machine at them; the loop here stops on the
oracle's gap, keeps the history and speaks to the user.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_number, check_vector
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave.learners import make_learner
from kernelweave.learners.base import Learner, check_supported
from kernelweave.learners.uniform import Uniform
from kernelweave.machines.oracle import Oracle
from kernelweave.problems.problem import Problem, make_problem
from kernelweave.problems.weight_sets import norm
from kernelweave.solution import Solution
from kernelweave.stacks.dense import KernelStack

_ADVICE = {
    "max_iter": "raise max_iter, or {}",
    "stopped": "the learner could do no more: raise {}, or try another learner or kernels "
    "checked to be positive semidefinite",
}


def learn(
    K: ArrayLike | KernelStack,
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
    K : array (m, n, n) or KernelStack
        Kernel matrices, symmetric and positive semidefinite. An array is validated on every
        call, a stack was validated when it was built.
    y : array (n,)
        Labels -1 and +1; 0 for rows without a label. The machine is over the labelled rows, trace
        and semidefiniteness over all; ``coef`` is 0 for the others, and K @ coef + bias is the
        transduction [lanckriet2004, eq. 17].
    C : float, array (n,) or "learn"
        Cost of a slack, one for all or, with the hinge, one a row; ``inf`` is the hard margin.
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
        Threads for passes over the kernels; -1 is one a core. Results do not depend on it.
    verbose : int
        1 prints a line an iteration to standard error.

    Returns
    -------
    Solution
        With a certificate computed from the data. A ``ConvergenceWarning`` says when ``tol`` was
        not reached.
    """
    began = time.perf_counter()
    made = check_options(learner, C, weight_norm, tol, max_iter)
    stack = K if isinstance(K, KernelStack) else KernelStack(K, n_jobs=n_jobs)
    stack = stack if n_jobs is None else stack.threaded(n_jobs)
    problem = make_problem(stack, y, C, loss, weight_norm, trace, recenter, ridge, made.signed)

    e = _starting_weights(start, problem, made)
    progress = _Progress(problem, began, verbose)
    whole = problem.whole
    oracle = Oracle(problem.stack, problem.qp, problem.weight_set, progress.tick, whole)
    sign, rows = problem.qp.linear, problem.rows
    if isinstance(start, Solution):
        if made.objective == "margin" and not made.signed:
            oracle.resume(e, sign * start.alpha[rows], sign * start.dual_alpha[rows])
        else:
            oracle.warm(sign * start.dual_alpha[rows])
    if problem.stack.m == 1 and made.objective == "margin" and not made.reports:
        made = Uniform()  # nothing to choose
    status = _drive(made, oracle, e, float(tol), max_iter, progress)

    best = oracle.finish(tol)
    coef = best.scale * best.v
    weights = problem.weight_set.scale * best.e
    if problem.learns_C:
        weights, tau = weights[:-1], float(weights[-1])
        C = 1.0 / tau if tau > 0.0 else np.inf
    costs = np.array(C, dtype=float)
    solution = Solution(
        weights=weights,
        coef=problem.spread(coef),
        alpha=problem.spread(sign * coef),
        dual_alpha=problem.spread(sign * oracle.dual_v),
        bias=best.bias,
        primal=best.primal,
        dual=oracle.dual,
        gap=oracle.gap,
        C=float(costs) if costs.ndim == 0 else costs,
        status="optimal" if oracle.reached(tol) else status,
        n_iter=len(progress.gaps),
        n_svm_solves=oracle.n_solves,
        history=progress.history(),
        seconds=time.perf_counter() - began,
        extras=dict(oracle.extras),
    )
    _warn_unless_optimal(solution, made, oracle, tol)
    return solution


def check_options(
    learner: str | Learner, C: object, weight_norm: float | None, tol: float, max_iter: int
) -> Learner:
    """Complain, before any work, about what needs no kernels to be judged; returns the learner."""
    made = make_learner(learner)
    check_supported(made, C, weight_norm)
    check_number("tol", tol)
    check_number("max_iter", max_iter, int)
    return made


def _warn_unless_optimal(solution: Solution, made: Learner, oracle: Oracle, tol: float) -> None:
    """Say by how much ``tol`` is missed, or that it asks for more digits than the kernels have."""
    precision = oracle.stack.precision
    if solution.status != "optimal":
        what, reached = "duality gap", solution.gap
        missed, knob = f"not tol={tol:g}", "tol"
        if oracle.met is not None:
            missed, knob = f"and the stopping rule of {made!r} is not met", "its tolerances"
        elif reached <= tol:
            what, reached = "stationarity", solution.extras["stationarity"]
        warn_unconverged(
            f"the {what} reached is {reached:.2g}, {missed} (status "
            f"{solution.status!r} after {solution.n_iter} iterations, {solution.n_svm_solves} SVM "
            f"solves); {_ADVICE[solution.status].format(knob)}"
        )
    elif oracle.met is None and tol < (rounding := np.finfo(precision).eps):
        warn_unconverged(
            f"tol={tol:g} is below the rounding of {precision} kernels, {rounding:.1g}: "
            "the gap holds for the kernels as rounded; use a larger tol"
            + ", or float64"
            * (precision == np.float32)
        )


def _drive(
    learner: Learner, oracle: Oracle, e: Array, tol: float, max_iter: int, progress: _Progress
) -> str:
    """Run the learner until the certificate, its own rule, or patience ends it."""
    if oracle.gap <= tol and not learner.reports:
        progress.record(oracle)
        return "optimal"
    least, since = np.inf, 0
    for _ in learner.iterate(oracle, e, tol):
        progress.record(oracle)
        if oracle.reached(tol):
            return "optimal"
        if len(progress.gaps) >= max_iter:
            return "max_iter"
        least, since = (oracle.gap, 0) if oracle.gap < 0.99 * least else (least, since + 1)
        if since >= learner.patience:
            return "stopped"
    return "stopped"


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


@dataclass
class _Progress:
    """The history of a fit, and what a patient user sees of it."""

    problem: Problem
    began: float
    verbose: int
    weights: list[Array] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    solves: list[int] = field(default_factory=list)
    spoke: float = 0.0

    def record(self, oracle: Oracle) -> None:
        """One iteration is done."""
        assert oracle.best is not None
        weights = oracle.weight_set.scale * oracle.best.e
        self.weights.append(weights[:-1] if self.problem.learns_C else weights)
        self.objectives.append(oracle.best.primal)
        self.gaps.append(oracle.gap)
        self.seconds.append(time.perf_counter() - self.began)
        self.solves.append(oracle.n_solves)
        if self.verbose:
            self.spoke = self.seconds[-1]
            sys.stderr.write(
                f"[kernelweave] iteration {len(self.gaps)}: objective {oracle.best.primal:.6g}, "
                f"gap {oracle.gap:.2e}, {np.count_nonzero(oracle.best.e)} kernels, "
                f"{oracle.n_solves} solves, {self.seconds[-1]:.1f} s\n"
            )

    def tick(self) -> None:
        """Called often during a long inner solve."""
        if self.verbose and (now := time.perf_counter() - self.began) - self.spoke > 2.0:
            self.spoke = now
            sys.stderr.write(f"[kernelweave] solving an SVM, {now:.0f} s\n")

    def history(self) -> dict[str, Array]:
        """Arrays by name, one entry an iteration."""
        return {
            "weights": np.array(self.weights),
            "objective": np.array(self.objectives),
            "gap": np.array(self.gaps),
            "seconds": np.array(self.seconds),
            "n_svm_solves": np.array(self.solves),
        }
