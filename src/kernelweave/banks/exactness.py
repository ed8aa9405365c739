"""What an approximation from below leaves of the exact kernels, and the bound that follows.

    FFᵀ ⪯ K,  E = K − FFᵀ ⪰ 0:      wᵀKw  ≤  ‖Fᵀw‖² + (Σ_j √E_jj |w_j|)²

Where weights are not negative, a decision function of the approximate kernels is one of the exact
kernels with no larger norm, so that its primal value stands; only the dual value is lower. The
bound needs no pass over the kernels, and may be loose. Where the support rows are few, wᵀKw itself
is computed. For other approximations both sides are: wᵀKw, and f = K(d)·coef on all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.blocks import blocks
from kernelweave._core.types import Array, Places
from kernelweave.banks import crossing
from kernelweave.banks.member import Member
from kernelweave.stacks.protocol import Stack
from kernelweave.views.rows import Scratch
from kernelweave.views.table import Table

_PASS = 2**28  # entries of the exact kernels that are computed at the most
_BLOCK = 2**21  # of these at a time


@dataclass(frozen=True)
class Rest:
    """What is left of one kernel: ``roots`` are √E_jj on the rows ``places``, before normalization.

    ``factor``: what the normalization multiplies rows by; ``counts``: how often they count in the
    mean that a centered kernel is less, None for others.
    """

    roots: Array
    factor: Array | float
    places: NDArray[np.intp] | None
    counts: Array | None

    def bound(self, w: Array) -> float:
        """(Σ_j √E_jj |u_j|)², where wᵀKw = uᵀ(FFᵀ + E)u before normalization."""
        u = self.factor * (w if self.places is None else w[self.places])
        if self.counts is not None:
            u = u - self.counts * (u.sum() / self.counts.sum())
        return float(self.roots @ np.abs(u)) ** 2


@dataclass(frozen=True)
class Exactness:
    """The exact kernels ``members`` of a bank on its training rows, and what is left of each.

    Both by the number of the kernel in the bank. ``from_below``: the approximate kernels are at
    most these.
    """

    members: Mapping[int, Member]
    rests: Mapping[int, Rest]
    table: Table
    from_below: bool = True

    def quads(self, stack: Stack, kept: Places, w: Array) -> Array | None:
        """Upper bounds of wᵀK_m w for the exact kernels, in the order of ``kept``."""
        support = np.flatnonzero(w)
        numbers = [int(number) for number in kept]
        products = self._products(numbers, w[support], support, support)
        exact = None if products is None else np.maximum(products @ w[support], 0.0)
        if not self.from_below:
            return exact
        plain = stack.quad_forms(w)
        if exact is not None:
            return np.maximum(plain, exact)
        return plain + np.array([self.rests[number].bound(w) for number in numbers])

    def values(self, kept: Places, weights: Array, w: Array) -> Array | None:
        """Σ_m weights_m K_m w on all rows, under the exact kernels; None where that is too long."""
        support, active = np.flatnonzero(w), np.flatnonzero(weights)
        numbers = [int(number) for number in kept[active]]
        every = np.arange(len(self.table))
        products = self._products(numbers, w[support], support, every)
        return None if products is None else weights[active] @ products

    def _products(
        self, numbers: list[int], w: Array, support: Places, rows: Places
    ) -> Array | None:
        """K_m w at some rows, w on the support alone; None for centered kernels and long passes."""
        centered = any(self.members[number].centered for number in numbers)
        if centered or rows.size * support.size * len(numbers) > _PASS:
            return None
        place = {number: k for k, number in enumerate(numbers)}
        found = np.zeros((len(numbers), rows.size))
        active = [(number, self.members[number].narrow(support)) for number in sorted(numbers)]
        against = crossing.sides(self.table, active, support)
        table, scratch = self.table.take(rows), Scratch()
        for block in blocks(rows.size, support.size, _BLOCK):
            some = crossing.matrices(table.block(block), against, support.size, scratch, _none)
            for number, matrix in some:
                found[place[number], block] = matrix @ w
        return found


def _none(number: int, member: Member) -> Array:
    raise AssertionError("a kernel that training rows lack is centered")
