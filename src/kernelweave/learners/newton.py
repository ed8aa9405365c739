"""Newton's method on the kernel weights (HessianMKL) [chapelle2008, §3].

    min_{e ∈ Δ}  max_k (l_k − ½ q_k·e)  +  ½ (e − ē)ᵀ(H + diag(δ))(e − ē)

Near a smooth optimum only the newest cut is active and the solution is the constrained Newton step
of [chapelle2008, eq. 4]. Where J has a kink the older cuts describe it; a step that does not
lower J enough adds a cut, which takes the place of backtracking. Once the gap is small, Newton's
method on weights and machine together finds the digits that are left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelweave._core.tolerances import LEAST_PROXIMAL, SOFT
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import GOOD, Cuts, Descent, descend, inner_tol
from kernelweave._solvers.joint_newton import refined
from kernelweave._solvers.reduced_gradient import descent_step
from kernelweave._solvers.svm.curvature import Look
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.learners.grouped import learner_of_norms
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.machines.machine import Point
from kernelweave.problems.dual_qp import relative_gap

_STRAIGHT = 1e-2  # bend of J below which it counts as straight
_PAYS = 0.1  # share of the gap by which J must fall in a first step, to make another
_FOLLOWS = 10.0  # times the tolerance: from this gap on a machine may follow the weights
_WORTH = 0.8  # share of its gap that a machine that follows leaves, or it does so no more
_BY_PRODUCTS = 0.5  # share of the tolerance to which machines by products are solved
_LATE = 1e-5  # gap from which on bounds and kernels in use are those of the optimum, mostly
_SMALL = 0.2  # share of the mean weight below which a first step drops a kernel, for now
_PATIENCE = 12  # steps without a smaller gap after which the bundle goes on alone


class Newton(Learner):
    """Newton steps on J, made robust by the cuts of past solutions.

    Under a weight norm p > 1 the closed-form scheme is as exact and faster, and is used instead;
    in groups of kernels, its bundle over groups. ``Solution.history["by"]`` says which kind a step
    was: "multiplicative" or "simple" at first, "newton", "joint" (weights and machine moved
    together), and "bundle" where J has a kink.

    Parameters
    ----------
    warm_up : int
        At most so many multiplicative steps e ∝ e∘q first, while the gap is wide: far from the
        optimum a quadratic model drops kernels too soon.
    mixed : bool
        One reduced-gradient iteration of SimpleMKL as the first step, in place of the
        multiplicative ones [chapelle2008, §4].
    screen : bool
        Leave kernels aside that are far from becoming active, and look at all of them again
        before stopping. The certificate does not depend on it.
    """

    sums = True
    groups = True
    begins_on_sample = True
    follows = True

    def __init__(self, warm_up: int = 8, mixed: bool = False, screen: bool = True) -> None:
        self.warm_up = warm_up
        self.mixed = mixed
        self.screen = screen

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One SVM and at most one pass over the kernels per step, from unit weights ``e``."""
        if not evaluator.weight_set.is_simplex:
            yield from learner_of_norms(evaluator).iterate(evaluator, incumbent, e, tol)
            return
        first = first_point(evaluator, e, inner_tol(evaluator.expected, tol))
        cuts = Cuts(tol, evaluator=evaluator, incumbent=incumbent)
        if evaluator.inherited is not None:
            evaluator.inherited(cuts)
        state = _NewtonDescent(cuts, first, self.screen)
        yield Step("newton")
        for _ in range(1 if self.mixed else self.warm_up):
            if incumbent.gap < 0.2 or not state.center.q.any():
                break
            gap, before = incumbent.gap, state.center.primal
            point = self._first_step(evaluator, state.center, inner_tol(gap, tol))
            if point is state.center.point:
                break
            state.take_if_lower(point)
            yield Step("simple" if self.mixed else "multiplicative")
            if before - state.center.primal <= _PAYS * gap * abs(before):
                break
        while state.stale < _PATIENCE:
            gap = incumbent.gap
            e, model = state.propose()
            # the proximal step's λ is not that of the best bound: ask for it only where it may pay
            if state.may_be_done(model):
                state.cuts.bound()
            if incumbent.gap <= tol < gap:  # the cuts together prove it: no machine is needed
                yield Step("newton")
            if state.follow(e):
                yield Step("joint")
                continue
            state.go(e, model)
            yield Step("newton")
            if state.refine():
                yield Step("joint")
            state.stale = 0 if incumbent.gap <= 0.8 * gap else state.stale + 1
            if state.stale == 0:
                state.soft = max(0.1 * state.soft, SOFT)
            elif state.stale % 3 == 0:  # the gap does not fall for long: J has a kink
                state.soft = min(100.0 * state.soft, 1.0)
        # anew: the many cuts made at one place are nearly alike
        cuts = Cuts(tol, evaluator=evaluator, incumbent=incumbent)
        last = evaluator.solve(state.center.point.e, inner_tol(0.0, tol))
        cuts.keep(last.v, last.linear, last.q)
        for _ in descend(cuts):  # on a kink, only other weights bring other solutions
            yield Step("bundle")

    def _first_step(self, evaluator: Evaluator, center: Look, close: float) -> Point:
        if self.mixed:
            return descent_step(evaluator, center.point, center.q, close, drop=True)
        e = center.point.e * center.q
        e[e < _SMALL * e.mean()] = 0.0
        total = float(e.sum())  # 0 where the dual variables see no kernel
        return evaluator.solve(e / total if total > 0.0 else center.point.e, close)


