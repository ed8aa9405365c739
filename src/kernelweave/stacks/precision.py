"""How exactly a stack computes: the units of its sums, as it names them.

    |pass − truth| ≤ (terms·sum_eps + entry_eps)·s_i Σ_j s_j|w_j|,      s_i = √K_ii

``block`` and ``fine_product`` say what the kernel is. Passes (``matvecs``, ``quad_forms``,
``combined``) may be rougher: ``sum_eps`` is the unit of their sums, ``entry_eps`` how far an entry
that they use may be from that of ``block``, as a share of √(K_ii K_jj). ``fine_eps`` is the unit of
``fine_product``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from kernelweave._core.tolerances import EPS

FINE = np.longdouble
FINE_EPS = float(np.finfo(FINE).eps)


class Units(NamedTuple):
    """``sum_eps``, ``entry_eps`` and ``fine_eps`` of a stack."""

    sum: float = EPS
    entry: float = 0.0
    fine: float = FINE_EPS

    def of(self, terms: float) -> float:
        """What a sum of so many products may lose, as a share of their sizes."""
        return terms * self.sum + self.entry


DOUBLE = Units()
"""Sums in float64 of the entries themselves."""


def units_of(stack: Any) -> Units:
    """As the stack says; else sums are float64, and entries those of ``block``.

    Views of other stacks keep ``units``. A ``fine_product`` that names no unit counts as float64.
    """
    found: Units | None = getattr(stack, "units", None)
    if found is not None:
        return found
    fine = EPS if hasattr(stack, "fine_product") else FINE_EPS
    names = (("sum_eps", EPS), ("entry_eps", 0.0), ("fine_eps", fine))
    return Units(*(float(getattr(stack, name, usual)) for name, usual in names))


def roughest(units: Iterable[Units]) -> Units:
    """The largest of each."""
    return Units(*map(max, zip(*units, strict=True)))
