"""A stack with the identity as one kernel more: its weight is a ridge of the combined kernel.

    Σ_k d_k K_k + τI

Learning τ with the other weights learns C = 1/τ of the squared hinge loss
[lanckriet2004, §4.6; chapelle2008, §5].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import as_places
from kernelweave._core.types import Array, Index, Mask, Places
from kernelweave.stacks._passes import frozen
from kernelweave.stacks.combined import BaseCombined
from kernelweave.stacks.defaults import Part
from kernelweave.stacks.dense import CholeskySolver
from kernelweave.stacks.factor import beside
from kernelweave.stacks.protocol import CombinedKernel, Factor, KernelSolver, Stack


class WithIdentity:
    """The kernels of ``stack``, and after them the identity, which is never written out."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    name = property(attrgetter("stack.name"), doc="That of the stack.")

    @property
    def m(self) -> int:
        """Number of kernels, the identity included."""
        return self.stack.m + 1

    n = property(attrgetter("stack.n"), doc="Number of points.")
    precision = property(attrgetter("stack.precision"), doc="That of the stack.")
    units = property(attrgetter("stack.units"), doc="Those of the stack.")

    def traces(self) -> Array:
        """All tr K_k."""
        return np.append(self.stack.traces(), float(self.n))

    def diagonals(self) -> Array:
        """All diagonals, (m, n)."""
        return np.vstack([self.stack.diagonals(), np.ones(self.n)])

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns."""
        if kernel < self.stack.m:
            return self.stack.block(kernel, rows, columns)
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        return np.equal.outer(left, right).astype(float)

    def expect(self, vectors: Sequence[Array]) -> None:
        """The stack is told."""
        self.stack.expect(vectors)

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w in the precision of ``w``, as the stack does it."""
        return self.fine_products(np.array([kernel]), rows, support, w)[0]

    def fine_products(
        self, kernels: Places, rows: Places, support: Places, w: np.ndarray
    ) -> np.ndarray:
        """The same of several kernels."""
        places = kernels < self.stack.m
        full = np.zeros(self.n, w.dtype)
        full[support] = w
        out = np.empty((places.size, rows.size), w.dtype)
        out[places] = self.stack.fine_products(kernels[places], rows, support, w)
        out[~places] = full[rows]
        return out

    def combined(self, weights: ArrayLike) -> Changed:
        """Σ_k weights_k K_k + τI."""
        w = np.asarray(weights, dtype=float)
        return Changed(self.stack.combined(w[:-1]), ridge=float(w[-1]))

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """vᵀK_k v for all kernels, or those of ``kernels``."""
        x = np.asarray(v, dtype=float)
        ours, places = self._split(kernels)
        out = np.empty(places.size)
        out[places] = self.stack.quad_forms(x, ours)
        out[~places] = x @ x
        return out

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k[rows] v for all kernels, or those of ``kernels``."""
        x = np.asarray(v, dtype=float)
        ours, places = self._split(kernels)
        chosen = None if rows is None else as_places(rows, self.n, "rows")
        at = x if chosen is None else x[chosen]
        out = np.empty((places.size, at.size))
        out[places] = self.stack.matvecs(x, chosen, ours)
        out[~places] = at
        return out

    def restrict(self, rows: Index) -> WithIdentity:
        """The same on some of the points."""
        return WithIdentity(self.stack.restrict(as_places(rows, self.n, "rows", empty=False)))

    def select(self, kernels: Index) -> Stack:
        """Some of the kernels, the identity among them where it is asked for."""
        chosen = as_places(kernels, self.m, "kernels", empty=False)
        if (chosen < self.stack.m).all():
            return self.stack.select(chosen)
        return Part(self, np.arange(self.n), chosen)

    def threaded(self, n_jobs: int | None) -> WithIdentity:
        """The same, with threads for the kernels of the stack."""
        return WithIdentity(self.stack.threaded(n_jobs))

    def finer(self) -> WithIdentity | None:
        """The same on a finer stack."""
        stack = self.stack.finer()
        return None if stack is None else WithIdentity(stack)

    def _split(self, kernels: Index | None) -> tuple[Places | None, Mask]:
        """Which of the kernels asked for the stack has, and where they go."""
        if kernels is None:
            return None, np.arange(self.m) < self.stack.m
        chosen = as_places(kernels, self.m, "kernels")
        return chosen[chosen < self.stack.m], chosen < self.stack.m


class Changed(BaseCombined):
    """tK(d) + τI, a multiple of another combined kernel plus a ridge."""

    def __init__(self, kernel: CombinedKernel, times: float = 1.0, ridge: float = 0.0) -> None:
        self.kernel, self.times, self.ridge = kernel, times, ridge

    n = property(attrgetter("kernel.n"), doc="Number of points.")
    is_dense = property(attrgetter("kernel.is_dense"), doc="As the kernel that is changed.")

    def dense(self) -> Array:
        """The array, read-only; that of the kernel itself where nothing is changed."""
        return self._dense

    @cached_property
    def _dense(self) -> Array:
        total = self.kernel.dense()
        if (self.times, self.ridge) == (1.0, 0.0):
            return total
        total = np.multiply(self.times, total, dtype=float)
        total[np.diag_indices(self.n)] += self.ridge
        return frozen(total)

    def diagonal(self) -> Array:
        """All tK(d)_ii + τ."""
        return self.times * self.kernel.diagonal() + self.ridge

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        rows, columns = np.arange(self.n)[rows], np.arange(self.n)[columns]
        same = rows[:, None] == columns
        return self.times * self.kernel.block(rows, columns) + self.ridge * same

    def __matmul__(self, v: Array) -> Array:
        return self.times * (self.kernel @ v) + self.ridge * v

    def quick_product(self, V: Array, accuracy: float) -> Array:
        """That of the kernel, changed."""
        return self.times * self.kernel.quick_product(V, accuracy) + self.ridge * V

    def factor(self) -> tuple[Factor, float] | None:
        """The factor, where the kernel has one and the multiple is not negative."""
        found = self.kernel.factor()
        if found is None or self.times < 0.0:
            return None
        return beside([found[0]], [math.sqrt(self.times)]), self.times * found[1] + self.ridge

    @property
    def has_landmarks(self) -> bool:  # type: ignore[override]
        """As the kernel, where the multiple is not negative."""
        return self.times >= 0.0 and self.kernel.has_landmarks

    def landmark_factor(self, rank: int, seed: int = 0) -> tuple[Factor, Array]:
        """That of the kernel, the ridge among what it leaves."""
        if not self.has_landmarks:
            return super().landmark_factor(rank, seed)
        F, rest = self.kernel.landmark_factor(rank, seed)
        return beside([F], [math.sqrt(self.times)]), self.times * rest + self.ridge

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """That of the array itself, or of the kernel: tK + τ + ρ = t(K + (τ + ρ)/t)."""
        if self.is_dense:  # no root of t: what has no unit keeps its digits in every unit
            return CholeskySolver.of(self.block(rows, rows), ridge)
        if not self.times > 0.0:
            return None
        found = self.kernel.solver(rows, (ridge + self.ridge) / self.times)
        return None if found is None else _SolverOfMultiple(found, self.times)

    squeezes = property(attrgetter("kernel.squeezes"), doc="As the kernel that is changed.")

    def squeezed(
        self, rows: Places, ridges: Array, soft: float, products: Any
    ) -> tuple[Array, Array, Array] | None:
        """Those of the kernel under D/t: the roots of t go where they belong."""
        if not self.times > 0.0:
            return None
        own = (ridges + (1.0 + soft) * self.ridge) / self.times
        found = self.kernel.squeezed(rows, own, soft, products)
        root = math.sqrt(self.times)
        return None if found is None else (found[0], found[1] / root, found[2] / root)


class _SolverOfMultiple:
    """Systems with tA, by those with A."""

    def __init__(self, solver: KernelSolver, times: float) -> None:
        self._solver, self._times = solver, times

    def solve(self, B: Array) -> Array:
        """(tA)⁻¹B."""
        return self._solver.solve(B) / self._times

    def half(self, B: Array) -> Array:
        """M/√t times B."""
        return self._solver.half(B) / math.sqrt(self._times)
