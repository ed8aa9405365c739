"""HessianMKL as published: a constrained Newton step, then backtracking [chapelle2008, §3].

    min_s  ½ sᵀHs + gᵀs    s.t.  Σ_m s_m = 0,  e + s ≥ 0                     [chapelle2008, eq. 4]

g = −½q is the gradient of J at e and H its Hessian (eq. 3, of the support vectors at C too, see
``_solvers.svm.curvature``). In unit weights the paper's Σ_m s_m T(K^m) = 0 is Σ_m s_m = 0. The step
is halved where J(e + s) ≥ J(e). Nothing is remembered of earlier steps and no kernel is left aside:
``Newton`` does both, and this is the baseline beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from kernelweave._core.tolerances import LEAST_PROXIMAL, SOFT, TIGHTEST, TINY
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.master import solve_master
from kernelweave._solvers.reduced_gradient import descent_step
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.machines.machine import Point

_HALVINGS = 30


class Hessian(Learner):
    """Newton's method with backtracking and nothing else.

    It may stall where J has a kink, short of the gap asked for, and then says so. The paper stops
    at a relative gap of 0.01: ``learn(…, tol=0.01)``.

    Parameters
    ----------
    ridge : float
        What is added to the diagonal of the free support vectors' matrix, as a share of its mean:
        little, but always, as the matrix may be singular.
    mixed : bool
        One iteration of SimpleMKL, in its journal version, as the first step [chapelle2008, §4].
    """

    sums = True
    weight_norms = (1,)  # the step is on the simplex
    patience = sys.maxsize  # it ends where J falls no more

    def __init__(self, ridge: float = SOFT, mixed: bool = False) -> None:
        self.ridge = ridge
        self.mixed = mixed

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One Hessian per step, and an SVM for every length that is tried, from weights ``e``."""
        close = max(1e-3 * min(tol, 1e-2), TIGHTEST)
        before, point, by = None, first_point(evaluator, e, close), "hessian"
        while point is not before:
            look = evaluator.look(point)
            incumbent.offer_bound(evaluator.bound(point.v, look.q))
            yield Step(by, settled=(point, incumbent.bound))
            by = "simple" if self.mixed and before is None else "hessian"
            before = point
            if by == "simple":
                point = descent_step(evaluator, point, look.q, close, drop=True)
            else:
                step = _newton_step(point, look.q, look.curvature(self.ridge))
                point = self._backtrack(evaluator, point, step, close)
            fall = (before.value - point.value) / max(abs(before.value), TINY)
            if fall < close and close > TIGHTEST:  # SVMs cannot tell: solve the next ones better
                close = max(1e-2 * (fall or close), TIGHTEST)
                if point is before:  # q, too, was only as good as that
                    point = evaluator.solve(before.e, close)

    def _backtrack(self, evaluator: Evaluator, point: Point, step: Array, close: float) -> Point:
        """The point after the longest of s, s/2, s/4, … at which J is lower; else ``point``."""
        for halving in range(_HALVINGS):
            e = np.maximum(point.e + 0.5**halving * step, 0.0)
            trial = evaluator.solve(e / e.sum(), close)
            if trial.value < point.value:
                return trial
        return point


def _newton_step(point: Point, q: Array, factor: Array | None) -> Array:
    """s of [chapelle2008, eq. 4], with ``factor`` B, H = BᵀB; None: J is linear near e."""
    least = LEAST_PROXIMAL * max(float(q.max()), TINY)
    e, _ = solve_master(np.array([point.linear]), 0.5 * q[None], point.e, least, factor)
    return e - point.e
