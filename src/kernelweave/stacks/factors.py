"""Kernels as factors, K_k = F_k F_kᵀ: exact where the rank is small, and no n × n array is held.

    quad_forms(v)_k = ‖F_kᵀv‖²        matvecs(v)_k = F_k(F_kᵀv)        K(d) = Σ_k d_k F_k F_kᵀ

A kernel on one column has a numerical rank of about ten whatever n is. Its factor then takes the
share rank/n of the matrix's memory, and passes over it take twice that share of the time.

All factors are kept as the rows of one array, a column of F_k after the other, so that a pass over
all kernels is one sweep through memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from kernelweave._core.blocks import blocks
from kernelweave._core.cached import cached_property
from kernelweave._core.checks import as_places, check_vector, float_type
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks import _sweeps
from kernelweave.stacks._passes import frozen, read_only
from kernelweave.stacks.combined import BaseCombined
from kernelweave.stacks.dense import DenseCombined
from kernelweave.stacks.factor import JoinedFactor
from kernelweave.stacks.protocol import Factor
from kernelweave.stacks.resources import count_threads, run
from kernelweave.stacks.rounding import PlainSums, Units


class FactorStack(PlainSums):
    """Positive semidefinite kernels F_1F_1ᵀ, …, F_mF_mᵀ over n points, kept as their factors.

    Parameters
    ----------
    factors : sequence of m arrays (n, r_k)
        The factors. One without columns is the kernel that is zero.
    dtype : float64 (None) or float32
        How they are kept; sums are float64 whatever it is.
    n_jobs : int or None
        Threads for large stacks; None is 1, −1 is one for each core.
    """

    most_dense = 4000  # points up to which a combined kernel is written out: 128 MB

    def __init__(
        self,
        factors: Sequence[ArrayLike],
        *,
        dtype: DTypeLike | None = None,
        n_jobs: int | None = None,
    ) -> None:
        kind = float_type(dtype)
        count_threads(n_jobs)
        arrays = [_checked(F, k) for k, F in enumerate(factors)]
        if not arrays:
            raise ValueError("factors must hold at least one array (n, rank), found none")
        n = len(arrays[0])
        for k, F in enumerate(arrays):
            if len(F) != n:
                raise ValueError(f"factors[{k}] has {len(F)} rows, but factors[0] has {n}")
        ranks = [F.shape[1] for F in arrays]
        G = np.empty((sum(ranks), n), kind)
        ends = np.concatenate([[0], np.cumsum(ranks)]).astype(np.int64)
        for k, F in enumerate(arrays):
            G[ends[k] : ends[k + 1]] = F.T
        self._set(G, ends, n_jobs)

    def _set(self, G: Array, ends: Places, n_jobs: int | None) -> None:
        self._G = read_only(np.ascontiguousarray(G))
        self._ends, self._n_jobs = ends, n_jobs
        self._precision = G.dtype
        self._diagonals: Array | None = None

    @classmethod
    def _trusted(cls, G: Array, ends: Places, n_jobs: int | None) -> Self:
        """From rows of factors one after the other; kernel k has those from ends[k] on."""
        stack = cls.__new__(cls)
        stack._set(G, ends, n_jobs)
        return stack

    @property
    def m(self) -> int:
        """Number of kernels."""
        return int(self._ends.size - 1)

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self._G.shape[1])

    @cached_property
    def ranks(self) -> Places:
        """The number of columns of each factor, read-only."""
        return read_only(np.diff(self._ends))

    @property
    def nbytes(self) -> int:
        """Memory that the factors take."""
        return int(self._G.nbytes)

    @property
    def precision(self) -> np.dtype:
        """How the factors are kept, float64 or float32."""
        return self._precision

    @cached_property
    def units(self) -> Units:
        """Each entry has as many roundings behind it as the largest rank."""
        return Units(operations=int(self.ranks.max(initial=0)))

    def factor(self, kernel: int) -> Array:
        """F_k, shape (n, r_k), a view."""
        return self._G[self._ends[kernel] : self._ends[kernel + 1]].T

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n), read-only."""
        if self._diagonals is None:
            out = np.empty((self.m, self.n))
            self._sweep(_sweeps.diagonals, np.arange(self.m), out)
            self._diagonals = frozen(out)
        return self._diagonals

    def traces(self) -> Array:
        """All tr K_k."""
        return self._traces

    @cached_property
    def _traces(self) -> Array:
        return read_only(self.diagonals().sum(axis=1))

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, a new array of float64."""
        F = self._G[self._ends[kernel] : self._ends[kernel + 1]]
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        return np.matmul(F[:, left].T, F[:, right], dtype=np.float64)

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """‖F_kᵀv‖² for each of ``kernels``."""
        x = check_vector("v", v, self.n, finite=False)
        chosen = as_places(kernels, self.m, "kernels")
        out = np.empty(len(chosen))
        self._sweep(_sweeps.quad_forms, chosen, x, out)
        return out

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """F_k(F_kᵀv) at ``rows`` for each of ``kernels``, shape (m', n')."""
        x = check_vector("v", v, self.n, finite=False)
        chosen = as_places(kernels, self.m, "kernels")
        places = as_places(rows, self.n, "rows")
        out = np.empty((len(chosen), self.n))
        self._sweep(_sweeps.matvecs, chosen, x, out)
        return out if rows is None else out.take(places, axis=1)

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w in the precision of ``w``: F_k(F_kᵀw), some rows at a time."""
        F = self._G[self._ends[kernel] : self._ends[kernel + 1]]
        onto = np.zeros(len(F), w.dtype)
        for part in blocks(support.size, len(F), SETTINGS.block):
            onto += F[:, support[part]].astype(w.dtype) @ w[part]
        out = np.empty(rows.size, w.dtype)
        for part in blocks(rows.size, len(F), SETTINGS.block):
            out[part] = onto @ F[:, rows[part]].astype(w.dtype)
        return out

    def combined(self, weights: ArrayLike) -> DenseCombined | FactorCombined:
        """K(d): written out where n is small, else as one factor."""
        w = check_vector("weights", weights, self.m, finite=False)
        active = np.flatnonzero(w)
        scale = np.repeat(w[active], self.ranks[active])
        kernel = FactorCombined(JoinedFactor(self._runs(active), np.ones(scale.size)), scale)
        if self.n > self.most_dense:
            return kernel
        low = kernel.factor()
        K = kernel.written_out() if low is None else self._product(active, np.sqrt(w[active]))
        return DenseCombined(frozen(K), low)

    def _product(self, kernels: Places, scale: Array) -> Array:
        """Σ_k scale_k² F_k F_kᵀ as an array, exactly symmetric."""
        ends = np.concatenate([[0], np.cumsum(self.ranks[kernels])])
        rows = np.empty((int(ends[-1]), self.n))
        self._sweep(_sweeps.scaled, kernels, scale, ends, rows)
        return np.asarray(rows.T @ rows)

    def restrict(self, rows: Index) -> Self:
        """The same kernels on some of the points, in the order of ``rows``."""
        places = as_places(rows, self.n, "rows", empty=False)
        if np.array_equal(places, np.arange(self.n)):
            return self
        return self._trusted(self._G[:, places], self._ends, self._n_jobs)

    def select(self, kernels: Index) -> Self:
        """Some of the kernels on the same points."""
        chosen = as_places(kernels, self.m, "kernels", empty=False)
        ends = np.concatenate([[0], np.cumsum(self.ranks[chosen])]).astype(np.int64)
        return self._trusted(self._G[self._places(chosen)], ends, self._n_jobs)

    def threaded(self, n_jobs: int | None) -> Self:
        """The same factors, worked on by ``n_jobs`` threads."""
        count_threads(n_jobs)
        return self._trusted(self._G, self._ends, n_jobs)

    def _places(self, kernels: Places) -> Any:
        """Where the factors of these kernels are; a slice where they follow each other."""
        if kernels.size and np.all(np.diff(kernels) == 1):
            return slice(int(self._ends[kernels[0]]), int(self._ends[kernels[-1] + 1]))
        parts = [np.arange(self._ends[k], self._ends[k + 1]) for k in kernels]
        return np.concatenate(parts) if parts else np.zeros(0, np.intp)

    def _runs(self, kernels: Places) -> list[Array]:
        """The factors of these kernels as views, one for all that follow each other."""
        cuts = np.flatnonzero(np.diff(kernels) != 1)
        firsts = self._ends[np.append(kernels[:1], kernels[cuts + 1])].tolist()
        lasts = self._ends[np.append(kernels[cuts], kernels[-1:]) + 1].tolist()
        return [self._G[a:b] for a, b in zip(firsts, lasts, strict=True)] or [self._G[:0]]

    def _sweep(self, work: Any, kernels: Places, *args: Any) -> None:
        reads = int(self.ranks[kernels].sum()) * self.n
        threads = count_threads(self._n_jobs)
        run(work, len(kernels), reads, threads, self._G, self._ends, kernels, *args)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._trusted, (self._G, self._ends, self._n_jobs)

    def __repr__(self) -> str:
        ranks = self.ranks
        return (
            f"{type(self).__name__}(m={self.m}, n={self.n}, ranks {ranks.min()} to {ranks.max()})"
        )


