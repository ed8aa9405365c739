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
from scipy.linalg import LinAlgError

from kernelweave._core.types import Array, Places
from kernelweave.stacks.conjugate import conjugate_gradients
from kernelweave.stacks.protocol import CombinedKernel, Factor

_LARGE = 10**9  # n·R² from which on few digits of the matrix do until they do not
_LOOSE, _TIGHT = 0.1, 0.01  # residuals of the first steps and the last, in D + e + FFᵀ's norm
_SHARE = 1.0  # of the gap: the residual that a step may leave; 0.3 takes twice the products


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
        return self.F.product(coef)

    def prepare(self, D: Array, gap: float) -> None:
        """F(I + FᵀD⁻¹F)⁻¹Fᵀ, in float64 where float32 is not enough."""
        self.D, weights = D, self.lift.folded(1.0 / D)
        try:
            self.shrink = self.F.shrinking(weights, self.kind)
        except LinAlgError:
            if self.kind is np.float64:
                raise
            self.widen()
            self.shrink = self.F.shrinking(weights, self.kind)

    def widen(self) -> None:
        """The matrix of the order of the rank in float64."""
        self.kind = np.float64

    def solve(self, b: Array, near: Array | None = None) -> Array:
        """D⁻¹b − D⁻¹EF(I + FᵀD⁻¹F)⁻¹FᵀEᵀD⁻¹b."""
        D = self.D if b.ndim == 1 else self.D[:, None]
        x = b / D
        f = self.shrink(self.lift.folded(x))
        return np.asarray(x - self.lift.at(f) / D)


class Conjugate:
    """(EKEᵀ + D)⁻¹ by conjugate gradients, preconditioned by D + e + FFᵀ.

    ``products`` counts the products with K, each of one vector or of two.
    """

    refinements = 0

    def __init__(self, K: CombinedKernel, low: tuple[Factor, Array], lift: Lift) -> None:
        self.K, self.low, self.lift, self.products = K, low, lift, 0
        self.inner = Woodbury(low[0], lift)

    def times(self, coef: Array) -> Array:
        """K·coef, as exactly as the kernel can."""
        self.products += 1
        return self.K @ coef

    def prepare(self, D: Array, gap: float) -> None:
        """The preconditioner for this diagonal; the residual that solutions may leave."""
        self.D = D
        self.accuracy = float(np.clip(_SHARE * gap, _TIGHT, _LOOSE))
        self.own = self.K.shifted(self.lift.rows, D, self.low, self.accuracy)
        if self.own is None:
            self.inner.prepare(D + self.lift.at(self.low[1]), gap)

    def widen(self) -> None:
        """The preconditioner in float64."""
        self.inner.widen()

    def _product(self, P: Array) -> Array:
        self.products += 1
        lift = self.lift
        return self.D[:, None] * P + lift.at(self.K.quick_product(lift.folded(P), self.accuracy))

    def solve(self, b: Array, near: Array | None = None) -> Array:
        """All columns at once, until each residual is small; where the kernel lives, if it can."""
        B = b.reshape(len(b), -1)
        X = None if near is None else near.reshape(B.shape)
        if self.own is not None:
            found = self.own(B, X)
        else:
            found = conjugate_gradients(self._product, self.inner.solve, B, X, self.accuracy)
        return np.asarray(found).reshape(b.shape)


def landmarks_of(n: int) -> int:
    """How many landmarks a preconditioner has: 2,000 at 20,000 rows, as √n elsewhere."""
    return int(min(n // 2 + 1, 14.2 * np.sqrt(n)))
