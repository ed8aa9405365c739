"""Gradient projection with the Armijo rule along the projection arc [gai2010, §5].

    x⁺ = P(x − tD∇f(x)),   t backtracked until   f(x⁺) ≤ f(x) − σ ∇f(x)ᵀ(x − x⁺)

x are nonnegative weights, D = diag(max(x, 0.01 max x)), and P projects in the norm of D⁻¹: small
weights take small steps, which on 20 kernels saves two evaluations of three. The first t of an
iteration is the spectral one, ΔxᵀD⁻¹Δx/ΔxᵀΔ∇f of the step before, so that most iterations need
one evaluation.

``plain`` is the paper's own: D = I, and t is halved until the step falls, from twice the last one
that did. The paper does not say where the first t begins; ours moves the weight with the largest
slope by the largest weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import numpy as np

from kernelweave._core.types import Array

_ARMIJO = 1e-4
_SHRINK = 0.1, 0.5  # how much shorter the next trial of a line search is
_LEAST = 0.01  # of D, relative to its largest entry


class Differentiable(Protocol):
    """What an evaluation has to tell."""

    @property
    def value(self) -> float:
        """f(x)."""
        ...

    @property
    def gradient(self) -> Array:
        """∇f(x)."""
        ...


Evaluation = TypeVar("Evaluation", bound=Differentiable)
Project = Callable[[Array, Array], Array]  # of x in the norm of D⁻¹, D given by its diagonal


def projected_gradient(
    evaluate: Callable[[Array], Evaluation],
    project: Project,
    x: Array,
    precision: float,
    plain: bool = False,
) -> Iterator[tuple[Array, Evaluation]]:
    """Points of falling value with their evaluations, from ``x``.

    Ends where no step falls, or promises a relative fall above ``precision``, to which values are
    known.
    """
    even = np.ones(x.size)
    x = project(x, even)
    now = evaluate(x)
    yield x, now
    metric = even if plain else _metric(x)
    size = float(np.abs(metric * now.gradient).max())
    step = float(x.max()) / size if size > 0.0 else 0.0
    while step > 0.0:
        found = _search(evaluate, project, x, now, metric, step, precision, plain)
        if found is None:
            return
        x_new, new, step = found
        if plain:
            step *= 2.0
        else:
            step = _spectral(x_new - x, new.gradient - now.gradient, metric, 10.0 * step)
            metric = _metric(x_new)
        x, now = x_new, new
        yield x, now


def _metric(x: Array) -> Array:
    return np.maximum(x, _LEAST * x.max())


def _spectral(along: Array, bend: Array, metric: Array, longest: float) -> float:
    """The step that the last one would have been, had f the curvature that was seen there."""
    curvature = float(along @ bend)
    length = float(along @ (along / metric))
    return min(length / curvature, longest) if curvature > 0.0 else longest


def _search(
    evaluate: Callable[[Array], Evaluation],
    project: Project,
    x: Array,
    now: Evaluation,
    metric: Array,
    step: float,
    precision: float,
    plain: bool,
) -> tuple[Array, Evaluation, float] | None:
    """The first point along the arc that falls enough, with its step."""
    for _ in range(30):
        x_new = project(x - step * metric * now.gradient, metric)
        fall = float(now.gradient @ (x - x_new))
        if not fall > precision * abs(now.value):
            return None
        new = evaluate(x_new)
        if new.value <= now.value - _ARMIJO * fall:
            return x_new, new, step
        if plain:
            step *= 0.5
            continue
        bend = new.value - now.value + fall  # of the parabola through both values and the slope
        shorter = 0.5 * fall / bend if bend > 0.0 else _SHRINK[1]
        step *= float(np.clip(shorter, *_SHRINK))
    return None
