"""Kernels as factors on a device, K_k = F_k F_kᵀ: what approximations of few features make.

    vᵀK_k v = ‖F_kᵀv‖²        K_k v = F_k(F_kᵀv)        K(d) = Σ_k d_k F_k F_kᵀ

The device keeps n numbers for each feature. Vectors are arrays of the host, and all sums float64
where the device has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import as_places, check_vector
from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import frozen, read_only
from kernelweave.stacks.combined import BaseCombined
from kernelweave.stacks.dense import DenseCombined
from kernelweave.stacks.protocol import ShiftedSolver
from kernelweave.stacks.rounding import PlainSums, Units
from kernelweave.stacks.torch_device import fetched, numbers, sent
from kernelweave.stacks.torch_factor import TorchFactor
from kernelweave.stacks.torch_system import TorchShifted

_FIRM = 1e-8  # share of the largest diagonal that a ridge must be for Woodbury's formula to hold
_EXACT = 1e-10  # residual that a solution by the factor may leave


class TorchFactorStack(PlainSums):
    """Positive semidefinite kernels F_1F_1ᵀ, …, F_mF_mᵀ over n points, on a device.

    Parameters
    ----------
    factors : sequence of m tensors (n, r_k)
        On one device, float64 or float32.
    exact : stack, optional
        The kernels that these stand for, for who wants to judge them.
    """

    most_dense = 2000  # points up to which a combined kernel is an array of the host: 32 MB

    def __init__(self, factors: Sequence[torch.Tensor], exact: Any = None) -> None:
        self.factors, self.exact = tuple(TorchFactor(F) for F in factors), exact

    @property
    def m(self) -> int:
        """Number of kernels."""
        return len(self.factors)

    @property
    def n(self) -> int:
        """Number of points."""
        return self.factors[0].shape[0]

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.factors[0].device

    @property
    def wide(self) -> torch.dtype:
        """The widest numbers that the device has."""
        return self.factors[0].wide

    @property
    def precision(self) -> np.dtype:
        """How the factors are kept, float64 or float32."""
        single = self.factors[0].parts[0].dtype is torch.float32
        return np.dtype(np.float32 if single else np.float64)

    @property
    def units(self) -> Units:  # type: ignore[override]
        """Sums in the widest numbers; each entry has as many roundings as the largest rank."""
        unit = float(torch.finfo(self.wide).eps)
        ranks = [F.shape[1] for F in self.factors]
        return Units(unit, 0.0, unit, int(max(ranks) * unit / EPS))

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n), read-only."""
        return self._diagonals

    @cached_property
    def _diagonals(self) -> Array:
        return frozen(np.array([F.sizes() for F in self.factors]))

    def traces(self) -> Array:
        """All tr K_k."""
        return self._traces

    @cached_property
    def _traces(self) -> Array:
        return read_only(self._diagonals.sum(axis=1))

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, a new array of float64."""
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        return _block(self.factors[kernel], left, right)

    def image(self, kernel: int, V: Array) -> Array:
        """What rows with these coefficients come to in the features of a kernel, F_kᵀV."""
        return self.factors[kernel].onto(V)

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """‖F_kᵀv‖² for each of ``kernels``."""
        V = self._column(check_vector("v", v, self.n, finite=False))
        found = [F.down(V).square().sum() for F in self._some(kernels)]
        return fetched(torch.stack(found)) if found else np.zeros(0)

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """F_k(F_kᵀv) at ``rows`` for each of ``kernels``, shape (m', n')."""
        V = self._column(check_vector("v", v, self.n, finite=False))
        at = slice(None) if rows is None else numbers(as_places(rows, self.n, "rows"), self.device)
        found = [F.up(F.down(V))[at, 0] for F in self._some(kernels)]
        size = self.n if rows is None else len(at)  # type: ignore[arg-type]
        return fetched(torch.stack(found)) if found else np.zeros((0, size))

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w."""
        x = np.zeros(self.n)
        x[support] = w
        return self.factors[kernel].product(x)[rows]

    def combined(self, weights: ArrayLike) -> DenseCombined | TorchFactorCombined:
        """K(d): an array of the host where n is small, else one factor on the device."""
        K = TorchFactorCombined(self, check_vector("weights", weights, self.m, finite=False))
        if self.n > self.most_dense:
            return K
        every = np.arange(self.n)
        found = K.block(every, every)
        return DenseCombined(frozen(0.5 * (found + found.T)), K.factor())

    def restrict(self, rows: Index) -> TorchFactorStack:
        """The same kernels on some of the points, in the order of ``rows``."""
        places = as_places(rows, self.n, "rows", empty=False)
        if np.array_equal(places, np.arange(self.n)):
            return self
        return TorchFactorStack([F.take(places).parts[0] for F in self.factors])

    def select(self, kernels: Index) -> TorchFactorStack:
        """Some of the kernels on the same points."""
        as_places(kernels, self.m, "kernels", empty=False)
        return TorchFactorStack([F.parts[0] for F in self._some(kernels)])

    def threaded(self, n_jobs: int | None) -> TorchFactorStack:
        """The stack itself: threads of the host multiply nothing on a device."""
        return self

    def _some(self, kernels: Index | None) -> list[TorchFactor]:
        return [self.factors[k] for k in as_places(kernels, self.m, "kernels")]

    def _column(self, v: Array) -> torch.Tensor:
        return sent(v[:, None], self.device, self.wide)

    def __repr__(self) -> str:
        ranks = [F.shape[1] for F in self.factors]
        told = f"ranks {min(ranks)} to {max(ranks)}"
        return f"{type(self).__name__}(m={self.m}, n={self.n}, {told}, {self.device})"


