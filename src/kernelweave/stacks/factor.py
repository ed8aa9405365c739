"""One matrix F (n, R) of the factors of several kernels, each times a number, that is never copied.

    F = [√w_1 F_1, √w_2 F_2, …],      FFᵀ = Σ w_k F_k F_kᵀ

The parts are views of what a stack holds. Weights multiply vectors of R numbers, not the parts, so
that other weights cost nothing. Parts may be float32: they are widened some rows at a time, and all
sums are float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np

from kernelweave._core.blocks import blocks
from kernelweave._core.types import Array, Index

_BLOCK = 2**20  # numbers that are widened or weighted at a time: 8 MB


class Factor:
    """F (n, R): ``parts`` are the transposed F_k, arrays (r_k, n), ``scale`` a number per column.

    Parameters
    ----------
    parts : sequence of arrays (r_k, n)
    scale : array (R,), R = Σ r_k
    """

    def __init__(self, parts: Sequence[Array], scale: Array) -> None:
        self.parts, self.scale = tuple(parts), scale
        ends = [0, *accumulate(len(part) for part in self.parts)]
        self._places = [slice(first, last) for first, last in pairwise(ends)]

    @classmethod
    def of(cls, F: Array) -> Factor:
        """An array (n, R) as one part."""
        return cls([F.T], np.ones(F.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, R)."""
        return int(self.parts[0].shape[1]), int(self.scale.size)

    def array(self, rows: Index = slice(None)) -> Array:
        """F as a new array, or some rows of it."""
        out = np.empty((len(np.arange(self.shape[0])[rows]), self.shape[1]))
        for part, to in zip(self.parts, self._places, strict=True):
            np.multiply(part[:, rows].T, self.scale[to], out=out[:, to])
        return out

    def take(self, rows: Index) -> Factor:
        """Some rows of F, copied."""
        return Factor([part[:, rows] for part in self.parts], self.scale)

    def scaled(self, times: float) -> Factor:
        """``times`` F."""
        return Factor(self.parts, times * self.scale)

    def beside(self, other: Factor) -> Factor:
        """[F, other]."""
        return Factor([*self.parts, *other.parts], np.append(self.scale, other.scale))

    def onto(self, v: Array) -> Array:
        """Fᵀv, for one vector or the columns of (n, k)."""
        out = np.zeros((self.shape[1], *v.shape[1:]))
        for part, to in zip(self.parts, self._places, strict=True):
            for block, wide in _widened(part):
                out[to] += wide @ v[block]
        return _by_row(self.scale, out)

    def times(self, z: Array) -> Array:
        """Fz, for one vector or the columns of (R, k)."""
        out = np.zeros((self.shape[0], *z.shape[1:]))
        scaled = _by_row(self.scale, z)
        for part, to in zip(self.parts, self._places, strict=True):
            for block, wide in _widened(part):
                out[block] += wide.T @ scaled[to]
        return out

    def gram(self, weights: Array, kind: type = np.float64) -> Array:
        """Fᵀ diag(weights) F for weights that are not negative, (R, R).

        Blocks of rows are multiplied as ``kind``; float32 takes half of the time, for few digits.
        """
        n, R = self.shape
        roots, total = np.sqrt(weights), np.zeros((R, R))
        for block in blocks(n, R, _BLOCK):
            some: Array = np.empty((R, block.stop - block.start), kind)
            for part, to in zip(self.parts, self._places, strict=True):
                np.multiply(part[:, block], roots[block], out=some[to], casting="same_kind")
            total += some @ some.T
        return np.asarray(self.scale[:, None] * total * self.scale)

    def sizes(self) -> Array:
        """The squared norm of each row, (FFᵀ)_ii."""
        out = np.zeros(self.shape[0])
        for part, to in zip(self.parts, self._places, strict=True):
            for block, wide in _widened(part):
                out[block] += np.einsum("r,ri,ri->i", self.scale[to] ** 2, wide, wide)
        return out


def _widened(part: Array) -> Iterator[tuple[slice, Array]]:
    """A part as float64: as it is, or some columns at a time."""
    n = part.shape[1]
    most = max(part.size, n) if part.dtype == np.float64 else _BLOCK
    for block in blocks(n, len(part), most):
        yield block, part[:, block].astype(float, copy=False)


def _by_row(scale: Array, z: Array) -> Array:
    return scale * z if z.ndim == 1 else scale[:, None] * z
