"""The bundle of the radius problem: past machines and balls as lower models.

    J(e) ≥ l_k − ½ q_k·e        R²(e) ≥ c_k·e

Next weights e are sought in units of the center's ball, x = c∘e: on the simplex of x, R² is 1 to
first order and at least 1 in truth. Mixed machines and mixed balls prove lower bounds: v̂ is
feasible by convexity, and c(β) is concave.
"""

from __future__ import annotations

import numpy as np

from kernelweave._core.tolerances import LEAST_PROXIMAL
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Bundle
from kernelweave.papers.gai2010._balls import Balls

_MEMORY = 200  # past machines and balls that the model is made of
_UNSEEN = 0.01  # least slope of a kernel, as a share of the one at equal β: balls notice it soon


class RadiusBundle(Bundle):
    """Cuts of J and of R², and the best lower bound that they prove.

    ``value``, ``v`` and ``beta`` are that bound, and what proves it.
    """

    def __init__(self, balls: Balls, tol: float) -> None:
        super().__init__(tol, _MEMORY)
        n = balls.stack.n
        self.balls, self.even = balls, np.full(n, 1.0 / n)
        self.usable = np.flatnonzero(balls.sizes > 0.0)
        self.slopes: list[Array] = []
        self.betas: list[Array] = []
        self.value, self.v_best, self.beta = 0.0, np.zeros(n), self.even

    def take(self, v: Array, linear: float, q: Array, slopes: Array, beta: Array) -> None:
        """Keep one more machine and its ball."""
        if len(self.linear) >= self.size:
            self.retain(list(range(1, len(self.linear))))
        self.keep(v, linear, q)
        self.slopes.append(slopes)
        self.betas.append(beta)
        self.prove(v, linear, q, slopes, beta)

    def retain(self, places: list[int]) -> None:
        """Let all other machines and balls go."""
        super().retain(places)
        self.slopes = [self.slopes[k] for k in places]
        self.betas = [self.betas[k] for k in places]

    def prove(self, v: Array, linear: float, q: Array, slopes: Array, beta: Array) -> None:
        """Keep the lower bound l(v) − ½ max q/c(β) if it is the best.

        β gives way a little to equal shares, so that no slope is zero: it may be where kernel m
        tells apart neither the points on the sphere nor the support vectors. c is concave.
        """
        share = 1e-2 * min(self.tol, 1.0)
        slopes = (1.0 - share) * slopes + share * self.balls.sizes / beta.size
        value = self.balls.lower_bound(linear, q, v, slopes)
        if value > self.value:
            self.value, self.v_best = value, v
            self.beta = (1.0 - share) * beta + share * self.even

    def units(self, slopes: Array) -> Array:
        """c of x = c∘e: slopes, none much below that at equal β; 1 for kernels of no use."""
        least = _UNSEEN * self.balls.sizes / self.even.size
        return np.where(self.balls.sizes > 0.0, np.maximum(slopes, least), 1.0)

    def newton_step(
        self, e: Array, slopes: Array, beta: Array, factor: Array | None, damping: float
    ) -> Array:
        """Next weights from the cuts of J and the curvature BᵀB, R² linearized at the center.

        ``damping`` adds curvature, in units of the largest slope.
        """
        c = self.units(slopes)
        most = 0.5 * float((self.q[-1][self.usable] / c[self.usable]).max())
        least = max(damping, LEAST_PROXIMAL) * most
        e, multipliers = self.minimize(e, least, factor, self.usable, c)
        v, linear, q = self.mixture(multipliers)
        self.prove(v, linear, q, slopes, beta)
        return e

    def plane_step(self, e: Array, slopes: Array, reach: float) -> Array:
        """Next weights from cuts of J and of R² alone, no x further than ``reach``.

        min z  s.t.  z ≥ l_k − ½q_k·e,  c_k·e ≤ 1,  e ≥ 0. Without the reach, its multipliers mix
        past machines and past balls into the best lower bound.
        """
        c = self.units(slopes)[self.usable]
        linear = np.array(self.linear)
        falls = 0.5 * np.array(self.q)[:, self.usable] / c
        planes = np.array(self.slopes)
        balls = planes[:, self.usable] / c
        _, multipliers, prices = _linear_program(linear, falls, balls)
        if prices.sum() > 0.0:
            prices = prices / prices.sum()
            v, mixed, q = self.mixture(multipliers)
            self.prove(v, mixed, q, prices @ planes, prices @ np.array(self.betas))
        x = c * e[self.usable]
        around = np.column_stack([np.maximum(x - reach, 0.0), x + reach])
        x, _, _ = _linear_program(linear, falls, balls, around)
        out = np.zeros(e.size)
        out[self.usable] = x / c
        return out


def _linear_program(
    linear: Array, cuts: Array, balls: Array, limits: Array | None = None
) -> tuple[Array, Array, Array]:
    """Min z s.t. z ≥ linear − cuts·x, balls·x ≤ 1, x ≥ 0 or within limits; x and multipliers."""
    from scipy.optimize import linprog  # loads slowly

    unit = float(np.abs(linear).max())
    count, size = cuts.shape
    rows = np.vstack(
        [
            np.column_stack([-cuts / unit, -np.ones(count)]),
            np.column_stack([balls, np.zeros(len(balls))]),
        ]
    )
    sides = np.concatenate([-linear / unit, np.ones(len(balls))])
    bounds = (
        np.full((size + 1, 2), (0.0, np.inf)) if limits is None else np.vstack([limits, [0, 0]])
    )
    bounds[-1] = -np.inf, np.inf
    anywhere = np.full(size, 1.0 / size), np.full(count, 1.0 / count), np.zeros(len(balls))
    if not (np.isfinite(rows).all() and np.isfinite(sides).all()):  # nothing was proved so far
        return anywhere
    found = linprog(np.append(np.zeros(size), 1.0), rows, sides, bounds=bounds, method="highs")
    if found.x is None:  # the best x so far lies within every limit: only rounding says otherwise
        return anywhere
    prices = -found.ineqlin.marginals
    multipliers = np.maximum(prices[:count], 0.0)
    x = np.maximum(found.x[:-1], 0.0)
    return x, multipliers / multipliers.sum(), np.maximum(prices[count:], 0.0)
