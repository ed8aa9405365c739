"""Group norms by a bundle over groups: views compete, kernels inside a view share.

    min_e J(e)   s.t.  e ≥ 0,  Σ_g ‖e_g‖_p ≤ 1
  = min_{t ∈ Δ} G(t),      G(t) = min { J(e) :  ‖e_g‖_p ≤ t_g }
                                = max_v  l(v) − ½ Σ_g t_g Q_g(v),     Q_g = ‖q_g(v)‖_{p/(p−1)}

with q_m(v) = s_m vᵀK_m v and l the part of the dual value without kernels. Q_g is convex in v, so
that a group acts like one kernel: every feasible v is a cut l(v) − ½ Q(v)·t of the convex function
G, and a mixture of solutions proves at least the bound of the mixture of their cuts. Shares t of
the groups come from the bundle. Inside a group e = t_g·r, and r moves by the closed-form step of
the two-step scheme, for p > 1 with a geometric rate, until the machine tells G(t) as exactly as
the bundle needs. The bound is that of the whole problem: max_v l(v) − ½ max_g Q_g(v).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelweave._core.tolerances import COINCIDE, LEAST_PROXIMAL, NOTHING, TINY
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Bundle, Descent, inner_tol
from kernelweave.learners.alternate import Alternate
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.machines.machine import Point
from kernelweave.problems.dual_qp import relative_gap
from kernelweave.problems.weight_sets import GroupBall, NormBall, WeightSet, towards

_VAIN = 3  # steps inside the groups that may gain nothing: rounding is all that is left
_RELAX = 1.5  # how much longer than in the plain scheme they are, on a logarithmic scale
_INNER = 0.3  # share of the gap of G(t) that machines may use up


class Grouped(Learner):
    """A proximal bundle over the shares of groups, closed-form steps inside each.

    ``newton`` and ``simple`` use it where ``weight_norm`` is a ``GroupNorm``. Without groups it is
    ``alternate`` for p > 1; on the simplex, where each kernel is a group, a plain bundle.
    """

    sums = True
    groups = True

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One step of the bundle at a time, from unit weights ``e``."""
        first = first_point(evaluator, e, inner_tol(1.0, tol))
        state = _GroupDescent(evaluator, incumbent, first, tol)
        yield Step("grouped")
        while True:
            state.step()
            yield Step("grouped")


def learner_of_norms(evaluator: Evaluator) -> Learner:
    """What solves problems under norms p > 1: of all kernels, or in groups."""
    return Grouped() if isinstance(evaluator.weight_set, GroupBall) else Alternate(relax=1.5)


@dataclass(frozen=True)
class _SeenGroups:
    """The shares t of groups, and the last machine there, with its Q."""

    t: Array
    point: Point
    Q: Array

    @property
    def primal(self) -> float:
        return self.point.primal

    @property
    def bound(self) -> float:
        """A lower bound of G(t)."""
        return self.point.linear - 0.5 * float(self.Q @ self.t)


class _GroupDescent(Descent[_SeenGroups]):
    """Steps on G; ``inside`` are the weights r of kernels in their groups."""

    def __init__(
        self, evaluator: Evaluator, incumbent: Incumbent, first: Point, tol: float
    ) -> None:
        self.evaluator, self.incumbent, self.tol = evaluator, incumbent, tol
        self.weight_set = _in_groups(evaluator.weight_set)
        self.bundle = Bundle(tol)
        even = np.ones(first.e.size)
        t = self.weight_set.sizes(first.e)
        self.inside = self._whole(np.where(self._spread(t) > 0.0, first.e, even))
        self.least = COINCIDE * self._whole(even)  # from zero none comes back
        super().__init__(self._settle(t, first, inner_tol(1.0, tol)), damping=0.1)

    def _spread(self, t: Array) -> Array:
        """For every kernel the value of its group."""
        return t[self.weight_set.groups]

    def _whole(self, r: Array) -> Array:
        """Weights of norm 1 in every group."""
        return r / self._spread(self.weight_set.sizes(r))

    def _settle(self, t: Array, point: Point, close: float) -> _SeenGroups:
        """Move r, from a machine at t, until G(t) is known to the relative gap ``close``."""
        least, vain = np.inf, 0
        while True:
            seen = _SeenGroups(t, point, self.weight_set.supports(point.q))
            self.incumbent.offer_bound(self.evaluator.bound(point.v, point.q))
            gap = relative_gap(seen.primal, seen.bound)
            least, vain = (gap, 0) if gap < 0.99 * least else (least, vain + 1)
            known = gap <= close or self.incumbent.gap <= self.tol
            if known or vain >= _VAIN or not point.is_bounded:
                self.bundle.keep(point.v, point.linear, seen.Q)
                return seen
            self._move(point.q)
            point = self.evaluator.solve(self._spread(t) * self.inside, _INNER * close)

    def _move(self, q: Array) -> None:
        """One step inside the groups; under p = ∞ all weights are 1."""
        p = self.weight_set.norm
        if not np.isinf(p):
            moved = self._whole(towards(self.inside, np.maximum(q, TINY), p, _RELAX))
            self.inside = self._whole(np.maximum(moved, self.least))

    def propose(self) -> tuple[Array, float]:
        """Minimize the cuts and the proximal term."""
        delta = max(self.damping, LEAST_PROXIMAL) * float(self.center.Q.max())
        t, multipliers = self.bundle.minimize(self.center.t, delta)
        self._offer(multipliers)
        model = self.bundle.model(t)
        self.bundle.thin(multipliers)
        return t, model

    def look(self, e: Array, share: float) -> _SeenGroups:
        """The machine at shares ``e``, with the best weights inside the groups."""
        close = self.bundle.step_tol(share, self.incumbent.gap)
        point = self.evaluator.solve(self._spread(e) * self.inside, _INNER * close)
        return self._settle(e, point, close)

    def reject(self, seen: _SeenGroups, promise: float, share: float) -> None:
        """Stay, prove what the cuts prove, and shorten steps where the new one taught little."""
        bundle, center = self.bundle, self.center
        _, multipliers = bundle.minimize(center.t, NOTHING * float(np.ptp(seen.Q)))
        self._offer(multipliers)
        bundle.disappointed(share)
        cut = seen.point.linear - 0.5 * float(seen.Q @ center.t)
        if center.primal - cut > promise:
            super().reject(seen, promise, share)

    def _offer(self, multipliers: Array) -> None:
        """Offer the mixture as a dual point."""
        v = self.bundle.mixture(multipliers)[0]
        self.incumbent.offer_bound(self.evaluator.bound(v, by="mixture"))


def _in_groups(weight_set: WeightSet) -> GroupBall:
    """The set with its groups spelt out: each kernel one on the simplex, otherwise one for all."""
    if isinstance(weight_set, GroupBall):
        return weight_set
    scale, m = weight_set.scale, weight_set.scale.size
    if isinstance(weight_set, NormBall):
        return GroupBall(scale, weight_set.norm, np.zeros(m, int))
    return GroupBall(scale, 1.0, np.arange(m))
