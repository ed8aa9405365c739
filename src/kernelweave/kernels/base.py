"""The base class of kernels: the methods that a bank needs."""

from __future__ import annotations

import copy
import math
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.params import Params
from kernelweave._core.types import Array
from kernelweave.stacks.row_kernels import Entry
from kernelweave.stacks.validation import check_gram
from kernelweave.views.rows import Gram, Pair, Rows


class Kernel(Params):
    """A kernel function k(x, z) and its parameters; a bank evaluates it on the rows of a view.

    ``known_psd``: positive semidefinite by construction, so its matrices need no check.
    ``fills_half``: ``fill`` also takes a ``Gram`` and then writes the lower triangle only. True of
    every kernel that computes each entry from the shared products or distances.
    ``takes_weights``: what it learns from the training rows, if anything, counts weighted rows
    that often. False of kernels that learn more than a width.
    ``of_two_rows``: unless ``expand`` learns something, k(x, z) depends on x and z alone. Folds of
    a cross-validation then share it. False of kernels that others compute: they may do anything.
    ``collapses``: made of features, so that coefficients of many rows become few numbers.
    ``is_linear``: k(x, z) = xᵀz on numbers, so that the columns are its features.
    ``has_gradient``: it knows ∂k(x, z)/∂x, perhaps almost everywhere.
    ``advice``: added to the error message if a kernel without ``known_psd`` fails the check.
    """

    known_psd: ClassVar[bool] = True
    fills_half: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = True
    of_two_rows: ClassVar[bool] = True
    collapses: ClassVar[bool] = False
    is_linear: ClassVar[bool] = False
    has_gradient: ClassVar[bool] = False
    advice: ClassVar[str] = ""

    @property
    def reads(self) -> str:
        """Which columns of a view of mixed columns it takes: "numbers", "levels" or "all"."""
        return "numbers" if self.numeric else "all"

    numeric = property(
        attrgetter("_numeric"),
        doc="Whether it reads the columns as finite floats (``Rows.values``) or unchanged.",
    )
    _numeric: ClassVar[bool] = True

    @property
    def takes_sparse(self) -> bool:
        """Whether it works on the rows of a sparse X, which it gets as CSR."""
        return False

    def label(self) -> str:
        """The name of the kernel in reports."""
        return repr(self)

    def validate(self) -> None:
        """Raise ValueError for invalid parameters."""

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """Fit on the training rows: (name suffix, fitted kernel), one pair per kernel to weight.

        A plain kernel gives one frozen copy of itself, without a suffix.
        """
        return [("", copy.copy(self))]

    def fill(self, pair: Pair, out: Array) -> None:
        """Write k(x, z) for every pair of rows into ``out``, float64, of the pair's shape."""
        raise NotImplementedError

    def between(self, a: Rows, b: Rows) -> Array:
        """k(x, z) for all rows x of ``a`` and z of ``b``, a new array."""
        out = np.empty((len(a), len(b)))
        if out.size:
            self.fill(Pair(a, b, shared=False), out)
        return out

    def matrix(self, pair: Pair) -> NDArray[Any]:
        """k(x, z) for every pair of rows, in the precision it is computed in."""
        out = pair.scratch("matrix")
        self.fill(pair, out)
        return out

    def train(self, gram: Gram, half: Array, name: str) -> None:
        """Write the lower triangle of the training matrix; error messages use ``name``."""
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

    def gradient(self, a: Rows, b: Rows, weights: Array) -> Array:
        """Σ_j weights_ij ∂k(x_i, z_j)/∂x_i for every row x_i of ``a``, over the rows z_j of ``b``.

        ``weights`` (len(a), len(b)); the result (len(a), columns) is in the units of ``values``.
        """
        raise NotImplementedError

    def diagonal_gradient(self, rows: Rows) -> Array:
        """∂k(x, x)/∂x for every row, (len(rows), columns)."""
        raise NotImplementedError

    def entry(self) -> Entry | None:
        """The kernel function as compiled code knows it; None where it does not."""
        return None

    def most_rank(self, columns: int) -> float:
        """The largest rank that its matrices can have on so many columns; infinite if unknown."""
        return math.inf

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = vars(self), vars(other)
        return mine.keys() == theirs.keys() and all(_equal(mine[key], theirs[key]) for key in mine)


class UnitDiagonal(Kernel):
    """A kernel with k(x, x) = 1 for every row."""

    def diagonal(self, rows: Rows) -> Array:
        """1 everywhere."""
        return np.ones(len(rows))

    def diagonal_gradient(self, rows: Rows) -> Array:
        """0 everywhere."""
        return np.zeros((len(rows), len(rows.view.columns)))


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b)
