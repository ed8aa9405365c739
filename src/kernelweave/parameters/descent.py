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

_MANY = 10  # parameters up to which the matrix of second derivatives is made
_PRODUCTS = 50  # at most, for one step
_CLOSE = 0.1  # what the last residual of such a step may be, as a share of the gradient
_LONGEST = 1.0  # no parameter changes by more in one step; for a log width, by a factor e
_FLAT = (
    "the criterion is flat: the kernels hardly change with their parameters, and nothing "
    "was learned of these. Standardize the columns of X, begin at parameters that suit the "
    "distances between rows, or raise n_starts"
)


@dataclass(frozen=True)
class DescentResult:
    """Where one start led: the last state, F after each step, the last promise, why it ended.

    ``method``: "newton" or "gradient".
    """

    state: Evaluation
    history: list[float]
    stationarity: float
    status: str
    method: str

    def warn(self) -> None:
        """Say so if nothing could be learned."""
        if self.status == "flat":
            warn_unconverged(_FLAT)


def descend(
    task: ParameterProblem,
    t: Array,
    method: str | None,
    tol: float,
    max_iter: int,
    until: float = np.inf,
) -> DescentResult:
    """Steps downhill from t, at most ``max_iter``, the last begun before the time ``until``.

    ``method`` None: "newton", but for many parameters of kernels that have their second derivatives
    one by one alone.
    """
    now = task.evaluate(t, None)
    if method is None:
        method = "newton" if t.size <= _MANY or now.bends_in_products else "gradient"
    newton = method == "newton"
    history, length = [now.value], 1.0
    share = np.inf
    for _ in range(max_iter):
        step = _newton_step(now) if newton else -length * now.gradient
        size = float(np.abs(step).max(initial=0.0))
        step *= min(1.0, _LONGEST / size) if size > 0.0 else 1.0
        fall = -float(now.gradient @ step)
        share = fall / max(abs(now.value), TINY)
        if share <= tol:
            status = "flat" if now.is_flat else "optimal"
            return DescentResult(now, history, max(share, 0.0), status, method)
        if time.perf_counter() > until:
            return DescentResult(now, history, share, "max_time", method)
        new = _shortened(task, now, step, fall)
        if new is None:
            return DescentResult(now, history, share, "stopped", method)
        moved = new.t - now.t
        change = float(moved @ (new.gradient - now.gradient)) if not newton else 0.0
        length = float(moved @ moved) / change if change > 0.0 else 10.0 * length
        now = new
        history.append(now.value)
    return DescentResult(now, history, share, "max_iter", method)


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
    if state.t.size > _MANY and state.bends_in_products:
        return _truncated_step(state)
    values, vectors = np.linalg.eigh(state.hessian())
    sizes = np.abs(values)
    sizes = np.maximum(sizes, 1e-3 * sizes.max(initial=TINY))
    return -vectors @ ((vectors.T @ state.gradient) / sizes)


def _truncated_step(state: Evaluation) -> Array:
    """About −H⁻¹∇F by conjugate gradients, as far as curvature is positive."""
    step, residual = np.zeros_like(state.t), -state.gradient
    along, size = residual, float(residual @ residual)
    enough = _CLOSE**2 * size
    for _ in range(_PRODUCTS):
        bent = state.bend(along)
        curvature = float(along @ bent)
        if curvature <= 0.0:
            break
        length = size / curvature
        step = step + length * along
        residual = residual - length * bent
        before, size = size, float(residual @ residual)
        if size <= enough:
            break
        along = residual + (size / before) * along
    return step if step.any() else -state.gradient
