"""Systems (EKEᵀ + D)X = B with a kernel on a device: all but B and X stays there.

M⁻¹ = D + e + EFFᵀEᵀ,      M = D'⁻¹ − D'⁻¹EF(I + FᵀWF)⁻¹FᵀEᵀD'⁻¹,      D' = D + e,  W = EᵀD'⁻¹E
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from kernelweave._core.types import Array, Places
from kernelweave.stacks.conjugate import conjugate_gradients
from kernelweave.stacks.torch_device import fetched, numbers, sent
from kernelweave.stacks.torch_factor import TorchFactor, solved

if TYPE_CHECKING:
    from kernelweave.stacks.torch_combined import TorchCombined
    from kernelweave.stacks.torch_factors import TorchFactorCombined

ROUGH = 6e-3  # relative error from which on products of short numbers will do


class TorchShifted:
    """What solves these systems; ``rows`` are the rows of the variables."""

    def __init__(
        self,
        K: TorchCombined | TorchFactorCombined,
        rows: Places,
        D: Array,
        low: tuple[TorchFactor, Array],
        accuracy: float,
    ) -> None:
        self.K, self.accuracy, device = K, accuracy, K.stack.device
        self._rows = None if np.array_equal(rows, np.arange(K.n)) else numbers(rows, device)
        F, rest = low
        self._F = F
        self._D = sent(D[:, None], device, K.stack.wide)
        self._shifted = self._D + self._at(sent(rest[:, None], device, K.stack.wide))
        self._root = F.root(self._folded(1.0 / self._shifted)[:, 0])

    def solve(self, B: Array, near: Array | None) -> Array:
        """X for the columns of B, begun at ``near``."""
        there, first = (
            None if x is None else sent(x, self.K.stack.device, self.K.stack.wide)
            for x in (B, near)
        )
        accuracy = self.accuracy
        return fetched(
            conjugate_gradients(self._product, self._precondition, there, first, accuracy)
        )

    def half(self, B: Array) -> Array:
        """MB, MᵀM the inverse of the preconditioner: (I − Z(I + Lᵀ)⁻¹L⁻¹Zᵀ)D'^−½, Z = D'^−½EF.

        LLᵀ = I + ZᵀZ. That it is: with X = (I + Lᵀ)⁻¹L⁻¹, (I + L)(I + Lᵀ) = X⁻¹ + X⁻ᵀ − ZᵀZ.
        """
        root = self._shifted.sqrt()
        x = sent(B, root.device, root.dtype) / root
        onto = self._F.down(self._folded(x / root))
        onto = torch.linalg.solve_triangular(self._root, onto, upper=False)
        more = self._root.T.clone()
        more.diagonal().add_(1.0)
        onto = torch.linalg.solve_triangular(more, onto, upper=True)
        return fetched(x - self._at(self._F.up(onto)) / root)

    def _product(self, P: torch.Tensor) -> torch.Tensor:
        found = self.K.times(self._folded(P), self.accuracy > ROUGH)
        return self._D * P + self._at(found)

    def _precondition(self, R: torch.Tensor) -> torch.Tensor:
        x, kind = R / self._shifted, self._F.parts[0].dtype
        onto = self._F.down(self._folded(x).to(kind)).to(R.dtype)
        f = self._F.up(solved(self._root, onto).to(kind))
        return x - self._at(f.to(R.dtype)) / self._shifted

    def _at(self, f: torch.Tensor) -> torch.Tensor:
        """Values of the rows, for each variable: Ef."""
        return f if self._rows is None else f[self._rows]

    def _folded(self, x: torch.Tensor) -> torch.Tensor:
        """Variables, added up by row: Eᵀx."""
        if self._rows is None:
            return x
        return x.new_zeros(self.K.n, x.shape[1]).index_add_(0, self._rows, x)
