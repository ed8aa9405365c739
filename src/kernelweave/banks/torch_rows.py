"""Rows of a bank on a device of PyTorch: those of folds are moved together, once."""

from __future__ import annotations

import numpy as np
import torch

from kernelweave.stacks.torch_device import fine_device, numbers, sent
from kernelweave.views.parts import places
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table


def there(rows: Rows, device: torch.device) -> torch.Tensor:
    """The columns as kernels see them, in float64 or the widest numbers of the device.

    Parts of one table have its columns moved once, and pick and scale their rows there.
    """
    table, view = rows.table, rows.view
    if fine_device(device) != device:
        return sent(rows.values, device, torch.float32)
    if not table.shares or view.presence or view.filling is not None:
        return sent(rows.values, device)

    def moved(whole: Table) -> torch.Tensor:
        return sent(np.take(whole.numbers, view.columns, axis=1), device)

    store = table.store  # type: ignore[attr-defined]
    x = store.once((device, view.columns), moved)[numbers(places(table), device)]
    if view.shift is not None and view.factor is not None:
        x -= sent(view.shift, device)
        x *= sent(view.factor, device)
    return x
