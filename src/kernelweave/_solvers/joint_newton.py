"""Newton's method on weights and machines together: the last digits of an optimum.

    c_F − ρv_F − (K(e)v)_F = b,    Σv = r      for every machine, F its variables between bounds
    Σ_c s_m v_cᵀK_m v_c = t,       Σe = 1      for every kernel m with a weight

These are the conditions of a saddle point once it is known which variables are at a bound and which
kernels have no weight. A machine solved at given weights knows v up to the root of its gap, and an
error in v is one of the same size in max_m q_m, the dual value; here all of them move at once, and
errors are squared. With δv = a − R δe, the answer of the machines to other weights, what is left is
a system with one row per kernel: q + 2Qᵀa − 2QᵀR δe = t.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, lstsq, solve

from kernelweave._core.tolerances import COINCIDE, NOTHING, SOFT_EXACT, SUM_ROUNDING, TINY
from kernelweave._core.types import Array
from kernelweave.stacks.protocol import CombinedKernel

if TYPE_CHECKING:
    from kernelweave._solvers.svm.curvature import FreePart, Look
    from kernelweave.machines.evaluator import Evaluator
    from kernelweave.machines.machine import Point

_ROUNDS = 8  # steps at most; a step that meets a bound is one
_MOST = 2000  # variables between their bounds: the order of a dense system


def refined(evaluator: Evaluator, look: Look) -> Point:
    """The point of a look after some steps: nearer to the optimum if its bounds are those of it.

    The look is one at the kernels with a weight or more.
    """
    for _ in range(_ROUNDS):
        step = _JointStep(evaluator, look)
        if not step.found:
            break
        point = evaluator.judge(*step.taken())
        if step.is_last:
            return point
        look = evaluator.look(point, np.flatnonzero(point.e))
    return look.point


class _JointStep:
    """One step from a point: changes of e and of the variables, and how much of it is taken."""

    def __init__(self, evaluator: Evaluator, look: Look) -> None:
        self.e, self.v = look.point.e, look.point.v
        self.active = np.flatnonzero(self.e)
        self.lower, self.upper = evaluator.machine.limits
        self.found = all(part.free.size <= _MOST for part in look.parts)
        if self.found:
            try:
                self._solve(look, evaluator.machine.split(self.v))
                self.found = bool(np.isfinite(self.de).all() and np.isfinite(self.dv).all())
            except LinAlgError:
                self.found = False

    def _solve(self, look: Look, variables: list[Array]) -> None:
        size, places = self.active.size, look.places(self.active)
        q, H = look.q[self.active], np.zeros((size, size))
        answers = []
        for part, v, f in zip(look.parts, variables, look.point.f, strict=True):
            Q = np.asarray(part.products)[places]
            found = _response(part, Q, v, f, look.point.K)
            q = q + 2.0 * Q @ found[:, 0]
            H += 2.0 * Q @ found[:, 1:]
            answers.append(found)
        self.de = _moved(H, q)
        changes = list(map(np.zeros_like, variables))
        for part, found, dv in zip(look.parts, answers, changes, strict=True):
            dv[part.free] = found[:, 0] - found[:, 1:] @ self.de
        self.dv = np.concatenate(changes)

    def taken(self) -> tuple[Array, Array]:
        """e and v after the step, which ends where a variable or a weight meets its bound."""
        e, v = self.e.copy(), self.v.copy()
        to_zero = _distance(e[self.active], self.de, 0.0, np.inf)
        to_bound = _distance(v, self.dv, self.lower, self.upper)
        t = min(1.0, to_zero.min(initial=1.0), to_bound.min(initial=1.0))
        e[self.active] = np.where(to_zero <= t, 0.0, e[self.active] + t * self.de)
        v += t * self.dv
        met = to_bound <= t * (1.0 + SUM_ROUNDING)  # a bound but for rounding is met
        v[met] = np.where(self.dv[met] > 0.0, self.upper[met], self.lower[met])
        change = np.abs(self.dv).max() / np.abs(v).max(initial=TINY)
        self.is_last = t == 1.0 and change**2 <= COINCIDE  # what is left is the square
        return e / e.sum(), v


def _response(part: FreePart, Q: Array, v: Array, f: Array, K: CombinedKernel) -> Array:
    """a and R, side by side: one row per free variable; Q are products of the active kernels."""
    qp, free = part.qp, part.free
    size, rows = free.size, free % qp.n
    if not size:
        return np.zeros((0, 1 + len(Q)))
    wanted = np.zeros((size + 1, 1 + len(Q)))
    wanted[:-1, 0] = (qp.linear - qp.ridge * v - qp.tile(f))[free]
    wanted[-1, 0] = qp.total - v.sum()
    wanted[:-1, 1:] = Q.T
    if not K.is_dense:
        soft = SOFT_EXACT * float(np.abs(K.diagonal()[rows]).mean())
        own = K.solver(rows, qp.ridges[free] + soft)
        if own is not None:
            found = own.solve(np.column_stack([wanted[:-1], np.ones(size)]))
            along, u = found[:, :-1], found[:, -1]
            return along - np.outer(u, (u @ wanted[:-1] - wanted[-1]) / u.sum())
    A = np.zeros((size + 1, size + 1))
    A[:-1, :-1] = K.block(rows, rows)
    A[np.diag_indices(size)] += qp.ridges[free] + SOFT_EXACT * np.abs(A.diagonal()).mean()
    A[-1, :-1] = A[:-1, -1] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # a step that leads nowhere is not kept
        return np.asarray(solve(A, wanted, assume_a="sym", check_finite=False)[:-1])


def _moved(H: Array, q: Array) -> Array:
    """δe with q − H δe the same for all kernels, and Σδe = 0; the shortest of several.

    What all q have in common changes nothing, and is left out: where H is rounding alone it would
    be all that is left of Σδe = 0.
    """
    size = float(np.abs(H).max(initial=0.0))
    if not size > 0.0:
        return np.zeros(q.size)
    A = np.ones((q.size + 1, q.size + 1))
    A[:-1, :-1] = H / size
    A[-1, -1] = 0.0
    wanted = np.append((q - q.mean()) / size, 0.0)
    return np.asarray(lstsq(A, wanted, cond=NOTHING, check_finite=False)[0][:-1])


def _distance(x: Array, step: Array, lower: float | Array, upper: float | Array) -> Array:
    """How many steps it is to the bound ahead."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ahead = np.where(step > 0.0, (upper - x) / step, (lower - x) / step)
    return np.where(step == 0.0, np.inf, ahead)
