"""Weights of either sign by semidefinite programming [lanckriet2004, eq. 25].

    min_d  J(d)    s.t.   K(d) = Σ_m d_m K_m ⪰ 0,   tr K(d) = c

K(d) is over all rows, labeled or not; J, half of the paper's ω_{C,τ}, is over the labeled ones.
The criteria are losses: hard margin (31), 1-norm (36: hinge), 2-norm (41: squared hinge). With C
learned (45) the identity is one kernel more; K(d) does not contain it, its weight τ = 1/C ≥ 0 is
a constraint of its own, and the trace is that of K(d) + τI.

The paper's program has n² variables; here it is solved in the m weights. J is smooth inside the
set: on the joint range of the kernels K(d) is then definite, so that vᵀK_m v is the same for all
solutions v of the machine, and −½vᵀK_m v is the gradient of J. For any feasible v the minimum is at
least l(v) − ½σ(q), q_m = vᵀK_m v, with σ the support function of the set; the interior point method
bounds it by a matrix Z ⪰ 0 (see ``kernelweave._solvers.signed.interior_point``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from kernelweave._core.cached import cached_property
from kernelweave._core.tolerances import SOFT_EXACT
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave._solvers.signed.interior_point import follow_sets
from kernelweave._solvers.signed.semidefinite_set import Joint, SemidefiniteSet, nested_sets
from kernelweave._solvers.signed.support import support
from kernelweave._solvers.svm.curvature import Look
from kernelweave.learners.base import Learner, Step
from kernelweave.machines.certified import certified_point
from kernelweave.machines.evaluator import (
    NOT_SEPARABLE,
    Bound,
    Evaluator,
    HardMarginInfeasible,
    Incumbent,
)
from kernelweave.machines.machine import Point
from kernelweave.problems.dual_qp import relative_gap

_NEAR = 0.05  # relative gap of a machine that another problem is begun with


class Sdp(Learner):
    """Signed weights: a primal-dual interior point method in weight space, one SVM per step.

    The least of all criteria that weights can reach under the trace constraint: never above that
    of nonnegative weights, which in turn is never above that of one kernel. A signed combination
    is a kernel on the rows given, and need not be one beside new rows: use it for transduction.

    Where kernels differ by little, large weights of opposite sign tell them apart, but rounding
    would soon decide whether K ⪰ 0. With equal traces no weight goes below −10⁷ times the mean
    one (−10³ for float32): a warning says where that limit is reached, the certificate is for all
    weights within it. K ⪰ 0 holds to 1e-8 (1e-5 for float32), as for any kernel, of the trace
    asked for, which is that of K + τI where C is learned. Where K ⪰ 0 cannot be decided
    otherwise, as with wide Gaussians, a tenth of this is used up in directions in which all
    kernels nearly vanish; the optimum and its certificate are then those of this
    larger set, lower by up to a percent or so.
    """

    targets = ("labels",)
    why_not = "weights of either sign are for the transduction of labels"
    signed = True
    settles = True  # bounds by Z: those of the evaluator are for weights ≥ 0
    sums = True
    weighted = False
    needs_dense = True
    weight_norms = (1,)
    patience = 50  # what rounding stops it does not take up again

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One SVM per step, from unit weights ``e`` or as near to them as K ⪰ 0 allows."""
        problem = evaluator.problem
        scale = problem.weight_set.scale
        first = bound = incumbent.bound
        best: Point | None = None
        best_q = np.zeros(e.size)
        seen: SemidefiniteSet | None = None
        near = _begins_near(evaluator, e)

        def starts(region: SemidefiniteSet) -> Iterable[Array]:
            nearest = e if best is None else best.e
            others = (region.center, *np.eye(e.size)[scale > 0.0])
            return region.inside(nearest, near), *map(region.inside, others)

        joint = Joint(problem.whole, scale, identity=problem.learns_C)
        path = follow_sets(nested_sets(joint), partial(_look, evaluator), starts, tol, near)
        for region, center in path:
            if region is not seen:
                seen = region
                if region.lenient:  # bounds of the sets before it need not hold for it
                    bound = first
                if best is not None and not region.contains(best.e):
                    best = None
            point, q = center.look.point, center.look.kernels.q
            if best is None or point.primal < best.primal:
                best, best_q = point, q
            bound = _better(bound, point, q, center.bound)
            if relative_gap(best.primal, bound.value) <= tol:
                _warn_at_limit(best.e, region.least)
            yield _settled(evaluator, best, bound)
        if best is None or seen is None:
            raise HardMarginInfeasible(NOT_SEPARABLE)
        # no step helped: the bound that Z falls short of has a problem of its own
        most = support(joint, best_q, best.e) + best.doubt
        proven = Bound(best.linear - 0.5 * most, best.v, "support function")
        if proven.value > bound.value:
            if relative_gap(best.primal, proven.value) <= tol:
                _warn_at_limit(best.e, seen.least)
            yield _settled(evaluator, best, proven)

    def unsolved(self, evaluator: Evaluator, e: Array) -> Step:
        """f = 0 under equal weights, which have the trace asked for: kernels without one do not."""
        used = (evaluator.weight_set.scale > 0.0).astype(float)
        return super().unsolved(evaluator, used / used.sum())


def _begins_near(evaluator: Evaluator, e: Array) -> bool:
    """Whether weights and machine of an earlier solution nearly fit, as those of a row less do."""
    if not evaluator.last.given or evaluator.last.v is None:
        return False
    point = evaluator.judge(e, evaluator.last.v)
    return relative_gap(point.primal, point.value) <= _NEAR


def _settled(evaluator: Evaluator, best: Point, bound: Bound) -> Step:
    """Rounding is charged to the bound already."""

    def certify(fine: bool) -> tuple[Point, Bound]:
        return certified_point(evaluator.machine, best, fine), bound

    return Step("sdp", settled=(best, bound), certify=certify)


def _better(bound: Bound, point: Point, q: Array, proven: float) -> Bound:
    """The greater of two bounds, the second by the multiplier Z at ``point``."""
    value = min(proven, point.linear - 0.5 * float(q.max()))
    value -= 0.5 * point.doubt  # the q_m err as their combination does
    return Bound(value, point.v, "multiplier Z") if value > bound.value else bound


def _warn_at_limit(e: Array, least: Array) -> None:
    """Say so where weights are near the least that are allowed."""
    reached = least[e < 0.5 * least]
    if reached.size:
        warn(
            f"some kernels differ by so little that weights near {reached.min():.0e} of the trace "
            "tell them apart: that is the limit, since rounding would decide on larger ones "
            "whether K ⪰ 0; the certificate is for weights within it; leave a kernel out"
        )


def _look(evaluator: Evaluator, e: Array, close: float) -> _Tangent | None:
    point = evaluator.solve(e, close, exact=True)
    # where rounding alone keeps f from separating the classes, the next point may do better
    if not point.is_bounded:
        return None
    met = point.primal < np.inf or evaluator.machine.improved(point).primal < np.inf
    return _Tangent(evaluator, point) if met else None


@dataclass(frozen=True)
class _Tangent:
    """J at one point: its tangent l(v) − ½q·e lies below J everywhere."""

    evaluator: Evaluator
    point: Point

    @property
    def value(self) -> float:
        return self.point.value

    @cached_property
    def kernels(self) -> Look:
        """One pass over the kernels."""
        return self.evaluator.look(self.point)

    def expand(self) -> tuple[float, Array, Array | None]:
        look = self.kernels
        return self.point.linear, -0.5 * look.q, look.curvature(SOFT_EXACT)
