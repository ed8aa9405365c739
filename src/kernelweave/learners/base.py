"""What a learner is: an object that moves kernel weights downhill, one iteration at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.params import Params
from kernelweave.machines.oracle import Oracle


class Learner(Params):
    """Algorithm knobs only; the problem is in the oracle.

    Attributes
    ----------
    objective : str
        What it minimises: "margin" is J. A learner of another objective settles its points with
        bounds of its own, and reports a "stationarity" in the oracle's ``extras``. "radius" does
        not depend on the scale of weights and kernels: it starts from kernels of equal trace, and
        takes ``weight_norm=None``. "none": the weights are given.
    weight_norms : tuple or None
        The norms it can do; None for all.
    signed : bool
        Whether weights may be negative, in the set of K ⪰ 0 on all rows under a trace constraint;
        it then brings its own lower bounds, as the oracle's are for weights ≥ 0.
    reports : bool
        Whether it has something for the oracle's ``extras`` whatever the problem: it then runs for
        one kernel, too, and from a start that needs no more work.
    patience : int
        The number of iterations without a smaller gap after which it is stopped.
    """

    objective: ClassVar[str] = "margin"
    weight_norms: ClassVar[tuple[float, ...] | None] = None
    signed: bool = False
    reports: ClassVar[bool] = False
    patience: ClassVar[int] = 200

    def iterate(self, oracle: Oracle, e: NDArray[np.float64], tol: float) -> Iterator[None]:
        """Descend from unit weights ``e``, one iteration at a time.

        It asks the oracle for inner solutions and offers it dual points, and returns when it can do
        no more. Whoever drives it stops on the oracle's gap or, where a learner with a stopping
        rule of its own sets that, on ``oracle.met``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no iterate")


def check_supported(learner: Learner, C: Any, weight_norm: float | None) -> None:
    """Complain, before any work, about a problem that ``learner`` does not solve."""
    if weight_norm is None and learner.objective != "radius":
        raise ValueError(
            "weight_norm=None needs learner='radius': other objectives are not invariant to the "
            "size of the weights"
        )
    norms = learner.weight_norms
    if norms is not None and weight_norm not in norms:
        told = " or ".join(map(str, norms))
        raise ValueError(f"{learner!r} needs weight_norm={told}, found {weight_norm!r}")
    if isinstance(C, str) and C == "learn" and learner.objective != "margin":
        raise ValueError(
            f"C={C!r} goes with the margin criterion, not with {learner!r}: give C as a number"
        )
