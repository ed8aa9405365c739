"""How ``learn`` may get the same kernels, for ``fuzz.py``: arrays, factors, functions, stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import kernelweave as kw
from benchmarks.harness.internals import LazyStack, matrices

SINGLE = float(np.finfo(np.float32).eps)


class Storage(NamedTuple):
    """``hand`` makes of the numbers what ``learn`` gets, ``certified`` the kernels behind it."""

    hand: Callable[[Any], Any]
    certified: Callable[[Any], Any]


class Blocks:
    """A stack of one's own with nothing but blocks."""

    def __init__(self, K: Any) -> None:
        self.K, (self.m, self.n) = K, K.shape[:2]

    def block(self, kernel: int, rows: Any, columns: Any) -> Any:
        return self.K[kernel][np.ix_(rows, columns)].astype(float)


class Rough(Blocks):
    """Its passes read ``bits`` of each number and sum in float32; it says so."""

    sum_eps = SINGLE

    def __init__(self, K: Any, bits: int) -> None:
        super().__init__(K)
        self.bits, self.rough = bits, short(K, bits).astype(np.float32)
        self.entry_eps = 2.0 ** (2 - bits)  # both factors of each product lose bits

    def matvecs(self, v: Any, rows: Any = None, kernels: Any = None) -> Any:
        chosen = self.rough if kernels is None else self.rough[kernels]
        chosen = chosen if rows is None else chosen[:, rows]
        unit = float(np.abs(v).max()) or 1.0  # float32 has a smaller range, too
        return unit * (chosen @ short(v / unit, self.bits).astype(np.float32)).astype(float)

    def quad_forms(self, v: Any, kernels: Any = None) -> Any:
        return self.matvecs(v, kernels=kernels) @ v


def short(x: Any, bits: int) -> Any:
    """x with so many bits of its mantissa, as a tensor core reads it."""
    mantissa, exponent = np.frexp(np.asarray(x, dtype=float))
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


def on_demand(K: Any) -> Any:
    diagonals = np.einsum("kii->ki", K)
    return LazyStack(lambda k, a, b: K[k][np.ix_(a, b)].astype(float), diagonals)


def as_kept(K: Any) -> Any:
    """The array as a ``KernelStack`` keeps it, its symmetric part, as precise as it came."""
    return np.array(list(matrices(kw.KernelStack(K)))).astype(K.dtype)


def as_given(K: Any) -> Any:
    return K


def products(F: Any) -> Any:
    """FFᵀ of factors whose numbers are short: products are exact."""
    return F @ F.transpose(0, 2, 1)


def symmetric(K: Any) -> Any:
    """The symmetric part: stacks of one's own promise symmetry."""
    return (K + K.transpose(0, 2, 1)) / 2


STORAGES = {
    "array": Storage(as_given, as_kept),
    "widened": Storage(lambda K: K.astype(float), lambda K: as_kept(K.astype(float))),
    "float32 sums": Storage(lambda K: Rough(symmetric(K), 24), symmetric),
    "tf32 sums": Storage(lambda K: Rough(symmetric(K), 11), symmetric),
    "blocks": Storage(lambda K: Blocks(symmetric(K)), symmetric),
    "on demand": Storage(lambda K: on_demand(symmetric(K)), symmetric),
    "factors": Storage(lambda F: kw.FactorStack(list(F)), products),
    "products": Storage(products, products),
}
