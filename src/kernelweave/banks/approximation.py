"""Approximations on request: kernels of few features in the place of the exact ones.

    k(x, z)  ≈  φ(x)ᵀφ(z),      K ≈ FFᵀ,    F (n, r) the features of the training rows

Nystroem          r = number of landmarks, training rows drawn at random        FFᵀ ⪯ K
Cholesky          landmarks chosen one by one, each where the rest is largest   FFᵀ ⪯ K
RandomFeatures    waves of random frequency [for kernels of x − z]              FFᵀ → K as r grows

A fit then takes n·r numbers per kernel in place of n², and its certificate is that of the
approximate kernels. A linear kernel of few columns needs none: its columns are its features.
Predictions are those of the approximate kernels too: a new row is compared with landmarks or waves,
however many support rows there are. The maps φ:

Landmarks    φ(x) = Tᵀk(x, Z) for some training rows Z
Waves        φ(x) = (cos Ωᵀx, sin Ωᵀx)/√D for D random frequencies
Columns      φ(x) = x
Normalized   the features of another map, less their mean and brought to size
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
from scipy.linalg import eigh, solve_triangular

from kernelweave._core.checks import check_number, shown
from kernelweave._core.params import Params
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import RANK_CUTS
from kernelweave._core.types import Array, Places
from kernelweave.banks.normalize import Normalizer, inverse_root
from kernelweave.kernels._pivoted import truncated
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.features import FeatureKernel
from kernelweave.stacks.row_kernels import GAUSSIAN, LAPLACIAN
from kernelweave.views.parts import apart
from kernelweave.views.rows import Rows


class Approximation(Params):
    """What stands for a kernel: ``apply(kernel, rows)`` gives features, and Fᵀ of the rows.

    ``map`` gives the features alone, and reads some of the rows; where a choice of landmarks needs
    all of them, ``apply`` makes both, and rows that are elsewhere are refused.

    ``from_below``: FFᵀ ⪯ K, so that a bound for the exact kernels follows.
    """

    from_below: ClassVar[bool] = True

    def validate(self) -> None:
        """Raise ValueError for invalid parameters."""
        raise NotImplementedError

    def most_rank(self, n: int) -> int:
        """The largest number of features on n rows."""
        raise NotImplementedError

    def map(self, kernel: Kernel, rows: Rows) -> Features:
        """φ as a function of rows, from some of the training rows."""
        raise NotImplementedError

    def apply(self, kernel: Kernel, rows: Rows) -> tuple[Features, Array]:
        """φ, and Fᵀ (r, n) for the training rows."""
        features = self.map(kernel, rows)
        return features, np.ascontiguousarray(features(rows).T)

    def is_exact(self, kernel: Kernel, rows: Rows) -> bool:
        """Whether the kernel is linear, of no more columns than there may be features."""
        return kernel.is_linear and rows.width <= self.most_rank(len(rows))

    def features(self, kernel: Kernel, rows: Rows) -> tuple[Features, Array]:
        """The same, exact for a linear kernel of no more columns than there may be features."""
        if self.is_exact(kernel, rows):
            columns = Columns()
            return columns, np.ascontiguousarray(columns(rows).T)
        return self.apply(kernel, rows)


class Nystroem(Approximation):
    """φ(x) = W^−½ k(Z, x), W = k(Z, Z), for landmarks Z drawn at random from the training rows.

    Each kernel draws its own: many kernels see many rows. Directions in which W is below 1e-10 of
    its largest eigenvalue are left out. Any positive semidefinite kernel will do.

    Parameters
    ----------
    n_landmarks : int
    random_state : int
        Seed of the draw.
    """

    def __init__(self, n_landmarks: int = 300, random_state: int = 0) -> None:
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def validate(self) -> None:
        """Raise ValueError unless the number is positive."""
        check_number("Nystroem: n_landmarks", self.n_landmarks, int)
        _check_seed(self)

    def most_rank(self, n: int) -> int:
        """The number of landmarks."""
        return min(n, self.n_landmarks)

    def map(self, kernel: Kernel, rows: Rows) -> Landmarks:
        """Kernels of rows with the landmarks, whitened."""
        rng = np.random.default_rng([self.random_state, crc32(kernel.label().encode())])
        chosen = np.sort(rng.permutation(len(rows))[: self.n_landmarks])
        Z = _some(rows, chosen)
        W = np.vstack([kernel.between(some, Z) for _, some in Z.pieces(len(Z), SETTINGS.computed)])
        size, V = eigh(0.5 * (W + W.T), check_finite=False)
        kept = size > RANK_CUTS[0] * size[-1]
        return Landmarks(kernel, Z, V[:, kept] / np.sqrt(size[kept]))


class Cholesky(Approximation):
    """Pivoted Cholesky, stopped early: φ(x) = L⁻¹k(Z, x), LLᵀ = k(Z, Z).

    Each landmark is the training row that those before it represent worst. Fewer features than
    ``Nystroem`` needs for the same trace, at some more time. For kernels on numbers.

    Parameters
    ----------
    rank : int or None
        The largest number of features; None for no limit but ``tol``.
    tol : float
        It ends earlier once tr(K − FFᵀ) ≤ tol·tr K.
    """

    def __init__(self, rank: int | None = None, tol: float = 1e-3) -> None:
        self.rank = rank
        self.tol = tol

    def validate(self) -> None:
        """Raise ValueError unless rank and tolerance are positive."""
        if self.rank is not None:
            check_number("Cholesky: rank", self.rank, int)
        if not RANK_CUTS[0] <= check_number("Cholesky: tol", self.tol) < 1.0:
            raise ValueError(
                f"Cholesky: tol must be at least {RANK_CUTS[0]:g} and below 1; found {self.tol!r}. "
                'KernelBank(storage="factors") keeps kernels exactly.'
            )

    def most_rank(self, n: int) -> int:
        """The rank asked for."""
        return n if self.rank is None else min(n, self.rank)

    def map(self, kernel: Kernel, rows: Rows) -> Landmarks:
        """Refused: each landmark is the row that is worst represented, of all rows."""
        raise ValueError(
            "Cholesky chooses landmarks by a look at all rows, which are on a cluster: use Nystroem"
        )

    def apply(self, kernel: Kernel, rows: Rows) -> tuple[Features, Array]:
        """Landmarks as they are needed."""
        entry = kernel.entry()
        if entry is None or rows.table.sparse:
            raise ValueError(
                f"Cholesky approximates kernels on the numbers of a dense X, not {kernel.label()}: "
                "use Nystroem."
            )
        diagonal, most = kernel.diagonal(rows), self.most_rank(len(rows))
        G, pivots = truncated(rows.values, entry, diagonal, self.tol, most)
        T = solve_triangular(G[:, pivots], np.eye(len(pivots)), check_finite=False)
        return Landmarks(kernel, _some(rows, pivots), np.asarray(T)), G


class RandomFeatures(Approximation):
    """Random Fourier features: cosines and sines of xᵀω, ω drawn from the spectrum of the kernel.

    For ``Gaussian`` and ``Laplacian``. Kernels that have no such spectrum get as many
    ``Nystroem`` landmarks instead. The bound for the exact kernels needs a pass over all rows and
    support rows, and is left out where these are many.

    Parameters
    ----------
    n_features : int
        Half of them cosines, half of them sines.
    random_state : int
        Seed of the draw.
    """

    from_below = False

    def __init__(self, n_features: int = 1000, random_state: int = 0) -> None:
        self.n_features = n_features
        self.random_state = random_state

    def validate(self) -> None:
        """Raise ValueError unless there are two features or more."""
        if check_number("RandomFeatures: n_features", self.n_features, int) < 2:
            raise ValueError("RandomFeatures: n_features must be at least 2; found 1.")
        _check_seed(self)

    def most_rank(self, n: int) -> int:
        """The number of features."""
        return self.n_features

    def map(self, kernel: Kernel, rows: Rows) -> Landmarks | Waves:
        """Waves where the kernel has a spectrum, landmarks where it has none."""
        entry = kernel.entry()
        if entry is None or entry.kind not in (GAUSSIAN, LAPLACIAN):
            return Nystroem(self.n_features, self.random_state).map(kernel, rows)
        rng = np.random.default_rng(self.random_state)
        shape = rows.width, self.n_features // 2
        if entry.kind == GAUSSIAN:
            frequencies = rng.standard_normal(shape) * math.sqrt(2.0 * entry.a)
        else:
            frequencies = rng.standard_cauchy(shape) * entry.a
        return Waves(frequencies)


def check_approximation(approximation: Any) -> None:
    """Raise an error unless it is an approximation with valid parameters."""
    if not isinstance(approximation, Approximation):
        raise TypeError(
            "approximation must be None, Nystroem(…), Cholesky(…) or RandomFeatures(…); found "
            f"{shown(approximation)}."
        )
    approximation.validate()


def check_approximable(kernel: Kernel) -> None:
    """Raise ValueError unless the kernel is known to be positive semidefinite."""
    if not kernel.known_psd:
        raise ValueError(
            f"{kernel.label()} may not be positive semidefinite, which approximation= relies on "
            "and does not check: use a kernel of kernelweave, or leave approximation out."
        )


def _some(rows: Rows, chosen: Places) -> Rows:
    return Rows(apart(rows.table.take(chosen)), rows.view)


def _check_seed(approximation: Any) -> None:
    name = f"{type(approximation).__name__}: random_state"
    check_number(name, approximation.random_state, int, zero=True)


# ---- feature maps --------------------------------------------------------------------------------


class LowRank(FeatureKernel):
    """φ(x)ᵀφ(z) in the place of the kernel ``kernel``, which reads the same columns.

    Coefficients of many rows become few numbers, Σ_j coef_j φ(x_j): new rows are then compared
    with these, not with the rows.
    """

    collapses = True

    def __init__(self, kernel: Kernel, features: Callable[[Rows], Array]) -> None:
        super().__init__(features)
        self.kernel = kernel

    @property
    def numeric(self) -> bool:
        """As the kernel that it stands for."""
        return self.kernel.numeric

    @property
    def reads(self) -> str:
        """As the kernel that it stands for."""
        return self.kernel.reads

    @property
    def takes_sparse(self) -> bool:
        """As the kernel that it stands for."""
        return self.kernel.takes_sparse

    def label(self) -> str:
        """That of the kernel that it stands for."""
        return self.kernel.label()


@dataclass(frozen=True, eq=False)
class Landmarks:
    """φ(x) = Tᵀk(x, Z): ``rows`` are Z, ``T`` has a row for each of them."""

    kernel: Kernel
    rows: Rows
    T: Array

    def __call__(self, rows: Rows) -> Array:
        """φ of each row, (n, r), some rows at a time."""
        out = np.empty((len(rows), self.T.shape[1]))
        for piece, some in rows.pieces(len(self.rows), SETTINGS.computed):
            np.matmul(self.kernel.between(some, self.rows), self.T, out=out[piece])
        return out


@dataclass(frozen=True, eq=False)
class Waves:
    """Cosines and sines of xᵀω for the columns ω of ``frequencies``."""

    frequencies: Array

    def __call__(self, rows: Rows) -> Array:
        """φ of each row, (n, 2D)."""
        angles = np.asarray(rows.values @ self.frequencies)
        out = np.hstack([np.cos(angles), np.sin(angles)])
        out *= 1.0 / math.sqrt(max(1, angles.shape[1]))
        return out


@dataclass(frozen=True, eq=False)
class Columns:
    """φ(x) = x: a linear kernel is made of its columns."""

    def __call__(self, rows: Rows) -> Array:
        """The columns, dense."""
        values: Any = rows.values
        return np.array(values.toarray() if rows.table.sparse else values)


Features = Landmarks | Waves | Columns


@dataclass(frozen=True, eq=False)
class Normalized:
    """Features less their ``mean``, times √``scale`` or, where that is NaN, brought to the sphere.

    On the sphere a row is divided by the norm that it has under ``kernel``, the exact one.
    """

    features: Features
    kernel: Kernel
    scale: float
    mean: Array | None

    def __call__(self, rows: Rows) -> Array:
        """φ of each row."""
        own = self.kernel.diagonal(rows) if math.isnan(self.scale) else None
        return self.applied(self.features(rows), own)

    def applied(self, phi: Array, own: Array | None) -> Array:
        """The features φ of some rows, changed in place; ``own``: k(x, x), for the sphere."""
        size = self.size(phi, own)
        if self.mean is not None:
            phi -= self.mean
        phi *= size[:, None]
        return phi

    def size(self, phi: Array, own: Array | None) -> Array:
        """What the features φ of some rows are multiplied by, once they are less their mean."""
        if own is None:
            return np.full(len(phi), math.sqrt(self.scale))
        if self.mean is not None:
            own = own - 2.0 * (phi @ self.mean) + self.mean @ self.mean
        return inverse_root(own)


def normalized(features: Features, kernel: Kernel, normalizer: Normalizer, mean: Array) -> LowRank:
    """The kernel of these features, normalized as the training rows were."""
    center = mean if normalizer.means is not None else None
    return LowRank(kernel, Normalized(features, kernel, normalizer.scale, center))
