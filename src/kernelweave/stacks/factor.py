"""Factors F (n, R) on the host, and factors wherever they are, scaled and side by side.

    F = [√w_1 F_1, √w_2 F_2, …],      FFᵀ = Σ w_k F_k F_kᵀ

The parts of a ``JoinedFactor`` are views of what a stack holds, and are never copied. Weights
multiply vectors of R numbers, not the parts, so that other weights cost nothing. Parts may be
float32: they are widened some rows at a time, and all sums are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from kernelweave._core.blocks import blocks
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks.protocol import Factor


class DerivedFactor:
    """What every factor has for free, from its products and its Gram matrix on the host."""

    def inverse(self: Factor, weights: Array, kind: type = np.float64) -> Callable[[Array], Array]:
        """What multiplies by (I + Fᵀ diag(weights) F)⁻¹."""
        matrix = self.gram(weights, kind)
        matrix[np.diag_indices_from(matrix)] += 1.0
        found = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return partial(cho_solve, found, check_finite=False)

    def product(self: Factor, v: Array) -> Array:
        """FFᵀv, for one vector or the columns of (n, k)."""
        return self.times(self.onto(v))

    def shrinking(
        self: Factor, weights: Array, kind: type = np.float64
    ) -> Callable[[Array], Array]:
        """What multiplies by F(I + Fᵀ diag(weights) F)⁻¹Fᵀ."""
        inverse = self.inverse(weights, kind)
        return lambda g: self.times(inverse(self.onto(g)))


class JoinedFactor(DerivedFactor):
    """F (n, R): ``parts`` are the transposed F_k, arrays (r_k, n), ``scale`` a number per column.

    Parameters
    ----------
    parts : sequence of arrays (r_k, n)
    scale : array (R,), R = Σ r_k
    """

    def __init__(self, parts: Sequence[Array], scale: Array) -> None:
        self.parts, self.scale = tuple(parts), scale
        self._places = _places([len(part) for part in self.parts])

    @classmethod
    def of(cls, F: Array) -> JoinedFactor:
        """An array (n, R) as one part."""
        return cls([F.T], np.ones(F.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, R)."""
        return int(self.parts[0].shape[1]), int(self.scale.size)

    def array(self, rows: Index = None) -> Array:
        """F as a new array, or some rows of it."""
        rows = slice(None) if rows is None else rows
        out = np.empty((len(np.arange(self.shape[0])[rows]), self.shape[1]))
        for part, to in zip(self.parts, self._places, strict=True):
            np.multiply(part[:, rows].T, self.scale[to], out=out[:, to])
        return out

    def take(self, rows: Index) -> JoinedFactor:
        """Some rows of F, copied."""
        return JoinedFactor([part[:, rows] for part in self.parts], self.scale)

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
        for block in blocks(n, R, SETTINGS.block):
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


class FactorsBeside(DerivedFactor):
    """[t_1 F_1, t_2 F_2, …], wherever each of them is."""

    def __init__(self, parts: Sequence[Factor], scales: Sequence[float]) -> None:
        self.parts, self.scales = tuple(parts), tuple(scales)
        self._places = _places([part.shape[1] for part in self.parts])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, R)."""
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    def array(self, rows: Places | None = None) -> Array:
        """F as a new array, or some rows of it."""
        return np.hstack([t * part.array(rows) for part, t in self._each()])

    def take(self, rows: Places) -> FactorsBeside:
        """Some rows of F."""
        return FactorsBeside([part.take(rows) for part in self.parts], self.scales)

    def onto(self, v: Array) -> Array:
        """Fᵀv, for one vector or the columns of (n, k)."""
        return np.concatenate([t * part.onto(v) for part, t in self._each()])

    def times(self, z: Array) -> Array:
        """Fz, for one vector or the columns of (R, k)."""
        found = [
            t * part.times(z[to]) for (part, t), to in zip(self._each(), self._places, strict=True)
        ]
        return np.asarray(np.sum(found, axis=0))

    def gram(self, weights: Array, kind: type = np.float64) -> Array:
        """Fᵀ diag(weights) F, (R, R); what two parts have in common by columns of the second."""
        total = np.empty((self.shape[1],) * 2)
        for number, (part, t) in enumerate(self._each()):
            at = self._places[number]
            total[at, at] = t * t * part.gram(weights, kind)
            for (other, u), to in zip(self._each()[:number], self._places, strict=False):
                for some in blocks(part.shape[1], self.shape[0], SETTINGS.block):
                    columns = part.times(np.eye(part.shape[1])[:, some])
                    found = t * u * other.onto(weights[:, None] * columns)
                    total[to, at][:, some] = found
                    total[at, to][some] = found.T
        return total

    def inverse(self, weights: Array, kind: type = np.float64) -> Callable[[Array], Array]:
        """What multiplies by (I + Fᵀ diag(weights) F)⁻¹: of one factor, where that one is."""
        (part, t), *others = self._each()
        if others or not hasattr(part, "inverse"):
            return super().inverse(weights, kind)
        return part.inverse(t * t * weights, kind)

    def product(self, v: Array) -> Array:
        """FFᵀv: of one factor, where that one is."""
        (part, t), *others = self._each()
        if others or not hasattr(part, "product"):
            return super().product(v)
        return t * t * part.product(v)

    def shrinking(self, weights: Array, kind: type = np.float64) -> Callable[[Array], Array]:
        """What multiplies by F(I + Fᵀ diag(weights) F)⁻¹Fᵀ: of one factor, where that one is."""
        (part, t), *others = self._each()
        if others or not hasattr(part, "shrinking"):
            return super().shrinking(weights, kind)
        inner = part.shrinking(t * t * weights, kind)
        return lambda g: t * t * inner(g)

    def sizes(self) -> Array:
        """The squared norm of each row, (FFᵀ)_ii."""
        return np.asarray(np.sum([t * t * part.sizes() for part, t in self._each()], axis=0))

    def _each(self) -> list[tuple[Factor, float]]:
        return list(zip(self.parts, self.scales, strict=True))


def beside(parts: Sequence[Factor], scales: Sequence[float]) -> Factor:
    """[t_1 F_1, t_2 F_2, …]; the factor itself where it is the only one, times 1."""
    return parts[0] if tuple(scales) == (1.0,) else FactorsBeside(parts, scales)


def _places(widths: Sequence[int]) -> list[slice]:
    """Where the columns of each part are."""
    ends = [0, *accumulate(widths)]
    return [slice(first, last) for first, last in pairwise(ends)]


def _widened(part: Array) -> Iterator[tuple[slice, Array]]:
    """A part as float64: as it is, or some columns at a time."""
    n = part.shape[1]
    most = max(part.size, n) if part.dtype == np.float64 else SETTINGS.block
    for block in blocks(n, len(part), most):
        yield block, part[:, block].astype(float, copy=False)


def _by_row(scale: Array, z: Array) -> Array:
    return scale * z if z.ndim == 1 else scale[:, None] * z
