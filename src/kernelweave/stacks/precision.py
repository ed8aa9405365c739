"""How exactly a stack computes: the units of its sums, as it names them.

    |pass − truth| ≤ (terms·sum_eps + entry_eps)·s_i Σ_j s_j|w_j|,      s_i = √K_ii

``block`` and ``fine_product`` say what the kernel is. Passes (``matvecs``, ``quad_forms``,
``combined``) may be rougher: ``sum_eps`` is the unit of their sums, ``entry_eps`` how far an entry
that they use may be from that of ``block``, as a share of √(K_ii K_jj). ``fine_eps`` is the unit of
``fine_product``. ``operations`` are the roundings behind one entry of ``block`` where the kernel is
something more exact: factors stand for FFᵀ in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelweave._core.blocks import blocks
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Places

FINE = np.longdouble
FINE_EPS = float(np.finfo(FINE).eps)


class Units(NamedTuple):
    """``sum_eps``, ``entry_eps``, ``fine_eps`` and ``operations`` of a stack."""

    sum: float = EPS
    entry: float = 0.0
    fine: float = FINE_EPS
    operations: int = 0

    def of(self, terms: float) -> float:
        """What a sum of so many products may lose, as a share of their sizes."""
        return terms * self.sum + self.entry


DOUBLE = Units()
"""Sums in float64 of the entries themselves."""


def units_named_by(stack: Any) -> Units:
    """As an object says; else sums are float64, and entries those of ``block``.

    A ``fine_product`` of its own that names no unit counts as float64.
    """
    fine = EPS if hasattr(stack, "fine_product") else FINE_EPS
    names = (("sum_eps", EPS), ("entry_eps", 0.0), ("fine_eps", fine))
    total, entry, fine = (float(getattr(stack, name, usual)) for name, usual in names)
    return Units(total, entry, fine, int(getattr(stack, "operations", 0)))


def roughest(units: Iterable[Units]) -> Units:
    """The largest of each."""
    return Units(*map(max, zip(*units, strict=True)))


class PlainSums:
    """What a stack has for free whose sums are float64, and whose kernels are what blocks say."""

    units = DOUBLE

    @property
    def name(self) -> str:
        """That of the class."""
        return type(self).__name__

    def expect(self, vectors: Sequence[np.ndarray]) -> None:
        """Nothing: each product is one of its own."""

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K[rows, support]·w in extended precision, some rows at a time."""
        block: Any = self.block  # type: ignore[attr-defined]
        out = np.zeros(rows.size, FINE)
        for some in blocks(rows.size, support.size, SETTINGS.block):
            out[some] = block(kernel, rows[some], support).astype(FINE) @ w
        return out

    def fine_products(
        self, kernels: Places, rows: Places, support: Places, w: np.ndarray
    ) -> np.ndarray:
        """The same of several kernels, one after the other."""
        out = np.zeros((kernels.size, rows.size), FINE)
        for place, k in enumerate(kernels):
            out[place] = self.fine_product(int(k), rows, support, w)
        return out

    def finer(self) -> Any:
        """None: passes are as exact as they can be."""
        return None
