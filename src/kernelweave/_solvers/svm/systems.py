"""The linear systems of an interior point step, solved in one of two ways.

    (EKEᵀ + D) x = b,      D diagonal and positive, E repeats a row for each of its variables

    Woodbury     K = FFᵀ, F (n, R): one matrix of the order of the rank, FᵀD⁻¹F + I
    Conjugate    K by its products alone: conjugate gradients, preconditioned by D + e + FFᵀ, where
                 FFᵀ is K on some landmarks, e the diagonal that it leaves, and Woodbury's formula
                 the inverse

The second serves kernels of full rank that no array can hold. How exactly it solves follows the gap
that is left: early steps need a digit. Each solution is started from one that is near, where there
is one. All variables stay in: those near a bound have a large D, and the system without them is
another one.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from kernelweave._core.blocks import blocks
from kernelweave._core.types import Array, Places
from kernelweave.stacks.factor import Factor
from kernelweave.stacks.protocol import CombinedKernel

_LARGE = 10**9  # n·R² from which on few digits of the matrix do until they do not
_LOOSE, _TIGHT = (
    0.1,
    1e-3,
)  # residuals of the first steps and of the last, in the norm of D + e + FFᵀ
_SHARE = 0.3  # of the gap: the residual that a step may leave
_ITERATIONS = 80  # of conjugate gradients
_BLOCK = 2**22  # entries of K at landmarks that are computed at a time


class Lift:
    """Variables and rows: ``rows[j]`` is the row of variable j, of n rows."""

    def __init__(self, rows: Places, n: int) -> None:
        self.rows, self.n = rows, n
        self.is_identity = np.array_equal(rows, np.arange(n))

    def at(self, f: Array) -> Array:
        """Values of the rows, for each variable: Ef."""
        return f if self.is_identity else f[self.rows]

    def folded(self, x: Array) -> Array:
        """Variables, added up by row: Eᵀx, for one vector or the columns of (size, k)."""
        if self.is_identity:
            return x
        if x.ndim == 1:
            return np.bincount(self.rows, x, self.n).astype(float)
        return np.column_stack([self.folded(column) for column in x.T])


class StepSystem(Protocol):
    """What an interior point method asks of its linear systems.

    ``refinements`` is how often a solution may be refined: 0 where it is as exact as was asked.
    """

    lift: Lift
    refinements: int

    def times(self, coef: Array) -> Array:
        """K·coef at the rows."""
        ...

    def prepare(self, D: Array, gap: float) -> None:
        """Get ready for this diagonal, in a step from a point of this gap."""
        ...

    def solve(self, b: Array, near: Array | None = None) -> Array:
        """X with (EKEᵀ + D)x = b, for one right side or the columns of b; begun at ``near``."""
        ...

    def widen(self) -> None:
        """Use more digits from the next step on."""
        ...


class Woodbury:
    """(EFFᵀEᵀ + D)⁻¹ by Woodbury's formula."""

    refinements = 2

    def __init__(self, F: Factor, lift: Lift) -> None:
        self.F, self.lift = F, lift
        n, R = F.shape
        self.kind: type = np.float32 if n * R**2 >= _LARGE else np.float64

    def times(self, coef: Array) -> Array:
        """FFᵀcoef."""
        return self.F.times(self.F.onto(coef))

    def prepare(self, D: Array, gap: float) -> None:
        """Cholesky's factor of I + FᵀD⁻¹F, in float64 where float32 is not enough."""
        self.D = D
        try:
            self.L = self._cholesky()
        except LinAlgError:
            if self.kind is np.float64:
                raise
            self.widen()
            self.L = self._cholesky()

    def widen(self) -> None:
        """The matrix of the order of the rank in float64."""
        self.kind = np.float64

    def _cholesky(self) -> tuple[Array, bool]:
        matrix = self.F.gram(self.lift.folded(1.0 / self.D), self.kind)
        matrix[np.diag_indices_from(matrix)] += 1.0
        found = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(found[0]), bool(found[1])

    def solve(self, b: Array, near: Array | None = None) -> Array:
        """D⁻¹b − D⁻¹EF(I + FᵀD⁻¹F)⁻¹FᵀEᵀD⁻¹b."""
        D = self.D if b.ndim == 1 else self.D[:, None]
        x = b / D
        onto = self.F.onto(self.lift.folded(x))
        f = self.F.times(np.asarray(cho_solve(self.L, onto, check_finite=False)))
        return np.asarray(x - self.lift.at(f) / D)


