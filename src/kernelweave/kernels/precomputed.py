"""A kernel given as a matrix, for use in cross-validation and pipelines."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import shown, some
from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel
from kernelweave.stacks._passes import read_only
from kernelweave.stacks.validation import check_gram
from kernelweave.views.rows import Pair, Rows

_ADVICE = (
    'if negative eigenvalues come from rounding, Precomputed(K, indefinite="clip") sets them to '
    "zero, with row numbers as X; Precomputed(K, check=False) uses K as it is."
)
_ROWS = (
    "For all rows, X is np.arange(len(K)).reshape(-1, 1), not K; if X has other columns, name the "
    "one that holds the row numbers. "
)
_NAMES = "If you have names and K is a data frame, K.index.get_indexer(names) gives the numbers."


class Precomputed(Kernel):
    """k(i, j) = K[i, j]: the rows of X are row numbers into K.

    X is one column of integers, ``np.arange(len(K)).reshape(-1, 1)`` for all rows.
    Cross-validation and pipelines split it like any other data. With several matrices over the
    same rows, all kernels read the same column; name them with ``(name, Precomputed(K))``.

    Parameters
    ----------
    K : array or data frame of shape (n_all, n_all)
        The kernel over all rows, for training and for prediction: only rows of K can be predicted.
        Checked once, here: square, finite, symmetric, positive semidefinite, up to rounding (that
        of float32 if K is float32). Not copied if it is float64 and exactly symmetric; held
        read-only, and shared by clones, copies and the candidates of a grid search. A data frame
        must have the same labels on rows and columns. Matrices of one bank that read the same
        column of X must have the same labels in the same order.
    check : bool
        False skips the check for positive semidefiniteness, which costs n_all³ operations.
    indefinite : "raise" or "clip"
        How to treat negative eigenvalues: raise an error, or set them to zero in a copy. A matrix
        saved with few digits (such as a table of correlations) may have small ones.

    Attributes
    ----------
    labels : tuple of str or None
        Labels of a data frame; None for an array, or if the labels are the row numbers.
    """

    fills_half = True
    numeric = False  # row numbers are neither scaled nor rounded

    def __init__(self, K: Any, check: bool = True, indefinite: str = "raise") -> None:
        self.K = K
        self.check = check
        self.indefinite = indefinite
        self.labels = frame_labels(K, "Precomputed")
        self._check()

    def set_params(self, **params: Any) -> Self:
        """Set parameters; K is checked again, as in the constructor."""
        super().set_params(**params)
        if "K" in params:
            self.labels = frame_labels(self.K, "Precomputed")
        if params:
            self._check()
        return self

    def _check(self) -> None:
        if self.indefinite not in ("raise", "clip"):
            raise ValueError(
                f"Precomputed: indefinite must be 'raise' or 'clip'; found {shown(self.indefinite)}"
            )
        clip = self.indefinite == "clip"
        K = check_gram(self.K, "Precomputed: K", psd=self.check, clip=clip, advice=_ADVICE)
        self.K = read_only(K)  # the caller's array stays writable

    def label(self) -> str:
        """Shows the size of the matrix."""
        return f"Precomputed({len(self.K)}×{len(self.K)})"

    __repr__ = label

    def fill(self, pair: Pair, out: Array) -> None:
        """The entries at these row numbers."""
        a, b = self._numbers(pair.a), self._numbers(pair.b)
        for rows, columns in pair.blocks():
            pair.put(rows, self.K[a[rows]].take(b[columns], axis=1), out)

    def diagonal(self, rows: Rows) -> Array:
        """K[i, i] at these row numbers."""
        numbers = self._numbers(rows)
        return self.K[numbers, numbers]

    def _numbers(self, rows: Rows) -> NDArray[np.intp]:
        return row_numbers(rows, len(self.K), self.label(), _NAMES)

    def __sklearn_clone__(self) -> Precomputed:
        return copy.copy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Precomputed:
        return copy.copy(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.K.flags.writeable = False


def row_numbers(rows: Rows, size: int, who: str, advice: str) -> NDArray[np.intp]:
    """The only column of these rows, as integers from 0 to size − 1.

    Error messages begin with ``who``; ``advice`` is shown to users who pass names.
    """
    given = rows.only_column(who, "row numbers", _ROWS)
    if given.dtype.kind != "f":
        raise ValueError(f"{who}: row numbers must be numbers; found {given[0]!r}. {advice}")
    for wrong, why in (
        (~np.isfinite(given), "finite"),
        (given != np.floor(given), "whole numbers"),
        (given < 0, "non-negative"),
        (given >= size, f"below {size}, the size of the matrix"),
    ):
        if wrong.any():
            found = float(given[np.argmax(wrong)])
            raise ValueError(
                f"{who}: row numbers must be {why}; found {found:g} in row "
                f"{int(np.argmax(wrong))} of X."
            )
    return given.astype(np.intp)


def check_same_rows(requests: Iterable[tuple[str, str, Any]]) -> None:
    """Raise ValueError if matrices that share row numbers differ in size or row labels.

    ``requests``: (name, name of the view, kernel) of each.
    """
    matrices: list[tuple[str, Precomputed]] = [(name, kernel) for name, _, kernel in requests]
    for name, kernel in matrices[1:]:
        first, other = matrices[0]
        if len(kernel.K) != len(other.K):
            raise ValueError(
                f"Kernels {first!r} and {name!r} read the same row numbers, but have "
                f"{len(other.K)} and {len(kernel.K)} rows."
            )
    check_same_labels(((name, kernel.labels) for name, kernel in matrices), "row numbers")


def check_same_labels(named: Iterable[tuple[str, tuple[str, ...] | None]], read: str) -> None:
    """Raise ValueError if labeled matrices that ``read`` the same rows name them differently."""
    labeled = [(name, labels) for name, labels in named if labels is not None]
    for name, labels in labeled[1:]:
        first, others = labeled[0]
        if labels != others:
            row = next(i for i, label in enumerate(labels) if label != others[i])
            raise ValueError(
                f"Kernels {first!r} and {name!r} read the same {read}, but row {row} is "
                f"{others[row]!r} in one and {labels[row]!r} in the other; put both matrices in "
                "the same order with K.loc[labels, labels]."
            )


def frame_labels(K: Any, who: str) -> tuple[str, ...] | None:
    """Row and column labels of a data frame, as text because files turn numbers into text."""
    if not is_frame(K):
        return None
    rows, columns = tuple(map(str, K.index)), tuple(map(str, K.columns))
    if rows != columns:
        found = [some(map(repr, labels), 3) for labels in (rows, columns)]
        raise ValueError(
            f"{who}: rows and columns of the data frame must have the same labels in the same "
            f"order; found rows {found[0]} and columns {found[1]}. After read_csv(…, index_col=0), "
            "K.loc[K.columns] puts them in order; K.to_numpy() drops the labels."
        )
    return told_labels(rows)


def is_frame(K: Any) -> bool:
    """Whether rows and columns of a matrix have labels."""
    return hasattr(K, "index") and hasattr(K, "columns")


def told_labels(labels: Iterable[Any]) -> tuple[str, ...] | None:
    """Labels as text, None where they are the row numbers."""
    found = tuple(map(str, labels))
    return None if found == tuple(map(str, range(len(found)))) else found
