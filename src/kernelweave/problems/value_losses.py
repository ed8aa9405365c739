"""Losses of numbers: h = y − f − b."""

from __future__ import annotations

import numpy as np

from kernelweave._core.checks import check_number, is_number
from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import Loss


class EpsilonInsensitive(Loss):
    """½‖f‖² + C Σ (|y_i − f_i − b| − ε)₊: per row one variable for either side of the tube."""

    of_errors = True

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def check(self) -> None:
        """ε ≥ 0."""
        check_number("epsilon", self.epsilon, zero=True)

    def lower(self, y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
        """c = y ∓ ε,  0 ≤ v⁺ ≤ C,  −C ≤ v⁻ ≤ 0."""
        cost, none, epsilon = np.broadcast_to(C, y.shape), np.zeros_like(y), float(self.epsilon)
        edges = np.concatenate([y - epsilon, y + epsilon])
        return DualQP(
            linear=edges,
            lower=np.concatenate([none, -cost]),
            upper=np.concatenate([cost, none]),
            n=y.size,
            ridge=ridge,
            doubt=0.5 * EPS * np.abs(edges) if epsilon > 0.0 else 0.0,
        )


class Squared(Loss):
    """½‖f‖² + (C/2) Σ (y_i − f_i − b)²: kernel ridge regression, with a bias."""

    of_errors = True

    def lower(self, y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
        """No bounds, ρ = 1/C."""
        everywhere = np.full(y.size, np.inf)
        return DualQP(y, -everywhere, everywhere, y.size, ridge=ridge + 1.0 / C)


class Quantile(Loss):
    """½‖f‖² + C Σ max(q h_i, (q − 1) h_i), h = y − f − b: a share q of the targets lies below."""

    of_errors = True

    def __init__(self, quantile: float = 0.5) -> None:
        self.quantile = quantile

    def check(self) -> None:
        """0 < q < 1."""
        if not is_number(self.quantile) or not 0.0 < self.quantile < 1.0:
            raise ValueError(f"quantile must lie between 0 and 1, found {self.quantile!r}")

    def lower(self, y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
        """−C(1 − q) ≤ v ≤ Cq."""
        cost, quantile = np.broadcast_to(C, y.shape), float(self.quantile)
        return DualQP(y, (quantile - 1.0) * cost, quantile * cost, y.size, ridge=ridge)
