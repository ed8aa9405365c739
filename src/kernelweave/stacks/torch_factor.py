"""A factor and a Cholesky factor that lie on a device; what they are asked for are host arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from kernelweave._core.blocks import blocks
from kernelweave._core.types import Array, Index
from kernelweave.stacks.factor import DerivedFactor
from kernelweave.stacks.torch_device import fetched, numbers, sent

_ENTRIES = 2**28  # of F that are widened at a time
_PANEL = 2048  # columns of F's Gram matrix that are computed at a time: half of it is enough


class TorchFactor(DerivedFactor):
    """F = [F_1, F_2, …] diag(scale) on a device; sums are float64 where the device has them.

    Parameters
    ----------
    parts : tensors (n, r_k), float64 or float32
        They are never copied as a whole.
    scale : tensor (Σ r_k,), None for ones
    """

    def __init__(self, *parts: torch.Tensor, scale: torch.Tensor | None = None) -> None:
        self.parts, self.scale = parts, scale

    @property
    def shape(self) -> tuple[int, int]:
        """(n, R)."""
        return len(self.parts[0]), sum(part.shape[1] for part in self.parts)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.parts[0].device

    @property
    def wide(self) -> torch.dtype:
        """The widest numbers of the device."""
        return torch.float32 if self.device.type == "mps" else torch.float64

    def rows(self, i: slice | torch.Tensor) -> torch.Tensor:
        """Some rows of F, as precise as they are kept; not to be changed."""
        some = self._beside(i)
        return some if self.scale is None else some * self.scale

    def down(self, V: torch.Tensor) -> torch.Tensor:
        """FᵀV, for the columns of V (n, c) on the device, in the numbers of V."""
        out = torch.cat([_down(part, V) for part in self.parts])
        return out if self.scale is None else self.scale[:, None] * out

    def up(self, Z: torch.Tensor) -> torch.Tensor:
        """FZ, for the columns of Z (R, c) on the device, in the numbers of Z."""
        Z = Z if self.scale is None else self.scale[:, None] * Z
        out, first = Z.new_zeros(self.shape[0], Z.shape[1]), 0
        for part in self.parts:
            own = Z[first : first + part.shape[1]]
            first += len(own)
            for i in _alike(part, Z):
                out[i] += part[i].to(Z.dtype) @ own
        return out

    def array(self, rows: Index | None = None) -> Array:
        """F as a new array, or some rows of it."""
        at = slice(None) if rows is None else self._numbers(rows)
        return fetched(self.rows(at))

    def take(self, rows: Index) -> TorchFactor:
        """Some rows of F, copied."""
        at = self._numbers(rows)
        return TorchFactor(*[part[at] for part in self.parts], scale=self.scale)

    def onto(self, v: Array) -> Array:
        """Fᵀv, for one vector or the columns of (n, k)."""
        return self._host(self.down, v)

    def times(self, z: Array) -> Array:
        """Fz, for one vector or the columns of (R, k)."""
        return self._host(self.up, z)

    def sizes(self) -> Array:
        """The squared norm of each row, (FFᵀ)_ii."""
        out = np.empty(self.shape[0])
        for i in blocks(*self.shape, _ENTRIES):
            some = self.rows(i).to(self.wide)
            out[i] = fetched(torch.linalg.vecdot(some, some))
        return out

    def gram(self, weights: Array, kind: type = np.float64) -> Array:
        """Fᵀ diag(weights) F for weights that are not negative, (R, R)."""
        return fetched(self._gram(sent(weights, self.device, self.wide)))

    def _gram(self, weights: torch.Tensor) -> torch.Tensor:
        n, R = self.shape
        root = weights.sqrt()
        out = torch.zeros(R, R, dtype=self.wide, device=self.device)
        for i in blocks(n, R, _ENTRIES):
            some = self._beside(i) * root[i, None]
            for panel in blocks(R, 1, _PANEL):
                out[panel, : panel.stop] += some[:, panel].T @ some[:, : panel.stop]
        if self.scale is not None:
            out *= self.scale[:, None] * self.scale
        lower = torch.tril(out)
        return lower + torch.tril(out, -1).T

    def inverse(self, weights: Array, kind: type = np.float64) -> Callable[[Array], Array]:
        """What multiplies by (I + Fᵀ diag(weights) F)⁻¹; raises ``LinAlgError`` where none does."""
        return TorchSolver(self.root(sent(weights, self.device, self.wide))).solve

    def root(self, weights: torch.Tensor) -> torch.Tensor:
        """L with LLᵀ = I + Fᵀ diag(weights) F."""
        G = self._gram(weights)
        G.diagonal().add_(1.0)
        L, failed = torch.linalg.cholesky_ex(G)
        if int(failed):
            raise np.linalg.LinAlgError("the matrix of the factor is not positive definite")
        return L

    def _beside(self, i: slice | torch.Tensor) -> torch.Tensor:
        """Some rows of the parts."""
        if len(self.parts) == 1:
            return self.parts[0][i]
        return torch.cat([part[i] for part in self.parts], 1)

    def _numbers(self, rows: Index) -> torch.Tensor:
        return numbers(np.arange(self.shape[0])[rows], self.device)

    def _host(self, product: Callable[[torch.Tensor], torch.Tensor], v: Array) -> Array:
        found = fetched(product(sent(v[:, None] if v.ndim == 1 else v, self.device, self.wide)))
        return found.reshape(len(found), *v.shape[1:])


def _alike(part: torch.Tensor, V: torch.Tensor) -> Iterator[slice]:
    """Rows of a part that can be widened to the numbers of V at a time; all where they need not."""
    n = len(part)
    yield from blocks(n, part.shape[1], _ENTRIES) if part.dtype != V.dtype else [slice(0, n)]


def _down(part: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """FᵀV for one part."""
    out = V.new_zeros(part.shape[1], V.shape[1])
    for i in _alike(part, V):
        out += part[i].T.to(V.dtype) @ V[i]
    return out


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
        return fetched(solved(self.L, _columns(B, self.L))).reshape(B.shape)

    def half(self, B: Array) -> Array:
        """L⁻¹B."""
        found = torch.linalg.solve_triangular(self.L, _columns(B, self.L), upper=False)
        return fetched(found).reshape(B.shape)


def _columns(B: Array, like: torch.Tensor) -> torch.Tensor:
    """One vector or several columns, in columns on the device."""
    return sent(B[:, None] if B.ndim == 1 else B, like.device, like.dtype)
