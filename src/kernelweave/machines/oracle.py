"""J(d), its gradient, and the best bounds so far: all that a learner asks of the inner solver.

    J(d) = max_v  cᵀv − ½ρ‖v‖² − ½ Σ_m d_m vᵀK_m v,     ∂J/∂d_m = −½ vᵀK_m v    [rakoto2007, eq. 7]

over the feasible v. Weights are d = s∘e with e in the unit set of the learner (see WeightSet);
learners see e, and q_m = s_m vᵀK_m v, only. Every solve gives an upper bound of min J, the primal
value at its f, and every feasible v a lower bound, cᵀv − ½ρ‖v‖² − ½σ(q).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from kernelweave._core.types import Array, Places
from kernelweave._solvers.svm import smo
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.problems.weight_sets import WeightSet, norm


class Stack(Protocol):
    """What the oracle needs of a kernel stack."""

    @property
    def n(self) -> int:
        """Number of points."""
        ...

    @property
    def m(self) -> int:
        """Number of kernels."""
        ...

    @property
    def precision(self) -> np.dtype:
        """How precise the numbers are."""
        ...

    def traces(self) -> Array:
        """All tr K_k."""
        ...

    def diagonals(self) -> Array:
        """All diagonals, (m, n)."""
        ...

    def combine(self, weights: Array) -> Array:
        """Σ_k weights_k K_k."""
        ...

    def rows(self, weights: Array, index: Places) -> Array:
        """Rows ``index`` of Σ_k weights_k K_k."""
        ...

    def quad_forms(self, v: Array, kernels: Places | None = None) -> Array:
        """All vᵀK_k v, or those of some kernels."""
        ...

    def matvecs(self, v: Array, rows: Places | None = None, kernels: Places | None = None) -> Array:
        """All K_k v, or some rows of some of them."""
        ...


NOT_SEPARABLE = (
    "C=inf asks for a hard margin, but the kernels do not separate the two classes (the margin is "
    "below 1e-6 of the data's radius); use a finite C"
)


class HardMarginInfeasible(ValueError):
    """No decision function of the kernels at hand separates the classes."""


@dataclass(frozen=True)
class Point:
    """One inner solution: SVM variables v at unit weights e.

    ``value`` is the dual value at e (a lower bound of J(e)), ``primal`` an upper bound of it. Under
    weights of either sign ``doubt`` is how far rounding may have moved vᵀKv.
    """

    e: Array
    K: Array = field(repr=False)
    v: Array
    f: Array
    quad: float
    linear: float
    scale: float
    bias: float
    primal: float
    doubt: float
    _quad_forms: Callable[[Array], Array] = field(repr=False)

    @property
    def value(self) -> float:
        """Dual value at e."""
        return self.linear - 0.5 * self.quad

    @cached_property
    def q(self) -> Array:
        """All s_m vᵀK_m v; the gradient of J at e is −½ of it. Costs a pass over the kernels."""
        return self._quad_forms(self.v)


class Oracle:
    """Solves the inner problem at given weights, warm-started, and keeps the best bounds.

    ``best`` is the point with the least primal value so far; ``dual`` the greatest dual value,
    reached by ``dual_v``. ``extras`` are further results, by name, of a learner with an objective
    of its own; "stationarity" among them has to reach the tolerance too. ``met`` says whether a
    learner's own rule is met, where that decides and not the gap. ``whole`` are the kernels on all
    rows, where the machine is over some of them only. ``is_warm``: a machine was given to start at.
    """

    def __init__(
        self,
        stack: Stack,
        qp: DualQP,
        weight_set: WeightSet,
        tick: Callable[[], None] | None = None,
        whole: Stack | None = None,
    ) -> None:
        self.stack, self.qp, self.weight_set, self.tick = stack, qp, weight_set, tick
        self.whole = stack if whole is None else whole
        self.n_solves = 0
        self.extras: dict[str, Any] = {}
        self.met: bool | None = None
        self.best: Point | None = None
        self._foreign = False  # whether best and dual are of a learner's own objective
        self.dual, self.dual_v, self._exact = -np.inf, qp.feasible(), True
        self.offer_dual(self.dual_v, None if self.dual_v.any() else np.zeros(stack.m))
        self._last, self.is_warm = self.dual_v, False

    def warm(self, v: Array) -> None:
        """Start the next machine from ``v``, made feasible."""
        self._last, self.is_warm = self.qp.feasible(v), True

    def resume(self, e: Array, v: Array, dual_v: Array) -> None:
        """Take up an earlier solution: machine v at unit weights e, and its dual point.

        Both are made feasible and judged here; nothing is solved.
        """
        self.offer_dual(self.qp.feasible(dual_v))
        self.warm(v)
        K = self.stack.combine(self.weight_set.scale * e)
        self._judge(e, K, smo.Inner(self._last, K @ self.qp.fold(self._last), 0, True))

    @property
    def gap(self) -> float:
        """Relative gap between the best bounds; objectives of other learners have any scale."""
        if self.best is None:
            return np.inf
        return relative_gap(self.best.primal, self.dual, 5e-324 if self._foreign else 1e-12)

    def reached(self, tol: float) -> bool:
        """Whether the learner's own rule, if there is one, is met, and otherwise ``tol``.

        Then it is the gap, and stationarity where a learner reports it, that must not exceed it.
        """
        if self.met is not None:
            return self.met
        return self.gap <= tol and self.extras.get("stationarity", 0.0) <= tol

    def solve(self, e: Array, tol: float, K: Array | None = None, exact: bool = False) -> Point:
        """The inner solution at unit weights ``e`` to relative gap ``tol``.

        ``K`` is the combined kernel at ``e``, where it is known already; ``exact`` asks for q, not
        only J, as good as rounding allows.
        """
        K = self.stack.combine(self.weight_set.scale * e) if K is None else K
        inner = smo.solve(K, self.qp, self._last, tol, self.tick, exact=exact)
        self.n_solves += 1
        if inner.bounded:
            self._last = inner.v
        elif self.best is None and not (e > 0.0).all():
            return self.solve(self.weight_set.uniform(), tol)  # these weights alone do not separate
        elif self.best is None:
            raise HardMarginInfeasible(NOT_SEPARABLE)
        return self._judge(e, K, inner)

    def _judge(self, e: Array, K: Array, inner: smo.Inner) -> Point:
        """The point with its primal value, kept if that is the least so far."""
        f, coef = inner.f, self.qp.fold(inner.v)
        quad, doubt, scales = max(float(coef @ f), 0.0), 0.0, [1.0]
        if e.min() < 0.0:  # f as far on the wrong side as rounding may put it; times a little, back
            error = cancellation(self.stack, self.weight_set.scale * e, coef)
            f, doubt = f - np.sign(self.qp.linear) * error, float(np.abs(coef) @ error)
            scales.append(1.0 / max(1.0 - 2.0 * float(error.max()), 0.5))
        primal, scale, bias = np.inf, 1.0, 0.0
        if inner.bounded:
            primal, scale, bias = min(self._scaled(f, quad + doubt, scale) for scale in scales)
            if not primal < np.inf:
                scale, bias, primal = self.qp.improve(f, quad + doubt)
        linear = self.qp.dual_linear(inner.v)
        ask = partial(_quads, self.stack, self.qp, self.weight_set.scale)
        point = Point(e, K, inner.v, inner.f, quad, linear, scale, bias, primal, doubt, ask)
        if self.best is None or (point.primal < self.best.primal and not self._foreign):
            self.best = point
        return point

    def _scaled(self, f: Array, quad: float, scale: float) -> tuple[float, float, float]:
        """Primal value of scale·f with its best bias; both with it."""
        f = f if scale == 1.0 else scale * f
        bias = self.qp.best_bias(f)
        return self.qp.primal_value(f, bias, scale * scale * quad), scale, bias

    def quads(self, v: Array, kernels: Places | None = None) -> Array:
        """All s_m vᵀK_m v, or those of some kernels. Costs a pass over them."""
        return _quads(self.stack, self.qp, self.weight_set.scale, v, kernels)

    def products(self, point: Point, kernels: Places | None = None) -> tuple[Places, Array]:
        """Free variables of ``point`` and s_m K_m v at their rows, (m, free); fills in its q.

        One pass over the kernels gives both. Of kernels not asked for, the products are zero
        and q is NaN.
        """
        v, coef = point.v, self.qp.fold(point.v)
        rows = np.flatnonzero(coef)
        chosen = slice(None) if kernels is None else kernels
        free = np.flatnonzero((v > self.qp.lower) & (v < self.qp.upper))
        raw = self.stack.matvecs(coef, rows=rows, kernels=kernels)
        scaled = self.weight_set.scale[chosen, None] * raw
        q, products = np.full(self.stack.m, np.nan), np.zeros((self.stack.m, free.size))
        q[chosen] = np.maximum(scaled @ coef[rows], 0.0)
        products[chosen] = scaled[:, np.searchsorted(rows, free % self.qp.n)]
        point.__dict__["q"] = q
        return free, products

    def offer_dual(self, v: Array, q: Array | None = None, *, exact: bool = True) -> float:
        """Judge a feasible v as a lower bound and keep it if it is the best; its value.

        ``q`` may be given where it is known, or, with ``exact`` false, an upper bound of it.
        """
        q = self.quads(v) if q is None else q
        value = self.qp.dual_linear(v)
        value -= 0.5 * norm(q, self.weight_set.dual_norm)
        if value > self.dual:
            self.dual, self.dual_v, self._exact = value, v, exact
        return value

    def settle(self, point: Point, dual: float | None = None, v: Array | None = None) -> None:
        """Take the weights of ``point`` as given: only its machine is judged from now on.

        A learner with an objective of its own says what is proven of that: a lower bound
        ``dual``, by ``v``.
        """
        self.best, self._exact, self._foreign = point, True, dual is not None
        self.dual = point.value if dual is None else dual
        self.dual_v = point.v if v is None else v

    def finish(self, tol: float) -> Point:
        """The best point, with the dual bound evaluated exactly.

        Where the gap is still above ``tol``, scale and bias of f are chosen anew, unless a learner
        brought an objective of its own.
        """
        assert self.best is not None
        if not self._exact:
            self.dual = -np.inf
            self.offer_dual(self.dual_v)
        if self.gap > tol and not self._foreign:
            scale, bias, primal = self.qp.improve(self.best.f, self.best.quad)
            if primal < self.best.primal:
                self.best = replace(self.best, scale=scale, bias=bias, primal=primal)
        return self.best


def cancellation(stack: Stack, d: Array, coef: Array) -> Array:
    """How exactly each entry of Σ_m d_m K_m coef is known where weights of either sign cancel.

    |Σ_m d_m K_m,ij| is at most s_i s_j with s_i² = Σ_m |d_m| K_m,ii.
    """
    s = np.sqrt(np.abs(d) @ stack.diagonals())
    return np.asarray(4.0 * np.finfo(float).eps * s * float(s @ np.abs(coef)))


def _quads(
    stack: Stack, qp: DualQP, scale: Array, v: Array, kernels: Places | None = None
) -> Array:
    """All s_m vᵀK_m v; apart from the oracle, since points keep it and the oracle keeps points."""
    chosen = slice(None) if kernels is None else kernels
    return np.maximum(scale[chosen] * stack.quad_forms(qp.fold(v), kernels), 0.0)
