"""One fitted kernel of a bank, and its blocks: normalized, between any two sets of rows.

    k(x, z) = (k⁰(x, z) − c(x) − c(z))·r(x)·r(z)

c and r are known of training rows (``Normalizer``). Those of new rows follow from their kernel with
all training rows, where it is centered, and with themselves, on the sphere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.blocks import blocks
from kernelweave._core.cached import cached_property
from kernelweave._core.checks import some
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Places
from kernelweave.banks.normalize import RULES, Normalizer, Placed, learn_normalizer
from kernelweave.kernels.base import Kernel
from kernelweave.views.columns import View
from kernelweave.views.rows import Gram, Pair, Rows
from kernelweave.views.table import Table

_REASONS = 5  # kernels left out that a warning names
EQUALS = "it equals"  # how the reason to drop a duplicate begins


@dataclass(frozen=True)
class Side:
    """Rows on one side of a block: those that have a view.

    ``size``: how many rows the side has, of which these stand at ``places``; None for all.
    ``train``: their numbers among the training rows that have the view; None for new rows.
    ``wanted``: which of the rows are asked for, None for all: a centered kernel needs others, too.
    ``against``: what the means of new rows are taken over, None for the other side of the block.
    """

    rows: Rows
    size: int
    places: Places | None = None
    train: Any = None
    wanted: Places | None = None
    against: Rows | None = None

    @classmethod
    def new(cls, table: Table, view: View, against: Rows | None = None) -> Side:
        """New rows."""
        places, rows = Rows.having(table, view)
        return cls(rows, len(table), places, against=against)


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
        return self.normalizer is not None and self.normalizer.means is not None

    def fill(self, pair: Pair, out: Array) -> None:
        """Compute the kernel on a pair; for a ``Gram``, its lower triangle. Errors name it."""
        assert self.kernel is not None
        with named(self.name):
            if self.alone and pair.a.table.shares and pair.look_up(self.kernel, self._train, out):
                return
            if isinstance(pair, Gram) and not self.kernel.fills_half:
                self.kernel.train(pair, out, self.name)
            else:
                self.kernel.fill(pair, out)

    def between(self, a: Rows, b: Rows) -> Array:
        """The kernel before normalization between any rows, a new array. Errors name it."""
        assert self.kernel is not None
        with named(self.name):
            return self.kernel.between(a, b)

    def block(self, pair: Pair, left: Side, right: Side) -> Array:
        """The normalized kernel between the rows of two sides, in memory that the next one takes.

        Centered kernels of new rows need all training rows on the right side, or as ``against``.
        """
        assert self.normalizer is not None
        out, wanted = pair.scratch("kernel"), right.wanted
        if not len(left.rows):
            return out if wanted is None else out[:, wanted]
        self.fill(pair, out)
        placed = self._placed(left, out), self._placed(right, out)
        return self.normalizer.apply(out if wanted is None else out[:, wanted], *placed)

    def diagonal(self, side: Side) -> Array:
        """The normalized k(x, x) of the rows of a side."""
        assert self.kernel is not None and self.normalizer is not None
        own = np.asarray(self.kernel.diagonal(side.rows), dtype=float)
        return self.normalizer.diagonal(own, self._placed(side, None))

    def _placed(self, side: Side, out: Array | None) -> Placed:
        """What the normalization does to rows; ``out``: the kernel with the other side."""
        assert self.kernel is not None and self.normalizer is not None
        if side.train is not None:
            return self.normalizer.of_train(side.train)

        def against() -> Array:
            if side.against is not None:
                return self.between(side.rows, side.against)
            assert out is not None
            return out

        return self.normalizer.of_new(partial(self.kernel.diagonal, side.rows), against)

    def _train(self, gram: Gram, half: Array) -> None:
        assert self.kernel is not None
        self.kernel.train(gram, half, self.name)

    def fitted(self, normalizer: Normalizer) -> Member:
        """The kernel with its normalization."""
        known = self.name, self.view_name, self.view, self.numeric  # far quicker than replace()
        return Member(*known, self.kernel, normalizer, normalizer.scale, alone=self.alone)

    def narrow(self, rows: Places | slice, average: Array | None) -> Member:
        """The same kernel against some of the training rows; centering still needs all of them."""
        assert self.normalizer is not None
        normalizer, norms = self.normalizer, self.normalizer.inverse_norms
        if norms is not None and not self.centered:
            normalizer = replace(normalizer, inverse_norms=norms[rows])
        return replace(self, normalizer=normalizer, average=average)

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

    ``kernel``: the kernel function: its class is the family, its attributes are the parameters.
    ``places``: the numbers of the rows that have the view, None for all; entries of others are
    zero. ``member``: the kernel of the bank, with a normalization once ``learn`` has run.
    ``number``: that of the kernel in its bank. ``tell`` is called when the kernel is computed.
    ``dropped``: why it is left out, None where it is not.
    ``exact``, ``left``: of a kernel that features stand for, itself, and what they leave of its
    diagonal, before normalization.
    """

    dropped: str | None = None
    exact: Member | None = None
    left: Array | None = None

    def __init__(
        self,
        member: Member,
        group: Group,
        n: int,
        number: int = 0,
        tell: Callable[[], None] | None = None,
    ) -> None:
        assert member.kernel is not None
        self.member, self.group, self.n, self.number, self.tell = member, group, n, number, tell
        self.name, self.kernel, self.places = member.name, member.kernel, group.places

    normalizer = property(
        attrgetter("member.normalizer"),
        doc="Scale, means and inverse norms, over the rows that have the view.",
    )

    @property
    def values(self) -> Array:
        """The columns that the kernel reads, float64, scaled, of the rows that have the view.

        CSR where X is sparse; an error where the kernel does not read numbers.
        """
        return self.group.rows.values

    def leave_out(self, why: str) -> None:
        """Leave the kernel out of the bank, and say why."""
        self.dropped = why
        self.member = replace(self.member.let_go(), scale=0.0, dropped=why)

    def approximate(self, kernel: Kernel, left: Array) -> None:
        """Let a normalized kernel of features stand for this one."""
        self.exact, self.left = self.member, left
        self.member = replace(self.member, kernel=kernel, normalizer=Normalizer(), alone=False)

    @cached_property
    def _number(self) -> NDArray[np.intp]:
        """By row, its number among those that have the view, −1 for the others."""
        number = np.full(self.n, -1, np.intp)
        number[self.places] = np.arange(len(self.group.rows))
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
        center, scaling = RULES[self.group.rule]
        rule = center or self.places is not None, scaling
        found = learn_normalizer(rule, diagonal, means or self.means, self.name, rows.weights)
        if self.tell is not None:
            self.tell()
        if isinstance(found, str):
            self.leave_out(found)
            return False
        self.member = self.member.fitted(found)
        return True

    def block(self, rows: Places, columns: Places) -> Array:
        """The normalized kernel at these training rows and columns, a new array."""
        if self.places is None:
            return self._normalized(rows, columns)
        left, right = self._number[rows], self._number[columns]
        out = np.zeros((rows.size, columns.size))
        has = np.ix_(left >= 0, right >= 0)
        out[has] = self._normalized(left[left >= 0], right[right >= 0])
        return out

    def diagonal(self) -> Array:
        """The normalized k(x, x) of each training row."""
        whole = np.zeros(self.n)
        whole[slice(None) if self.places is None else self.places] = self.member.diagonal(
            Side(self.group.rows, self.n, train=slice(None))
        )
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
        home = type(self.kernel).__module__
        if home.startswith("kernelweave.") and home != "kernelweave.kernels.adapters":
            return self.member.between(a, b)
        above = np.less.outer(rows, columns)
        if not above.any():
            return self.member.between(a, b)
        turned = self.member.between(b, a).T
        return turned.copy() if above.all() else np.where(above, turned, self.member.between(a, b))

    def means(self, counts: Array) -> Array:
        """Means of the rows before normalization, row i counted ``counts[i]`` times, by blocks."""
        every = np.arange(len(self.group.rows))
        parts = blocks(every.size, every.size, SETTINGS.computed)
        found = [self._raw(every[part], every) @ counts for part in parts]
        return np.concatenate(found) / counts.sum()


def reasons(members: list[Member]) -> str:
    """Each reason to drop kernels once, with those that it concerns."""
    concerned: dict[str, list[str]] = {}
    for member in members:
        concerned.setdefault(str(member.dropped), []).append(member.name)
    return " ".join(f"{some(names, 2)}: {why}." for why, names in concerned.items())


def told_dropped(dropped: dict[str, str], total: int) -> str:
    """What a warning says of kernels that are left out, and why."""
    reasons = [f"{name}: {reason}" for name, reason in dropped.items()]
    if len(reasons) > _REASONS:
        reasons[_REASONS:] = [f"and {len(reasons) - _REASONS} more"]
    told = f"{len(dropped)} of {total} kernels are left out, with weight 0. {'; '.join(reasons)}."
    if not any(reason.startswith(EQUALS) for reason in dropped.values()):
        return told
    return (
        f"{told} With weight_norm other than 1, or equal weights, this changes the problem; the "
        "certificate is for the kernels kept."
    )
