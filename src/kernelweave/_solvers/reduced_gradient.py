"""One iteration on the simplex: a reduced gradient and a line search [rakoto2007, Alg. 1].

    D_m = ∂J_μ − ∂J_m,  or 0 where e_m = 0 and that is negative,     D_μ = −Σ_{m≠μ} D_m

∂J_m = −½q_m is the slope of J in e_m, and μ the largest weight. The iteration ends where J is least
along D, at most where the first weight reaches zero; golden section finds that place, with one SVM
per look, started from the one before. ``short_steps`` asks only that J falls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kernelweave._core.types import Array
from kernelweave.stacks.mixed import between

if TYPE_CHECKING:
    from kernelweave.machines.evaluator import Evaluator
    from kernelweave.machines.machine import Point

_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_BRACKET, _SECTIONS = 0.1, 60  # the bracket is closed to this share of the step; at most so often
_HALVINGS = 6  # of a step that is looked for coarsely


def descent_step(
    evaluator: Evaluator, point: Point, q: Array, tol: float, small: float = 1e-8, *, drop: bool
) -> Point:
    """One iteration: the point after the line search, ``point`` itself if J did not fall.

    ``q`` is that of ``point``; SVMs are solved to ``tol``. Weights below ``small`` become zero.
    ``drop`` first goes, while J falls, to where a weight reaches zero and on without that weight.
    Where that weight is μ itself, the largest of the others takes its place.
    """
    gradient = -0.5 * q
    largest, end = int(np.argmax(point.e)), point
    while True:
        e = _first_zero(end.e, gradient, largest)
        if e is None:
            break
        trial = evaluator.solve(e, tol)
        if not (drop and trial.value < end.value):
            end = _line_search(evaluator, end, trial, tol)
            break
        end = trial
        if end.e[largest] <= 0.0:
            largest = int(np.argmax(end.e))
    e = _on_simplex(end.e, small)
    return end if (e > 0.0).sum() == (end.e > 0.0).sum() else evaluator.solve(e, tol)


def short_steps(evaluator: Evaluator, point: Point, tol: float) -> Iterator[Point]:
    """The points at the end of D, at half of it, …: J falls at the last, or at none of a few."""
    e = _first_zero(point.e, -0.5 * point.q, int(np.argmax(point.e)))
    if e is None:
        return
    for halving in range(_HALVINGS):
        trial = evaluator.solve(point.e + 0.5**halving * (e - point.e), tol)
        yield trial
        if trial.value < point.value:
            return


def _first_zero(e: Array, gradient: Array, largest: int) -> Array | None:
    """The weights along D where the first of them reaches zero; None where D does not descend."""
    direction = reduced(e, gradient, largest)
    falling = np.flatnonzero(direction < 0.0)
    if not falling.size or float(direction @ gradient) >= 0.0:
        return None
    reach = -e[falling] / direction[falling]
    there = e + reach.min() * direction
    there[falling[int(np.argmin(reach))]] = 0.0
    return _on_simplex(there, 0.0)


def reduced(e: Array, gradient: Array, largest: int) -> Array:
    """D, with μ = ``largest``: it sums to zero, and no weight that is zero falls."""
    direction = gradient[largest] - gradient
    direction[(e <= 0.0) & (direction < 0.0)] = 0.0
    direction[largest] = -direction.sum()
    return direction


def _line_search(evaluator: Evaluator, point: Point, end: Point, tol: float) -> Point:
    """Where J is least on the line from ``point`` to ``end``, by golden section."""

    def at(share: float) -> Point:
        e = (1.0 - share) * point.e + share * end.e
        return evaluator.solve(e, tol, K=between(point.K, end.K, share))

    low, high, left, right = 0.0, 1.0, 1.0 - _GOLDEN, _GOLDEN
    one, other = at(left), at(right)
    looks = [(0.0, point), (1.0, end), (left, one), (right, other)]
    for _ in range(_SECTIONS):
        best, found = min(looks, key=lambda look: look[1].value)
        if high - low <= _BRACKET * best:
            break
        if one.value <= other.value:
            high, right, other = right, left, one
            left = high - _GOLDEN * (high - low)
            one = at(left)
            looks = [(best, found), (left, one)]
        else:
            low, left, one = left, right, other
            right = low + _GOLDEN * (high - low)
            other = at(right)
            looks = [(best, found), (right, other)]
    share, found = min(looks, key=lambda look: look[1].value)
    if share in (0.0, 1.0):
        return found
    return evaluator.solve(found.e, tol, found.v)  # under its own kernel, without rounding of two


def _on_simplex(e: Array, small: float) -> Array:
    """Nonnegative weights that sum to one, small ones zero."""
    e = np.where(e >= min(small, e.max()), np.maximum(e, 0.0), 0.0)
    return e / e.sum()
