"""The default kernels of a bank."""

from __future__ import annotations

from kernelweave.kernels.base import Kernel
from kernelweave.kernels.numeric import Gaussian, Linear, Polynomial

WIDTHS = (0.5, 1.0, 2.0)


def default_kernels() -> list[Kernel]:
    """xᵀz, (xᵀz + 1)², and Gaussians of ½, 1 and 2 times the median distance of the view.

    ``KernelBank(None)`` applies them to each view and, under ``scale="auto"``, standardizes the
    columns to mean 0 and variance 1. They therefore work on a raw table, and do not change when
    columns are shifted or rescaled. Narrower Gaussians tend to overfit where classes overlap.
    """
    return [Linear(), Polynomial(2), *(Gaussian(width, relative=True) for width in WIDTHS)]
