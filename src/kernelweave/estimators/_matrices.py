"""Kernel matrices in place of X: ``kernels="precomputed"``, as ``SVC`` has it.

``fit`` takes one n × n matrix per kernel, ``predict`` one n_new × n matrix per kernel: a list goes
by its order, a dict by its names. Inside, the matrices are a bank on row numbers, so that
normalization, centering and dropped kernels are the same as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kernelweave._core.checks import check_floats, shown, some
from kernelweave._core.types import Array
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._targets import refuse_another_order
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.precomputed import (
    Precomputed,
    check_same_labels,
    frame_labels,
    is_frame,
    told_labels,
)
from kernelweave.views.rows import Pair
from kernelweave.views.table import Table

ROW_NUMBERS = (
    "Cross-validation and pipelines split rows, which a list of matrices does not have: there, use "
    "kernels=[Precomputed(K1), Precomputed(K2)] with the matrices over all rows, and row numbers "
    "as X, np.arange(n).reshape(-1, 1)."
)


def read_matrices(bank: KernelBank, X: Any, y: Any) -> tuple[KernelBank, Table, Array | None]:
    """A bank of the training matrices in X, the row numbers to fit it on, and names of the rows."""
    labels = _training_labels(X, y)
    if bank.normalize == "sphere":
        raise ValueError(
            "normalize='sphere' needs k(x, x) of the rows to predict, which kernels='precomputed' "
            "does not give: divide each matrix by the roots of its diagonals yourself and set "
            "normalize=None, or use Precomputed(K) with row numbers as X."
        )
    matrices = _matrices(X)
    kernels = []
    for name, K in matrices.items():
        n_rows, n_columns = K.shape
        if n_rows != n_columns:
            raise ValueError(
                f"X: {name} must be square in fit, rows to train on against themselves; found "
                f"shape {K.shape}. {ROW_NUMBERS}"
            )
        try:
            kernels.append((name, Precomputed(K)))
        except ValueError as error:
            error.add_note(f"The matrix was {name}.")
            raise
    made = KernelBank(kernels, normalize=bank.normalize, scale=None, dtype=bank.dtype)
    return made, _numbers(len(kernels[0][1].K)), labels


def with_matrices(
    bank: FittedBank, X: Any, n: int, labels: Array | None
) -> tuple[FittedBank, Table]:
    """A fitted bank whose kernels are the matrices in X: new rows against all ``n`` of ``fit``.

    ``labels``: names of the rows of ``fit``, which data frames must have as columns.
    """
    found = _matrices(X)
    _check_labels(X, labels)
    if isinstance(X, Mapping):
        _check_names(bank.names, tuple(found))
        found = {name: found[name] for name in bank.names}
    matrices = list(found.values())
    if len(matrices) != bank.m_all:
        raise ValueError(
            f"X must hold {bank.m_all} matrices, one per kernel as in fit; found {len(matrices)}."
        )
    if matrices[0].shape[1] != n:
        raise ValueError(
            f"X: each matrix must be (n_new, {n}), new rows against all rows given to fit; found "
            f"{matrices[0].shape}. {ROW_NUMBERS}"
        )
    members = tuple(
        replace(member, kernel=member.kernel and _Cross(K))
        for member, K in zip(bank.members, matrices, strict=True)
    )
    return replace(bank, members=members), _numbers(len(matrices[0]))


def _training_labels(X: Any, y: Any) -> Array | None:
    """Names of the rows of ``fit``, where matrices are data frames; y must be in their order."""
    frames = _frames(X)
    found = [(name, frame_labels(K, f"X: {name}")) for name, K in frames]
    check_same_labels(found, "rows")
    for _, K in frames:
        refuse_another_order(K, y)
    told = [labels for _, labels in found if labels is not None]
    return np.array(told[0], dtype=object) if told else None


def _check_labels(X: Any, known: Array | None) -> None:
    """Raise ValueError if data frames name other rows of ``fit``, or their new rows differ."""
    frames = _frames(X)
    check_same_labels(((name, told_labels(K.index)) for name, K in frames), "new rows")
    if known is None:
        return
    for name, K in frames:
        columns = told_labels(K.columns)
        if columns is None or len(columns) != len(known) or columns == tuple(known):
            continue
        place = next(i for i, label in enumerate(columns) if label != known[i])
        raise ValueError(
            f"X: column {place} of {name} is {columns[place]!r}, but row {place} of fit was "
            f"{known[place]!r}; columns must be the rows of fit in the same order. Give "
            "K[model.feature_names_in_], or K.to_numpy() if the order is right."
        )


def _frames(X: Any) -> list[tuple[str, Any]]:
    """The matrices in X that are data frames, by name."""
    several = isinstance(X, Mapping | list | tuple)
    return [(str(name), K) for name, K in _named(X) if is_frame(K)] if several else []


def _check_names(known: tuple[str, ...], found: tuple[str, ...]) -> None:
    """Raise ValueError unless these are the names of ``fit``, in any order."""
    for what, names in (
        ("lacks", [name for name in known if name not in found]),
        ("holds the unknown", [name for name in found if name not in known]),
    ):
        if names:
            raise ValueError(
                f"X {what} {some(map(repr, names))}: a dict must name its matrices as fit did, "
                f"{some(map(repr, known))}; a list goes by their order."
            )


def without_matrices(bank: FittedBank) -> FittedBank:
    """The fitted bank without its training matrices, which prediction does not need."""
    nothing = _Cross(np.empty((0, 0)))
    members = tuple(replace(member, kernel=member.kernel and nothing) for member in bank.members)
    return replace(bank, members=members)


class _Cross(Kernel):
    """k(i, j) = K[i, j] of new rows i and training rows j."""

    @property
    def numeric(self) -> bool:
        return False

    def __init__(self, K: Array) -> None:
        self.K = K

    def fill(self, pair: Pair, out: Array) -> None:
        a, b = (rows.raw[:, 0].astype(np.intp) for rows in (pair.a, pair.b))
        np.copyto(out, self.K[np.ix_(a, b)])


def _matrices(X: Any) -> dict[str, Array]:
    """Matrices of one shape by name: of a mapping, a list, or an array (m, n, n)."""
    if not isinstance(X, Mapping | list | tuple) and np.ndim(X) != 3:
        raise ValueError(
            f"kernels='precomputed' takes a list of matrices or an array (m, n, n) as X; found "
            f"{shown(X)}. One matrix is [K]. {ROW_NUMBERS}"
        )
    given = _named(X)
    found = {str(name): check_floats(f"X: {name}", K) for name, K in given}
    if len(found) < len(given):
        raise ValueError(
            f"X: names of matrices must differ as text; found {shown([name for name, _ in given])}."
        )
    if not found:
        raise ValueError("X holds no matrix; give one per kernel.")
    first = next(iter(found.values())).shape
    for name, K in found.items():
        if K.ndim != 2 or K.shape != first:
            raise ValueError(
                f"X: all matrices must be two-dimensional and of one shape; found {K.shape} for "
                f"{name}, and {first} for the first. {ROW_NUMBERS}"
            )
        if not np.isfinite(K).all():
            raise ValueError(f"X: {name} holds NaN or infinity; matrices must be finite.")
    return found


def _named(X: Any) -> list[tuple[Any, Any]]:
    """Matrices and what they are called."""
    if isinstance(X, Mapping):
        return [*X.items()]
    return [(f"kernel {k}", K) for k, K in enumerate(X)]


def _numbers(n: int) -> Table:
    return Table.read(np.arange(n).reshape(-1, 1))
