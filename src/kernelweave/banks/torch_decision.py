"""Decision values on a device of PyTorch, for new rows and kernels of two dense rows of numbers.

    f(x) = Σ_j coef_j Σ_m d_m k_m(x, x_j)

Tiles of entries in float64, none of them kept; what a view's kernels share is computed once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kernelweave._core.types import Array, Places
from kernelweave.banks.evaluation import Numbered
from kernelweave.banks.normalize import inverse_root
from kernelweave.banks.torch_rows import there
from kernelweave.stacks.row_kernels import Entry
from kernelweave.stacks.torch_device import device_of, fetched, fine_device, sent
from kernelweave.stacks.torch_tiles import RowsView, TileGroup, tiled
from kernelweave.views.columns import View
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table


def through_device(
    bank: Any,
    new: Table,
    members: list[Numbered],
    weights: Array,
    coef: Array,
    index: Places | None,
) -> tuple[list[int], Array]:
    """The numbers of the kernels that a device can generate, and Σ_m weights_m K_m coef of these.

    Centered kernels are left to the host, which needs all training rows for them. ``weights`` has
    one set for all machines, or one row for each; ``index``: which training rows have a ``coef``.
    """
    train, out = bank.table, np.zeros((len(new), *coef.shape[1:]))
    device = device_of(bank.device)
    if fine_device(device) != device:  # it has no float64
        return [], out
    views: dict[View, list[tuple[int, Any]]] = {}  # those left have a kernel and a normalizer
    for number, one in members:
        kernel: Any = one.kernel
        if not (train.sparse or new.sparse or one.centered or kernel.entry() is None):
            views.setdefault(one.view, []).append((number, one))
    if not (views and len(coef) and len(new)):
        return [], out
    train = train.take(bank.places if index is None else bank.places[index])

    for view, kernels in views.items():
        having, rows = Rows.having(new, view)
        right = RowsView(there(Rows(train, view), device))
        left = RowsView(there(rows, device), right.center)
        groups, sides = [], []
        for number, one in kernels:
            after = one.normalizer.inverse_norms
            after = after if after is None or index is None else after[index]
            side = weights[..., number] * coef
            side = side * one.scale if after is None else (side.T * after).T
            groups.append(TileGroup(0, ((1.0, Entry(*one.kernel.entry())),)))
            sides.append(sent(side.reshape(len(train), -1), device))
        found = fetched(tiled(left, right, groups, sides, torch.float64))
        for (number, one), values in zip(kernels, found, strict=True):
            if not np.isfinite(values).all():
                raise ValueError(
                    f"Kernel {one.name!r} is not finite between these rows of X and the training "
                    "rows."
                )
            if one.normalizer.inverse_norms is not None:
                values *= inverse_root(one.kernel.diagonal(rows))[:, None]
            part = np.empty_like(out)
            if having is not None:
                part[...] = weights[..., number] * (bank.average(index, number, one) @ coef)
            part[slice(None) if having is None else having] = values.reshape(-1, *out.shape[1:])
            out += part
    return [number for kernels in views.values() for number, _ in kernels], out
