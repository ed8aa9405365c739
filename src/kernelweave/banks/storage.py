"""How the kernels of a bank are kept on its training rows: ``KernelBank(storage=…)``.

A storage is any object with one method:

    build(kernels) → stack

``kernels`` is a list of ``TrainingKernel``s, all over the same n training rows, whose
normalizations are learned. Each of them has

    name            what the kernel is called
    n               the number of training rows
    kernel          the function: Linear(), Polynomial(degree, offset), Gaussian(width),
                    Laplacian(width) or another, widths as numbers of the columns below
    values          the columns that it reads as an array of float64, scaled and filled as the bank
                    says: one row for each training row that has the view; CSR where X is sparse
    places          the numbers of these rows, or None for all n; entries of other rows are zero
    normalizer      ``scale``, ``means`` and ``inverse_norms``, arrays over the same rows or None:
                    K = (k(x_i, x_j) − means_i − means_j)·inverse_norms_i·inverse_norms_j, and
                    times ``scale`` in place of the norms where there are none
    block(rows, columns), diagonal()    the normalized kernel at any of the n rows, computed here

The stack keeps the protocol of ``kernelweave.stacks.protocol`` and has the kernels in this order.
Its arrays may be anywhere: solvers ask it for vectors, and for blocks as arrays. One storage is
asked once for each fit, each fold of a cross-validation included, and with ``n_jobs`` from several
threads. Kernels that equal an earlier one are not looked for.

Two methods more are optional. ``plan(kernels)`` gives the bytes of memory, on this machine, that
each kernel will take; the kernels have no normalizer yet. ``means(kernel, counts)`` gives
Σ_j counts_j k(x_i, x_j) / Σ_j counts_j for each row of ``kernel.values``, before normalization:
centered kernels need it; else blocks are computed here, a pass over all pairs of rows.

``clone`` keeps the object itself. Model files keep what prediction needs, and not the storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kernelweave._core.checks import check_choice, shown
from kernelweave._core.types import Array, Places
from kernelweave.banks.member import TrainingKernel
from kernelweave.stacks.defaults import as_stack
from kernelweave.stacks.lazy import LazyStack
from kernelweave.stacks.protocol import Stack, is_stack

STORAGES = ("auto", "dense", "factors", "lazy")


class Storage(Protocol):
    """What ``KernelBank(storage=…)`` takes beside words: see above."""

    def build(self, kernels: list[TrainingKernel]) -> Any:
        """The stack of these kernels, in their order."""
        ...


def check_storage(storage: Any) -> Any:
    """``storage``, if it is a way to keep kernels."""
    if hasattr(storage, "build") and not isinstance(storage, type):
        return storage
    if storage is not None and not isinstance(storage, str):
        raise ValueError(
            f"storage must be one of {', '.join(map(repr, STORAGES))}, or an object with a method "
            f"build(kernels), see kernelweave.banks.storage; found {shown(storage)}."
        )
    check_choice("storage", storage, STORAGES)
    return storage


@dataclass(frozen=True)
class _Blocks:
    """Blocks of any of these kernels."""

    kernels: tuple[TrainingKernel, ...]

    def __call__(self, kernel: int, rows: Places, columns: Places) -> Array:
        return self.kernels[kernel].block(rows, columns)


@dataclass(frozen=True)
class OnDemand:
    """``"lazy"``: blocks of any rows, normalized as matrices are, and a cache of rows."""

    cache_size: float

    def build(self, kernels: list[TrainingKernel]) -> LazyStack:
        """Nothing is computed but diagonals."""
        for one in kernels:
            if not one.kernel.known_psd:
                raise ValueError(
                    f"{one.kernel.label()} may not be positive semidefinite, and on demand nobody "
                    "checks: use a kernel of kernelweave, or storage='dense'."
                )
        diagonals = np.array([one.diagonal() for one in kernels])
        return LazyStack(_Blocks(tuple(kernels)), diagonals, self.cache_size)


def build_stack(storage: Storage, kernels: list[TrainingKernel]) -> Stack | None:
    """The stack of those kernels that are not dropped; None where all are."""
    means = getattr(storage, "means", None)
    left = []
    for one in kernels:
        own = None if means is None else (lambda counts, one=one: np.array(means(one, counts)))
        if one.learn(means=own):
            left.append(one)
    if not left:
        return None
    found, n = storage.build(left), left[0].n
    if not is_stack(found) or (int(found.m), int(found.n)) != (len(left), n):
        told = f"m={found.m}, n={found.n}" if is_stack(found) else shown(found)
        raise ValueError(
            f"storage: build(kernels) of {type(storage).__name__} must return a stack of "
            f"{len(left)} kernels over {n} rows (kernelweave.stacks.protocol); found {told}."
        )
    return as_stack(found)
