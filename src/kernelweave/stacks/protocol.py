"""What solvers ask of m kernels over n points: the stack protocol.

    K(d) = Σ_k d_k K_k        quad_forms(v)_k = vᵀK_k v        matvecs(v)_k = K_k v

A stack is any object with three things:

    n, m                           the number of points, and of kernels (whole numbers)
    block(kernel, rows, columns)   K_kernel at these rows and columns, as an array of float64 of
                                   shape (len(rows), len(columns)); ``kernel`` is a number from 0
                                   to m − 1, ``rows`` and ``columns`` are arrays of row numbers

The kernels must be symmetric and positive semidefinite; nobody checks that again. ``learn(stack,
y)`` then works. Everything else that ``Stack`` names has a default, computed from ``block``
(``kernelweave.stacks.defaults``). An object that knows a faster way defines the method itself, and
is asked instead.

How exactly it computes, a stack may say by five members more; none of them has to be there:

    sum_eps        the unit of the sums in ``matvecs``, ``quad_forms`` and ``combined``: by default
                   float64's, 2.2e-16
    entry_eps      how far an entry that these use may be from that of ``block``, as a share of
                   √(K_ii K_jj): 0 by default
    fine_product(kernel, rows, support, w)
                   K[rows, support]·w, for certificates, in float64 at least; by default from
                   ``block``, in extended precision
    fine_eps       the unit of its own ``fine_product``: by default float64's
    operations     roundings behind one entry of ``block``, where the kernel is something more
                   exact: the rank, for factors

``block`` and ``fine_product`` say what the kernel is that is certified.

``combined(weights)`` hands out K(d) as a ``CombinedKernel``. It does not promise that an n × n
array exists: a solver asks ``is_dense`` first, and works on blocks where that is false.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.types import Array, Index
from kernelweave.stacks.factor import Factor


class CombinedKernel(Protocol):
    """K(d) = Σ_k d_k K_k, symmetric, over n points.

    Two methods more are asked where they are there: ``landmark_factor(rank, seed)`` gives F (n,
    rank) near K(d) and the diagonal that FFᵀ leaves; ``quick_product(V, accuracy)`` gives K(d)V up
    to this relative error.
    """

    @property
    def n(self) -> int:
        """Number of points."""
        ...

    @property
    def is_dense(self) -> bool:
        """Whether ``dense`` is affordable."""
        ...

    def diagonal(self) -> Array:
        """All K(d)_ii, shape (n,)."""
        ...

    def rows(self, index: Index) -> Array:
        """Whole rows of K(d), shape (len(index), n)."""
        ...

    def block(self, rows: Index, columns: Index) -> Array:
        """K(d) at these rows and columns, a new array."""
        ...

    def __matmul__(self, v: Array) -> Array:
        """K(d) v, for one vector or the columns of (n, k)."""
        ...

    def dense(self) -> Array:
        """K(d) as an array (n, n), read-only; raises ``NotDense`` where there is none."""
        ...

    def factor(self) -> tuple[Factor, float] | None:
        """F (n, R) and τ with K(d) = FFᵀ + τI, where every part has such a factor; else None."""
        ...


class Stack(Protocol):
    """m kernels over n points. ``n``, ``m`` and ``block`` are required, the rest has defaults."""

    @property
    def n(self) -> int:
        """Number of points. Required."""
        ...

    @property
    def m(self) -> int:
        """Number of kernels. Required."""
        ...

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, float64. Required."""
        ...

    @property
    def precision(self) -> np.dtype:
        """How precise the numbers are, float64 or float32."""
        ...

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n)."""
        ...

    def traces(self) -> Array:
        """All tr K_k, shape (m,)."""
        ...

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """All vᵀK_k v, or those of some kernels."""
        ...

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """All K_k v, shape (m, n), or some rows of some of them."""
        ...

    def combined(self, weights: ArrayLike) -> CombinedKernel:
        """K(d) for these weights; kernels of weight zero are not touched."""
        ...

    def restrict(self, rows: Index) -> Stack:
        """The same kernels on some of the points, in the order of ``rows``."""
        ...

    def select(self, kernels: Index) -> Stack:
        """Some of the kernels on the same points."""
        ...

    def threaded(self, n_jobs: int | None) -> Stack:
        """The same kernels, worked on by ``n_jobs`` threads where the stack has threads."""
        ...


class NotDense(TypeError):
    """An n × n array was asked for, but this stack never holds one."""


REQUIRED = ("n", "m", "block")
OPTIONAL = (
    "precision",
    "diagonals",
    "traces",
    "quad_forms",
    "matvecs",
    "combined",
    "restrict",
    "select",
    "threaded",
)
FINER = ("sum_eps", "entry_eps", "fine_eps", "fine_product", "operations")


def stack_name(stack: Any) -> str:
    """What a stack is called in messages: the class that the user wrote, without what wraps it."""
    while (inner := getattr(stack, "wrapped", None)) is not None:
        stack = inner
    return type(stack).__name__


def operations_of(stack: Any) -> int:
    """Roundings behind one entry of ``block``, where a stack says so; else its entries are exact.

    Factors say it: their kernel is FFᵀ in exact arithmetic, and an entry is a sum of products.
    """
    while stack is not None:
        found = getattr(stack, "operations", None)
        if found is not None:
            return int(found)
        stack = getattr(stack, "wrapped", None)
    return 0


def is_stack(K: Any) -> bool:
    """Whether ``K`` keeps the required part of the protocol."""
    return all(hasattr(K, name) for name in REQUIRED)
