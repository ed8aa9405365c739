"""Kernels of low rank as factors: found from the columns, normalized, duplicates left out.

A kernel gets a factor where that is the cheaper form: K = FFᵀ up to 1e-13 of its trace, which is
rounding, with a rank of at most a quarter of the rows. The others stay matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelweave._core.checks import shown
from kernelweave._core.tolerances import DUPLICATE, NOTHING
from kernelweave._core.types import Array, Places
from kernelweave.banks.member import Member
from kernelweave.banks.normalize import Normalizer, learn_normalizer
from kernelweave.kernels._pivoted import pivoted
from kernelweave.stacks.factors import FactorStack
from kernelweave.views.rows import Rows

STORAGES = ("auto", "dense", "factors")
_FEW = 100  # rows below which matrices are small anyway
_CHEAPER = 4  # a factor's passes cost what a matrix's cost at n over this


def check_storage(storage: Any) -> str:
    """``storage``, if it is one of the three."""
    if storage not in STORAGES:
        raise ValueError(f"storage must be one of {STORAGES}; found {shown(storage)}.")
    return str(storage)


def find_factor(member: Member, rows: Rows, storage: str) -> Array | None:
    """Fᵀ (r, n) of the training matrix, or None where a matrix is the better form."""
    kernel, n = member.kernel, len(rows)
    entry = None if kernel is None else kernel.entry()
    if kernel is None or entry is None or storage == "dense":
        return None
    if storage == "auto" and n < _FEW:
        return None
    most = n if storage == "factors" else n // _CHEAPER
    x, diagonal = rows.values, kernel.diagonal(rows)
    if not (np.isfinite(diagonal).all() and diagonal.any()):
        return None  # which the builder of matrices has words for
    hopeful = storage == "factors" or kernel.most_rank(x.shape[1]) <= most
    return pivoted(x, entry, diagonal, NOTHING, most, hopeful)


class FactorBuilder:
    """Normalized factors over n rows, of the kernels whose numbers are ``numbers``."""

    def __init__(self, n: int, dtype: np.dtype[Any], any_scale: bool) -> None:
        self.n, self.dtype, self._any_scale = n, dtype, any_scale
        self.numbers: list[int] = []
        self._parts: list[Array] = []
        self._sketches: list[Array] = []
        self._sketch = np.random.default_rng(0).uniform(0.5, 1.5, (n, 2))

    def add(
        self, number: int, member: Member, rows: Rows, G: Array, rule: tuple[bool, str | None]
    ) -> Normalizer | str:
        """Normalize and keep a factor over ``rows``; or the reason to drop the kernel."""
        assert member.kernel is not None

        def means(counts: Array) -> Array:
            return (G @ counts) @ G / counts.sum()

        diagonal = member.kernel.diagonal(rows)
        normalizer = learn_normalizer(rule, diagonal, means, member.name, rows.weights)
        if isinstance(normalizer, Normalizer):
            self._keep(number, normalizer.factor(G), None)
        return normalizer

    def _keep(self, number: int, G: Array, places: Places | None) -> None:
        if places is not None:  # rows that lack the view have entries zero
            whole = np.zeros((len(G), self.n))
            whole[:, places] = G
            G = whole
        self.numbers.append(number)
        self._parts.append(G)
        self._sketches.append(((G @ self._sketch).T @ G).ravel())

    def twins(self) -> Iterator[tuple[int, int]]:
        """Pairs (kernel, earlier kernel) that are equal up to scale, by K·Ω for a random Ω."""
        sketches = np.array(self._sketches)
        sizes = np.abs(sketches).max(axis=1, initial=0.0)
        if self._any_scale and sizes.size:
            sketches /= sizes[:, None]
        tolerance = 100.0 * DUPLICATE[np.dtype(self.dtype)]
        order = np.argsort(sketches[:, 0], kind="stable") if sizes.size else np.zeros(0, int)
        group: list[int] = []
        for place in order:
            near = sketches[place, 0] - sketches[group[-1], 0] if group else np.inf
            if near > tolerance * max(1.0, sizes[place]):
                group = []
            alike = [g for g in group if self._same(sketches[g], sketches[place], tolerance)]
            if alike:
                first, second = sorted((alike[0], int(place)))
                yield self.numbers[second], self.numbers[first]
                group[group.index(alike[0])] = first
            else:
                group.append(int(place))

    def _same(self, a: Array, b: Array, tolerance: float) -> bool:
        return bool(np.abs(a - b).max() <= tolerance * np.abs(a).max())

    def stack(self, kept: list[int]) -> FactorStack:
        """The factors of the kernels ``kept``, in this order."""
        place = {number: i for i, number in enumerate(self.numbers)}
        parts = [self._parts[place[number]] for number in kept]
        ends = np.concatenate([[0], np.cumsum([len(G) for G in parts])]).astype(np.int64)
        G = np.empty((int(ends[-1]), self.n), self.dtype)
        for k, part in enumerate(parts):
            G[ends[k] : ends[k + 1]] = part
        return FactorStack._trusted(G, ends, None)
