"""Huber's loss: squared near the targets, linear where some are far off."""

from __future__ import annotations

import numpy as np

from kernelweave._core.checks import check_number
from kernelweave._core.types import Array
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import Loss


class Huber(Loss):
    """½‖f‖² + C Σ ℓ(y_i − f_i − b), ℓ(h) = h²/2 where |h| ≤ δ, and δ|h| − δ²/2 beyond.

    As ``Squared`` for small errors, and as robust against targets far off as the absolute error.

    Parameters
    ----------
    delta : float
        δ > 0, the error from which on the loss is linear; in ``MKLRegressor`` in standard
        deviations of the targets.

    Examples
    --------
    >>> from kernelweave import Huber, MKLRegressor
    >>> MKLRegressor(loss=Huber(delta=0.5))
    MKLRegressor(loss=Huber(delta=0.5))
    """

    of_errors = True

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = delta

    def check(self) -> None:
        """δ > 0."""
        check_number("delta of Huber", self.delta)

    def lower(self, y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
        """−Cδ ≤ v ≤ Cδ,  ρ = 1/C: hu − u²/2C is greatest at u = Ch, or at the bound ahead."""
        most = np.broadcast_to(np.multiply(C, float(self.delta)), y.shape)
        return DualQP(y, -most, most, y.size, ridge=ridge + 1.0 / C)
