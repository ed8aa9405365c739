"""Steps downhill on F(t), which is not convex: by Newton's model, or along the gradient."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

import numpy as np

from kernelweave._core.tolerances import TINY
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave._solvers.enclosing_ball import PointsCoincide
from kernelweave.parameters.criterion import Evaluation, ParameterProblem

_LONGEST = 1.0  # no parameter changes by more in one step; for a log width, by a factor e
_FLAT = (
    "the criterion is flat: the kernels hardly change with their parameters, and nothing "
    "was learned of these. Standardize the columns of X, begin at parameters that suit the "
    "distances between rows, or raise n_starts"
)


@dataclass(frozen=True)
class DescentResult:
    """Where one start led: the last state, F after each step, the last promise, why it ended."""

    state: Evaluation
    history: list[float]
    stationarity: float
    status: str

    def warn(self) -> None:
        """Say so if nothing could be learned."""
        if self.status == "flat":
            warn_unconverged(_FLAT)


def descend(
    task: ParameterProblem,
    t: Array,
    newton: bool,
    tol: float,
    max_iter: int,
    until: float = np.inf,
) -> DescentResult:
    """Steps downhill from t, at most ``max_iter``, the last begun before the time ``until``."""
    now = task.evaluate(t, None)
    history, length = [now.value], 1.0
    share = np.inf
    for _ in range(max_iter):
        step = _newton_step(now) if newton else -length * now.gradient
        size = float(np.abs(step).max(initial=0.0))
        step *= min(1.0, _LONGEST / size) if size > 0.0 else 1.0
        fall = -float(now.gradient @ step)
        share = fall / max(abs(now.value), TINY)
        if share <= tol:
            return DescentResult(
                now, history, max(share, 0.0), "flat" if now.is_flat else "optimal"
            )
        if time.perf_counter() > until:
            return DescentResult(now, history, share, "max_time")
        new = _shortened(task, now, step, fall)
        if new is None:
            return DescentResult(now, history, share, "stopped")
        moved = new.t - now.t
        change = float(moved @ (new.gradient - now.gradient)) if not newton else 0.0
        length = float(moved @ moved) / change if change > 0.0 else 10.0 * length
        now = new
        history.append(now.value)
    return DescentResult(now, history, share, "max_iter")


def _shortened(
    task: ParameterProblem, now: Evaluation, step: Array, fall: float
) -> Evaluation | None:
    """The state after the step, or the longest part of it tried that falls enough."""
    for _ in range(20):
        with contextlib.suppress(PointsCoincide, FloatingPointError):  # a step too far, then
            new = task.evaluate(now.t + step, now)
            if new.value <= now.value - 1e-4 * fall:
                return new
        step, fall = 0.3 * step, 0.3 * fall
    return None


def _newton_step(state: Evaluation) -> Array:
    """−|H|⁻¹∇F: negative curvature turned round, flat directions bounded."""
    values, vectors = np.linalg.eigh(state.hessian())
    sizes = np.abs(values)
    sizes = np.maximum(sizes, 1e-3 * sizes.max(initial=TINY))
    return -vectors @ ((vectors.T @ state.gradient) / sizes)
