"""Kernels of low rank as factors: found from the columns, normalized, duplicates left out.

A kernel gets a factor where that is the cheaper form: K = FFᵀ up to 1e-13 of its trace, which is
rounding, with a rank of at most a quarter of the rows. The others are matrices, or on demand. With
an approximation every kernel gets the factor that this makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kernelweave._core.tolerances import DUPLICATE, NOTHING
from kernelweave._core.types import Array
from kernelweave.banks.approximation import Approximation, check_approximable
from kernelweave.banks.exactness import Exactness, Rest
from kernelweave.banks.features import Columns, Features, normalized
from kernelweave.banks.member import Group, Member, drop, drop_equal
from kernelweave.banks.normalize import Normalizer, learn_normalizer, rule_of
from kernelweave.kernels._pivoted import pivoted
from kernelweave.stacks.factors import FactorStack
from kernelweave.views import weighted
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table

_FEW = 100  # rows below which matrices are small anyway
_ALIKE = 100.0  # a sketch sums n entries: it may differ by this much more than an entry
_CHEAPER = 4  # a factor's passes cost what a matrix's cost at n over this
_ON_DEMAND = 500  # finding a factor takes n·r² steps: beyond this rank rows on demand take fewer


class Recipe(NamedTuple):
    """How kernels are kept: what a bank says of all its kernels."""

    dtype: np.dtype[Any]
    storage: Any  # a word, or an object: see ``kernelweave.banks.storage``
    approximation: Approximation | None
    cache_size: float = 200.0


def find_factor(member: Member, rows: Rows, storage: str, most: int) -> Array | None:
    """Fᵀ (r, n) of the training matrix, or None where its rank exceeds ``most``."""
    kernel, n = member.kernel, len(rows)
    entry = None if kernel is None else kernel.entry()
    if kernel is None or entry is None or storage == "dense" or (storage == "auto" and n < _FEW):
        return None
    if rows.table.sparse:
        few = kernel.is_linear and rows.values.shape[1] <= most
        return np.ascontiguousarray(Columns()(rows).T) if few else None
    x, diagonal = rows.values, kernel.diagonal(rows)
    if not (np.isfinite(diagonal).all() and diagonal.any()):
        return None  # which the builder of matrices has words for
    hopeful = storage == "factors" or kernel.most_rank(x.shape[1]) <= most
    return pivoted(x, entry, diagonal, NOTHING, most, hopeful)


def largest_rank(member: Member, storage: str, n: int) -> int:
    """The rank up to which a kernel on n rows is kept as a factor."""
    if storage == "factors":
        return n
    sought = storage == "lazy" and member.kernel is not None and not member.kernel.is_linear
    return min(n // _CHEAPER, _ON_DEMAND if sought else n)


def pays(ranks: list[int], live: int, n: int) -> bool:
    """Whether factors of these ranks, for some of the live kernels, save half of the memory."""
    return 2 * (sum(ranks) + (live - len(ranks)) * n) <= live * n


class _Found(NamedTuple):
    """Fᵀ of one kernel before normalization, and the features that approximate it, if any do."""

    group: Group
    G: Array
    features: Features | None


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
        recipe: Recipe,
        tell: Callable[[], None],
    ) -> None:
        self.n, self.members, self.tell = n, members, tell
        self.dtype, storage, self.approximation, _ = recipe
        self.any_scale = all(group.rule is not None for group in groups)
        self.seen: set[int] = set()
        self._kept: dict[int, Array] = {}
        self._exact: dict[int, Member] = {}
        self._rests: dict[int, Rest] = {}
        found = dict(self._find(groups, storage))
        live = sum(member.kernel is not None for member in members)
        sizes = [len(each.G) for each in found.values()]
        if storage == "auto" and self.approximation is None and not pays(sizes, live, n):
            return
        self.seen = set(found)
        for number in sorted(self.seen):
            self._normalize(number, found.pop(number))
        self._leave_out_duplicates()

    def _find(self, groups: list[Group], storage: str) -> Iterator[tuple[int, _Found]]:
        """The kernels of low rank, by number."""
        every = ((group, member) for group in groups for member in group.members)
        for number, (group, member) in enumerate(every):
            if self.approximation is None:
                most = largest_rank(member, storage, len(group.rows))
                G = find_factor(member, group.rows, storage, most)
                if G is not None:
                    self.tell()
                    yield number, _Found(group, G, None)
            elif member.kernel is not None:
                check_approximable(member.kernel)
                features, G = self.approximation.features(member.kernel, group.rows)
                self.tell()
                yield number, _Found(group, G, features)

    def exactness(self, table: Table) -> Exactness | None:
        """The exact kernels, and what is left of each, where they are approximated."""
        if self.approximation is None:
            return None
        return Exactness(self._exact, self._rests, table, self.approximation.from_below)

    @property
    def numbers(self) -> list[int]:
        """The kernels of the stack, in its order."""
        return list(self._kept)

    def stack(self) -> FactorStack:
        """The factors that are left, which are handed over one by one: no copy of all is made."""
        ends = np.concatenate([[0], np.cumsum([len(G) for G in self._kept.values()])])
        whole = np.empty((int(ends[-1]), self.n), self.dtype)
        for place, number in enumerate(self.numbers):
            whole[ends[place] : ends[place + 1]] = self._kept.pop(number)
        return FactorStack._trusted(whole, ends.astype(np.int64), None)

    def _normalize(self, number: int, found: _Found) -> None:
        (group, G, features), member = found, self.members[number]
        rows, places = group.rows, group.places
        assert member.kernel is not None

        def means(counts: Array) -> Array:
            return (G @ counts) @ G / counts.sum()

        rule, diagonal = rule_of(group.rule, places), member.kernel.diagonal(rows)
        normalizer = learn_normalizer(rule, diagonal, means, member.name, rows.weights)
        if isinstance(normalizer, str):
            drop(self.members, number, normalizer)
            return
        self.members[number] = exact = member.fitted(normalizer)
        if features is not None:
            mean = weighted.mean(G, normalizer.weights, axis=1)
            kernel = normalized(features, member.kernel, normalizer, mean)
            self.members[number] = replace(
                exact, kernel=kernel, normalizer=Normalizer(), alone=False
            )
            self._exact[number] = exact
            self._rests[number] = _rest(diagonal, G, normalizer, places)
        G = normalizer.factor(G)
        if places is not None:  # rows that lack the view have entries zero
            whole = np.zeros((len(G), self.n))
            whole[:, places] = G
            G = whole
        self._kept[number] = G.astype(self.dtype, copy=False)

    def _leave_out_duplicates(self) -> None:
        """Drop kernels equal to an earlier one up to scale, by K·Ω for two random columns of Ω.

        Sorted by one entry, equal kernels stand side by side.
        """
        omega = np.random.default_rng(0).uniform(0.5, 1.5, (self.n, 2))
        sketches = {k: np.ravel((G @ omega).T @ G) for k, G in self._kept.items()}
        if self.any_scale:
            sketches = {k: s / np.abs(s).max() for k, s in sketches.items()}
        near: list[int] = []  # kernels that the next one could equal
        for k in sorted(self.numbers, key=lambda k: float(sketches[k][0])):
            own = sketches[k]
            bound = _ALIKE * DUPLICATE[np.dtype(self.dtype)] * np.abs(own).max()
            near = [j for j in near if own[0] - sketches[j][0] <= bound]
            twin = next((j for j in near if np.abs(own - sketches[j]).max() <= bound), None)
            if twin is None:
                near.append(k)
                continue
            first, second = min(k, twin), max(k, twin)
            near[near.index(twin)] = first
            drop_equal(self.members, second, first, any_scale=self.any_scale)
            del self._kept[second]


def _rest(diagonal: Array, G: Array, normalizer: Normalizer, places: Any) -> Rest:
    """The diagonal of K − FFᵀ, and what the normalization does to it."""
    left = np.maximum(diagonal - np.einsum("rj,rj->j", G, G), 0.0)
    counts = np.ones(left.size) if normalizer.weights is None else normalizer.weights
    norms = normalizer.inverse_norms
    factor: Array | float = np.sqrt(normalizer.scale) if norms is None else norms
    return Rest(np.sqrt(left), factor, places, counts if normalizer.centered else None)
