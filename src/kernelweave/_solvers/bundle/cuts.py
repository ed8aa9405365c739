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

from kernelweave._core.types import Array
from kernelweave._solvers.bundle.master import solve_master
from kernelweave.machines.oracle import Oracle, Point
from kernelweave.problems.dual_qp import relative_gap


class Cuts:
    """At most ``size`` past solutions of an oracle; the least useful leave first.

    ``among`` are the kernels looked at. Others have an unknown q (NaN) in newer cuts until
    ``complete`` looks at them again; no dual point is offered before that.
    """

    def __init__(self, oracle: Oracle, tol: float, size: int = 100) -> None:
        self.oracle, self.tol, self.size = oracle, tol, size
        self.among: NDArray[np.intp] | None = None
        self.sharpness = 1.0
        self.linear: list[float] = []
        self.q: list[Array] = []
        self.v: list[Array] = []

    def add(self, point: Point) -> None:
        """Keep one more solution, as the newest, and offer it as a dual point."""
        self.keep(point.v, point.linear, point.q)

    def keep(self, v: Array, linear: float, q: Array) -> None:
        """The same for any feasible v, with cᵀv − ½ρ‖v‖² and q."""
        self.linear.append(linear)
        self.q.append(q)
        self.v.append(v)
        if self.among is None:
            self.oracle.offer_dual(v, q)

    def step_tol(self, promise: float) -> float:
        """How tightly to solve when the step is judged by a fall of J of about ``promise``."""
        assert self.oracle.best is not None
        close = 0.1 * promise / max(abs(self.oracle.best.primal), 1e-300)
        close = max(close, 0.01 * self.tol) * self.sharpness
        return min(inner_tol(self.oracle.gap, self.tol), max(close, 1e-14))

    def disappointed(self, promise: float) -> None:
        """A step brought nothing: if little was promised, solve more tightly from now on.

        An inner gap of ε leaves an error of the order √ε in v, and so in q and the bound.
        """
        assert self.oracle.best is not None
        if promise < self.tol * abs(self.oracle.best.primal):
            self.sharpness *= 0.1

    def narrow(self, e: Array, share: float = 0.15) -> None:
        """Look only at kernels in use at ``e`` or with q near the largest in the newest cut."""
        q = self.q[-1]
        near = (e > 0.0) | (q >= share * np.nanmax(q))  # NaN is not near
        self.among = np.flatnonzero(near)

    def nearly_done(self, point: Point) -> bool:
        """Whether ``point`` would close the gap if no kernel left aside had a larger q."""
        dual = point.linear - 0.5 * float(np.nanmax(point.q))
        return relative_gap(point.primal, max(dual, self.oracle.dual)) <= self.tol

    def complete(self) -> None:
        """Look at all kernels again: offer the newest cut, filled in; let other partial ones go."""
        if self.among is None:
            return
        self.among = None
        q = self.q[-1]
        unknown = np.flatnonzero(np.isnan(q))
        q[unknown] = self.oracle.quads(self.v[-1], unknown)
        self.oracle.offer_dual(self.v[-1], q)
        self._keep([k for k, q in enumerate(self.q) if not np.isnan(q).any()])

    def model(self, e: Array) -> float:
        """The greatest lower bound of J(e) that the cuts give."""
        used = np.flatnonzero(e)
        return max(
            linear - 0.5 * float(q[used] @ e[used])
            for linear, q in zip(self.linear, self.q, strict=True)
        )

    def minimise(
        self, center: Array, delta: float | Array, factor: Array | None = None
    ) -> tuple[Array, Array]:
        """Minimiser of the model with its proximal term, and the multipliers of the cuts."""
        among = slice(None) if self.among is None else self.among
        part, multipliers = solve_master(
            np.array(self.linear),
            0.5 * np.array(self.q)[:, among],
            center[among],
            np.broadcast_to(delta, center.shape)[among],
            None if factor is None else np.ascontiguousarray(factor[:, among]),
        )
        e = np.zeros(center.size)
        e[among] = part
        return e, multipliers

    def offer(self, multipliers: Array) -> None:
        """Offer v̂ = Σ λ_k v_k as a dual point.

        Σ λ_k q_k bounds its q for free; the pass that gives its true q is made once that bound
        improves on the best and the gap is nearly closed.
        """
        if self.among is not None:
            return
        oracle = self.oracle
        aggregate = multipliers @ np.array(self.v)
        value = oracle.offer_dual(aggregate, multipliers @ np.array(self.q), exact=False)
        if value == oracle.dual and self.tol < oracle.gap < 10.0 * self.tol:
            oracle.offer_dual(aggregate)

    def bound(self) -> None:
        """Offer the v̂ of the best lower bound that the cuts give, the minimum of the model."""
        assert self.oracle.best is not None
        spread = float(np.ptp(self.q[-1]))
        _, multipliers = self.minimise(self.oracle.best.e, 1e-10 * spread)
        self.offer(multipliers)

    def thin(self, multipliers: Array) -> None:
        """Make room, where the bundle is full, by letting the idlest quarter go."""
        if len(self.linear) >= self.size:
            self._keep(sorted(np.argsort(multipliers)[-(3 * self.size) // 4 :]))

    def _keep(self, places: list[int]) -> None:
        self.linear = [self.linear[k] for k in places]
        self.q = [self.q[k] for k in places]
        self.v = [self.v[k] for k in places]


def descend(oracle: Oracle, cuts: Cuts, tol: float) -> Iterator[None]:
    """Proximal bundle from the oracle's best point; yields after every inner solve.

    A step is serious when J falls by a tenth of what the model promised; the proximal weight
    falls then, and grows where a cut made further out says little about the centre.
    """
    assert oracle.best is not None
    center = oracle.best
    delta = 0.1 * float(np.ptp(center.q))
    while True:
        cuts.bound()
        e, multipliers = cuts.minimise(center.e, delta)
        promise = max(center.primal - cuts.model(e), 1e-300)
        cuts.thin(multipliers)
        point = oracle.solve(e, cuts.step_tol(promise))
        cuts.add(point)
        fit = (center.primal - point.primal) / promise
        if fit >= 0.1:
            center = point
            delta *= 0.5 if fit < 0.5 else 0.2
        else:
            cuts.disappointed(promise)
            if says_little(point, center, promise):
                delta *= 2.0
        yield


def says_little(point: Point, center: Point, promise: float) -> bool:
    """Whether the cut of ``point`` lies so low at the centre that it will not matter there."""
    used = np.flatnonzero(center.e)
    cut = point.linear - 0.5 * float(point.q[used] @ center.e[used])
    return bool(center.primal - cut > promise)


def inner_tol(gap: float, tol: float) -> float:
    """How tightly to solve an inner problem when the outer gap is ``gap`` and shall be ``tol``."""
    return float(np.clip(0.05 * min(gap, 1.0), 0.1 * tol, 1e-2))
