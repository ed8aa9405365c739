"""Parameters that several estimators have."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.checks import check_choice, shown
from kernelweave._core.warnings import warn
from kernelweave.learners import make_learner
from kernelweave.problems.losses import LOSSES
from kernelweave.solution import Solution


def check_loss_for(target: str, loss: Any) -> None:
    """Raise ValueError unless the loss is for such targets: "labels" or "values"."""
    check_choice("loss", loss, [name for name in LOSSES if LOSSES[name].target == target])


def takes_several(learner: Any, shared_weights: Any) -> bool:
    """Whether there may be several machines: with weights of their own, or a learner that sums."""
    try:
        return not shared_weights or make_learner(learner).sums
    except (TypeError, ValueError):  # no learner, which fit will report
        return True


def check_one_C(C: Any) -> None:
    """Raise an error unless C is a number or "learn"; ``make_formulation`` checks its size."""
    if np.ndim(C):
        raise ValueError(f"C must be one number, found {shown(np.asarray(C))}")
    if C != "learn" and np.asarray(C).dtype.kind not in "iuf":
        raise TypeError(f"C must be a positive number or 'learn', found {C!r}")


def check_fixed_C(C: Any) -> None:
    """The same where C is not learned."""
    check_one_C(C)
    if isinstance(C, str):
        raise ValueError(f"C must be a number, found {C!r}: it is learned for classes alone")


def learnt_C(C: Any, solutions: tuple[Solution, ...]) -> Any:
    """C as given; as learned, one for all machines or one per machine."""
    if not isinstance(C, str):
        return float(C)
    learnt = [float(solution.C) for solution in solutions]
    return learnt[0] if len(learnt) == 1 else np.array(learnt)


def warn_of_learnt_C(C: Any, solutions: tuple[Solution, ...]) -> None:
    """Say so if C = "learn" ended where it should not: without a kernel, or without a slack."""
    if not isinstance(C, str):
        return
    if not all(solution.weights.any() for solution in solutions):
        warn(
            "No kernel has a weight: C='learn' gave all of it to the identity. No kernel helps "
            "to tell the classes apart, and all rows are predicted as one class. Try other "
            "kernels or columns, or set C yourself.",
        )
    elif any(np.isinf(solution.C) for solution in solutions):
        warn(
            "C='learn' gave the identity no weight: C_ is infinite, a hard margin. The kernels "
            "separate the training rows perfectly, which may be overfitting; consider choosing "
            "C by cross-validation.",
        )
