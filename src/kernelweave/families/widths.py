"""Gaussians of all widths between two, over the rows of one view.

    g(θ) = Σ_c Σ_ij v_ci v_cj φ(log |x_i − x_j|² − θ),      φ(z) = exp(−½eᶻ),   θ = 2 log width

is vᵀKv for every width at once. Pairs are sorted into bins of log |x_i − x_j|², and of each bin the
sums of their w_ij tᵖ/p! are kept, t the distance from its middle: one pass over the pairs serves
all widths. φ and its derivatives on the same grid then give the Taylor polynomial of third degree
of g around each θ of the grid; its largest value within half a step, and what the fourth derivative
may add, bound g from above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelweave._core.checks import check_number
from kernelweave._core.jit import jit
from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array
from kernelweave.families.family import Largest
from kernelweave.stacks.dense import KernelStack
from kernelweave.views.products import sq_distances

STEP = 0.02  # of the grid, for bins and for θ
_BELOW, _ABOVE = -46.0, 8.0  # φ is 1 up to 1e-20 below, and 0 above, which exp(−½e⁸) = 1e-647 is
_FOURTH = 1.12  # ≥ max |φ⁗|
_SLOPE = 0.368  # ≥ max |φ′| = 1/e
_DEGREE = 4  # moments of a bin, and terms of the Taylor polynomial
_BEGIN = 5  # widths to begin with
_TOGETHER = 3  # widths that enter at a time


class WidthRange:
    """The family of exp(−|x − z|²/(2s²)) for low ≤ s ≤ high, over the rows of X.

    Its kernels are widths. ``learn(WidthRange(X, low, high), y)`` finds the best kernel of
    their convex hull, with a certificate that holds for the hull.
    """

    def __init__(self, X: Any, low: float, high: float) -> None:
        self.X = np.ascontiguousarray(X, dtype=float)
        if self.X.ndim != 2 or not np.isfinite(self.X).all():
            raise ValueError(
                f"X must be rows of finite numbers, found an array of shape {self.X.shape}"
            )
        self.low, self.high = check_number("low", low), check_number("high", high)
        if self.low > self.high:
            raise ValueError(f"low must not exceed high, found low={low!r} and high={high!r}")
        self.n = len(self.X)

    def begin(self) -> list[float]:
        """Widths in equal ratios."""
        return np.geomspace(self.low, self.high, _BEGIN if self.low < self.high else 1).tolist()

    def stack(self, kernels: Sequence[float]) -> tuple[KernelStack, Sequence[float]]:
        """A matrix for each width, in this order."""
        D = sq_distances(self.X, self.X)
        K = np.exp(np.multiply.outer(-0.5 / np.square(kernels), D))
        return KernelStack(K, check=False), kernels

    def largest(self, V: Array) -> Largest:
        """Peaks of g above what the widths at hand reach, and a bound of all of g."""
        return largest_gaussian(self.X, V, self.low, self.high)


def largest_gaussian(X: Array, V: Array, low: float, high: float) -> Largest:
    """The widths between ``low`` and ``high`` at which g peaks, and an upper bound of g."""
    first, last = 2.0 * math.log(low), 2.0 * math.log(high)
    thetas = first + STEP * np.arange(round((last - first) / STEP) + 1)
    middles = first + STEP * np.arange(math.floor(_BELOW / STEP), thetas.size + _ABOVE / STEP)
    moments, near, size = np.zeros((_DEGREE, middles.size)), np.zeros(len(X)), np.zeros(len(X))
    _sort(X, np.ascontiguousarray(V.T), middles[0] - 0.5 * STEP, STEP, moments, near, size)
    total = float(size.sum())
    values = _taylor(moments, middles, thetas)
    values[0] += near.sum()
    half = 0.5 * STEP
    ends = np.maximum(first - thetas, -half), np.minimum(last - thetas, half)
    peak, where = _peaks(values, *ends)
    # The polynomial is in t − τ, each of at most half a step; rounding of the logarithms, of the
    # sums over pairs, and of those over bins.
    rest = _FOURTH * (2.0 * half) ** 4 / 24.0 + math.exp(_BELOW)
    rest += EPS * (_SLOPE * (X.shape[1] + 500.0) + len(X) ** 2 + _DEGREE * middles.size)
    found = [min(max(math.exp(0.5 * (thetas[k] + where[k])), low), high) for k in _tops(peak)]
    return Largest(found, float(peak.max()) + rest * total)


@jit
def _sort(X: Any, V: Any, start: float, step: float, moments: Any, near: Any, size: Any) -> None:
    """Moments of each bin; of row i what pairs so near that φ = 1 come to, and Σ_j |w_ij|."""
    n, bins = X.shape[0], moments.shape[1]
    for i in range(n):
        for j in range(i + 1):
            distance = 0.0
            for k in range(X.shape[1]):
                difference = X[i, k] - X[j, k]
                distance += difference * difference
            w = 0.0
            for c in range(V.shape[1]):
                w += V[i, c] * V[j, c]
            w = w if i == j else 2.0 * w
            size[i] += abs(w)
            place = (np.log(distance) - start) / step if distance > 0.0 else -1.0
            if place < 0.0:
                near[i] += w
            elif place < bins:
                b = int(place)
                t = (place - b - 0.5) * step
                moments[0, b] += w
                moments[1, b] += w * t
                moments[2, b] += w * t * t / 2.0
                moments[3, b] += w * t * t * t / 6.0


def _taylor(moments: Array, middles: Array, thetas: Any) -> Array:
    """Coefficients of τʳ/r! of g(θ + τ) at each θ, the rows r = 0 to 3."""
    span = np.arange(1 - thetas.size, middles.size)  # of place of middle less that of θ
    derivatives = _decay_and_derivatives(middles[0] - thetas[0] + STEP * span)
    found = np.zeros((_DEGREE, thetas.size))
    for r in range(_DEGREE):
        for p in range(_DEGREE - r):
            # Σ_b moments[p, b] φ⁽ᵖ⁺ʳ⁾(middle_b − θ_k) for all k: θ moves against the middles
            moved = np.correlate(derivatives[p + r], moments[p], mode="valid")[::-1]
            found[r] += (-1.0) ** r * moved
    return found


def _decay_and_derivatives(z: Array) -> Array:
    """φ(z) = exp(−a), a = ½eᶻ, and its first three derivatives, in rows."""
    a = 0.5 * np.exp(np.minimum(z, 700.0))
    small = np.minimum(a, 800.0)  # beyond, all are 0
    decay = np.exp(-small)
    polynomials = 1.0, -small, small**2 - small, -(small**3) + 3.0 * small**2 - small
    return np.array([decay * one for one in polynomials])


def _peaks(values: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """The largest value of each polynomial for lower ≤ τ ≤ upper, and where."""
    g, g1, g2, g3 = values
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(g2 * g2 - 2.0 * g3 * g1, 0.0))
        # The roots of g1 + g2 τ + g3 τ²/2, in the form that stands a small g3.
        sides = -(g2 + np.where(g2 >= 0.0, root, -root))
        inner = [np.nan_to_num(root) for root in (2.0 * g1 / sides, sides / g3)]
    tau = np.array([lower, upper, *(np.clip(one, lower, upper) for one in inner)])
    heights = g + tau * (g1 + tau * (g2 / 2.0 + tau * g3 / 6.0))
    best = heights.argmax(axis=0), np.arange(g.size)
    return heights[best], tau[best]


def _tops(peak: Array) -> list[int]:
    """The places of the highest local maxima, the highest first."""
    walled = np.concatenate([[-np.inf], peak, [-np.inf]])
    tops = np.flatnonzero((peak >= walled[:-2]) & (peak > walled[2:]))
    return tops[np.argsort(-peak[tops], kind="stable")][:_TOGETHER].tolist()
