"""The support function of signed weights: how much kernels that combine to a kernel can weigh.

    σ(q) = max { q·e :  K(e) ⪰ 0,  Σe = 1 }

over the weights of a ``SemidefiniteSet`` and all that are nonnegative. It bounds what any of them
can do: a small semidefinite program, solved to many digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from kernelweave._core.tolerances import CONE_ACCURACY
from kernelweave._core.types import Array
from kernelweave._solvers.signed.interior_point import follow
from kernelweave._solvers.signed.semidefinite_set import Joint, SemidefiniteSet, nested_sets

_MOST = 100  # steps of the interior point method


def support(joint: Joint, q: Array, e: Array) -> float:
    """An upper bound of σ(q), as close as rounding allows, for a set with ``e``."""
    if not q.any():
        return 0.0
    most, contained = np.inf, False
    for region in nested_sets(joint):
        reached, bound = maximize(region, q, CONE_ACCURACY[0])
        if region.lenient:
            most = min(most, bound) if contained else bound
            break
        most, contained = min(most, bound), region.contains(e)
        if contained and region.holds(reached):
            break
    return max(most, float(q.max()), float(q @ e))


def maximize(region: SemidefiniteSet, q: Array, tol: float) -> tuple[Array, float]:
    """Weights of the interior with a large q·e, and an upper bound of it.

    A set that was enlarged may be unbounded. It is left where q·e is more than in the set itself.
    """
    middle = np.zeros(len(region.directions))
    path = follow(region, lambda e, _: _Linear(e, -q), [middle], tol, patience=4)
    bound = -float(q @ region.center) - region.most(region.directions @ q)
    for center in islice(path, _MOST):
        least, bound = center.look, max(bound, center.bound)
        if least.value - bound <= tol * abs(least.value):
            break
    return least.e, -bound


@dataclass(frozen=True)
class _Linear:
    e: Array
    slope: Array

    @property
    def value(self) -> float:
        return float(self.slope @ self.e)

    def expand(self) -> tuple[float, Array, None]:
        return 0.0, self.slope, None
