"""Polynomials of columns in units of widths, which are learned: another kernel with derivatives.

    k(x, z) = s^p,  s = 1 + Σ_j q_j,  q_j = x_j z_j/width_j²

With t = log width

    ∂_ik = −2p s^{p−1} q_i,    ∂_i∂_jk = 4p(p−1) s^{p−2} q_i q_j + 4δ_ij p s^{p−1} q_i.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_number
from kernelweave._core.types import Array
from kernelweave.kernels.differentiable import Bends, Expansion, Widths
from kernelweave.views.rows import Pair, Rows


class PolynomialWidths(Widths):
    """k(x, z) = (1 + Σ_j x_j z_j/width_j²)^degree, with parameters t = log width.

    An estimator learns the widths, as those of ``GaussianWidths``: of a narrow column the powers
    count, of a wider one less, and of all only the constant is left where widths are large. For
    one width that stays as it is, use ``Polynomial``.

    Parameters
    ----------
    degree : positive int
    width : float, array (n_features,) or None
        Where learning starts: one width for all features, or one per feature. None: the median
        distance between training rows.
    per_feature : bool
        One parameter per feature. If ``width`` is a single number, all of them start from it.
    """

    def __init__(
        self,
        degree: int = 2,
        width: float | ArrayLike | None = None,
        per_feature: bool = False,
    ) -> None:
        self.degree = degree
        self.width = width
        self.per_feature = per_feature

    def validate(self) -> None:
        """Raise an error unless degree and widths are positive."""
        check_number("PolynomialWidths: degree", self.degree, int)
        super().validate()

    def fill(self, pair: Pair, out: Array) -> None:
        """Products of rows in units of the widths, and their powers."""
        a = self._scaled(pair.a)
        np.matmul(a, (a if pair.same else self._scaled(pair.b)).T, out=out)
        out += 1.0
        out **= self.degree

    def diagonal(self, rows: Rows) -> Array:
        """(1 + Σ_j x_j²/width_j²)^degree."""
        return np.asarray((1.0 + np.square(self._scaled(rows)).sum(axis=1)) ** self.degree)

    def derivatives(self, X: Array) -> Expansion:
        """K and its derivatives with respect to log widths."""
        widths = np.exp(self.parameters(X))
        return _PolynomialExpansion(X / widths, widths.size, self.degree)

    def cross(self, Z: Array, X: Array) -> Array:
        """The kernel between the rows of Z and those of X."""
        widths = np.exp(self.parameters(X))
        return np.asarray((1.0 + (Z / widths) @ (X / widths).T) ** self.degree)


class _PolynomialExpansion:
    """Derivatives of a polynomial of scaled rows, with respect to log widths."""

    def __init__(self, scaled: Array, count: int, degree: int) -> None:
        self.scaled, self.count = scaled, count
        self.products = scaled @ scaled.T
        s, p = 1.0 + self.products, float(degree)
        self.matrix = s**degree
        self.slope = p * s ** (degree - 1)
        self.bend = p * (p - 1.0) * s ** max(degree - 2, 0)

    def first(self, i: int) -> Array:
        return np.asarray(-2.0 * self.slope * self._part(i))

    def second(self, i: int, j: int) -> Array:
        found = 4.0 * self.bend * self._part(i) * self._part(j)
        return np.asarray(found + 4.0 * self.slope * self._part(i) if i == j else found)

    def bends(self, M: Array) -> Bends:
        """4⟨M∘p(p−1)s^{p−2}∘q_z, q_i⟩ + 4z_i⟨M∘ps^{p−1}, q_i⟩, with q_z = Σ_j z_j q_j."""
        if self.count == 1:
            return np.array([[np.vdot(M, self.second(0, 0))]]).__matmul__
        X, bent = self.scaled, M * self.bend
        plain = _of_products(M * self.slope, X)

        def along(z: Array) -> Array:
            return 4.0 * (_of_products(bent * ((X * z) @ X.T), X) + z * plain)

        return along

    def _part(self, i: int) -> Array:
        """q_i; of a single width all of them together."""
        return self.products if self.count == 1 else np.multiply.outer(*2 * [self.scaled[:, i]])


def _of_products(W: Array, X: Array) -> Array:
    """All Σ_ab W_ab x_ai x_bi."""
    return np.asarray(np.sum(X * (W @ X), axis=0))
