"""Weights to begin with: those that are given, or those of some rows where there are many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_vector
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array
from kernelweave.problems.problem import Problem
from kernelweave.solution import Solution

_RUNGS_OF_FACTORS = 2  # a few thousand rows are an array, on which kinks are passed quickly
_RUNGS = 10  # of a ladder of samples, each of five times the rows of the last


def unit_weights(start: Solution | ArrayLike, problem: Problem) -> Array:
    """Unit weights of an earlier solution, or of kernel weights."""
    weight_set, m, tau = problem.weight_set, problem.stack.m - problem.learns_C, None
    signed = problem.formulation.signed
    if isinstance(start, Solution):
        weights = check_vector("start.weights", start.weights, m)
        shape = np.shape(start.alpha)
        expected = (len(problem.qps), problem.whole.n) if problem.is_sum else (problem.whole.n,)
        if shape != expected:
            raise ValueError(f"start.alpha must have shape {expected}, found {shape}")
        tau = 1.0 / start.C if isinstance(start.C, float) else None
    else:
        weights = check_vector("start", start, m)
    if weights.min() < 0.0 and not signed:
        raise ValueError(f"start must hold weights ≥ 0, found {weights.min():g}")
    if problem.learns_C:
        weights = np.append(weights, weights.mean() if tau is None else tau)
    scale = weight_set.scale
    e = np.divide(weights, scale, out=np.zeros_like(weights), where=scale > 0.0)
    size = float(e.sum()) if signed else weight_set.size(e)
    if not size > 0.0:
        found = "weights of trace ≤ 0" if e.any() else "only zero weights"
        raise ValueError(f"start holds {found}; leave it out to start uniformly")
    return e / size


def weights_of_sample(
    problem: Problem, seed: int, learned: Callable[[Problem, Array | None], Array]
) -> Array | None:
    """Weights ``learned`` on some of the rows where they are many; None where not.

    A machine on all rows takes longer by as much as they are more, at least, and the weights depend
    on it little. Large samples begin with the weights of smaller ones. The certificate is over all
    rows.
    """
    sizes, full_rank = _sample_sizes(problem)
    order = np.random.default_rng(seed).permutation(problem.stack.n)
    weights = None
    for size in sizes:
        weights = learned(problem.on_sample(np.sort(order[:size]), full_rank), weights)
    return weights


def _sample_sizes(problem: Problem) -> tuple[list[int], bool]:
    """How many rows to begin with, smaller samples first; whether the kernels have a full rank.

    Samples of an array are as large as pays. Others are as large as their arrays can be; there is a
    ladder of them where machines are solved on factors, or by products with K(d).
    """
    stack, times = problem.stack, SETTINGS.sample_times
    most, least = stack.n // times, SETTINGS.sample_least
    if stack.m == 1 or problem.learns_C or any(qp.is_hard for qp in problem.qps):
        return [], False
    if stack.combined(np.zeros(stack.m)).is_dense:
        sizes = [most // times**rung for rung in reversed(range(_RUNGS))]
        return [size for size in sizes if size >= least], True
    if most < SETTINGS.sample_rows:
        return [], False
    K = stack.combined(problem.weight_set.uniform())
    full_rank = K.factor() is None
    rungs = _RUNGS if K.has_landmarks else 1 if full_rank else _RUNGS_OF_FACTORS
    sizes = [SETTINGS.sample_rows * 5**rung for rung in range(rungs)]
    return [size for size in sizes if size <= most], full_rank
