"""The kernels a bank has when none are named."""

from __future__ import annotations

from kernelweave.kernels.base import Kernel
from kernelweave.kernels.numeric import Gaussian, Linear, Polynomial

WIDTHS = (0.5, 1.0, 2.0)


def default_kernels() -> list[Kernel]:
    """xᵀz, (xᵀz + 1)², and Gaussians of ½, 1 and 2 times the median distance of the view.

    ``KernelBank(None)`` crosses them with its views and, under ``scale="auto"``, shows them
    columns at mean 0 and variance 1. So they work on a raw table, and do not change when columns
    are shifted or rescaled. Narrower Gaussians than these win the training rows, and lose on new
    ones where the classes overlap.
    """
    return [Linear(), Polynomial(2), *(Gaussian(width, relative=True) for width in WIDTHS)]
