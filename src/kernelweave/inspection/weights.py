"""The weights of a fitted model as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave.inspection._frames import frame
from kernelweave.inspection._models import check_readable

if TYPE_CHECKING:
    from pandas import DataFrame


def weights_frame(model: Any) -> DataFrame:
    """One line per kernel, the heaviest first: kernel, view, weight, raw_weight, dropped.

    ``dropped`` says why a kernel was left out, and is empty for the others. If the machines of a
    model have weights of their own, there is one line per machine and kernel, and a column
    ``machine``.
    """
    check_readable("model", model, ("weights_", "bank_", "kernel_names_"))
    bank, weights, raw = model.bank_, np.asarray(model.weights_), np.asarray(model.raw_weights_)
    dropped = bank.dropped
    machines = 1 if weights.ndim == 1 else len(weights)
    columns = {
        "machine": np.repeat(np.arange(machines), bank.m_all),
        "kernel": np.tile(np.array(bank.names, dtype=object), machines),
        "view": np.tile(np.array(bank.views, dtype=object), machines),
        "weight": weights.ravel(),
        "raw_weight": raw.ravel(),
        "dropped": np.tile(
            np.array([dropped.get(name, "") for name in bank.names], dtype=object), machines
        ),
    }
    if machines == 1:
        del columns["machine"]
    order = np.lexsort((-columns["weight"], columns.get("machine", np.zeros(weights.size))))
    return frame({name: column[order] for name, column in columns.items()})
