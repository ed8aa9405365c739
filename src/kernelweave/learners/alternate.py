"""The two-step scheme: an SVM at the weights, then the best weights for its parts.

    min_{‖e‖_p ≤ 1} Σ_m ‖f_m‖²/e_m   is reached at   e_m ∝ ‖f_m‖^{2/(p+1)}

[rakoto2007, (10)–(11) for p = 1]. With ‖f_m‖² = e_m² q_m each step multiplies e_m by a power of
q_m e_m^{1−p}, whose fixed point is the optimum, and rescales. A weight of zero would stay there for
ever, so that weights are kept above a floor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import inner_tol
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.problems.weight_sets import norm, towards


class Alternate(Learner):
    """Alternate minimization over the machine and the weights.

    It needs many more iterations than the other learners to reach a small gap, and where J has a
    kink it may never certify one; it is here because the literature compares with it.

    For p > 1 there are no kinks and a few dozen steps reach any gap: the other learners use it
    there too.

    Parameters
    ----------
    floor : float
        The least weight, relative to equal weights.
    relax : float
        1 is the plain scheme; up to 1.5 the steps, on a logarithmic scale, are longer by it.
    """

    sums = True

    def __init__(self, floor: float = 1e-6, relax: float = 1.0) -> None:
        self.floor = floor
        self.relax = relax

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Alternate from unit weights ``e``, one SVM per step."""
        weight_set: Any = evaluator.weight_set  # the simplex or a ball
        p = weight_set.norm
        least = self.floor * weight_set.uniform()
        if np.isinf(p):
            e = np.ones(e.size)
        point = None
        while True:
            e = np.maximum(e, least)
            close = inner_tol(incumbent.gap, tol)
            solve = evaluator.solve if point is not None else partial(first_point, evaluator)
            point = solve(e / norm(e, p), close)
            incumbent.offer_bound(evaluator.bound(point.v, point.q))
            yield Step("alternate")
            if np.isinf(p) or not point.q.any():
                continue  # every weight at its bound, or all as good: only the machine is left
            e = towards(point.e, point.q, p, self.relax)
            e = e / norm(e, p)
