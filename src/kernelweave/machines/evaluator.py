"""J and its derivatives at given weights: all that a learner asks of the machine.

    J(d) = max_v  cᵀv − ½ρ‖v‖² − ½ Σ_m d_m vᵀK_m v,     ∂J/∂d_m = −½ vᵀK_m v    [rakoto2007, eq. 7]

Weights are d = s∘e with e in the unit set of the learner (see ``WeightSet``); learners see e, and
q_m = s_m vᵀK_m v, only. Every solve gives an upper bound of min J, the primal value at its f, and
every feasible v a lower bound, cᵀv − ½ρ‖v‖² − ½σ(q). The evaluator keeps neither: that is the
``Incumbent``'s work, which hears of every point that is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from kernelweave._core.cached import cached_property
from kernelweave._core.types import Array, Places
from kernelweave.machines.incumbent import Bound
from kernelweave.machines.machine import QPAnswer, QPMachine, Tick
from kernelweave.machines.total import Answer, Look, Machine
from kernelweave.problems.problem import Problem
from kernelweave.stacks.precision import units_of
from kernelweave.stacks.protocol import CombinedKernel, Stack
from kernelweave.stacks.rounding import cancellation

NOT_SEPARABLE = (
    "C=inf asks for a hard margin, but the kernels do not separate the two classes (the margin is "
    "below 1e-6 of the data's radius); use a finite C"
)


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
class Point:
    """The machine's answer at unit weights e, under the combined kernel K."""

    e: Array
    K: CombinedKernel = field(repr=False)
    answer: Answer = field(repr=False)
    _quads: Callable[[Array], Array] = field(repr=False)

    def answered(self, only: QPAnswer, **changes: Any) -> Point:
        """The point with another answer of its only machine."""
        return replace(self, answer=Answer((only,)), **changes)

    @property
    def v(self) -> Array:
        """The dual variables."""
        return self.answer.v

    @property
    def linear(self) -> float:
        """cᵀv − ½ρ‖v‖²."""
        return self.answer.linear

    @property
    def value(self) -> float:
        """Dual value at e: a lower bound of J(e)."""
        return self.answer.linear - 0.5 * self.answer.quad

    @property
    def primal(self) -> float:
        """An upper bound of J(e)."""
        return self.answer.primal

    @cached_property
    def q(self) -> Array:
        """All s_m vᵀK_m v; the gradient of J at e is −½ of it. Costs a pass over the kernels."""
        return self._quads(self.v)


class Evaluator:
    """Solves the machine at given weights, warm-started from the last solve.

    ``watch`` hears of every point; ``clock`` is told often during a long solve, and may end it.
    """

    def __init__(self, problem: Problem, clock: Clock | None = None) -> None:
        self.problem, self.stack, self.weight_set = problem, problem.stack, problem.weight_set
        self.machine = machine_of(problem)
        self.watch: Callable[[Point], None] | None = None
        self._clock = clock
        self._tally = _Tally()
        self._last: Array | None = None
        self._size = np.inf  # of the primal, at the last machine that was bounded
        self._is_warm = False
        self._quads = partial(_quads, self.machine, self.stack, self.weight_set.scale)

    def on(self, stack: Stack) -> Evaluator:
        """The same machine on another view of the kernels; both count their solves together."""
        other = copy(self)
        other.stack = stack
        other._quads = partial(_quads, self.machine, stack, self.weight_set.scale)
        return other

    @property
    def n_solves(self) -> int:
        """Machines solved so far."""
        return self._tally.solves

    @property
    def is_warm(self) -> bool:
        """Whether a machine was given to start from."""
        return self._is_warm

    @property
    def tick(self) -> Tick | None:
        """What to call often during a long computation."""
        return None if self._clock is None else self._clock.tick

    def time_left(self) -> float:
        """Seconds left for the fit."""
        return np.inf if self._clock is None else self._clock.time_left()

    def combined(self, e: Array) -> CombinedKernel:
        """Σ_m s_m e_m K_m."""
        return self.stack.combined(self.weight_set.scale * e)

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
        allows. Under a hard margin the answer may be unbounded: these weights do not separate the
        classes.
        """
        K = self.combined(e) if K is None else K
        start = self._last if start is None else start
        answer = self.machine.solve(K, start, tol, self.tick, exact, self._rounding(e))
        self._tally.solves += 1
        if answer.bounded:
            self._last, self._size = answer.v, answer.primal
        else:
            answer = self.machine.mapped(self._shortened, answer)
        return self._point(e, K, answer)

    def _shortened(self, machine: QPMachine, answer: QPAnswer) -> QPAnswer:
        """An answer on a ray, along which the dual grows without limit, at a useful length.

        Every multiple of its v is feasible. One whose value is some times that of machines which
        separate the classes says all that a cut can say; far out it would only lose digits.
        """
        if answer.bounded or not (self._size < np.inf and answer.linear > 0.0):
            return answer
        t = 4.0 * self._size / answer.linear
        return replace(
            answer,
            v=t * answer.v,
            f=t * answer.f,
            quad=t * t * answer.quad,
            linear=t * answer.linear,
        )

    def remember(self, v: Array) -> None:
        """Begin the next solve at ``v``, made feasible."""
        self._last, self._is_warm = self.machine.feasible(v), True

    def judge(self, e: Array, v: Array) -> Point:
        """Take up v as the machine at unit weights ``e``, made feasible; nothing is solved."""
        K = self.combined(e)
        self.remember(v)
        assert self._last is not None
        return self._point(e, K, self.machine.judge(K, self._last, self._rounding(e)))

    def _point(self, e: Array, K: CombinedKernel, answer: Answer) -> Point:
        point = Point(e, K, answer, self._quads)
        if self.watch is not None:
            self.watch(point)
        return point

    def _rounding(self, e: Array) -> Callable[[Array], Array] | None:
        if e.min() >= 0.0:
            return None
        return partial(cancellation, self.stack, self.weight_set.scale * e)

    def quads(self, v: Array, kernels: Places | None = None) -> Array:
        """All s_m vᵀK_m v, or those of some kernels. Costs a pass over them."""
        return self._quads(v, kernels)

    def look(self, point: Point, kernels: Places | None = None) -> Look:
        """q and what the Hessian of J is made of, in one pass over all kernels or some."""
        return self.machine.look(self.stack, self.weight_set.scale, point.K, point.v, kernels)

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
        """The bound of the feasible point nearest to zero."""
        v = self.machine.feasible()
        return self.bound(v, None if v.any() else np.zeros(self.stack.m), "start")


@dataclass
class _Tally:
    """How many machines were solved."""

    solves: int = 0


def machine_of(problem: Problem) -> Machine:
    """The sum of the machines of all dual QPs of a problem."""
    units = units_of(problem.stack)
    return Machine([QPMachine(qp, problem.solver, units) for qp in problem.qps])


def _quads(
    machine: Machine, stack: Stack, scale: Array, v: Array, kernels: Places | None = None
) -> Array:
    """All s_m vᵀK_m v; apart from the evaluator, since points keep it and it keeps points."""
    chosen = slice(None) if kernels is None else kernels
    return np.maximum(scale[chosen] * machine.quad_forms(stack, v, kernels), 0.0)
