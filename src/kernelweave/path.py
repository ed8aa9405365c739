"""The regularization path: one problem for many C, each started from its neighbor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats
from kernelweave.learning import learn
from kernelweave.problems.losses import check_C
from kernelweave.solution import Solution
from kernelweave.stacks.defaults import as_stack
from kernelweave.stacks.protocol import Stack


def regularization_path(
    K: ArrayLike | Stack, y: ArrayLike, Cs: ArrayLike, **options: Any
) -> list[Solution]:
    """Solutions for every C in ``Cs``, in their order, each with its own certificate.

    They are solved from the largest C down, weights and dual variables handed on
    [rakoto2007, §3.1]. ``options`` are those of ``learn``; ``start`` is used for the largest C.
    """
    if "C" in options:
        raise TypeError("C is given twice: regularization_path takes its values from Cs")
    values = check_floats("Cs", Cs)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"Cs must be a list of numbers, found shape {values.shape}")
    for value in values:
        check_C(value, 0)
    stack = as_stack(K)
    start = options.pop("start", None)
    solutions: dict[int, Solution] = {}
    for place in np.argsort(-values, kind="stable"):
        start = learn(stack, y, C=float(values[place]), start=start, **options)
        solutions[int(place)] = start
    return [solutions[k] for k in range(values.size)]
