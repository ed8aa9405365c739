"""Kernels on numbers: Gaussian, Laplacian, polynomial and linear.

All are computed from arrays that the kernels of a view share: squared distances, distances or
inner products.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np

from kernelweave._core.checks import check_number, is_number, is_sparse
from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel, UnitDiagonal
from kernelweave.stacks._passes import decay
from kernelweave.stacks.row_kernels import GAUSSIAN, LAPLACIAN, POLYNOMIAL, Entry
from kernelweave.views.rows import Pair, Rows

_PIECE = 2**15  # numbers raised to a power at a time


class _Radial(UnitDiagonal):
    """exp(−rate · distance), the rate a function of the width; 1 on the diagonal."""

    _of_gamma: ClassVar[str]
    width: float
    relative: bool
    _median: ClassVar[str]  # the attribute of rows that ``relative`` widths are multiples of
    fills_half = True
    has_gradient = True

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Raise TypeError for ``gamma``, the name of other libraries, with the width it means."""
        if "gamma" in options:
            raise TypeError(f"{cls.__name__} has no gamma, but a width: {cls._of_gamma}.")
        return super().__new__(cls)

    def label(self) -> str:
        unit = "×median" if self.relative else ""
        return f"{type(self).__name__}(width={_short(self.width)}{unit})"

    def validate(self) -> None:
        width = check_number(f"{type(self).__name__}: width", self.width)
        if width * width < np.finfo(np.float64).tiny:
            raise ValueError(f"{self.label()}: width {width!r} is too small to divide by.")

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        fitted = type(self)(float(self.width))
        if self.relative:
            fitted.width *= getattr(rows, self._median)
            fitted.validate()
        return [("", fitted)]


class Gaussian(_Radial):
    """k(x, z) = exp(−|x − z|² / (2 width²)).

    Parameters
    ----------
    width : positive float
        ``SVC(gamma=γ)``, with kernel exp(−γ|x − z|²), corresponds to width = (2γ)^−½.
    relative : bool
        If true, ``width`` is a multiple of the median distance between training rows, learned when
        the bank is fitted. Pairs of equal rows are ignored; with more than 1,000 rows, 1,000 evenly
        spaced ones are used.
    """

    _of_gamma = "exp(−γ|x − z|²) is width=(2γ)**-0.5"
    _median = "median_distance"
    takes_sparse = True

    def __init__(self, width: float = 1.0, relative: bool = False) -> None:
        self.width = width
        self.relative = relative

    def fill(self, pair: Pair, out: Array) -> None:
        """Squared distances, scaled and exponentiated."""
        decay(pair.sq_distances_in(out), self.entry().a, out)

    def gradient(self, a: Rows, b: Rows, weights: Array) -> Array:
        """Σ_j weights_ij k(x_i, z_j) (z_j − x_i) / width²."""
        pull = weights * self.between(a, b) * (2.0 * self.entry().a)
        return pull @ b.values - pull.sum(axis=1)[:, None] * dense(a.values)

    def entry(self) -> Entry:
        """exp(−|x − z|² / (2 width²))."""
        return Entry(GAUSSIAN, 0.5 / (self.width * self.width))


class Laplacian(_Radial):
    """k(x, z) = exp(−Σ_j |x_j − z_j| / width).

    Parameters
    ----------
    width : positive float
    relative : bool
        If true, ``width`` is a multiple of the median of Σ_j |x_j − z_j| between training rows
        that differ, learned when the bank is fitted.
    """

    _of_gamma = "exp(−γ|x − z|₁) is width=1/γ"
    _median = "median_l1_distance"

    def __init__(self, width: float = 1.0, relative: bool = False) -> None:
        self.width = width
        self.relative = relative

    def fill(self, pair: Pair, out: Array) -> None:
        """Distances, scaled and exponentiated."""
        decay(pair.l1_distances_in(out), self.entry().a, out)

    def gradient(self, a: Rows, b: Rows, weights: Array) -> Array:
        """Σ_j weights_ij k(x_i, z_j) sign(z_j − x_i) / width; 0 for columns where they agree."""
        pull = weights * self.between(a, b) * self.entry().a
        found = np.empty(a.values.shape)
        for column, (x, z) in enumerate(zip(a.values.T, b.values.T, strict=True)):
            found[:, column] = np.einsum("ij,ij->i", pull, np.sign(z - x[:, None]))
        return found

    def entry(self) -> Entry:
        """exp(−|x − z|₁ / width)."""
        return Entry(LAPLACIAN, 1.0 / self.width)


