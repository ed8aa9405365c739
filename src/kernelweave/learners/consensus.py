"""Weights without labels: what most kernels have in common.

    max_d  Σ_m ⟨K(d), K_m⟩/‖K_m‖     s.t.  ‖d‖ = 1,     K(d) = Σ_m d_m K_m/‖K_m‖

over centered kernels, with ⟨K, L⟩ = tr KᵀL [mariette2018, STATIS-UMKL]. With the cosines
C_kl = ⟨K_k, K_l⟩/(‖K_k‖‖K_l‖) the compromise that is most like all kernels is

    max dᵀCd,     d the leading eigenvector of C,

which is not negative, as the cosines of positive semidefinite matrices are not. It is divided by
its sum, and multiplies the kernels as their bank has normalized them.
"""

from __future__ import annotations

import numpy as np

from kernelweave._core.types import Array
from kernelweave.learners.alignment import frobenius_products
from kernelweave.stacks.protocol import Stack


def cosines(kernels: Stack, counts: Array | None = None) -> Array:
    """All cosines of the centered kernels, (m, m); 0 with kernels that centering leaves nothing of.

    ``counts`` say how many rows each row stands for.
    """
    products = frobenius_products(kernels, centered=True, counts=counts)
    sizes = np.sqrt(np.diagonal(products))
    scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
    return products * np.outer(scale, scale)


def consensus_weights(C: Array) -> Array:
    """The leading eigenvector of the cosines, ≥ 0 and of sum 1; equal weights where C is 0."""
    if not C.any():
        return np.full(len(C), 1.0 / len(C))
    leading = np.abs(np.linalg.eigh(C)[1][:, -1])
    leading[leading <= 1e-12 * leading.max()] = 0.0
    return np.asarray(leading / leading.sum())
