"""Kernels from a continuum: all Gaussians with widths between two."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from kernelweave._core.checks import check_number, check_truth
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.numeric import Gaussian
from kernelweave.views.rows import Rows

_BEGIN = 5  # widths to begin with


class GaussianRange(Kernel):
    """All Gaussians exp(−|x − z|² / (2 width²)) with low ≤ width ≤ high: no width has to be chosen.

    An estimator learns a combination of these kernels that is best among all of them, and
    ``exact_gap_`` proves it: ``MKLClassifier([GaussianRange()])``. It asks for a few widths, mostly
    of two or three weights. A ``KernelBank`` by itself, which sees no labels, takes five widths
    between the two.

    Parameters
    ----------
    low, high : positive floats
        Narrower widths than a quarter of the median distance tend to learn rows by heart.
    relative : bool
        If true, widths are multiples of the median distance between training rows.
    """

    _chosen: Mapping[tuple[int, ...], Sequence[float]] | None = None

    def __init__(self, low: float = 0.25, high: float = 8.0, relative: bool = True) -> None:
        self.low = low
        self.high = high
        self.relative = relative

    def label(self) -> str:
        """Its range."""
        return f"GaussianRange({self.low:g} to {self.high:g}{'×median' * bool(self.relative)})"

    def validate(self) -> None:
        """Raise an error unless 0 < low ≤ high."""
        low, high = (
            check_number(f"GaussianRange: {name}", getattr(self, name)) for name in ("low", "high")
        )
        check_truth("GaussianRange: relative", self.relative)
        if low > high:
            raise ValueError(
                f"GaussianRange: low must not exceed high, found low={low:g} and high={high:g}"
            )

    def at(self, chosen: Mapping[tuple[int, ...], Sequence[float]]) -> Self:
        """The same range at these widths, which are given by the columns of a view."""
        other = copy.copy(self)
        other._chosen = chosen
        return other

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """The widths chosen, by default some in equal ratios."""
        unit = rows.median_distance if self.relative else 1.0
        low, high = unit * self.low, unit * self.high
        widths = (self._chosen or {}).get(tuple(rows.view.columns))
        if widths is None:
            widths = np.geomspace(low, high, _BEGIN if low < high else 1).tolist()
        widths = np.clip(widths, low, high).tolist()
        return [(f"width={width:.4g}", WidthOfRange(width, low, high)) for width in widths]


class WidthOfRange(Gaussian):
    """One width of a range."""

    def __init__(self, width: float, low: float, high: float) -> None:
        super().__init__(width)
        self.low = low
        self.high = high
