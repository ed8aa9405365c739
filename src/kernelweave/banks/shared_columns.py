"""Linear kernels on views that overlap, as sets of genes do: their columns are kept once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Places
from kernelweave.banks.member import TrainingKernel
from kernelweave.banks.normalize import RULES
from kernelweave.banks.one_matrix import leave_out_equal_in
from kernelweave.banks.storage import Kept, Place, Recipe, beside_matrices, joined, keep
from kernelweave.stacks.column_sets import ColumnSets
from kernelweave.views import weighted
from kernelweave.views.rows import Rows

KIND = "shared columns"
_OVERLAP = 2  # times that each column is in a view, on average, from where on it pays


class SharedColumns:
    """Linear kernels of overlapping views by their columns; ``rest`` keeps the other kernels."""

    learns = True

    def __init__(self, recipe: Recipe, rest: Any) -> None:
        self.dtype, self.rest = recipe.dtype, rest

    def takes(self, kernels: list[TrainingKernel]) -> bool:
        """Whether matrices would be large, and views overlap and have few columns beside rows."""
        ours, _ = _apart(kernels)
        size = sum(8 * one.n**2 for one in ours)
        if not ours or self.dtype != np.float64 or size < SETTINGS.one_matrix:
            return False
        total, different = _counts(ours)
        return _OVERLAP * different <= total <= len(ours) * ours[0].n

    def build(self, kernels: list[TrainingKernel]) -> Kept:
        """Normalizations, without those that equal an earlier one; and the rest."""
        ours, others = _apart(kernels)
        parts = [keep(self.rest, others)]
        for center in (False, True):
            some = [one for one in ours if RULES[one.group.rule][0] == center]
            if some:
                parts.append(_built(some, center=center))
        return joined(parts)

    def plan(self, kernels: list[TrainingKernel]) -> list[Place]:
        """Each kernel's share of the columns, and a number and a place for each of its own."""
        ours, others = _apart(kernels)
        total, different = _counts(ours)
        size = 12 + 8 * ours[0].n * different / total
        told = {}
        for one in ours:
            width = one.group.rows.width
            told[one.number] = Place(KIND, min(width, one.n), round(size * width))
        rest = self.rest.plan(others) if others else []
        told |= {one.number: place for one, place in zip(others, rest, strict=True)}
        return [told[one.number] for one in kernels]

    def besides(self, places: list[Place], n: int) -> int:
        """Combined kernels, products with all kernels, and the columns once more, by weight."""
        ours = [place for place in places if place.kind == KIND]
        others = [place for place in places if place.kind != KIND]
        whole = sum(place.nbytes for place in ours) + 3 * 8 * n * len(ours)
        rest = self.rest.besides(others, n) if others else 0
        return whole + max(beside_matrices(len(places), n), rest)


def _apart(kernels: list[TrainingKernel]) -> tuple[list[TrainingKernel], list[TrainingKernel]]:
    """Linear kernels that all rows have, no row scaled by itself, and the others."""
    parts: tuple[list[TrainingKernel], list[TrainingKernel]] = ([], [])
    for one in kernels:
        whole = one.places is None and not one.group.rows.table.sparse
        ours = one.kernel.is_linear and whole and RULES[one.group.rule][1] != "sphere"
        parts[not ours].append(one)
    return parts


def _counts(kernels: list[TrainingKernel]) -> tuple[int, int]:
    """How many columns all views have, and how many that differ, by number or scale."""
    seen, total = set[tuple[int, float]](), 0
    for view in (one.group.rows.view for one in kernels):
        factor = itertools.repeat(1.0) if view.factor is None else view.factor.tolist()
        seen.update(zip(view.columns, factor, strict=False))
        total += len(view.columns)
    return total, len(seen)


def _built(kernels: list[TrainingKernel], *, center: bool) -> Kept:
    """The stack of linear kernels that are all centered, or none."""
    G, sets = _columns([one.group.rows for one in kernels])
    squares, left, used = G**2, list[TrainingKernel](), list[Places]()
    for one, places in zip(kernels, sets, strict=True):
        own = G[places] if center else None
        if one.learn(squares[places].sum(axis=0), partial(_means, own)):
            left.append(one)
            used.append(places)
    if not left:
        return Kept([], None)
    if center:
        G -= weighted.mean(G, left[0].group.rows.weights, axis=1)[:, None]
    sizes = [len(places) for places in used]
    scales = np.repeat([one.normalizer.scale for one in left], sizes)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    A = csr_array((scales, np.concatenate(used), ends), shape=(len(left), len(G)))
    stack = ColumnSets(G, A)
    leave_out_equal_in(stack, left)
    kept = [place for place, one in enumerate(left) if not one.dropped]
    return Kept([left[place] for place in kept], stack.select(np.array(kept)))


def _means(own: Array | None, counts: Array) -> Array:
    assert own is not None
    return (own @ counts) @ own / counts.sum()


def _columns(views: list[Rows]) -> tuple[Array, list[Places]]:
    """All columns as kernels see them, each once, as rows; which of them each view has."""
    counts = [len(rows.view.columns) for rows in views]

    def joined_of(part: Callable[[Rows], Any], usual: float) -> Array:
        parts = [part(rows) for rows in views]
        return np.concatenate(
            [np.full(k, usual) if p is None else p for k, p in zip(counts, parts, strict=True)]
        )

    columns = joined_of(lambda rows: np.array(rows.view.columns, float), 0.0)
    shift = joined_of(lambda rows: rows.view.shift, 0.0)
    factor = joined_of(lambda rows: rows.view.factor, 1.0)
    filling = joined_of(lambda rows: rows.view.filling, np.nan)
    keys = np.column_stack([columns, shift, factor])
    _, first, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    whole = replace(
        views[0].view,
        columns=tuple(columns[first].astype(int).tolist()),
        shift=shift[first],
        factor=factor[first],
        filling=None if views[0].view.filling is None else filling[first],
    )
    G = np.ascontiguousarray(Rows(views[0].table, whole).values.T)
    return G, np.split(places.ravel(), np.cumsum(counts)[:-1])
