"""Kernels of a bank on demand: blocks of any rows and columns, normalized as matrices are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.blocks import blocks
from kernelweave._core.types import Array, Places
from kernelweave.banks.member import Group, Member, drop
from kernelweave.banks.normalize import learn_normalizer, rule_of
from kernelweave.stacks.lazy import LazyStack
from kernelweave.views.rows import Rows

_BLOCK = 2**22  # entries computed at a time


@dataclass(frozen=True)
class Demanded:
    """One normalized kernel on the training rows; ``number``: by row, its number among ``rows``.

    Rows that lack the view have the number −1, and entries zero.
    """

    member: Member
    rows: Rows
    number: NDArray[np.intp] | None

    def block(self, rows: Places, columns: Places) -> Array:
        """The kernel at these rows and columns."""
        if self.number is None:
            return self._normalized(rows, columns)
        left, right = self.number[rows], self.number[columns]
        out = np.zeros((rows.size, columns.size))
        has = np.ix_(left >= 0, right >= 0)
        out[has] = self._normalized(left[left >= 0], right[right >= 0])
        return out

    def _normalized(self, rows: Places, columns: Places) -> Array:
        normalizer = self.member.normalizer
        assert normalizer is not None
        out = raw_block(self.member, self.rows, rows, columns)
        return normalizer.apply(out, normalizer.of_train(rows), normalizer.of_train(columns))

    def diagonal(self, n: int) -> Array:
        """k(x, x) for each of the n rows."""
        kernel, normalizer = self.member.kernel, self.member.normalizer
        assert kernel is not None and normalizer is not None
        own = np.asarray(kernel.diagonal(self.rows), dtype=float)
        own = normalizer.diagonal(own, normalizer.of_train(slice(None)))
        if self.number is None:
            return own
        whole = np.zeros(n)
        whole[self.number >= 0] = own
        return whole


@dataclass(frozen=True)
class Blocks:
    """Blocks of any of these kernels."""

    kernels: tuple[Demanded, ...]

    def __call__(self, kernel: int, rows: Places, columns: Places) -> Array:
        """One kernel at some rows and columns."""
        return self.kernels[kernel].block(rows, columns)


def demand(
    groups: list[Group],
    members: list[Member],
    numbers: list[int],
    n: int,
    cache_size: float,
) -> tuple[NDArray[np.intp], LazyStack | None]:
    """The kernels ``numbers`` on demand, and the numbers of those that are left.

    A centered kernel needs one pass over all pairs of rows for its means. Kernels that equal an
    earlier one are not looked for.
    """
    found: dict[int, Demanded] = {}
    owners = [group for group in groups for _ in group.members]
    for number in numbers:
        group, member = owners[number], members[number]
        fitted = _fitted(member, group)
        if isinstance(fitted, str):
            drop(members, number, fitted)
            continue
        members[number] = fitted
        found[number] = Demanded(fitted, group.rows, _numbering(group, n))
    if not found:
        return np.empty(0, np.intp), None
    diagonals = np.array([kernel.diagonal(n) for kernel in found.values()])
    blocks = Blocks(tuple(found.values()))
    return np.array([*found], np.intp), LazyStack(blocks, diagonals, cache_size)


def raw_block(member: Member, rows: Rows, left: Places, right: Places) -> Array:
    """The kernel before normalization, at some of the rows that have its view."""
    a, b = (Rows(rows.table.take(places), rows.view) for places in (left, right))
    return member.between(a, b)


def _fitted(member: Member, group: Group) -> Member | str:
    """The kernel with its normalization, or why it is left out."""
    assert member.kernel is not None
    if not member.kernel.known_psd:
        raise ValueError(
            f"{member.kernel.label()} may not be positive semidefinite, and on demand nobody "
            "checks: use a kernel of kernelweave, or storage='dense'."
        )
    rows, every = group.rows, np.arange(len(group.rows))

    def means(counts: Array) -> Array:
        parts = blocks(every.size, every.size, _BLOCK)
        found = [raw_block(member, rows, every[part], every) @ counts for part in parts]
        return np.concatenate(found) / counts.sum()

    diagonal = np.array(member.kernel.diagonal(rows), dtype=float)
    chosen = rule_of(group.rule, group.places)
    normalizer = learn_normalizer(chosen, diagonal, means, member.name, rows.weights)
    return normalizer if isinstance(normalizer, str) else member.fitted(normalizer)


def _numbering(group: Group, n: int) -> NDArray[np.intp] | None:
    if group.places is None:
        return None
    number = np.full(n, -1, np.intp)
    number[group.places] = np.arange(len(group.places))
    return number
