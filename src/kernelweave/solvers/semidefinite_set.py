"""Signed weights under which the combined kernel is positive semidefinite, in few coordinates.

    { e :  K(e) = Σ_m e_m s_m K_m ⪰ 0,   a·e = 1 }

A point e₀ > 0 of the plane has the largest range that K(e) can have. With FᵀK(e₀)F = I on that
range, and directions t_k of the plane along which K(e) changes, the set is

    e = e₀ + Σ_k x_k t_k,     M(x) = FᵀK(e)F = I + Σ_k x_k N_k ⪰ 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ..kernels.identity import WithIdentity
from .oracle import Stack

Array = NDArray[np.float64]

_RANK = tuple(10.0**power for power in range(-12, -5))  # see _joint_range
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
    """

    def __init__(self, stack: Stack, scale: Array, normal: Array | None = None) -> None:
        used = (scale > 0.0).astype(float)
        plane = used if normal is None else normal * used
        self.center = used / float(plane @ used)
        blocks, roots = _joint_range(stack, scale, self.center)
        kept = _independent(blocks, np.linalg.svd(plane[None])[2][1:])
        changes = np.tensordot(kept, blocks, axes=1)
        matrices = changes / np.multiply.outer(roots, roots)
        back = np.linalg.inv(triangle(_flat(matrices))).T
        self.directions = back @ kept
        self.matrices = np.tensordot(back, matrices, axes=1)
        self._changes = triangle(_flat(changes)) @ back.T
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

    def factor(self, x: Array) -> Array | None:
        """L with LLᵀ = M(x); None where M(x) is not positive definite."""
        M = np.tensordot(x, self.matrices, axes=1)
        M[np.diag_indices_from(M)] += 1.0
        return factored(M)

    def whitened(self, L: Array) -> Array:
        """All L⁻¹N_kL⁻ᵀ."""
        count, size = len(self.matrices), self.size
        half = self.matrices.transpose(1, 0, 2).reshape(size, count * size)
        half = solve_triangular(L, half, lower=True, check_finite=False)
        half = half.reshape(size, count, size).transpose(2, 1, 0).reshape(size, count * size)
        whole = solve_triangular(L, half, lower=True, check_finite=False)
        return np.ascontiguousarray(whole.reshape(size, count, size).transpose(1, 0, 2))

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


def _joint_range(stack: Stack, scale: Array, center: Array) -> tuple[Array, Array]:
    """All s_m UᵀK_mU, U the eigenvectors that span K(e₀)'s range, and roots of the eigenvalues.

    The range ends where kernels are no longer semidefinite beside their mean, whose eigenvalue
    there is rounding: at 1e-12 of the largest for kernels in double precision, earlier for others.
    The identity gets a row and column of its own.
    """
    kernels: Stack = stack.stack if isinstance(stack, WithIdentity) else stack
    values, U = np.linalg.eigh(kernels.combine((center * scale)[: kernels.m]))
    first = int(np.searchsorted(values, max(_RANK[0], 1e-15 * kernels.n) * values[-1], "right"))
    U, values = U[:, first:], values[first:]
    blocks = [U.T @ kernels.combine(row) @ U for row in np.diag(scale[: kernels.m])]
    for share in _RANK:
        cut = int(np.searchsorted(values, share * values[-1])) if values.size else 0
        roots = np.sqrt(values[cut:])
        little = 0.01 * np.diag(values[cut:])
        if all(factored(block[cut:, cut:] + little) is not None for block in blocks):
            break
    apart = int(isinstance(stack, WithIdentity))
    size = roots.size + apart
    inside = np.zeros((stack.m, size, size))
    for m, block in enumerate(blocks):
        inside[m, : roots.size, : roots.size] = block[cut:, cut:]
    if apart:
        inside[-1, -1, -1] = scale[-1]
        roots = np.append(roots, np.sqrt(center[-1] * scale[-1]))
    return inside, roots


def _independent(blocks: Array, plane: Array) -> Array:
    """Orthonormal combinations of ``plane``'s rows under which the blocks do not cancel."""
    m, size = blocks.shape[:2]
    R = np.zeros((0, m))
    step = max(1, 2**20 // (m * size))
    for start in range(0, size, step):
        rows = blocks[:, start : start + step].reshape(m, -1).T
        R = triangle(np.vstack([R, rows]))
    _, sizes, combinations = np.linalg.svd(R @ plane.T)
    kept = np.count_nonzero(sizes > _SAME * np.linalg.norm(R, axis=0).max())
    return combinations[:kept] @ plane


def triangle(columns: Array) -> Array:
    """R, upper triangular, with RᵀR = columnsᵀcolumns."""
    return np.asarray(np.linalg.qr(columns, mode="r"))


def _flat(matrices: Array) -> Array:
    """The matrices as columns."""
    count, rows, columns = matrices.shape
    return matrices.reshape(count, rows * columns).T
