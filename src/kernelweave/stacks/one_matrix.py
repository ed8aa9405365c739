"""Kernels generated from their rows: K(d) is one array, however many kernels there are.

    K(d) = Σ_k d_k K_k      written once for each d, in float32 or float64, over the last one
    K_k v, vᵀK_k v          from the rows where v is not zero, tile by tile; no K_k is ever kept

Passes use entries of ``dtype``; ``block`` and ``fine_products`` compute in float64 and say what the
kernels are. How far the two may be apart is ``units.entry``: some 1e-6 for float32, which is enough
for gaps of 1e-3 at any C, and of 1e-6 at small ones. ``finer`` has float64 for what is left.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import as_places, check_vector, float_type
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import add_rows, frozen
from kernelweave.stacks.combined import BaseCombined
from kernelweave.stacks.dense import CholeskySolver
from kernelweave.stacks.generator import Generator
from kernelweave.stacks.protocol import KernelSolver
from kernelweave.stacks.resources import available_bytes, count_threads, require_memory
from kernelweave.stacks.rounding import PlainSums, Units
from kernelweave.stacks.row_kernels import RowKernels

_SPARE = 2  # times the matrix that has to be available to go from float32 to float64


def matrix_type(n: int) -> np.dtype:
    """How K(d) over n rows is kept where nothing else is asked for."""
    return np.dtype(np.float64 if 8 * n * n <= SETTINGS.wide_matrix else np.float32)


def bytes_beside(n: int, dtype: np.dtype | None = None) -> int:
    """What K(d) takes, and copies of the rows in play."""
    whole = (matrix_type(n) if dtype is None else dtype).itemsize * n * n
    return int(whole + min(0.75 * whole, max(SETTINGS.copied, whole // 4)))


class OneMatrixStack(PlainSums):
    """Kernels of two rows, generated whenever they are needed.

    Parameters
    ----------
    views : sequence of ``RowKernels``
        All over the same n rows; their ``numbers`` are 0, …, m − 1, each once.
    dtype : float64, float32 or None
        That of K(d), and of the entries of passes. None: float64 for small arrays, else float32 at
        first.
    n_jobs : int or None
        Threads; None is 1, −1 is one for each core.
    """

    precision = np.dtype(np.float64)

    def __init__(
        self,
        views: Sequence[RowKernels],
        dtype: DTypeLike | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.views, self.n_jobs = tuple(views), n_jobs
        self.n, self.m = self.views[0].n, sum(view.numbers.size for view in self.views)
        self._asked = None if dtype is None else float_type(dtype)
        self.dtype = matrix_type(self.n) if self._asked is None else self._asked
        self._threads = count_threads(n_jobs)
        self.matrix = _Matrix(self.n, self.dtype)

    @cached_property
    def rough(self) -> Generator:
        """Entries of ``dtype``."""
        return Generator(self.views, self.dtype)

    @cached_property
    def fine(self) -> Generator:
        """Entries in float64."""
        return self.rough if self.dtype == np.float64 else Generator(self.views, self.precision)

    @cached_property
    def units(self) -> Units:
        """Sums are float64; entries are as far off as ``dtype`` makes them."""
        operations = math.ceil(min(self.fine.eps / EPS, 1.0 / EPS))
        return Units(EPS, self.rough.eps, EPS, operations)

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n), read-only."""
        return self._diagonals

    @cached_property
    def _diagonals(self) -> Array:
        out = np.empty((self.m, self.n))
        for view in self.views:
            out[view.numbers] = view.diagonals()
        return frozen(out)

    def traces(self) -> Array:
        """All tr K_k, shape (m,)."""
        return self._diagonals.sum(axis=1)

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, in float64."""
        places = as_places(rows, self.n, "rows"), as_places(columns, self.n, "columns")
        return self.fine.block(self._inner(np.eye(self.m)[kernel]), *places, self._threads)

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> Array:
        """K[rows, support]·w in float64."""
        return self.fine_products(np.array([kernel]), rows, support, w)[0]

    def fine_products(self, kernels: Places, rows: Places, support: Places, w: np.ndarray) -> Array:
        """The same of several kernels, which share distances."""
        return self._passed(self.fine, kernels, w.astype(float), rows, support)

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """All vᵀK_k v, or those of some kernels, from the rows where v is not zero."""
        x = check_vector("v", v, self.n, finite=False)
        support = np.flatnonzero(x)
        return np.asarray(self.matvecs(x, support, kernels) @ x[support])

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """All K_k v, or some rows of some of them, from the rows where v is not zero."""
        x = check_vector("v", v, self.n, finite=False)
        places, support = as_places(rows, self.n, "rows"), np.flatnonzero(x)
        chosen = as_places(kernels, self.m, "kernels")
        return self._passed(self.rough, chosen, x[support], places, support)

    def _passed(
        self, entries: Generator, kernels: Places, w: Array, rows: Places, support: Places
    ) -> Array:
        """K_k[rows, support]·w for each of ``kernels``, in their order."""
        asked = np.isin(entries.numbers, kernels)
        found = entries.matvecs(asked, w, rows, support, self._threads)
        at = np.empty(self.m, np.intp)
        at[entries.numbers[asked]] = np.arange(len(found))
        return found[at[kernels]]

    def combined(self, weights: ArrayLike) -> Generated:
        """K(d), which is written when its array is asked for."""
        return Generated(self, check_vector("weights", weights, self.m, finite=False))

    def restrict(self, rows: Index) -> OneMatrixStack:
        """The same kernels on some of the points."""
        places = as_places(rows, self.n, "rows", empty=False)
        if np.array_equal(places, np.arange(self.n)):
            return self
        return type(self)([view.take(places) for view in self.views], self._asked, self.n_jobs)

    def select(self, kernels: Index) -> OneMatrixStack:
        """Some of the kernels on the same points."""
        chosen = as_places(kernels, self.m, "kernels", empty=False)
        views = []
        for view in self.views:
            numbers, inner = np.nonzero(chosen[:, None] == view.numbers)
            if numbers.size:
                views.append(view.select(inner, numbers))
        return type(self)(views, self._asked, self.n_jobs)

    def threaded(self, n_jobs: int | None) -> OneMatrixStack:
        """The same kernels, worked on by ``n_jobs`` threads."""
        return type(self)(self.views, self._asked, n_jobs)

    def finer(self) -> OneMatrixStack | None:
        """The same in float64, where float32 was not asked for and there is room."""
        if self._asked is not None or self.dtype == np.float64:
            return None
        room = available_bytes()
        if room is not None and room < _SPARE * 8 * self.n**2:
            return None
        return type(self)(self.views, np.float64, self.n_jobs)

    def _inner(self, weights: Array) -> Array:
        """Weights in the order of the generators."""
        return weights[self.rough.numbers]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.views, self._asked, self.n_jobs)

    def __repr__(self) -> str:
        return f"OneMatrixStack(m={self.m}, n={self.n}, dtype={self.dtype})"


class Generated(BaseCombined):
    """K(d) of a ``OneMatrixStack``: an array while nobody asks for that of other weights."""

    is_dense = True

    def __init__(self, stack: OneMatrixStack, weights: Array) -> None:
        self.stack, self.weights = stack, weights
        self._inner = stack._inner(weights)

    n = property(attrgetter("stack.n"), doc="Number of points.")

    def dense(self) -> NDArray[Any]:
        """The array, read-only, of the stack's ``dtype``."""
        return self.stack.matrix.of(self, self._write)

    def _write(self, out: NDArray[Any]) -> None:
        self.stack.rough.fill(self._inner, out, self.stack._threads)

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return self.weights @ self.stack.diagonals()

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        places = as_places(rows, self.n, "rows"), as_places(columns, self.n, "columns")
        return self.stack.rough.block(self._inner, *places, self.stack._threads)

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """Cholesky's factor of these rows and columns, where there is room for it."""
        room = available_bytes()
        if room is not None and 8 * rows.size**2 > room:
            return None
        return CholeskySolver.of(self.block(rows, rows), ridge)

    def __matmul__(self, v: Array) -> Array:
        """K(d) v: from the array while it is there, else from the rows where v is not zero."""
        K, columns = self.stack.matrix.at_hand(self), v.reshape(self.n, -1).T
        if K is None:
            return self.products_at(np.arange(self.n), v)
        out = np.zeros(columns.shape)
        for total, column in zip(out, columns, strict=True):
            support = np.flatnonzero(column)
            add_rows(K, support, column[support], total)
        return np.ascontiguousarray(out.T).reshape(v.shape)

    def products_at(self, rows: Places, v: Array) -> Array:
        """Some rows of K(d)v, generated."""
        V = v.reshape(self.n, -1)
        support = np.flatnonzero(V.any(axis=1))
        entries, threads = self.stack.rough, self.stack._threads
        found = entries.products(self._inner, rows, support, V[support], threads)
        return np.ascontiguousarray(found).reshape(rows.size, *v.shape[1:])


