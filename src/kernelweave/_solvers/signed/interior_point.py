"""A convex function of signed weights, minimized where the combined kernel is semidefinite.

    min_e  f(e)    s.t.   K(e) ⪰ 0,  a·e = 1

in the coordinates e = e₀ + Σ_k x_k t_k, M(x) = I + Σ_k x_k N_k of a ``SemidefiniteSet``: few
unknowns x, one matrix M. ``follow`` is a primal-dual interior point method: Newton steps on
f − τ log det M, with a multiplier Z that tends to τM⁻¹. Where f ≥ β + g·e everywhere, each Z ⪰ 0
with ⟨Z, N_k⟩ = g·t_k proves that

    min f  ≥  β + g·e₀ − tr Z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from scipy.linalg import solve_triangular

from kernelweave._core.cached import cached_property
from kernelweave._core.tolerances import COINCIDE, CONE_ACCURACY, ROUNDING, TIGHTEST, TINY
from kernelweave._core.types import Array
from kernelweave._solvers.signed.semidefinite_set import SemidefiniteSet, factored
from kernelweave.stacks.cholesky import triangle

_REACH = (1.0, 0.85, 0.7, 0.55, 0.4, 0.25, 0.15, 0.07, 0.03, 0.01, 1e-3, 1e-5)
_LEAST = (0.03, 0.3, 1.0)  # share of τ to keep, by the number of points without a bound
_NEAR = 0.01  # what is left of f near the optimum, as a share
_BACK = 0.99  # share of the way to the boundary that a step may go


class Convex(Protocol):
    """A convex f at some weights e; its value first, the rest where a step is taken."""

    @property
    def value(self) -> float:
        """f(e), as precisely as was asked for."""
        ...

    def expand(self) -> tuple[float, Array, Array | None]:
        """β and g with f ≥ β + g·e everywhere; B with BᵀB the Hessian at e, None for zero."""
        ...


AnyConvex = TypeVar("AnyConvex", bound=Convex)


@dataclass(frozen=True)
class Center(Generic[AnyConvex]):
    """A point of the set's interior, and the lower bound of min f that it proves (or −∞)."""

    look: AnyConvex
    bound: float


def follow(
    region: SemidefiniteSet,
    evaluate: Callable[[Array, float], AnyConvex | None],
    starts: Iterable[Array],
    tol: float,
    patience: int = 12,
    near: bool = False,
) -> Iterator[Center[AnyConvex]]:
    """Minimize f over the set; yields each point, of the interior, that it comes to.

    It begins at the first of ``starts``, coordinates of points of the interior, where f is finite;
    they are ``near`` the optimum if what is left of f there is little: so is Z then.

    ``evaluate(e, close)`` looks at f to relative precision ``close``; None where f is infinite.
    Whoever drives this stops on value and bound. It returns where rounding ends all progress. After
    ``patience`` points without a bound Z is taken for too small, and made larger.
    """
    for x in starts:
        L = region.factor(x)
        close = 1e-6 if x.size else 0.1 * tol
        look = None if L is None else evaluate(region.weights(x), close)
        if L is not None and look is not None:
            break
    else:
        return
    if not x.size:  # one point is all there is, and no Z is needed
        constant, slope, _ = look.expand()
        yield Center(look, constant + float(slope @ region.center))
        return
    Y = _NEAR * abs(look.value) / region.size * np.eye(region.size) if near else None
    lost = 0
    while True:
        state = _Interior(region, look, x, L, Y)
        yield Center(look, state.bound)
        rest = min(float(np.trace(state.Y)) / max(abs(look.value), TINY), 1.0)
        if rest < TIGHTEST:
            return
        close = float(np.clip(1e-3 * rest * rest, *CONE_ACCURACY))
        lost = lost + 1 if state.bound == -np.inf else 0  # Z has fallen behind: let it catch up
        for share in (_LEAST[min(lost, 2)], 1.0):  # a step in vain: back to the path first
            step = state.step(share)
            found = _search(region, evaluate, state, step, close)
            if found is not None:
                break
        else:
            return
        part, x, look, factor = found
        turn = solve_triangular(L, factor, lower=True, check_finite=False)
        Y = turn.T @ (state.Y + part * step.dual_reach * step.dual) @ turn
        L, Y = factor, _symmetric(Y)
        if lost > patience:
            Y, lost = 100.0 * Y, 0


