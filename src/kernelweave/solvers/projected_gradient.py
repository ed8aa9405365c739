"""Gradient projection with the Armijo rule along the projection arc [gai2010, §5].

    x⁺ = P(x − t∇f(x)),   t backtracked until   f(x⁺) ≤ f(x) − σ ∇f(x)ᵀ(x − x⁺)

The first t of an iteration is the spectral one, ‖Δx‖²/ΔxᵀΔ∇f of the step before, so that most
iterations need one evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ARMIJO = 1e-4
_SHRINK = 0.1, 0.5  # how much shorter the next trial of a line search is


class Valued(Protocol):
    """What an evaluation has to tell."""

    @property
    def value(self) -> float:
        """f(x)."""
        ...

    @property
    def gradient(self) -> Array:
        """∇f(x)."""
        ...


State = TypeVar("State", bound=Valued)


def projected_gradient(
    evaluate: Callable[[Array], State], project: Callable[[Array], Array], x: Array
) -> Iterator[tuple[Array, State]]:
    """Points of falling value with their evaluations, from ``x``; ends where no step falls."""
    x = project(x)
    now = evaluate(x)
    yield x, now
    size = float(np.abs(now.gradient).max())
    step = float(np.abs(x).max()) / size if size > 0.0 else 0.0
    while step > 0.0:
        found = _search(evaluate, project, x, now, step)
        if found is None:
            return
        x_new, new, step = found
        along, bend = x_new - x, new.gradient - now.gradient
        curvature = float(along @ bend)
        longest = 10.0 * step
        step = min(float(along @ along) / curvature, longest) if curvature > 0.0 else longest
        x, now = x_new, new
        yield x, now


def _search(
    evaluate: Callable[[Array], State],
    project: Callable[[Array], Array],
    x: Array,
    now: State,
    step: float,
) -> tuple[Array, State, float] | None:
    """The first point along the arc that falls enough, with its step."""
    for _ in range(30):
        x_new = project(x - step * now.gradient)
        fall = float(now.gradient @ (x - x_new))
        if not fall > 1e-15 * abs(now.value):
            return None
        new = evaluate(x_new)
        if new.value <= now.value - _ARMIJO * fall:
            return x_new, new, step
        bend = new.value - now.value + fall  # of the parabola through both values and the slope
        shorter = 0.5 * fall / bend if bend > 0.0 else _SHRINK[1]
        step *= float(np.clip(shorter, *_SHRINK))
    return None

