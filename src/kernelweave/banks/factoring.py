"""Kernels of low rank as factors: found from the columns, normalized, duplicates left out.

A kernel gets a factor where that is the cheaper form: K = FFᵀ up to 1e-13 of its trace, which is
rounding, with a rank of at most a quarter of the rows. The others stay matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.checks import shown
from kernelweave._core.tolerances import DUPLICATE, NOTHING
from kernelweave._core.types import Array
from kernelweave.banks.member import Group, Member, drop
from kernelweave.banks.normalize import learn_normalizer, rule_of
from kernelweave.kernels._pivoted import pivoted
from kernelweave.stacks.factors import FactorStack
from kernelweave.views.rows import Rows

STORAGES = ("auto", "dense", "factors")
_FEW = 100  # rows below which matrices are small anyway
_ALIKE = 100.0  # a sketch sums n entries: it may differ by this much more than an entry
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
    if kernel is None or entry is None or storage == "dense" or rows.table.sparse:
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
    """Normalized factors over n rows, of the kernels that get one.

    ``seen``: the numbers of all kernels of low rank; ``numbers``: those of them that are left, in
    the order of ``stack()``.
    """

    def __init__(
        self,
        groups: list[Group],
        members: list[Member],
        n: int,
        rule: str | None,
        dtype: np.dtype[Any],
        storage: str,
    ) -> None:
        self.n, self.rule, self.dtype, self.members = n, rule, dtype, members
        self.seen: set[int] = set()
        self._kept: dict[int, Array] = {}
        found: dict[int, tuple[Group, Array]] = {}
        number = 0
        for group in groups:
            for member in group.members:
                G = find_factor(member, group.rows, storage)
                if G is not None:
                    found[number] = group, G
                number += 1
        if storage == "auto" and not self._pays(found):
            return
        self.seen = set(found)
        for number, (group, G) in found.items():
            self._normalize(number, group, G)
        self._leave_out_duplicates()

    def _pays(self, found: dict[int, tuple[Group, Array]]) -> bool:
        """Whether factors take less than half of the memory that matrices would."""
        live = sum(member.kernel is not None for member in self.members)
        size = sum(G.size for _, G in found.values()) + (live - len(found)) * self.n**2
        return 2 * size <= live * self.n**2

    @property
    def numbers(self) -> list[int]:
        """The kernels of the stack, in its order."""
        return list(self._kept)

    def stack(self) -> FactorStack:
        """The factors that are left."""
        parts = list(self._kept.values())
        ends = np.concatenate([[0], np.cumsum([len(G) for G in parts])]).astype(np.int64)
        return FactorStack._trusted(np.concatenate(parts, dtype=self.dtype), ends, None)

    def _normalize(self, number: int, group: Group, G: Array) -> None:
        member, rows, places = self.members[number], group.rows, group.places
        assert member.kernel is not None

        def means(counts: Array) -> Array:
            return (G @ counts) @ G / counts.sum()

        rule, diagonal = rule_of(self.rule, places), member.kernel.diagonal(rows)
        normalizer = learn_normalizer(rule, diagonal, means, member.name, rows.weights)
        if isinstance(normalizer, str):
            drop(self.members, number, normalizer)
            return
        self.members[number] = member.fitted(normalizer)
        G = normalizer.factor(G)
        if places is not None:  # rows that lack the view have entries zero
            whole = np.zeros((len(G), self.n))
            whole[:, places] = G
            G = whole
        self._kept[number] = G

    def _leave_out_duplicates(self) -> None:
        """Drop kernels equal to an earlier one up to scale, by K·Ω for two random columns of Ω.

        Sorted by one entry, equal kernels stand side by side.
        """
        omega = np.random.default_rng(0).uniform(0.5, 1.5, (self.n, 2))
        numbers, scale = self.numbers, " up to scale" if self.rule else ""
        sketches = {k: ((G @ omega).T @ G).ravel() for k, G in self._kept.items()}
        if self.rule is not None:
            sketches = {k: s / np.abs(s).max() for k, s in sketches.items()}
        near: list[int] = []  # kernels that the next one could equal
        for k in sorted(numbers, key=lambda k: float(sketches[k][0])):
            own = sketches[k]
            bound = _ALIKE * DUPLICATE[np.dtype(self.dtype)] * np.abs(own).max()
            near = [j for j in near if own[0] - sketches[j][0] <= bound]
            twin = next((j for j in near if np.abs(own - sketches[j]).max() <= bound), None)
            if twin is None:
                near.append(k)
                continue
            first, second = min(k, twin), max(k, twin)
            near[near.index(twin)] = first
            drop(self.members, second, f"it equals {self.members[first].name!r}{scale}")
            del self._kept[second]
