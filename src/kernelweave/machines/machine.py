"""The machine: what can be asked at given kernel weights. It is a sum of dual QPs over one stack.

    J(d) = Σ_c J_c(d),    J_c(d) = max_v  cᵀv − ½ρ‖v‖² − ½ vᵀK(d)v    over the feasible v of QP c

One dual QP is such a sum. So are one-versus-rest classification and regression with several
targets: problems that share their kernel weights. Bounds add up at one d: the primal is Σ_c P_c at
the same weights, never the best of each machine; the dual is Σ_c l_c(v_c) − ½σ(Σ_c q_c) for any
feasible v_1, v_2, …, which may come from different solves.

The variables of all machines stand one after the other in one vector v, so that learners and
bundles combine them with one set of multipliers. What each machine has of its own is in arrays
with one row, or one number, per machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate, repeat
from operator import attrgetter

import numpy as np

from kernelweave._core.cached import cached_property
from kernelweave._core.tolerances import LARGEST_ENTRY, SHOWS
from kernelweave._core.types import Array, Mask, Places
from kernelweave._solvers.svm import choice
from kernelweave._solvers.svm.curvature import FreePart, Look, barrier
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.problem import Problem
from kernelweave.stacks.protocol import CombinedKernel, Stack
from kernelweave.stacks.rounding import cancellation

Tick = Callable[[], None]
Fit = tuple[float, float, float]  # primal value, scale of f and bias


@dataclass(frozen=True)
class Point:
    """The machines solved at unit weights e, under their combined kernel K.

    Machine c has the decision values t_c·f_c + b_c, f_c = K(d)·coef_c. ``quads`` are v_cᵀK(d)v_c,
    ``linears`` c_cᵀv_c − ½ρ‖v_c‖². ``fits`` has rows (P_c, t_c, b_c): an upper bound of J_c(d),
    infinite where a hard margin is not met, and the scale and bias that attain it.
    ``doubt`` is how far rounding may have moved Σ quads under weights of either sign. Where not
    ``bounded``, no f separates the classes of a hard margin. Of all machines together: ``linear``,
    the upper bound ``primal`` of J(e), the dual ``value``, a lower one, and ``is_bounded``.
    """

    e: Array
    K: CombinedKernel = field(repr=False)
    v: Array = field(repr=False)
    f: Array = field(repr=False)
    quads: Array
    linears: Array
    fits: Array
    doubt: float
    bounded: Mask
    _quads: Callable[[Array], Array] = field(repr=False)
    linear: float = field(init=False)
    primal: float = field(init=False)
    value: float = field(init=False)
    is_bounded: bool = field(init=False)

    def __post_init__(self) -> None:
        linear = sum(self.linears.tolist())
        vars(self).update(
            linear=linear,
            primal=sum(self.fits[:, 0].tolist()),
            value=linear - 0.5 * sum(self.quads.tolist()),
            is_bounded=bool(self.bounded.all()),
        )

    @cached_property
    def q(self) -> Array:
        """All s_m vᵀK_m v; the gradient of J at e is −½ of it. Costs a pass over the kernels."""
        return self._quads(self.v)


class Machine:
    """Dual QPs over the kernels s_m K_m of a stack, whose objectives are added up.

    ``solver`` is the method, "auto" that which suits the kernel. Negative eigenvalues are rounding:
    where weights are nonnegative no vᵀK_m v is taken to be below 0; ``signed`` ones need it as it
    is, since what is added to it would be gained where they are negative.
    """

    def __init__(
        self,
        qps: Sequence[DualQP],
        stack: Stack,
        scale: Array,
        solver: str = "auto",
        signed: bool = False,
    ) -> None:
        self.qps, self.stack, self.scale, self.solver = tuple(qps), stack, scale, solver
        self.signed, self.least_quad = signed, -np.inf if signed else 0.0
        self.is_hard = any(map(attrgetter("is_hard"), qps))
        ends = [0, *accumulate(map(attrgetter("size"), qps))]
        self._places = list(map(slice, ends, ends[1:]))

    @classmethod
    def of(cls, problem: Problem) -> Machine:
        """That of a problem."""
        signed = problem.formulation.signed
        return cls(problem.qps, problem.stack, problem.weight_set.scale, problem.solver, signed)

    def on(self, stack: Stack) -> Machine:
        """The same QPs on another view of the kernels."""
        return Machine(self.qps, stack, self.scale, self.solver, self.signed)

    # --- all variables in one vector

    def split(self, v: Array) -> list[Array]:
        """The variables of each machine."""
        return list(map(v.__getitem__, self._places))

    def coefficients(self, v: Array) -> list[Array]:
        """Coefficients of the kernel rows, for each machine."""
        return list(map(DualQP.fold, self.qps, self.split(v)))

    def alpha(self, v: Array) -> Array:
        """What users see of v, a row per machine."""
        return np.array(list(map(DualQP.alpha, self.qps, self.split(v))))

    def from_alpha(self, alpha: Array) -> Array:
        """A feasible v from what users see: a row per machine, or that of the only one."""
        rows = alpha.reshape(len(self.qps), -1)
        return np.concatenate(list(map(DualQP.from_alpha, self.qps, rows)))

    def feasible(self, v: Array | None = None) -> Array:
        """A feasible point near ``v``."""
        parts = repeat(None) if v is None else self.split(v)
        return np.concatenate(list(map(DualQP.feasible, self.qps, parts)))

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """The bounds of all variables, lower and upper."""
        lower, upper = zip(*map(attrgetter("lower", "upper"), self.qps), strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    def dual_linear(self, v: Array) -> float:
        """Σ_c l_c(v_c)."""
        return sum(map(DualQP.dual_linear, self.qps, self.split(v)))

    def dual_floor(self, v: Array, slope: float) -> float:
        """A lower bound of the linear part in exact arithmetic, each Σv brought to r."""
        return sum(map(DualQP.dual_floor, self.qps, self.split(v), repeat(slope)))

    # --- under kernels

    def quads(self, v: Array, kernels: Places | None = None) -> Array:
        """All s_m Σ_c v_cᵀK_m v_c, or those of some kernels. Costs a pass over them."""
        chosen = slice(None) if kernels is None else kernels
        forms = map(self.stack.quad_forms, self.coefficients(v), repeat(kernels))
        return np.maximum(self.scale[chosen] * reduce(np.add, forms), self.least_quad)

    def look(self, point: Point, kernels: Places | None = None) -> Look:
        """q and what the Hessian of J is made of, in one pass over all kernels or some."""
        chosen = slice(None) if kernels is None else kernels
        parts, total = [], np.full(self.stack.m, np.nan)
        total[chosen] = 0.0
        coefs = self.coefficients(point.v)
        gaps = point.fits[:, 0] - point.linears + 0.5 * point.quads
        for qp, v, coef, gap in zip(self.qps, self.split(point.v), coefs, gaps, strict=True):
            inside = (v > qp.lower) & (v < qp.upper)
            free = np.flatnonzero(inside)
            within = point.K.has_landmarks and not qp.is_unbounded
            bends = barrier(qp, v, gap)[free] if within else None
            rows = np.flatnonzero((coef != 0.0) | inside.reshape(-1, qp.n).any(axis=0))
            scaled = self.stack.matvecs(coef, rows=rows, kernels=kernels)
            scaled = self.scale[chosen, None] * scaled
            total[chosen] += np.maximum(scaled @ coef[rows], self.least_quad)
            at = np.searchsorted(rows, free % qp.n)
            whole = np.array_equal(at, np.arange(rows.size))
            products = scaled if whole else scaled.take(at, axis=1)
            parts.append(FreePart(qp, free, products, bends))
        return Look(point, total, parts, kernels)

    def solve(
        self,
        e: Array,
        tol: float,
        start: Array | None = None,
        *,
        K: CombinedKernel | None = None,
        exact: bool = False,
        tick: Tick | None = None,
    ) -> Point:
        """All machines to relative gaps of ``tol``, under K where it was computed already.

        ``exact`` asks for v, not only J, as good as rounding allows.
        """
        K = self.stack.combined(self.scale * e) if K is None else K
        starts = None if start is None else self.split(start)
        inners = choice.solve(self.solver, K, self.qps, starts, tol, tick, exact)
        v, f, _, bounded = zip(*inners, strict=True)
        # the dual of a soft margin is bounded, be it by a tiny ridge that rounding hides
        met = np.array(bounded) if self.is_hard else np.ones(len(v), dtype=bool)
        return self.judge(e, np.concatenate(v), K, np.array(f), met)

    def judge(
        self,
        e: Array,
        v: Array,
        K: CombinedKernel | None = None,
        f: Array | None = None,
        bounded: Mask | None = None,
    ) -> Point:
        """A feasible v as the machines at unit weights e, without solving."""
        K = self.stack.combined(self.scale * e) if K is None else K
        coefs = self.coefficients(v)
        f = np.array([K @ coef for coef in coefs]) if f is None else f
        bounded = np.ones(len(f), dtype=bool) if bounded is None else bounded
        signed, doubt, judged = e.min() < 0.0, 0.0, []
        for c, (qp, coef, part) in enumerate(zip(self.qps, coefs, self.split(v), strict=True)):
            quad, error = max(float(coef @ f[c]), 0.0), None
            if signed:
                error = cancellation(self.stack, self.scale * e, coef)
                doubt += float(np.abs(coef) @ error)
            primal = self._primal(qp, K, coef, f[c], quad, error) if bounded[c] else _UNMET
            judged.append((quad, qp.dual_linear(part), *primal))
        told = np.array(judged)
        return Point(e, K, v, f, told[:, 0], told[:, 1], told[:, 2:], doubt, bounded, self.quads)

    def _primal(
        self,
        qp: DualQP,
        K: CombinedKernel,
        coef: Array,
        f: Array,
        quad: float,
        error: Array | None,
    ) -> Fit:
        """The primal value of t·f + b, with the t and b that are tried; the least of these.

        t = 1 is as good as it gets unless rounding moves rows that are right at the margin to its
        wrong side, where each costs C times as much. A t a little above 1 brings them back. With
        weights of either sign f is taken as far on the wrong side as the ``error`` may put it.
        """
        if error is None:
            best = _at_scale(qp, f, quad, 1.0)
            firm = self._firm_scale(qp, K, coef, best[0]) if best[0] < np.inf else 1.0
            if firm > 1.0:
                best = min(best, _at_scale(qp, f, quad, firm))
        else:
            f, quad = f - np.sign(qp.linear) * error, quad + float(np.abs(coef) @ error)
            back = 1.0 / max(1.0 - 2.0 * float(error.max()), 0.5)
            best = min(_at_scale(qp, f, quad, 1.0), _at_scale(qp, f, quad, back))
        if not best[0] < np.inf:  # a hard margin: scaled until no row is on the wrong side
            scale, bias, primal = qp.improve(f, quad)
            best = primal, scale, bias
        return best

    def _firm_scale(self, qp: DualQP, K: CombinedKernel, coef: Array, primal: float) -> float:
        """t = 1/(1 − 2ε), ε the error of f: then t(1 − ε) > 1, rows at the margin stay there.

        1 where all slacks of the size ε together cost little of the primal, C·n·ε ≪ P. ε is at most
        unit·max s_i·Σ_j s_j|coef_j|, s_i = √K_ii; first a bound of it that needs no kernel.
        """
        cost = float(np.maximum(qp.upper, -qp.lower).sum())
        unit = self.stack.units.of(coef.size)
        size = unit * float(np.abs(coef).sum())
        if LARGEST_ENTRY * size * cost <= SHOWS * abs(primal):
            return 1.0
        s = np.sqrt(np.maximum(K.diagonal(), 0.0))
        error = unit * float(s.max()) * float(s @ np.abs(coef))
        if not (0.0 < error < 0.25 and error * cost > SHOWS * abs(primal)):
            return 1.0
        return 1.0 / (1.0 - 2.0 * error)

    def improved(self, point: Point) -> Point:
        """The same v with scale and bias of each f chosen anew, where that lowers its primal."""
        fits = point.fits.copy()
        for c, qp in enumerate(self.qps):
            scale, bias, primal = qp.improve(point.f[c], float(point.quads[c]))
            if primal < fits[c, 0]:
                fits[c] = primal, scale, bias
        return replace(point, fits=fits)


_UNMET = (np.inf, 1.0, 0.0)  # a hard margin that no multiple of f meets


def _at_scale(qp: DualQP, f: Array, quad: float, scale: float) -> Fit:
    """Primal value of scale·f with its best bias; both with it."""
    f = f if scale == 1.0 else scale * f
    bias = qp.best_bias(f)
    return qp.primal_value(f, bias, scale * scale * quad), scale, bias
