"""What a learner is: an object that moves kernel weights downhill, one iteration at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..solvers.oracle import Oracle


@runtime_checkable
class Learner(Protocol):
    """Algorithm knobs only; the problem is in the oracle.

    ``patience``, where a learner has it, is the number of iterations without a smaller gap after
    which it is stopped (200 otherwise).

    ``iterate`` asks the oracle for inner solutions, from unit weights ``e`` on, and offers it dual
    points. It yields once an iteration and returns when it can do no more; whoever drives it
    stops on the oracle's gap.

    A learner that minimises something else than J has a class attribute ``objective`` that names
    it, settles its points with bounds of its own, and reports a "stationarity" in the oracle's
    ``extras``. Objective "radius" does not depend on the scale of weights and kernels: it starts
    from kernels of equal trace, and takes ``weight_norm=None``.
    """

    def iterate(self, oracle: Oracle, e: NDArray[np.float64], tol: float) -> Iterator[None]:
        """Descend from ``e``."""
        ...
