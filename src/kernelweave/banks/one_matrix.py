"""``storage="combined"``: kernels generated from their rows, of which one array is kept, K(d)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from kernelweave._core.tolerances import DUPLICATE
from kernelweave._core.types import Array
from kernelweave.banks.member import TrainingKernel
from kernelweave.banks.row_kernels import is_row_kernel, plain, row_kernels
from kernelweave.banks.storage import Dense, Kept, Place, Recipe, joined, keep, leave_out_equal
from kernelweave.stacks.generator import Generator
from kernelweave.stacks.one_matrix import OneMatrixStack, bytes_beside
from kernelweave.stacks.resources import count_threads

_SKETCH = 200  # rows on which kernels are compared first
_ALIKE = 100.0  # a sketch sums as many entries: it may differ by this much more than an entry


class OneMatrix:
    """Kernels that are functions of two rows are generated in every pass; others are matrices.

    K(d) is one array, written anew for each d.
    """

    learns = True

    def __init__(self, recipe: Recipe) -> None:
        self.dtype = np.dtype(np.float32) if recipe.dtype == np.float32 else None
        self.rest, self.n_jobs = Dense(recipe), recipe.n_jobs

    def build(self, kernels: list[TrainingKernel]) -> Kept:
        """Normalizations of the kernels that are generated, and the matrices of all others."""
        ours, others = _apart(kernels)
        live = [one for one in ours if one.learn(means=partial(self.means, one))]
        if len(live) > 1:
            leave_out_equal_in(OneMatrixStack(row_kernels(live)[0], np.float64, self.n_jobs), live)
        left = [one for one in live if not one.dropped]
        stack = OneMatrixStack(row_kernels(left)[0], self.dtype, self.n_jobs) if left else None
        own = Kept(left, stack)
        return joined([keep(self.rest, others), own]) if others else own

    def means(self, one: TrainingKernel, counts: Array) -> Array:
        """Means of the rows before normalization, in one pass in float64."""
        view = plain([one])
        every, threads = np.arange(view.n), count_threads(self.n_jobs)
        entries = Generator([view], np.dtype(np.float64))
        sums = entries.matvecs(np.ones(1, dtype=bool), counts, every, every, threads)
        return np.asarray(sums[0] / counts.sum())

    def plan(self, kernels: list[TrainingKernel]) -> list[Place]:
        """Nothing of the kernels that are generated is kept."""
        return [
            Place("generated", one.n, 0) if is_row_kernel(one) else self.rest.plan([one])[0]
            for one in kernels
        ]

    def besides(self, places: list[Place], n: int) -> int:
        """K(d), and the rows in play."""
        others = [place for place in places if place.kind != "generated"]
        return bytes_beside(n, self.dtype) + (self.rest.besides(others, n) if others else 0)


def leave_out_equal_in(stack: Any, kernels: list[TrainingKernel]) -> None:
    """Leave kernels out that equal an earlier one: on some rows, and then on all."""
    any_scale = all(one.group.rule is not None for one in kernels)
    some = np.linspace(0, stack.n - 1, min(stack.n, _SKETCH)).astype(np.intp)
    sketches = _sketched(stack.restrict(some), any_scale=any_scale)
    width = _ALIKE * DUPLICATE[np.dtype(np.float64)]

    def equal(j: int, k: int) -> bool:
        if np.abs(sketches[j] - sketches[k]).max() > width * np.abs(sketches[k]).max():
            return False
        first, second = _sketched(stack.select([j, k]), any_scale=any_scale)
        return bool(np.abs(first - second).max() <= width * np.abs(second).max())

    widths = width * np.abs(sketches).max(axis=1)
    leave_out_equal(kernels, sketches[:, 0], widths, equal, any_scale=any_scale)


def _apart(kernels: list[TrainingKernel]) -> tuple[list[TrainingKernel], list[TrainingKernel]]:
    """Those that can be generated, and the others."""
    ours = list(map(is_row_kernel, kernels))
    pairs = list(zip(kernels, ours, strict=True))
    return [one for one, own in pairs if own], [one for one, own in pairs if not own]


def _sketched(stack: Any, *, any_scale: bool) -> Array:
    """K_k ω for a fixed random ω; if scales do not matter, the largest entry is one."""
    found = stack.matvecs(np.random.default_rng(0).uniform(0.5, 1.5, stack.n))
    return found / np.abs(found).max(axis=1)[:, None] if any_scale else found
