"""Products and distances between rows, as matrices and as triangles of symmetric ones.

Squared distances are those of inner products: |x − z|² = |x|² + |z|² − 2 xᵀz. Rows are centered
first, so that columns far from zero lose no digits. For rows much nearer to each other than to the
mean, Σ_j (x_j − z_j)² is summed directly. Every distance is then accurate to twelve digits, and
equal rows have distance zero.

A lower triangle stands row by row: (i, j) with j ≤ i is at i(i + 1)/2 + j. A training matrix is
computed once per pair of rows, in half the memory; one final pass normalizes it and writes the
whole matrix. Operations are done in the order written, as NumPy does against new rows, so that
results are equal to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.jit import inlined, jit, ordered_jit
from kernelweave._core.types import Array

NEAR = 1e-3  # share of |x|² + |z|² below which |x − z|² is summed directly
TILE = 32  # rows and columns mirrored at a time
PART = 128  # rows summed separately, so that rounding does not grow with their number


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


# ---- triangles -----------------------------------------------------------------------------------


def size(n: int) -> int:
    """Number of entries in the triangle of an n × n matrix."""
    return n * (n + 1) // 2


@ordered_jit
def pack(rows: Any, first: int, out: Any) -> None:
    """Copy rows ``first``, … of a matrix, up to the diagonal, into the triangle ``out``."""
    for i in range(rows.shape[0]):
        width = first + i + 1
        source, target = rows[i], out[width * (width - 1) // 2 :]
        for j in range(width):
            target[j] = source[j]


@ordered_jit
def take(triangle: Any, index: Any, out: Any) -> None:
    """The triangle of the rows ``index``, in their order."""
    for i in range(index.shape[0]):
        row, target = index[i], out[i * (i + 1) // 2 :]
        source = triangle[row * (row + 1) // 2 :]
        for j in range(i + 1):
            other = index[j]
            target[j] = source[other] if other <= row else triangle[other * (other + 1) // 2 + row]


@ordered_jit
def block(triangle: Any, rows: Any, columns: Any, out: Any) -> None:
    """The matrix at ``rows`` and ``columns``."""
    for i in range(rows.shape[0]):
        row, target = rows[i], out[i]
        source = triangle[row * (row + 1) // 2 :]
        for j in range(columns.shape[0]):
            other = columns[j]
            target[j] = source[other] if other <= row else triangle[other * (other + 1) // 2 + row]


@ordered_jit
def products(x: Any, out: Any) -> None:
    """x_i x_j."""
    for i in range(x.shape[0]):
        target = out[i * (i + 1) // 2 :]
        for j in range(i + 1):
            target[j] = x[i] * x[j]


@ordered_jit
def sq_differences(x: Any, out: Any) -> None:
    """(x_i − x_j)²."""
    for i in range(x.shape[0]):
        target = out[i * (i + 1) // 2 :]
        for j in range(i + 1):
            target[j] = (x[i] - x[j]) * (x[i] - x[j])


@ordered_jit
def diagonal(triangle: Any, n: int) -> Any:
    """The n entries (i, i)."""
    out = np.empty(n)
    for i in range(n):
        out[i] = triangle[i * (i + 3) // 2]
    return out


@jit
def means(triangle: Any, weights: Any) -> Any:
    """The mean of each row of the whole matrix, in which column j counts ``weights[j]`` times."""
    n = weights.shape[0]
    total, part = np.zeros(n), np.zeros(n)
    for first in range(0, n, PART):
        last = min(first + PART, n)
        part[:last] = 0.0
        for i in range(first, last):
            row = triangle[i * (i + 1) // 2 :]
            own = weights[i] * row[i]
            for j in range(i):
                part[j] += weights[i] * row[j]
                own += weights[j] * row[j]
            part[i] += own
        total += part
    return total / weights.sum()


@ordered_jit
def center(triangle: Any, shift: Any) -> None:
    """Replace k_ij by k_ij − shift_i − shift_j."""
    for i in range(shift.shape[0]):
        row = triangle[i * (i + 1) // 2 :]
        for j in range(i + 1):
            row[j] -= shift[i] + shift[j]


@ordered_jit
def rescale(triangle: Any, factor: Any) -> None:
    """Replace k_ij by factor_i factor_j k_ij."""
    for i in range(factor.shape[0]):
        row = triangle[i * (i + 1) // 2 :]
        for j in range(i + 1):
            row[j] *= factor[i] * factor[j]


def room(matrix: Any) -> Any:
    """The end of a matrix's own memory, of the size of its triangle; for ``unpack_in_place``."""
    flat = matrix.reshape(-1)
    return flat[len(flat) - size(len(matrix)) :]


@ordered_jit
def unpack_in_place(scale: float, out: Any) -> None:
    """Write the whole matrix times ``scale`` over its triangle, which fills ``room(out)``.

    Row i of the triangle never begins before row i of the matrix: moved in order, rows overwrite
    none that is still to be moved. Then tiles left of the diagonal are mirrored.
    """
    n = out.shape[0]
    triangle = out.reshape(-1)[n * (n - 1) // 2 :]
    for i in range(n):
        source, target = triangle[i * (i + 1) // 2 :], out[i]
        for j in range(i + 1):
            target[j] = scale * source[j]
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i)):
                    out[j, i] = out[i, j]


@ordered_jit
def unpack(triangle: Any, scale: float, out: Any) -> None:
    """Write the whole matrix times ``scale``, row by row, which suits the cache.

    Works on four rows at a time, so that right of the diagonal four adjacent entries of the
    triangle are read at once. ``out`` may be float32.
    """
    n = out.shape[0]
    for i in range(n):
        source, target = triangle[i * (i + 1) // 2 :], out[i]
        for j in range(i + 1):
            target[j] = scale * source[j]
        for j in range(i - i % 4, i):
            out[j, i] = target[j]
        if i % 4 < 3:
            continue
        r0, r1, r2, r3 = out[i - 3], out[i - 2], out[i - 1], out[i]
        for j in range(i + 1, n):
            source = triangle[j * (j + 1) // 2 + i - 3 :]
            r0[j], r1[j] = scale * source[0], scale * source[1]
            r2[j], r3[j] = scale * source[2], scale * source[3]
