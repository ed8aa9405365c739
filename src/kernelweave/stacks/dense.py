"""m kernel matrices over the same n points, as the solvers see them.

    combine(d) = Σ_k d_k K_k        quad_forms(v)_k = vᵀ K_k v        matvecs(v)_k = K_k v

``KernelStack`` holds the matrices in memory. Whatever else keeps the protocol
(``kernelweave.stacks.protocol``) is a stack too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from kernelweave._core.checks import as_places, check_vector, float_type
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks import _passes
from kernelweave.stacks._passes import frozen
from kernelweave.stacks.combined import BaseCombined
from kernelweave.stacks.protocol import Factor, KernelSolver
from kernelweave.stacks.resources import count_threads, require_memory, run
from kernelweave.stacks.rounding import DOUBLE, PlainSums, Units
from kernelweave.stacks.validation import (
    Voice,
    as_matrices,
    check_definite,
    check_entries,
    symmetric,
)

PIECE = 8192  # numbers of a combined matrix that stay in cache while the kernels stream past
SPARSE = 0.4, 0.7  # share of non-zeros in v below which K v is summed over rows of K, by symmetry
LONG = 1000  # points from which the second share holds: four of its rows are four streams


class KernelStack(PlainSums):
    """Symmetric positive semidefinite matrices K_1, …, K_m of one size n, dense in memory.

    The numbers are trusted from here on: solvers check nothing quadratic again. They are kept as
    a read-only view of ``K`` when it is C-contiguous, of the right dtype and symmetric to the last
    digits, as a copy otherwise: kernels symmetric only up to rounding are replaced by their
    symmetric parts. Where there is no memory for that, what they lack is charged to both bounds.
    Sums are float64 whatever the dtype, and the same to the last bit for every ``n_jobs``.

    Parameters
    ----------
    K : array (m, n, n), or a sequence of m arrays (n, n)
        The kernel matrices. One all zero is allowed.
    check : bool
        Whether to make sure that K is finite, symmetric and positive semidefinite, up to rounding
        (that of float32 where K or ``dtype`` is float32).
    dtype : float64 (None) or float32
        How the matrices are kept. float32 takes half the memory and time.
    indefinite : "raise" or "clip"
        What the check does about negative eigenvalues: refuse, or set them to zero in a copy.
    n_jobs : int or None
        Threads for large stacks; None is 1, −1 is one for each core.
    """

    def __init__(
        self,
        K: ArrayLike | Sequence[ArrayLike],
        check: bool = True,
        *,
        dtype: DTypeLike | None = None,
        indefinite: str = "raise",
        n_jobs: int | None = None,
    ) -> None:
        if indefinite not in ("raise", "clip"):
            raise ValueError(f"indefinite must be 'raise' or 'clip', found {indefinite!r}")
        threads = count_threads(n_jobs)
        data, owned, precision = as_matrices(K, float_type(dtype))
        skew = 0.0
        if check:
            voice, clip = Voice(), indefinite == "clip"
            scales, gaps = check_entries(data, precision, threads, voice)
            data, owned, skew = symmetric(data, gaps, precision, threads, owned)
            data = check_definite(data, scales, precision, threads, clip, owned, voice)
        self._set(data, n_jobs, precision, Units(entry=0.5 * skew) if skew else DOUBLE)

    def _set(self, data: NDArray, n_jobs: int | None, precision: np.dtype, units: Units) -> None:
        # One type for every input (read-only, C order), so that each pass compiles once.
        self._K = frozen(np.require(data, requirements=["C", "A"]).view(np.ndarray))
        self._m, self._n = self._K.shape[:2]
        self._diagonals: Array | None = None
        self._traces: Array | None = None
        self._n_jobs, self._threads = n_jobs, count_threads(n_jobs)
        self._precision = precision
        self.units = units

    @classmethod
    def _trusted(
        cls, data: NDArray, n_jobs: int | None, precision: np.dtype, units: Units = DOUBLE
    ) -> Self:
        stack = cls.__new__(cls)
        stack._set(data, n_jobs, precision, units)
        return stack

    @classmethod
    def allocate(cls, m: int, n: int, dtype: DTypeLike = np.float64) -> NDArray:
        """An (m, n, n) array to fill and hand to ``KernelStack(K, check=False, dtype=dtype)``."""
        kind = float_type(dtype)
        require_memory(m, n, kind)
        return np.empty((m, n, n), kind)

    m = property(attrgetter("_m"), doc="Number of kernels.")
    n = property(attrgetter("_n"), doc="Number of points.")
    n_jobs = property(attrgetter("_n_jobs"), doc="Threads for large stacks, as given.")
    precision = property(
        attrgetter("_precision"),
        doc="How precise the numbers are: float32 if they came so, however they are kept.",
    )

    dtype = property(attrgetter("_K.dtype"), doc="How the matrices are kept.")

    def diagonals(self) -> Array:
        """K_k[i, i], shape (m, n), read-only."""
        if self._diagonals is None:
            self._diagonals = frozen(np.einsum("kii->ki", self._K).astype(np.float64))
        return self._diagonals

    def traces(self) -> Array:
        """Σ_i K_k[i, i], shape (m,), read-only."""
        if self._traces is None:
            self._traces = frozen(self.diagonals().sum(axis=1))
        return self._traces

    def combine(self, weights: ArrayLike) -> Array:
        """Σ_k weights_k K_k, shape (n, n), read-only; kernels of weight zero are not touched.

        One kernel of weight 1 is handed out as it is, without a copy, if it is kept in float64.
        """
        w = _vector("weights", weights, self.m)
        active = np.flatnonzero(w)
        if len(active) == 1 and w[active[0]] == 1.0 and self.dtype == np.float64:
            return self._K[active[0]]
        begins = np.arange(0, self.n**2, PIECE, dtype=np.int64)
        ends = np.minimum(begins + PIECE, self.n**2)
        total = self._sums(active * self.n**2, w[active], begins, ends)
        return frozen(total.reshape(self.n, self.n))

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, a new array of float64."""
        places = as_places(rows, self.n, "rows"), as_places(columns, self.n, "columns")
        found = self._K[kernel][np.ix_(*places)].astype(np.float64, copy=False)
        if self.units.entry:  # not symmetric: the symmetric part is what is certified
            found = 0.5 * found + 0.5 * self._K[kernel][np.ix_(*places[::-1])].T
        return found

    def combined(self, weights: ArrayLike) -> DenseCombined:
        """K(d) as an array behind the interface of every combined kernel."""
        return DenseCombined(self.combine(weights))

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """vᵀ K_k v for each of ``kernels``, shape (m,) or (len(kernels),).

        Reads the lower triangle only, and of that the rows where v is not zero.
        """
        x = _vector("v", v, self.n)
        chosen = as_places(kernels, self.m, "kernels")
        support = np.flatnonzero(x)
        rows, values = _in_fours(support, x[support])
        out = np.empty((len(chosen), -(-len(rows) // _passes.BLOCK)))
        tasks = -(-len(chosen) // 4) * out.shape[1]
        reads = len(chosen) * len(rows) * self.n // 2
        run(_passes.quad_forms, tasks, reads, self._threads, self._K, chosen, rows, values, x, out)
        return out.sum(axis=1)

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k[rows] v for each of ``kernels``, shape (m', n'): (m, n) unless some are chosen."""
        x = _vector("v", v, self.n)
        places = as_places(rows, self.n, "rows")
        chosen = as_places(kernels, self.m, "kernels")
        support = np.flatnonzero(x)
        if len(support) < SPARSE[self.n >= LONG] * len(places):  # K v = Σ_j v_j K[j]
            begins = chosen * self.n**2
            total = self._sums(support * self.n, x[support], begins, begins + self.n)
            total = total.reshape(len(chosen), self.n)
            return total if rows is None else total.take(places, axis=1)
        out = np.empty((len(chosen), len(places)))
        tasks = -(-len(chosen) // 4) * -(-len(places) // _passes.BLOCK)
        reads = out.size * self.n
        run(_passes.matvecs, tasks, reads, self._threads, self._K, chosen, places, x, out)
        return out

    def restrict(self, rows: Index) -> Self:
        """The same kernels on some of the points, in the order of ``rows``."""
        places = as_places(rows, self.n, "rows", empty=False)
        if np.array_equal(places, np.arange(self.n)):
            return self
        out = self.allocate(self.m, len(places), self.dtype)
        run(_passes.submatrices, self.m, out.size, self._threads, self._K, places, out)
        return self._trusted(out, self.n_jobs, self.precision, self.units)

    def select(self, kernels: Index) -> Self:
        """Some of the kernels on the same points; consecutive ones are shared, not copied."""
        chosen = as_places(kernels, self.m, "kernels", empty=False)
        if np.all(np.diff(chosen) == 1):
            some = self._K[chosen[0] : chosen[-1] + 1]
            return self._trusted(some, self.n_jobs, self.precision, self.units)
        out = self.allocate(len(chosen), self.n, self.dtype)
        np.take(self._K, chosen, axis=0, out=out, mode="clip")
        return self._trusted(out, self.n_jobs, self.precision, self.units)

    def threaded(self, n_jobs: int | None) -> Self:
        """The same matrices, worked on by ``n_jobs`` threads."""
        return self._trusted(self._K, n_jobs, self.precision, self.units)

    def _sums(
        self,
        offsets: NDArray[np.int64],
        weights: Array,
        begins: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> Array:
        """Σ_a weights_a · (the numbers ``begins`` to ``ends`` after offset a), piece by piece."""
        sizes = ends - begins
        to = np.cumsum(sizes) - sizes
        out = np.zeros(sizes.sum()) if not len(offsets) else np.empty(sizes.sum())
        pieces = np.stack([begins, ends, to], axis=1)
        offsets, weights = _in_fours(offsets, weights)
        reads = out.size * len(offsets)
        flat = self._K.reshape(-1)
        run(
            _passes.weighted_sums,
            len(pieces),
            reads,
            self._threads,
            flat,
            offsets,
            weights,
            pieces,
            out,
        )
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._trusted, (self._K, self._n_jobs, self._precision, self.units)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(m={self.m}, n={self.n}, dtype={self.dtype})"


def _vector(name: str, x: ArrayLike, size: int) -> Array:
    """``x`` as a vector of that size: itself where it is one, as from a solver, else checked."""
    if type(x) is np.ndarray and x.dtype == np.float64 and x.shape == (size,):
        if x.flags.c_contiguous and x.flags.writeable:  # one type for compiled functions
            return x
    return check_vector(name, x, size, finite=False)


def _in_fours(index: NDArray[np.int64], values: Array) -> tuple[NDArray[np.int64], Array]:
    """Both filled up to a multiple of four: the last index again, with value zero."""
    missing = -len(index) % 4
    if missing:
        index = np.concatenate([index, np.full(missing, index[-1])])
        values = np.concatenate([values, np.zeros(missing)])
    return index, values


# ---- K(d) as an array ----------------------------------------------------------------------------


@dataclass(frozen=True)
class CholeskySolver:
    """Systems with A = LLᵀ on the host."""

    L: Array

    @classmethod
    def of(cls, A: Array, ridge: float | Array) -> CholeskySolver | None:
        """Those with A + diag(ridge), in the place of A; None where that is not definite."""
        A[np.diag_indices_from(A)] += ridge
        try:
            return cls(cholesky(A, lower=True, overwrite_a=True, check_finite=False))
        except LinAlgError:
            return None

    def solve(self, B: Array) -> Array:
        """A⁻¹B."""
        return np.asarray(cho_solve((self.L, True), B, check_finite=False))

    def half(self, B: Array) -> Array:
        """L⁻¹B."""
        return np.asarray(solve_triangular(self.L, B, lower=True, check_finite=False))


class DenseCombined(BaseCombined):
    """K(d) as one n × n array, read-only; ``low`` is the factor that it was written out from."""

    is_dense = True

    def __init__(self, K: Array, low: tuple[Factor, float] | None = None) -> None:
        self._K, self._low, self.n = K, low, len(K)

    def dense(self) -> Array:
        """The array, read-only."""
        return self._K

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return np.array(np.diagonal(self._K), dtype=float)

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        every = np.arange(self.n)
        return self._K[np.ix_(every[rows], every[columns])].astype(float, copy=False)

    def __matmul__(self, v: Array) -> Array:
        if self._K.dtype == np.float64:
            return self._K @ v
        out = np.zeros(v.shape)
        for column, total in zip(np.atleast_2d(v.T), np.atleast_2d(out.T), strict=True):
            sums = np.zeros(self.n)
            _passes.add_rows(self._K, np.arange(self.n), np.ascontiguousarray(column), sums)
            total[:] = sums
        return out

    def factor(self) -> tuple[Factor, float] | None:
        """The factor that it was written out from, if there is one."""
        return self._low

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """Cholesky's factor of these rows and columns."""
        return CholeskySolver.of(self._K[np.ix_(rows, rows)].astype(float, copy=False), ridge)
