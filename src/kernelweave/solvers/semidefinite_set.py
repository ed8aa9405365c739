"""Signed weights under which the combined kernel is positive semidefinite, in few coordinates.

    { e :  K(e) = Σ_m e_m s_m K_m ⪰ 0,   a·e = 1 }

A point e₀ > 0 of the plane has the largest range that K(e) can have. With FᵀK(e₀)F = I on that
range, and directions t_k of the plane along which K(e) changes, the set is

    e = e₀ + Σ_k x_k t_k,     M(x) = FᵀK(e)F = I + Σ_k x_k N_k ⪰ 0.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ..kernels.identity import WithIdentity
from .oracle import Stack

Array = NDArray[np.float64]

CUTS = (1e-10, 1e-12, 1e-14)  # shares of its largest eigenvalue below which K(e₀) counts as zero
_SAME = 1e-7  # share of their size by which kernels have to differ to be told apart


class SemidefiniteSet:
    """The weights e with K(e) ⪰ 0 and ``normal``·e = 1, by coordinates x.

    Without a normal the plane is Σe = 1, and tr s_m K_m has to be the same for all kernels. The
    identity of a ``WithIdentity`` is not part of K(e): its weight is nonnegative, a 1×1 block of M.
    Kernels of ``scale`` zero have weight zero. Differences between kernels below 1e-7 of their
    size are taken for rounding, and no weights are built on them.

    Attributes
    ----------
    center : array (m,)
        e₀, all kernels alike.
    directions : array (k, m)
        The t_k.
    matrices : array (k, size, size)
        The N_k, orthonormal.
    ignored : float
        The largest share by which kernels differ without being told apart; 0 if there is none.
    """

    def __init__(
        self, stack: Stack, scale: Array, normal: Array | None = None, cut: float = CUTS[0]
    ) -> None:
        self._stack, self._scale = stack, scale
        used = (scale > 0.0).astype(float)
        plane = used if normal is None else normal * used
        self.center = used / float(plane @ used)
        blocks, roots = _joint_range(stack, scale, self.center, cut)
        kept, self.ignored = _independent(blocks, np.linalg.svd(plane[None])[2][1:])
        changes = np.tensordot(kept, blocks, axes=1)
        matrices = changes / np.multiply.outer(roots, roots)
        back = np.linalg.inv(triangle(_flat(matrices))).T
        self.directions = back @ kept
        self.matrices = np.tensordot(back, matrices, axes=1)
        self._changes = triangle(_flat(changes)) @ back.T
        self._everywhere = roots.size == stack.n + isinstance(stack, WithIdentity)
        self._noise = np.diag(1e-15 * (roots.max() / roots) ** 2)
        self._extent = 0.0 if normal is not None else 2.0 * float(np.einsum("mii->m", blocks).max())

    @property
    def size(self) -> int:
        """Rows of M."""
        return int(self.matrices.shape[1])

    def weights(self, x: Array) -> Array:
        """The e at coordinates x."""
        return self.center + x @ self.directions

    def coordinates(self, e: Array) -> Array:
        """The x of weights e."""
        return np.asarray(np.linalg.lstsq(self.directions.T, e - self.center, rcond=None)[0])

    def inside(self, e: Array) -> Array:
        """Coordinates of a point of the interior, from weights e on the way to the middle."""
        x = self.coordinates(e)
        parts = (0.9, 0.5, 0.2)
        return next((part * x for part in parts if self.factor(part * x) is not None), 0.0 * x)

    def matrix(self, x: Array) -> Array:
        """M(x)."""
        M = np.asarray(np.tensordot(x, self.matrices, axes=1))
        M[np.diag_indices_from(M)] += 1.0
        return M

    def within(self, V: Array) -> SemidefiniteSet:
        """The larger set with VᵀMV ⪰ 0, V orthonormal; its bounds are for the set itself."""
        larger = copy(self)
        larger.matrices = V.T @ self.matrices @ V
        larger._noise = V.T @ self._noise @ V
        return larger

    def factor(self, x: Array) -> Array | None:
        """L with LLᵀ = M(x); None where M(x) is not positive definite."""
        return factored(self.matrix(x))

    def whitened(self, L: Array) -> Array:
        """All L⁻¹N_kL⁻ᵀ."""
        count, size = len(self.matrices), self.size
        half = self.matrices.transpose(1, 0, 2).reshape(size, count * size)
        half = solve_triangular(L, half, lower=True, check_finite=False)
        half = half.reshape(size, count, size).transpose(2, 1, 0).reshape(size, count * size)
        whole = solve_triangular(L, half, lower=True, check_finite=False)
        return np.ascontiguousarray(whole.reshape(size, count, size).transpose(1, 0, 2))

    def holds(self, e: Array) -> bool:
        """Whether K(e) is semidefinite, up to 1e-8 of its trace, outside the range as well."""
        if self._everywhere:
            return True
        d = self._scale * e
        if isinstance(self._stack, WithIdentity):
            d[-1] = 0.0
        K = self._stack.combine(d)
        return factored(K + 0.9e-8 * float(np.trace(K)) * np.eye(len(K))) is not None

    def rounding(self, x: Array, Z: Array) -> float:
        """What rounding in the entries of K(e) may take from a bound by Z."""
        return float(np.abs(self.weights(x)).sum() * np.vdot(self._noise, Z))

    def most(self, rest: Array) -> float:
        """A bound of rest·x over the set, since ‖K(e) − K(e₀)‖ is at most twice the trace.

        With a normal of its own the set may be unbounded, and the answer is 0.
        """
        return self._extent * float(np.linalg.norm(np.linalg.solve(self._changes.T, rest)))


def factored(M: Array) -> Array | None:
    """L with LLᵀ = M, lower triangular; None where M is not positive definite."""
    try:
        return cholesky(M, lower=True, check_finite=False)
    except LinAlgError:
        return None


def _joint_range(stack: Stack, scale: Array, center: Array, cut: float) -> tuple[Array, Array]:
    """All s_m UᵀK_mU, U the eigenvectors that span the range of K(e₀), and √ of its eigenvalues.

    The range ends at eigenvalues below the share ``cut`` of the largest, or earlier, where kernels
    cease to be semidefinite beside their mean: that is rounding, of kernels kept in float32, say.
    The identity gets a row and column of its own.
    """
    kernels: Stack = stack.stack if isinstance(stack, WithIdentity) else stack
    values, U = np.linalg.eigh(kernels.combine((center * scale)[: kernels.m]))
    first = int(np.searchsorted(values, cut * values[-1], "right"))
    U, values = U[:, first:], values[first:]
    blocks = np.stack([U.T @ kernels.combine(row) @ U for row in np.diag(scale[: kernels.m])])
    while cut < 1e-5:
        little = 0.01 * np.diag(values)
        if all(factored(block + little) is not None for block in blocks):
            break
        cut *= 10.0
        first = int(np.searchsorted(values, cut * values[-1]))
        blocks, values = blocks[:, first:, first:], values[first:]
    if not isinstance(stack, WithIdentity):
        return blocks, np.sqrt(values)
    whole = np.zeros((stack.m, values.size + 1, values.size + 1))
    whole[:-1, :-1, :-1] = blocks
    whole[-1, -1, -1] = scale[-1]
    return whole, np.sqrt(np.append(values, center[-1] * scale[-1]))


def _independent(blocks: Array, plane: Array) -> tuple[Array, float]:
    """Orthonormal combinations of ``plane``'s rows under which the blocks do not cancel.

    Also by what share of their size the blocks differ along the largest of the others.
    """
    m, size = blocks.shape[:2]
    R = np.zeros((0, m))
    step = max(1, 2**20 // (m * size))
    for start in range(0, size, step):
        rows = blocks[:, start : start + step].reshape(m, -1).T
        R = triangle(np.vstack([R, rows]))
    _, sizes, combinations = np.linalg.svd(R @ plane.T)
    sizes = sizes / np.linalg.norm(R, axis=0).max()
    kept = np.count_nonzero(sizes > _SAME)
    return combinations[:kept] @ plane, float(sizes[kept:].max(initial=0.0))


def triangle(columns: Array) -> Array:
    """R, upper triangular, with RᵀR = columnsᵀcolumns."""
    return np.asarray(np.linalg.qr(columns, mode="r"))


def _flat(matrices: Array) -> Array:
    """The matrices as columns."""
    count, rows, columns = matrices.shape
    return matrices.reshape(count, rows * columns).T
