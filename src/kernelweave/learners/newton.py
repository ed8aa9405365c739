"""Newton's method on the kernel weights (HessianMKL) [chapelle2008, §3].

    min_{e ∈ Δ}  max_k (l_k − ½ q_k·e)  +  ½ (e − ē)ᵀ(H + diag(δ))(e − ē)

Near a smooth optimum only the newest cut is active and the solution is the constrained Newton step
of [chapelle2008, eq. 4]. Where J has a kink the older cuts describe it; a step that does not
lower J enough adds a cut, which takes the place of backtracking.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Cuts, inner_tol, says_little
from kernelweave._solvers.svm.curvature import hessian_factor
from kernelweave.learners.alternate import Alternate
from kernelweave.learners.base import Learner
from kernelweave.learners.simple import descent_step
from kernelweave.machines.oracle import Oracle, Point


class Newton(Learner):
    """Newton steps on J, made robust by the cuts of past solutions.

    Under a weight norm p > 1 the closed-form scheme is as exact and faster, and is used instead.

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

    def __init__(self, warm_up: int = 8, mixed: bool = False, screen: bool = True) -> None:
        self.warm_up = warm_up
        self.mixed = mixed
        self.screen = screen

    def iterate(self, oracle: Oracle, e: Array, tol: float) -> Iterator[None]:
        """One SVM and at most one pass over the kernels an iteration, from unit weights ``e``."""
        if oracle.weight_set.norm > 1.0:
            yield from Alternate(relax=1.5).iterate(oracle, e, tol)
            return
        cuts = Cuts(oracle, tol)
        center = oracle.solve(e, inner_tol(1.0, tol))
        look = _look(cuts, center)
        yield
        for _ in range(1 if self.mixed else self.warm_up):
            if oracle.gap < 0.2 or not center.q.any():
                break
            point = self._first_step(oracle, center, tol)
            if point is center:
                break
            next_look = _look(cuts, point)
            yield
            if point.primal >= center.primal:
                break
            center, look = point, next_look

        damping, soft, stale, partial = 0.1, 1e-10, 0, False
        while True:
            if partial and cuts.among is None:  # kernels are back whose curvature is not known
                look, partial = oracle.products(center), False
            gap = oracle.gap
            factor = hessian_factor(center.K, oracle.qp, *look, soft)
            e, multipliers = cuts.minimise(center.e, _proximal(center, damping), factor)
            cuts.offer(multipliers)
            promise = max(center.primal - cuts.model(e), 1e-300)
            cuts.thin(multipliers)
            point = oracle.solve(e, cuts.step_tol(promise))
            next_look = _look(cuts, point)
            fit = (center.primal - point.primal) / promise
            if fit >= 0.05:
                center, look, partial = point, next_look, cuts.among is not None
                damping *= 0.25 if fit > 0.3 else 1.0
                if cuts.nearly_done(point):
                    cuts.complete()
                elif self.screen and fit > 0.3:
                    cuts.narrow(point.e)
            else:
                cuts.complete()
                cuts.bound()
                cuts.disappointed(promise)
                if says_little(point, center, promise):
                    damping = max(4.0 * damping, 1e-3)
            yield
            stale = stale + 1 if oracle.gap > 0.8 * gap else 0
            if stale == 0:
                soft = max(0.1 * soft, 1e-10)
            elif stale % 3 == 0:
                soft = min(100.0 * soft, 1.0)

    def _first_step(self, oracle: Oracle, center: Point, tol: float) -> Point:
        close = inner_tol(oracle.gap, tol)
        if self.mixed:
            return descent_step(oracle, center, close)
        e = center.e * center.q
        e[e < 1e-2 * e.mean()] = 0.0
        return oracle.solve(e / e.sum(), close)


def _proximal(center: Point, damping: float) -> Array:
    """Proximal weights: a share of max q/e_m, the curvature of the bound of J at fixed f_m.

    J(e) ≤ ½ Σ ē_m² q_m/e_m + const bends by q_m/ē_m: kernels with small weights are the ones that a
    quadratic model would drop, or bring back, too soon.
    """
    top = float(np.nanmax(center.q))
    weights = np.maximum(center.e, 1.0 / np.count_nonzero(center.e))
    return top * np.maximum(damping / weights, 1e-9)


def _look(cuts: Cuts, point: Point) -> tuple[NDArray[np.intp], Array]:
    """One pass over the kernels: the gradient as a cut, and what the Hessian is made of."""
    look = cuts.oracle.products(point, cuts.among)
    cuts.add(point)
    return look
