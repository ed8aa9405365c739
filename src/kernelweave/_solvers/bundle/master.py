"""The small problem a learner solves between two SVMs: next weights from what is known of J.

    min_{e ∈ Δ}  max_k (a_k − g_k·e)  +  ½ (e − ē)ᵀ(diag(δ) + BᵀB)(e − ē)

The cuts a_k − g_k·e are lower bounds of J from past solutions; the quadratic term keeps e near
the centre ē, with the curvature of J in BᵀB where a learner knows it. A primal-dual interior
point method (``interior_point``) solves it over the few kernels that matter; kernels whose
multiplier says that they should enter join until none is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.tolerances import ENTER, EPS, TINY
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.interior_point import NarrowSystem, Program, follow
from kernelweave._solvers.bundle.wide_system import WideSystem

_ENTER = 20  # kernels that may join the working set at a time
_WIDE = 100  # kernels from which on it doubles, and the wide system pays


def solve_master(
    a: Array, g: Array, center: Array, delta: float | Array, factor: Array | None = None
) -> tuple[Array, Array]:
    """The minimiser e, and the multipliers λ of the cuts (a convex combination).

    ``delta`` is one number, or one for each kernel.
    """
    unit = max(float(np.abs((a - g @ center).max())), EPS * float(np.abs(g).max()), TINY)
    damping = np.broadcast_to(np.asarray(delta, dtype=float), center.shape)
    B = np.empty((0, center.size)) if factor is None else factor
    pull = -damping * center - (B @ center) @ B  # linear part of the quadratic term
    likely = [_largest(cut - pull, _ENTER) for cut in g[-3:]]
    likely.append(_largest(center * g[-1], 3 * _ENTER, above=0.0))
    working = np.unique(np.concatenate(likely))
    while True:
        columns, part = np.ascontiguousarray(g[:, working]), B[:, working]
        x, multipliers, level = _interior_point(
            a, columns, pull[working], damping[working], part, unit
        )
        price = pull - multipliers @ g + (part @ x) @ B + level
        price[working] = 0.0
        if not price.min() < -ENTER * unit:
            break
        count = _ENTER if working.size < _WIDE else working.size
        working = np.union1d(working, _largest(-price, count, above=ENTER * unit))
    matters = x * columns.max(axis=0)
    x[matters < ENTER * min(unit, float(matters.max()))] = 0.0
    e = np.zeros(center.size)
    e[working] = x / x.sum()
    return e, multipliers


def _largest(x: Array, count: int, above: float = -np.inf) -> NDArray[np.intp]:
    """Places of the ``count`` largest entries that exceed ``above``."""
    places = np.argpartition(-x, count)[:count] if count < x.size else np.arange(x.size)
    return places[x[places] > above]


def _interior_point(
    a: Array, g: Array, pull: Array, damping: Array, B: Array, unit: float
) -> tuple[Array, Array, float]:
    """The minimizer e, λ and the multiplier of Σe = 1, computed in units of ``unit``."""
    size, shift = pull.size, float(g.min())
    program = Program(
        (a - a.max()) / unit, (g - shift) / unit, pull / unit, damping / unit, B / np.sqrt(unit)
    )
    path = None
    if size > max(_WIDE, len(B) + a.size):
        path = follow(program, WideSystem(program))
    if path is None or not path.ended:
        path = follow(program, NarrowSystem(program))
    return path.e / path.e.sum(), path.lam / path.lam.sum(), unit * path.nu + shift
