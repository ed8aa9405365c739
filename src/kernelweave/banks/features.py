"""Kernels made of a few features: k̃(x, z) = φ(x)ᵀφ(z), which stands for a kernel k.

Landmarks    φ(x) = Tᵀk(x, Z) for some training rows Z
Waves        φ(x) = (cos Ωᵀx, sin Ωᵀx)/√D for D random frequencies
Columns      φ(x) = x
Normalized   the features of another map, less their mean and brought to size
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._core.blocks import blocks
from kernelweave._core.types import Array
from kernelweave.banks.normalize import Normalizer, inverse_root
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.features import FeatureKernel
from kernelweave.views.rows import Rows

_BLOCK = 2**21  # entries of the kernel with the landmarks held at a time


class LowRank(FeatureKernel):
    """φ(x)ᵀφ(z) in the place of the kernel ``kernel``, which reads the same columns.

    Coefficients of many rows become few numbers, Σ_j coef_j φ(x_j): new rows are then compared
    with these, not with the rows.
    """

    collapses = True

    def __init__(self, kernel: Kernel, features: Callable[[Rows], Array]) -> None:
        super().__init__(features)
        self.kernel = kernel

    @property
    def numeric(self) -> bool:
        """As the kernel that it stands for."""
        return self.kernel.numeric

    @property
    def reads(self) -> str:
        """As the kernel that it stands for."""
        return self.kernel.reads

    @property
    def takes_sparse(self) -> bool:
        """As the kernel that it stands for."""
        return self.kernel.takes_sparse

    def label(self) -> str:
        """That of the kernel that it stands for."""
        return self.kernel.label()


@dataclass(frozen=True, eq=False)
class Landmarks:
    """φ(x) = Tᵀk(x, Z): ``rows`` are Z, ``T`` has a row for each of them."""

    kernel: Kernel
    rows: Rows
    T: Array

    def __call__(self, rows: Rows) -> Array:
        """φ of each row, (n, r), some rows at a time."""
        out = np.empty((len(rows), self.T.shape[1]))
        for block, k in against(self.kernel, rows, self.rows):
            np.matmul(k, self.T, out=out[block])
        return out


@dataclass(frozen=True, eq=False)
class Waves:
    """Cosines and sines of xᵀω for the columns ω of ``frequencies``."""

    frequencies: Array

    def __call__(self, rows: Rows) -> Array:
        """φ of each row, (n, 2D)."""
        angles = np.asarray(rows.values @ self.frequencies)
        out = np.hstack([np.cos(angles), np.sin(angles)])
        out *= 1.0 / math.sqrt(max(1, angles.shape[1]))
        return out


@dataclass(frozen=True, eq=False)
class Columns:
    """φ(x) = x: a linear kernel is made of its columns."""

    def __call__(self, rows: Rows) -> Array:
        """The columns, dense."""
        values: Any = rows.values
        return np.array(values.toarray() if rows.table.sparse else values)


Features = Landmarks | Waves | Columns


@dataclass(frozen=True, eq=False)
class Normalized:
    """Features less their ``mean``, times √``scale`` or, where that is NaN, brought to the sphere.

    On the sphere a row is divided by the norm that it has under ``kernel``, the exact one.
    """

    features: Features
    kernel: Kernel
    scale: float
    mean: Array | None

    def __call__(self, rows: Rows) -> Array:
        """φ of each row."""
        phi = self.features(rows)
        sphere = math.isnan(self.scale)
        own = self.kernel.diagonal(rows) if sphere else None
        if self.mean is not None:
            if own is not None:
                own = own - 2.0 * (phi @ self.mean) + self.mean @ self.mean
            phi -= self.mean
        phi *= math.sqrt(self.scale) if own is None else inverse_root(own)[:, None]
        return phi


def normalized(features: Features, kernel: Kernel, normalizer: Normalizer, mean: Array) -> LowRank:
    """The kernel of these features, normalized as the training rows were."""
    center = mean if normalizer.centered else None
    return LowRank(kernel, Normalized(features, kernel, normalizer.scale, center))


def against(kernel: Kernel, rows: Rows, landmarks: Rows) -> Iterator[tuple[slice, Array]]:
    """Blocks of rows, each with its kernel with the landmarks."""
    for block in blocks(len(rows), len(landmarks), _BLOCK):
        some = Rows(rows.table.block(block), rows.view)
        yield block, kernel.between(some, landmarks)
