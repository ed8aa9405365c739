"""Kernels of a bank that can be generated from rows of numbers anywhere, as arrays.

And how exactly their blocks are known, which is what those who ask for blocks alone need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelweave._core.tolerances import NEGATIVITY
from kernelweave._core.types import Array, Places
from kernelweave.banks.member import TrainingKernel
from kernelweave.stacks.row_kernels import GAUSSIAN, POLYNOMIAL, RowKernels
from kernelweave.views.products import NEAR

_FEATURES = 10_000  # of strings and texts, most of which have fewer in common


def is_row_kernel(one: TrainingKernel) -> bool:
    """Whether a kernel is a function of two dense rows of numbers that compiled code knows."""
    return one.kernel.entry() is not None and isinstance(one.values, np.ndarray)


def row_kernels(kernels: Sequence[TrainingKernel]) -> tuple[list[RowKernels], Places]:
    """What generates these kernels, one object for each view, and the numbers of the others.

    The others are functions of more than two dense rows of numbers: of strings or graphs, learned
    from data, one's own, or of a sparse X.
    """
    views: dict[int, list[int]] = {}
    others: list[int] = []
    for number, one in enumerate(kernels):
        own = views.setdefault(id(one.values), []) if is_row_kernel(one) else others
        own.append(number)
    made = [_normalized([kernels[k] for k in numbers], numbers) for numbers in views.values()]
    return made, np.array(others, dtype=np.intp)


def plain(kernels: Sequence[TrainingKernel]) -> RowKernels:
    """Kernels of one view over the rows that have it, before normalization."""
    entries = [one.kernel.entry() for one in kernels]
    kinds, a, b = zip(*[entry for entry in entries if entry is not None], strict=True)
    count = len(kernels)
    return RowKernels(
        x=kernels[0].values,
        kinds=np.array(kinds),
        a=np.array(a),
        b=np.array(b),
        scale=np.ones(count),
        means=None,
        norms=None,
        numbers=np.arange(count),
    )


def _normalized(kernels: Sequence[TrainingKernel], numbers: Sequence[int]) -> RowKernels:
    """Kernels of one view over all rows, normalized; those that lack the view have zeros."""
    first, normalizers = kernels[0], [one.normalizer for one in kernels]
    places = slice(None) if first.places is None else first.places
    x = first.values
    if first.places is not None:
        x = np.zeros((first.n, x.shape[1]))
        x[places] = first.values

    def spread(parts: list[Array | None], usual: float) -> Array | None:
        if all(part is None for part in parts) and (usual == 0.0 or first.places is None):
            return None
        whole = np.zeros((len(parts), first.n))
        for k, part in enumerate(parts):
            whole[k, places] = usual if part is None else part
        return whole

    return replace(
        plain(kernels),
        x=x,
        scale=np.array([1.0 if math.isnan(norm.scale) else norm.scale for norm in normalizers]),
        means=spread([norm.means for norm in normalizers], 0.0),
        norms=spread([norm.inverse_norms for norm in normalizers], 1.0),
        numbers=np.array(numbers),
    )


def roundings(one: TrainingKernel) -> int:
    """How many units in the last place an entry of a block may be off, as a share of √(K_ii K_jj).

    Blocks of another shape are summed in another order: the kernel is what all of them round.
    Normalization takes c_i + c_j off numbers of the size of k(x, x), and leaves K_ii.
    """
    norm = one.normalizer
    own = np.array(one.kernel.diagonal(one.group.rows), dtype=float)
    lost = _roundings_before(one) * np.abs(own)
    if norm.means is not None:
        lost += 4.0 * (np.abs(own) + 2.0 * np.abs(norm.means))
        own -= 2.0 * norm.means
        own += NEGATIVITY[np.dtype(np.float64)] * np.abs(own).sum()  # as row norms have it
    return math.ceil((lost[own > 0.0] / own[own > 0.0]).max(initial=0.0)) + 8


def _roundings_before(one: TrainingKernel) -> float:
    """The same before normalization, as a share of √(k(x, x) k(z, z)).

    Products are sums over columns. So are distances, as shares of |x|² + |z|², of which they are
    ``NEAR`` at least; a distance t enters exp(−t), and t·exp(−t) ≤ 1/e.
    """
    if not is_row_kernel(one):
        return float(max(one.n, _FEATURES))
    entry, x = one.kernel.entry(), one.values
    assert entry is not None
    columns = x.shape[1] + 8.0
    if entry.kind == POLYNOMIAL:
        return entry.b * columns
    if entry.kind != GAUSSIAN:
        return columns
    far = float(np.square(x - x.mean(axis=0)).sum(axis=1).max())
    return columns * min(1.0 / (math.e * NEAR), 8.0 * entry.a * far) + 8.0