def follow_sets(
    sets: Iterable[SemidefiniteSet],
    evaluate: Callable[[Array, float], AnyConvex | None],
    starts: Callable[[SemidefiniteSet], Iterable[Array]],
    tol: float,
    near: bool = False,
) -> Iterator[tuple[SemidefiniteSet, Center[AnyConvex]]]:
    """``follow`` in the first of the sets whose points have K(e) ⪰ 0 on all rows.

    A set is left for the next one at the first point that has not.
    """
    for region in sets:
        try:
            for center in follow(region, _inside(region, evaluate), starts(region), tol, near=near):
                yield region, center
            return
        except _Outside:
            pass


class _Outside(Exception):
    """K(e) is semidefinite on the range of a ``SemidefiniteSet`` only."""


def _inside(
    region: SemidefiniteSet, evaluate: Callable[[Array, float], AnyConvex | None]
) -> Callable[[Array, float], AnyConvex | None]:
    """``evaluate``, asked only about weights under which K(e) ⪰ 0."""

    def checked(e: Array, close: float) -> AnyConvex | None:
        if not region.holds(e):
            raise _Outside
        return evaluate(e, close)

    return checked


@dataclass(frozen=True)
class _Direction:
    """Directions for x (``move`` is what it does to L⁻¹ML⁻ᵀ) and Y, and how far they may go.

    ``fall`` is that of f − τ log det M along x, to first order; τ is ``target``.
    """

    target: float
    primal: Array
    move: Array
    reach: float
    dual: Array
    dual_reach: float
    fall: float