def _checked(F: ArrayLike, k: int) -> Array:
    array = np.asarray(F)
    if array.dtype.kind not in "iufb" or array.ndim != 2:
        raise ValueError(
            f"factors[{k}] must be an array of numbers (n, rank), found {array.dtype} of shape "
            f"{array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"factors[{k}] must be finite, found NaN or infinity")
    return array if array.dtype.kind == "f" else array.astype(float)


class FactorCombined(BaseCombined):
    """K(d) = G diag(w) Gᵀ; G (n, R) holds the factors of the kernels with a weight."""

    def __init__(self, G: JoinedFactor, w: Array) -> None:
        self._G, self._w = G, w

    @property
    def n(self) -> int:
        """Number of points."""
        return self._G.shape[0]

    def written_out(self) -> Array:
        """The array, for those who know that they can afford it; exactly symmetric."""
        G = self._G.array()
        total = (self._w * G) @ G.T
        return 0.5 * (total + total.T)

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        found = self.factor()
        if found is not None:
            return found[0].sizes()
        return np.einsum("r,ir,ir->i", self._w, *(self._G.array(),) * 2)

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        return np.asarray((self._w * self._G.array(rows)) @ self._G.array(columns).T)

    def __matmul__(self, v: Array) -> Array:
        onto = self._G.onto(v)
        return self._G.times((self._w if v.ndim == 1 else self._w[:, None]) * onto)

    def factor(self) -> tuple[Factor, float] | None:
        """F = G diag(w)^½; None where a weight is negative."""
        return self._found

    @cached_property
    def _found(self) -> tuple[Factor, float] | None:
        if self._w.size and self._w.min() < 0.0:
            return None
        return JoinedFactor(self._G.parts, np.sqrt(self._w) * self._G.scale), 0.0
