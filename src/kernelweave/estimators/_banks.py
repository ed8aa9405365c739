"""What an estimator asks of its bank: which one it is, and what its kernels read."""

from __future__ import annotations

from typing import Any

from kernelweave.banks.bank import KernelBank
from kernelweave.kernels.adapters import as_kernel
from kernelweave.kernels.precomputed import Precomputed


def as_bank(kernels: Any) -> KernelBank:
    """The bank for an estimator's parameter ``kernels``."""
    return kernels if isinstance(kernels, KernelBank) else KernelBank(kernels)


def takes_strings(kernels: Any) -> bool:
    """Whether some kernel reads columns unchanged, strings included."""
    items = as_bank(kernels).kernels
    for item in items if isinstance(items, list) else [items]:
        try:
            kernel = as_kernel(item[1] if isinstance(item, tuple) else item)
        except (TypeError, IndexError):  # None, or an error that fit will report
            continue
        if not kernel.numeric and not isinstance(kernel, Precomputed):
            return True
    return False
