"""The kernels a bank has when none are named."""

from __future__ import annotations

from .functions import Gaussian, Linear
from .kernel import Kernel

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)


def default_kernels() -> list[Kernel]:
    """Linear, and Gaussians of ¼, ½, 1, 2 and 4 times the median distance of the view.

    ``KernelBank(None)`` crosses them with its views and, under ``scale="auto"``, shows them
    columns at mean 0 and variance 1. So they work on a raw table, and do not change when columns
    are shifted or rescaled.
    """
    return [Linear(), *(Gaussian(width, relative=True) for width in WIDTHS)]
