"""All kernels of a bank between two sets of rows, view by view; either side may lack a view.

A row that lacks a view stands at the view's mean in feature space. In a centered kernel the mean
is the origin: the row's entries are zero. In any other kernel they are the mean of k(x_i, ·) over
the training rows x_i.

Kernels made of few features need no other rows: f(x) = Σ_j coef_j φ(x)ᵀφ(x_j) = φ(x)ᵀ image, where
image = Σ_j coef_j φ(x_j) has r numbers, whatever the number of support rows. What an approximation
from below leaves of the exact kernels, and the bound that follows:

    FFᵀ ⪯ K,  E = K − FFᵀ ⪰ 0:      wᵀKw  ≤  ‖Fᵀw‖² + (Σ_j √E_jj |w_j|)²

Where weights are not negative, a decision function of the approximate kernels is one of the exact
kernels with no larger norm, so that its primal value stands; only the dual value is lower. The
bound needs no pass over the kernels, and may be loose. Where the support rows are few, wᵀKw itself
is computed. For other approximations both sides are: wᵀKw, and f = K(d)·coef on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.blocks import blocks
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Places
from kernelweave.banks.member import Member, Side, TrainingKernel
from kernelweave.stacks.protocol import Stack
from kernelweave.views.columns import View
from kernelweave.views.rows import Pair, Rows, Scratch
from kernelweave.views.table import Table

Numbered = tuple[int, Member]  # the number of a kernel in its bank, and the kernel
Average = Callable[[int, Member], Array]  # what stands for a new row that lacks the view

_ROWS = 4096  # rows whose features are held at a time


def training_sides(
    table: Table, members: Iterable[Numbered], places: Places | None, numbers: Any = slice(None)
) -> list[tuple[list[Numbered], Side]]:
    """The kernels by view, each with the rows ``places`` of the training table, None for all.

    ``numbers``: those that these rows have in normalizations of kernels that are not centered.
    """
    views: dict[View, list[Numbered]] = {}
    for number, member in members:
        views.setdefault(member.view, []).append((number, member))
    found, some = [], table if places is None else None
    for view, kernels in views.items():
        if kernels[0][1].centered:
            side = _centered_side(table, view, places)
        else:
            some = table.take(places) if some is None else some  # one copy for all views
            having, rows = Rows.having(some, view)
            side = Side(rows, len(some), having, numbers)
        found.append((kernels, side))
    return found


def _centered_side(table: Table, view: View, places: Places | None) -> Side:
    """All training rows that have the view, of which those at ``places`` are wanted."""
    having, rows = Rows.having(table, view)
    if having is None:
        size = len(rows) if places is None else len(places)
        return Side(rows, size, None, slice(None) if places is None else places, places)
    number = np.full(len(table), -1)
    number[having] = np.arange(len(having))
    wanted = number if places is None else number[places]
    where = np.flatnonzero(wanted >= 0)
    return Side(rows, len(wanted), where, wanted[where], wanted[where])


def evaluate(
    new: Table,
    against: list[tuple[list[Numbered], Side]],
    scratch: Scratch,
    average: Average | None = None,
) -> Iterator[tuple[int, Array]]:
    """(number, normalized kernel of the new rows with training rows), one by one.

    A matrix is valid only until the next one is requested: they share memory. ``average`` gives
    the row of a new row that lacks the view of an uncentered kernel.
    """
    for members, right in against:
        left = Side.new(new, members[0][1].view)
        pair = Pair(left.rows, right.rows, scratch, shared=len(members) > 1)
        for number, member in members:
            matrix = member.block(pair, left, right)
            if left.places is not None or right.places is not None:
                whole = scratch("whole", (len(new), right.size))
                whole[...] = 0.0
                if left.places is not None and not member.centered:
                    assert average is not None  # a kernel that training rows lack is centered
                    whole[...] = average(number, member)
                rows, columns = (
                    np.arange(side.size) if side.places is None else side.places
                    for side in (left, right)
                )
                whole[np.ix_(rows, columns)] = matrix
                matrix = whole
            yield number, matrix


def between(
    members: Sequence[Member], weights: ArrayLike, train: Table, A: Table, B: Table
) -> Array:
    """Σ_m weights_m k_m(a, b) for all rows a of A and b of B, neither of them training rows.

    ``train``: the training rows, over which the means of centered kernels are taken.
    """
    total, scratch = np.zeros((len(A), len(B))), Scratch()
    active = [(w, members[k]) for k, w in enumerate(np.asarray(weights, dtype=float)) if w]
    for _, group in groupby(active, key=lambda pair: pair[1].view):
        kernels = list(group)
        left, right = (_complete_side(kernels[0][1], side, train) for side in (A, B))
        pair = Pair(left.rows, right.rows, scratch, shared=len(kernels) > 1)
        for weight, member in kernels:
            total += weight * member.block(pair, left, right)
    return total


def diagonal(members: Sequence[Member], weights: ArrayLike, train: Table, A: Table) -> Array:
    """Σ_m weights_m k_m(a, a) for all rows a of A."""
    total = np.zeros(len(A))
    for member, weight in zip(members, np.asarray(weights, dtype=float), strict=True):
        if weight:
            total += weight * member.diagonal(_complete_side(member, A, train))
    return total


def _complete_side(member: Member, table: Table, train: Table) -> Side:
    """New rows for a kernel whose view each of them must have."""
    side = Side.new(table, member.view, Rows.having(train, member.view)[1])
    if side.places is not None:
        raise ValueError(
            f"Some rows of X lack the view {member.view_name!r}: between rows that the model was "
            "not fitted on, its kernels are not known there. Leave these rows out."
        )
    return side


def images(table: Table, members: Iterable[Numbered], coef: Array) -> dict[int, Array]:
    """Σ_j coef_j φ(x_j) for each kernel, by number; rows that lack its view do not count."""
    found = {}
    for number, member in members:
        having, rows = Rows.having(table, member.view)
        own = coef if having is None else coef[having]
        kernel: Any = member.kernel
        total: Any = 0.0
        for piece, some in rows.pieces(1, _ROWS):
            total = total + kernel.features(some).T @ own[piece]
        found[number] = total
    return found


def kept_images(
    stack: Any, kept: Places, members: Iterable[Numbered], coef: Array, index: Places | None
) -> dict[int, Array]:
    """The same from a stack that keeps the features of all rows, Fᵀcoef; ``index``: the rows."""
    whole = np.zeros((stack.n, *coef.shape[1:]))
    whole[slice(None) if index is None else index] = coef
    place = {int(number): k for k, number in enumerate(kept)}
    return {number: stack.image(place[number], whole) for number, _ in members}


def through_images(
    new: Table, members: list[Numbered], image: dict[int, Array], weights: Array, lacking: Average
) -> Array:
    """Σ_m weights_m φ_m(x)ᵀ image_m for each new row; ``lacking`` gives it for rows without a view.

    ``weights`` has one set for all machines, or one row for each.
    """
    machines = next(iter(image.values())).shape[1:]
    out = np.zeros((len(new), *machines))
    for number, member in members:
        having, rows = Rows.having(new, member.view)
        kernel: Any = member.kernel
        found = np.empty((len(rows), *machines))
        for piece, some in rows.pieces(1, _ROWS):
            np.matmul(kernel.features(some), image[number], out=found[piece])
        if not np.isfinite(found).all():
            raise ValueError(
                f"Kernel {member.name!r} is not finite between these rows of X and the training "
                "rows."
            )
        if having is not None:
            whole = np.empty((len(new), *machines))
            whole[...] = lacking(number, member)
            whole[having] = found
            found = whole
        out += weights[..., number] * found
    return out


# ---- exact kernels, where features stand for them ------------------------------------------------


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

    @classmethod
    def of(cls, one: TrainingKernel) -> Rest:
        """What features leave of a kernel that they stand for."""
        assert one.exact is not None and one.exact.normalizer is not None and one.left is not None
        left, normalizer = np.maximum(one.left, 0.0), one.exact.normalizer
        norms, counts = normalizer.inverse_norms, normalizer.weights
        if normalizer.means is not None and counts is None:
            counts = np.ones(left.size)
        factor: Array | float = np.sqrt(normalizer.scale) if norms is None else norms
        return cls(np.sqrt(left), factor, one.places, counts)

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
    most these. ``stack``: the exact kernels where a pass over all rows is no matter, in the order
    of ``members`` that are kept.
    """

    members: Mapping[int, Member]
    rests: Mapping[int, Rest]
    table: Table
    from_below: bool = True
    stack: Stack | None = None

    @classmethod
    def of(
        cls,
        kernels: Iterable[TrainingKernel],
        table: Table,
        from_below: bool,
        stack: Stack | None = None,
    ) -> Exactness:
        """Of the kernels that features stand for."""
        members, rests = dict[int, Member](), dict[int, Rest]()
        for one in kernels:
            if one.exact is not None:
                members[one.number], rests[one.number] = one.exact, Rest.of(one)
        return cls(members, rests, table, from_below, stack)

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
        if self.stack is not None:
            order = np.array([*self.members])
            return self.stack.fine_products(np.searchsorted(order, numbers), rows, support, w)
        centered = any(self.members[number].centered for number in numbers)
        if centered or rows.size * support.size * len(numbers) > SETTINGS.exact_pass:
            return None
        place = {number: k for k, number in enumerate(numbers)}
        found = np.zeros((len(numbers), rows.size))
        active = [(number, self.members[number]) for number in sorted(numbers)]
        against = training_sides(self.table, active, support, support)
        table, scratch = self.table.take(rows), Scratch()
        for block in blocks(rows.size, support.size, SETTINGS.computed):
            for number, matrix in evaluate(table.block(block), against, scratch):
                found[place[number], block] = matrix @ w
        return found
