"""Derivatives of decision functions with respect to the columns of X.

    f(x) = Σ_m d_m Σ_j coef_j k_m(x, x_j),    k(x, z) = (k⁰(x, z) − c(x) − c(z))·r(x)·r(z)

c and r are those of the normalization. With A_j = coef_j r(x_j), and p_j the share of a training
row in c(x) = Σ_j p_j k⁰(x, x_j) − const., one kernel's part of f is

    g(x) = r(x) h(x),    h(x) = Σ_j a_j k⁰(x, x_j) − const.,    a = A − (Σ A) p

and, since r(x) is a number or, on the sphere, q(x)^−½ with q(x) = k⁰(x, x) − 2c(x),

    ∇g = r ∇h − ½ h r³ ∇q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernelweave._core.types import Array
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.member import Member
from kernelweave.banks.normalize import inverse_root
from kernelweave.views import weighted
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table


def gradient(bank: FittedBank, new: Table, weights: Array, coef: Array) -> Array:
    """∂f/∂x at every new row, (n_new, n_columns), in the units of X.

    ``weights`` (m_all,), ``coef`` (n_rows,). Kernels without derivatives contribute nothing, and
    neither does a view that the row lacks.
    """
    found = np.zeros((len(new), bank.n_features))
    for number in np.flatnonzero(weights):
        member = bank.members[number]
        if member.kernel is None or not member.kernel.has_gradient:
            continue
        having, left = Rows.having(new, member.view)
        if not len(left):
            continue
        part = weights[number] * _of_member(bank, member, left, coef)
        if member.numeric and member.view.factor is not None:  # others read columns unscaled
            part *= member.view.factor
        rows = np.arange(len(new)) if having is None else having
        found[np.ix_(rows, np.array(member.view.columns))] += part
    return found


def without_gradient(bank: FittedBank, weights: Array) -> list[int]:
    """The columns that some kernel with a weight reads but has no derivative for.

    ``weights``: (m_all,), or (k, m_all) for k machines.
    """
    found = set[int]()
    for number in np.flatnonzero(np.atleast_2d(weights).any(axis=0)):
        member = bank.members[number]
        if member.kernel is not None and not member.kernel.has_gradient:
            found.update(member.view.columns)
    return sorted(found)


def readers(bank: FittedBank, weights: Array, columns: Sequence[int]) -> Array:
    """The weights of the kernels that read one of these columns, 0 for the others."""
    wanted = {*columns}
    reads = [not wanted.isdisjoint(member.view.columns) for member in bank.members]
    return np.asarray(weights * np.array(reads))


def _of_member(bank: FittedBank, member: Member, left: Rows, coef: Array) -> Array:
    """∇g at rows that have the view, in the units of its scaled columns."""
    kernel, normalizer = member.kernel, member.normalizer
    assert kernel is not None and normalizer is not None
    right, A = _support(bank, member, coef)
    on_sphere, shares, constant = math.isnan(normalizer.scale), np.zeros_like(A), 0.0
    if normalizer.means is not None:
        counts = np.ones(len(right)) if normalizer.weights is None else normalizer.weights
        shares = counts / counts.sum()
        constant = float(weighted.mean(normalizer.means, normalizer.weights))
    a = A - A.sum() * shares
    if not on_sphere:
        shared = np.broadcast_to(a, (len(left), len(right)))
        return normalizer.scale * kernel.gradient(left, right, shared)
    plain = kernel.between(left, right)
    means = plain @ shares - constant
    r = inverse_root(kernel.diagonal(left) - 2.0 * means)
    h = plain @ A - A.sum() * means
    if normalizer.means is not None:
        h -= A @ normalizer.means
    turned = h * r**3
    pull = np.multiply.outer(r, a) + np.multiply.outer(turned, shares)
    own = kernel.diagonal_gradient(left)
    return kernel.gradient(left, right, pull) - 0.5 * turned[:, None] * own


def _support(bank: FittedBank, member: Member, coef: Array) -> tuple[Rows, Array]:
    """The training rows that a kernel is evaluated against, and A_j of each."""
    assert member.normalizer is not None
    norms = member.normalizer.inverse_norms
    if member.centered:
        having, rows = Rows.having(bank.table, member.view)
        whole = np.zeros(len(bank.table))
        whole[bank.places] = coef
        A = whole if having is None else whole[having]
    else:
        having, rows = Rows.having(bank.table.take(bank.places), member.view)
        A = coef if having is None else coef[having]
    return rows, A if norms is None else A * norms
