"""Newton's method on the kernel weights (HessianMKL) [chapelle2008, §3].

    min_{e ∈ Δ}  max_k (l_k − ½ q_k·e)  +  ½ (e − ē)ᵀ(H + δI)(e − ē)

Near a smooth optimum only the newest cut is active and the solution is the constrained Newton step
of [chapelle2008, eq. 4]. Where J has a kink the older cuts describe it; a step that does not
lower J enough adds a cut, which takes the place of backtracking.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..params import Params
from ..solvers.curvature import hessian_factor
from ..solvers.cuts import Cuts, inner_tol, says_little, step_tol
from ..solvers.oracle import Oracle, Point

Array = NDArray[np.float64]


class Newton(Params):
    """Newton steps on J, made robust by the cuts of past solutions.

    Parameters
    ----------
    warm_up : int
        At most so many multiplicative steps e ∝ e∘q first, while the gap is wide: far from the
        optimum a quadratic model drops kernels too soon.
    screen : bool
        Leave kernels aside that are far from becoming active, and look at all of them again
        before stopping. The certificate does not depend on it.
    """

    def __init__(self, warm_up: int = 5, screen: bool = True) -> None:
        self.warm_up = warm_up
        self.screen = screen

    def iterate(self, oracle: Oracle, e: Array, tol: float) -> Iterator[None]:
        """One SVM and at most one pass over the kernels an iteration, from unit weights ``e``."""
        cuts = Cuts(oracle, tol)
        center = oracle.solve(e, inner_tol(1.0, tol))
        factor = self._look(oracle, cuts, center)
        yield
        for _ in range(self.warm_up):
            if oracle.gap < 0.3 or not center.q.any():
                break
            e = center.e * center.q
            e[e < 1e-2 * e.mean()] = 0.0
            point = oracle.solve(e / e.sum(), inner_tol(oracle.gap, tol))
            curvature = self._look(oracle, cuts, point)
            yield
            if point.primal >= center.primal:
                break
            center, factor = point, curvature
        delta, partial = 0.0, False
        while True:
            if partial and cuts.among is None:  # kernels are back whose curvature is not known
                factor, partial = self._curvature(oracle, center), False
            least = 1e-9 * float(np.nanmax(center.q))
            e, multipliers = cuts.minimise(center.e, max(delta, least), factor)
            cuts.offer(multipliers)
            promise = max(center.primal - cuts.model(e), 1e-300)
            cuts.thin(multipliers)
            point = oracle.solve(e, step_tol(oracle, promise, tol))
            curvature = self._look(oracle, cuts, point)
            fit = (center.primal - point.primal) / promise
            if fit >= 0.05:
                center, factor, partial = point, curvature, cuts.among is not None
                delta *= 0.25 if fit > 0.3 else 1.0
                if cuts.nearly_done(point):
                    cuts.complete()
                elif self.screen and fit > 0.3:
                    cuts.narrow(point.e)
            else:
                cuts.complete()
                cuts.bound()
                if says_little(point, center, promise):
                    delta = max(2.0 * delta, 1e-3 * float(np.ptp(center.q)))
            yield

    def _look(self, oracle: Oracle, cuts: Cuts, point: Point) -> Array | None:
        """One pass over the kernels: the gradient as a cut, and the factor of the Hessian."""
        factor = self._curvature(oracle, point, cuts.among)
        cuts.add(point)
        return factor

    def _curvature(
        self, oracle: Oracle, point: Point, among: NDArray[np.intp] | None = None
    ) -> Array | None:
        free, products = oracle.products(point, among)
        return hessian_factor(point.K, oracle.qp, free, products)
