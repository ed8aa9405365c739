"""A kernel given as a matrix, so that ready-made kernels pass through splits and pipelines."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernel import Kernel
from .psd import check_gram
from .rows import Pair, Rows
from .table import FloatArray

_CHUNK = 256  # rows of the matrix copied at a time


class Precomputed(Kernel):
    """k(i, j) = K[i, j]: the rows of X are row numbers into K.

    X is one column of integers, ``np.arange(len(K)).reshape(-1, 1)`` for all rows, which
    cross-validation and pipelines then split like any other data. With several matrices over the
    same rows, all kernels read the same column.

    Parameters
    ----------
    K : array of shape (n_all, n_all)
        Over all rows, of training and prediction alike. Checked once, here: square, finite,
        symmetric, positive semidefinite. Not copied if it is float64 and exactly symmetric; held
        read-only, and shared by clones, copies and the candidates of a grid search.
    check : bool
        False leaves the positive semidefiniteness unchecked, which costs n_all³ operations.
    """

    @property
    def numeric(self) -> bool:
        """Row numbers are neither scaled nor rounded."""
        return False

    def __init__(self, K: Any, check: bool = True) -> None:
        self.K = check_gram(K, "Precomputed", psd=check).view()  # the caller's stays writable
        self.check = check
        self.K.flags.writeable = False

    def set_params(self, **params: Any) -> Precomputed:
        """Set ``K`` or ``check``; a matrix is checked as the constructor does."""
        super().set_params(**params)
        if params:
            self.__init__(self.K, self.check)  # type: ignore[misc]
        return self

    def label(self) -> str:
        """By the size of the matrix."""
        return f"Precomputed({len(self.K)}×{len(self.K)})"

    __repr__ = label

    def fill(self, pair: Pair, out: FloatArray) -> None:
        """The entries at these row numbers."""
        a, b = self._numbers(pair.a), self._numbers(pair.b)
        for start in range(0, len(a), _CHUNK):
            rows = slice(start, start + _CHUNK)
            np.take(self.K[a[rows]], b, axis=1, out=out[rows], mode="clip")

    def diagonal(self, rows: Rows) -> FloatArray:
        """K[i, i] at these row numbers."""
        numbers = self._numbers(rows)
        return self.K[numbers, numbers]

    def _numbers(self, rows: Rows) -> NDArray[np.intp]:
        """The row numbers in X, each an integer from 0 to n_all − 1."""
        raw = rows.raw
        if raw.shape[1] != 1:
            raise ValueError(
                f"{self.label()} takes one column of row numbers; "
                f"view {rows.view.name!r} has {raw.shape[1]} columns."
            )
        given = raw[:, 0]
        if given.dtype.kind != "f":
            raise ValueError(f"{self.label()}: row numbers must be numbers; found {given[0]!r}.")
        for wrong, why in (
            (~np.isfinite(given), "finite"),
            (given != np.floor(given), "whole numbers"),
            (given < 0, "non-negative"),
            (given >= len(self.K), f"below {len(self.K)}, the size of the matrix"),
        ):
            if wrong.any():
                found = float(given[np.argmax(wrong)])
                raise ValueError(
                    f"{self.label()}: row numbers must be {why}; found {found:g} in "
                    f"row {int(np.argmax(wrong))} of X."
                )
        return given.astype(np.intp)

    def __sklearn_clone__(self) -> Precomputed:
        return copy.copy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Precomputed:
        return copy.copy(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.K.flags.writeable = False
