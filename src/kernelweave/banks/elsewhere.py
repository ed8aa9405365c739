"""A fitted bank whose training rows stayed on a cluster: what they come to is known, not they.

    f(x) = Σ_m d_m φ_m(x)ᵀ image_m + b,        image_m = Σ_j coef_j φ_m(x_j) = F_mᵀcoef

The images are sums on the workers. Whatever needs the rows themselves says that they are not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import indices
from kernelweave._core.types import Array, Places
from kernelweave.banks.evaluation import Numbered, through_images
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.member import Member
from kernelweave.views.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class BankElsewhere(FittedBank):
    """The kernels of a bank fitted to rows on a cluster.

    Before ``compact`` it has their table and stack; afterwards ``size`` rows and what they come to.
    """

    size: int | None = None
    _means: dict[int, Array] = field(default_factory=dict)  # of features, by kernel

    @property
    def n_rows(self) -> int:
        """Number of training rows that have a coefficient."""
        return len(self.table) if self.size is None else self.size

    def compact(
        self, kernels: ArrayLike, rows: ArrayLike | None = None, coef: ArrayLike | None = None
    ) -> BankElsewhere:
        """The bank with only these kernels, for prediction: with ``coef`` of the rows summed."""
        chosen = dict(self._active(indices(kernels, self.m_all, "kernels").tolist()))
        index = None if rows is None else indices(rows, self.n_rows, "rows")
        members = [
            one.narrow(slice(None), None) if number in chosen else one.let_go()
            for number, one in enumerate(self.members)
        ]
        known: dict[str, Any] = {"size": self.n_rows if index is None else len(index)}
        if coef is not None:
            given = np.array(coef, dtype=np.float64)
            known["_coef"], known["_images"] = given, self._summed([*chosen.items()], given, index)
        if any(member.view.may_lack for member in chosen.values()):
            known["_means"] = {number: self._mean(number) for number in chosen}
        table: Any = self.table
        return BankElsewhere(
            tuple(members), table.local() if table.apart else table, self.kept, None, **known
        )

    def _summed(
        self, members: list[Numbered], coef: Array, index: Places | None
    ) -> dict[int, Array]:
        """F_mᵀcoef of each kernel, in one trip."""
        if self._stack is None:
            raise ValueError(_GONE)
        stack: Any = self._stack
        whole = np.zeros((stack.n, *coef.shape[1:]))
        whole[slice(None) if index is None else index] = coef
        onto = stack.columns(np.arange(stack.m)).onto(whole)
        place = {int(number): k for k, number in enumerate(self.kept)}
        return {number: onto[stack.owners == place[number]] for number, _ in members}

    def _mean(self, number: int) -> Array:
        """The mean of a kernel's features over the training rows: one trip for all kernels."""
        if not self._means and self._stack is not None:
            stack: Any = self._stack
            counts = np.ones(stack.n) if self.weights is None else self.weights
            onto = stack.columns(np.arange(stack.m)).onto(counts / counts.sum())
            for place, kept in enumerate(self.kept.tolist()):
                self._means[kept] = onto[stack.owners == place]
        return self._means[number]

    def _through_features(
        self,
        new: Table,
        members: list[Numbered],
        weights: Array,
        coef: Array,
        index: Places | None,
    ) -> Array:
        """Their part of the decision values: of rows on the cluster, where these are."""
        image = self._images
        if index is not None or self._coef is None or not np.array_equal(coef, self._coef):
            image = self._summed(members, coef, index)
        means = {n: self._mean(n) for n, one in members if one.view.may_lack}
        if not new.apart:
            return _values(new, members, image, weights, means)
        table: Any = new
        asked = table.cluster.put((members, image, weights, means))
        parts = table.cluster.get(table.cluster.map(_values_of, table.parts, asked))
        return np.concatenate(parts)

    def _blocks(
        self, new: Table, numbers: list[int], index: Places | None
    ) -> Iterator[tuple[slice, Iterator[tuple[int, Array]]]]:
        """Refused for any kernel: they need the rows."""
        if numbers:
            raise ValueError(_GONE)
        return iter(())


def _values(
    new: Table,
    members: list[Numbered],
    image: dict[int, Array],
    weights: Array,
    means: dict[int, Array],
) -> Array:
    """Σ_m weights_m φ_m(x)ᵀ image_m, with the mean of features for rows that lack a view."""

    def lacking(number: int, member: Member) -> Array:
        return np.asarray(means[number] @ image[number])

    return through_images(new, members, image, weights, lacking)


def _values_of(table: Table, asked: tuple[Any, ...]) -> Array:
    return _values(table, *asked)


_GONE = (
    "the training rows stayed on the cluster: the model has decision values of new rows, but not "
    "their kernels with the training rows"
)
