"""What solvers ask of m kernels over n points: the stack protocol.

    K(d) = Σ_k d_k K_k        quad_forms(v)_k = vᵀK_k v        matvecs(v)_k = K_k v

A stack is any object with three things:

    n, m                           the number of points, and of kernels (whole numbers)
    block(kernel, rows, columns)   K_kernel at these rows and columns, shape (len(rows),
                                   len(columns)); ``kernel`` is a number from 0 to m − 1

The kernels must be symmetric and positive semidefinite; nobody checks that again. ``learn(stack,
y)`` then works. Everything else that ``Stack`` names has a default, computed from ``block``. An
object that knows a faster way defines the method itself, and is asked instead; so are the views
that it hands out. Nothing beside these names is ever asked for.

``rows``, ``columns`` and ``kernels`` reach such an object as arrays of numbers (intp), or as None
where the signature has None, which means all. Vectors reach it as arrays of float64. What comes
back are new or read-only arrays of the host, which NumPy can hold: what happens in between may
happen anywhere.

How exactly it computes a stack says by four numbers, each of which may be left out:

    sum_eps      the unit of the sums in ``matvecs``, ``quad_forms`` and ``combined``: by default
                 float64's, 2.2e-16
    entry_eps    how far an entry that these use may be from that of ``block``, as a share of
                 √(K_ii K_jj): 0 by default
    fine_eps     the unit of its own ``fine_product``: by default float64's
    operations   roundings behind one entry of ``block``, where the kernel is something more exact:
                 the rank, for factors; 0 by default

``block`` and ``fine_product`` say what the kernel is that is certified.

``diagonals``, ``matvecs`` and ``fine_products`` hand out arrays (m, n). Where their columns are
elsewhere, what they hand out may be an object that multiplies like one: ``w @ A``, ``A @ v``,
``A.take(points, axis=1)``, ``s[:, None] * A``, ``A.sum(axis=1)`` and ``A.max(axis=1)`` are all that
a fit asks of it. ``np.asarray(A)`` fetches all of it.

``combined(weights)`` hands out K(d) as a ``CombinedKernel``. It does not promise that an n × n
array exists: a solver asks ``is_dense`` first, and works on blocks where that is false. Of a stack
of one's own it needs no more than ``__matmul__``: the rest has defaults, from blocks of the stack.
``tests/_helpers/stack_contract.py`` measures what is promised here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from kernelweave._core.types import Array, Places
from kernelweave.stacks.rounding import Units

ShiftedSolver = Callable[[Array, Array | None], Array]


class Factor(Protocol):
    """A matrix F of shape (n, R), wherever it is; vectors and what comes back are host arrays."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, R)."""
        ...

    def onto(self, v: Array) -> Array:
        """Fᵀv, for one vector or the columns of (n, k)."""
        ...

    def times(self, z: Array) -> Array:
        """Fz, for one vector or the columns of (R, k)."""
        ...

    def gram(self, weights: Array, kind: type = np.float64) -> Array:
        """Fᵀ diag(weights) F for weights ≥ 0, (R, R); products may be of this kind of number."""
        ...

    def inverse(self, weights: Array, kind: type = np.float64) -> Callable[[Array], Array]:
        """What multiplies by (I + Fᵀ diag(weights) F)⁻¹, for weights ≥ 0; by default from ``gram``.

        Raises ``LinAlgError`` where that matrix is not positive definite in floating point.
        """
        ...

    def product(self, v: Array) -> Array:
        """FFᵀv, for one vector or the columns of (n, k); by default by the two products."""
        ...

    def shrinking(self, weights: Array, kind: type = np.float64) -> Callable[[Array], Array]:
        """What multiplies by F(I + Fᵀ diag(weights) F)⁻¹Fᵀ; by default from ``inverse``.

        It may raise the error of ``inverse`` as late as it is called.
        """
        ...

    def sizes(self) -> Array:
        """The squared norm of each row, (FFᵀ)_ii."""
        ...

    def take(self, rows: Places) -> Factor:
        """Some rows of F."""
        ...

    def array(self, rows: Places | None = None) -> Array:
        """F as a new array of float64, or some rows of it."""
        ...


class KernelSolver(Protocol):
    """What solves systems with A = K(d)[rows, rows] + diag(ridge), which it has factored.

    B is a host array (len(rows),) or (len(rows), k), and so is what comes back. With M any root of
    A⁻¹, MᵀM = A⁻¹, such as L⁻¹ where A = LLᵀ.
    """

    def solve(self, B: Array) -> Array:
        """A⁻¹B."""
        ...

    def half(self, B: Array) -> Array:
        """MB."""
        ...


