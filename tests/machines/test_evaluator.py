"""The evaluator's bounds stay what they were."""

from __future__ import annotations

import numpy as np
from _helpers.opened import opened, problem_of
from _helpers.references import dense

from kernelweave.problems.losses import hinge


def test_a_bound_keeps_its_own_q() -> None:
    """Learners that write the next q over the last must not change what was proven."""
    problem = dense(0)
    evaluator, _ = opened(problem_of(problem.K, hinge(problem.y, problem.C)))
    point = evaluator.solve(evaluator.weight_set.uniform(), 1e-3)
    q = point.q.copy()
    bound = evaluator.bound(point.v, q)
    q[:] = 0.0
    np.testing.assert_array_equal(bound.q, point.q)
