"""A bank fitted on training rows: kernels between new and training rows, normalized as learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.blocks import blocks
from kernelweave._core.checks import shown
from kernelweave._core.html import html_table
from kernelweave._core.types import Array
from kernelweave.banks import collapse, crossing
from kernelweave.banks.exactness import Exactness
from kernelweave.banks.member import Member
from kernelweave.banks.reading import read_new
from kernelweave.stacks.protocol import Stack
from kernelweave.views.rows import Scratch
from kernelweave.views.table import Table

_BLOCK = 2**21  # entries held at a time of a matrix of new rows against training rows


@dataclass(frozen=True, eq=False, repr=False)
class FittedBank:
    """The kernels of a bank fitted on training rows; made by ``KernelBank.fit``.

    Every kernel, dropped or not, has one number: its position in ``names``, ``views``, ``scales``
    and in the weights passed to ``cross`` and ``decision``. The training stack holds only the
    kernels listed in ``kept``; ``spread`` turns weights of the stack into weights of the bank.

    Pickles hold the training rows, not the stack. ``compact`` keeps only the rows you choose.
    """

    members: tuple[Member, ...]
    table: Table
    kept: NDArray[np.intp]  # numbers of the kernels in the training stack, in its order
    _stack: Stack | None = None
    _columns: NDArray[np.intp] | None = None  # rows of ``table`` to return, if centered
    weights: Array | None = None  # how often each training row counts; None for once
    _exactness: Exactness | None = None  # what approximations leave of the exact kernels
    _images: dict[str, Any] = field(default_factory=dict)  # coef, and what features make of it

    @property
    def m_all(self) -> int:
        """Number of kernels of the bank, dropped ones included."""
        return len(self.members)

    @property
    def n_rows(self) -> int:
        """Number of training rows that kernels are evaluated against."""
        return len(self.table) if self._columns is None else len(self._columns)

    @property
    def places(self) -> NDArray[np.intp]:
        """Numbers of the rows of ``table`` that kernels are evaluated against."""
        return self._columns_of(np.arange(self.n_rows))

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.table.n_columns

    @property
    def names(self) -> tuple[str, ...]:
        """A readable name per kernel."""
        return tuple(member.name for member in self.members)

    @property
    def views(self) -> tuple[str, ...]:
        """The name of each kernel's view."""
        return tuple(member.view_name for member in self.members)

    @property
    def dropped(self) -> dict[str, str]:
        """Kernels left out, and why."""
        return {m.name: m.dropped for m in self.members if m.dropped is not None}

    @property
    def scales(self) -> Array:
        """The factor s_m that multiplied each kernel (after centering, if any).

        Weights times scales are weights for the kernels before normalization. 0 for dropped
        kernels; NaN under ``"sphere"``, where every pair of rows has its own factor.
        """
        return np.array([member.scale for member in self.members])

    @property
    def approximate(self) -> bool:
        """Whether kernels of few features stand for those that were named."""
        return bool(self._of_features())

    def exact_quads(self, w: Array) -> Array | None:
        """Upper bounds of all wᵀK_m w for the exact kernels on the training rows.

        None where a pass over them would take too long and nothing else is known, and after
        training.
        """
        if not self.approximate:
            return self.stack.quad_forms(w)
        if self._exactness is None:
            return None
        return self._exactness.quads(self.stack, self.kept, w)

    @property
    def from_below(self) -> bool:
        """Whether no approximate kernel exceeds the exact one, so that primal values stand."""
        return self._exactness is None or self._exactness.from_below

    def exact_values(self, weights: Array, w: Array) -> Array | None:
        """Σ_m weights_m K_m w for the exact kernels on the training rows; None if too long."""
        found = self._exactness
        return None if found is None else found.values(self.kept, weights, w)

    @property
    def stack(self) -> Stack:
        """The kept kernels on the training rows; fitted models, copies and pickles have none."""
        if self._stack is None:
            raise ValueError(
                "Fitted models, compact() and pickles do not keep the training stack: fit the bank "
                "itself on the training rows, KernelBank(…).fit(X).stack."
            )
        return self._stack

    def spread(self, values: ArrayLike) -> Array:
        """Values per kernel of the bank from values per kernel of the stack; 0 if dropped."""
        full = np.zeros(self.m_all)
        full[self.kept] = values
        return full

    def cross(self, X: Any, weights: ArrayLike, rows: ArrayLike | None = None) -> Array:
        """Σ_m weights_m k_m(x, x_j) for x in X and the training rows j in ``rows`` (all of them).

        ``weights`` has one entry per kernel of the bank; kernels of weight 0 are not computed.
        """
        new, index = self.read(X), self._index(rows)
        result = np.empty((len(new), len(index)))
        for block, matrix in self._combined(new, weights, index):
            result[block] = matrix
        return result

    def decision(
        self, X: Any, weights: ArrayLike, coef: ArrayLike, rows: ArrayLike | None = None
    ) -> Array:
        """``cross(X, weights, rows) @ coef`` in bounded memory, one block of X at a time.

        ``coef``: (n_rows,), or (n_rows, k) for k machines; their ``weights`` are one set for all,
        (m_all,), or one for each, (k, m_all). Each kernel is computed once.
        """
        new, index = self.read(X), self._index(rows)
        coef, weights = np.asarray(coef, dtype=np.float64), np.asarray(weights, dtype=np.float64)
        if coef.shape[:1] != (len(index),):
            raise ValueError(f"coef has shape {coef.shape}, but there are {len(index)} rows.")
        if weights.ndim == 2 and weights.shape != (*coef.shape[1:], self.m_all):
            raise ValueError(
                f"weights must have shape ({self.m_all},) or (k, {self.m_all}) for coef of shape "
                f"(n_rows, k); found {weights.shape} and {coef.shape}."
            )
        known = self._of_features() if weights.shape[-1:] == (self.m_all,) else []
        few = [pair for pair in known if weights[..., pair[0]].any()]
        if few:
            result = self._through_features(new, few, weights, coef, index)
            weights = weights.copy()
            weights[..., [number for number, _ in few]] = 0.0
            return result + self._against_rows(new, weights, coef, index)
        return self._against_rows(new, weights, coef, index)

    def _against_rows(
        self, new: Table, weights: Array, coef: Array, index: NDArray[np.intp]
    ) -> Array:
        result = np.zeros((len(new), *coef.shape[1:]))
        if weights.ndim < 2:
            for block, matrix in self._combined(new, weights, index):
                np.matmul(matrix, coef, out=result[block])
            return result
        active = np.flatnonzero(weights.any(axis=0))
        for block, matrices in self._blocks(new, active, index):
            for number, matrix in matrices:
                result[block] += matrix @ (coef * weights[:, number])
            self._check_finite(result[block], new.block(block), active, index)
        return result

    def _of_features(self) -> list[tuple[int, Member]]:
        """The kernels made of few features."""
        every = enumerate(self.members)
        return [(k, m) for k, m in every if m.kernel is not None and m.kernel.collapses]

    def _through_features(
        self,
        new: Table,
        members: list[tuple[int, Member]],
        weights: Array,
        coef: Array,
        index: NDArray[np.intp],
    ) -> Array:
        """Their part of the decision values; what the training rows come to is kept."""
        known = self._images.get("coef")
        if known is None or not (
            np.array_equal(known, coef) and np.array_equal(self._images["index"], index)
        ):
            self._images.update(coef=coef.copy(), index=index, of={})
        image = self._images["of"]
        fresh = [pair for pair in members if pair[0] not in image]
        image.update(collapse.images(self.table.take(self._columns_of(index)), fresh, coef))

        def lacking(number: int, member: Member) -> Array:
            return self._average(index, number, member.narrow(index)) @ coef

        chosen = {number: image[number] for number, _ in members}
        return collapse.values(new, members, chosen, weights, lacking)

    def cross_stack(self, X: Any) -> Array:
        """k_m(x, x_j) of every kept kernel, as an array (m, len(X), n_rows)."""
        new, index = self.read(X), self._index(None)
        kept = self.kept
        result = np.empty((len(kept), len(new), len(index)))
        slot = {int(number): place for place, number in enumerate(kept)}
        for block, matrices in self._blocks(new, kept, index):
            for number, matrix in matrices:
                result[slot[number], block] = matrix
        self._check_finite(result, new, kept, index)
        return result

    def compact(self, kernels: ArrayLike, rows: ArrayLike | None = None) -> FittedBank:
        """The bank with only these kernels and training rows, for prediction and pickling.

        ``kernels``: numbers of kernels, or a mask over all of them; ``rows``: the same for
        training rows. Kernels keep their numbers; rows are renumbered in the order given. The
        stack is dropped. Centered kernels keep all training rows, because k(x, ·) is averaged
        over all of them; results still have columns for ``rows`` only.
        """
        chosen = set(_indices(kernels, self.m_all, "kernels").tolist())
        self._require(chosen)
        index = self._index(rows)
        members = tuple(
            self._for_new_rows(number, index) if number in chosen else member.let_go()
            for number, member in enumerate(self.members)
        )
        if self._centered:
            return FittedBank(members, self.table, self.kept, None, self._columns_of(index))
        return FittedBank(members, self.table.take(index), self.kept)

    def _repr_html_(self) -> str:
        rows = [
            (member.name, member.view_name, f"{member.scale:.3g}", member.dropped or "")
            for member in self.members
        ]
        return html_table(repr(self), ("kernel", "view", "scale", "left out"), rows)

    def __repr__(self) -> str:
        left = f", {len(self.dropped)} dropped" if self.dropped else ""
        return f"FittedBank({self.m_all} kernels{left}, {self.n_rows} rows)"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stack": None, "_exactness": None, "_images": {}}

    @property
    def _centered(self) -> bool:
        return any(member.centered for member in self.members)

    def _for_new_rows(self, number: int, rows: NDArray[np.intp]) -> Member:
        """A kernel against some training rows, with what new rows without its view need."""
        member = self.members[number].narrow(rows)
        if member.centered or not member.view.may_lack:
            return member
        return replace(member, average=self._average(rows, number, member))

    def read(self, X: Any) -> Table:
        """New rows, checked; see ``read_new``."""
        if isinstance(X, Table):  # read and checked before
            return X
        return read_new(X, self.table, self.members)

    def _index(self, rows: ArrayLike | None) -> NDArray[np.intp]:
        return np.arange(self.n_rows) if rows is None else _indices(rows, self.n_rows, "rows")

    def _columns_of(self, index: NDArray[np.intp]) -> NDArray[np.intp]:
        return index if self._columns is None else self._columns[index]

    def _require(self, numbers: Iterable[int]) -> None:
        gone = [self.members[number].name for number in numbers if not self.members[number].kernel]
        if gone:
            raise ValueError(
                f"Kernel {gone[0]!r} was left out of this fitted bank (dropped in fit or by "
                "compact); it cannot be evaluated. Give it weight 0."
            )

    def _combined(
        self, new: Table, weights: ArrayLike, index: NDArray[np.intp]
    ) -> Iterator[tuple[slice, Array]]:
        """Σ_m weights_m K_m of each block of new rows against the training rows ``index``."""
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != (self.m_all,) or not np.isfinite(weights).all():
            raise ValueError(
                f"weights must be {self.m_all} finite numbers, one for each kernel of the bank; "
                f"found shape {weights.shape}."
            )
        for block, matrices in self._blocks(new, np.flatnonzero(weights), index):
            total = np.zeros((block.stop - block.start, len(index)))
            for number, matrix in matrices:
                matrix *= weights[number]
                total += matrix
            self._check_finite(total, new.block(block), np.flatnonzero(weights), index)
            yield block, total

    def _check_finite(
        self, found: Array, new: Table, numbers: NDArray[np.intp], index: NDArray[np.intp]
    ) -> None:
        """Raise ValueError if ``found`` is not finite, with the name of the first such kernel."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(found.sum()):  # one cheap pass; a sum of finite numbers may overflow
                return
        for _, matrices in self._blocks(new, numbers, index):
            for number, matrix in matrices:
                bad = matrix[~np.isfinite(matrix)]
                if bad.size:
                    raise ValueError(
                        f"Kernel {self.members[number].name!r} is not finite: between these rows "
                        f"of X and the training rows it has {bad.size} values like {bad[0]}."
                    )

    def _blocks(
        self, new: Table, numbers: NDArray[np.intp], index: NDArray[np.intp]
    ) -> Iterator[tuple[slice, Iterator[tuple[int, Array]]]]:
        """Blocks of new rows, each with an iterator over (kernel number, normalized matrix).

        A matrix is valid only until the next one is requested: they share a buffer.
        """
        self._require(numbers)
        numbers = numbers if len(index) else numbers[:0]  # no training rows: nothing to compute
        active = [(int(number), self.members[number].narrow(index)) for number in numbers]
        against = crossing.sides(self.table, active, self._columns_of(index))
        scratch = Scratch()
        for block in blocks(len(new), len(self.table), _BLOCK):
            average = partial(self._average, index)
            yield block, crossing.matrices(new.block(block), against, len(index), scratch, average)

    def _average(self, rows: NDArray[np.intp], number: int, member: Member) -> Array:
        """Mean of k(·, x_j) over the training rows for each of the rows x_j."""
        if member.average is not None:
            return member.average
        n, place = self.stack.n, np.flatnonzero(self.kept == number)
        counts = np.ones(n) if self.weights is None else self.weights
        return self.stack.matvecs(counts / counts.sum(), rows, place)[0]


def _indices(chosen: ArrayLike, size: int, what: str) -> NDArray[np.intp]:
    """Positions from integers or from a mask of length ``size``."""
    array = np.atleast_1d(np.asarray(chosen))
    if array.dtype == bool:
        if array.shape != (size,):
            raise ValueError(f"{what}: a mask must have {size} entries; found {array.shape}.")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError(f"{what} must be integers or a mask; found {shown(chosen)}.")
    if array.min() < 0 or array.max() >= size:
        raise ValueError(
            f"{what} must lie between 0 and {size - 1}; found {array.min()} to {array.max()}."
        )
    return array.astype(np.intp)