class Conjugate:
    """(EKEᵀ + D)⁻¹ by conjugate gradients, preconditioned by D + e + FFᵀ.

    ``products`` counts the products with K, each of one vector or of two.
    """

    refinements = 0

    def __init__(self, K: CombinedKernel, low: tuple[Factor, Array], lift: Lift) -> None:
        self.K, self.lift, self.products = K, lift, 0
        F, rest = low
        self.inner, self._rest = Woodbury(F, lift), lift.at(rest)
        quick = getattr(K, "quick_product", None)
        self._quick = quick if quick is not None else (lambda V, accuracy: K @ V)

    def times(self, coef: Array) -> Array:
        """K·coef, as exactly as the kernel can."""
        self.products += 1
        return self.K @ coef

    def prepare(self, D: Array, gap: float) -> None:
        """The preconditioner for this diagonal; the residual that solutions may leave."""
        self.D = D
        self.accuracy = float(np.clip(_SHARE * gap, _TIGHT, _LOOSE))
        self.inner.prepare(D + self._rest, gap)

    def widen(self) -> None:
        """The preconditioner in float64."""
        self.inner.widen()

    def _product(self, P: Array) -> Array:
        self.products += 1
        lift = self.lift
        return self.D[:, None] * P + lift.at(self._quick(lift.folded(P), self.accuracy))

    def solve(self, b: Array, near: Array | None = None) -> Array:
        """All columns at once, each with steps of its own, until each residual is small."""
        B = b.reshape(len(b), -1)
        aim = self.inner.solve(B)
        sizes = np.sqrt(np.maximum(np.einsum("ij,ij->j", B, aim), np.finfo(float).tiny))
        X = aim if near is None else near.reshape(B.shape).copy()
        R = B - self._product(X)
        P = Z = self.inner.solve(R)
        rz = np.einsum("ij,ij->j", R, Z)
        for _ in range(_ITERATIONS):
            if np.all(np.sqrt(np.maximum(rz, 0.0)) <= self.accuracy * sizes):
                break
            AP = self._product(P)
            along = np.einsum("ij,ij->j", P, AP)
            step = np.divide(rz, along, out=np.zeros_like(rz), where=along > 0.0)
            X = X + step * P
            R = R - step * AP
            Z = self.inner.solve(R)
            last, rz = rz, np.einsum("ij,ij->j", R, Z)
            P = Z + np.divide(rz, last, out=np.zeros_like(rz), where=last > 0.0) * P
        return X.reshape(b.shape)


def landmark_factor(K: CombinedKernel, rank: int, seed: int = 0) -> tuple[Factor, Array]:
    """F with FFᵀ = K[:, L] K[L, L]⁻¹ K[L, :] on ``rank`` rows L drawn at random; K_ii − (FFᵀ)_ii.

    A kernel that lives elsewhere has a method of this name, and is asked instead.
    """
    own = getattr(K, "landmark_factor", None)
    if own is not None:
        found: tuple[Factor, Array] = own(rank, seed)
        return found
    n = K.n
    places = np.sort(np.random.default_rng(seed).permutation(n)[:rank])
    at = K.block(places, places)
    at = 0.5 * (at + at.T)
    small = float(np.abs(np.diagonal(at)).mean())
    at[np.diag_indices_from(at)] += 1e-9 * small  # K[L, L] may have no inverse
    L = np.linalg.cholesky(at)
    F = np.empty((places.size, n))
    for some in blocks(n, places.size, _BLOCK):
        columns = K.block(places, np.arange(some.start, some.stop))
        F[:, some] = solve_triangular(L, columns, lower=True, check_finite=False)
    diagonal = K.diagonal()
    rest = np.maximum(diagonal - np.einsum("ri,ri->i", F, F), 1e-9 * np.abs(diagonal))
    return Factor([F], np.ones(places.size)), rest


def landmarks_of(n: int) -> int:
    """How many landmarks a preconditioner has: 2,000 at 20,000 rows, as √n elsewhere."""
    return int(min(n // 2 + 1, 14.2 * np.sqrt(n)))
