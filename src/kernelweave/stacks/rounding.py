"""How exactly sums over kernels are known: bounds that hold in exact arithmetic.

A sum of k products computed in floating point errs by at most k·ε times the sum of their sizes,
whatever the order. For kernels |K_ij| ≤ √(K_ii K_jj), so that with s_i² = Σ_m |d_m| K_m,ii

    |f_i − (K(d)w)_i| ≤ k·ε·s_i Σ_j s_j|w_j|        |q_m − vᵀK_m v| ≤ k·ε·(Σ_i √K_m,ii |v_i|)²

which costs O(mn), for every kind of stack; ε is the unit of the sums that a stack names, and what
its entries may be off by is added to k·ε (``kernelweave.stacks.precision``). A little is added to
each K_ii: what negative eigenvalues a kernel may have. Where this is not good enough, ``fine`` sums
are made in extended precision (``numpy.longdouble``), whose ε is 2000 times smaller on most
processors; where it is not, the bound stays true and loose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._core.tolerances import EPS, NEGATIVITY, NOTHING
from kernelweave._core.types import Array, Places
from kernelweave.stacks.precision import FINE, units_of
from kernelweave.stacks.protocol import Stack, operations_of

_ROWS = 256  # rows of a kernel that are widened at a time
_MORE = 16  # operations beside the sum itself: scaling, weights, the bias


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
    return np.asarray(units_of(stack).of(4.0) * s * float(s @ np.abs(coef)))


def _little(stack: Stack) -> Array:
    """What is added to each diagonal: how negative eigenvalues of a kernel may be."""
    return NEGATIVITY[stack.precision] * np.abs(stack.traces())


def values_of(stack: Stack, d: Array, coef: Array, f: Array | None) -> Values:
    """f = K(d)coef as it was computed in double precision, or anew where it is not given."""
    return fine_values(stack, d, coef) if f is None else plain_values(stack, d, coef, f)


def plain_values(stack: Stack, d: Array, coef: Array, f: Array) -> Values:
    """f = K(d)coef as the passes of the stack computed it, with its error."""
    active = int(np.count_nonzero(d))
    terms = int(np.count_nonzero(coef)) + active * (1 + operations_of(stack)) + _MORE
    s = row_norms(stack, d)
    return Values(f, units_of(stack).of(terms) * s * float(s @ np.abs(coef)))


def fine_values(stack: Stack, d: Array, coef: Array) -> Values:
    """f = K(d)coef anew, in extended precision; costs a pass over the kernels with a weight."""
    support, active = np.flatnonzero(coef), np.flatnonzero(d)
    w, f = coef[support].astype(FINE), np.zeros(stack.n, FINE)
    for k in active:
        f += FINE(d[k]) * fine_product(stack, int(k), np.arange(stack.n), support, w)
    s = row_norms(stack, d)
    terms = support.size + active.size + _MORE
    entry = operations_of(stack) * EPS  # entries may be rounded themselves
    unit = terms * units_of(stack).fine + entry
    error = unit * s * float(s @ np.abs(coef))
    norm = (active.size + 4.0) * EPS * np.abs(f.astype(float))  # that of the weights is 1 nearly
    return Values(f, error + norm)


def fine_product(
    stack: Stack, kernel: int, rows: Places, support: Places, w: np.ndarray
) -> np.ndarray:
    """K[rows, support]·w in extended precision, some rows at a time, or as the stack does it."""
    own = getattr(stack, "fine_product", None)
    if own is not None:
        return np.asarray(own(kernel, rows, support, w))
    parts = [
        stack.block(kernel, rows[i : i + _ROWS], support).astype(FINE) @ w
        for i in range(0, rows.size, _ROWS)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, FINE)


def quad_bounds(
    stack: Stack, scale: Array, parts: Sequence[Array], q: Array, fine: bool, largest: bool
) -> Array:
    """Upper bounds of all s_m Σ_c v_cᵀK_m v_c, from values q computed in double precision.

    ``fine``: they are computed anew. Where only the ``largest`` counts, those that could be it;
    otherwise until what is left of the errors is nothing.
    """
    sizes, entry, units = np.zeros(stack.m), operations_of(stack), units_of(stack)
    terms = 2 * max(int(np.count_nonzero(v)) for v in parts) + len(parts) + _MORE
    for v in parts:
        total = float(np.abs(v).sum())  # (Σ √K_ii|v_i|)² ≤ Σ|v_i| Σ K_ii|v_i|
        sizes += total * (stack.diagonals() @ np.abs(v) + total * _little(stack))
    error = units.of(terms + entry) * scale * sizes
    most = q + error
    if not fine or not sizes.any():
        return most
    order = np.argsort(-most)
    left = np.cumsum(error[order][::-1])[::-1]  # of each kernel and those after it
    nothing, least = NOTHING * float(most.max()), 0.0
    for k, rest in zip(order, left, strict=True):
        if most[k] <= least if largest else rest <= nothing:
            break
        exact = FINE(scale[k]) * sum(_fine_quad(stack, int(k), v) for v in parts)
        error[k] = (terms * units.fine + entry * EPS) * scale[k] * sizes[k]
        most[k] = float(max(exact, FINE(0.0))) * (1.0 + EPS) + error[k]
        least = max(least, float(exact) - error[k])
    return most


def _fine_quad(stack: Stack, kernel: int, v: Array) -> Any:
    """vᵀK_m v in extended precision."""
    support = np.flatnonzero(v)
    w = v[support].astype(FINE)
    return w @ fine_product(stack, kernel, support, support, w)
