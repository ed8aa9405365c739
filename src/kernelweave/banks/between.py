"""The combined kernel between any two sets of rows, neither of them the training rows.

    k(a, b) = Σ_m d_m k_m(a, b)

with every k_m normalized as in training. A centered kernel is k(a, b) less the means of k(a, x_i)
and of k(x_i, b) over the training rows x_i, plus the mean of k(x_i, x_j).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.types import Array
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.member import Member
from kernelweave.banks.normalize import Placed
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table


def kernel_between(bank: FittedBank, weights: ArrayLike, A: Table, B: Table) -> Array:
    """Σ_m weights_m k_m(a, b) for all rows a of A and b of B."""
    total = np.zeros((len(A), len(B)))
    for weight, member in _active(bank, weights):
        assert member.normalizer is not None
        a, b = _rows(member, A), _rows(member, B)
        placed = _placed(bank, member, a), _placed(bank, member, b)
        total += weight * member.normalizer.apply(member.between(a, b), *placed)
    return total


def diagonal(bank: FittedBank, weights: ArrayLike, A: Table) -> Array:
    """Σ_m weights_m k_m(a, a) for all rows a of A."""
    total = np.zeros(len(A))
    for weight, member in _active(bank, weights):
        assert member.kernel is not None and member.normalizer is not None
        a = _rows(member, A)
        own = np.asarray(member.kernel.diagonal(a), dtype=float)
        total += weight * member.normalizer.diagonal(own, _placed(bank, member, a))
    return total


def _active(bank: FittedBank, weights: ArrayLike) -> Iterator[tuple[float, Member]]:
    d = np.asarray(weights, dtype=float)
    for number in np.flatnonzero(d):
        yield float(d[number]), bank.members[number]


def _rows(member: Member, table: Table) -> Rows:
    """The rows that a kernel reads; each must have its view."""
    if member.view.rows_of(table) is not None:
        raise ValueError(
            f"Some rows of X lack the view {member.view_name!r}: between rows that the model was "
            "not fitted on, its kernels are not known there. Leave these rows out."
        )
    return Rows(table, member.view)


def _placed(bank: FittedBank, member: Member, a: Rows) -> Placed:
    """How the entries of these rows are normalized, from the training rows that have the view."""
    assert member.kernel is not None and member.normalizer is not None
    train = Rows.having(bank.table, member.view)[1]
    own, against = partial(member.kernel.diagonal, a), partial(member.between, a, train)
    return member.normalizer.of_new(own, against)
