"""The combined kernel between any two sets of rows, neither of them the training rows.

    k(a, b) = Σ_m d_m k_m(a, b)

with every k_m normalized as in training. A centered kernel is k(a, b) less the means of k(a, x_i)
and of k(x_i, b) over the training rows x_i, plus the mean of k(x_i, x_j).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.types import Array
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.member import Member
from kernelweave.banks.normalize import inverse_root
from kernelweave.views import weighted
from kernelweave.views.rows import Pair, Rows, Scratch
from kernelweave.views.table import Table


def kernel_between(bank: FittedBank, weights: ArrayLike, A: Table, B: Table) -> Array:
    """Σ_m weights_m k_m(a, b) for all rows a of A and b of B."""
    total = np.zeros((len(A), len(B)))
    for weight, member in _active(bank, weights):
        a, b = _rows(member, A), _rows(member, B)
        K = _raw(member, a, b)
        assert member.normalizer is not None
        if member.centered:
            K -= np.add.outer(_offset(bank, member, a), _offset(bank, member, b))
        if member.normalizer.inverse_norms is not None:
            K *= np.outer(inverse_root(_own(bank, member, a)), inverse_root(_own(bank, member, b)))
            total += weight * K
        else:
            total += weight * member.normalizer.scale * K
    return total


def diagonal(bank: FittedBank, weights: ArrayLike, A: Table) -> Array:
    """Σ_m weights_m k_m(a, a) for all rows a of A."""
    total = np.zeros(len(A))
    for weight, member in _active(bank, weights):
        own = _own(bank, member, _rows(member, A))
        assert member.normalizer is not None
        if member.normalizer.inverse_norms is not None:
            total += weight * (own > 0.0)
        else:
            total += weight * member.normalizer.scale * own
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


def _raw(member: Member, a: Rows, b: Rows) -> Array:
    out = np.empty((len(a), len(b)))
    member.fill(Pair(a, b, Scratch()), out)
    return out


def _offset(bank: FittedBank, member: Member, a: Rows) -> Array:
    """Mean of k(a, x_i) over the training rows, less half the mean of k(x_i, x_j)."""
    having = member.view.rows_of(bank.table)
    train = Rows(bank.table if having is None else bank.table.take(having), member.view)
    normalizer = member.normalizer
    assert normalizer is not None
    half = weighted.mean(np.asarray(normalizer.means), normalizer.weights)
    return np.asarray(weighted.mean(_raw(member, a, train), normalizer.weights, axis=1) - half)


def _own(bank: FittedBank, member: Member, a: Rows) -> Array:
    """k(a, a), centered where the kernel is."""
    assert member.kernel is not None
    own = np.asarray(member.kernel.diagonal(a), dtype=float)
    return own - 2.0 * _offset(bank, member, a) if member.centered else own
