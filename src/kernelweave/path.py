"""The regularization path: one problem for many C, each started from its neighbor."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats, check_number, check_positive
from kernelweave._core.types import Array
from kernelweave.learners import make_learner
from kernelweave.learners.trail import Trail
from kernelweave.learning import learn, solved
from kernelweave.problems.losses import as_loss, check_C
from kernelweave.problems.problem import Problem
from kernelweave.solution import Solution
from kernelweave.solving import Progress, solve
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.resources import advised, blas_limit, blas_threads

_OPTIONS = signature(learn)


@advised
def regularization_path(
    K: ArrayLike | Stack,
    y: ArrayLike | None,
    Cs: ArrayLike,
    *,
    factors: ArrayLike = 1.0,
    **options: Any,
) -> list[Solution]:
    """Solutions for every C in ``Cs``, in their order, each with its own certificate.

    They are solved from the largest C down, weights and dual variables handed on
    [rakoto2007, §3.1], and the newest cuts with them. Under ``weight_norm=1`` every fit but the
    first begins with Newton steps from these cuts; the learner goes on where they stall. A learner
    that stops by a rule of its own, not by the gap, makes all steps itself.

    ``options`` are those of ``learn``; ``start`` is used for the largest C, and ``max_time`` holds
    for each. The cost of row i is C·``factors[i]``, as with class weights; other than
    ``sample_weight``, this does not change how often a row counts elsewhere.
    """
    if "C" in options:
        raise TypeError("C is given twice: regularization_path takes its values from Cs")
    values = check_floats("Cs", Cs)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"Cs must be a list of numbers, found shape {values.shape}")
    asked = _OPTIONS.bind(K, y, **options)
    asked.apply_defaults()
    as_loss(asked.arguments["loss"])
    for value in values:
        check_C(value, 0, asked.arguments["loss"])
    shares = _check_factors(factors, y)
    problem: Problem | None = None
    start: Solution | None = None
    trail = Trail()
    solutions: dict[int, Solution] = {}
    for place in np.argsort(-values, kind="stable"):
        C = float(values[place]) * shares
        if problem is None:  # arguments are checked, and kernels restricted, once
            start = solved({**asked.arguments, "C": C}, trail)
            problem = start.problem
        else:
            assert start is not None
            start = _at(problem.at_cost(C), start, asked.arguments, trail)
        solutions[int(place)] = start
    return [solutions[k] for k in range(values.size)]


def _check_factors(factors: Any, y: Any) -> float | Array:
    """One positive number for all rows, or one for each entry of y."""
    if np.ndim(factors) == 0:
        return float(check_number("factors", factors))
    return check_positive("factors", factors, len(y) if np.ndim(y) else np.size(factors))


def _at(problem: Problem, start: Solution, asked: dict[str, Any], trail: Trail) -> Solution:
    """The solution of a problem that was checked already, with all options of ``learn``."""
    progress = Progress(problem, asked["verbose"], max_time=asked["max_time"])
    limits = asked["tol"], start, asked["max_iter"]
    with blas_threads(blas_limit(problem.stack.n, asked["n_jobs"])):
        return solve(problem, make_learner(asked["learner"]), *limits, progress, trail=trail)
