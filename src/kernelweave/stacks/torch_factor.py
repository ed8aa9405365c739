"""A factor and a Cholesky factor that lie on a device; what they are asked for are host arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from kernelweave._core.blocks import blocks
from kernelweave._core.types import Array, Index
from kernelweave.stacks.factor import DerivedFactor
from kernelweave.stacks.torch_device import fetched, numbers, sent

_ENTRIES = 2**28  # of F that are widened at a time
_PANEL = 2048  # columns of F's Gram matrix that are computed at a time: half of it is enough


class TorchFactor(DerivedFactor):
    """F (n, R) on a device, float64 or float32; sums are float64 where the device has them."""

    def __init__(self, F: torch.Tensor) -> None:
        self.F = F

    @property
    def shape(self) -> tuple[int, int]:
        """(n, R)."""
        n, R = self.F.shape
        return n, R

    @property
    def _wide(self) -> torch.dtype:
        return torch.float32 if self.F.device.type == "mps" else torch.float64

    def array(self, rows: Index | None = None) -> Array:
        """F as a new array, or some rows of it."""
        return fetched(self.F if rows is None else self.take(rows).F)

    def take(self, rows: Index) -> TorchFactor:
        """Some rows of F, copied."""
        places = np.arange(len(self.F))[rows]
        return TorchFactor(self.F[numbers(places, self.F.device)])

    def onto(self, v: Array) -> Array:
        """Fᵀv, for one vector or the columns of (n, k)."""
        return fetched(self.F.T @ sent(v, self.F.device, self.F.dtype))

    def times(self, z: Array) -> Array:
        """Fz, for one vector or the columns of (R, k)."""
        return fetched(self.F @ sent(z, self.F.device, self.F.dtype))

    def sizes(self) -> Array:
        """The squared norm of each row, (FFᵀ)_ii."""
        return fetched(torch.linalg.vecdot(self.F, self.F))

    def gram(self, weights: Array, kind: type = np.float64) -> Array:
        """Fᵀ diag(weights) F for weights that are not negative, (R, R)."""
        return fetched(self._gram(sent(weights, self.F.device, self._wide)))

    def _gram(self, weights: torch.Tensor) -> torch.Tensor:
        n, R = self.shape
        root = weights.sqrt()
        out = torch.zeros(R, R, dtype=self._wide, device=self.F.device)
        for i in blocks(n, R, _ENTRIES):
            some = self.F[i] * root[i, None]
            for panel in blocks(R, 1, _PANEL):
                out[panel, : panel.stop] += some[:, panel].T @ some[:, : panel.stop]
        lower = torch.tril(out)
        return lower + torch.tril(out, -1).T

    def inverse(self, weights: Array, kind: type = np.float64) -> Callable[[Array], Array]:
        """What multiplies by (I + Fᵀ diag(weights) F)⁻¹; raises ``LinAlgError`` where none does."""
        return TorchSolver(self.root(sent(weights, self.F.device, self._wide))).solve

    def root(self, weights: torch.Tensor) -> torch.Tensor:
        """L with LLᵀ = I + Fᵀ diag(weights) F."""
        G = self._gram(weights)
        G.diagonal().add_(1.0)
        L, failed = torch.linalg.cholesky_ex(G)
        if int(failed):
            raise np.linalg.LinAlgError("the matrix of the factor is not positive definite")
        return L


def solved(L: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """(LLᵀ)⁻¹B; ``torch.cholesky_solve`` would copy L each time."""
    half = torch.linalg.solve_triangular(L, B, upper=False)
    return torch.linalg.solve_triangular(L.mT, half, upper=True)


class TorchSolver:
    """Systems with A = LLᵀ on a device."""

    def __init__(self, L: torch.Tensor) -> None:
        self.L = L

    def solve(self, B: Array) -> Array:
        """A⁻¹B, for one vector or several columns."""
        columns = sent(B.reshape(len(B), -1), self.L.device, self.L.dtype)
        return fetched(solved(self.L, columns)).reshape(B.shape)

    def half(self, B: Array) -> Array:
        """L⁻¹B."""
        columns = sent(B.reshape(len(B), -1), self.L.device, self.L.dtype)
        found = torch.linalg.solve_triangular(self.L, columns, upper=False)
        return fetched(found).reshape(B.shape)
