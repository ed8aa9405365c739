"""``learn``: kernels and labels in, certified solution out.

    min_{d ∈ D}  J(d),    J(d) = max_v  cᵀv − ½ρ‖v‖² − ½ Σ_m d_m vᵀK_m v

over the feasible v of the loss's dual QP; D is the simplex, Σ d_m tr K_m = c, or an ℓp ball.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .certificate import check_vector, check_weights
from .kernels.stack import KernelStack
from .learners import make_learner
from .learners.base import Learner
from .problems.dual_qp import relative_gap
from .problems.losses import lower
from .problems.weight_sets import WeightSet, make_weight_set
from .solution import Solution
from .solvers.oracle import Oracle

Array = NDArray[np.float64]

_STALL = 200  # iterations without a smaller gap after which a learner is stopped


def learn(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    learner: str | Learner = "auto",
    loss: str = "hinge",
    weight_norm: float = 1,
    tol: float = 1e-3,
    start: Solution | ArrayLike | None = None,
    *,
    trace: float | None = None,
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
        Labels -1 and +1.
    C : float or array (n,)
        Cost of a slack, one for all or one a row; ``inf`` is the hard margin.
    learner : str or learner object
        "auto", "simple", "silp", "alternate", "uniform", or an object from
        ``kernelweave.learners`` with knobs of its own.
    loss : "hinge" or "squared_hinge"
        C Σξ or (C/2) Σξ².
    weight_norm : float
        1: weights on the simplex.
    tol : float
        Relative duality gap to reach.
    start : Solution or array (m,), optional
        Where to continue from: an earlier solution (other C allowed) or kernel weights.
    trace : float, optional
        Replaces Σd = 1 by Σ d_m tr K_m = trace.
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
    stack = K if isinstance(K, KernelStack) else KernelStack(K)  # type: ignore[arg-type]
    if n_jobs is not None:
        stack = stack.threaded(n_jobs)
    made = make_learner(learner)
    qp = lower(y, stack.n, C, loss, ridge)
    weight_set = make_weight_set(stack.traces(), weight_norm, trace)
    if weight_set.norm != 1.0:
        raise ValueError(f"weight_norm must be 1, found {weight_norm!r}")
    _check_number("tol", tol, float)
    _check_number("max_iter", max_iter, int)

    e, guess = _starting_point(start, stack, weight_set, qp.linear)
    progress = _Progress(weight_set, began, verbose)
    oracle = Oracle(stack, qp, weight_set, guess, progress.tick)
    status = _drive(made, oracle, e, float(tol), max_iter, progress)

    best = oracle.finish(tol)
    coef = best.scale * best.v
    solution = Solution(
        weights=weight_set.scale * best.e,
        coef=coef,
        alpha=qp.linear * coef,
        dual_alpha=qp.linear * oracle.dual_v,
        bias=best.bias,
        primal=best.primal,
        dual=oracle.dual,
        gap=relative_gap(best.primal, oracle.dual),
        status="optimal" if oracle.gap <= tol else status,
        n_iter=len(progress.gaps),
        n_svm_solves=oracle.n_solves,
        history=progress.history(),
        seconds=time.perf_counter() - began,
    )
    if solution.status != "optimal":
        _warn(solution, tol)
    return solution


def _drive(
    learner: Learner, oracle: Oracle, e: Array, tol: float, max_iter: int, progress: _Progress
) -> str:
    """Run the learner until the certificate, its own rule, or patience ends it."""
    least, since = np.inf, 0
    for _ in learner.iterate(oracle, e, tol):
        progress.record(oracle)
        if oracle.gap <= tol:
            return "optimal"
        if len(progress.gaps) >= max_iter:
            return "max_iter"
        least, since = (oracle.gap, 0) if oracle.gap < 0.99 * least else (least, since + 1)
        if since >= _STALL:
            return "stopped"
    return "stopped"


def _starting_point(
    start: Solution | ArrayLike | None, stack: KernelStack, weight_set: WeightSet, sign: Array
) -> tuple[Array, Array | None]:
    """Unit weights and signed variables to begin with."""
    if start is None:
        return weight_set.uniform(), None
    guess = None
    if isinstance(start, Solution):
        weights = check_vector("start.weights", start.weights, stack.m)
        guess = sign * check_vector("start.dual_alpha", start.dual_alpha, stack.n)
    else:
        weights = check_weights(start, stack.m, weight_set)
    e = weights / weight_set.scale
    size = np.linalg.norm(e, weight_set.norm)
    if not size > 0.0:
        raise ValueError("start holds only zero weights; leave it out to start uniformly")
    return e / size, guess


def _check_number(name: str, x: object, kind: type) -> None:
    kinds = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
    if isinstance(x, bool) or not isinstance(x, kinds):
        raise TypeError(f"{name} must be a positive {kind.__name__}, found {x!r}")
    if not x > 0:  # type: ignore[operator]
        raise ValueError(f"{name} must be positive, found {x!r}")


def _warn(solution: Solution, tol: float) -> None:
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"the duality gap reached is {solution.gap:.2g}, not tol={tol:g} "
        f"(status {solution.status!r} after {solution.n_iter} iterations, "
        f"{solution.n_svm_solves} SVM solves); raise max_iter or tol",
        ConvergenceWarning,
        stacklevel=3,
    )


@dataclass
class _Progress:
    """The history of a fit, and what a patient user sees of it."""

    weight_set: WeightSet
    began: float
    verbose: int
    weights: list[Array] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    solves: list[int] = field(default_factory=list)
    spoke: float = 0.0
    say: Callable[[str], object] = sys.stderr.write

    def record(self, oracle: Oracle) -> None:
        """One iteration is done."""
        assert oracle.best is not None
        self.weights.append(self.weight_set.scale * oracle.best.e)
        self.objectives.append(oracle.best.primal)
        self.gaps.append(oracle.gap)
        self.seconds.append(time.perf_counter() - self.began)
        self.solves.append(oracle.n_solves)
        if self.verbose:
            self.spoke = self.seconds[-1]
            self.say(
                f"[kernelweave] iteration {len(self.gaps)}: objective {oracle.best.primal:.6g}, "
                f"gap {oracle.gap:.2e}, {np.count_nonzero(oracle.best.e)} kernels, "
                f"{oracle.n_solves} solves, {self.seconds[-1]:.1f} s\n"
            )

    def tick(self) -> None:
        """Called often during a long inner solve."""
        if self.verbose and (now := time.perf_counter() - self.began) - self.spoke > 2.0:
            self.spoke = now
            self.say(f"[kernelweave] solving an SVM, {now:.0f} s\n")

    def history(self) -> dict[str, Array]:
        """Arrays by name, one entry an iteration."""
        return {
            "weights": np.array(self.weights),
            "objective": np.array(self.objectives),
            "gap": np.array(self.gaps),
            "seconds": np.array(self.seconds),
            "n_svm_solves": np.array(self.solves),
        }
