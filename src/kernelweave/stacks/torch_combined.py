"""K(d) on a device: as one matrix where that fits, else computed anew for each product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernelweave._core.blocks import blocks
from kernelweave._core.tolerances import JITTER
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks.combined import BaseCombined
from kernelweave.stacks.protocol import NotDense, ShiftedSolver
from kernelweave.stacks.torch_device import fetched, free_bytes, numbers, sent
from kernelweave.stacks.torch_factor import TorchFactor, TorchSolver
from kernelweave.stacks.torch_system import ROUGH, TorchShifted
from kernelweave.stacks.torch_tiles import TILE

if TYPE_CHECKING:
    from kernelweave.stacks.torch_stack import TorchStack

_ROWS = 2**27  # entries of K at landmarks that are computed at a time


class HeldMatrix:
    """The one combined matrix that a device keeps for a stack: that of the last kernel asked."""

    def __init__(self) -> None:
        self.last: tuple[TorchCombined, torch.Tensor] | None = None

    def of(self, kernel: TorchCombined) -> torch.Tensor:
        """The matrix of this kernel, in the place of another's."""
        held = self.last
        if held is None or held[0] is not kernel:
            held = self.last = None  # the other's goes before this one is made
            held = kernel, kernel.matrix()
            self.last = held  # at once: threads may ask for other kernels
        return held[1]


class TorchCombined(BaseCombined):
    """K(d) = Σ_k d_k K_k over n points of a ``TorchStack``; vectors are arrays of the host."""

    has_landmarks = True

    def __init__(self, stack: TorchStack, weights: Array) -> None:
        self.stack, self.weights = stack, weights
        self.groups = stack.summed(weights)
        self._low: dict[tuple[int, int], tuple[TorchFactor, Array]] = {}

    @property
    def n(self) -> int:
        """Number of points."""
        return self.stack.n

    def dense(self) -> Array:
        """Refused: an n × n array would have to be moved to the host."""
        raise NotDense(
            f"the combined kernel on {self.n} points is on {self.stack.device}, and no array of "
            "the host: ask for products, rows or blocks"
        )

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return np.asarray(self.weights @ self.stack.diagonals())

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        every = np.arange(self.n)
        return self.stack.entries(self.weights, every[rows], every[columns])

    def __matmul__(self, v: Array) -> Array:
        return self._product(v, False)

    def _product(self, v: Array, quick: bool) -> Array:
        V = sent(v.reshape(self.n, -1), self.stack.device, self.stack.wide)
        return fetched(self.times(V, quick)).reshape(v.shape)

    def times(self, V: torch.Tensor, quick: bool) -> torch.Tensor:
        """K(d)V on the device."""
        if not self.groups:
            return torch.zeros_like(V)
        if self.stack.keeps:
            K = self.stack.held.of(self)
            return (V.T.to(K.dtype).contiguous() @ K).T.to(V.dtype)  # rows in one read of K
        return self.stack.times(self.groups, V, quick=quick).sum(dim=0)

    def products_at(self, rows: Places, v: Array) -> Array:
        """Some rows of K(d)v."""
        if self.stack.keeps or not self.groups:
            return np.asarray((self @ v)[rows])
        V = sent(v.reshape(self.n, -1), self.stack.device, self.stack.wide)
        found = fetched(self.stack.times(self.groups, V, rows).sum(dim=0))
        return found.reshape(len(rows), *v.shape[1:])

    def matrix(self) -> torch.Tensor:
        """K(d) on the device, written some rows at a time."""
        kind = self.stack.kind
        out = torch.empty(self.n, self.n, dtype=kind, device=self.stack.device)
        every = torch.arange(self.n, device=self.stack.device)
        for i in blocks(self.n, self.n, TILE[self.stack.device.type]):
            out[i] = self.stack.tensor(self.groups, every[i], None, kind)
        return out

    def landmark_factor(self, rank: int, seed: int = 0) -> tuple[TorchFactor, Array]:
        """F of ``rank`` rows L drawn at random, FFᵀ = K[:, L] K[L, L]⁻¹ K[L, :], and the rest."""
        if (rank, seed) not in self._low:
            self._low[rank, seed] = self._landmarks(rank, seed)
        return self._low[rank, seed]

    def _landmarks(self, rank: int, seed: int) -> tuple[TorchFactor, Array]:
        stack, device = self.stack, self.stack.device
        places = np.sort(np.random.default_rng(seed).permutation(self.n)[:rank])
        L = numbers(places, device)
        at = stack.tensor(self.groups, L, L, self.stack.wide)
        at = 0.5 * (at + at.T)
        at.diagonal().add_(JITTER * float(at.diagonal().abs().mean()))
        root = torch.linalg.cholesky(at)
        F = torch.empty(self.n, len(L), dtype=stack.kind, device=device)
        every = torch.arange(self.n, device=device)
        for i in blocks(self.n, len(L), _ROWS):
            some = stack.tensor(self.groups, L, every[i], self.stack.wide)
            F[i] = torch.linalg.solve_triangular(root, some, upper=False).T
        found = TorchFactor(F)
        diagonal = self.diagonal()
        return found, np.maximum(diagonal - found.sizes(), JITTER * np.abs(diagonal))

    def quick_product(self, V: Array, accuracy: float) -> Array:
        """K(d)V up to this relative error; three digits take half of the time of six."""
        return self._product(V, accuracy > ROUGH)

    def shifted(
        self, rows: Places, D: Array, low: tuple[Any, Array], accuracy: float
    ) -> ShiftedSolver:
        """What solves (EKEᵀ + diag D)X = B; all but B and X stays on the device."""
        found = TorchShifted(self, rows, D, low, accuracy)
        return found.solve

    def solver(self, rows: Places, ridge: Array) -> TorchSolver | None:
        """What solves systems with K(d)[rows, rows] + diag(ridge); None where there is no room.

        None, too, where the matrix is not positive definite in floating point.
        """
        device = self.stack.device
        if 8.0 * rows.size**2 > free_bytes(device) * 0.8:
            return None
        at = numbers(rows, device)
        A = torch.empty(rows.size, rows.size, dtype=self.stack.wide, device=device)
        for i in blocks(rows.size, rows.size, TILE[device.type]):
            A[i] = self.stack.tensor(self.groups, at[i], at, self.stack.wide)
        A.diagonal().add_(sent(ridge, device, self.stack.wide))
        L, failed = A.mT, torch.empty(0, dtype=torch.int32, device=device)
        torch.linalg.cholesky_ex(L, out=(L, failed))  # columns in one piece: nothing is copied
        return None if int(failed) else TorchSolver(L)
