"""The compiled passes over a stack of kernel matrices, what they ask of arrays, and exp(−t).

Memory sets their speed, so each walks four streams that lie far apart (the same row of four
kernels, or four rows of one): the processor then fetches ahead on all of them, which runs about
twice as fast as one stream. Every pass does the tasks ``start`` to ``stop`` of a fixed list, and a
task's result does not depend on who runs the others, so the list can be cut between threads and
the bits stay the same. Matrices may be float32; sums are float64.

A compiled function here calls only compiled functions of this file: the disk cache does not
notice edits elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.jit import jit, ordered_jit
from kernelweave._core.types import Array

BLOCK = 256  # rows in one task; a multiple of 4
TILE = 32  # side of the squares in which a matrix is compared with its transpose
_TERMS = tuple(1.0 / math.factorial(i) for i in range(14))
_PER_LOG2 = 1.0 / math.log(2.0)
_HIGH, _LOW = float(np.float32(math.log(2.0))), -1.904654299957768e-09  # log 2; k · _HIGH is exact
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the last bits
_LEAST = -708.0


def read_only(array: NDArray) -> NDArray:
    """A view that cannot be written to: the one type of array the compiled passes see."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def frozen(array: NDArray) -> NDArray:
    """The array itself, which nobody writes to from here on."""
    array.flags.writeable = False
    return array


