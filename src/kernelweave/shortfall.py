"""What is said of a fit that falls short of its tolerance, and what to do about it."""

from __future__ import annotations

import numpy as np

from kernelweave._core.tolerances import COINCIDE
from kernelweave._core.warnings import warn_unconverged
from kernelweave.learners.base import Learner, Step
from kernelweave.machines.evaluator import Incumbent
from kernelweave.problems.problem import Problem
from kernelweave.solution import Solution

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


def is_zero(incumbent: Incumbent, problem: Problem) -> bool:
    """Whether nothing is known of the optimum but that it is 0 up to rounding.

    That of one class is −½αᵀKα with Σα = 1, and 0 where rows lie on all sides of the origin.
    That of a regression is 0 where a constant fits the targets: then only slacks of the size of
    rounding have a loss.
    """
    target = problem.formulation.loss.target
    if incumbent.best is None or incumbent.gap < 0.5 or target == "labels":
        return False
    sizes = problem.weight_set.scale * problem.stack.traces() / problem.stack.n
    nothing = 10.0 * COINCIDE * float(sizes.max())  # pair steps stall a little above COINCIDE
    if target != "nothing":
        nothing = sum(qp.loss_of_rounding() for qp in problem.qps)
    return max(abs(incumbent.best.primal), abs(incumbent.bound.value)) <= nothing


def warn_of_gap(solution: Solution, last: Step, learner: Learner, tol: float, why: str) -> None:
    """Say by how much ``tol`` is missed after the ``last`` step, and what helps."""
    what, reached = "duality gap", solution.gap
    missed, knob = f"not tol={tol:g}", "tol"
    if last.status == "rule_unmet":
        missed, knob = f"and the stopping rule of {learner!r} is not met", "its tolerances"
    elif reached <= tol:
        what, reached = "stationarity", last.stationarity
    warn_unconverged(
        f"the {what} reached is {reached:.2g}, {missed} (status {solution.status!r} after "
        f"{solution.n_iter} iterations, {solution.n_svm_solves} SVM solves); "
        f"{_ADVICE[why].format(knob)}"
    )


def warn_of_digits(tol: float, precision: np.dtype) -> None:
    """Say that ``tol`` asks for more digits than the kernels have."""
    warn_unconverged(
        f"tol={tol:g} is below the rounding of {precision} kernels, {np.finfo(precision).eps:.1g}: "
        "the gap holds for the kernels as rounded; use a larger tol"
        + ", or float64"
        * (precision == np.float32)
    )