class Polynomial(Kernel):
    """k(x, z) = (xᵀz + offset)^degree.

    Parameters
    ----------
    degree : positive int
    offset : non-negative float
        With a negative offset the kernel might not be positive semidefinite.
    """

    fills_half = True
    has_gradient = True
    takes_sparse = True

    def __init__(self, degree: int = 2, offset: float = 1.0) -> None:
        self.degree = degree
        self.offset = offset

    def label(self) -> str:
        """Shows the degree, and the offset unless it is 1."""
        offset = "" if self.offset == 1.0 else f", offset={_short(self.offset)}"
        return f"Polynomial(degree={_short(self.degree)}{offset})"

    def validate(self) -> None:
        """Raise ValueError unless degree and offset make a positive semidefinite kernel."""
        check_number("Polynomial: degree", self.degree, int)
        check_number("Polynomial: offset", self.offset, zero=True)

    def fill(self, pair: Pair, out: Array) -> None:
        """Products plus offset, raised to the degree, a piece that fits the cache at a time."""
        given, result = pair.products_in(out).reshape(-1), out.reshape(-1)
        for start in range(0, len(result), _PIECE):
            piece = slice(start, start + _PIECE)
            _power(given[piece] + float(self.offset), int(self.degree), result[piece])

    def diagonal(self, rows: Rows) -> Array:
        """(|x|² + offset)^degree."""
        return _power(rows.sq_norms + float(self.offset), int(self.degree))

    def gradient(self, a: Rows, b: Rows, weights: Array) -> Array:
        """Σ_j weights_ij degree (x_iᵀz_j + offset)^(degree − 1) z_j."""
        return np.asarray(weights * self._slope(Linear().between(a, b)) @ b.values)

    def diagonal_gradient(self, rows: Rows) -> Array:
        """2 degree (|x|² + offset)^(degree − 1) x."""
        return 2.0 * self._slope(rows.sq_norms)[:, None] * dense(rows.values)

    def _slope(self, products: Array) -> Array:
        """The derivative by the product of two rows."""
        degree = int(self.degree)
        if degree == 1:
            return np.ones_like(products)
        return degree * _power(products + float(self.offset), degree - 1)

    def entry(self) -> Entry:
        """(xᵀz + offset)^degree."""
        return Entry(POLYNOMIAL, float(self.offset), int(self.degree))

    def most_rank(self, columns: int) -> float:
        """The number of monomials up to the degree."""
        return math.comb(columns + int(self.degree), int(self.degree))


class Linear(Kernel):
    """k(x, z) = xᵀz."""

    fills_half = True
    is_linear = True
    has_gradient = True
    takes_sparse = True

    def label(self) -> str:
        """Its name; it has no parameters."""
        return "Linear()"

    def fill(self, pair: Pair, out: Array) -> None:
        """The inner products."""
        np.copyto(out, pair.products_in(out))

    def diagonal(self, rows: Rows) -> Array:
        """|x|²."""
        return rows.sq_norms

    def gradient(self, a: Rows, b: Rows, weights: Array) -> Array:
        """Σ_j weights_ij z_j."""
        if not weights.strides[0]:  # the same for all rows
            return np.tile(weights[:1] @ b.values, (len(a), 1))
        return np.asarray(weights @ b.values)

    def diagonal_gradient(self, rows: Rows) -> Array:
        """2x."""
        return 2.0 * dense(rows.values)

    def entry(self) -> Entry:
        """xᵀz."""
        return Entry(POLYNOMIAL, 0.0)

    def most_rank(self, columns: int) -> float:
        """One for each column."""
        return columns


def dense(values: Any) -> Array:
    """Some rows as an array, whether X is sparse or not."""
    return np.asarray(values.toarray() if is_sparse(values) else values)


def _power(base: Array, degree: int, out: Array | None = None) -> Array:
    """base^degree by repeated squaring: the binary digits of the degree from the left."""
    result = base
    if degree == 1 and out is not None:
        np.copyto(out, base)
    with np.errstate(over="ignore"):  # the bank refuses kernels that overflow
        for digit in bin(degree)[3:]:
            result = out = np.multiply(result, result, out=out)
            if digit == "1":
                np.multiply(result, base, out=out)
    return result


def _short(value: Any) -> str:
    return f"{value:g}" if is_number(value) else repr(value)