class TorchFactorCombined(BaseCombined):
    """K(d) = F diag(w) Fᵀ, F of the kernels with a weight; a factor is its own landmarks."""

    def __init__(self, stack: TorchFactorStack, weights: Array) -> None:
        self.stack, self.weights, self.n = stack, weights, stack.n
        active = [stack.factors[k] for k in np.flatnonzero(weights)] or [_nothing(stack)]
        self._F = TorchFactor(*[F.parts[0] for F in active])
        each = [F.shape[1] for F in active]
        values = weights[weights != 0.0] if weights.any() else np.zeros(1)
        self._w = sent(np.repeat(values, each), stack.device, stack.wide)

    @property
    def has_landmarks(self) -> bool:  # type: ignore[override]
        """Where no weight is negative."""
        return bool(self.weights.min() >= 0.0)

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return np.asarray(self.weights @ self.stack.diagonals())

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        every = np.arange(self.n)
        return _block(self._F, every[rows], every[columns], self._w)

    def __matmul__(self, v: Array) -> Array:
        V = sent(v.reshape(self.n, -1), self.stack.device, self.stack.wide)
        return fetched(self.times(V, False)).reshape(v.shape)

    def times(self, V: torch.Tensor, quick: bool) -> torch.Tensor:
        """K(d)V on the device."""
        return self._F.up(self._w[:, None] * self._F.down(V))

    def factor(self) -> tuple[TorchFactor, float] | None:
        """F diag(w)^½; None where a weight is negative."""
        return (self._root, 0.0) if self.has_landmarks else None

    @cached_property
    def _root(self) -> TorchFactor:
        return TorchFactor(*self._F.parts, scale=self._w.sqrt())

    def landmark_factor(self, rank: int, seed: int = 0) -> tuple[TorchFactor, Array]:
        """That factor, which leaves nothing."""
        return self._root, np.zeros(self.n)

    def shifted(
        self, rows: Places, D: Array, low: tuple[Any, Array], accuracy: float
    ) -> ShiftedSolver:
        """What solves (EKEᵀ + diag D)X = B: the preconditioner is exact but for rounding."""
        return TorchShifted(self, rows, D, low, accuracy).solve

    def solver(self, rows: Places, ridge: Array) -> ByFactor | None:
        """Systems with K[rows, rows] + diag(ridge), where no ridge is near rounding."""
        if not (self.has_landmarks and ridge.min() > _FIRM * float(self.diagonal().max())):
            return None
        return ByFactor(self, rows, ridge)


class ByFactor:
    """What solves systems with K(d)[rows, rows] + diag(ridge), by the factor of K(d)."""

    def __init__(self, K: TorchFactorCombined, rows: Places, ridge: Array) -> None:
        self._system = TorchShifted(K, rows, ridge, K.landmark_factor(0), _EXACT)

    def solve(self, B: Array) -> Array:
        """A⁻¹B."""
        return self._system.solve(B.reshape(len(B), -1), None).reshape(B.shape)

    def half(self, B: Array) -> Array:
        """MB, MᵀM = A⁻¹."""
        return self._system.half(B.reshape(len(B), -1)).reshape(B.shape)


def _nothing(stack: TorchFactorStack) -> TorchFactor:
    """The factor of the kernel that is zero."""
    return TorchFactor(stack.factors[0].parts[0][:, :0])


def _block(F: TorchFactor, rows: Places, columns: Places, w: torch.Tensor | None = None) -> Array:
    left, right = (F.take(at).rows(slice(None)).to(F.wide) for at in (rows, columns))
    return fetched((left if w is None else left * w) @ right.T)
