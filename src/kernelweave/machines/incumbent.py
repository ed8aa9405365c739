"""The ledger of a fit: the best upper and lower bound so far, and who proved them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelweave._core.types import Array
from kernelweave.problems.dual_qp import relative_gap

if TYPE_CHECKING:
    from kernelweave.machines.evaluator import Point


@dataclass(frozen=True)
class Bound:
    """A lower bound of the optimum, and the feasible v that proves it.

    Not ``exact``: q was bounded from above, so that v itself may prove more. ``by`` says where v
    comes from: "start", "machine" (one solve), "mixture" (several), or a learner's own proof. ``q``
    are its s_m vᵀK_m v, where they are known.
    """

    value: float
    v: Array
    by: str
    exact: bool = True
    q: Array | None = None


class Incumbent:
    """The point with the least primal value, and the greatest lower bound."""

    def __init__(self, first: Bound) -> None:
        self.best: Point | None = None
        self.bound = first

    @property
    def gap(self) -> float:
        """Relative gap between the two; infinite before there is a point."""
        if self.best is None:
            return float(np.inf)
        return relative_gap(self.best.primal, self.bound.value)

    def offer(self, point: Point) -> None:
        """Keep the point if its primal value is the least so far."""
        best = self.best
        if best is None or point.primal < best.primal or np.isnan(best.primal):
            self.best = point

    def offer_bound(self, bound: Bound) -> bool:
        """Keep the bound if it is the greatest so far; whether it is."""
        better = bound.value > self.bound.value
        if better:
            self.bound = bound
        return better

    def settle(self, point: Point, bound: Bound) -> None:
        """Replace both: these weights are given, or the objective is a learner's own."""
        self.best, self.bound = point, bound
