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
from kernelweave.banks.row_kernels import is_row_kernel, row_kernels
from kernelweave.stacks.validation import check_gram

if TYPE_CHECKING:
    from kernelweave.stacks.torch_stack import TorchStack

_LANDMARKS = 15  # times √n: the columns of that factor, about


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
        from kernelweave.banks.torch_rows import there
        from kernelweave.stacks.torch_device import device_of
        from kernelweave.stacks.torch_stack import TorchStack

        views, others = row_kernels(kernels)
        matrices = {int(k): _matrix(kernels[k]) for k in others}
        device = device_of(self.device)
        groups = [kernels[view.numbers[0]].group for view in views]
        rows = [None if own.places is not None else there(own.rows, device) for own in groups]
        return TorchStack(views, matrices, self.device, self.dtype, rows)

    def plan(self, kernels: list[TrainingKernel]) -> list[int]:
        """Bytes of the rows of each view, told of its first kernel; matrices of all other kinds."""
        seen, found = set[int](), list[int]()
        for one in kernels:
            if not is_row_kernel(one):
                found.append(8 * one.n**2)
                continue
            found.append(0 if id(one.values) in seen else one.values.nbytes)
            seen.add(id(one.values))
        return found

    def besides(self, places: Any, n: int) -> int:
        """K(d), where it is kept, and a factor of it on some rows."""
        require_torch()
        from kernelweave.stacks.torch_device import device_of, free_bytes
        from kernelweave.stacks.torch_stack import TorchStack

        sizes = [8, 4] if self.dtype is None else [np.dtype(self.dtype).itemsize]
        most = TorchStack.room * free_bytes(device_of(self.device))
        kept = next((size * n * n for size in sizes if size * n * n <= most), 0)
        return kept + int(sizes[-1] * _LANDMARKS * n**1.5)

    def available(self, kernels: list[TrainingKernel]) -> int | None:
        """Bytes that are free there; None where nobody says."""
        require_torch()
        from kernelweave.stacks.torch_device import device_of, free_bytes

        free = free_bytes(device_of(self.device))
        return int(free) if free < np.inf else None

    def approximating(self, recipe: Any) -> Any:
        """What keeps features of the kernels there, for an approximation."""
        require_torch()
        from kernelweave.banks.torch_approximation import OnDevice

        return OnDevice(recipe, self.device)

    def means(self, kernel: TrainingKernel, counts: Array) -> Array:
        """Means of the rows of a kernel before normalization, on the device."""
        require_torch()
        entry, rows = kernel.kernel.entry(), kernel.group.rows
        if entry is None or rows.table.sparse:
            return kernel.means(counts)
        from kernelweave.banks.torch_rows import there
        from kernelweave.stacks.torch_device import device_of, fine_device
        from kernelweave.stacks.torch_stack import row_sums

        x = there(rows, fine_device(device_of(self.device)))
        return row_sums(x, entry, counts) / counts.sum()


def on_device(device: Any, X: Any, storage: Any, dtype: Any) -> Any:
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
    require_torch()
    from kernelweave.stacks.torch_device import device_of

    device_of(device)  # which says what PyTorch sees, where it is not there
    return TorchStorage(device, "float32" if np.dtype(dtype) == np.float32 else None)


def is_there(device: str) -> bool:
    """Whether PyTorch is there, and this device of it; no other word loads PyTorch."""
    if device.partition(":")[0] not in ("cpu", "cuda", "mps"):
        return False
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
