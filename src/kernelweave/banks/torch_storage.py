"""Kernels of a bank on a device of PyTorch: ``KernelBank(storage=TorchStorage("cuda"))``.

Linear, polynomial, Gaussian and Laplacian kernels on dense rows are generated there, with every
normalization, and for rows that lack a view. Matrices of all other kernels are computed on the host
and moved. PyTorch is the extra ``torch``, loaded on use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelweave._core.extras import missing
from kernelweave._core.types import Array
from kernelweave.banks.member import TrainingKernel
from kernelweave.banks.row_kernels import row_kernels
from kernelweave.stacks.gram import check_gram

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