class _Matrix:
    """Memory of one n × n array, written anew for each d that is asked for.

    New memory costs more than what is written to it. It is taken only where somebody still holds
    the last array, who may go on reading that.
    """

    def __init__(self, n: int, dtype: np.dtype) -> None:
        self._n, self._dtype = n, dtype
        self._memory: NDArray[np.uint8] | None = None
        self._lent: weakref.ref[NDArray[Any]] | None = None
        self._owner: weakref.ref[Generated] | None = None
        self._written: Array | None = None  # the weights of what the array holds
        self._lock = threading.Lock()

    def at_hand(self, owner: Generated) -> NDArray[Any] | None:
        """The array of this kernel, if it is there."""
        with self._lock:
            return self._view() if self._is_of(owner) else None

    def of(self, owner: Generated, write: Any) -> NDArray[Any]:
        """The array of this kernel, written by ``write`` unless it is there."""
        with self._lock:
            if self._written is None or not np.array_equal(self._written, owner.weights):
                self._owner = self._written = None
                held = self._lent is not None and self._lent() is not None
                if self._memory is None or held:
                    self._lent = None
                    require_memory(1, self._n, self._dtype)
                    self._memory = np.empty(self._n**2 * self._dtype.itemsize, np.uint8)
                write(self._memory.view(self._dtype).reshape(self._n, self._n))
                self._written = owner.weights
            self._owner = weakref.ref(owner)
            return self._view()

    def _is_of(self, owner: Generated) -> bool:
        return self._owner is not None and self._owner() is owner

    def _view(self) -> NDArray[Any]:
        """The array; views of it keep it alive, and with it the note that it is held."""
        K = None if self._lent is None else self._lent()
        if K is None:
            assert self._memory is not None
            K = np.frombuffer(self._memory.data, self._dtype)
            K.flags.writeable = False
            self._lent = weakref.ref(K)
        return K.reshape(self._n, self._n)
