"""The Hamming kernel, for categories: the share of columns in which two rows agree.

    k(x, z) = ((1/p) Σ_j [x_j = z_j])^degree        over the p columns of the view

At degree 1 it is the inner product of the rows written as indicators of their levels, divided by p:
every column has the same share, whatever its number of levels. At degree 2 it compares pairs of
columns, and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_number
from kernelweave._core.jit import ordered_jit
from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel
from kernelweave.views.rows import Gram, Pair, Rows


class Hamming(Kernel):
    """k(x, z) = s^degree, s the share of the columns in which x and z have the same level.

    Levels are compared for equality: strings, numbers or any hashable objects. A level that no
    training row has agrees with none.

    Parameters
    ----------
    degree : positive int
        1 adds up what single columns say, 2 what pairs of them say, and so on.
    """

    fills_half = True
    reads = "levels"  # categories and strings
    numeric = False

    def __init__(self, degree: int = 1) -> None:
        self.degree = degree

    def label(self) -> str:
        """Shows the degree, unless it is 1."""
        return "Hamming()" if self.degree == 1 else f"Hamming(degree={self.degree})"

    def validate(self) -> None:
        """Raise an error unless the degree is a positive integer."""
        check_number("Hamming: degree", self.degree, int)

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """The kernel with the levels of the training rows."""
        return [("", _FittedHamming(_Codes(rows), self.degree))]


class _FittedHamming(Hamming):
    """The kernel on levels that are known; ``codes(rows)`` gives their numbers."""

    def __init__(self, codes: _Codes, degree: int) -> None:
        super().__init__(degree)
        self.codes = codes

    def fill(self, pair: Pair, out: Array) -> None:
        a, b = self._of(pair.a), self._of(pair.b)
        if isinstance(pair, Gram):
            _agreement_half(a, out)
        else:
            _agreement(a, b, out)
        if self.degree > 1:
            np.power(out, int(self.degree), out=out)

    def diagonal(self, rows: Rows) -> Array:
        return np.ones(len(rows))

    def _of(self, rows: Rows) -> Any:
        return rows.remember(self.codes, lambda: self.codes(rows))


class _Codes:
    """A number for every level of the training rows, by column; −1 for other levels."""

    def __init__(self, rows: Rows) -> None:
        self.levels = [
            {level: code for code, level in enumerate(levels)} for levels in rows.distinct()
        ]

    def __call__(self, rows: Rows) -> NDArray[Any]:
        columns = [
            [levels.get(level, -1) for level in column]
            for levels, column in zip(self.levels, rows.levels(), strict=True)
        ]
        return np.ascontiguousarray(np.array(columns, dtype=np.int64).T)


@ordered_jit
def _agreement(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        _agree(a[i], b, b.shape[0], out[i])


@ordered_jit
def _agreement_half(codes: Any, out: Any) -> None:
    """The lower triangle of rows against themselves; a row agrees with itself in all columns."""
    for i in range(codes.shape[0]):
        target = out[i * (i + 1) // 2 :]
        _agree(codes[i], codes, i, target)
        target[i] = 1.0


@ordered_jit
def _agree(row: Any, rows: Any, count: int, target: Any) -> None:
    for j in range(count):
        equal = 0
        for k in range(row.shape[0]):
            equal += row[k] >= 0 and row[k] == rows[j, k]
        target[j] = equal / row.shape[0]
