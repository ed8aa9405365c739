"""Which method solves a dual QP: by the form of the kernel, and by seconds where two would do.

    smo               an n × n array; pair steps and shrinking
    interior_point    K = FFᵀ + τI: STEPS steps of n·R² operations and some passes over F; asked
                      for without a factor, products with K and conjugate gradients
    chunks            neither an array nor a useful factor: smo on some rows at a time

Under a factor the interior point method takes STEPS·(n·R²·PRODUCT + PASSES·n·R·ENTRY) seconds, and
pair steps n²·R·PRODUCT to have the entries and n²·PAIR to use them. The constants are measured by
``benchmarks/speed/solver_choice.py``; only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelweave._core.checks import check_choice
from kernelweave._core.types import Array
from kernelweave._solvers.svm import chunks, interior_point, smo
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks.memory import require_memory
from kernelweave.stacks.protocol import CombinedKernel
from kernelweave.stacks.validation import frozen

SOLVERS = ("auto", "smo", "interior_point", "chunks")
STEPS, PASSES = 12, 10
PRODUCT = 3e-11  # seconds of a multiplication and addition in a product of matrices
ENTRY = 6e-10  # seconds of an entry of F in a product with a vector
PAIR = 4e-8  # seconds of pair steps for each entry of K


def check_solver(solver: Any) -> str:
    """``solver``, if it is one."""
    check_choice("solver", solver, SOLVERS)
    return str(solver)


def choose(K: CombinedKernel, qp: DualQP) -> str:
    """The method that "auto" means for this kernel."""
    if K.is_dense:
        return "smo"
    low = interior_point.suits(K, qp)
    if low is None:  # a kernel that factors itself has products that cost less than its rows
        own = hasattr(K, "landmark_factor") and not qp.is_hard
        return "interior_point" if own else "chunks"
    n, R = low[0].shape
    by_factor = STEPS * (n * R * R * PRODUCT + PASSES * n * R * ENTRY)
    return "interior_point" if by_factor <= n * n * (R * PRODUCT + PAIR) else "chunks"


def solve(
    solver: str,
    K: CombinedKernel,
    qp: DualQP,
    start: Array | None,
    tol: float,
    tick: Callable[[], None] | None = None,
    exact: bool = False,
) -> smo.Inner:
    """The dual QP to a relative gap ``tol``, by the method asked for."""
    method = choose(K, qp) if solver == "auto" else solver
    if method == "smo":
        return smo.solve(_array(K), qp, start, tol, tick, exact=exact)
    if method == "interior_point":
        low = interior_point.suits(K, qp)
        if low is None and qp.is_hard:
            raise ValueError(
                "solver='interior_point' needs a finite C; solver='auto' takes what there is."
            )
        if low is None:
            inner, gap = interior_point.solve_by_products(K, qp, 0.5 * tol, tick)
        else:
            inner, gap = interior_point.solve(*low, qp, 0.5 * tol, tick)
        if gap <= tol:
            return inner
        start = inner.v  # rounding ended it: rows go on from there
    return chunks.solve(K, qp, start, tol, tick)


def _array(K: CombinedKernel) -> Array:
    """K as an array, written out where it is none and there is room."""
    if K.is_dense:
        return K.dense()
    require_memory(1, K.n, np.dtype(np.float64))
    every = np.arange(K.n)
    found = K.block(every, every)
    return frozen(np.multiply(0.5, found + found.T))
