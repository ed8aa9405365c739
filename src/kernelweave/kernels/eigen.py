"""Kernels from single eigenvectors of a kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._core.checks import check_number
from kernelweave._core.tolerances import HALF_DIGITS
from kernelweave._core.types import Array
from kernelweave.kernels.adapters import as_kernel
from kernelweave.kernels.base import Kernel
from kernelweave.views import products
from kernelweave.views.rows import Gram, Pair, Rows


class EigenvectorKernels(Kernel):
    """k_i(x, z) = v_i(x) v_i(z), one kernel per eigenvector of a kernel's training matrix.

    With K u_i = λ_i u_i on the training rows x_1, …, x_n: v_i(x) = Σ_j k(x, x_j) u_ij / λ_i, which
    is u_ij on training row x_j (the Nyström extension to new rows). Weighting these kernels
    learns the spectrum of a kernel [lanckriet2004, §4.2]. A fitted bank keeps all training rows,
    because new rows are compared with all of them.

    Parameters
    ----------
    kernel : any kernel a bank takes
    n_components : positive int or None
        How many eigenvectors, from the largest eigenvalue down; None for all whose eigenvalue is
        above 1e-8 times the largest.
    """

    takes_weights = False

    def __init__(self, kernel: Any, n_components: int | None = None) -> None:
        self.kernel = kernel
        self.n_components = n_components

    @property
    def numeric(self) -> bool:
        """Same as its kernel."""
        return as_kernel(self.kernel).numeric

    def label(self) -> str:
        """Named after its kernel; each eigenvector adds its number."""
        return f"Eigenvectors({as_kernel(self.kernel).label()})"

    def validate(self) -> None:
        """Raise ValueError for a bad kernel or number of components."""
        as_kernel(self.kernel).validate()
        if self.n_components is not None:
            check_number("EigenvectorKernels: n_components", self.n_components, int)

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """One kernel per eigenvector, numbered from 1."""
        return [
            (f"{number}{suffix and f' of {suffix}'}", kernel)
            for suffix, base in as_kernel(self.kernel).expand(rows)
            for number, kernel in enumerate(self._vectors(base, rows), start=1)
        ]

    def _vectors(self, base: Kernel, rows: Rows) -> list[Kernel]:
        gram = Gram(rows)
        half = gram.scratch("kernel")
        base.train(gram, half, base.label())
        K = np.empty((len(rows), len(rows)))
        products.unpack(half, 1.0, K)
        values, vectors = np.linalg.eigh(K)
        many = len(values) if self.n_components is None else int(self.n_components)
        chosen = np.flatnonzero(values > HALF_DIGITS * values[-1])[::-1][:many]
        basis = _Basis(base, Rows(rows.table, rows.view), vectors[:, chosen] / values[chosen])
        basis(rows)  # cached in ``rows`` until the stack is filled
        return [_Eigenvector(basis, place) for place in range(len(chosen))]


@dataclass(frozen=True, eq=False)
class _Basis:
    """v_i(x) = Σ_j k(x, x_j) extension_ji for all eigenvectors i of one kernel."""

    kernel: Kernel
    train: Rows
    extension: Array

    def __call__(self, rows: Rows) -> Array:
        def compute() -> Array:
            return self.kernel.between(rows, self.train) @ self.extension

        return rows.remember(self, compute)


class _Eigenvector(Kernel):
    """k(x, z) = v(x) v(z) for one vector of a basis."""

    fills_half = True

    def __init__(self, basis: _Basis, place: int) -> None:
        self.basis = basis
        self.place = place

    def fill(self, pair: Pair, out: Array) -> None:
        u, v = (self.basis(rows)[:, self.place] for rows in (pair.a, pair.b))
        pair.outer(u, v, out)

    def diagonal(self, rows: Rows) -> Array:
        return self.basis(rows)[:, self.place] ** 2
