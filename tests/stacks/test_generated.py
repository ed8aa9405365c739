"""Very many kernels that are computed anew in every pass."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from kernelweave import GeneratedStack, KernelStack, learn
from kernelweave.stacks.defaults import matrices


def test_learns_what_the_matrices_learn() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=60) > 0.0, 1.0, -1.0)
    sets = [*combinations(range(6), 1), *combinations(range(6), 2)]
    stack = GeneratedStack(X, sets, widths=np.geomspace(0.3, 3.0, 5), degrees=[1, 2], trace=60.0)
    assert stack.m == 21 * 7
    low, dense = (learn(s, y, C=10.0, tol=1e-6) for s in (stack, KernelStack([*matrices(stack)])))
    assert low.gap <= 1e-6 and low.dual <= dense.primal and dense.dual <= low.primal
    np.testing.assert_allclose(stack.traces(), 60.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sets": [(0, 9)]}, "sets: index 9 is out of bounds"),
        ({"widths": [0.0]}, "widths"),
        ({"degrees": [1.5]}, "degrees"),
        ({"widths": ()}, "a width or a degree"),
        ({"X": [[np.nan]]}, "finite"),
    ],
)
def test_bad_arguments_are_named(options: dict, message: str) -> None:
    given = {"X": np.ones((4, 2)), "sets": [(0,)], "widths": [1.0]} | options
    with pytest.raises((ValueError, IndexError, TypeError), match=message):
        GeneratedStack(**given)
