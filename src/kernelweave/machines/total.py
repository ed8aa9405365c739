"""The machine: what a learner may ask at given kernel weights. It is a sum over one stack.

    J(d) = Σ_c J_c(d),    J_c(d) = max_v  l_c(v) − ½ vᵀK(d)v

One dual QP is such a sum. So are one-versus-rest classification and regression with several
targets: problems that share their kernel weights. Bounds add up at one d: the primal is Σ_c P_c at
the same weights, never the best of each machine; the dual is Σ_c l_c(v_c) − ½σ(Σ_c q_c) for any
feasible v_1, v_2, …, which may come from different solves. The variables of all machines stand one
after the other in one vector v, so that learners and bundles combine them with one set of
multipliers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise

import numpy as np

from kernelweave._core.cached import cached_property
from kernelweave._core.types import Array, Places
from kernelweave._solvers.svm import linear_system
from kernelweave._solvers.svm.curvature import Half, half_inverse
from kernelweave.machines.machine import QPAnswer, QPLook, QPMachine, Rounding, Tick
from kernelweave.stacks.cholesky import triangle
from kernelweave.stacks.protocol import CombinedKernel, Stack


@dataclass(frozen=True)
class Answer:
    """The answers of all machines at the same weights."""

    parts: tuple[QPAnswer, ...]

    @property
    def only(self) -> QPAnswer:
        """That of the machine, where there is one only."""
        (part,) = self.parts
        return part

    @cached_property
    def v(self) -> Array:
        """The variables of all machines, one after the other."""
        return np.concatenate([part.v for part in self.parts])

    @property
    def values(self) -> list[Array]:
        """f of each machine."""
        return [part.f for part in self.parts]

    @cached_property
    def quad(self) -> float:
        """Σ_c v_cᵀK(d)v_c."""
        return sum([part.quad for part in self.parts])

    @cached_property
    def linear(self) -> float:
        """Σ_c l_c(v_c)."""
        return sum([part.linear for part in self.parts])

    @cached_property
    def primal(self) -> float:
        """Σ_c P_c."""
        return sum([part.primal for part in self.parts])

    @property
    def doubt(self) -> float:
        """How far rounding may have moved ``quad``."""
        return sum([part.doubt for part in self.parts])

    @property
    def bounded(self) -> bool:
        """Whether all duals are bounded."""
        return all([part.bounded for part in self.parts])


@dataclass(frozen=True)
class Look:
    """The looks of all machines: q adds up, and so do the Hessians."""

    parts: tuple[QPLook, ...]

    @cached_property
    def q(self) -> Array:
        """Σ_c q_c."""
        return reduce(np.add, [part.q for part in self.parts])

    def curvature(self, soft: float) -> Array | None:
        """B with BᵀB = Σ_c B_cᵀB_c; of several, it has no more rows than there are kernels.

        None where J is linear near these weights. Machines with the same free variables, as all
        are under the squared loss, share a factor.
        """
        if len(self.parts) == 1:
            return self.parts[0].curvature(soft)
        B, last = np.zeros((0, self.q.size)), None
        half: Half | None = None
        for part in self.parts:
            if last is None or not part.is_like(last):
                last, half = part, half_inverse(part.K, part.qp, part.free, soft)
            if half is not None:
                B = np.vstack([B, part.rows_of_factor(half)])
            if len(B) > self.q.size:
                B = triangle(B)
        return np.ascontiguousarray(B) if len(B) else None


class Machine:
    """Machines whose objectives are added up; v is the vector of all their dual variables."""

    def __init__(self, machines: Sequence[QPMachine]) -> None:
        self.machines = tuple(machines)
        ends = [0, *accumulate(machine.qp.size for machine in machines)]
        self._places = [slice(*pair) for pair in pairwise(ends)]
        self._qps = [(m.qp, place) for m, place in zip(machines, self._places, strict=True)]

    def _pairs(self, v: Array) -> zip[tuple[QPMachine, Array]]:
        return zip(self.machines, [v[place] for place in self._places], strict=True)

    @property
    def is_hard(self) -> bool:
        """Whether a slack of some machine costs infinitely much."""
        return any(machine.qp.is_hard for machine in self.machines)

    def feasible(self, v: Array | None = None) -> Array:
        """A feasible point near ``v``."""
        return np.concatenate(
            [qp.feasible(None if v is None else v[place]) for qp, place in self._qps]
        )

    def dual_linear(self, v: Array) -> float:
        """Σ_c l_c(v_c)."""
        return sum([qp.dual_linear(v[place]) for qp, place in self._qps])

    def alpha(self, v: Array) -> Array:
        """What users see of v, a row per machine."""
        return np.array([qp.alpha(v[place]) for qp, place in self._qps])

    def from_alpha(self, alpha: Array) -> Array:
        """A feasible v from what users see: a row per machine, or that of the only one."""
        parts = alpha.reshape(len(self.machines), -1)
        pairs = zip(self.machines, parts, strict=True)
        return np.concatenate([machine.qp.from_alpha(part) for machine, part in pairs])

    def mapped(self, change: Callable[[QPMachine, QPAnswer], QPAnswer], answer: Answer) -> Answer:
        """The answer with ``change`` applied to that of each machine."""
        pairs = zip(self.machines, answer.parts, strict=True)
        return Answer(tuple(change(machine, part) for machine, part in pairs))

    def clipped(self, v: Array) -> Array:
        """v within its bounds, exactly."""
        return np.clip(v, *self.limits())

    def limits(self) -> tuple[Array, Array]:
        """The bounds of all variables, lower and upper."""
        qps = [qp for qp, _ in self._qps]
        return np.concatenate([q.lower for q in qps]), np.concatenate([q.upper for q in qps])

    def coefficients(self, v: Array) -> list[Array]:
        """Coefficients of the kernel rows, for each machine."""
        return [qp.fold(v[place]) for qp, place in self._qps]

    def dual_floor(self, v: Array, slope: float) -> float:
        """A lower bound of the linear part in exact arithmetic, each Σv brought to r."""
        return sum([qp.dual_floor(v[place], slope) for qp, place in self._qps])

    def solve(
        self,
        K: CombinedKernel,
        start: Array | None,
        tol: float,
        tick: Tick | None = None,
        exact: bool = False,
        rounding: Rounding | None = None,
    ) -> Answer:
        """All machines under one combined kernel; linear systems share what is factored."""
        qps = [machine.qp for machine in self.machines]
        if all(qp.is_unbounded for qp in qps):
            solved = linear_system.solve(K, qps, tol, tick)
            if solved is not None:
                pairs = zip(self.machines, solved, strict=True)
                return Answer(tuple(m.answer(K, inner, rounding) for m, inner in pairs))
        places = zip(self.machines, self._places, strict=True)
        parts = [
            machine.solve(K, None if start is None else start[place], tol, tick, exact, rounding)
            for machine, place in places
        ]
        return Answer(tuple(parts))

    def judge(self, K: CombinedKernel, v: Array, rounding: Rounding | None = None) -> Answer:
        """Feasible variables as an answer, without solving."""
        return Answer(tuple(machine.judge(K, part, rounding) for machine, part in self._pairs(v)))

    def improved(self, answer: Answer) -> Answer:
        """Scale and bias of each machine chosen anew, where that lowers its primal."""
        return self.mapped(QPMachine.improved, answer)

    def quad_forms(self, stack: Stack, v: Array, kernels: Places | None = None) -> Array:
        """Σ_c v_cᵀK_m v_c for all kernels, or for some."""
        forms = [stack.quad_forms(qp.fold(v[place]), kernels) for qp, place in self._qps]
        return reduce(np.add, forms)

    def look(
        self,
        stack: Stack,
        scale: Array,
        K: CombinedKernel,
        v: Array,
        kernels: Places | None = None,
    ) -> Look:
        """One pass over the kernels per machine."""
        return Look(
            tuple(machine.look(stack, scale, K, part, kernels) for machine, part in self._pairs(v))
        )

    def model(self, answer: Answer) -> tuple[Array, Array, Array]:
        """Coefficients and alpha, both (n_machines, n), and biases (n_machines,)."""
        models = [m.model(part) for m, part in zip(self.machines, answer.parts, strict=True)]
        coef, alpha, bias = zip(*models, strict=True)
        return np.array(coef), np.array(alpha), np.array(bias)
