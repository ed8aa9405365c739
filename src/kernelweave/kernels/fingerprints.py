"""A kernel on fingerprints: rows of bits or counts, such as those of molecules.

k(x, z) = xᵀz / (|x|² + |z|² − xᵀz)

Of rows of bits it is the share of the bits set in either row that are set in both [ralaivola2005].
It is positive semidefinite on all real rows: with p = xᵀz and s = |x|² + |z|² ≥ 2|p| it is
Σ_k p^(k+1)/s^(k+1), and 1/s = ∫ exp(−t|x|²) exp(−t|z|²) dt is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.checks import is_sparse
from kernelweave._core.types import Array
from kernelweave.kernels.base import UnitDiagonal
from kernelweave.kernels.features import inner_products
from kernelweave.kernels.numeric import dense
from kernelweave.views import sparse
from kernelweave.views.products import sq_norms
from kernelweave.views.rows import Pair, Rows


class Tanimoto(UnitDiagonal):
    """k(x, z) = xᵀz / (|x|² + |z|² − xᵀz), for fingerprints; 1 for two rows of zeros.

    It sees columns unchanged, whatever the bank's ``scale``: a bit that is not set stays 0. Counts
    and sparse X will do, too.

    Examples
    --------
    >>> from kernelweave import KernelBank, Tanimoto
    >>> bits = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]]
    >>> bank = KernelBank([Tanimoto()], normalize=None).fit(bits)
    >>> bank.cross([[1, 1, 0, 0]], [1.0]).round(3).tolist()
    [[1.0, 0.667, 0.0]]
    """

    has_gradient = True
    takes_sparse = True

    @property
    def numeric(self) -> bool:
        """The columns are read unscaled."""
        return False

    @property
    def reads(self) -> str:
        """Columns of numbers."""
        return "numbers"

    def fill(self, pair: Pair, out: Array) -> None:
        """Products, divided by what either row has."""
        a = _values(pair.a)
        b = a if pair.same else _values(pair.b)
        inner_products(a, b, out)
        rest = np.add.outer(_norms(a), _norms(b)) - out
        both_empty = rest <= 0.0
        np.divide(out, rest, out=out, where=~both_empty)
        out[both_empty] = 1.0
        if pair.same:
            np.fill_diagonal(out, 1.0)  # whatever rounding does

    def gradient(self, a: Rows, b: Rows, weights: Array) -> Array:
        """Σ_j weights_ij (s z_j − 2p x_i)/(s − p)², s = |x_i|² + |z_j|² and p = x_iᵀz_j."""
        x, z = _values(a), _values(b)
        products = inner_products(x, z)
        sizes = np.add.outer(_norms(x), _norms(z))
        rest = sizes - products
        by = np.divide(weights, rest**2, out=np.zeros(rest.shape), where=rest > 0.0)
        own = (by * (2.0 * products)).sum(axis=1)
        return np.asarray((by * sizes) @ z) - own[:, None] * dense(x)


def _norms(values: Any) -> Array:
    return sparse.sq_norms(values) if is_sparse(values) else sq_norms(values)


def _values(rows: Rows) -> Any:
    """The columns unscaled; errors name those that are no finite numbers."""

    def read() -> Any:
        return rows.table.floats(rows.view.columns, filling=rows.view.filling)

    return rows.remember("unscaled numbers", read)
