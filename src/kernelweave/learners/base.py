"""What a learner is: an object that moves kernel weights downhill, one iteration at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..solvers.oracle import Oracle


@runtime_checkable
class Learner(Protocol):
    """Algorithm knobs only; the problem is in the oracle.

    ``patience``, where a learner has it, is the number of iterations without a smaller gap after
    which it is stopped (200 otherwise). ``weight_norms``, where it has them, are those it can do.
    ``reports`` says that it has something for the oracle's ``extras`` whatever the problem: it runs
    for one kernel, too, and from a start that needs no more work.
    ``signed`` says that its weights may be negative, in the set of K ⪰ 0 on all rows under a trace
    constraint; it then brings its own lower bounds, as the oracle's are for weights ≥ 0.

    ``iterate`` asks the oracle for inner solutions, from unit weights ``e`` on, and offers it dual
    points. It yields once an iteration and returns when it can do no more; whoever drives it
    stops on the oracle's gap, or on ``met`` where a learner with a rule of its own keeps that.

    A learner that minimises something else than J has a class attribute ``objective`` that names
    it, settles its points with bounds of its own, and reports a "stationarity" in the oracle's
    ``extras``. Objective "radius" does not depend on the scale of weights and kernels: it starts
    from kernels of equal trace, and takes ``weight_norm=None``.
    """

    def iterate(self, oracle: Oracle, e: NDArray[np.float64], tol: float) -> Iterator[None]:
        """Descend from ``e``."""
        ...


def check_supported(learner: Learner, C: Any, weight_norm: float | None) -> None:
    """Complain, before any work, about a problem that ``learner`` does not solve."""
    objective = getattr(learner, "objective", "margin")
    if weight_norm is None and objective != "radius":
        raise ValueError(
            "weight_norm=None needs learner='radius': other objectives are not invariant to the "
            "size of the weights"
        )
    norms = getattr(learner, "weight_norms", (weight_norm,))
    if weight_norm not in norms:
        told = " or ".join(map(str, norms))
        raise ValueError(f"{learner!r} needs weight_norm={told}, found {weight_norm!r}")
    if isinstance(C, str) and objective != "margin":
        raise ValueError(f"C={C!r} goes with the margin criterion, not with {learner!r}")
