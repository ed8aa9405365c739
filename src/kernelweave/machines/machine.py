"""The machine: what a learner may ask at given kernel weights.

    J(d) = max_v  cᵀv − ½ρ‖v‖² − ½ vᵀK(d)v    over the feasible v of a dual QP

``Machine`` is the protocol, ``QPMachine`` the machine of one dual QP: a binary support vector
machine, a regression, one class. ``kernelweave.machines.total`` adds several up. A machine knows
the QP and nothing of kernel weights: it gets the combined kernel, and the stack where it has to
look at single kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array, Places
from kernelweave._solvers.svm import choice, linear_system, smo
from kernelweave._solvers.svm.curvature import hessian_factor
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks.protocol import CombinedKernel, Stack

_SHOWS = 1e-6  # share of the primal from which on rounding in f is worth a second look
_LARGE = 1e4  # no diagonal entry is this large in standard units, unless rows differ wildly
Rounding = Callable[[Array], Array]  # how exactly K(d)·coef is known, by row
Tick = Callable[[], None]


class Answer(Protocol):
    """One solution of a machine.

    ``linear`` is cᵀv − ½ρ‖v‖², ``quad`` is vᵀK(d)v, ``primal`` an upper bound of J(d), infinite
    where a hard margin is not met; ``doubt`` is how far rounding may have moved ``quad`` under
    weights of either sign. Not ``bounded``: no f separates the classes of a hard margin.
    """

    @property
    def v(self) -> Array:
        """The dual variables, feasible."""
        ...

    @property
    def values(self) -> list[Array]:
        """K(d)·coef, for each dual QP."""
        ...

    @property
    def linear(self) -> float:
        """cᵀv − ½ρ‖v‖²."""
        ...

    @property
    def quad(self) -> float:
        """vᵀK(d)v."""
        ...

    @property
    def primal(self) -> float:
        """P at the best f found, with real slacks."""
        ...

    @property
    def doubt(self) -> float:
        """How far rounding may have moved ``quad``."""
        ...

    @property
    def bounded(self) -> bool:
        """Whether the dual is bounded."""
        ...


class Look(Protocol):
    """One pass over the kernels at a solution: all vᵀK_m v, and what the Hessian of J is made of.

    ``q`` is NaN for kernels that were not asked for.
    """

    @property
    def q(self) -> Array:
        """All s_m vᵀK_m v."""
        ...

    def curvature(self, soft: float) -> Array | None:
        """B with BᵀB the Hessian of J; None where J is linear near these weights."""
        ...


class Machine(Protocol):
    """What the evaluator asks of a machine; v is the vector of all its dual variables."""

    @property
    def is_hard(self) -> bool:
        """Whether some slack costs infinitely much."""
        ...

    def feasible(self, v: Array | None = None) -> Array:
        """A feasible point near ``v``."""
        ...

    def dual_linear(self, v: Array) -> float:
        """cᵀv − ½ρ‖v‖²."""
        ...

    def solve(
        self,
        K: CombinedKernel,
        start: Array | None,
        tol: float,
        tick: Tick | None = None,
        exact: bool = False,
        rounding: Rounding | None = None,
    ) -> Answer:
        """The solution under the combined kernel to a relative gap ``tol``, from near ``start``."""
        ...

    def judge(self, K: CombinedKernel, v: Array, rounding: Rounding | None = None) -> Answer:
        """A feasible v as an answer, without solving."""
        ...

    def improved(self, answer: Any) -> Answer:
        """The same v with scale and bias of f chosen anew, where that lowers the primal."""
        ...

    def quad_forms(self, stack: Stack, v: Array, kernels: Places | None = None) -> Array:
        """All vᵀK_m v, or those of some kernels."""
        ...

    def look(
        self,
        stack: Stack,
        scale: Array,
        K: CombinedKernel,
        v: Array,
        kernels: Places | None = None,
    ) -> Look:
        """One pass over the kernels s_m K_m, or some of them."""
        ...

    def clipped(self, v: Array) -> Array:
        """v within its bounds, exactly."""
        ...

    def mapped(self, change: Callable[[QPMachine, QPAnswer], QPAnswer], answer: Any) -> Answer:
        """The answer with ``change`` applied to that of each dual QP."""
        ...

    def coefficients(self, v: Array) -> list[Array]:
        """Coefficients of the kernel rows, for each dual QP."""
        ...

    def dual_floor(self, v: Array, slope: float) -> float:
        """A lower bound of the linear part in exact arithmetic, Σv brought to r."""
        ...

    def model(self, answer: Any) -> tuple[Array, Array, Array | float]:
        """Coefficients of the rows, the same as users see them (alpha), and bias."""
        ...

    def alpha(self, v: Array) -> Array:
        """What users see of v."""
        ...

    def from_alpha(self, alpha: Array) -> Array:
        """A feasible v from what users see."""
        ...


@dataclass(frozen=True)
class QPAnswer:
    """A solution of one dual QP: ``scale``·f + ``bias`` attains ``primal``, f = K(d)·coef."""

    v: Array
    f: Array
    quad: float
    linear: float
    primal: float
    scale: float = 1.0
    bias: float = 0.0
    doubt: float = 0.0
    bounded: bool = True

    @property
    def values(self) -> list[Array]:
        """f alone."""
        return [self.f]


@dataclass(frozen=True)
class QPLook:
    """The look of one dual QP: ``products`` are s_m K_m v at the rows of the free variables."""

    q: Array
    K: CombinedKernel
    qp: DualQP
    free: Places
    products: Array

    def is_like(self, other: QPLook) -> bool:
        """Whether both have the same matrix of free variables."""
        same = np.array_equal(self.free, other.free)
        return same and np.array_equal(self.qp.ridge, other.qp.ridge)

    def curvature(self, soft: float) -> Array | None:
        """B with BᵀB the Hessian of J."""
        return hessian_factor(self.K, self.qp, self.free, self.products, soft)


@dataclass(frozen=True)
class QPMachine:
    """The machine of one dual QP; ``solver`` is the method, "auto" that which suits the kernel."""

    qp: DualQP
    solver: str = "auto"

    @property
    def is_hard(self) -> bool:
        """Whether some slack costs infinitely much."""
        return self.qp.is_hard

    def feasible(self, v: Array | None = None) -> Array:
        """A feasible point near ``v``."""
        return self.qp.feasible(v)

    def dual_linear(self, v: Array) -> float:
        """cᵀv − ½ρ‖v‖²."""
        return self.qp.dual_linear(v)

    def alpha(self, v: Array) -> Array:
        """What users see of v."""
        return self.qp.alpha(v)

    def from_alpha(self, alpha: Array) -> Array:
        """A feasible v from what users see."""
        return self.qp.from_alpha(alpha)

    def mapped(
        self, change: Callable[[QPMachine, QPAnswer], QPAnswer], answer: QPAnswer
    ) -> QPAnswer:
        """The answer with ``change`` applied to it."""
        return change(self, answer)

    def clipped(self, v: Array) -> Array:
        """v within its bounds, exactly."""
        return np.clip(v, self.qp.lower, self.qp.upper)

    def coefficients(self, v: Array) -> list[Array]:
        """Coefficients of the kernel rows."""
        return [self.qp.fold(v)]

    def dual_floor(self, v: Array, slope: float) -> float:
        """A lower bound of the linear part in exact arithmetic, Σv brought to r."""
        return self.qp.dual_floor(v, slope)

    def solve(
        self,
        K: CombinedKernel,
        start: Array | None,
        tol: float,
        tick: Tick | None = None,
        exact: bool = False,
        rounding: Rounding | None = None,
    ) -> QPAnswer:
        """By the method asked for; without bounds a linear system is all that there is to solve."""
        solved = linear_system.solve(K, [self.qp], tol, tick) if self.qp.is_unbounded else None
        if solved is not None:
            inner = solved[0]
        else:
            inner = choice.solve(self.solver, K, self.qp, start, tol, tick, exact)
        return self.answer(K, inner, rounding)

    def answer(self, K: CombinedKernel, inner: smo.Inner, rounding: Rounding | None) -> QPAnswer:
        """The answer that the inner solution stands for."""
        bounded = inner.bounded or not self.qp.is_hard  # else a tiny ridge is all that bounds it
        return self._answer(K, inner.v, inner.f, bounded, rounding)

    def judge(self, K: CombinedKernel, v: Array, rounding: Rounding | None = None) -> QPAnswer:
        """A feasible v as an answer, without solving."""
        return self._answer(K, v, K @ self.qp.fold(v), True, rounding)

    def _answer(
        self, K: CombinedKernel, v: Array, f: Array, bounded: bool, rounding: Rounding | None
    ) -> QPAnswer:
        qp, coef = self.qp, self.qp.fold(v)
        quad, doubt, scales, judged = max(float(coef @ f), 0.0), 0.0, [1.0], f
        if rounding is not None:  # f as far on the wrong side as rounding may put it
            error = rounding(coef)
            judged, doubt = f - np.sign(qp.linear) * error, float(np.abs(coef) @ error)
            scales.append(1.0 / max(1.0 - 2.0 * float(error.max()), 0.5))  # a little, back
        primal, scale, bias = np.inf, 1.0, 0.0
        if bounded:
            primal, scale, bias = min(self._scaled(judged, quad + doubt, t) for t in scales)
            if not primal < np.inf:
                scale, bias, primal = qp.improve(judged, quad + doubt)
            elif rounding is None and (t := self._firmer(K, coef, primal)) > 1.0:
                primal, scale, bias = min((primal, scale, bias), self._scaled(f, quad, t))
        return QPAnswer(v, f, quad, qp.dual_linear(v), primal, scale, bias, doubt, bounded)

    def _firmer(self, K: CombinedKernel, coef: Array, primal: float) -> float:
        """A multiple of f, a little above 1, that keeps rows at the margin there despite rounding.

        It is 1 unless slacks cost so much that rounding in f shows in the primal value.
        """
        cost = float(np.maximum(self.qp.upper, -self.qp.lower).sum())
        size = coef.size * EPS * float(np.abs(coef).sum())
        if _LARGE * size * cost <= _SHOWS * abs(primal):  # whatever the kernel, within reason
            return 1.0
        s = np.sqrt(np.maximum(K.diagonal(), 0.0))
        error = coef.size * EPS * float(s.max()) * float(s @ np.abs(coef))
        if not (0.0 < error < 0.25 and error * cost > _SHOWS * abs(primal)):
            return 1.0
        return 1.0 / (1.0 - 2.0 * error)

    def _scaled(self, f: Array, quad: float, scale: float) -> tuple[float, float, float]:
        """Primal value of scale·f with its best bias; both with it."""
        f = f if scale == 1.0 else scale * f
        bias = self.qp.best_bias(f)
        return self.qp.primal_value(f, bias, scale * scale * quad), scale, bias

    def improved(self, answer: QPAnswer) -> QPAnswer:
        """The same v with scale and bias of f chosen anew, where that lowers the primal."""
        scale, bias, primal = self.qp.improve(answer.f, answer.quad)
        if not primal < answer.primal:
            return answer
        return replace(answer, scale=scale, bias=bias, primal=primal)

    def quad_forms(self, stack: Stack, v: Array, kernels: Places | None = None) -> Array:
        """All vᵀK_m v, or those of some kernels."""
        return stack.quad_forms(self.qp.fold(v), kernels)

    def look(
        self,
        stack: Stack,
        scale: Array,
        K: CombinedKernel,
        v: Array,
        kernels: Places | None = None,
    ) -> QPLook:
        """One pass over the kernels s_m K_m, or some of them."""
        coef, chosen = self.qp.fold(v), slice(None) if kernels is None else kernels
        inside = (v > self.qp.lower) & (v < self.qp.upper)
        free = np.flatnonzero(inside)
        rows = np.flatnonzero((coef != 0.0) | inside.reshape(-1, self.qp.n).any(axis=0))
        scaled = scale[chosen, None] * stack.matvecs(coef, rows=rows, kernels=kernels)
        q, products = np.full(stack.m, np.nan), np.zeros((stack.m, free.size))
        q[chosen] = np.maximum(scaled @ coef[rows], 0.0)
        products[chosen] = scaled[:, np.searchsorted(rows, free % self.qp.n)]
        return QPLook(q, K, self.qp, free, products)

    def model(self, answer: QPAnswer) -> tuple[Array, Array, float]:
        """Coefficients of the rows, the same as users see them (alpha), and bias."""
        scale, v = answer.scale, answer.v
        return scale * self.qp.fold(v), scale * self.qp.alpha(v), answer.bias
