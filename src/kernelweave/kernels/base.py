"""What a kernel must be able to do to take part in a bank."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.params import Params
from kernelweave._core.types import Array
from kernelweave.stacks.gram import check_gram
from kernelweave.views.rows import Gram, Pair, Rows


class Kernel(Params):
    """k(x, z), by its parameters; a bank evaluates it on the rows of a view.

    ``known_psd``: positive semidefinite by construction, so that its matrices need no check.
    ``fills_half``: whether ``fill`` takes a ``Gram``, and then writes the lower triangle; so does a
    kernel that works entry by entry on what the pair shares.
    ``advice``: told where a kernel without ``known_psd`` fails the check.
    """

    known_psd: ClassVar[bool] = True
    fills_half: ClassVar[bool] = False
    advice: ClassVar[str] = ""

    @property
    def numeric(self) -> bool:
        """Whether it reads the columns as finite floats (``Rows.values``), not as they came."""
        return True

    def label(self) -> str:
        """How the kernel is named in reports."""
        return repr(self)

    def validate(self) -> None:
        """Raise ValueError for parameters that make no kernel."""

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """Suffix and fitted kernel for each kernel this stands for, learnt on training rows.

        A plain kernel stands for a frozen copy of itself, without a suffix.
        """
        return [("", copy.copy(self))]

    def fill(self, pair: Pair, out: Array) -> None:
        """Write k(x, z) for every pair of rows into ``out``, float64 of the pair's shape."""
        raise NotImplementedError

    def matrix(self, pair: Pair) -> NDArray[Any]:
        """k(x, z) for every pair of rows, in whatever precision it is computed."""
        out = pair.scratch("matrix")
        self.fill(pair, out)
        return out

    def train(self, gram: Gram, half: Array, name: str) -> None:
        """Write the lower triangle for rows and themselves; ``name`` is the kernel's in errors."""
        if self.fills_half:
            self.fill(gram, half)
            return
        matrix = self.matrix(gram.whole())
        if not self.known_psd:
            matrix = check_gram(matrix, f"kernel {name!r}", advice=self.advice)
        gram.put(slice(0, len(matrix)), matrix, half)

    def diagonal(self, rows: Rows) -> Array:
        """k(x, x) for every row."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = vars(self), vars(other)
        return mine.keys() == theirs.keys() and all(_equal(mine[key], theirs[key]) for key in mine)


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b)
