"""Compiled passes over kernels that are generated from rows, tile by tile; nothing is kept.

    entry(i, j) = Σ_k w_k (φ_k(x_i, x_j) − c_ki − c_kj) r_ki r_kj

A tile is a few rows x_i against some hundreds of columns z_j. Its distances or products are
computed once for all kernels of a view, in memory that stays in cache, and the exponentials follow.
float32 arrays get float32 entries, good to some 1e-7, and float64 arrays entries good to rounding;
sums over entries are float64. Distances are sums of squared differences: near rows lose nothing.

A compiled function here calls only compiled functions of this file: the disk cache does not
notice edits elsewhere.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.jit import jit, ordered_jit
from kernelweave._core.types import Places
from kernelweave.stacks.row_kernels import GAUSSIAN, LAPLACIAN, POLYNOMIAL

WIDTH = 256  # columns of a tile
HEIGHT = 16  # its rows
BAND = 64  # rows of a task

_LOG2E = 1.0 / math.log(2.0)
_HIGH, _LOW = float(np.float32(math.log(2.0))), -1.904654299957768e-09  # log 2; k · _HIGH is exact
_SERIES = tuple(1.0 / math.factorial(i) for i in range(14))
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the last bits
_LEAST = -708.0

# 2^r for |r| ≤ ½ up to a relative error of 7.5e-8: the minimax polynomial of degree 5
_P0, _P1, _P2 = np.float32(1.00000007), np.float32(0.69314697), np.float32(0.2402212)
_P3, _P4, _P5 = np.float32(0.05550713), np.float32(0.00967554), np.float32(0.00132765)
_LOG2E_32, _ROUND_32, _LEAST_32 = np.float32(_LOG2E), np.float32(1.5 * 2.0**23), np.float32(-126.0)


class Recipes(NamedTuple):
    """Kernels view by view, for compiled code.

    View v reads the columns ``columns[v, 0]`` to ``columns[v, 1]`` of the rows, and has the kernels
    ``kernels[v, 0]`` to ``kernels[v, 1]``. ``kinds``, ``a`` and ``b`` are those of ``RowKernels``.
    ``weights`` include the scales. ``normed`` says which kernels have ``means`` and ``norms`` of
    their own, in the row of this number; −1: none.
    """

    columns: Places
    kernels: Places
    kinds: Places
    a: NDArray[Any]
    b: Places
    weights: NDArray[Any]
    normed: Places


class TileSide(NamedTuple):
    """Some of the rows: ``x`` (size, columns), and what normalizes the kernels there.

    ``shift`` is taken off all entries; ``means`` and ``norms`` are (kernels with their own, size).
    """

    x: NDArray[Any]
    shift: NDArray[Any]
    means: NDArray[Any]
    norms: NDArray[Any]


@ordered_jit
def _squares(x, z, first, last, out):  # type: ignore[no-untyped-def]
    """Row by row, Σ_c (x_ic − z_cj)² for the columns ``first`` ≤ j < ``last`` of z."""
    rows, columns, size = x.shape[0], x.shape[1], last - first
    for p in range(rows * size):
        out[p] = 0
    whole = columns - columns % 4
    for c in range(0, whole, 4):
        z0, z1 = z[c, first:last], z[c + 1, first:last]
        z2, z3 = z[c + 2, first:last], z[c + 3, first:last]
        for i in range(rows):
            x0, x1, x2, x3 = x[i, c], x[i, c + 1], x[i, c + 2], x[i, c + 3]
            target = out[i * size : (i + 1) * size]
            for j in range(size):
                t0, t1, t2, t3 = x0 - z0[j], x1 - z1[j], x2 - z2[j], x3 - z3[j]
                target[j] += (t0 * t0 + t1 * t1) + (t2 * t2 + t3 * t3)
    for c in range(whole, columns):
        z0 = z[c, first:last]
        for i in range(rows):
            x0, target = x[i, c], out[i * size : (i + 1) * size]
            for j in range(size):
                t0 = x0 - z0[j]
                target[j] += t0 * t0


@ordered_jit
def _differences(x, z, first, last, out):  # type: ignore[no-untyped-def]
    """The same of Σ_c |x_ic − z_cj|."""
    rows, columns, size = x.shape[0], x.shape[1], last - first
    for p in range(rows * size):
        out[p] = 0
    whole = columns - columns % 4
    for c in range(0, whole, 4):
        z0, z1 = z[c, first:last], z[c + 1, first:last]
        z2, z3 = z[c + 2, first:last], z[c + 3, first:last]
        for i in range(rows):
            x0, x1, x2, x3 = x[i, c], x[i, c + 1], x[i, c + 2], x[i, c + 3]
            target = out[i * size : (i + 1) * size]
            for j in range(size):
                t0, t1, t2, t3 = x0 - z0[j], x1 - z1[j], x2 - z2[j], x3 - z3[j]
                target[j] += (abs(t0) + abs(t1)) + (abs(t2) + abs(t3))
    for c in range(whole, columns):
        z0 = z[c, first:last]
        for i in range(rows):
            x0, target = x[i, c], out[i * size : (i + 1) * size]
            for j in range(size):
                target[j] += abs(x0 - z0[j])


@ordered_jit
def _products(x, z, first, last, out):  # type: ignore[no-untyped-def]
    """The same of Σ_c x_ic z_cj."""
    rows, columns, size = x.shape[0], x.shape[1], last - first
    for p in range(rows * size):
        out[p] = 0
    whole = columns - columns % 4
    for c in range(0, whole, 4):
        z0, z1 = z[c, first:last], z[c + 1, first:last]
        z2, z3 = z[c + 2, first:last], z[c + 3, first:last]
        for i in range(rows):
            x0, x1, x2, x3 = x[i, c], x[i, c + 1], x[i, c + 2], x[i, c + 3]
            target = out[i * size : (i + 1) * size]
            for j in range(size):
                target[j] += (x0 * z0[j] + x1 * z1[j]) + (x2 * z2[j] + x3 * z3[j])
    for c in range(whole, columns):
        z0 = z[c, first:last]
        for i in range(rows):
            x0, target = x[i, c], out[i * size : (i + 1) * size]
            for j in range(size):
                target[j] += x0 * z0[j]


@ordered_jit
def _decay_32(x, rate, out):  # type: ignore[no-untyped-def]
    """out = exp(−rate·x) in float32: −rate·x·log₂e = k + r, k whole; at least 1e-38."""
    slope = -np.float32(rate) * _LOG2E_32
    for j in range(out.size):
        s = slope * np.float32(x[j])
        s = s if s > _LEAST_32 else _LEAST_32
        shifted = s + _ROUND_32
        r = s - (shifted - _ROUND_32)
        p = ((((_P5 * r + _P4) * r + _P3) * r + _P2) * r + _P1) * r + _P0
        exponent = np.float32(shifted).view(np.int32) << np.int32(23)
        out[j] = np.int32(np.float32(p).view(np.int32) + exponent).view(np.float32)


@ordered_jit
def _decay_64(x, rate, out):  # type: ignore[no-untyped-def]
    """out = exp(−rate·x): −rate·x = k log 2 + r, terms up to r¹³; values below e⁻⁷⁰⁸ are zero."""
    for j in range(out.size):
        z = -rate * x[j]
        shifted = z * _LOG2E + _ROUND
        k = shifted - _ROUND
        r = (z - k * _HIGH) - k * _LOW
        p = _SERIES[13]
        for i in range(12, 1, -1):
            p = p * r + _SERIES[i]
        p = (p * r * r + r) + 1.0
        exponent = np.float64(shifted).view(np.int64) << 52
        y = np.int64(np.float64(p).view(np.int64) + exponent).view(np.float64)
        out[j] = y if z > _LEAST else 0.0


@ordered_jit
def _values(kind, a, b, base, out):  # type: ignore[no-untyped-def]
    """φ(x_i, z_j), from squared distances, distances or products."""
    if kind == POLYNOMIAL:
        for p in range(out.size):
            out[p] = base[p] + a
        for _ in range(b - 1):
            for p in range(out.size):
                out[p] *= base[p] + a
    elif out.itemsize == 4:
        _decay_32(base, a, out)
    else:
        _decay_64(base, a, out)


@ordered_jit
def _shared(recipes, v, x, z, first, last, room):  # type: ignore[no-untyped-def]
    """What the kernels of view v share, by kind, for the rows x and some columns of z."""
    begin, end = recipes.columns[v, 0], recipes.columns[v, 1]
    own, other, size = x[:, begin:end], z[begin:end], x.shape[0] * (last - first)
    squares = differences = products = False
    for k in range(recipes.kernels[v, 0], recipes.kernels[v, 1]):
        squares |= recipes.kinds[k] == GAUSSIAN
        differences |= recipes.kinds[k] == LAPLACIAN
        products |= recipes.kinds[k] == POLYNOMIAL
    if squares:
        _squares(own, other, first, last, room[GAUSSIAN, :size])
    if differences:
        _differences(own, other, first, last, room[LAPLACIAN, :size])
    if products:
        _products(own, other, first, last, room[POLYNOMIAL, :size])


@ordered_jit
def _tile(recipes, left, top, bottom, z, right, first, last, room, out):  # type: ignore[no-untyped-def]
    """Row by row, all entries of a tile; ``room`` has work space for four tiles."""
    width = last - first
    size = (bottom - top) * width
    phi = room[3, :size]
    for p in range(size):
        out[p] = 0
    for v in range(recipes.columns.shape[0]):
        _shared(recipes, v, left.x[top:bottom], z, first, last, room)
        for k in range(recipes.kernels[v, 0], recipes.kernels[v, 1]):
            kind, at, w = recipes.kinds[k], recipes.normed[k], recipes.weights[k]
            _values(kind, recipes.a[k], recipes.b[k], room[kind, :size], phi)
            if at < 0:
                for p in range(size):
                    out[p] += w * phi[p]
                continue
            cs, rs = right.means[at, first:last], right.norms[at, first:last]
            for i in range(top, bottom):
                c, r = left.means[at, i], w * left.norms[at, i]
                row = phi[(i - top) * width : (i - top + 1) * width]
                target = out[(i - top) * width : (i - top + 1) * width]
                for j in range(width):
                    target[j] += (row[j] - (c + cs[j])) * (r * rs[j])
    cs = right.shift[first:last]
    for i in range(top, bottom):
        c, target = left.shift[i], out[(i - top) * width : (i - top + 1) * width]
        for j in range(width):
            target[j] -= c + cs[j]


@ordered_jit
def fill(recipes, side, z, K, start, stop):  # type: ignore[no-untyped-def]
    """K ← all entries among the rows of ``side``; z is its x, transposed.

    A task is two bands of rows of the lower triangle, mirrored at once: one from above and one from
    below, which together are as long for all tasks.
    """
    n = side.x.shape[0]
    bands = (n + BAND - 1) // BAND
    room, tile = np.empty((4, HEIGHT * WIDTH), K.dtype), np.empty(BAND * WIDTH, K.dtype)
    for task in range(start, stop):
        for top in (task * BAND, (bands - 1 - task) * BAND):
            bottom = min(top + BAND, n)
            for first in range(0, bottom, WIDTH):
                last = min(first + WIDTH, bottom)
                size = last - first
                for i in range(top, bottom, HEIGHT):
                    end = min(i + HEIGHT, bottom)
                    part = tile[(i - top) * size : (end - top) * size]
                    _tile(recipes, side, i, end, z, side, first, last, room, part)
                for i in range(top, bottom):
                    row, target = tile[(i - top) * size :], K[i, first:last]
                    for j in range(min(size, i + 1 - first)):
                        target[j] = row[j]
                for j in range(first, last):
                    target, column = K[j], tile[j - first :]
                    for i in range(max(top, j + 1), bottom):
                        target[i] = column[(i - top) * size]
            if top == (bands - 1 - task) * BAND:  # the band in the middle is one
                break


@ordered_jit
def block(recipes, left, right, z, out, start, stop):  # type: ignore[no-untyped-def]
    """out[i, j] = entry(i, j) for the rows of ``left`` and of ``right``; z is x of ``right``.

    A task is a band of rows.
    """
    size, kind = right.x.shape[0], left.x.dtype
    room, tile = np.empty((4, HEIGHT * WIDTH), kind), np.empty(HEIGHT * WIDTH, kind)
    for task in range(start, stop):
        end = min((task + 1) * BAND, left.x.shape[0])
        for first in range(0, size, WIDTH):
            last = min(first + WIDTH, size)
            for top in range(task * BAND, end, HEIGHT):
                bottom = min(top + HEIGHT, end)
                _tile(recipes, left, top, bottom, z, right, first, last, room, tile)
                for i in range(top, bottom):
                    row, target = tile[(i - top) * (last - first) :], out[i, first:last]
                    for j in range(last - first):
                        target[j] = row[j]


@jit
def _dot(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(y.size):
        total += x[j] * y[j]
    return total


@jit
def _add(x, w, out):  # type: ignore[no-untyped-def]
    for j in range(out.size):
        out[j] += w * x[j]


@ordered_jit
def products(recipes, left, right, z, V, out, start, stop):  # type: ignore[no-untyped-def]
    """out[c, i] = Σ_j entry(i, j) V[c, j]. A task is a band of rows."""
    size, kind = right.x.shape[0], left.x.dtype
    room, tile = np.empty((4, HEIGHT * WIDTH), kind), np.empty(HEIGHT * WIDTH, kind)
    for task in range(start, stop):
        end = min((task + 1) * BAND, left.x.shape[0])
        for first in range(0, size, WIDTH):
            last = min(first + WIDTH, size)
            for top in range(task * BAND, end, HEIGHT):
                bottom = min(top + HEIGHT, end)
                _tile(recipes, left, top, bottom, z, right, first, last, room, tile)
                for i in range(top, bottom):
                    row = tile[(i - top) * (last - first) :]
                    for c in range(V.shape[0]):
                        found = _dot(row, V[c, first:last])
                        out[c, i] = found if first == 0 else out[c, i] + found


@ordered_jit
def matvecs(recipes, x, z, V, out, start, stop):  # type: ignore[no-untyped-def]
    """out[k, i] = Σ_j φ_k(x_i, z_j) V[k, j]. A task is a band of rows."""
    room = np.empty((4, HEIGHT * WIDTH), x.dtype)
    for task in range(start, stop):
        end = min((task + 1) * BAND, x.shape[0])
        out[:, task * BAND : end] = 0.0
        for first in range(0, V.shape[1], WIDTH):
            last = min(first + WIDTH, V.shape[1])
            for top in range(task * BAND, end, HEIGHT):
                bottom = min(top + HEIGHT, end)
                _sums(recipes, x, top, bottom, z, first, last, room, V, out, False)


@ordered_jit
def symmetric_matvecs(recipes, x, z, V, out, start, stop):  # type: ignore[no-untyped-def]
    """Σ_t out[t, k, i] = Σ_j φ_k(x_i, x_j) V[k, j]: the rows among themselves.

    Entries below the diagonal are computed once, and count for both of their rows. A task is every
    so manieth strip of ``HEIGHT`` rows, with a sum of its own.
    """
    n, strips = x.shape[0], out.shape[0]
    room = np.empty((4, HEIGHT * WIDTH), x.dtype)
    for task in range(start, stop):
        sums = out[task]
        sums[:] = 0.0
        for top in range(task * HEIGHT, n, strips * HEIGHT):
            bottom = min(top + HEIGHT, n)
            for first in range(0, top, WIDTH):
                last = min(first + WIDTH, top)
                _sums(recipes, x, top, bottom, z, first, last, room, V, sums, True)
            _sums(recipes, x, top, bottom, z, top, bottom, room, V, sums, False)


@ordered_jit
def _sums(recipes, x, top, bottom, z, first, last, room, V, out, both):  # type: ignore[no-untyped-def]
    """out[k, i] += Σ_j φ_k(x_i, z_j) V[k, j] over a tile; if ``both``, also the other way."""
    width = last - first
    size = (bottom - top) * width
    phi = room[3, :size]
    for v in range(recipes.columns.shape[0]):
        _shared(recipes, v, x[top:bottom], z, first, last, room)
        for k in range(recipes.kernels[v, 0], recipes.kernels[v, 1]):
            kind = recipes.kinds[k]
            _values(kind, recipes.a[k], recipes.b[k], room[kind, :size], phi)
            for i in range(top, bottom):
                row = phi[(i - top) * width : (i - top + 1) * width]
                out[k, i] += _dot(row, V[k, first:last])
                if both:
                    _add(row, V[k, i], out[k, first:last])
