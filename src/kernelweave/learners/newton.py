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
from ..solvers.cuts import Cuts, inner_tol
from ..solvers.oracle import Oracle, Point

Array = NDArray[np.float64]


class Newton(Params):
    """Newton steps on J, made robust by the cuts of past solutions.

    Parameters
    ----------
    warm_up : int
        At most so many multiplicative steps e ∝ e∘q first, while the gap is wide: far from the
        optimum a quadratic model drops kernels too soon.
    """

    def __init__(self, warm_up: int = 5) -> None:
        self.warm_up = warm_up

    def iterate(self, oracle: Oracle, e: Array, tol: float) -> Iterator[None]:
        """One SVM and one pass over the kernels an iteration, from unit weights ``e``."""
        cuts = Cuts()
        center = oracle.solve(e, inner_tol(1.0, tol))
        factor = self._look(oracle, cuts, center)
        delta = 0.0
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
        while True:
            least = 1e-9 * float(np.ptp(center.q))
            e, multipliers = cuts.minimise(center.e, max(delta, least), factor)
            cuts.offer(oracle, multipliers, tol)
            promise = max(center.primal - cuts.model(e), 1e-300)
            cuts.thin(multipliers)
            close = max(0.1 * promise / center.primal, 0.01 * tol)
            point = oracle.solve(e, min(inner_tol(oracle.gap, tol), close))
            curvature = self._look(oracle, cuts, point)
            fit = (center.primal - point.primal) / promise
            if fit >= 0.05:
                center, factor = point, curvature
                delta = 0.25 * delta if fit > 0.3 else delta
            elif center.primal - (point.linear - 0.5 * float(point.q @ center.e)) > promise:
                delta = max(2.0 * delta, 1e-3 * float(np.ptp(center.q)))
            yield

    def _look(self, oracle: Oracle, cuts: Cuts, point: Point) -> Array | None:
        """One pass over the kernels: the gradient as a cut, and the factor of the Hessian."""
        free, products = oracle.products(point)
        cuts.add(point.linear, point.q, point.v)
        oracle.offer_dual(point.v, point.q)
        return hessian_factor(point.K, oracle.qp, free, products)
