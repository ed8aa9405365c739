"""Kernels as seen from the mean of their points.

    K̃_ij = K_ij − k_i − k_j,    k_i = mean_j K_ij − ½ mean_jl K_jl

A number added to a whole kernel moves all points alike: no distance between them changes, no
vᵀKv with Σv = 0, no enclosing ball. But it takes digits from all of these. Where the mean is far
larger than what varies it is subtracted before anything else is computed. What then is left of
the trace, tr K̃, says whether the points differ at all: n times their mean squared distance from
the mean, it lies between R² and nR² of the enclosing ball.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kernelweave._core.checks import check_nonnegative, some
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave.machines.oracle import Point, Stack
from kernelweave.stacks.dense import KernelStack

_SMALL = 1e-6  # share of the trace below which centring saves digits
_ROUNDING = 1000.0  # units in the last place of the trace: less than that is no spread


class PointsCoincide(ValueError):
    """No kernel at hand tells any points apart."""


@dataclass(frozen=True)
class Centred:
    """A stack of which only differences between points count.

    ``spreads`` are tr K̃_m, exactly zero where all points coincide under a kernel, up to rounding.
    ``offsets`` are k, (m, n), where the kernels had to be centred; ``stack`` are then copies.
    """

    stack: Stack
    spreads: Array
    offsets: Array | None = None

    def weights(self, name: str, weights: ArrayLike) -> Array:
        """``weights`` ≥ 0, set to zero where all points coincide; at least one is left."""
        d = check_nonnegative(name, weights, self.spreads.size)
        blind = self.spreads == 0.0
        if blind.all():
            raise PointsCoincide(
                f"all points coincide under {_named(blind)}: no kernel has an enclosing ball with "
                "a radius"
            )
        used = np.where(blind, 0.0, d)
        if not used.any():
            where = f" but for {_named(blind & (d > 0.0))}, where all points coincide"
            raise ValueError(
                f"{name} must be positive for some kernel under which points differ, found "
                f"zeros{where if d.any() else ''}"
            )
        return used

    def refuse_blind(self, why: str) -> None:
        """Complain about kernels under which all points coincide."""
        blind = self.spreads == 0.0
        if blind.any():
            raise ValueError(f"all points coincide under {_named(blind)}: {why}")

    def values(self, weights: Array, f: Array, v: Array) -> Array:
        """Σ_m weights_m K_m v, from f = Σ_m weights_m K̃_m v."""
        if self.offsets is None:
            return f
        k = weights @ self.offsets
        return f + k * v.sum() + k @ v

    def bias(self, weights: Array, point: Point) -> float:
        """The bias of a machine on K̃, for K as it was given: f differs by k·v, since Σv = 0."""
        if self.offsets is None:
            return point.bias
        k = weights @ self.offsets
        return point.bias - point.scale * float((k - k.mean()) @ point.v)


def centred(stack: Stack) -> Centred:
    """The kernels centred if one of them gains by it, as they are otherwise."""
    traces = stack.traces()
    spreads = traces - stack.quad_forms(np.ones(stack.n)) / stack.n
    if ((spreads > _SMALL * traces) | (traces == 0.0)).all():
        return Centred(stack, np.where(traces > 0.0, spreads, 0.0))
    copies, offsets = KernelStack.allocate(stack.m, stack.n), np.empty((stack.m, stack.n))
    lost = np.zeros(stack.m, dtype=bool)
    unit = np.zeros(stack.m)
    for k in range(stack.m):
        unit[k] = 1.0
        copies[k], offsets[k], spreads[k], lost[k] = centre(stack.combine(unit), stack.precision)
        unit[k] = 0.0
    if lost.any():
        warn_lost(_named(lost))
    jobs = getattr(stack, "n_jobs", None)
    return Centred(KernelStack(copies, check=False, n_jobs=jobs), spreads, offsets)


def centre(K: Array, kind: DTypeLike = np.float64) -> tuple[Array, Array, float, bool]:
    """K̃, k, tr K̃, and whether something that varies is lost in rounding of numbers of ``kind``.

    It is then taken for zero, as it is for constant kernels.
    """
    corner = float(K[0, 0])
    A = K - corner  # exact where all entries are alike
    k = A.mean(axis=1)
    k -= 0.5 * k.mean()
    A -= np.add.outer(k, k)
    spread = float(np.trace(A))
    k += 0.5 * corner
    if spread > _ROUNDING * np.finfo(kind).eps * float(np.trace(K)):
        return A, k, spread, False
    return np.zeros_like(A), k, 0.0, bool(A.any())


def warn_lost(name: str) -> None:
    """Say that a kernel counts as constant though it is not quite."""
    warn(
        f"{name}: what varies is so little beside the constant part that it is lost in rounding; "
        "all points count as one; subtract the constant before it is added, if you can",
    )


def _named(which: NDArray[np.bool_]) -> str:
    """K[0], K[2] and 4 more."""
    return some(f"K[{place}]" for place in np.flatnonzero(which))
