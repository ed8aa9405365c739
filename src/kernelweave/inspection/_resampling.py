"""Rows drawn again, and in another order: within classes, and by whole groups if there are some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length

from kernelweave._core.types import Array, Places


class Blocks:
    """What is drawn or moved as a whole: rows, or the groups they belong to.

    ``strata``: the class of each row; None where there are no classes. A group belongs to the
    stratum of all classes among its rows.
    """

    def __init__(self, n: int, strata: ArrayLike | None = None, groups: Any = None) -> None:
        if groups is None:
            codes = np.arange(n)
        else:
            check_consistent_length(range(n), groups)
            codes = np.unique(np.asarray(groups), return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        self.n, self.codes = n, codes
        self.rows: list[Places] = np.split(order, np.cumsum(np.bincount(codes))[:-1])
        self._strata = np.zeros(len(self.rows), dtype=np.intp)
        if strata is not None:
            numbers = np.unique(np.asarray(strata), return_inverse=True)[1]
            kinds: dict[tuple[int, ...], int] = {}
            for unit, rows in enumerate(self.rows):
                found = tuple(np.unique(numbers[rows]).tolist())
                self._strata[unit] = kinds.setdefault(found, len(kinds))

    def bootstrap(self, rng: np.random.Generator) -> Array:
        """How often each row is drawn: as many units of a stratum as it has, with replacement."""
        times = np.zeros(len(self.rows))
        for stratum in np.unique(self._strata):
            members = np.flatnonzero(self._strata == stratum)
            np.add.at(times, rng.choice(members, members.size), 1.0)
        return times[self.codes]

    def permutation(self, rng: np.random.Generator) -> Places:
        """A random order of the rows; groups change places with groups of their size."""
        order = np.arange(self.n)
        for units in self._by_size():
            sources = np.concatenate([self.rows[unit] for unit in rng.permutation(units)])
            order[np.concatenate([self.rows[unit] for unit in units])] = sources
        return order

    def check_exchangeable(self) -> None:
        """Raise ValueError if no two groups have the same size."""
        if all(units.size < 2 for units in self._by_size()):
            raise ValueError(
                "groups: no two groups have the same number of rows, so that none can change "
                "places; without groups, rows change places one by one."
            )

    def _by_size(self) -> Iterator[NDArray[np.intp]]:
        sizes = np.array([rows.size for rows in self.rows])
        return (np.flatnonzero(sizes == size) for size in np.unique(sizes))
