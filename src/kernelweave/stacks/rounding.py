"""How exactly sums over kernels are known: bounds that hold in exact arithmetic.

A sum of k products computed in floating point errs by at most k·ε times the sum of their sizes,
whatever the order. For kernels |K_ij| ≤ √(K_ii K_jj), so that with s_i² = Σ_m |d_m| K_m,ii

    |f_i − (K(d)w)_i| ≤ k·ε·s_i Σ_j s_j|w_j|        |q_m − vᵀK_m v| ≤ k·ε·(Σ_i √K_m,ii |v_i|)²

which costs O(mn), for every kind of stack; ε is the unit of the sums that a stack names, and what
its entries may be off by is added to k·ε. A little is added to
each K_ii: what negative eigenvalues a kernel may have. Where this is not good enough, ``fine`` sums
are made in extended precision (``numpy.longdouble``), whose ε is 2000 times smaller on most
processors; where it is not, the bound stays true and loose.

What a stack names: ``block`` and ``fine_product`` say what the kernel is. Passes (``matvecs``,
``quad_forms``, ``combined``) may be rougher:

    |pass − truth| ≤ (terms·sum_eps + entry_eps)·s_i Σ_j s_j|w_j|

``sum_eps`` is the unit of their sums, ``entry_eps`` how far an entry that they use may be from that
of ``block``, as a share of √(K_ii K_jj). ``fine_eps`` is the unit of ``fine_product``.
``operations`` are the roundings behind one entry of ``block`` where the kernel is something more
exact: factors stand for FFᵀ in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelweave._core.blocks import blocks
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import EPS, NEGATIVITY, NOTHING
from kernelweave._core.types import Array, Places

if TYPE_CHECKING:
    from kernelweave.stacks.protocol import Stack

_AT_ONCE = 4  # kernels that are looked at together: the next ones may not have to be
_MORE = 16  # operations beside the sum itself: scaling, weights, the bias

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


# ---- error bounds --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Values:
    """Decision values f of coefficients, without bias, and how far each may be from the truth."""

    f: Any
    error: Array


def row_norms(stack: Stack, d: Array) -> Array:
    """All s_i, at least √|K(d)_ii| and with |K(d)_ij| ≤ s_i s_j."""
    sizes = np.abs(d)
    return np.sqrt(np.maximum(sizes @ stack.diagonals() + float(sizes @ _little(stack)), 0.0))


def cancellation(stack: Stack, d: Array, coef: Array) -> Array:
    """What a few operations per entry of K(d)coef may lose where weights of either sign cancel."""
    s = row_norms(stack, d)
    return np.asarray(stack.units.of(4.0) * s * float(s @ np.abs(coef)))


def _little(stack: Stack) -> Array:
    """What is added to each diagonal: how negative eigenvalues of a kernel may be."""
    return NEGATIVITY[stack.precision] * np.abs(stack.traces())


def values_of(stack: Stack, d: Array, coef: Array, f: Array | None) -> Values:
    """f = K(d)coef as it was computed in double precision, or anew where it is not given."""
    return fine_values(stack, d, coef) if f is None else plain_values(stack, d, coef, f)


def plain_values(stack: Stack, d: Array, coef: Array, f: Array) -> Values:
    """f = K(d)coef as the passes of the stack computed it, with its error."""
    active = int(np.count_nonzero(d))
    terms = int(np.count_nonzero(coef)) + active * (1 + stack.units.operations) + _MORE
    s = row_norms(stack, d)
    return Values(f, stack.units.of(terms) * s * float(s @ np.abs(coef)))


def fine_sums(stack: Stack, d: Array, coef: Array) -> Values:
    """f = K(d)coef anew, in extended precision; costs a pass over the kernels with a weight."""
    support, active = np.flatnonzero(coef), np.flatnonzero(d)
    every, w = np.arange(stack.n), coef[support].astype(FINE)
    f = d[active].astype(FINE) @ stack.fine_products(active, every, support, w)
    s = row_norms(stack, d)
    terms = support.size + active.size + _MORE
    entry = stack.units.operations * EPS  # entries may be rounded themselves
    unit = terms * stack.units.fine + entry
    return Values(f, unit * s * float(s @ np.abs(coef)))


def fine_values(stack: Stack, d: Array, coef: Array) -> Values:
    """The same for weights that are divided by their norm: it is 1 nearly."""
    sums = fine_sums(stack, d, coef)
    norm = (np.count_nonzero(d) + 4.0) * EPS * np.abs(sums.f.astype(float))
    return Values(sums.f, sums.error + norm)


def quad_bounds(
    stack: Stack, scale: Array, parts: Sequence[Array], q: Array, fine: bool, largest: bool
) -> Array:
    """Upper bounds of all s_m Σ_c v_cᵀK_m v_c, from values q computed in double precision.

    ``fine``: they are computed anew. Where only the ``largest`` counts, those that could be it;
    otherwise until what is left of the errors is nothing.
    """
    sizes, units = np.zeros(stack.m), stack.units
    support = 0
    for v in parts:
        support = max(support, int(np.count_nonzero(v)))
        total = float(np.abs(v).sum())  # (Σ √K_ii|v_i|)² ≤ Σ|v_i| Σ K_ii|v_i|
        sizes += total * (stack.diagonals() @ np.abs(v) + total * _little(stack))
    terms = 2 * support + len(parts) + _MORE
    error = units.of(terms + units.operations) * scale * sizes
    most = q + error
    if not fine or not sizes.any():
        return most
    order = np.argsort(-most)
    left = np.cumsum(error[order][::-1])[::-1]  # of each kernel and those after it
    nothing, least = NOTHING * float(most.max()), max(float((q - error).max()), 0.0)
    for first in range(0, order.size, _AT_ONCE):
        some = order[first : first + _AT_ONCE]
        some = some[most[some] > least if largest else left[first : first + _AT_ONCE] > nothing]
        if not some.size:
            break
        exact = scale[some].astype(FINE) * sum(_fine_quads(stack, some, v) for v in parts)
        error[some] = (terms * units.fine + units.operations * EPS) * scale[some] * sizes[some]
        most[some] = (exact + EPS * np.abs(exact)).astype(float) + error[some]
        least = max(least, float((exact - error[some]).max()))
    return most


def _fine_quads(stack: Stack, kernels: Places, v: Array) -> Any:
    """vᵀK_m v in extended precision, of some kernels."""
    support = np.flatnonzero(v)
    w = v[support].astype(FINE)
    return stack.fine_products(kernels, support, support, w) @ w
