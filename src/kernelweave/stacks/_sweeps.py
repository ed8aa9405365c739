"""The compiled sweeps over a stack of factors: row r of G is one column of some F_k.

The factor of kernel k is the rows ends[k] to ends[k + 1]. A task is one kernel; its result does not
depend on who does the others, so that the bits are the same for every number of threads. Factors
may be float32; sums are float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.jit import jit


@jit
def quad_forms(G: Any, ends: Any, kernels: Any, v: Any, out: Any, start: int, stop: int) -> None:
    """out[a] = ‖F_kᵀv‖², k = kernels[a]."""
    n = v.shape[0]
    for a in range(start, stop):
        k = kernels[a]
        total = 0.0
        for r in range(ends[k], ends[k + 1]):
            row = G[r]
            z = 0.0
            for j in range(n):
                z += row[j] * v[j]
            total += z * z
        out[a] = total


@jit
def matvecs(G: Any, ends: Any, kernels: Any, v: Any, out: Any, start: int, stop: int) -> None:
    """out[a] = F_k(F_kᵀv); each row of G is used twice while it is in cache."""
    n = v.shape[0]
    for a in range(start, stop):
        k = kernels[a]
        target = out[a]
        for j in range(n):
            target[j] = 0.0
        for r in range(ends[k], ends[k + 1]):
            row = G[r]
            z = 0.0
            for j in range(n):
                z += row[j] * v[j]
            for j in range(n):
                target[j] += z * row[j]


@jit
def diagonals(G: Any, ends: Any, kernels: Any, out: Any, start: int, stop: int) -> None:
    """out[a, i] = Σ_r F_k[i, r]²."""
    n = G.shape[1]
    for a in range(start, stop):
        k = kernels[a]
        target = out[a]
        for j in range(n):
            target[j] = 0.0
        for r in range(ends[k], ends[k + 1]):
            row = G[r]
            for j in range(n):
                x = np.float64(row[j])
                target[j] += x * x


@jit
def scaled(
    G: Any, ends: Any, kernels: Any, scale: Any, firsts: Any, out: Any, start: int, stop: int
) -> None:
    """The rows of F_kᵀ times scale[a], in ``out`` from firsts[a] on."""
    n = G.shape[1]
    for a in range(start, stop):
        k = kernels[a]
        for r in range(ends[k + 1] - ends[k]):
            row, target = G[ends[k] + r], out[firsts[a] + r]
            for j in range(n):
                target[j] = scale[a] * row[j]
