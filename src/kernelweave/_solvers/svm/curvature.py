"""A look at the kernels: the Hessian of J from the free support vectors [chapelle2008, eq. 3].

    H = Qᵀ Ā Q = BᵀB,     Q_m = s_m K_m[F] v,     A = K_FF + diag ρ_F

F are the free variables, v all of them (also those at C). Ā is the inverse of A bordered by the
constraint Σv = r. With any M such that MᵀM = A⁻¹ and u = M1/‖M1‖, B = (I − uuᵀ)MQ. H is never
formed. Two such M:

    M = L⁻¹                                  where A = LLᵀ is an array, or factored by the kernel
    M = (I − Z VgVᵀ Zᵀ)D^−½, Z = D^−½F       where A = D + FFᵀ, D diagonal, and F has R columns

    M = √Λ Vᵀ,  XᵀA⁻¹X = VΛVᵀ                for the X asked for, by conjugate gradients

In the second, ZᵀZ = V diag(s) Vᵀ is of the order R, and g = 1/(1 + s + √(1 + s)) makes M the
inverse root of I + ZZᵀ, times D^−½. Where the rows of F are elsewhere, fewer with the same inner
products take their place (``squeezed``).

The third serves many free variables, from their block of an array: a dozen iterations give H to a
percent or less, at what a few passes over the block take. They see less of A⁻¹ than there is, never
more, so that steps are rather too long, and the trust region of a learner shortens these.

Where there is no array no block of K is read either. An interior point method leaves hardly any
variable at a bound: there F are all variables, and the barrier bends each the more the nearer it is
to its bounds,

    A = K + diag(ρ + μ/s² + μ/t²),     s = v − lo,  t = hi − v,

with μ from the duality gap, which is μ for each bound on the central path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import eigh

from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import SOFT, TINY
from kernelweave._core.types import Array, Places
from kernelweave._solvers.svm.systems import Conjugate, Lift, landmarks_of
from kernelweave.problems.dual_qp import DualQP
from kernelweave.stacks.cholesky import triangle
from kernelweave.stacks.conjugate import conjugate_gradients
from kernelweave.stacks.dense import CholeskySolver
from kernelweave.stacks.protocol import CombinedKernel

if TYPE_CHECKING:
    from kernelweave.machines.machine import Point

Half = Callable[[Array], Array]
_FAR = 0.99  # share of the way to a bound that a variable may go
_RESIDUAL = 0.03  # that conjugate gradients on a block may leave
_GAP = 0.025  # solutions by products are as exact as at this gap: two digits of a Hessian will do


class FreePart(NamedTuple):
    """What the Hessian of one machine is made of: its free variables, and s_m K_m v there.

    ``bends`` are those of the barrier there, where an interior point method solved the machine.
    """

    qp: DualQP
    free: Places
    products: Array
    bends: Array | None = None

    def is_like(self, other: FreePart) -> bool:
        """Whether both have the same matrix of free variables."""
        same = np.array_equal(self.free, other.free) and self.bends is None is other.bends
        return same and np.array_equal(self.qp.ridge, other.qp.ridge)

    def squeezed(self, K: CombinedKernel, soft: float) -> Array | None:
        """B from few rows that stand for the free variables, where the kernel has such."""
        if self.bends is not None or self.free.size < 2:
            return None
        ridges = self.qp.ridges[self.free]
        found = K.squeezed(self.free % self.qp.n, ridges, soft, self.products)
        if found is None:
            return None
        F, Q, ones = found
        half = _from_factor(F, np.ones(len(F)))
        return None if half is None else rows_of_factor(half, Q.T, ones)


@dataclass(frozen=True)
class Look:
    """One pass over the kernels at a point: q, and what the Hessian of J is made of.

    ``q`` is NaN for kernels that were not asked for; ``parts`` has products of the ``kernels`` that
    were, ascending (None: of all). ``halves`` are kept where they can say how variables follow: a
    factored matrix is not.
    """

    point: Point
    q: Array
    parts: Sequence[FreePart]
    kernels: Places | None
    halves: list[ByProducts | None] = field(default_factory=list, repr=False)
    known: dict[float, Array | None] = field(default_factory=dict, repr=False)  # curvature by soft

    primal = property(attrgetter("point.primal"), doc="An upper bound of J at the point.")

    def places(self, kernels: Places) -> Places:
        """Where the products of some of these kernels stand."""
        return kernels if self.kernels is None else np.searchsorted(self.kernels, kernels)

    def curvature(self, soft: float) -> Array | None:
        """B with BᵀB = Σ_c B_cᵀB_c; of several, it has no more rows than there are kernels.

        None where J is linear near these weights. Machines with the same free variables, as all
        are under the squared loss, share a factor.
        """
        if soft in self.known:
            return self.known[soft]
        self.halves.clear()
        self.known[soft] = found = self._curvature(soft)
        return found

    def _curvature(self, soft: float) -> Array | None:
        factors, last = np.zeros((0, self.q.size)), None
        half: Half | None = None
        for part in self.parts:
            rows = part.squeezed(self.point.K, soft) if self.point.K.squeezes else None
            if rows is None:
                if last is None or not part.is_like(last):
                    given = part.qp, part.free, soft, part.bends
                    last, half = part, half_inverse(self.point.K, *given)
                self.halves.append(half if isinstance(half, ByProducts) else None)
                if half is None:
                    continue
                rows = rows_of_factor(half, part.products)
            if self.kernels is not None:
                rows, some = np.zeros((len(rows), self.q.size)), rows
                rows[:, self.kernels] = some
            if len(self.parts) == 1:
                return rows
            factors = np.vstack([factors, rows])
            if len(factors) > self.q.size:
                factors = triangle(factors)
        return np.ascontiguousarray(factors) if len(factors) else None

    def followed(self, e: Array) -> Array | None:
        """All variables as machines answer to unit weights e, to first order; None if not known.

        It is where an interior point method solved them and ``curvature`` was asked for: the
        systems are the same. A variable goes most of the way to a bound at the most.
        """
        change = (e - self.point.e)[slice(None) if self.kernels is None else self.kernels]
        moved, first = self.point.v.copy(), 0
        for part, half in zip(self.parts, self.halves, strict=False):
            if half is None:
                return None
            at, qp = first + part.free, part.qp
            v, first = moved[at], first + qp.size
            low, high = (v + _FAR * (side[part.free] - v) for side in (qp.lower, qp.upper))
            moved[at] = np.clip(v + half.response(change), low, high)
        return moved if self.halves else None


def hessian_factor(
    K: CombinedKernel, qp: DualQP, free: Places, products: Array, soft: float = SOFT
) -> Array | None:
    """B with H = BᵀB, from the combined kernel K and ``products`` = Q, shape (m, |F|).

    A gets a ridge of ``soft`` times its mean diagonal. Where A is singular and K_m is not within
    its range J has a kink, and H would be infinite: a larger ridge lets e move there. None where
    no variable is free, so that J is linear near these weights, and where too many are for a kernel
    that has neither an array nor a factor.
    """
    half = half_inverse(K, qp, free, soft)
    return None if half is None else rows_of_factor(half, products)


def rows_of_factor(half: Half, products: Array, ones: Array | None = None) -> Array:
    """B = (I − uuᵀ)MQ; ``ones`` are what stands for 1 where fewer rows stand for all."""
    ones = np.ones(products.shape[1]) if ones is None else ones
    solved = half(np.column_stack([products.T, ones]))
    B, u = solved[:, :-1], solved[:, -1]
    B -= np.outer(u, (u @ B) / (u @ u))
    return np.ascontiguousarray(B)


def half_inverse(
    K: CombinedKernel, qp: DualQP, free: Places, soft: float, bends: Array | None = None
) -> Half | None:
    """X → MX with MᵀM = A⁻¹, from a factor where that is smaller than the block of A.

    ``bends`` take the place of ρ, for kernels that are asked for products alone.
    """
    if free.size < 2:
        return None
    rows, ridges = free % qp.n, qp.ridges[free]
    if bends is not None:
        return ByProducts(K, rows, bends)
    found = None if K.is_dense or K.has_landmarks else K.factor()
    if found is not None and found[0].shape[1] < free.size:
        F, tau = found[0].array(rows), found[1]
        mean = float(np.einsum("ir,ir->", F, F)) / free.size + tau
        return _from_factor(F, tau + ridges + soft * mean)
    ridges += soft * float(K.diagonal()[rows].mean())
    if K.is_dense and free.size > SETTINGS.factored_rows:
        return _from_block(K.dense()[np.ix_(rows, rows)], ridges)
    solver = K.solver(rows, ridges)
    if solver is None and free.size <= SETTINGS.free_rows and not K.is_dense:
        solver = CholeskySolver.of(K.block(rows, rows), ridges)
    return None if solver is None else solver.half


def _from_factor(F: Array, D: Array) -> Half | None:
    if not D.min() > 0.0:
        return None
    root = np.sqrt(D)[:, None]
    Z = np.divide(F, root, out=F)
    s, V = eigh(Z.T @ Z, overwrite_a=True, check_finite=False)
    one = 1.0 + np.maximum(s, 0.0)
    W = V / (one + np.sqrt(one))

    def times(X: Array) -> Array:
        X = X / root
        X -= Z @ (W @ (V.T @ (Z.T @ X)))
        return X

    return times


def barrier(qp: DualQP, v: Array, gap: float) -> Array:
    """All ρ + μ/s² + μ/t², infinite at a bound; μ is the gap for each bound there is."""
    low, high = np.isfinite(qp.lower), np.isfinite(qp.upper)
    mu = max(gap, TINY) / max(int(low.sum() + high.sum()), 1)
    with np.errstate(divide="ignore"):
        return np.asarray(qp.ridges + mu / (v - qp.lower) ** 2 + mu / (qp.upper - v) ** 2)


class ByProducts:
    """M with MᵀM = XᵀA⁻¹X for the few columns of X, and ``solved`` = A⁻¹X of the last."""

    def __init__(self, K: CombinedKernel, rows: Places, D: Array) -> None:
        self._system = Conjugate(K, K.landmark_factor(landmarks_of(K.n), 0), Lift(rows, K.n))
        self._system.prepare(D, _GAP)

    def __call__(self, X: Array) -> Array:
        self.solved = self._system.solve(X)
        return _root(X.T @ self.solved)

    def response(self, change: Array) -> Array:
        """How the variables answer to other weights, of what B was asked for last: −A⁻¹Qδ, Σ = 0.

        The last column that was solved for is that of 1.
        """
        along, ones = self.solved[:, :-1] @ change, self.solved[:, -1]
        return np.asarray(ones * (along.sum() / ones.sum()) - along)


def _from_block(K: Array, ridges: Array) -> Half:
    """The same from an array of K at the free variables, preconditioned by its diagonal."""
    ridge, diagonal = ridges[:, None], (np.diagonal(K) + ridges)[:, None]

    def product(X: Array) -> Array:
        return K @ X.astype(K.dtype, copy=False) + ridge * X

    def half(X: Array) -> Array:
        solved = conjugate_gradients(product, lambda R: R / diagonal, X, None, _RESIDUAL)
        return _root(X.T @ solved)

    return half


def _root(A: Array) -> Array:
    """S with SᵀS = A, but for its asymmetry."""
    s, V = eigh(0.5 * (A + A.T), check_finite=False)
    return np.asarray(np.sqrt(np.maximum(s, 0.0))[:, None] * V.T)