class _NewtonDescent(Descent[Look]):
    """Newton steps on J.

    ``soft`` is the ridge that keeps the Hessian finite at kinks, ``stale`` the number of steps
    without a smaller gap.
    """

    def __init__(self, cuts: Cuts, first: Point, screen: bool) -> None:
        self.cuts, self.screen = cuts, screen
        super().__init__(self.see(first), damping=0.1)
        self.soft, self.stale, self.tried = SOFT, 0, False
        self.refined: Look | None = None  # from where weights and machine were moved
        self.worth = np.inf  # gap from which on the machine may follow once more

    def see(self, point: Point) -> Look:
        """One pass over the kernels: the gradient as a cut, and what the Hessian is made of."""
        look = self.cuts.evaluator.look(point, self.cuts.among)
        self.cuts.keep(point.v, point.linear, look.q)
        return look

    def take_if_lower(self, point: Point) -> None:
        """Go to a point that the model did not propose, if J falls."""
        seen = self.see(point)
        if seen.primal < self.center.primal:
            self.center = seen

    def refine(self) -> bool:
        """Late, move weights and machine together, from each center once; whether it was tried."""
        center = self.center
        if center is self.refined or self.cuts.seen_gap(center.primal) > _LATE:
            return False
        self.refined = center
        self.take_if_lower(refined(self.cuts.evaluator, center))
        self.cuts.complete()
        return True

    def propose(self) -> tuple[Array, float]:
        """Minimize the cuts, the curvature and the proximal term."""
        cuts, point = self.cuts, self.center.point
        if cuts.among is None and np.isnan(self.center.q).any():  # kernels are back
            self.center = cuts.evaluator.look(point)
        factor = self.center.curvature(self.soft)
        e, multipliers = cuts.minimize(point.e, self._proximal(factor), factor, cuts.among)
        cuts.offer(multipliers)
        model = cuts.model(e)
        cuts.thin(multipliers)
        return e, model

    def may_be_done(self, model: float) -> bool:
        """Whether the cuts may close the gap together.

        Their minimum is at most the model at any weights: if even that is too low, it is, too.
        """
        tol, gap = self.cuts.tol, self.cuts.incumbent.gap
        return gap > tol >= relative_gap(self.center.primal, model)

    def follow(self, e: Array) -> bool:
        """Near the end, move the machine along with the weights; whether it was tried.

        Where an interior point method solved it, its last system tells how it answers, for less
        than a machine takes. Again as long as the cuts that this gives pay, but not from where it
        was moved to: what was not solved has no such system.
        """
        center, cuts = self.center, self.cuts
        gap = cuts.incumbent.gap
        if center is self.refined or gap > min(_FOLLOWS * cuts.tol, self.worth):
            return False
        v = center.followed(e)
        if v is None:
            return False
        self.worth = _WORTH * gap
        self.take_if_lower(cuts.evaluator.judge(e, v))
        if self.center is not center:
            self.refined = self.center
        return True

    def look(self, e: Array, share: float) -> Look:
        """The machine at ``e``, and a pass over the kernels."""
        cuts = self.cuts
        close = cuts.step_tol(share, cuts.incumbent.gap)
        if self.center.point.K.has_landmarks:  # their last digits take longer than another machine
            close = max(close, _BY_PRODUCTS * cuts.tol * cuts.sharpness)
        return self.see(cuts.evaluator.solve(e, close))

    def accept(self, seen: Look, fit: float) -> None:
        """Go there; leave kernels aside where the model is good, unless the end is near."""
        super().accept(seen, fit)
        self.worth = np.inf
        if self.cuts.seen_gap(seen.primal) <= self.cuts.tol:
            self.cuts.complete()
        elif self.screen and fit > GOOD:
            self.cuts.narrow(seen.point.e)

    def reject(self, seen: Look, promise: float, share: float) -> None:
        """Stay, look at all kernels again, and shorten steps where the cut taught little."""
        self.cuts.complete()
        self.cuts.bound()
        self.cuts.disappointed(share)
        if self.cuts.says_little(seen.point, self.center.point, promise):
            super().reject(seen, promise, share)

    def _proximal(self, factor: Array | None) -> Array:
        """Proximal weights: a share of max q/e_m, the curvature of the bound of J at fixed f_m.

        J(e) ≤ ½ Σ ē_m² q_m/e_m + const bends by q_m/ē_m: kernels with small weights are the ones
        that a quadratic model would drop, or bring back, too soon. A first step may go as far as J
        is straight, by ēᵀHē as a share of q·ē: where the cost C is small few variables are free and
        J is nearly linear.
        """
        e, q = self.center.point.e, self.center.q
        if not self.tried:
            rise, bend = float(np.nansum(q * e)), 1.0
            if factor is None:
                bend = _STRAIGHT
            elif rise > 0.0:
                along = factor @ e
                bend = float(np.clip(along @ along / rise, _STRAIGHT, 1.0))
            self.tried, self.damping = True, self.damping * bend
        weights = np.maximum(e, 1.0 / np.count_nonzero(e))
        return float(np.nanmax(q)) * np.maximum(self.damping / weights, LEAST_PROXIMAL)
