"""R²(e), the squared radius of the combined kernel, as a function of the weights.

    R²(e) = max_β  c(β)·e,    c_m(β) = s_m (Σ_i β_i K_m,ii − βᵀK_m β),    ∂R²/∂e = c(β*)

[gai2010, eq. 22]. As a maximum of linear functions it is convex, and of degree one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelweave._core.tolerances import EPS, LAST
from kernelweave._core.types import Array
from kernelweave._solvers.enclosing_ball import Ball, ball_qp, smallest_ball
from kernelweave._solvers.svm import curvature
from kernelweave.machines.certified import proven_dual
from kernelweave.machines.machine import Machine
from kernelweave.papers.gai2010._centering import Centered
from kernelweave.stacks.identity import Changed
from kernelweave.stacks.protocol import CombinedKernel, Stack
from kernelweave.stacks.rounding import FINE, FINE_EPS, fine_sums, quad_bounds


@dataclass(frozen=True)
class KernelBall(Ball):
    """The enclosing ball of the combined kernel ``K``."""

    K: CombinedKernel

    @property
    def unit_kernel(self) -> CombinedKernel:
        """K/R²: the same points in a ball of radius 1."""
        return Changed(self.K, 1.0 / self.radius2)


class Balls:
    """Enclosing balls at weights e, of the kernels s_m K_m, each started from the last.

    ``sizes`` are s_m tr K̃_m, zero where all points coincide.
    """

    def __init__(
        self, kernels: Centered, scale: Array, tick: Callable[[], None] | None = None
    ) -> None:
        self.stack, self.scale, self.tick = kernels.stack, scale, tick
        self.sizes = scale * kernels.traces
        diagonals = np.maximum(self.stack.diagonals(), 0.0)
        self.most = diagonals.max(axis=1)
        unit = np.where(self.most > 0.0, self.most, 1.0)[:, None]
        self.roots = np.sqrt(diagonals / unit)  # as shares, which no unit of a kernel changes
        self.beta: Array | None = None

    def around(self, e: Array, tol: float, ridge: float = 0.0) -> KernelBall:
        """The ball of Σ_m s_m e_m K_m + ridge·I to relative gap ``tol``."""
        K = self.stack.combined(self.scale * e)
        ridged = Changed(K, ridge=ridge) if ridge > 0.0 else K
        ball = smallest_ball(ridged, tol, self.beta, self.tick)
        self.beta = ball.beta
        return KernelBall(ball.beta, ball.radius2, ball.lower, K)

    def slopes(self, beta: Array) -> Array:
        """All c_m(β). Costs a pass over the kernels, of the rows where β > 0."""
        c = self.stack.diagonals() @ beta - self.stack.quad_forms(beta)
        return np.maximum(self.scale * c, 0.0)

    def lower_bound(self, linear: float, q: Array, v: Array, slopes: Array) -> float:
        """l(v) − ½ max_m q_m/c_m(β), below which no weights bring the margin over the radius.

        Lower bounds of l and of the slopes c, and upper ones of q, will do: rounding is charged
        to both. Kernels under which all points coincide have neither and do not count.
        """
        seen = self.sizes > 0.0
        terms = 2 * v.size + 16  # of sums, each as wrong as the sizes of their terms say
        wide = self.most * (self.roots @ np.abs(v)) ** 2, self.most
        unit = self.stack.units.of(terms)
        errors = [unit * self.scale * size for size in wide]
        most = (q + errors[0])[seen]
        least = np.maximum(slopes - 2.0 * errors[1], 0.0)[seen]
        ratios = np.divide(most, least, out=np.full(most.size, np.inf), where=least > 0.0)
        return linear - 0.5 * float(ratios.max()) if v.any() else linear

    def proven(self, machine: Machine, v: Array, beta: Array, fine: bool) -> tuple[float, Array]:
        """The lower bound that a feasible v and β prove in exact arithmetic; v, or 0 if that is 0.

        ``fine``: also by sums in extended precision over the kernels as they were given to the
        ``machine``, not only by the passes over centered ones: constants take digits there.
        """
        on = machine.on(self.stack)
        value = self.lower_bound(on.dual_floor(v, 0.0), on.quads(v), v, self.slopes(beta))
        value = max(value, self._finely_proven(machine, v, beta)) if fine else value
        return (value, v) if value > 0.0 else (0.0, np.zeros_like(v))

    def _finely_proven(self, machine: Machine, v: Array, beta: Array) -> float:
        stack, scale, seen = machine.stack, machine.scale, self.sizes > 0.0
        q, spread = (
            quad_bounds(stack, scale, [part], machine.quads(part), True, False)
            for part in (v, beta)
        )
        norms = scale * (stack.diagonals().astype(FINE) @ beta).astype(float)
        uneven = 3.0 * abs(float(beta.astype(FINE).sum() - 1.0))  # what β that add up to 1 change
        off = (beta.size * FINE_EPS + (4 + stack.units.operations) * EPS + uneven) * norms
        least = (norms - spread - off)[seen]
        if not (least > 0.0).all():
            return -math.inf
        largest = float((scale * stack.diagonals().max(axis=1))[seen].max() / least.min())
        return proven_dual(machine, v, float((q[seen] / least).max(initial=0.0)), largest)

    def hessian_factor(self, K: CombinedKernel, beta: Array) -> Array | None:
        """B with 2BᵀB the Hessian of R², from the points on the sphere; K as at ``beta``."""
        free = np.flatnonzero(beta)
        halves = 0.5 * self.stack.diagonals()[:, free] - self.stack.matvecs(beta, rows=free)
        return curvature.hessian_factor(
            K, ball_qp(K.diagonal()), free, self.scale[:, None] * halves
        )


def certified_radius(
    stack: Stack, d: Array, beta: Array, radius2: float, fine: bool, ridge: float = 0.0
) -> tuple[float, float]:
    """Upper and lower bound of R²(K(d) + ridge·I), from the ball around Σ β_i φ_i.

    Not ``fine``: both are ``radius2``, up to rounding. Weights of another size change both bounds
    by as much, and what follows from them not at all.
    """
    diagonals = stack.diagonals()
    size = float(np.abs(d @ diagonals).max()) + ridge
    if not fine:
        error = 4.0 * stack.units.of(2 * beta.size + 16) * size
        return radius2 + error, max(radius2 - error, 0.0)
    beta = beta.astype(FINE)
    beta /= beta.sum()  # to more digits than it has: constants of the kernel count by what is left
    values, weights = fine_sums(stack, d, beta), d.astype(FINE)
    norms = weights @ diagonals + ridge
    spread = beta @ values.f + ridge * (beta @ beta)
    far, near = norms - 2.0 * (values.f + ridge * beta), norms @ beta - spread
    terms = (beta.size + d.size + 16) * FINE_EPS + stack.units.operations * EPS
    error = 4.0 * float(values.error.max()) + terms * size
    far, near = (1.0 + LAST) * (far.max() + spread) + error, (1.0 - LAST) * near - error
    return float(far), max(float(near), 0.0)
