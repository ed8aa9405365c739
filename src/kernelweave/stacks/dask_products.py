"""Arrays (m, n) whose columns lie on a cluster: what multiplies like them, by sums on the workers.

    diagonals     D_ki = (K_k)_ii = Σ_{r ∈ k} G_ri²
    products      Q_ki = s_k (K_k v)_i = s_k Σ_{r ∈ k} u_r G_ri,        u = Gv

G (R, n) are the factors of all kernels, a column after the other; r ∈ k are those of kernel k. Then
w·Q and Q·x are two products with G, and nothing of m × n numbers is ever made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._core.types import Array, Places

if TYPE_CHECKING:
    from kernelweave.stacks.dask_stack import DaskStack


class Diagonals:
    """The diagonals of all kernels of a stack; their sums and largest values are known."""

    __array_ufunc__ = None  # NumPy leaves products to this class

    def __init__(self, stack: DaskStack, traces: Array, most: Array) -> None:
        self.stack, self._traces, self._most = stack, traces, most
        self._last: tuple[Array, Array] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.stack.m, self.stack.n

    def __rmatmul__(self, w: Array) -> Array:
        if self._last is None or not np.array_equal(self._last[0], w):
            stack = self.stack
            weights = np.asarray(w, dtype=float)[stack.owners]
            self._last = np.array(w), stack.joined(_squares_onto, weights)
        return self._last[1].copy()

    def __matmul__(self, x: Array) -> Array:
        stack = self.stack
        return stack.by_kernel(
            stack.summed(_squares_times, stack.spans.split(np.asarray(x, float)))
        )

    def sum(self, axis: int) -> Array:
        """All traces."""
        return self._traces.copy()

    def max(self, axis: int) -> Array:
        """The largest entry of each."""
        return self._most.copy()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.array([row @ self for row in np.eye(self.stack.m)], dtype=dtype)


class Products:
    """s_k K_k v of some ``kernels`` at some ``rows``, in the precision of ``u`` = Gv.

    ``v`` is given where it is known at these rows: Q·v then takes no trip.
    """

    __array_ufunc__ = None

    def __init__(
        self,
        stack: DaskStack,
        u: Array,
        kernels: Places,
        rows: Places | None,
        scale: Array | None = None,
        v: Array | None = None,
    ) -> None:
        self.stack, self.u, self.kernels, self.rows, self.v = stack, u, kernels, rows, v
        self.scale = np.ones(kernels.size) if scale is None else scale

    @property
    def shape(self) -> tuple[int, int]:
        """(number of kernels, number of rows)."""
        return self.kernels.size, self.stack.n if self.rows is None else self.rows.size

    def __rmul__(self, scale: Array) -> Products:
        more = np.broadcast_to(np.asarray(scale).reshape(-1), self.scale.shape)
        return Products(self.stack, self.u, self.kernels, self.rows, more * self.scale, self.v)

    def take(self, points: Places, axis: int) -> Products:
        """The same at some of the rows."""
        rows = points if self.rows is None else self.rows[points]
        return Products(self.stack, self.u, self.kernels, rows, self.scale)

    @property
    def weights(self) -> Array:
        """What each kernel's columns of G are multiplied by, 0 for those that are not here."""
        whole = np.zeros(self.stack.m)
        whole[self.kernels] = self.scale
        return whole

    def __rmatmul__(self, w: Array) -> Array:
        whole = np.zeros(self.stack.m, np.result_type(w, self.u))
        whole[self.kernels] = w * self.scale
        found = self.stack.joined(_times_wide, whole[self.stack.owners] * self.u)
        return found if self.rows is None else found[self.rows]

    def __matmul__(self, x: Array) -> Array:
        stack, whole = self.stack, x
        if self.v is not None and np.array_equal(self.v, x):
            onto = self.u
        else:
            if self.rows is not None:
                whole = np.zeros(stack.n, x.dtype)
                np.add.at(whole, self.rows, x)
            onto = stack.onto(whole)
        return self.scale * stack.by_kernel(self.u * onto)[self.kernels]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        rows = np.arange(self.stack.n) if self.rows is None else self.rows
        G = self.stack.fetched(rows)
        found = [
            s * (self.u[self.stack.owners == k] @ G[self.stack.owners == k])
            for k, s in zip(self.kernels, self.scale, strict=True)
        ]
        return np.array(found, dtype=dtype).reshape(self.shape)


def _squares_onto(G: Array, weights: Array) -> Array:
    used = np.flatnonzero(weights)
    return np.einsum("r,ri,ri->i", weights[used], *(G[used],) * 2, dtype=float)


def _squares_times(G: Array, x: Array) -> Array:
    return np.einsum("ri,ri,i->r", G, G, x, dtype=float)


def _times_wide(G: Array, z: Array) -> Array:
    used = np.flatnonzero(z)
    return np.asarray(z[used] @ G[used].astype(z.dtype, copy=False))
