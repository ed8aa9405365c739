"""One fitted kernel of a bank: name, view, parameters and normalization; on training rows, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.blocks import blocks
from kernelweave._core.cached import cached_property
from kernelweave._core.types import Array, Places
from kernelweave.banks.normalize import Normalizer, learn_normalizer, rule_of
from kernelweave.kernels.base import Kernel
from kernelweave.views.columns import View
from kernelweave.views.rows import Gram, Pair, Rows

EQUALS = "it equals"  # how the reason to drop a duplicate begins
_BLOCK = 2**22  # entries computed at a time


@dataclass(frozen=True)
class Member:
    """One fitted kernel of a bank; kernels on the same columns share one ``view`` object.

    ``numeric``: whether the kernel reads its columns as numbers.
    ``dropped``: why the kernel was dropped; it then has no ``kernel`` and no ``normalizer``.
    ``alone``: whether k(x, z) depends on the rows x and z alone, and on nothing learned.
    ``average``: mean of k(·, x_j) over the training rows for each x_j, which stands for new rows
    that lack the view; None where it is not known, or zero because the kernel is centered.
    """

    name: str
    view_name: str
    view: View
    numeric: bool
    kernel: Kernel | None = None
    normalizer: Normalizer | None = None
    scale: float = 0.0
    dropped: str | None = None
    average: Array | None = None
    alone: bool = False

    @property
    def centered(self) -> bool:
        """Whether the kernel is centered, which needs new rows against all training rows."""
        return self.normalizer is not None and self.normalizer.centered

    def fill(self, pair: Pair, out: Array) -> None:
        """Compute the kernel on a pair; for a ``Gram``, its lower triangle. Errors name it."""
        assert self.kernel is not None
        with named(self.name):
            if self.alone and pair.look_up(self.kernel, self._train, out):
                return
            if isinstance(pair, Gram):
                self._train(pair, out)
            else:
                self.kernel.fill(pair, out)

    def between(self, a: Rows, b: Rows) -> Array:
        """The kernel before normalization between any rows, a new array. Errors name it."""
        assert self.kernel is not None
        with named(self.name):
            return self.kernel.between(a, b)

    def _train(self, gram: Gram, half: Array) -> None:
        assert self.kernel is not None
        self.kernel.train(gram, half, self.name)

    def renamed(self, name: str) -> Member:
        """The same kernel under another name."""
        return replace(self, name=name)

    def fitted(self, normalizer: Normalizer) -> Member:
        """The kernel with its normalization."""
        known = self.name, self.view_name, self.view, self.numeric  # far quicker than replace()
        return Member(*known, self.kernel, normalizer, normalizer.scale, alone=self.alone)

    def narrow(self, rows: NDArray[np.intp]) -> Member:
        """The same kernel against some of the training rows."""
        if self.normalizer is None:
            return self
        average = None if self.average is None else self.average[rows]
        return replace(self, normalizer=self.normalizer.take(rows), average=average)

    def let_go(self) -> Member:
        """Only its name and scale: it can no longer be evaluated."""
        return replace(self, kernel=None, normalizer=None)


@dataclass(frozen=True)
class Group:
    """The kernels on one view, how they are normalized, and the training rows that have the view.

    ``places``: the numbers of these rows, None for all.
    """

    rows: Rows
    members: list[Member]
    rule: str | None
    places: NDArray[np.intp] | None = None


@contextmanager
def named(kernel: str) -> Iterator[None]:
    """Errors from inside say which kernel it was."""
    try:
        yield
    except Exception as error:
        error.add_note(f"The kernel was {kernel!r}.")
        raise


class TrainingKernel:
    """One kernel on the n training rows, as a storage is given it (``kernelweave.banks.storage``).

    ``member``: the kernel as fitted; once ``learn`` has run, with its normalization, or dropped.
    """

    def __init__(self, member: Member, group: Group, n: int) -> None:
        self.member, self.group, self.n = member, group, n

    @property
    def name(self) -> str:
        """What the kernel is called."""
        return self.member.name

    @property
    def kernel(self) -> Kernel:
        """The kernel function: its class is the family, its attributes are the parameters."""
        assert self.member.kernel is not None
        return self.member.kernel

    @property
    def normalizer(self) -> Normalizer:
        """Scale, means and inverse norms, over the rows that have the view."""
        assert self.member.normalizer is not None
        return self.member.normalizer

    @property
    def values(self) -> Array:
        """The columns that the kernel reads, float64, scaled, of the rows that have the view.

        CSR where X is sparse; an error where the kernel does not read numbers.
        """
        return self.group.rows.values

    @property
    def places(self) -> NDArray[np.intp] | None:
        """The numbers of the rows that have the view, None for all; entries of others are zero."""
        return self.group.places

    @cached_property
    def _number(self) -> NDArray[np.intp]:
        """By row, its number among those that have the view, −1 for the others."""
        number = np.full(self.n, -1, np.intp)
        number[self.group.places] = np.arange(len(self.group.rows))
        return number

    def learn(
        self, diagonal: Array | None = None, means: Callable[[Array], Array] | None = None
    ) -> bool:
        """Learn the normalization; False where the kernel is dropped.

        ``diagonal`` and ``means``: as in ``learn_normalizer``, before normalization; computed here,
        by blocks, unless they are given.
        """
        rows = self.group.rows
        if diagonal is None:
            diagonal = np.array(self.kernel.diagonal(rows), dtype=float)
        rule = rule_of(self.group.rule, self.group.places)
        found = learn_normalizer(rule, diagonal, means or self._means, self.name, rows.weights)
        if isinstance(found, str):
            self.member = left_out(self.member, found)
            return False
        self.member = self.member.fitted(found)
        return True

    def block(self, rows: Places, columns: Places) -> Array:
        """The normalized kernel at these training rows and columns, a new array."""
        if self.group.places is None:
            return self._normalized(rows, columns)
        left, right = self._number[rows], self._number[columns]
        out = np.zeros((rows.size, columns.size))
        has = np.ix_(left >= 0, right >= 0)
        out[has] = self._normalized(left[left >= 0], right[right >= 0])
        return out

    def diagonal(self) -> Array:
        """The normalized k(x, x) of each training row."""
        normalizer = self.normalizer
        own = np.asarray(self.kernel.diagonal(self.group.rows), dtype=float)
        own = normalizer.diagonal(own, normalizer.of_train(slice(None)))
        if self.group.places is None:
            return own
        whole = np.zeros(self.n)
        whole[self.group.places] = own
        return whole

    def _normalized(self, rows: Places, columns: Places) -> Array:
        normalizer, out = self.normalizer, self._raw(rows, columns)
        return normalizer.apply(out, normalizer.of_train(rows), normalizer.of_train(columns))

    def _raw(self, rows: Places, columns: Places) -> Array:
        """The kernel before normalization, at some of the rows that have its view.

        Nobody has checked that kernels of others are symmetric: their entries are k(x_i, x_j) with
        i ≥ j wherever they are asked for, as in matrices.
        """
        table, view = self.group.rows.table, self.group.rows.view
        a, b = (Rows(table.take(places), view) for places in (rows, columns))
        if type(self.kernel).__module__.startswith("kernelweave."):
            return self.member.between(a, b)
        above = np.less.outer(rows, columns)
        if not above.any():
            return self.member.between(a, b)
        turned = self.member.between(b, a).T
        return turned.copy() if above.all() else np.where(above, turned, self.member.between(a, b))

    def _means(self, counts: Array) -> Array:
        every = np.arange(len(self.group.rows))
        parts = blocks(every.size, every.size, _BLOCK)
        found = [self._raw(every[part], every) @ counts for part in parts]
        return np.concatenate(found) / counts.sum()


def left_out(member: Member, why: str) -> Member:
    """The kernel without what it takes to evaluate it, and why."""
    return replace(member.let_go(), scale=0.0, dropped=why)


def drop(members: list[Member], number: int, why: str) -> None:
    """Leave one kernel out of the list, and say why."""
    members[number] = left_out(members[number], why)


def drop_equal(members: list[Member], number: int, first: int, any_scale: bool) -> None:
    """Leave one kernel out because it equals kernel ``first``, up to scale or to the number."""
    scale = " up to scale" if any_scale else ""
    drop(members, number, f"{EQUALS} {members[first].name!r}{scale}")