class _Interior:
    """All that a step needs to know at one point: M = LLᵀ and Y = LᵀZL, near τI on the path."""

    def __init__(
        self, region: SemidefiniteSet, look: Convex, x: Array, L: Array, Y: Array | None
    ) -> None:
        self.look, self.x, self.L = look, x, L
        constant, gradient, B = look.expand()
        self.slope = region.directions @ gradient
        self.A = region.whitened(L)
        self.flat = self.A.reshape(len(self.A), -1)
        self.bends = self.flat[:, :0].T if B is None else B @ region.directions.T
        if Y is None:  # so large that a Z to fit the slope is near
            size = max(abs(look.value) / region.size, 0.3 * float(np.linalg.norm(self.slope)))
            Y = size * np.eye(region.size)
        start = constant + float(gradient @ region.center)
        self.Y, self.root, self.bound = self._repaired(region, Y, start)

    def _repaired(
        self, region: SemidefiniteSet, Y: Array, start: float
    ) -> tuple[Array, Array, float]:
        """The nearest Y with ⟨Z, N_k⟩ = slope_k, its root and its bound; else Y itself, and none.

        ⟨Z, N_k⟩ = ⟨Y, A_k⟩ up to rounding, which is large where M is nearly singular: the first
        repair is by the A_k, others follow where Z shows that they are needed.
        """
        R = triangle(self.flat.T)
        best = Y, factored(Y), -np.inf
        rest = self.slope - self.flat @ Y.ravel()
        for _ in range(4):
            half = solve_triangular(R, rest, trans="T", check_finite=False)
            change = solve_triangular(R, half, check_finite=False)
            Y = Y + np.tensordot(change, self.A, axes=1)
            root = factored(Y)
            if root is None:
                break
            half = solve_triangular(self.L, root, lower=True, trans="T", check_finite=False)
            Z = half @ half.T
            rest = self.slope - np.tensordot(region.matrices, Z, axes=2)
            unmet = region.most(rest)
            bound = start - float(np.trace(Z)) - unmet - region.rounding(self.x, Z)
            if bound > best[2]:
                best = Y, root, bound
            if unmet <= 0.01 * float(np.trace(Y)):
                break
        Y, root, bound = best
        if root is None:  # lost to rounding: begin anew from the middle
            middle = abs(float(np.trace(Y))) / len(Y) * np.eye(len(Y))
            return middle, np.sqrt(middle), bound
        return Y, root, bound

    @cached_property
    def log_det(self) -> float:
        """log det M."""
        return _log_det(self.L)

    @cached_property
    def _triangle(self) -> Array:
        """R with RᵀR the Hessian of f plus ⟨A_k, A_lY⟩, which is that of −τ log det M if Y = τI."""
        rooted = (self.A @ self.root).reshape(len(self.A), -1)
        return triangle(np.vstack([self.bends, triangle(rooted.T)]))

    def step(self, least: float) -> _Direction:
        """Mehrotra's predictor and corrector for a smaller τ, at least a share ``least`` of it."""
        size, whole = len(self.Y), float(np.trace(self.Y))
        ahead = self._toward(0.0)
        M = np.eye(size) + ahead.reach * ahead.move
        left = max(float(np.sum(M * (self.Y + ahead.dual_reach * ahead.dual))), 0.0)
        target = min(max((left / whole) ** 2, least), 1.0) * whole / size
        step = self._toward(target, _symmetric(ahead.move @ ahead.dual)) if least < 1.0 else None
        return step if step is not None and step.fall > 0.0 else self._toward(target)

    def _toward(self, target: float, bend: Array | None = None) -> _Direction:
        """The direction of Helmberg, Kojima and Monteiro to MZ = τI, τ = ``target``.

        ``bend`` is what the second-order term ½(D·dY + dY·D) of an earlier direction says.
        """
        rest = target * np.eye(len(self.Y)) - (0.0 if bend is None else bend)
        right = self.flat @ rest.ravel() - self.slope
        half = solve_triangular(self._triangle, right, trans="T", check_finite=False)
        delta = solve_triangular(self._triangle, half, check_finite=False)
        move = np.tensordot(delta, self.A, axes=1)
        dual = rest - self.Y - _symmetric(move @ self.Y)
        fall = float((target * np.einsum("kii->k", self.A) - self.slope) @ delta)
        reach, dual_reach = _reach(np.eye(len(self.Y)), move), _reach(self.Y, dual)
        return _Direction(target, delta, move, reach, dual, dual_reach, fall)


def _search(
    region: SemidefiniteSet,
    evaluate: Callable[[Array, float], AnyConvex | None],
    state: _Interior,
    step: _Direction,
    close: float,
) -> tuple[float, Array, AnyConvex, Array] | None:
    """Backtrack until f − τ log det M falls: the share of the reach, x, look and factor there."""
    merit = state.look.value - step.target * state.log_det
    large = float(np.abs(region.weights(state.x)).sum() / np.abs(region.center).sum())
    rounding = max(COINCIDE, ROUNDING * large) * abs(state.look.value)
    part = 1.0
    for _ in range(12):
        ahead = state.x + part * step.reach * step.primal
        factor = region.factor(ahead)
        look = None if factor is None else evaluate(region.weights(ahead), close)
        if factor is not None and look is not None:
            after = look.value - step.target * _log_det(factor)
            if after <= merit - 1e-4 * part * step.reach * step.fall + rounding:
                return part, ahead, look, factor
        part *= 0.3
    return None


def _log_det(L: Array) -> float:
    return 2.0 * float(np.log(np.diagonal(L)).sum())


def _symmetric(matrix: Array) -> Array:
    return 0.5 * (matrix + matrix.T)


def _reach(M: Array, direction: Array) -> float:
    """How far, at most 1, M may go along ``direction`` and stay definite, with some room."""
    for length in _REACH:
        if factored(M + (length / _BACK) * direction) is not None:
            return length
    return 0.0
