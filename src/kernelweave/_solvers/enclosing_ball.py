"""The smallest ball around points that are known by their kernel only.

    R²(K) = min_{c}  max_i ‖φ_i − c‖²  =  max_β  Σ β_i K_ii − βᵀKβ    s.t.  Σβ = 1,  β ≥ 0

[gai2010, eq. 7 and 8; (17) lacks the second index of the first K_ii]. Halved, it is the common dual
QP with c = diag(K)/2 and r = 1, so that the common SMO solves it. Every feasible β bounds R² from
below, and the farthest point from its centre Σ β_i φ_i bounds it from above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from kernelweave._core.checks import check_number, check_vector
from kernelweave._core.tolerances import NOTHING
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave._solvers.svm import chunks, smo
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.stacks._passes import frozen
from kernelweave.stacks.dense import DenseCombined, KernelStack
from kernelweave.stacks.protocol import CombinedKernel

LOST = 1000.0  # units in the last place of the trace: a kernel that varies by less does not vary
_STEPS = 100_000  # and 1,000 a point: more are only spent where rounding hides the optimum


class PointsCoincide(ValueError):
    """No kernel at hand tells any points apart."""


@dataclass(frozen=True, eq=False)
class Ball:
    """A ball that holds all points, with centre Σ beta_i φ_i and squared radius ``radius2``.

    ``lower`` is what the dual proves: no ball has a smaller squared radius.
    """

    beta: Array
    radius2: float
    lower: float

    @property
    def gap(self) -> float:
        """(radius2 − lower) / radius2; 0 for a ball without a radius."""
        return relative_gap(self.radius2, self.lower)


def enclosing_ball(K: ArrayLike, tol: float = 1e-6, start: ArrayLike | None = None) -> Ball:
    """The minimum enclosing ball of n points in the feature space of a kernel.

    Neither the scale of the kernel nor a constant added to it matters. Points that coincide up to
    rounding have a ball of radius 0.

    Parameters
    ----------
    K : array (n, n)
        Kernel matrix, symmetric and positive semidefinite.
    tol : float
        Relative gap between the squared radius and its lower bound.
    start : array (n,), optional
        β to start from, such as that of a similar kernel; repaired where it is not feasible.
    """
    check_number("tol", tol)
    shape = np.shape(K)
    if len(shape) != 2 or shape[0] != shape[1] or 0 in shape:
        raise ValueError(f"K must be a square matrix, found shape {shape}")
    if np.asarray(K).dtype.kind in "fc" and not np.isfinite(K).all():
        raise ValueError("K must be finite, found NaN or infinity")
    try:
        matrix = KernelStack([K]).combine(np.ones(1))
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("K[0]", "K")) from None
    beta = None if start is None else check_vector("start", start, len(matrix))
    exponent = int(np.frexp(np.diagonal(matrix).max())[1])
    matrix, _, trace, lost = center(np.ldexp(matrix, -exponent))  # exact, and far from overflow
    if lost:
        warn_lost("K")
    if trace == 0.0:
        return Ball(np.full(len(matrix), 1.0 / len(matrix)), 0.0, 0.0)
    matrix /= trace
    ball = smallest_ball(DenseCombined(frozen(matrix)), tol, beta)
    radius2, lower = np.ldexp([trace * ball.radius2, trace * ball.lower], exponent)
    return Ball(ball.beta, float(radius2), float(lower))


def ball_qp(norms: Array) -> DualQP:
    """The dual QP of half the squared radius, for squared norms K_ii."""
    n = norms.size
    # Σβ = 1 makes β ≤ 1 redundant; with it every slack has a price and the gap is finite.
    return DualQP(0.5 * norms, np.zeros(n), np.ones(n), n, total=1.0)


def smallest_ball(
    K: CombinedKernel,
    tol: float,
    start: Array | None = None,
    tick: Callable[[], None] | None = None,
) -> Ball:
    """``enclosing_ball`` of a kernel that was checked, and centered where that matters."""
    norms = K.diagonal()
    qp = ball_qp(norms)
    ball = _around(K, norms, qp.feasible(np.full(K.n, 1.0 / K.n) if start is None else start))
    close, most = tol, _STEPS + _STEPS // 100 * K.n
    for _ in range(4):  # the solver's gap has another upper bound: ask for less until ours is met
        if ball.gap <= tol:
            break
        if K.is_dense:
            inner = smo.solve(K.dense(), qp, ball.beta, close, tick, most)
        else:
            inner = chunks.solve(K, qp, ball.beta, close, tick, most)
        ball = _around(K, norms, inner.v)
        close *= 0.1
    return ball


def _around(K: CombinedKernel, norms: Array, beta: Array) -> Ball:
    """Both bounds at a feasible β, cleared of what rounding left of points inside the ball."""
    beta = np.where(beta > NOTHING * beta.max(), beta, 0.0)
    beta /= beta.sum()
    products = smo.product(K.dense(), beta) if K.is_dense else K @ beta
    spread = float(products @ beta)
    lower = float(norms @ beta) - spread
    farthest = float((norms - 2.0 * products).max()) + spread
    return Ball(beta, max(farthest, 0.0), max(lower, 0.0))


def center(K: Array, kind: DTypeLike = np.float64) -> tuple[Array, Array, float, bool]:
    """K̃, k, tr K̃, and whether something that varies is lost in rounding of numbers of ``kind``.

    It is then taken for zero, as it is for constant kernels.
    """
    corner = float(K[0, 0])
    A = K - corner  # exact where all entries are alike
    k = A.mean(axis=1)
    k -= 0.5 * k.mean()
    A -= np.add.outer(k, k)
    trace = float(np.trace(A))
    k += 0.5 * corner
    if trace > LOST * np.finfo(kind).eps * float(np.trace(K)):
        return A, k, trace, False
    return np.zeros_like(A), k, 0.0, bool(A.any())


def warn_lost(name: str) -> None:
    """Say that a kernel counts as constant though it is not quite."""
    warn(
        f"{name}: what varies is so little beside the constant part that it is lost in rounding; "
        "all points count as one; subtract the constant before it is added, if you can",
    )
