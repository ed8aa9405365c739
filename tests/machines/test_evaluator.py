"""The evaluator's bounds stay what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
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


def test_a_kernel_at_the_same_weights_is_combined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that goes on from a solution judges it first, and then solves at its weights."""
    problem = dense(0)
    evaluator, _ = opened(problem_of(problem.K, hinge(problem.y, problem.C)))
    calls, combined = [], type(evaluator.stack).combined

    def counted(stack: Any, weights: Any) -> Any:
        calls.append(weights)
        return combined(stack, weights)

    monkeypatch.setattr(type(evaluator.stack), "combined", counted)
    e = evaluator.weight_set.uniform()
    judged = evaluator.judge(e, evaluator.machine.feasible())
    solved = evaluator.solve(e, 1e-6)
    assert len(calls) == 1 and solved.K is judged.K
    other = np.eye(e.size)[0]
    assert evaluator.solve(other, 1e-6).K is not judged.K and len(calls) == 2
