"""Kernels of a bank on a device of PyTorch: ``KernelBank(storage=TorchStorage("cuda"))``.

Linear, polynomial, Gaussian and Laplacian kernels on dense rows are generated there, with every
normalization, and for rows that lack a view. Matrices of all other kernels are computed on the host
and moved. PyTorch is the extra ``torch``, loaded on use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._core.checks import shown
from kernelweave._core.extras import missing
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array
from kernelweave.banks.member import TrainingKernel
from kernelweave.banks.row_kernels import row_kernels
from kernelweave.stacks.validation import check_gram

if TYPE_CHECKING:
    from kernelweave.stacks.torch_stack import TorchStack


@dataclass(frozen=True)
class TorchStorage:
    """Keeps kernels on a device of PyTorch; see ``kernelweave.banks.storage``.

    Parameters
    ----------
    device : str
        "cuda", "cuda:1", "mps", or "cpu" for tests.
    dtype : "float64", "float32" or None
        Precision of passes and of the combined matrix, where that fits; None: float64 where it
        fits, else float32. What is certified are the kernels in float64.
    """

    device: str = "cuda"
    dtype: str | None = None

    def build(self, kernels: list[TrainingKernel]) -> TorchStack:
        """Rows and normalizations on the device; no kernel is computed that it can generate."""
        require_torch()
        from kernelweave.stacks.torch_stack import TorchStack

        views, others = row_kernels(kernels)
        matrices = {int(k): _matrix(kernels[k]) for k in others}
        return TorchStack(views, matrices, self.device, self.dtype)

    def means(self, kernel: TrainingKernel, counts: Array) -> Array:
        """Means of the rows of a kernel before normalization, on the device."""
        require_torch()
        entry, x = kernel.kernel.entry(), kernel.values if kernel.kernel.numeric else None
        if entry is None or not isinstance(x, np.ndarray):
            return kernel.means(counts)
        from kernelweave.stacks.torch_stack import row_sums

        return row_sums(x, entry, counts, self.device) / counts.sum()


def on_device(device: Any, X: Any, storage: Any, approximation: Any, dtype: Any) -> Any:
    """What keeps the kernels of a bank under its ``device``; ``storage`` on the processor.

    "auto" takes a GPU from ``SETTINGS.device_rows`` rows on: below, fits on the processor are as
    fast, and need no copies.
    """
    if not (device is None or isinstance(device, str)):
        raise TypeError(
            f"device must be None, 'auto' or the name of a device such as 'cuda:1', found "
            f"{shown(device)}."
        )
    if device == "auto":
        device = "cuda" if is_there("cuda") and len(X) >= SETTINGS.device_rows else "cpu"
    elif device is None:
        device = str(X.device)
    if device == "cpu":
        return storage
    if storage != "auto":
        raise ValueError(
            f"device={device!r} says where kernels are kept, and storage={shown(storage)}, too: "
            "leave one of them out."
        )
    if approximation is not None:
        raise ValueError(
            f"device={device!r}: {shown(approximation)} is computed on the processor alone; leave "
            "one of them out. Exact kernels on a device need no approximation."
        )
    require_torch()
    from kernelweave.stacks.torch_device import device_of

    device_of(device)  # which says what PyTorch sees, where it is not there
    return TorchStorage(device, "float32" if np.dtype(dtype) == np.float32 else None)


def is_there(device: str) -> bool:
    """Whether PyTorch is there, and this device of it."""
    try:
        from kernelweave.stacks.torch_device import device_of

        device_of(device)
    except (ImportError, ValueError):
        return False
    return True


def require_torch() -> None:
    """Raise ``ImportError`` that names the extra, where there is no PyTorch."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise missing("Kernels on a device need", "torch", "torch") from error


def _matrix(one: TrainingKernel) -> Array:
    """A kernel that only the host can compute, checked as those in memory are."""
    every = np.arange(one.n)
    K = one.block(every, every)
    return K if one.kernel.known_psd else check_gram(K, f"kernel {one.name!r}")
