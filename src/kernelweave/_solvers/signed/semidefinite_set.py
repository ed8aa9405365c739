"""Signed weights under which the combined kernel is positive semidefinite, in few coordinates.

    { e :  K(e) = Σ_m e_m s_m K_m ⪰ 0,   a·e = 1 }

A point e₀ > 0 of the plane has the largest range that K(e) can have. With FᵀK(e₀)F = I on that
range, and directions t_k of the plane along which K(e) changes, the set is

    e = e₀ + Σ_k x_k t_k,     M(x) = FᵀK(e)F = I + Σ_k x_k N_k ⪰ 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from kernelweave._core.cached import cached_property
from kernelweave._core.tolerances import NEGATIVITY, NOTHING, RANK_CUTS, ROUNDING
from kernelweave._core.types import Array
from kernelweave.stacks.cholesky import triangle
from kernelweave.stacks.protocol import Stack

_LIMIT = {np.dtype(np.float64): 1e7, np.dtype(np.float32): 1e3}  # weights that rounding stands


class Joint:
    """All s_m K_m in the eigenvectors of K(e₀): what the sets of one problem have in common.

    Without a normal the plane is Σe = 1, and tr s_m K_m has to be the same for all kernels. With
    one, tr K(e) may be up to ``growth`` times tr K(e₀). With ``identity`` the last kernel is the
    identity, and not part of K(e): its weight is nonnegative, and has a row and column of its own.

    Attributes
    ----------
    center : array (m,)
        e₀, all kernels alike; those of ``scale`` zero have weight zero.
    plane : array (m,)
        The a of a·e = 1.
    within : array (m − 1, m)
        An orthonormal basis of the directions of the plane.
    """

    def __init__(
        self,
        stack: Stack,
        scale: Array,
        normal: Array | None = None,
        growth: float = 1.0,
        identity: bool = False,
    ) -> None:
        self.stack, self.scale, self.growth, self.identity = stack, scale, growth, identity
        used = (scale > 0.0).astype(float)
        self.plane = used if normal is None else normal * used
        self.center = used / float(self.plane @ used)
        self.within = np.linalg.svd(self.plane[None])[2][1:]
        kernels = stack.select(np.arange(stack.m - 1)) if identity else stack
        inside = kernels.combined((self.center * scale)[: kernels.m])
        self._values, U = np.linalg.eigh(np.asarray(inside.dense(), dtype=float))
        rows = np.diag(scale[: kernels.m])
        self._blocks = np.stack([U.T @ kernels.combined(row).dense() @ U for row in rows])
        # how negative eigenvalues of K(e₀) are, or could be, that are rounding only
        self.error = max(-float(self._values[0]), ROUNDING * float(self._values[-1]))

    @property
    def size(self) -> int:
        """Rows of M where no direction is left out."""
        return len(self._values) + self.identity

    @cached_property
    def n_directions(self) -> int:
        """In how many directions of the plane K(e) changes, be it by very little."""
        return len(_independent(self._with_identity(self._blocks), self.within)[0])

    def on_range(self, cut: float, lenient: bool) -> tuple[Array, Array]:
        """The blocks on the range of K(e₀), and the roots of its eigenvalues there.

        The range ends at eigenvalues below the share ``cut`` of the largest, or earlier, where
        kernels cease to be semidefinite beside their mean: that is rounding, of kernels kept in
        float32, say. ``lenient``: what is outside it counts too, but may be negative.
        """
        blocks, values = self._blocks, self._values.copy()
        first = int(np.searchsorted(values, cut * values[-1], "right"))
        # e ≥ 0 must be within the set: K_m ⪰ −0.01 K(e₀) on the range, or noise decides M ⪰ 0
        while cut < 1e-5:
            mean = 0.01 * np.diag(values[first:])
            if all(factored(block[first:, first:] + mean) is not None for block in blocks):
                break
            cut *= 10.0
            first = int(np.searchsorted(values, cut * values[-1]))
        most = NEGATIVITY[self.stack.precision] * float(values.sum())
        little = max(2.0 * self.error, min(10.0 * self.error, 0.9 * most))
        # eigenvalues are lifted above their error, so that M is definite where K(e) is; outside
        # the range by a tenth of the negativity that any kernel may have
        values += np.where(np.arange(values.size) < first, max(little, 0.1 * most), little)
        if not lenient:
            blocks, values = blocks[:, first:, first:], values[first:]
        if self.identity:
            values = np.append(values, self.center[-1] * self.scale[-1])
        return self._with_identity(blocks), np.sqrt(values)

    def _with_identity(self, blocks: Array) -> Array:
        if not self.identity:
            return blocks
        size = blocks.shape[1]
        whole = np.zeros((self.stack.m, size + 1, size + 1))
        whole[:-1, :-1, :-1] = blocks
        whole[-1, -1, -1] = self.scale[-1]
        return whole


class SemidefiniteSet:
    """The weights e with K(e) ⪰ 0 on the range of K(e₀) and a·e = 1, by coordinates x.

    Where kernels differ so little that weights could grow without end, none may be below −10⁷
    times e₀ (−10³ for kernels in float32): larger ones would leave K(e) no digits. That is one
    more 1×1 block of M for each kernel. Differences below 10⁻¹³ of the kernels' size are rounding,
    and no weights are built on them.

    Attributes
    ----------
    center : array (m,)
        e₀, all kernels alike.
    directions : array (k, m)
        The t_k.
    matrices : array (k, size, size)
        The N_k, orthonormal.
    least : array (m,)
        The lower limit of the weights; −∞ where K(e) ⪰ 0 is enough of one.
    rank : int
        Rows of M that stand for the range, and for the weight of an identity.
    lenient : bool
        Whether K(e) is looked at on all rows, not on the range of K(e₀) alone, and outside that may
        be negative by a tenth of what kernels may be.
    sees_all : bool
        Whether there is a coordinate for every direction in which K(e) changes.
    """

    def __init__(self, joint: Joint, cut: float = RANK_CUTS[0], lenient: bool = False) -> None:
        self._joint, self.center, self.lenient = joint, joint.center, lenient
        blocks, roots = joint.on_range(cut, lenient)
        self.rank = roots.size
        kept, differ = _independent(blocks, joint.within)
        self.sees_all = len(kept) == joint.n_directions
        noise = (roots.max() / roots) ** 2
        if joint.growth > 1.0:
            blocks, roots = _bounded(blocks, roots, joint)
        self.least = np.full(joint.scale.size, -np.inf)
        if differ * (limit := _LIMIT[joint.stack.precision]) < 2.0 * np.sqrt(self.rank):
            self.least = -limit * self.center
            blocks, roots = _limited(blocks, roots, joint, limit)
        self._extent = 2.0 * joint.growth * float(roots @ roots)
        if joint.growth == 1.0:
            self._extent = max(self._extent, 2.0 * float(np.einsum("mii->m", blocks).max()))
        changes = np.tensordot(kept, blocks, axes=1)
        matrices = changes / np.multiply.outer(roots, roots)
        back = np.linalg.inv(triangle(_flat(matrices))).T
        self.directions = back @ kept
        self.matrices = np.tensordot(back, matrices, axes=1)
        self._changes = triangle(_flat(changes)) @ back.T
        self._noise = np.diag(ROUNDING * np.append(noise, np.ones(roots.size - self.rank)))

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

    def inside(self, e: Array, near: bool = False) -> Array:
        """Coordinates of a point of the interior, from weights e on the way to the middle.

        ``near``: as close to them as may be.
        """
        x = self.coordinates(e)
        parts = (0.999, 0.99, 0.9, 0.5, 0.2)[0 if near else 2 :]
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
        """Whether K(e) is semidefinite outside the range as well, up to rounding."""
        if self.rank == self._joint.size:
            return True
        stack, d = self._joint.stack, self._joint.scale * e
        if self._joint.identity:
            d[-1] = 0.0
        K = np.asarray(stack.combined(d).dense(), dtype=float)
        most = 0.9 * NEGATIVITY[stack.precision] * float(np.trace(K))
        slack = min(10.0 * float(np.abs(e).sum()) * self._joint.error, most)
        return factored(K + slack * np.eye(len(K))) is not None

    def contains(self, e: Array) -> bool:
        """Whether weights e are of the set, and K(e) is semidefinite, up to rounding."""
        noise = float(np.abs(e).sum()) * self._noise
        return factored(self.matrix(self.coordinates(e)) + noise) is not None and self.holds(e)

    def rounding(self, x: Array, Z: Array) -> float:
        """What rounding in the entries of K(e) may take from a bound by Z."""
        return float(np.abs(self.weights(x)).sum() * np.vdot(self._noise, Z))

    def most(self, rest: Array) -> float:
        """A bound of rest·x over the set: ‖K(e) − K(e₀)‖ is at most twice the largest trace."""
        return self._extent * float(np.linalg.norm(np.linalg.solve(self._changes.T, rest)))


def nested_sets(joint: Joint) -> Iterator[SemidefiniteSet]:
    """From the least that may do, each within the one before; at last what does in any case.

    Larger weights make smaller eigenvalues count. The last set is lenient: not within the others,
    but it has all weights with K(e) ⪰ 0, as they have.
    """
    rank = 0
    for cut in RANK_CUTS:
        region = SemidefiniteSet(joint, cut)
        if region.sees_all and region.rank > rank:
            yield region
        rank = region.rank
    yield SemidefiniteSet(joint, lenient=True)


def factored(M: Array) -> Array | None:
    """L with LLᵀ = M, lower triangular; None where M is not positive definite."""
    try:
        return cholesky(M, lower=True, check_finite=False)
    except LinAlgError:
        return None


def _limited(blocks: Array, roots: Array, joint: Joint, limit: float) -> tuple[Array, Array]:
    """The blocks with rows for e_k + limit·e₀_k ≥ 0, in units in which these are of their size."""
    used = np.flatnonzero(joint.center)
    center = joint.center[used]
    unit = float(roots @ roots) / (limit * center.sum())
    more = unit * limit * np.outer(joint.plane, center)
    more[used, np.arange(used.size)] += unit
    return _with_rows(blocks, more), np.append(roots, np.sqrt(unit * (1.0 + limit) * center))


def _bounded(blocks: Array, roots: Array, joint: Joint) -> tuple[Array, Array]:
    """The blocks with a row for tr K(e) ≤ growth·tr K(e₀), in units of tr K(e₀)."""
    traces = np.einsum("mii->m", blocks)
    whole = float(traces @ joint.center)
    more = whole * joint.plane - traces / joint.growth
    return _with_rows(blocks, more[:, None]), np.append(roots, np.sqrt(more @ joint.center))


def _with_rows(blocks: Array, more: Array) -> Array:
    """The blocks with the columns of ``more`` as 1×1 blocks beside them."""
    m, size = blocks.shape[:2]
    whole = np.zeros((m, size + more.shape[1], size + more.shape[1]))
    whole[:, :size, :size] = blocks
    rows = size + np.arange(more.shape[1])
    whole[:, rows, rows] = more
    return whole


def _independent(blocks: Array, plane: Array) -> tuple[Array, float]:
    """Orthonormal combinations of ``plane``'s rows under which the blocks do not cancel.

    Also by what share of their size the blocks differ along the least of them.
    """
    m, size = blocks.shape[:2]
    R = np.zeros((0, m))
    step = max(1, 2**20 // (m * size))
    for start in range(0, size, step):
        rows = blocks[:, start : start + step].reshape(m, -1).T
        R = triangle(np.vstack([R, rows]))
    _, sizes, combinations = np.linalg.svd(R @ plane.T)
    sizes = sizes / np.linalg.norm(R, axis=0).max()
    kept = np.count_nonzero(sizes > NOTHING)
    return combinations[:kept] @ plane, float(sizes[:kept].min(initial=np.inf))


def _flat(matrices: Array) -> Array:
    """The matrices as columns."""
    count, rows, columns = matrices.shape
    return matrices.reshape(count, rows * columns).T
