"""Kernels that are functions of two rows of numbers, as arrays that any device can read.

    K_k[i, j] = scale_k · (φ_k(x_i, x_j) − c_ki − c_kj) · r_ki · r_kj

    GAUSSIAN     φ(x, z) = exp(−a|x − z|²)
    LAPLACIAN    φ(x, z) = exp(−a|x − z|₁)
    POLYNOMIAL   φ(x, z) = (xᵀz + a)^b,  of which xᵀz is one

All kernels of a view share its rows, and with them products and distances. ``means`` c and
``norms`` r are normalizations, None where there are none. Rows that lack the view have r = 0, which
makes their entries zero. No object of a bank is in here: loops on any device read these arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kernelweave._core.tolerances import NEGATIVITY, TINY
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import frozen

GAUSSIAN, LAPLACIAN, POLYNOMIAL = range(3)


class Entry(NamedTuple):
    """φ as compiled code knows it: which of the three families, and its parameters."""

    kind: int
    a: float
    b: int = 1


@dataclass(frozen=True, eq=False)
class RowKernels:
    """The g kernels of one view over n rows.

    ``x`` has shape (n, columns); ``kinds``, ``a``, ``b`` and ``scale`` have g numbers; ``means``
    and ``norms`` are (g, n) or None. ``numbers`` are those that the kernels have in their stack.
    All arrays are C-contiguous and read-only, float64 or int64.
    """

    x: Array
    kinds: Places
    a: Array
    b: Places
    scale: Array
    means: Array | None
    norms: Array | None
    numbers: Places

    def __post_init__(self) -> None:
        whole = ("kinds", "b", "numbers")
        for name, array in vars(self).items():
            if array is not None:
                kind = np.int64 if name in whole else np.float64
                object.__setattr__(self, name, frozen(np.array(array, dtype=kind, order="C")))

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.x)

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (g, n)."""
        norms = np.einsum("ic,ic->i", self.x, self.x)
        raw = np.ones((self.kinds.size, self.n))
        for k in np.flatnonzero(self.kinds == POLYNOMIAL):
            raw[k] = (norms + self.a[k]) ** self.b[k]
        if self.means is not None:
            raw -= 2.0 * self.means
        if self.norms is not None:
            raw *= self.norms**2
        return self.scale[:, None] * raw

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """The kernel of place ``kernel`` in this view at some rows and columns, a new array."""
        from scipy.spatial.distance import cdist

        x, z = self.x[rows], self.x[columns]
        if self.kinds[kernel] == POLYNOMIAL:
            out = (x @ z.T + self.a[kernel]) ** self.b[kernel]
        else:
            metric = "sqeuclidean" if self.kinds[kernel] == GAUSSIAN else "cityblock"
            out = np.exp(-self.a[kernel] * cdist(x, z, metric))
        if self.means is not None:
            out -= np.add.outer(self.means[kernel][rows], self.means[kernel][columns])
        if self.norms is not None:
            out *= np.multiply.outer(self.norms[kernel][rows], self.norms[kernel][columns])
        return np.asarray(self.scale[kernel] * out)

    def take(self, rows: Index) -> RowKernels:
        """The same kernels on some of the rows."""
        means, norms = (None if c is None else c[:, rows] for c in (self.means, self.norms))
        return replace(self, x=self.x[rows], means=means, norms=norms)

    def select(self, kernels: Index, numbers: Places) -> RowKernels:
        """Some of the kernels, by their places in this view, with new numbers in the stack."""
        means, norms = (None if c is None else c[kernels] for c in (self.means, self.norms))
        parts = {name: getattr(self, name)[kernels] for name in ("kinds", "a", "b", "scale")}
        return replace(self, **parts, means=means, norms=norms, numbers=numbers)


def amplified(view: RowKernels, diagonals: Array) -> float:
    """How much larger than √(K_ii K_jj) the terms may be of which an entry is made, at the most.

    Centering takes most of them off where all rows are alike: |G_ij| + |μ_i| + |μ_j| is at most
    (√G_ii + r)(√G_jj + r), with r² = 2 max |μ|.
    """
    if view.means is None:
        return 1.0
    factor = np.tile(view.scale[:, None], view.n)
    if view.norms is not None:
        factor *= view.norms**2
    own = np.divide(diagonals, factor, out=np.zeros_like(diagonals), where=factor > 0.0)
    root = np.sqrt(np.maximum(own + 2.0 * view.means, 0.0))
    r = np.sqrt(2.0 * np.abs(view.means).max(axis=1, keepdims=True))
    little = NEGATIVITY[np.dtype(np.float64)] * diagonals.sum(axis=1, keepdims=True)
    share = factor * (root + r) ** 2 / np.maximum(diagonals + little, TINY)
    return max(1.0, float(share.max()))


def roundings(view: RowKernels) -> float:
    """Roundings behind an entry, as a share of √(G_ii G_jj), in units of the numbers.

    What is off in a distance, its size times the number of columns, counts times the rate.
    """
    columns = view.x.shape[1] + 8.0
    far = np.abs(view.x - view.x.mean(axis=0))
    sizes = {
        GAUSSIAN: 4.0 * float((far**2).sum(axis=1).max()),
        LAPLACIAN: 4.0 * float(far.sum(axis=1).max()),
    }
    return max(
        b * columns if kind == POLYNOMIAL else 8.0 + a * columns * sizes[kind]
        for kind, a, b in zip(view.kinds.tolist(), view.a.tolist(), view.b.tolist(), strict=True)
    )
