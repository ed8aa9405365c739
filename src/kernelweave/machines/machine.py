"""The machine of one dual QP: a binary support vector machine, a regression, one class.

    J(d) = max_v  cᵀv − ½ρ‖v‖² − ½ vᵀK(d)v    over the feasible v of the QP

It knows the QP and nothing of kernel weights: it gets the combined kernel, and the stack where it
has to look at single kernels. What learners ask is the sum of such machines, be it one
(``kernelweave.machines.total``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kernelweave._core.types import Array, Places
from kernelweave._solvers.svm import choice, linear_system, smo
from kernelweave._solvers.svm.curvature import Half, half_inverse, rows_of_factor
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks.precision import DOUBLE, Units
from kernelweave.stacks.protocol import CombinedKernel, Stack

_SHOWS = 1e-6  # share of the primal from which on rounding in f is worth a second look
_LARGE = 1e4  # no diagonal entry is this large in standard units, unless rows differ wildly
Rounding = Callable[[Array], Array]  # how exactly K(d)·coef is known, by row
Tick = Callable[[], None]


@dataclass(frozen=True)
class QPAnswer:
    """A solution of one dual QP: ``scale``·f + ``bias`` attains ``primal``, f = K(d)·coef.

    ``linear`` is cᵀv − ½ρ‖v‖², ``quad`` is vᵀK(d)v, ``primal`` an upper bound of J(d), infinite
    where a hard margin is not met; ``doubt`` is how far rounding may have moved ``quad`` under
    weights of either sign. Not ``bounded``: no f separates the classes of a hard margin.
    """

    v: Array
    f: Array
    quad: float
    linear: float
    primal: float
    scale: float = 1.0
    bias: float = 0.0
    doubt: float = 0.0
    bounded: bool = True


@dataclass(frozen=True)
class QPLook:
    """One pass over the kernels at a solution: all vᵀK_m v, and what the Hessian of J is made of.

    ``q`` is NaN for kernels that were not asked for; ``products`` are s_m K_m v at the rows of the
    free variables, of the ``kernels`` that were, ascending (None: of all).
    """

    q: Array
    K: CombinedKernel
    qp: DualQP
    free: Places
    products: Array
    kernels: Places | None

    def is_like(self, other: QPLook) -> bool:
        """Whether both have the same matrix of free variables."""
        same = np.array_equal(self.free, other.free)
        return same and np.array_equal(self.qp.ridge, other.qp.ridge)

    def curvature(self, soft: float) -> Array | None:
        """B with BᵀB the Hessian of J."""
        half = half_inverse(self.K, self.qp, self.free, soft)
        return None if half is None else self.rows_of_factor(half)

    def products_of(self, kernels: Places) -> Array:
        """s_m K_m v of some of the kernels that were asked for."""
        known = self.kernels
        return self.products[kernels if known is None else np.searchsorted(known, kernels)]

    def rows_of_factor(self, half: Half) -> Array:
        """B, zero at kernels that were not asked for."""
        rows = rows_of_factor(half, self.products)
        if self.kernels is None:
            return rows
        B = np.zeros((len(rows), self.q.size))
        B[:, self.kernels] = rows
        return B


@dataclass(frozen=True)
class QPMachine:
    """The machine of one dual QP; ``solver`` is the method, "auto" that which suits the kernel.

    ``units`` say how exactly products with the kernel are known.
    """

    qp: DualQP
    solver: str = "auto"
    units: Units = DOUBLE

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
        unit = self.units.of(coef.size)
        size = unit * float(np.abs(coef).sum())
        if _LARGE * size * cost <= _SHOWS * abs(primal):  # whatever the kernel, within reason
            return 1.0
        s = np.sqrt(np.maximum(K.diagonal(), 0.0))
        error = unit * float(s.max()) * float(s @ np.abs(coef))
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
        q = np.full(stack.m, np.nan)
        q[chosen] = np.maximum(scaled @ coef[rows], 0.0)
        at = np.searchsorted(rows, free % self.qp.n)
        products = scaled if np.array_equal(at, np.arange(rows.size)) else scaled.take(at, axis=1)
        return QPLook(q, K, self.qp, free, products, kernels)

    def model(self, answer: QPAnswer) -> tuple[Array, Array, float]:
        """Coefficients of the rows, the same as users see them (alpha), and bias."""
        scale, v = answer.scale, answer.v
        return scale * self.qp.fold(v), scale * self.qp.alpha(v), answer.bias
