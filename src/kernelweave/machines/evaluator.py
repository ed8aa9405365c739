"""J at given weights, with warm starts, and the ledger of what is known of its minimum.

    J(d) = max_v  cᵀv − ½ρ‖v‖² − ½ Σ_m d_m vᵀK_m v,     ∂J/∂d_m = −½ vᵀK_m v    [rakoto2007, eq. 7]

Weights are d = s∘e with e in the unit set of the learner (see ``WeightSet``); learners see e, and
q_m = s_m vᵀK_m v, only. Every solve gives an upper bound of min J, the primal value at its f, and
every feasible v a lower bound, cᵀv − ½ρ‖v‖² − ½σ(q). The ``Evaluator`` keeps neither: that is the
work of the ``Incumbent``, which hears of every point that is solved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol
from weakref import ref

import numpy as np

from kernelweave._core.types import Array
from kernelweave.machines.machine import Machine, Point
from kernelweave.problems.dual_qp import relative_gap
from kernelweave.problems.problem import Problem
from kernelweave.stacks.protocol import CombinedKernel, Stack

NOT_SEPARABLE = (
    "C=inf asks for a hard margin, but the kernels do not separate the two classes (the margin is "
    "below 1e-6 of the data's radius); use a finite C"
)


_RECENT = 3  # older ones say next to nothing at another C, and make each master problem larger
_NO_KERNEL = np.empty(0), lambda: None


class HardMarginInfeasible(ValueError):
    """No decision function of the kernels at hand separates the classes."""


class Clock(Protocol):
    """What knows how long a fit may take."""

    def tick(self) -> None:
        """Called often; raises where time is up."""
        ...

    def time_left(self) -> float:
        """Seconds left, infinite without a limit."""
        ...


@dataclass(frozen=True)
class Bound:
    """A lower bound of the optimum, and the feasible v that proves it.

    Not ``exact``: q was bounded from above, so that v itself may prove more. ``by`` says where v
    comes from: "start", "machine" (one solve), "mixture" (several), or a learner's own proof. ``q``
    are its s_m vᵀK_m v, where they are known.
    """

    value: float
    v: Array
    by: str
    exact: bool = True
    q: Array | None = None


def _nobody(point: Point) -> None:
    """Who watches where nobody does."""


@dataclass
class Last:
    """The last solution, ``given`` if not solved for; its primal value; how many were solved."""

    v: Array | None = None
    size: float = np.inf
    given: bool = False
    solves: int = 0


class Evaluator:
    """Solves the machine at given weights, warm-started from the last solve.

    ``look`` and ``quads`` are those of the machine, ``last`` what the next solve begins with.
    ``watch`` hears of every point; the clock's ``tick`` is called often during a long solve, and
    may end it. ``recent`` are the newest cuts, v and all of q, for another fit to begin with.
    """

    def __init__(self, problem: Problem, clock: Clock) -> None:
        self.problem, self.weight_set = problem, problem.weight_set
        self.watch: Callable[[Point], Any] = _nobody
        self.tick, self.time_left = clock.tick, clock.time_left
        self.last = Last()
        self.machine = machine = Machine.of(problem)
        self.stack, self.look, self.quads = machine.stack, machine.look, machine.quads
        self.recent: deque[tuple[Array, Array]] = deque(maxlen=_RECENT)
        self._first: Bound | None = None
        self._judged: tuple[Array, Callable[[], CombinedKernel | None]] = _NO_KERNEL
        self.inherited: Callable[[Any], None] | None = None  # adds the cuts of a neighbor
        self.expected = 1.0  # gap at the weights that a learner begins with

    def on(self, stack: Stack) -> Evaluator:
        """The same machine on another view of the kernels; both count their solves together."""
        other = copy(self)
        other.machine = machine = self.machine.on(stack)
        other.stack, other.look, other.quads = stack, machine.look, machine.quads
        other._first, other._judged = None, _NO_KERNEL
        return other

    def solve(
        self,
        e: Array,
        tol: float,
        start: Array | None = None,
        *,
        K: CombinedKernel | None = None,
        exact: bool = False,
    ) -> Point:
        """The machine at unit weights ``e``, to relative gap ``tol``.

        It begins at ``start``, by default at the last solution. ``K`` is the combined kernel at
        ``e``, where it is known already; ``exact`` asks for q, not only J, as good as rounding
        allows. Under a hard margin the dual may be unbounded: these weights do not separate the
        classes.
        """
        last = self.last
        start = last.v if start is None else start
        at, known = self._judged
        if K is None and np.array_equal(at, e):
            K = known()
        point = self.machine.solve(e, tol, start, K=K, exact=exact, tick=self.tick)
        last.solves += 1
        if point.is_bounded:
            last.v, last.size = point.v, point.primal
        else:
            point = self._shortened(point)
        self.watch(point)
        return point

    def _shortened(self, point: Point) -> Point:
        """A point on a ray, along which the dual grows without limit, at a useful length.

        Every multiple of its v is feasible. One whose value is some times that of machines which
        separate the classes says all that a cut can say; far out it would only lose digits.
        """
        rising = ~point.bounded & (point.linears > 0.0)
        if not (self.last.size < np.inf and rising.any()):
            return point
        t = np.ones(rising.size)
        t[rising] = 4.0 * self.last.size / point.linears[rising]
        return replace(
            point,
            v=np.concatenate(list(map(np.multiply, t, self.machine.split(point.v)))),
            f=t[:, None] * point.f,
            quads=t * t * point.quads,
            linears=t * point.linears,
        )

    def remember(self, v: Array) -> Array:
        """Begin the next solve at ``v``, made feasible; that point."""
        self.last.v, self.last.given = self.machine.feasible(v), True
        return self.last.v

    def judge(self, e: Array, v: Array) -> Point:
        """Take up v as the machine at unit weights ``e``, made feasible; nothing is solved."""
        point = self.machine.judge(e, self.remember(v))
        self._judged = (
            point.e,
            ref(point.K),
        )  # while somebody holds it, a solve there needs no other
        self.watch(point)
        return point

    def unsolved(self, e: Array) -> Point:
        """The feasible point nearest to zero as the machine at unit weights ``e``."""
        return self.machine.judge(e, self.first_bound().v)

    def bound(
        self, v: Array, q: Array | None = None, by: str = "machine", *, exact: bool = True
    ) -> Bound:
        """The lower bound of min J that a feasible v proves.

        ``q`` may be given where it is known, or, with ``exact`` false, an upper bound of it.
        """
        q = self.quads(v) if q is None else q
        value = self.machine.dual_linear(v) - 0.5 * self.weight_set.unit_support(q)
        return Bound(value, v, by, exact, q.copy() if exact else None)  # callers may go on with q

    def first_bound(self) -> Bound:
        """The bound of the feasible point nearest to zero: if that is not 0, a pass, made once."""
        if self._first is None:
            v = self.machine.feasible()
            self._first = self.bound(v, None if v.any() else np.zeros(self.stack.m), "start")
        return self._first


@dataclass(eq=False)
class Incumbent:
    """The ledger of a fit: the greatest lower bound, and the point with the least primal value."""

    bound: Bound
    best: Point | None = None

    @property
    def gap(self) -> float:
        """Relative gap between the two; infinite before there is a point."""
        if self.best is None:
            return float(np.inf)
        return relative_gap(self.best.primal, self.bound.value)

    def offer(self, point: Point) -> None:
        """Keep the point if its primal value is the least so far."""
        best = self.best
        if best is None or point.primal < best.primal or np.isnan(best.primal):
            self.best = point

    def offer_bound(self, bound: Bound) -> bool:
        """Keep the bound if it is the greatest so far; whether it is."""
        better = bound.value > self.bound.value
        if better:
            self.bound = bound
        return better
