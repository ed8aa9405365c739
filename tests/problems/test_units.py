"""Standard units: the power of two nearest to the mean size of the kernels."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import KernelStack
from kernelweave.problems.problem import make_problem

Y = np.repeat([-1.0, 1.0], 3)


@pytest.mark.parametrize(
    ("size", "unit"), [(1.0, 1.0), (1 - 1e-9, 1.0), (1 + 1e-9, 1.0), (0.6, 0.5), (3.0, 4.0)]
)
def test_kernels_of_size_one_keep_their_unit(size, unit):
    """However the mean diagonal was rounded; a single kernel is then combined without a copy."""
    stack = KernelStack([size * np.eye(6)])
    inner = make_problem(stack, Y).in_standard_units()
    assert inner.unit == unit
    combined = inner.stack.combined(inner.weight_set.scale)
    assert np.shares_memory(combined.dense(), stack.combine([1.0])) is (unit == 1.0)
