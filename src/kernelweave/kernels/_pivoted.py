"""Cholesky's method with pivots, straight from the columns that a kernel reads.

    K ≈ FFᵀ,    tr(K − FFᵀ) ≤ share · tr K,    K − FFᵀ ⪰ 0

Each step takes the row with the largest rest and computes its kernel with all others: n·r entries
for rank r, and no n × n array at any time. Kernels on one column end at about r = 10.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelweave._core.jit import inlined, jit
from kernelweave._core.types import Array, Places
from kernelweave.stacks.row_kernels import GAUSSIAN, LAPLACIAN, POLYNOMIAL, Entry

_ROOM = 64  # features that there is room for at first; twice as many whenever they do not do
_HOPELESS = 2  # why it ended: the rest falls too slowly


def pivoted(
    x: Array, entry: Entry, diagonal: Array, share: float, most: int, hopeful: bool
) -> Array | None:
    """Fᵀ, shape (r, n), for the rows of ``x``; None where its rank would exceed ``most``.

    Unless ``hopeful``, it gives up as soon as the rest falls too slowly to end before that.
    """
    G, _, left = _grown(x, entry, diagonal, share, most, hopeful)
    return None if left else G


def truncated(
    x: Array, entry: Entry, diagonal: Array, share: float, most: int
) -> tuple[Array, Places]:
    """Fᵀ of at most ``most`` rows, whatever is left then, and the rows taken as pivots."""
    G, pivots, _ = _grown(x, entry, diagonal, share, most, True)
    return G, pivots


def _grown(
    x: Array, entry: Entry, diagonal: Array, share: float, most: int, hopeful: bool
) -> tuple[Array, Places, bool]:
    """Fᵀ, its pivots, and whether more than the share is left; in room that grows as needed."""
    x, rest = np.ascontiguousarray(x), np.array(diagonal, dtype=float)
    end, pivots = share * float(rest.sum()), np.empty(most, np.int64)
    room, rank, fall = np.empty((0, len(x))), 0, np.array([16.0, np.inf])
    worth = np.inf if hopeful else float(most)
    while True:
        larger = np.empty((min(most, max(_ROOM, 2 * rank)), len(x)))
        larger[:rank] = room[:rank]
        room = larger
        rank, ended = _pivoted(x, entry, rest, end, worth, rank, fall, pivots, room)
        if ended or rank == most:
            break
    left = ended == _HOPELESS or (not ended and float(rest.sum()) > end)
    return room[:rank].copy(), pivots[:rank].copy(), left


@inlined
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
def _pivoted(
    x: Any,
    entry: Any,
    rest: Any,
    end: float,
    most: float,
    rank: int,
    fall: Any,
    pivots: Any,
    G: Any,
) -> Any:
    """Go on from ``rank`` until the room ends: the rank reached, and why it ended, 0 if not.

    It gives up where the rest falls too slowly to end before the rank ``most``.
    ``fall``: the rank at which the rest is looked at next, and what it was half as far.
    """
    n = x.shape[0]
    for r in range(rank, G.shape[0] + 1):
        p: Any = np.int64(0)  # a literal 0 would make a signature of its own
        left = 0.0
        for j in range(n):
            left += rest[j]
            if rest[j] > rest[p]:
                p = j
        if left <= end or rest[p] <= 0.0:
            return r, 1
        if r == fall[0] // 2:
            fall[1] = left
        if r == fall[0]:
            rate = math.log(fall[1] / left) / (fall[0] // 2)
            if r + math.log(left / end) > most * rate + r * (1.0 - rate):
                return r, 2
            fall[0], fall[1] = 2 * r, left
        if r == G.shape[0]:
            return r, 0
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
        pivots[r] = p
    return G.shape[0], 0
