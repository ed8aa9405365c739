"""Problems put together by hand, and the pair that a learner is given."""

from __future__ import annotations

import numpy as np

from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import as_loss
from kernelweave.problems.problem import Formulation, Problem, Task
from kernelweave.problems.weight_sets import Simplex, WeightSet
from kernelweave.solving import Progress
from kernelweave.stacks.completed import as_stack


def problem_of(K, *qps: DualQP, weight_set: WeightSet | None = None) -> Problem:
    """The problem of these dual QPs, all rows labeled, by default over the simplex.

    Its task has the labels that the signs of the linear terms are.
    """
    stack = as_stack(K)
    signs = [np.sign(qp.linear[: qp.n]) for qp in qps]
    task = Task(signs[0] if len(qps) == 1 else np.column_stack(signs), as_loss("hinge"), "hinge")
    formulation = Formulation(qps, np.ones(stack.n, dtype=bool), 1.0, task)
    return Problem(formulation, stack, stack, weight_set or Simplex(np.ones(stack.m)))


def opened(problem: Problem, own: bool = False) -> tuple[Evaluator, Incumbent]:
    """Evaluator and incumbent, as ``learn`` opens them; ``own``: for learners that settle."""
    evaluator = Evaluator(problem, Progress(problem))
    incumbent = Incumbent(evaluator.first_bound())
    if not own:
        evaluator.watch = incumbent.offer
    return evaluator, incumbent
