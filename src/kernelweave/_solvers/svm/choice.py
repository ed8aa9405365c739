"""Which method solves a dual QP: by the form of the kernel, and by seconds where two would do.

    smo               an n × n array; pair steps and shrinking
    interior_point    K = FFᵀ + τI: STEPS steps of n·R² operations and some passes over F; asked
                      for without a factor, products with K and conjugate gradients
    linear_system     no variable has a bound
    chunks            neither an array nor a useful factor: smo on some rows at a time

Under a factor the interior point method takes STEPS·(n·R²·PRODUCT + PASSES·n·R·ENTRY) seconds, and
pair steps n²·R·PRODUCT to have the entries and n²·PAIR to use them. The constants are measured by
``benchmarks/speed/solver_choice.py``; only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter

import numpy as np

from kernelweave._core.types import Array
from kernelweave._solvers.svm import chunks, interior_point, linear_system, smo
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks._passes import frozen
from kernelweave.stacks.protocol import CombinedKernel
from kernelweave.stacks.resources import require_memory

SOLVERS = ("auto", "smo", "interior_point", "chunks")
STEPS, PASSES = 12, 10
PRODUCT = 3e-11  # seconds of a multiplication and addition in a product of matrices
ENTRY = 6e-10  # seconds of an entry of F in a product with a vector
PAIR = 4e-8  # seconds of pair steps for each entry of K


def choose(K: CombinedKernel, qp: DualQP) -> str:
    """The method that "auto" means for this kernel."""
    if K.is_dense:
        return "smo"
    if K.has_landmarks and not qp.is_hard:  # its products cost less than its rows
        return "interior_point"
    low = interior_point.suits(K, qp)
    if low is None:
        return "chunks"
    n, R = low[0].shape
    by_factor = STEPS * (n * R * R * PRODUCT + PASSES * n * R * ENTRY)
    return "interior_point" if by_factor <= n * n * (R * PRODUCT + PAIR) else "chunks"


def solve(
    solver: str,
    K: CombinedKernel,
    qps: Sequence[DualQP],
    starts: Sequence[Array] | None,
    tol: float,
    tick: Callable[[], None] | None = None,
    exact: bool = False,
) -> list[smo.Inner]:
    """All dual QPs to a relative gap ``tol``, by the method asked for.

    Without bounds a linear system is all that there is to solve, and QPs share what is factored.
    """
    linear: list[smo.Inner | None] = [None] * len(qps)
    if any(map(attrgetter("is_unbounded"), qps)):
        linear = linear_system.solve(K, qps, tol, tick)
    inners = []
    for qp, start, found in zip(qps, starts or repeat(None), linear, strict=False):
        method = choose(K, qp) if solver == "auto" else solver
        if found is not None:
            inners.append(found)
        elif method == "smo":
            whole = K.dense() if K.is_dense else _written_out(K)
            inners.append(smo.solve(whole, qp, start, tol, tick, exact=exact))
        else:
            first, done = start, False
            if method == "interior_point":
                inner, gap = _interior_point(K, qp, tol, tick)
                first, done = inner.v, gap <= tol  # else rounding ended it: rows go on from there
            inners.append(inner if done else chunks.solve(K, qp, first, tol, tick))
    return inners


def _interior_point(
    K: CombinedKernel, qp: DualQP, tol: float, tick: Callable[[], None] | None
) -> tuple[smo.Inner, float]:
    """On a factor, or by products where there is none."""
    low = interior_point.suits(K, qp)
    if low is not None:
        return interior_point.solve(*low, qp, 0.5 * tol, tick)
    if qp.is_hard:
        raise ValueError(
            "solver='interior_point' needs a finite C; solver='auto' takes what there is."
        )
    return interior_point.solve_by_products(K, qp, 0.5 * tol, tick)


def _written_out(K: CombinedKernel) -> Array:
    """K as an array, where there is room."""
    require_memory(1, K.n, np.dtype(np.float64))
    every = np.arange(K.n)
    found = K.block(every, every)
    return frozen(np.multiply(0.5, found + found.T))
