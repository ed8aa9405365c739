"""One fitted kernel of a bank: name, view, parameters and normalization."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.types import Array
from kernelweave.banks.normalize import Normalizer
from kernelweave.kernels.base import Kernel
from kernelweave.views.columns import View
from kernelweave.views.rows import Gram, Pair, Rows

EQUALS = "it equals"  # how the reason to drop a duplicate begins


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


def drop(members: list[Member], number: int, why: str) -> None:
    """Leave one kernel out of the list, and say why."""
    members[number] = replace(members[number].let_go(), scale=0.0, dropped=why)


def drop_equal(members: list[Member], number: int, first: int, any_scale: bool) -> None:
    """Leave one kernel out because it equals kernel ``first``, up to scale or to the number."""
    scale = " up to scale" if any_scale else ""
    drop(members, number, f"{EQUALS} {members[first].name!r}{scale}")
