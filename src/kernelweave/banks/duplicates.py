"""Finds kernel matrices that equal an earlier one up to scale, without comparing all pairs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.tolerances import DUPLICATE
from kernelweave._core.types import Array

_CHUNK = 64  # rows compared at a time


class Duplicates:
    """Finds equal matrices by their signatures (pᵀK e_0 + qᵀdiag K) / tr K.

    p and q are fixed random vectors. Matrices that are equal up to scale have equal signatures, so
    only matrices with equal signatures are compared in full.
    """

    def __init__(self, K: NDArray[Any], any_scale: bool = True) -> None:
        self._stack, self._any_scale = K, any_scale
        m, n = K.shape[:2]
        self._p, self._q = np.random.default_rng(0).uniform(0.5, 1.5, (2, n))
        self._signatures = np.empty(m)
        self._tolerance = DUPLICATE[K.dtype]

    def see(self, k: int) -> None:
        """Store the signature of matrix ``k``."""
        K = self._stack[k]
        total = self._p @ K[0].astype(np.float64) + self._q @ K.diagonal().astype(np.float64)
        self._signatures[k] = total / float(K.trace(dtype=np.float64))

    def twins(self, seen: list[int]) -> Iterator[tuple[int, int]]:
        """Pairs (matrix, earlier matrix) among ``seen`` that are equal up to scale."""
        order = np.array(seen, dtype=np.intp)
        order = order[np.argsort(self._signatures[order])]
        # a signature sums 2n entries of K / tr K, each at most 1
        apart = np.diff(self._signatures[order]) > 100 * self._tolerance * len(self._p)
        cuts = [0, *(np.flatnonzero(apart) + 1), len(order)]
        for start, stop in pairwise(cuts):
            if stop - start > 1:
                yield from self._compare(sorted(map(int, order[start:stop])))

    def _compare(self, alike: list[int]) -> Iterator[tuple[int, int]]:
        different: list[int] = []
        for k in alike:
            twin = next((j for j in different if self._equal(j, k)), None)
            if twin is None:
                different.append(k)
            else:
                yield k, twin

    def _equal(self, j: int, k: int) -> bool:
        traces = [float(self._stack[i].trace(dtype=np.float64)) for i in (j, k)]
        ratio = traces[1] / traces[0]
        if not self._any_scale and abs(ratio - 1.0) > self._tolerance:
            return False
        bound = self._tolerance * float(self._stack[k].diagonal().max())
        for start in range(0, self._stack.shape[1], _CHUNK):
            rows = slice(start, start + _CHUNK)
            difference: Array = self._stack[j, rows] * ratio
            difference -= self._stack[k, rows]
            if np.abs(difference, out=difference).max() > bound:
                return False
        return True
