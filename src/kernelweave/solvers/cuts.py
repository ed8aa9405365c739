"""The bundle: past inner solutions as lower bounds of J, and the dual point they make together.

    J(e) ≥ l_k − ½ q_k·e,     l_k = cᵀv_k − ½ρ‖v_k‖²,     q_k,m = s_m v_kᵀK_m v_k

Where J has a kink no single v_k proves optimality. The multipliers λ of the master problem do:
v̂ = Σ λ_k v_k is feasible by convexity, and its dual value is at least Σ λ_k l_k − ½ max_m Σ λ_k
q_k,m. ``descend`` is a proximal bundle method on these cuts; it finishes what a learner
cannot.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .master import solve_master
from .oracle import Oracle, Point

Array = NDArray[np.float64]


class Cuts:
    """At most ``size`` past solutions; the least useful leave first."""

    def __init__(self, size: int = 100) -> None:
        self.size = size
        self.linear: list[float] = []
        self.q: list[Array] = []
        self.v: list[Array] = []

    def __len__(self) -> int:
        return len(self.linear)

    def add(self, linear: float, q: Array, v: Array) -> None:
        """Keep one more solution, as the newest."""
        self.linear.append(linear)
        self.q.append(q)
        self.v.append(v)

    def model(self, e: Array) -> float:
        """The greatest lower bound of J(e) that the cuts give."""
        return max(l - 0.5 * float(q @ e) for l, q in zip(self.linear, self.q, strict=True))

    def minimise(
        self, center: Array, delta: float, factor: Array | None = None
    ) -> tuple[Array, Array]:
        """Minimiser of the model with its proximal term, and the multipliers of the cuts."""
        return solve_master(np.array(self.linear), 0.5 * np.array(self.q), center, delta, factor)

    def offer(self, oracle: Oracle, multipliers: Array, tol: float) -> None:
        """Offer v̂ = Σ λ_k v_k as a dual point.

        Σ λ_k q_k bounds its q for free; the pass that gives its true q is made once that bound
        improves on the best and the gap is nearly closed.
        """
        aggregate = multipliers @ np.array(self.v)
        value = oracle.offer_dual(aggregate, multipliers @ np.array(self.q))
        if value == oracle.dual and tol < oracle.gap < 100.0 * tol:
            oracle.offer_dual(aggregate)

    def thin(self, multipliers: Array) -> None:
        """Make room, where the bundle is full, by letting the idlest quarter go."""
        if len(self) >= self.size:
            keep = np.sort(np.argsort(multipliers)[-(3 * self.size) // 4 :])
            self.linear = [self.linear[k] for k in keep]
            self.q = [self.q[k] for k in keep]
            self.v = [self.v[k] for k in keep]


def descend(oracle: Oracle, cuts: Cuts, tol: float, delta: float | None = None) -> Iterator[Point]:
    """Proximal bundle from the oracle's best point; yields after every inner solve.

    A step is serious when J falls by a tenth of what the model promised; the proximal weight
    follows how well it promised [Kiwiel 1990].
    """
    assert oracle.best is not None
    center = oracle.best
    if delta is None:
        delta = 0.1 * float(np.ptp(center.q))
    while True:
        _, multipliers = cuts.minimise(center.e, 1e-9 * delta)
        cuts.offer(oracle, multipliers, tol)
        e, multipliers = cuts.minimise(center.e, delta)
        promise = center.primal - cuts.model(e)
        cuts.thin(multipliers)
        close = max(0.1 * promise / center.primal, 0.01 * tol)
        point = oracle.solve(e, min(inner_tol(oracle.gap, tol), close))
        cuts.add(point.linear, point.q, point.v)
        oracle.offer_dual(point.v, point.q)
        fit = (center.primal - point.primal) / max(promise, 1e-300)
        if fit >= 0.1:
            center = point
            delta *= 0.5 if fit < 0.5 else 0.2
        elif center.primal - (point.linear - 0.5 * float(point.q @ center.e)) > promise:
            delta *= 2.0  # the new cut says little about the centre: stay nearer
        yield point


def inner_tol(gap: float, tol: float) -> float:
    """How tightly to solve an inner problem when the outer gap is ``gap`` and shall be ``tol``."""
    return float(np.clip(0.05 * min(gap, 1.0), 0.1 * tol, 1e-2))
