"""One class: which rows are unlike the others; there is no target."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.types import Array, Mask
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import Loss


class OneClass(Loss):
    """½‖f‖² + C Σ (−f_i − b)₊ + b [rakoto2007, §2.3]; y says how many rows there are.

    With C = 1/(νn) at most a share ν of the rows is outside, where f + b < 0.
    """

    target = "nothing"

    def read(self, y: Any) -> tuple[Array, Mask]:
        """One zero per entry of y, whatever it holds."""
        if y is None:
            raise TypeError("y=None does not say how many rows there are: pass np.zeros(n)")
        n = len(np.asarray(y))
        return np.zeros(n), np.ones(n, dtype=bool)

    def lower(self, y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
        """0 ≤ v ≤ C,  Σv = 1."""
        none = np.zeros(y.size)
        upper = np.array(np.broadcast_to(C, y.shape), dtype=float)
        if not upper.sum() >= 1.0:
            raise ValueError(
                f"with loss='one_class' the costs of all rows must add up to at least 1, found "
                f"{upper.sum():g}: C = 1/(νn) with 0 < ν ≤ 1 does"
            )
        return DualQP(none, none, upper, y.size, ridge=ridge, total=1.0)
