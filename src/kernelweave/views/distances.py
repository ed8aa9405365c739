"""Squared distances between rows from inner products: |x − z|² = |x|² + |z|² − 2 xᵀz.

Rows are centered first, so that columns far from zero lose no digits. For rows much nearer to each
other than to the mean, Σ_j (x_j − z_j)² is summed directly. Every distance is then accurate to
twelve digits, and equal rows have distance zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.jit import inlined, ordered_jit
from kernelweave._core.types import Array

NEAR = 1e-3  # share of |x|² + |z|² below which |x − z|² is summed directly


def sq_distances(a: Array, b: Array, out: Array | None = None) -> Array:
    """|x − z|² for x in ``a``, z in ``b``; exactly symmetric if a is b.

    Both are centered by the mean of ``b``.
    """
    if a.shape[1] == 1:
        out = np.subtract.outer(a[:, 0], b[:, 0], out=out)
        return np.multiply(out, out, out=out)
    center = b.mean(axis=0)
    right = b - center
    left = right if a is b else a - center
    out = np.matmul(left, right.T, out=out)  # BLAS mirrors one triangle where a is b
    _from_products(a, sq_norms(left), b, sq_norms(right), out)
    return out


def sq_norms(x: Array) -> Array:
    """|x|² of every row; infinite on overflow."""
    with np.errstate(over="ignore"):
        return np.einsum("ij,ij->i", x, x)


@ordered_jit
def from_half_products(x: Any, norms: Any, out: Any) -> None:
    """Replace the products in ``out``, a lower triangle, by |x_i − x_j|².

    ``norms`` and products belong to the centered rows; ``x`` holds the rows themselves.
    """
    for i in range(x.shape[0]):
        target = out[i * (i + 1) // 2 :]
        _finish(x[i], norms[i], x, norms, i, target)
        target[i] = 0.0


@ordered_jit
def _from_products(a: Any, a_norms: Any, b: Any, b_norms: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        _finish(a[i], a_norms[i], b, b_norms, b.shape[0], out[i])


@inlined
def _finish(row: Any, norm: float, rows: Any, norms: Any, count: int, target: Any) -> None:
    """Replace xᵀz by |x − z|², for x = ``row`` and the first ``count`` of ``rows``."""
    near = 0
    for j in range(count):
        total = norm + norms[j]
        target[j] = total - 2.0 * target[j]
        near += target[j] < NEAR * total
    if near:
        for j in range(count):
            if target[j] < NEAR * (norm + norms[j]):
                square = 0.0
                for k in range(row.shape[0]):
                    square += (row[k] - rows[j, k]) * (row[k] - rows[j, k])
                target[j] = square
