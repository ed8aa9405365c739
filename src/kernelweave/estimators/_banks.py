"""What an estimator asks of its bank: which one it is, and what its kernels read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kernelweave._core.checks import is_one_of
from kernelweave.banks.bank import KernelBank
from kernelweave.kernels.adapters import as_kernel
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.precomputed import Precomputed


def as_bank(kernels: Any) -> KernelBank:
    """The bank for an estimator's parameter ``kernels``."""
    return kernels if isinstance(kernels, KernelBank) else KernelBank(kernels)


def takes_strings(kernels: Any) -> bool:
    """Whether some kernel reads strings: as categories, as the default bank does, or unchanged."""
    return as_bank(kernels).kernels is None or any(
        kernel.reads != "numbers" and not isinstance(kernel, Precomputed)
        for kernel in _kernels(kernels)
    )


def takes_sparse(kernels: Any) -> bool:
    """Whether a sparse X will do for all kernels, and for the scaling of their columns."""
    return is_one_of(as_bank(kernels).scale, ("auto", None)) and all(
        kernel.takes_sparse for kernel in _kernels(kernels)
    )


def _kernels(kernels: Any) -> Iterator[Kernel]:
    """The kernels named in a bank; items that are none are left out: ``fit`` reports them."""
    items = as_bank(kernels).kernels
    for item in items if isinstance(items, list) else [items]:
        with suppress(TypeError, IndexError):
            yield as_kernel(item[1] if isinstance(item, tuple) else item)
