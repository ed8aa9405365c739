"""Kernels that know their derivatives with respect to parameters.

    k(x, z; t),    ∂k/∂t_i,    ∂²k/∂t_i∂t_j

``learn_parameters`` works with any kernel that has the methods of ``DifferentiableKernel``.
Parameters are real numbers without bounds: use the logarithm of a quantity that must be positive.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats
from kernelweave._core.params import Params
from kernelweave._core.types import Array
from kernelweave.views.distances import sq_distances


class Expansion(Protocol):
    """The matrix of a kernel between some rows, and its derivatives; each of shape (n, n)."""

    @property
    def matrix(self) -> Array:
        """K."""
        ...

    def first(self, i: int) -> Array:
        """∂K/∂t_i."""
        ...

    def second(self, i: int, j: int) -> Array:
        """∂²K/∂t_i∂t_j."""
        ...


@runtime_checkable
class DifferentiableKernel(Protocol):
    """A positive semidefinite kernel with parameters t."""

    def parameters(self, X: Array) -> Array:
        """The current values of t, for rows like those of X."""
        ...

    def with_parameters(self, t: Array) -> Any:
        """The same kernel with other parameters."""
        ...

    def expand(self, X: Array) -> Expansion:
        """K and its derivatives between the rows of X."""
        ...

    def cross(self, Z: Array, X: Array) -> Array:
        """The kernel between the rows of Z and those of X."""
        ...


class GaussianWidths(Params):
    """k(x, z) = exp(−½ Σ_j (x_j − z_j)²/width_j²), with parameters t = log width.

    Parameters
    ----------
    width : float or array (n_features,)
        One width for all features, or one per feature (automatic relevance determination): a
        feature with a large width does not matter.
    per_feature : bool
        One parameter per feature. If ``width`` is a single number, all of them start from it.
    """

    def __init__(self, width: float | ArrayLike = 1.0, per_feature: bool = False) -> None:
        self.width = width
        self.per_feature = per_feature

    def parameters(self, X: Array) -> Array:
        """Logarithms of the widths: a single one, or one per feature of X."""
        widths = np.atleast_1d(check_floats("width", self.width))
        if not (widths.ndim == 1 and (widths > 0.0).all() and np.isfinite(widths).all()):
            raise ValueError(f"width must be positive, found {self.width!r}")
        if self.per_feature and widths.size == 1:
            widths = np.repeat(widths, X.shape[1])
        if widths.size not in (1, X.shape[1]):
            raise ValueError(f"{widths.size} widths, but X has {X.shape[1]} features")
        return np.log(widths)

    def with_parameters(self, t: Array) -> GaussianWidths:
        """The kernel with widths exp(t)."""
        width: Any = float(np.exp(t[0])) if t.size == 1 else np.exp(t)
        return GaussianWidths(width, self.per_feature)

    def expand(self, X: Array) -> Expansion:
        """K, K∘D_i and K∘(D_iD_j − 2δ_ij D_i), where D_i = (x_i − z_i)²/width_i²."""
        t = self.parameters(X)
        return _GaussianExpansion(X / np.exp(t), t.size)

    def cross(self, Z: Array, X: Array) -> Array:
        """The kernel between the rows of Z and those of X."""
        widths = np.exp(self.parameters(X))
        return np.exp(-0.5 * sq_distances(Z / widths, X / widths))


class _GaussianExpansion:
    """Derivatives of a Gaussian on scaled rows, with respect to log widths."""

    def __init__(self, scaled: Array, count: int) -> None:
        self.scaled, self.count = scaled, count
        self.squares = sq_distances(scaled, scaled)
        self.matrix = np.exp(-0.5 * self.squares)

    def first(self, i: int) -> Array:
        return self.matrix * self._distances(i)

    def second(self, i: int, j: int) -> Array:
        D = self._distances(i)
        if i == j:
            return self.matrix * D * (D - 2.0)
        return self.matrix * D * self._distances(j)

    def _distances(self, i: int) -> Array:
        if self.count == 1:
            return self.squares
        column = self.scaled[:, i]
        return np.square(column[:, None] - column)
