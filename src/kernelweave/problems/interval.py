"""Interval-censored targets: what is known of a row is that its target lies between two ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.checks import check_floats, check_number
from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array, Mask
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import Loss, far_origin

ENDS = np.dtype([("lower", float), ("upper", float)])
AMONG_WEIGHTED = " among the rows with a positive sample_weight"


class Interval(Loss):
    """½‖f‖² + C Σ max(0, l_i − f_i − b − ε, f_i + b − u_i − ε), where l_i ≤ target ≤ u_i.

    y has shape (n, 2), or (n,) where all targets are exact, l = u: that is
    ``EpsilonInsensitive``. An end may be infinite: l = −∞ below a detection limit u, u = ∞ for a
    patient who was last seen alive after time l. A row that is open on both sides takes no part.
    """

    target = "intervals"
    blank = (-np.inf, np.inf)

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def check(self) -> None:
        """ε ≥ 0."""
        check_number("epsilon", self.epsilon, zero=True)

    def read(self, y: Any) -> tuple[Any, Mask]:
        """Both ends of each row, and whether one of them is finite."""
        ends = read_ends(y)
        return ends, informed(ends)

    def check_left(self, targets: Any) -> None:
        """Complain where rows of weight zero were all that said something."""
        check_informed(targets, AMONG_WEIGHTED)

    def cost(self, targets: Any, f: Array) -> Array:
        """What a prediction f costs each row, at C = 1."""
        below, above = targets["lower"] - f, f - targets["upper"]
        return np.maximum(np.maximum(below, above) - float(self.epsilon), 0.0)

    def lower(self, y: Any, C: float | Array, ridge: float = 0.0) -> DualQP:
        """c = l − ε, u + ε,  0 ≤ v⁺ ≤ C,  −C ≤ v⁻ ≤ 0; v = 0 where the end is open.

        An open end has c = 0, as 0·∞ is no number.
        """
        ends = np.concatenate([y["lower"], y["upper"]])
        known = np.isfinite(ends)
        origin, epsilon = far_origin(ends[known]), np.repeat([-1.0, 1.0], y.size) * self.epsilon
        edges = np.where(known, ends - origin + epsilon, 0.0)
        cost, none = np.broadcast_to(C, y.shape), np.zeros(y.size)
        return DualQP(
            linear=edges,
            lower=np.where(known, np.concatenate([none, -cost]), 0.0),
            upper=np.where(known, np.concatenate([cost, none]), 0.0),
            n=y.size,
            ridge=ridge,
            origin=origin,
            doubt=0.5 * EPS * np.abs(edges) if self.epsilon > 0.0 else 0.0,
        )


def read_ends(y: Any) -> Any:
    """Both ends of each row as a structured array (n,), from (n, 2), (n,) or such an array."""
    if getattr(y, "dtype", None) == ENDS:
        y = np.stack([y["lower"], y["upper"]], axis=1)
    values = check_floats("y", y)
    if values.ndim not in (1, 2) or values.shape[1:] not in ((), (2,)) or not values.size:
        raise ValueError(
            "y must have shape (n, 2), the lower and upper end of every row, or (n,) where all "
            f"targets are exact; found {values.shape}"
        )
    ends = np.empty(len(values), ENDS)
    ends["lower"], ends["upper"] = values.T if values.ndim == 2 else (values, values)
    _refuse(np.isnan(ends["lower"]) | np.isnan(ends["upper"]), ends, "y contains NaN")
    _refuse(ends["lower"] > ends["upper"], ends, "y has a lower end above its upper end")
    nowhere = (ends["lower"] == np.inf) | (ends["upper"] == -np.inf)
    what = "y contains infinity where it says nothing: (-inf, u) and (l, inf) leave an end open;"
    _refuse(nowhere, ends, what)
    check_informed(ends)
    return ends


def informed(ends: Any) -> Mask:
    """Which rows say something: one of their ends is finite."""
    known: Mask = np.isfinite(ends["lower"]) | np.isfinite(ends["upper"])
    return known


def middle(ends: Any) -> Array:
    """The middle of each row, or its one finite end; NaN where there is none."""
    low, high = ends["lower"], ends["upper"]
    one = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, np.nan))
    both = np.isfinite(low) & np.isfinite(high)
    return np.where(both, 0.5 * np.where(both, low, 0.0) + 0.5 * np.where(both, high, 0.0), one)


def check_informed(ends: Any, where: str = "") -> None:
    """Complain if no row says anything."""
    if not informed(ends).any():
        raise ValueError(
            f"y has no finite end{where}: every row is open on both sides, (-inf, inf), and there "
            "is nothing to learn from"
        )


def _refuse(wrong: Mask, ends: Any, why: str) -> None:
    if wrong.any():
        row, count = int(np.argmax(wrong)), int(np.count_nonzero(wrong))
        low, high = ends[row].tolist()
        first = f"in row {row}" if count == 1 else f"in {count} rows, the first is row {row}"
        raise ValueError(f"{why} {first}: ({low:g}, {high:g})")
