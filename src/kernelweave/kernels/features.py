"""Kernels that are inner products of features learned on the training rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelweave._core.checks import is_sparse
from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel
from kernelweave.views import sparse
from kernelweave.views.products import sq_norms
from kernelweave.views.rows import Pair, Rows


class FeatureKernel(Kernel):
    """k(x, z) = φ(x)ᵀφ(z); ``features(rows)`` gives φ of each row, dense or sparse.

    ``features`` is any hashable callable; its result is cached with the rows.
    """

    fills_half = True

    def __init__(self, features: Callable[[Rows], Any]) -> None:
        self.features = features

    @property
    def numeric(self) -> bool:
        """The features read the columns unchanged."""
        return False

    def fill(self, pair: Pair, out: Array) -> None:
        """Inner products of all pairs."""
        pair.write_products(out, self._of(pair.a), self._of(pair.b))

    def diagonal(self, rows: Rows) -> Array:
        """|φ(x)|²."""
        phi = self._of(rows)
        return sparse.sq_norms(phi) if is_sparse(phi) else sq_norms(phi)

    def _of(self, rows: Rows) -> Any:
        return rows.remember(self.features, lambda: self.features(rows))


def inner_products(a: Any, b: Any, out: Array | None = None) -> Array:
    """The products a bᵀ, dense, in ``out`` if given; exactly symmetric if a is b."""
    out = np.empty((a.shape[0], b.shape[0])) if out is None else out
    return sparse.products(a, b, out) if is_sparse(a) else np.matmul(a, b.T, out=out)
