"""Cholesky's method with pivots, straight from the columns that a kernel reads.

    K ≈ FFᵀ,    tr(K − FFᵀ) ≤ share · tr K,    K − FFᵀ ⪰ 0

Each step takes the row with the largest rest and computes its kernel with all others: n·r entries
for rank r, and no n × n array at any time. Kernels on one column end at about r = 10.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kernelweave._core.jit import jit
from kernelweave._core.types import Array

GAUSSIAN, LAPLACIAN, POLYNOMIAL = range(3)


class Entry(NamedTuple):
    """What the compiled code knows of a kernel function.

    exp(−a|x − z|²), exp(−a|x − z|₁) or (xᵀz + a)^b.
    """

    kind: int
    a: float
    b: int = 1


def pivoted(
    x: Array, entry: Entry, diagonal: Array, share: float, most: int, hopeful: bool
) -> Array | None:
    """Fᵀ, shape (r, n), for the rows of ``x``; None where its rank would exceed ``most``.

    Unless ``hopeful``, it gives up as soon as the rest falls too slowly to end before that.
    """
    room = np.empty((most, len(x)))
    rank = _pivoted(np.ascontiguousarray(x), entry, diagonal, share, hopeful, room)
    return None if rank < 0 else room[:rank].copy()


@jit
def _entries(x: Any, p: int, entry: Any, out: Any) -> None:
    """out[j] = k(x_p, x_j)."""
    kind, a, b = entry.kind, entry.a, entry.b
    columns = x.shape[1]
    for j in range(x.shape[0]):
        total = 0.0
        if kind == GAUSSIAN:
            for c in range(columns):
                total += (x[p, c] - x[j, c]) * (x[p, c] - x[j, c])
        elif kind == LAPLACIAN:
            for c in range(columns):
                total += abs(x[p, c] - x[j, c])
        else:
            for c in range(columns):
                total += x[p, c] * x[j, c]
        if kind == POLYNOMIAL:
            base = total + a
            power = base
            for _ in range(b - 1):
                power *= base
            out[j] = power
        else:
            out[j] = math.exp(-a * total)


@jit
def _pivoted(x: Any, entry: Any, diagonal: Any, share: float, hopeful: bool, G: Any) -> int:
    n, most = x.shape[0], G.shape[0]
    rest = diagonal.copy()
    end = share * diagonal.sum()
    look, before = 16, np.inf  # ranks at which the rest is looked at, and what it was half as far
    for r in range(most + 1):
        p, left = 0, 0.0
        for j in range(n):
            left += rest[j]
            if rest[j] > rest[p]:
                p = j
        if left <= end or rest[p] <= 0.0:
            return r
        if r == look // 2:
            before = left
        if r == look:
            fall = math.log(before / left) / (look // 2)
            if not hopeful and r + math.log(left / end) > most * fall + r * (1.0 - fall):
                return -1
            look, before = 2 * look, left
        if r == most:
            return -1
        row = G[r]
        _entries(x, p, entry, row)
        for q in range(r):
            share_q = G[q, p]
            other = G[q]
            for j in range(n):
                row[j] -= share_q * other[j]
        pivot = math.sqrt(rest[p])
        for j in range(n):
            row[j] /= pivot
            rest[j] = max(rest[j] - row[j] * row[j], 0.0)
        row[p], rest[p] = pivot, 0.0
    return -1
