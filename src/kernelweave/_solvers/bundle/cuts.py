"""The bundle: past inner solutions as lower bounds of J, and the dual point they make together.

    J(e) ≥ l_k − ½ q_k·e,     l_k = cᵀv_k − ½ρ‖v_k‖²,     q_k,m = s_m v_kᵀK_m v_k

Where J has a kink no single v_k proves optimality. The multipliers λ of the master problem do:
v̂ = Σ λ_k v_k is feasible by convexity, and its dual value is at least Σ λ_k l_k − ½ max_m Σ λ_k
q_k,m. ``descend`` is a proximal bundle method on these cuts; it finishes what a learner
cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kernelweave._core.tolerances import NOTHING, TIGHTEST
from kernelweave._core.types import Array, Places
from kernelweave._solvers.bundle.descent import Descent
from kernelweave._solvers.bundle.master import solve_master
from kernelweave.problems.dual_qp import relative_gap

if TYPE_CHECKING:
    from kernelweave.machines.evaluator import Evaluator, Point
    from kernelweave.machines.incumbent import Incumbent

_MOST = 100  # cuts of J that are kept
_NEAR = 0.15  # share of the largest q from which a kernel is looked at, though not in use


class Bundle:
    """Past solutions as lower bounds l_k − ½ q_k·e of a function; at most ``size`` of them.

    ``sharpness`` says how much more tightly than at first machines have to be solved.
    """

    def __init__(self, tol: float, size: int) -> None:
        self.tol, self.size = tol, size
        self.sharpness = 1.0
        self.linear: list[float] = []
        self.q: list[Array] = []
        self.v: list[Array] = []

    def keep(self, v: Array, linear: float, q: Array) -> None:
        """Keep one more solution, as the newest: any feasible v, with cᵀv − ½ρ‖v‖² and q.

        One that rounding has let grow beyond all numbers says nothing.
        """
        if self.linear and not (np.isfinite(linear) and np.isfinite(v).all()):
            return
        self.linear.append(linear)
        self.q.append(q)
        self.v.append(v)

    def step_tol(self, share: float, gap: float) -> float:
        """How tightly to solve when a step is judged by a relative fall of about ``share``."""
        close = min(inner_tol(gap, self.tol), max(0.1 * share, 0.01 * self.tol))
        return max(close * self.sharpness, TIGHTEST)

    def disappointed(self, share: float) -> None:
        """A step brought nothing: if little was promised, solve more tightly from now on.

        An inner gap of ε leaves an error of the order √ε in v, and so in q and the bound.
        """
        if share < self.tol:
            self.sharpness *= 0.1

    def model(self, e: Array) -> float:
        """The greatest lower bound at ``e`` that the cuts give."""
        used = np.flatnonzero(e)
        return max(
            linear - 0.5 * float(q[used] @ e[used])
            for linear, q in zip(self.linear, self.q, strict=True)
        )

    def minimize(
        self,
        center: Array,
        delta: float | Array,
        factor: Array | None = None,
        among: Places | None = None,
        units: Array | None = None,
    ) -> tuple[Array, Array]:
        """Minimizer of the model with its proximal term, and the multipliers of the cuts.

        It is sought among some kernels, on the simplex of x = units∘e; ``factor`` is B, with BᵀB
        the curvature in e, and ``delta`` that of the proximal term in x.
        """
        chosen = slice(None) if among is None else among
        c = np.ones(center.size)[chosen] if units is None else units[chosen]
        x = c * center[chosen]
        part, multipliers = solve_master(
            np.array(self.linear),
            0.5 * np.array(self.q)[:, chosen] / c,
            x if units is None else x / x.sum(),
            np.broadcast_to(delta, center.shape)[chosen],
            None if factor is None else np.ascontiguousarray(factor[:, chosen] / c),
        )
        e = np.zeros(center.size)
        e[chosen] = part / c
        return e, multipliers

    def mixture(self, multipliers: Array) -> tuple[Array, float, Array]:
        """v̂ = Σ λ_k v_k, a lower bound of its linear part, and an upper bound of its q."""
        linear = float(multipliers @ np.array(self.linear))
        return multipliers @ np.array(self.v), linear, multipliers @ np.array(self.q)

    def thin(self, multipliers: Array) -> None:
        """Make room, where the bundle is full, by letting the idlest quarter go."""
        if len(self.linear) >= self.size:
            self.retain(sorted(np.argsort(multipliers)[-(3 * self.size) // 4 :]))

    def retain(self, places: list[int]) -> None:
        """Let all others go."""
        self.linear = [self.linear[k] for k in places]
        self.q = [self.q[k] for k in places]
        self.v = [self.v[k] for k in places]


class Cuts(Bundle):
    """The bundle of J: every cut is offered to the incumbent as a dual point.

    ``among`` are the kernels looked at. Others have an unknown q (NaN) in newer cuts until
    ``complete`` looks at them again; before that, a dual point is offered only after a pass over
    all kernels.
    """

    def __init__(self, evaluator: Evaluator, incumbent: Incumbent, tol: float) -> None:
        super().__init__(tol, _MOST)
        self.evaluator, self.incumbent = evaluator, incumbent
        self.among: Places | None = None

    def add(self, point: Point, q: Array | None = None) -> None:
        """Keep one more solution, as the newest, and offer it as a dual point.

        ``q`` is given where a look at the kernels found it.
        """
        self.keep(point.v, point.linear, point.q if q is None else q)

    def keep(self, v: Array, linear: float, q: Array) -> None:
        """Keep any feasible v, and offer it."""
        super().keep(v, linear, q)
        if self.among is None:
            self.incumbent.offer_bound(self.evaluator.bound(v, q))

    def narrow(self, e: Array) -> None:
        """Look only at kernels in use at ``e`` or with q near the largest in the newest cut."""
        q = self.q[-1]
        near = (e > 0.0) | (q >= _NEAR * np.nanmax(q))  # NaN is not near
        self.among = np.flatnonzero(near)

    def seen_gap(self, primal: float) -> float:
        """The gap by the newest cut, if no kernel left aside has a larger q."""
        return self._gap_of(primal, self.linear[-1], self.q[-1])

    def _gap_of(self, primal: float, linear: float, q: Array) -> float:
        dual = linear - 0.5 * float(np.nanmax(q))
        return relative_gap(primal, max(dual, self.incumbent.bound.value))

    def complete(self) -> None:
        """Look at all kernels again: offer the newest cut, filled in; let other partial ones go."""
        if self.among is None:
            return
        self.among = None
        q = self.q[-1].copy()
        unknown = np.flatnonzero(np.isnan(q))
        q[unknown] = self.evaluator.quads(self.v[-1], unknown)
        self.q[-1] = q
        self.incumbent.offer_bound(self.evaluator.bound(self.v[-1], q))
        self.retain([k for k, q in enumerate(self.q) if not np.isnan(q).any()])

    def offer(self, multipliers: Array) -> None:
        """Offer v̂ = Σ λ_k v_k as a dual point.

        Σ λ_k q_k bounds its q for free; the pass that gives its true q is made once that bound
        improves on the best and the gap is nearly closed. While kernels are left aside, it is made
        where the gap is closed unless one of these has a larger q.
        """
        evaluator, incumbent = self.evaluator, self.incumbent
        v, linear, q = self.mixture(multipliers)
        if self.among is not None:
            assert incumbent.best is not None
            if self._gap_of(incumbent.best.primal, linear, q) <= self.tol:
                incumbent.offer_bound(evaluator.bound(v, by="mixture"))
            return
        best = incumbent.offer_bound(evaluator.bound(v, q, "mixture", exact=False))
        if best and self.tol < incumbent.gap < 10.0 * self.tol:
            incumbent.offer_bound(evaluator.bound(v, by="mixture"))

    def bound(self) -> None:
        """Offer the v̂ of the best lower bound that the cuts give, the minimum of the model."""
        assert self.incumbent.best is not None
        little = NOTHING * float(np.nanmax(self.q[-1]) - np.nanmin(self.q[-1]))
        _, multipliers = self.minimize(self.incumbent.best.e, little, among=self.among)
        self.offer(multipliers)

    def says_little(self, point: Point, center: Point, promise: float) -> bool:
        """Whether the cut of ``point``, the newest, lies too low at the center to matter there."""
        used = np.flatnonzero(center.e)
        cut = point.linear - 0.5 * float(self.q[-1][used] @ center.e[used])
        return bool(center.primal - cut > promise)


class _Proximal(Descent["Point"]):
    """A proximal bundle method on J, without curvature; ``damping`` is the proximal weight."""

    serious = 0.1

    def __init__(self, cuts: Cuts) -> None:
        first = cuts.incumbent.best
        assert first is not None
        super().__init__(first, 0.1 * float(np.ptp(first.q)))
        self.cuts = cuts

    def propose(self) -> tuple[Array, float]:
        """The minimizer of the cuts and the proximal term."""
        self.cuts.bound()
        e, multipliers = self.cuts.minimize(self.center.e, self.damping)
        model = self.cuts.model(e)
        self.cuts.thin(multipliers)
        return e, model

    def look(self, e: Array, share: float) -> Point:
        """The machine there, as one more cut."""
        cuts = self.cuts
        point = cuts.evaluator.solve(e, cuts.step_tol(share, cuts.incumbent.gap))
        cuts.add(point)
        return point

    def accept(self, seen: Point, fit: float) -> None:
        """The new center, and longer steps."""
        self.center = seen
        self.damping *= 0.5 if fit < 0.5 else 0.2

    def reject(self, seen: Point, promise: float, share: float) -> None:
        """Shorter steps only where a cut made further out says little about the center."""
        self.cuts.disappointed(share)
        if self.cuts.says_little(seen, self.center, promise):
            self.damping *= 2.0


def descend(cuts: Cuts) -> Iterator[None]:
    """Proximal bundle from the incumbent's best point; yields after every solve."""
    state = _Proximal(cuts)
    while True:
        state.step()
        yield


def inner_tol(gap: float, tol: float) -> float:
    """How tightly to solve an inner problem when the outer gap is ``gap`` and shall be ``tol``."""
    return float(np.clip(0.05 * min(gap, 1.0), 0.1 * tol, 1e-2))
