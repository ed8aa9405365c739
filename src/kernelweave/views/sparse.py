"""Products and distances of sparse rows (CSR), written to dense arrays without any other copy.

    xᵀz = Σ_c x_c z_c,    |x − z|² = |x|² + |z|² − 2 xᵀz

For one row x, the columns that hold its numbers are walked down, and each number found there is
multiplied and added to its row's place in the result. Work is done for pairs of numbers in the same
column only, and sums run over columns from left to right: k(x, z) equals k(z, x) to the last bit.

Rows are not centered, since they would be dense then. For rows much nearer to each other than to
zero, Σ_c (x_c − z_c)² is summed directly, so that no digits are lost and equal rows have distance
zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.jit import ordered_jit
from kernelweave._core.types import Array
from kernelweave.views.products import NEAR


def sq_norms(x: Any) -> Array:
    """|x|² of every row; infinite on overflow."""
    with np.errstate(over="ignore"):
        return np.asarray(x.multiply(x).sum(axis=1), dtype=np.float64).ravel()


def products(a: Any, b: Any, out: Array) -> Array:
    """Write xᵀz for x in ``a``, z in ``b``."""
    _products(_parts(a), _parts(b.T), out)
    return out


def half_products(x: Any, out: Array) -> Array:
    """Write xᵀz for rows of ``x`` as a lower triangle (``kernelweave.views.products``)."""
    _half_products(_parts(x), _parts(x.T), out)
    return out


def sq_distances(a: Any, b: Any, out: Array) -> Array:
    """Write |x − z|² for x in ``a``, z in ``b``."""
    products(a, b, out)
    _distances(_parts(a), sq_norms(a), _parts(b), sq_norms(b), NEAR, out)
    return out


def half_sq_distances(x: Any, norms: Array, out: Array) -> Array:
    """Write |x − z|² for rows of ``x``, with |x|² in ``norms``, as a lower triangle."""
    half_products(x, out)
    _half_distances(_parts(x), norms, NEAR, out)
    return out


def _parts(x: Any) -> tuple[Any, Any, Array]:
    """Where each row begins, columns and numbers, in new arrays of the types compiled for."""
    rows = x.tocsr()
    rows = rows if rows.has_sorted_indices else rows.sorted_indices()
    starts, columns = (np.array(part, dtype=np.int64) for part in (rows.indptr, rows.indices))
    return starts, columns, np.array(rows.data, dtype=np.float64)


@ordered_jit
def _products(a: Any, columns: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        _multiply(a, i, columns, out.shape[1], out[i])


@ordered_jit
def _half_products(x: Any, columns: Any, out: Any) -> None:
    for i in range(x[0].shape[0] - 1):
        _multiply(x, i, columns, i + 1, out[i * (i + 1) // 2 :])


@ordered_jit
def _multiply(a: Any, i: int, columns: Any, count: int, target: Any) -> None:
    """Products of row i of ``a`` with the first ``count`` rows of b, given by its columns."""
    starts, places, values = a
    tops, rows, entries = columns
    target[:count] = 0.0
    for p in range(starts[i], starts[i + 1]):
        column, value = places[p], values[p]
        for q in range(tops[column], tops[column + 1]):
            j = rows[q]
            if j >= count:
                break
            target[j] += value * entries[q]


@ordered_jit
def _distances(a: Any, a_norms: Any, b: Any, b_norms: Any, near: float, out: Any) -> None:
    for i in range(out.shape[0]):
        _finish(a, i, a_norms[i], b, b_norms, near, out[i], out.shape[1])


@ordered_jit
def _half_distances(x: Any, norms: Any, near: float, out: Any) -> None:
    for i in range(norms.shape[0]):
        target = out[i * (i + 1) // 2 :]
        _finish(x, i, norms[i], x, norms, near, target, i)
        target[i] = 0.0


@ordered_jit
def _finish(
    a: Any, i: int, norm: float, b: Any, norms: Any, near: float, target: Any, count: int
) -> None:
    """Replace xᵀz by |x − z|², for x = row i of ``a`` and the first ``count`` rows of ``b``."""
    for j in range(count):
        total = norm + norms[j]
        target[j] = total - 2.0 * target[j]
        if target[j] < near * total:
            target[j] = _apart(a, i, b, j)


@ordered_jit
def _apart(a: Any, i: int, b: Any, j: int) -> float:
    """Σ_c (x_c − z_c)² for row i of ``a`` and row j of ``b``, both sorted by column."""
    p, q = a[0][i], b[0][j]
    a_end, b_end = a[0][i + 1], b[0][j + 1]
    square = 0.0
    while p < a_end or q < b_end:
        if q == b_end or (p < a_end and a[1][p] < b[1][q]):
            difference = a[2][p]
            p += 1
        elif p == a_end or b[1][q] < a[1][p]:
            difference = b[2][q]
            q += 1
        else:
            difference = a[2][p] - b[2][q]
            p += 1
            q += 1
        square += difference * difference
    return square
