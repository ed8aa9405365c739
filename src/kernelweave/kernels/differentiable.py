"""Kernels that know their derivatives with respect to parameters.

    k(x, z; t),    ∂k/∂t_i,    ∂²k/∂t_i∂t_j

``learn_parameters`` works with any kernel that has the methods of ``DifferentiableKernel``, and
estimators with those that are a ``Kernel`` besides: they learn t together with the weights.
Parameters are real numbers without bounds: use the logarithm of a quantity that must be positive.

With many parameters second derivatives are too many to compute one by one. An expansion may then
have a method ``bends``: what it is asked for is z ↦ (Σ_j ⟨M, ∂_i∂_jK⟩ z_j)_i, M symmetric.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats
from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel, UnitDiagonal
from kernelweave.stacks._passes import decay
from kernelweave.views.columns import View
from kernelweave.views.products import sq_distances
from kernelweave.views.rows import Pair, Rows
from kernelweave.views.table import Table


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


Bends = Callable[[Array], Array]


def bends(expansion: Expansion, M: Array, count: int) -> Bends:
    """z ↦ (Σ_j ⟨M, ∂_i∂_jK⟩ z_j)_i of ``count`` parameters, M symmetric."""
    own: Any = getattr(expansion, "bends", None)
    if own is not None:
        found: Bends = own(M)
        return found
    H = np.empty((count, count))
    for i in range(count):
        for j in range(i + 1):
            H[i, j] = H[j, i] = np.vdot(M, expansion.second(i, j))
    return H.__matmul__


@runtime_checkable
class DifferentiableKernel(Protocol):
    """A positive semidefinite kernel with parameters t."""

    def parameters(self, X: Array) -> Array:
        """The current values of t, for rows like those of X."""
        ...

    def with_parameters(self, t: Array) -> Any:
        """The same kernel with other parameters."""
        ...

    def derivatives(self, X: Array) -> Expansion:
        """K and its derivatives between the rows of X."""
        ...

    def cross(self, Z: Array, X: Array) -> Array:
        """The kernel between the rows of Z and those of X."""
        ...


class Widths(Kernel):
    """A kernel of columns in units of widths, with parameters t = log width; its base class."""

    width: float | ArrayLike | None
    per_feature: bool

    # ---- as a kernel of a bank -----------------------------------------------------------------

    def validate(self) -> None:
        """Raise an error unless all widths are positive."""
        if self.width is not None:
            self._widths()

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """The kernel at the widths to start from."""
        return [("", self.with_parameters(self._log_widths(rows)))]

    def _scaled(self, rows: Rows) -> Array:
        return rows.values / self._widths()

    # ---- as a function of its parameters -------------------------------------------------------

    def parameters(self, X: Array) -> Array:
        """Logarithms of the widths: a single one, or one per feature of X."""
        return self._log_widths(Rows(Table.read(X), View("X", tuple(range(X.shape[1])))))

    def with_parameters(self, t: Array) -> Self:
        """The kernel with widths exp(t)."""
        other = copy.copy(self)
        other.width = float(np.exp(t[0])) if t.size == 1 else np.exp(t)
        return other

    def _log_widths(self, rows: Rows) -> Array:
        widths = np.array([rows.median_distance]) if self.width is None else self._widths()
        features = rows.values.shape[1]
        if self.per_feature and widths.size == 1:
            widths = np.repeat(widths, features)
        if widths.size not in (1, features):
            raise ValueError(f"{widths.size} widths, but X has {features} features")
        return np.log(widths)

    def _widths(self) -> Array:
        given: Any = self.width
        widths = np.atleast_1d(check_floats("width", given))
        if not (widths.ndim == 1 and (widths > 0.0).all() and np.isfinite(widths).all()):
            raise ValueError(f"width must be positive, found {self.width!r}")
        return widths


class GaussianWidths(UnitDiagonal, Widths):
    """k(x, z) = exp(−½ Σ_j (x_j − z_j)²/width_j²), with parameters t = log width.

    An estimator learns the widths: ``MKLClassifier([GaussianWidths(per_feature=True)])``. A
    ``KernelBank`` by itself, which sees no labels, leaves them where they start. For widths that
    stay as they are, use ``Gaussian``, or ``RBF`` of scikit-learn.

    Parameters
    ----------
    width : float, array (n_features,) or None
        Where learning starts: one width for all features, or one per feature (automatic relevance
        determination): a feature with a large width does not matter. None: the median distance
        between training rows.
    per_feature : bool
        One parameter per feature. If ``width`` is a single number, all of them start from it.
    """

    has_gradient = True

    def __init__(self, width: float | ArrayLike | None = None, per_feature: bool = False) -> None:
        self.width = width
        self.per_feature = per_feature

    def fill(self, pair: Pair, out: Array) -> None:
        """Squared distances of rows in units of the widths, exponentiated."""
        a = self._scaled(pair.a)
        decay(sq_distances(a, a if pair.same else self._scaled(pair.b), out), 0.5, out)

    def gradient(self, a: Rows, b: Rows, weights: Array) -> Array:
        """Σ_j weights_ij k(x_i, z_j) (z_j − x_i) / width²."""
        pull = weights * self.between(a, b)
        moved = pull @ b.values - pull.sum(axis=1)[:, None] * a.values
        return np.asarray(moved / self._widths() ** 2)

    def derivatives(self, X: Array) -> Expansion:
        """K, K∘D_i and K∘(D_iD_j − 2δ_ij D_i), where D_i = (x_i − z_i)²/width_i²."""
        widths = np.exp(self.parameters(X))
        return _GaussianExpansion(X / widths, widths.size)

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

    def bends(self, M: Array) -> Bends:
        """With W = M∘K and D_z = Σ_j z_j D_j: ⟨W∘D_z, D_i⟩ − 2z_i⟨W, D_i⟩, by a few products."""
        W = M * self.matrix
        if self.count == 1:
            D = self.squares
            return np.array([[np.vdot(W, D * (D - 2.0))]]).__matmul__
        X = self.scaled - self.scaled.mean(axis=0)  # far from zero differences would lose digits
        plain = _of_distances(W, X)

        def along(z: Array) -> Array:
            sizes = np.square(X) @ z
            D = np.add.outer(sizes, sizes) - 2.0 * (X * z) @ X.T
            return _of_distances(W * D, X) - 2.0 * z * plain

        return along

    def _distances(self, i: int) -> Array:
        if self.count == 1:
            return self.squares
        column = self.scaled[:, i]
        return np.square(column[:, None] - column)


def _of_distances(W: Array, X: Array) -> Array:
    """All Σ_ab W_ab (x_ai − x_bi)², W symmetric."""
    return np.asarray(2.0 * (W.sum(axis=1) @ np.square(X) - np.sum(X * (W @ X), axis=0)))
