"""Kernels as seen from the mean of their points.

    K̃_ij = K_ij − k_i − k_j,    k_i = mean_j K_ij − ½ mean_jl K_jl

A number added to a whole kernel moves all points alike: no distance between them changes, no
vᵀKv with Σv = 0, no enclosing ball. But it takes digits from all of these. Where the mean is far
larger than what varies it is subtracted before anything else is computed. What then is left of
the trace, tr K̃, says whether the points differ at all: n times their mean squared distance from
the mean, it lies between R² and nR² of the enclosing ball.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.blocks import blocks
from kernelweave._core.checks import check_nonnegative, check_vector, some
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Index, Mask
from kernelweave._solvers.enclosing_ball import LOST, PointsCoincide, warn_lost
from kernelweave.machines.machine import Point
from kernelweave.stacks._passes import frozen
from kernelweave.stacks.combined import BlockCombined
from kernelweave.stacks.defaults import BlockStack
from kernelweave.stacks.dense import DenseCombined
from kernelweave.stacks.protocol import CombinedKernel, Stack

_SMALL = 1e-6  # share of the trace below which centering saves digits


class CenteredStack(BlockStack):
    """A view of a stack: each kernel less its constant part, computed as it is read.

    ``corners`` are numbers that are exact to subtract, ``offsets`` the rest of k. Kernels under
    which all points coincide, up to rounding, are zero.
    """

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.n, self.m = stack.n, stack.m
        self.corners = np.array([_entry(stack, k) for k in range(stack.m)])
        self.offsets = np.empty((stack.m, stack.n))
        self.is_lost = np.zeros(stack.m, dtype=bool)
        self.centered_traces = np.empty(stack.m)
        self._blind = np.zeros(stack.m, dtype=bool)
        for k in range(stack.m):
            self._learn(k)

    def _learn(self, k: int) -> None:
        """k, tr K̃, and whether something that varies is lost in rounding."""
        every, means = np.arange(self.n), np.empty(self.n)
        for part in blocks(self.n, 1, SETTINGS.rows):
            means[part] = (self.stack.block(k, every[part], every) - self.corners[k]).mean(axis=1)
        self.offsets[k] = means - 0.5 * means.mean()
        diagonal = self.stack.diagonals()[k] - self.corners[k] - 2.0 * self.offsets[k]
        trace = float(diagonal.sum())
        whole = float(self.stack.traces()[k])
        if trace <= LOST * np.finfo(self.precision).eps * whole:
            self.is_lost[k] = bool(self.block(k, every[: SETTINGS.rows], every).any())
            self._blind[k], trace = True, 0.0
        self.centered_traces[k] = trace

    @property
    def precision(self) -> np.dtype:
        """That of the stack."""
        return self.stack.precision

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One centered kernel at some rows and columns."""
        block = self.stack.block(kernel, rows, columns)
        if self._blind[kernel]:
            return np.zeros_like(block)
        k = self.offsets[kernel]
        return (block - self.corners[kernel]) - np.add.outer(k[rows], k[columns])

    def combined(self, weights: ArrayLike) -> CombinedKernel:
        """Σ_k d_k K̃_k, an array where the stack has one."""
        d = check_vector("weights", weights, self.m, finite=False)
        total = BlockCombined(self, d)
        if not self.stack.combined(np.zeros(self.m)).is_dense:
            return total
        return DenseCombined(frozen(total.block(slice(None), slice(None))))


def _entry(stack: Stack, k: int) -> float:
    """The first entry of a kernel."""
    first = np.zeros(1, dtype=np.intp)
    return float(stack.block(k, first, first)[0, 0])


@dataclass(frozen=True)
class Centered:
    """A stack of which only differences between points count.

    ``traces`` are tr K̃_m, exactly zero where all points coincide under a kernel, up to rounding.
    ``offsets`` are k, (m, n), where the kernels had to be centered; ``stack`` is then a view.
    """

    stack: Stack
    traces: Array
    offsets: Array | None = None

    def weights(self, name: str, weights: ArrayLike) -> Array:
        """``weights`` ≥ 0, set to zero where all points coincide; at least one is left."""
        d = check_nonnegative(name, weights, self.traces.size)
        blind = self.traces == 0.0
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
        blind = self.traces == 0.0
        if blind.any():
            raise ValueError(f"all points coincide under {_named(blind)}: {why}")

    def given(self, point: Point, weights: Array, size: float = 1.0) -> Point:
        """A point on K̃, v in units of ``size``, with the bias for K as it was given.

        f differs by k·coef, as Σcoef = 0.
        """
        if self.offsets is None:
            return point
        primal, scale, bias = point.fits[0]
        k = weights @ self.offsets
        bias = bias - float((k - k.mean()) @ (scale * point.v / size))
        return replace(point, fits=np.array([[primal, scale, bias]]))


def centered(stack: Stack) -> Centered:
    """The kernels centered if one of them gains by it, as they are otherwise.

    What rough sums cannot tell from nothing gains, too: centered kernels are read from blocks.
    """
    traces = stack.traces()
    rest = traces - stack.quad_forms(np.ones(stack.n)) / stack.n
    small = max(_SMALL, stack.units.of(2.0 * stack.n + 16.0))
    if ((rest > small * traces) | (traces == 0.0)).all():
        return Centered(stack, np.where(traces > 0.0, rest, 0.0))
    view = CenteredStack(stack)
    if view.is_lost.any():
        warn_lost(_named(view.is_lost))
    return Centered(view, view.centered_traces, view.corners[:, None] / 2.0 + view.offsets)


def _named(which: Mask) -> str:
    """K[0], K[2] and 4 more."""
    return some(f"K[{place}]" for place in np.flatnonzero(which))
