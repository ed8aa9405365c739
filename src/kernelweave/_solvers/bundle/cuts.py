"""The bundle method: past inner solutions as lower bounds of J, and steps that minimize these.

    J(e) ≥ l_k − ½ q_k·e,     l_k = cᵀv_k − ½ρ‖v_k‖²,     q_k,m = s_m v_kᵀK_m v_k

Where J has a kink no single v_k proves optimality. The multipliers λ of the master problem do:
v̂ = Σ λ_k v_k is feasible by convexity, and its dual value is at least Σ λ_k l_k − ½ max_m Σ λ_k
q_k,m.

``Descent`` is the one driver of such methods: propose, look, make a serious step or a null step. A
step minimizes the cuts near the center: with curvature and a proximal term, or within a trust
region. What it promises is the fall of the model. It is serious, and moves the center, where the
function falls by a share of that; otherwise it is a null step, which teaches the model a cut. How
far the model is trusted grows where steps keep their promise, and shrinks where they do not.
``descend`` is a proximal bundle method on J; it finishes what a learner cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from kernelweave._core.tolerances import EPS, NOTHING, TIGHTEST, TINY
from kernelweave._core.types import Array, Places
from kernelweave._solvers.bundle.master import solve_master
from kernelweave.problems.dual_qp import relative_gap

if TYPE_CHECKING:
    from kernelweave.machines.evaluator import Evaluator, Incumbent
    from kernelweave.machines.machine import Point

_MOST = 100  # cuts that are kept
_NEAR = 0.15  # share of the largest q from which a kernel is looked at, though not in use
GOOD = 0.3  # share of the promise from which on the model is trusted more


@dataclass(eq=False)
class Bundle:
    """Past solutions as lower bounds l_k − ½ q_k·e of a function; at most ``size`` of them.

    ``sharpness`` says how much more tightly than at first machines have to be solved.
    """

    tol: float
    size: int = _MOST
    sharpness: float = 1.0
    linear: list[float] = field(default_factory=list)
    q: list[Array] = field(default_factory=list)
    v: list[Array] = field(default_factory=list)

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
        used, most = np.flatnonzero(e), -np.inf
        for linear, q in zip(self.linear, self.q, strict=True):
            most = max(most, linear - 0.5 * float(q[used] @ e[used]))
        return most

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


@dataclass(eq=False, kw_only=True)
class Cuts(Bundle):
    """The bundle of J: every cut is offered to the incumbent as a dual point.

    ``among`` are the kernels looked at. Others have an unknown q (NaN) in newer cuts until
    ``complete`` looks at them again; before that, a dual point is offered only after a pass over
    all kernels.
    """

    evaluator: Evaluator
    incumbent: Incumbent
    among: Places | None = None

    def add(self, v: Array, linear: float, q: Array) -> None:
        """Keep a solution whose bound was offered already."""
        super().keep(v, linear, q)

    def keep(self, v: Array, linear: float, q: Array) -> None:
        """Keep one more solution, and offer it as a dual point."""
        super().keep(v, linear, q)
        if self.among is None:
            self.evaluator.recent.append((v, q))
            self.incumbent.offer_bound(self.evaluator.bound(v, q))

    def narrow(self, e: Array) -> None:
        """Look only at kernels in use at ``e`` or with q near the largest in the newest cut."""
        q = self.q[-1]
        near = (e > 0.0) | (q >= _NEAR * np.nanmax(q))  # NaN is not near
        self.among = np.flatnonzero(near)

    def seen_gap(self, primal: float, linear: float | None = None, q: Array | None = None) -> float:
        """The gap by a cut, the newest by default, if no kernel left aside has a larger q."""
        if linear is None or q is None:
            linear, q = self.linear[-1], self.q[-1]
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
        self.evaluator.recent.append((self.v[-1], q))
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
            if self.seen_gap(incumbent.best.primal, linear, q) <= self.tol:
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


class Valued(Protocol):
    """What a look at the function has to tell."""

    @property
    def primal(self) -> Any:
        """An upper bound of the function."""
        ...


Seen = TypeVar("Seen", bound=Valued)


@dataclass(eq=False)
class Descent(Generic[Seen]):
    """The state of the method: the center, and how far the model is trusted there.

    ``damping`` is the size of the proximal term, ``serious`` the share of its promise that a
    serious step keeps. Subclasses say how to ``propose`` a place, and how to ``look`` at the
    function there.
    """

    serious: ClassVar[float] = 0.05

    center: Seen
    damping: float

    def step(self) -> bool:
        """One step; whether it was accepted."""
        return self.go(*self.propose())

    def go(self, e: Array, model: float) -> bool:
        """Look at the function where it was proposed to go; whether the step was accepted."""
        promise = max(self.center.primal - model, TINY)
        share = promise / max(abs(self.center.primal), TINY)
        seen = self.look(e, share)
        fit = (self.center.primal - seen.primal) / promise
        if fit >= self.serious:
            self.accept(seen, fit)
        else:
            self.reject(seen, promise, share)
        return fit >= self.serious

    def propose(self) -> tuple[Array, float]:
        """Where to go next, and the value of the model there."""
        raise NotImplementedError

    def look(self, e: Array, share: float) -> Seen:
        """The function there, as exactly as a step needs that promises this share of it."""
        raise NotImplementedError

    def accept(self, seen: Seen, fit: float) -> None:
        """A serious step, which kept the share ``fit`` of its promise: the new center."""
        self.center = seen
        self.damping *= 0.25 if fit > GOOD else 1.0

    def reject(self, seen: Seen, promise: float, share: float) -> None:
        """A null step: the center stays, and the proximal term grows, until steps are rounding."""
        self.damping = min(max(4.0 * self.damping, 1e-3), 1.0 / EPS)


@dataclass(eq=False)
class _Proximal(Descent["Point"]):
    """A proximal bundle method on J, without curvature; ``damping`` is the proximal weight."""

    serious: ClassVar[float] = 0.1
    cuts: Cuts

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
        cuts.keep(point.v, point.linear, point.q)
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
    first = cuts.incumbent.best
    assert first is not None
    state = _Proximal(first, 0.1 * float(np.ptp(first.q)), cuts)
    while True:
        state.step()
        yield


def inner_tol(gap: float, tol: float) -> float:
    """How tightly to solve an inner problem when the outer gap is ``gap`` and shall be ``tol``."""
    return float(np.clip(0.05 * min(gap, 1.0), 0.1 * tol, 1e-2))
