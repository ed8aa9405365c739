"""Steps of the master problem by a system of the order of the cuts and the rows of B."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.master import (
    DX,
    DY,
    ENDED,
    GOES_ON,
    REST,
    SIDE,
    STUCK,
    Missed,
    Program,
    X,
    Y,
    advance,
    correct,
    has_ended,
    judge,
)


class WideSystem:
    """With R = (B, −g) and t = (B de, dλ) the kernels leave first: Θ + R D⁻¹Rᵀ is what remains.

    D = diag(δ + w/e), Θ = diag(1, s/λ). Rows of R less their means, weighted by D⁻¹, make ν
    independent of t without cancellation. Since the sum over cuts of t is given, a multiple of its
    square may be added: without it the matrix is singular at a vertex.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.damping, self.bends = program, program.damping, len(program.B)
        self.R = np.vstack([program.B, -program.g])

    def go(self, work: Array, z: float, nu: float, most: int) -> tuple[float, float, int, int]:
        """One step of Mehrotra's."""
        size = self.damping.size
        missed = self._judge(work, z, nu)
        if has_ended(missed):
            return z, nu, 0, ENDED
        try:
            self.factor(work[X, :size], work[Y, :size], work[X, size:], work[Y, size:])
        except LinAlgError:
            return z, nu, 0, STUCK
        dz, dn = self._move(work, missed)
        return z + dz, nu + dn, 1, GOES_ON

    def _judge(self, work: Array, z: float, nu: float) -> Missed:
        """What the conditions miss."""
        a, g, pull, damping, B = self.program
        size = pull.size
        e, lam = work[X, :size], work[Y, size:]
        work[REST, :size] = pull + damping * e + (B @ e) @ B - lam @ g
        work[REST, size:] = g @ e - a
        return judge(work, size, z, nu)

    def factor(self, e: Array, w: Array, s: Array, lam: Array) -> None:
        """The factor, and the solution along z."""
        bends = self.bends
        theta = self.theta = s / lam
        self.share = 1.0 / (self.damping + w / e)
        self.total = float(self.share.sum())
        self.mean = self.R @ self.share / self.total
        self.rows = self.R - self.mean[:, None]
        matrix = (self.rows * self.share) @ self.rows.T
        among_cuts = matrix[bends:, bends:]
        matrix[np.diag_indices(bends)] += 1.0
        among_cuts[np.diag_indices_from(among_cuts)] += theta
        # Σλ = 1 borders this Schur complement, so that h·11ᵀ added to it changes dz alone, but it
        # lifts the direction of 1, in which it is nearly singular. h is as large as the smallest
        # diagonal entry: a larger one would take the digits of the others.
        self.heavy = float(among_cuts.diagonal().min())
        among_cuts += self.heavy
        self.scale = 1.0 / np.sqrt(matrix.diagonal())
        matrix *= self.scale[:, None] * self.scale
        matrix[np.diag_indices_from(matrix)] += 0.5 * EPS * len(matrix)  # what rounding takes
        self.L = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        self.along_z = self._solve(np.append(np.zeros(bends), np.ones(theta.size)))

    def _solve(self, side: Array) -> Array:
        found: Array = self.scale * cho_solve(self.L, self.scale * side, check_finite=False)
        return found

    def _move(self, work: Array, missed: Missed) -> tuple[float, float]:
        """Predict, correct and go along the step, in ``work``; how far z and ν go with it."""
        size, (mu, worst, excess, lack) = self.damping.size, missed
        self._step(work, lack, excess)
        correct(work, size, mu, worst)
        dz, dn = self._step(work, lack, excess)
        reach = advance(work, size)
        return reach * dz, reach * dn

    def _step(self, work: Array, lack: float, excess: float) -> tuple[float, float]:
        """Set dλ and de, then ds from dλ; dz and dν."""
        size, bends = self.damping.size, self.bends
        slopes, cuts = work[SIDE, :size], work[SIDE, size:]
        pushed = slopes * self.share
        side = self.rows @ pushed - self.mean * excess
        side[bends:] += cuts
        t = self._solve(side)
        dz = float(t[bends:].sum() - lack) / float(self.along_z[bends:].sum())
        t -= dz * self.along_z
        dn = float(pushed.sum() + excess) / self.total
        work[DX, :size] = (slopes - dn - t @ self.rows) * self.share
        work[DY, size:] = t[bends:]
        work[DX, size:] = cuts + work[REST, size:] - self.theta * t[bends:]
        return dz + self.heavy * lack, dn - float(self.mean @ t)