class CombinedKernel(Protocol):
    """K(d) = Σ_k d_k K_k, symmetric, over n points."""

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

    def rows(self, index: Places) -> Array:
        """Whole rows of K(d), shape (len(index), n)."""
        ...

    def block(self, rows: Places, columns: Places) -> Array:
        """K(d) at these rows and columns, a new array of float64."""
        ...

    def __matmul__(self, v: Array) -> Array:
        """K(d) v, for one vector or the columns of (n, k)."""
        ...

    def products_at(self, rows: Places, v: Array) -> Array:
        """Some rows of K(d) v."""
        ...

    def dense(self) -> Array:
        """K(d) as a NumPy array (n, n), in C order and read-only; float64 or float32.

        Its ``dtype`` says which; whoever sums over it does so in float64. Raises ``NotDense`` where
        there is none.
        """
        ...

    def factor(self) -> tuple[Factor, float] | None:
        """F (n, R) and τ with K(d) = FFᵀ + τI, where every part has such a factor; else None."""
        ...

    def quick_product(self, V: Array, accuracy: float) -> Array:
        """K(d)V up to this relative error; by default ``self @ V``."""
        ...

    @property
    def has_landmarks(self) -> bool:
        """Whether it has a ``landmark_factor`` of its own.

        Its products then are taken to cost less than its rows.
        """
        ...

    def landmark_factor(self, rank: int, seed: int) -> tuple[Factor, Array]:
        """F (n, rank) near K(d), from some rows drawn at random, and the diagonal of K(d) − FFᵀ.

        A factor that leaves nothing may have another rank.
        """
        ...

    def shifted(
        self, rows: Places, D: Array, low: tuple[Factor, Array], accuracy: float
    ) -> ShiftedSolver | None:
        """What solves (EKEᵀ + diag D)X = B by conjugate gradients, where the kernel lives.

        E repeats the rows named. ``low`` is its ``landmark_factor``, of which the preconditioner
        D + e + FFᵀ is made; ``accuracy`` the residual that may be left, in the norm of that. It
        takes B and X to begin at, or None. By default None: products serve.
        """
        ...

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """What solves systems with K(d)[rows, rows] + diag(ridge) in float64, a ridge for each row.

        None where the kernel has none of its own, where that matrix is too large, and where it is
        not positive definite in floating point. n³ work is then done where the kernel lives.
        """
        ...

    @property
    def squeezes(self) -> bool:
        """Whether its rows are elsewhere, and ``squeezed`` has few in their place."""
        ...

    def squeezed(
        self, rows: Places, ridges: Array, soft: float, products: Any
    ) -> tuple[Array, Array, Array] | None:
        """Few rows with the inner products of many: those of D^−½[F, Qᵀ, 1] at ``rows``.

        K(d) = FFᵀ, D = ridges + ``soft`` times the mean diagonal there, and Q are ``products``, as
        ``matvecs`` of the stack handed them out. By default None: rows are where they are asked
        for.
        """
        ...

    def restrict(self, rows: Places) -> CombinedKernel:
        """The same kernel on some of the points."""
        ...


class Stack(Protocol):
    """m kernels over n points, all that is ever asked of them."""

    @property
    def n(self) -> int:
        """Number of points. Required."""
        ...

    @property
    def m(self) -> int:
        """Number of kernels. Required."""
        ...

    def block(self, kernel: int, rows: Places, columns: Places) -> Array:
        """One kernel at some rows and columns, a host array of float64. Required."""
        ...

    @property
    def name(self) -> str:
        """What it is called in messages; by default that of the class."""
        ...

    @property
    def precision(self) -> np.dtype:
        """How precise the numbers are, float64 or float32."""
        ...

    @property
    def units(self) -> Units:
        """``sum_eps``, ``entry_eps``, ``fine_eps`` and ``operations``."""
        ...

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n)."""
        ...

    def traces(self) -> Array:
        """All tr K_k, shape (m,)."""
        ...

    def quad_forms(self, v: Array, kernels: Places | None = None) -> Array:
        """All vᵀK_k v, or those of some kernels."""
        ...

    def matvecs(self, v: Array, rows: Places | None = None, kernels: Places | None = None) -> Array:
        """All K_k v, shape (m, n), or some rows of some of them."""
        ...

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w, for certificates: in the precision of w, which is longdouble.

        float64 will do. By default from ``block``.
        """
        ...

    def expect(self, vectors: Sequence[Array]) -> None:
        """Told of vectors that ``fine_product`` will be asked for, so that one pass may serve all.

        By default nothing.
        """
        ...

    def fine_products(
        self, kernels: Places, rows: Places, support: Places, w: np.ndarray
    ) -> np.ndarray:
        """The same of several kernels, shape (len(kernels), len(rows)); by default one by one."""
        ...

    def combined(self, weights: Array) -> CombinedKernel:
        """K(d) for these weights; kernels of weight zero are not touched."""
        ...

    def restrict(self, rows: Places) -> Stack:
        """The same kernels on some of the points, in the order of ``rows``."""
        ...

    def select(self, kernels: Places) -> Stack:
        """Some of the kernels on the same points."""
        ...

    def threaded(self, n_jobs: int | None) -> Stack:
        """The same kernels, worked on by ``n_jobs`` threads where the stack has threads."""
        ...

    def finer(self) -> Stack | None:
        """The same kernels with more exact passes, for where rounding keeps a gap open, or None."""
        ...


class NotDense(TypeError):
    """An n × n array was asked for, but this stack never holds one."""


def members(protocol: type) -> list[str]:
    """The names that a protocol says are asked for."""
    return [name for name in vars(protocol) if not name.startswith("_") or name == "__matmul__"]


REQUIRED = ("n", "m", "block")
OPTIONAL = tuple(name for name in members(Stack) if name not in REQUIRED)


def is_stack(K: Any) -> bool:
    """Whether ``K`` keeps the required part of the protocol."""
    return all(map(partial(hasattr, K), REQUIRED))
