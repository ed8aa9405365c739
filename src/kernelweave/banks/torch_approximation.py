"""Kernels made of few features on a device of PyTorch: ``approximation=`` beside ``device=``.

Features of landmarks and waves are chosen on the host, from few rows. Those of all rows are
computed where the factors will be, and stay there,

    F_k = k(rows, Z_k)T_k, less their mean, times √scale_k

The exact kernels are at hand, too: their rows are kept beside the factors, and a pass over all
pairs of rows judges the fit.
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernelweave._core.blocks import blocks
from kernelweave._core.types import Array
from kernelweave.banks.approximation import (
    Cholesky,
    Columns,
    Features,
    Landmarks,
    check_approximable,
    normalized,
)
from kernelweave.banks.factors import Approximated
from kernelweave.banks.member import TrainingKernel
from kernelweave.banks.row_kernels import row_kernels
from kernelweave.banks.storage import Kept, Recipe
from kernelweave.banks.torch_rows import there
from kernelweave.stacks.torch_device import KINDS, device_of, fetched, free_bytes, sent
from kernelweave.stacks.torch_factors import TorchFactorStack
from kernelweave.stacks.torch_stack import TorchStack
from kernelweave.stacks.torch_tiles import TILE, RowsView, entries_of
from kernelweave.views.rows import Rows

if TYPE_CHECKING:
    from kernelweave.kernels.base import Kernel


class OnDevice(Approximated):
    """The storage of one fit; equal kernels are not looked for."""

    def __init__(self, recipe: Recipe, device: str) -> None:
        super().__init__(recipe)
        self.device, self.name = device_of(device), device
        self.wide = torch.float32 if self.device.type == "mps" else torch.float64

    def available(self, kernels: list[TrainingKernel]) -> int | None:
        """Bytes of the device."""
        free = free_bytes(self.device)
        return int(free) if free < np.inf else None

    def build(self, kernels: list[TrainingKernel]) -> Kept:
        """A factor of each kernel that is not left out."""
        left, factors = list[TrainingKernel](), list[torch.Tensor]()
        exact, rows = list[TrainingKernel](), dict[int, RowsView]()
        for one in kernels:
            check_approximable(one.kernel)
            features = self._features(one.kernel, one.group.rows)
            F = self._learned(one, features, self._of_rows(features, one.group.rows, rows))
            if F is not None:
                left.append(one)
                factors.append(F)
                exact.append(_exact(one))
        if not left:
            return Kept([], None)
        return Kept(left, TorchFactorStack(factors, self._judge(exact, rows)))

    def _features(self, kernel: Kernel, rows: Rows) -> Features:
        """φ; few rows, or all of them for pivots, are looked at on the host."""
        approximation: Any = self.recipe.approximation
        if approximation.is_exact(kernel, rows):
            return Columns()
        if isinstance(approximation, Cholesky):
            return approximation.apply(kernel, rows)[0]
        found: Features = approximation.map(kernel, rows)
        return found

    def _of_rows(self, features: Features, rows: Rows, known: dict[int, RowsView]) -> torch.Tensor:
        """φ of all rows, (n, r), computed there where a kernel of two rows of numbers makes it."""
        entry = features.kernel.entry() if isinstance(features, Landmarks) else None
        if entry is None or rows.table.sparse:
            return sent(features(rows), self.device, self.wide)
        assert isinstance(features, Landmarks)
        if id(rows) not in known:
            known[id(rows)] = RowsView(there(rows, self.device))
        left = known[id(rows)]
        Z = RowsView(sent(features.rows.values, self.device, self.wide), left.center)
        T = sent(features.T, self.device, self.wide)
        out = T.new_empty(len(left), T.shape[1])
        for i in blocks(len(left), len(Z), TILE[self.device.type]):
            base = left.base(entry.kind, Z, i, slice(None), self.wide)
            out[i] = entries_of(entry, base) @ T
        return out

    def _learned(
        self, one: TrainingKernel, features: Features, F: torch.Tensor
    ) -> torch.Tensor | None:
        """The factor of the normalized kernel, None where the kernel is left out."""

        def averages(counts: Array) -> Array:
            return fetched(F @ (F.T @ self._sent(counts))) / counts.sum()

        diagonal = one.kernel.diagonal(one.group.rows)
        if not one.learn(diagonal, averages):
            return None
        norm, n = one.normalizer, len(F)
        counts = np.ones(n) if norm.weights is None else norm.weights
        mean = F.T @ self._sent(counts / counts.sum())
        made = normalized(features, one.kernel, norm, fetched(mean))
        one.approximate(made, diagonal - fetched(torch.linalg.vecdot(F, F)))
        if norm.means is not None:
            F -= mean
        if norm.inverse_norms is not None:
            F *= self._sent(norm.inverse_norms)[:, None]
        else:
            F *= math.sqrt(norm.scale)
        if one.places is not None:  # rows that lack the view have entries zero
            whole = F.new_zeros(one.n, F.shape[1])
            whole[torch.as_tensor(one.places, device=self.device)] = F
            F = whole
        return F.to(KINDS[np.dtype(self.dtype)] if self.wide is torch.float64 else self.wide)

    def _judge(self, exact: list[TrainingKernel], known: dict[int, RowsView]) -> TorchStack | None:
        """The exact kernels on the device; None where it cannot generate all, or one is centered.

        What is known of a centered kernel are means of its features, not its own.
        """
        if any(one.normalizer.means is not None for one in exact):
            return None
        views, others = row_kernels(exact)
        if others.size:
            return None
        groups = [exact[view.numbers[0]].group for view in views]
        seen = [known.get(id(one.rows)) if one.places is None else None for one in groups]
        rows = [None if one is None else one.X for one in seen]
        return TorchStack(views, None, self.name, rows=rows)

    def _sent(self, x: Array) -> torch.Tensor:
        return sent(x, self.device, self.wide)


def _exact(one: TrainingKernel) -> TrainingKernel:
    """The kernel that features stand for, normalized alike."""
    found = copy(one)
    assert one.exact is not None
    found.member = one.exact
    return found
