"""The empirical kernel map: a kernel from any similarity.

    φ(x) = (s(x, x_1), …, s(x, x_n)),    k(x, z) = φ(x)ᵀφ(z)

x_1, …, x_n are the training rows and s any similarity, symmetric or not [Tsuda 1999;
lanckriet2004, §6.2.2]. k is positive semidefinite whatever s is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats, is_whole
from kernelweave._core.types import Array
from kernelweave.kernels.adapters import as_kernel
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.features import FeatureKernel, inner_products
from kernelweave.views.rows import Rows


class EmpiricalKernelMap(Kernel):
    """k(x, z) = Σ_j s(x, x_j) s(z, x_j) over the training rows x_j.

    A fitted bank keeps all training rows and the similarities among them, because new rows are
    compared with all of them.

    Parameters
    ----------
    similarity : any kernel that a bank takes
        Need not be positive semidefinite: ``SmithWaterman()``, a function f(A, B) of two arrays
        of rows, or the name of a scikit-learn kernel.
    """

    takes_weights = False

    def __init__(self, similarity: Any) -> None:
        self.similarity = similarity

    @property
    def numeric(self) -> bool:
        """Same as the similarity."""
        return as_kernel(self.similarity).numeric

    def label(self) -> str:
        """Named after its similarity."""
        return f"EmpiricalKernelMap({as_kernel(self.similarity).label()})"

    def validate(self) -> None:
        """Raise ValueError for an invalid similarity."""
        as_kernel(self.similarity).validate()

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """One kernel per fitted similarity."""
        return [
            (suffix, FeatureKernel(_Similarities(similarity, rows)))
            for suffix, similarity in as_kernel(self.similarity).expand(rows)
        ]


class _Similarities:
    """s(x, x_j) for all training rows x_j; training rows are looked up, not compared again."""

    similarity: Kernel
    train: Rows
    known: Array
    place: dict[Any, int]

    def __init__(self, similarity: Kernel, train: Rows) -> None:
        self.similarity = similarity
        self.train = Rows(train.table, train.view)
        self.known = similarity.between(self.train, self.train)
        if not np.isfinite(self.known).all():
            i, j = np.argwhere(~np.isfinite(self.known))[0]
            raise ValueError(
                f"EmpiricalKernelMap: the similarity of training rows {i} and {j} is "
                f"{self.known[i, j]}."
            )
        self.place = {key: place for place, key in enumerate(_keys(train))}

    def validate(self) -> None:
        """Raise an error unless the similarities are of training rows, as far as one row tells."""
        n, first = len(self.train), Rows(self.train.table.take([0]), self.train.view)
        again = self.similarity.between(first, self.train)
        if self.known.shape != (n, n) or not np.isfinite([*self.known, *again]).all():
            raise ValueError("the similarities are not those of the training rows")
        if not all(is_whole(place) and 0 <= place < n for place in self.place.values()):
            raise ValueError("the training rows are not numbered")

    def __call__(self, rows: Rows) -> Array:
        places = np.array([self.place.get(key, -1) for key in _keys(rows)])
        features = self.known[places]
        new = np.flatnonzero(places < 0)
        if len(new):
            some = Rows(rows.table.take(new), rows.view)
            features[new] = self.similarity.between(some, self.train)
        return features


def _keys(rows: Rows) -> list[Any]:
    """A key per row that compares its values; unhashable rows get a unique key."""

    def key(row: tuple[Any, ...]) -> Any:
        try:
            hash(row)
        except TypeError:
            return object()
        return row

    return [key(tuple(row)) for row in rows.raw.tolist()]


def empirical_kernel_map(S: ArrayLike) -> Array:
    """K = S Sᵀ from similarities S (n, p) of n rows to p reference rows.

    If S compares all n rows with each other, this is ``EmpiricalKernelMap`` with all of them as
    training rows. To keep test rows out of the map, use training rows only as columns.
    """
    S = check_floats("S", S)
    if S.ndim != 2 or 0 in S.shape:
        raise ValueError(f"S must be a matrix of similarities; found shape {S.shape}.")
    if not np.isfinite(S).all():
        i, j = np.argwhere(~np.isfinite(S))[0]
        raise ValueError(f"S must be finite; found {S[i, j]} at [{i}, {j}].")
    return inner_products(S, S)