@jit
def dots(r0: Any, r1: Any, r2: Any, r3: Any, x: Any, size: int) -> Any:
    """Inner products of x with r0, …, r3."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(size):
        s0 += x[j] * r0[j]
        s1 += x[j] * r1[j]
        s2 += x[j] * r2[j]
        s3 += x[j] * r3[j]
    return s0, s1, s2, s3


@jit
def quad_forms(
    K: Any, kernels: Any, rows: Any, values: Any, v: Any, out: Any, start: int, stop: int
) -> None:
    """out[k, b] = Σ_i v_i (K_k[i, i] v_i + 2 Σ_{j<i} K_k[i, j] v_j), i over block b of the support.

    ``rows`` are the places where v is not zero, ascending and filled up to a multiple of four
    by repeats; ``values`` are v there, zero for the repeats. A task is one block of rows for
    four kernels; kernels left over go four rows at a time.
    """
    blocks = out.shape[1]
    for task in range(start, stop):
        g, b = 4 * (task // blocks), task % blocks
        first = b * BLOCK
        last = min(first + BLOCK, rows.shape[0])
        fours = g + 4 <= kernels.shape[0]  # four kernels at once, else four rows of kernel k
        for k in range(g, g + 1 if fours else kernels.shape[0]):
            k0, k1, k2, k3 = k, k + 1, k + 2, k + 3
            if not fours:
                k1 = k2 = k3 = k
            t0 = t1 = t2 = t3 = 0.0
            for a in range(first, last, 1 if fours else 4):
                i = i1 = i2 = i3 = rows[a]
                if not fours:
                    i1, i2, i3 = rows[a + 1], rows[a + 2], rows[a + 3]
                r0, r1 = K[kernels[k0], i], K[kernels[k1], i1]
                r2, r3 = K[kernels[k2], i2], K[kernels[k3], i3]
                s0 = s1 = s2 = s3 = 0.0
                for j in range(i):
                    s0 += v[j] * r0[j]
                    s1 += v[j] * r1[j]
                    s2 += v[j] * r2[j]
                    s3 += v[j] * r3[j]
                x = values[a]
                if fours:
                    t0 += x * (2.0 * s0 + x * r0[i])
                    t1 += x * (2.0 * s1 + x * r1[i])
                    t2 += x * (2.0 * s2 + x * r2[i])
                    t3 += x * (2.0 * s3 + x * r3[i])
                    continue
                y, z, w = values[a + 1], values[a + 2], values[a + 3]
                t0 += x * (2.0 * s0 + x * r0[i])  # and the four rows among themselves
                t0 += y * (2.0 * (s1 + x * r1[i]) + y * r1[i1])
                t0 += z * (2.0 * (s2 + x * r2[i] + y * r2[i1]) + z * r2[i2])
                t0 += w * (2.0 * (s3 + x * r3[i] + y * r3[i1] + z * r3[i2]) + w * r3[i3])
            out[k0, b] = t0
            if fours:
                out[k1, b], out[k2, b], out[k3, b] = t1, t2, t3


@jit
def matvecs(K: Any, kernels: Any, rows: Any, v: Any, out: Any, start: int, stop: int) -> None:
    """out[k, a] = Σ_j K_k[rows[a], j] v_j. A task is one block of rows for four kernels."""
    blocks = (rows.shape[0] + BLOCK - 1) // BLOCK
    n = v.shape[0]
    for task in range(start, stop):
        g = 4 * (task // blocks)
        first = task % blocks * BLOCK
        size = min(BLOCK, rows.shape[0] - first)
        left = kernels.shape[0] - g
        fours = (size + 3) // 4
        for step in range(size if left >= 4 else left * fours):
            if left >= 4:  # one row of four kernels
                k0, k1, k2, k3 = g, g + 1, g + 2, g + 3
                a = b = c = d = first + step
            else:  # four rows of one kernel; past the end, the last row again
                k0 = k1 = k2 = k3 = g + step // fours
                a = first + step % fours * 4
                end = first + size - 1
                b, c, d = min(a + 1, end), min(a + 2, end), min(a + 3, end)
            r0, r1 = K[kernels[k0], rows[a]], K[kernels[k1], rows[b]]
            r2, r3 = K[kernels[k2], rows[c]], K[kernels[k3], rows[d]]
            s0 = s1 = s2 = s3 = 0.0
            for j in range(n):
                s0 += v[j] * r0[j]
                s1 += v[j] * r1[j]
                s2 += v[j] * r2[j]
                s3 += v[j] * r3[j]
            out[k0, a], out[k1, b], out[k2, c], out[k3, d] = s0, s1, s2, s3


@jit
def weighted_sums(
    flat: Any, offsets: Any, weights: Any, pieces: Any, out: Any, start: int, stop: int
) -> None:
    """out[to + j] = Σ_a weights[a] · flat[offsets[a] + begin + j] for 0 ≤ j < end − begin.

    A task is one row (begin, end, to) of ``pieces``: a part of the result small enough to stay
    in cache while the terms stream past. ``offsets`` come in fours, filled up with weight zero.
    """
    for t in range(start, stop):
        begin, end, to = pieces[t, 0], pieces[t, 1], pieces[t, 2]
        size = end - begin
        piece = out[to : to + size]
        for a in range(0, offsets.shape[0], 4):
            w0, w1, w2, w3 = weights[a], weights[a + 1], weights[a + 2], weights[a + 3]
            r0 = flat[offsets[a] + begin :][:size]
            r1 = flat[offsets[a + 1] + begin :][:size]
            r2 = flat[offsets[a + 2] + begin :][:size]
            r3 = flat[offsets[a + 3] + begin :][:size]
            if a == 0:
                for j in range(size):
                    piece[j] = w0 * r0[j] + w1 * r1[j] + w2 * r2[j] + w3 * r3[j]
            else:
                for j in range(size):
                    piece[j] += w0 * r0[j] + w1 * r1[j] + w2 * r2[j] + w3 * r3[j]


@jit
def submatrices(K: Any, rows: Any, out: Any, start: int, stop: int) -> None:
    """out[k, a, b] = K[k, rows[a], rows[b]]. A task is one kernel."""
    for k in range(start, stop):
        for a in range(rows.shape[0]):
            source = K[k, rows[a]]
            target = out[k, a]
            for b in range(rows.shape[0]):
                target[b] = source[rows[b]]


@jit
def survey(K: Any, scales: Any, gaps: Any, start: int, stop: int) -> None:
    """scales[k] = max |K_k| (infinite when an entry is not finite), gaps[k] = max |K_k − K_kᵀ|."""
    n = K.shape[1]
    for k in range(start, stop):
        A = K[k]
        scale = gap = 0.0
        finite = True
        for row in range(0, n, TILE):
            for column in range(0, row + 1, TILE):
                for i in range(row, min(row + TILE, n)):
                    for j in range(column, min(column + TILE, i + 1)):
                        x, y = np.float64(A[i, j]), np.float64(A[j, i])
                        finite &= np.isfinite(x) and np.isfinite(y)
                        scale = max(scale, abs(x), abs(y))
                        gap = max(gap, abs(x - y))
        scales[k] = scale if finite else np.inf
        gaps[k] = gap


@jit
def skews(K: Any, kernels: Any, inverse: Any, out: Any, start: int, stop: int) -> None:
    """out[a] = max |K_k[i, j] − K_k[j, i]|·inverse[a, i]·inverse[a, j], k = kernels[a]."""
    n = K.shape[1]
    for a in range(start, stop):
        A, s = K[kernels[a]], inverse[a]
        largest = 0.0
        for row in range(0, n, TILE):
            for column in range(0, row + 1, TILE):
                for i in range(row, min(row + TILE, n)):
                    for j in range(column, min(column + TILE, i)):
                        gap = abs(np.float64(A[i, j]) - np.float64(A[j, i]))
                        largest = max(largest, gap * s[i] * s[j])
        out[a] = largest


@jit
def factors(K: Any, scales: Any, shifts: Any, out: Any, start: int, stop: int) -> None:
    """out[k] = whether K_k / scales[k] + shifts[k]·I has a Cholesky factor L: all pivots positive.

    By rows, four entries at a time: L[i, j] L[j, j] = K[i, j] − Σ_{q<j} L[i, q] L[j, q]. The
    diagonal of L is kept inverted.
    """
    L = np.empty(K.shape[1:])
    for k in range(start, stop):
        out[k] = True
        for i in range(len(L)):
            for first in range(0, i + 1, 4):
                last = min(first + 3, i)
                b, c = min(first + 1, last), min(first + 2, last)
                done = dots(L[first], L[b], L[c], L[last], L[i], first)
                for j in range(first, last + 1):
                    x = K[k, i, j] / scales[k] - done[j - first]
                    for q in range(first, j):
                        x -= L[i, q] * L[j, q]
                    if j < i:
                        L[i, j] = x * L[j, j]
                    elif x + shifts[k] > 0.0:
                        L[i, i] = 1.0 / np.sqrt(x + shifts[k])
                    else:
                        out[k] = False
            if not out[k]:
                break


@jit
def add_rows(K: Any, rows: Any, weights: Any, total: Any) -> None:
    """total ← total + Σ weights_i K[rows_i], four rows at a time."""
    whole = rows.size - rows.size % 4
    for i in range(0, whole, 4):
        a, b, c, d = K[rows[i]], K[rows[i + 1]], K[rows[i + 2]], K[rows[i + 3]]
        p, q, r, s = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for k in range(total.size):
            total[k] += p * a[k] + q * b[k] + r * c[k] + s * d[k]
    for i in range(whole, rows.size):
        a, p = K[rows[i]], weights[i]
        for k in range(total.size):
            total[k] += p * a[k]


# ---- the exponential of radial kernels ---------------------------------------------------------


def decay(x: Array, rate: float, out: Array) -> None:
    """Write exp(−rate · x) into ``out``, for x ≥ 0; both are C-contiguous and have the same shape.

    With −rate·x = k log 2 + r, k an integer, |r| ≤ ½ log 2, it is 2^k Σ_i r^i / i!; terms up to r¹³
    are enough. The compiled loop vectorizes on every processor, includes the product rate · x, and
    is accurate to one unit in the last place. Values below e⁻⁷⁰⁸, about 3e-308, become 0.
    """
    _decay(x.reshape(-1), rate, out.reshape(-1))


@ordered_jit
def _decay(x: Any, rate: float, out: Any) -> None:
    for i in range(x.shape[0]):
        z = -rate * x[i]
        shifted = z * _PER_LOG2 + _ROUND
        k = shifted - _ROUND
        r = (z - k * _HIGH) - k * _LOW
        p = _TERMS[13]
        for j in range(12, 1, -1):
            p = p * r + _TERMS[j]
        p = (p * r * r + r) + 1.0
        exponent = np.float64(shifted).view(np.int64) << 52
        y = np.int64(np.float64(p).view(np.int64) + exponent).view(np.float64)
        out[i] = y if z > _LEAST else (0.0 if z <= _LEAST else z)  # NaN stays NaN
