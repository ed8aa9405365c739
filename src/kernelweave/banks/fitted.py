"""A bank fitted on training rows: kernels between new and training rows, normalized as learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.blocks import blocks
from kernelweave._core.checks import indices
from kernelweave._core.html import html_table
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Places
from kernelweave.banks.evaluation import (
    Exactness,
    Numbered,
    evaluate,
    images,
    kept_images,
    through_images,
    training_sides,
)
from kernelweave.banks.member import Member
from kernelweave.banks.torch_storage import is_there
from kernelweave.banks.unseen import read_new
from kernelweave.stacks.protocol import Stack
from kernelweave.views.rows import Scratch
from kernelweave.views.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class FittedBank:
    """The kernels of a bank fitted on training rows; made by ``KernelBank.fit``.

    Every kernel, dropped or not, has one number: its position in ``names``, ``views``, ``scales``
    and in the weights passed to ``cross`` and ``decision``. The training stack holds only the
    kernels listed in ``kept``; ``spread`` turns weights of the stack into weights of the bank.

    Pickles hold the training rows, not the stack. ``compact`` keeps only the rows you choose.

    Nothing here changes after it is made, so that threads may share it.
    """

    members: tuple[Member, ...]
    table: Table
    kept: NDArray[np.intp]  # numbers of the kernels in the training stack, in its order
    _stack: Stack | None = None
    _columns: NDArray[np.intp] | None = None  # rows of ``table`` to return, if centered
    weights: Array | None = None  # how often each training row counts; None for once
    _exactness: Exactness | None = None  # what approximations leave of the exact kernels
    hull: Any = None  # the family that its kernels are some of, where there are more
    parameter_search: dict[str, Any] = field(default_factory=dict)  # how parameters were learned
    _coef: Array | None = None  # coefficients of all rows that decisions are expected for
    _images: dict[int, Array] = field(default_factory=dict)  # what features make of these
    device: str | None = None  # of PyTorch, where decision values are computed if it is there

    @property
    def m_all(self) -> int:
        """Number of kernels of the bank, dropped ones included."""
        return len(self.members)

    @property
    def n_rows(self) -> int:
        """Number of training rows that kernels are evaluated against."""
        return len(self.table) if self._columns is None else len(self._columns)

    @property
    def places(self) -> Places:
        """Numbers of the rows of ``table`` that kernels are evaluated against."""
        return np.arange(len(self.table)) if self._columns is None else self._columns

    n_features = property(attrgetter("table.n_columns"), doc="Number of columns of X.")

    @property
    def names(self) -> tuple[str, ...]:
        """A readable name per kernel."""
        return tuple(map(attrgetter("name"), self.members))

    @property
    def views(self) -> tuple[str, ...]:
        """The name of each kernel's view."""
        return tuple(map(attrgetter("view_name"), self.members))

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
        return np.array([*map(attrgetter("scale"), self.members)])

    @property
    def approximate(self) -> bool:
        """Whether kernels of few features stand for those that were named."""
        kernels = filter(None, map(attrgetter("kernel"), self.members))
        return any(map(attrgetter("collapses"), kernels))

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

    def on(self, stack: Stack, kept: Places | None = None) -> FittedBank:
        """The same with another training stack, of the same kernels or of those ``kept``.

        Nothing is proved there for the exact kernels of approximate ones.
        """
        kept = self.kept if kept is None else kept
        return replace(self, kept=kept, _stack=stack, _exactness=None, hull=None)

    def spread(self, values: ArrayLike) -> Array:
        """Values per kernel of the bank from values per kernel of the stack; 0 if dropped.

        Several sets of values are rows.
        """
        full = np.zeros((*np.shape(values)[:-1], len(self.members)))
        full[..., self.kept] = values
        return full

    def cross(self, X: Any, weights: ArrayLike, rows: ArrayLike | None = None) -> Array:
        """Σ_m weights_m k_m(x, x_j) for x in X and the training rows j in ``rows`` (all of them).

        ``weights`` has one entry per kernel of the bank; kernels of weight 0 are not computed.
        """
        index = None if rows is None else indices(rows, self.n_rows, "rows")
        new, size = self.read(X), self.n_rows if index is None else len(index)
        weights, result = self._checked(weights), np.zeros((len(new), size))
        active = np.flatnonzero(weights).tolist()
        for block, matrices in self._blocks(new, active, index):
            _add_up(matrices, weights, result[block])
            self._check_finite(result[block], new.block(block), active, index)
        return result

    def decision(
        self, X: Any, weights: ArrayLike, coef: ArrayLike, rows: ArrayLike | None = None
    ) -> Array:
        """``cross(X, weights, rows) @ coef`` in bounded memory, one block of X at a time.

        ``coef``: (n_rows,), or (n_rows, k) for k machines; their ``weights`` are one set for all,
        (m_all,), or one for each, (k, m_all). Each kernel is computed once.
        """
        index = None if rows is None else indices(rows, self.n_rows, "rows")
        new, size = self.read(X), self.n_rows if index is None else len(index)
        coef = np.asarray(coef, dtype=np.float64)
        if coef.shape[:1] != (size,):
            raise ValueError(f"coef has shape {coef.shape}, but there are {size} rows.")
        weights = self._checked(weights, coef)
        active = np.flatnonzero(weights if weights.ndim == 1 else weights.any(axis=0)).tolist()
        result = np.zeros((len(new), *coef.shape[1:]))
        low = [*filter(self._collapses, active)] if self.approximate else []
        if low:
            result += self._through_features(new, self._active(low), weights, coef, index)
            active = sorted({*active} - {*low})
        if self.device is not None and is_there(self.device):
            from kernelweave.banks.torch_decision import through_device

            there, found = through_device(self, new, self._active(active), weights, coef, index)
            result += found
            active = sorted({*active} - {*there})
        for block, matrices in self._blocks(new, active, index):
            if weights.ndim == 1:
                found = np.zeros((block.stop - block.start, size))
                _add_up(matrices, weights, found)
                result[block] += found @ coef
            else:
                found = result[block]
                for number, matrix in matrices:
                    found += matrix @ (coef * weights[:, number])
            self._check_finite(found, new.block(block), active, index)
        return result

    def _collapses(self, number: int) -> bool:
        """Whether a kernel is made of few features."""
        kernel = self.members[number].kernel
        return kernel is not None and kernel.collapses

    def _through_features(
        self,
        new: Table,
        members: list[Numbered],
        weights: Array,
        coef: Array,
        index: Places | None,
    ) -> Array:
        """Their part of the decision values."""
        if index is None and self._coef is not None and np.array_equal(coef, self._coef):
            image = self._images
        else:
            image = self._summed(members, coef, index)

        def lacking(number: int, member: Member) -> Array:
            return self.average(index, number, member) @ coef

        return through_images(new, members, image, weights, lacking)

    def _summed(
        self, members: list[Numbered], coef: Array, index: Places | None
    ) -> dict[int, Array]:
        """What training rows come to under kernels of features; a stack may know it of its own."""
        if hasattr(self._stack, "image"):
            return kept_images(self._stack, self.kept, members, coef, index)
        places = self.places if index is None else self.places[index]
        return images(self.table.take(places), members, coef)

    def cross_stack(self, X: Any) -> Array:
        """k_m(x, x_j) of every kept kernel, as an array (m, len(X), n_rows)."""
        new, kept = self.read(X), self.kept.tolist()
        result = np.empty((len(kept), len(new), self.n_rows))
        slot = {number: place for place, number in enumerate(kept)}
        for block, matrices in self._blocks(new, kept, None):
            for number, matrix in matrices:
                result[slot[number], block] = matrix
        self._check_finite(result, new, kept, None)
        return result

    def compact(
        self, kernels: ArrayLike, rows: ArrayLike | None = None, coef: ArrayLike | None = None
    ) -> FittedBank:
        """The bank with only these kernels and training rows, for prediction and pickling.

        ``kernels``: numbers of kernels, or a mask over all of them; ``rows``: the same for
        training rows. Kernels keep their numbers; rows are renumbered in the order given. The
        stack is dropped. Centered kernels keep all training rows, because k(x, ·) is averaged
        over all of them; results still have columns for ``rows`` only. ``coef``: coefficients of
        these rows that decisions will be asked for. Under kernels made of few features, what the
        rows come to is then summed here, once.
        """
        places = np.arange(len(self.table)) if self._columns is None else self._columns
        chosen = dict(self._active(indices(kernels, len(self.members), "kernels").tolist()))
        index = None if rows is None else indices(rows, len(places), "rows")
        members = list(self.members)
        for number, member in enumerate(members):
            if number not in chosen:
                members[number] = member.let_go()
                continue
            may_lack = member.view.may_lack and not member.centered
            average = self.average(index, number, member) if may_lack else None
            members[number] = member.narrow(slice(None) if index is None else index, average)
        known: dict[str, Any] = {}
        low = [*filter(self._collapses, chosen)] if self.approximate else []
        if low and coef is not None:
            given = np.array(coef, dtype=np.float64)
            known = {"_coef": given, "_images": self._summed(self._active(low), given, index)}
        places = places if index is None else places[index]
        known["device"] = self.device
        if any(map(attrgetter("centered"), self.members)):
            return FittedBank(tuple(members), self.table, self.kept, None, places, **known)
        return FittedBank(tuple(members), self.table.take(places), self.kept, **known)

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
        return {**self.__dict__, "_stack": None, "_exactness": None, "hull": None}

    def read(self, X: Any) -> Table:
        """New rows, checked; see ``read_new``."""
        if isinstance(X, Table):  # read and checked before
            return X
        return read_new(X, self.table, self.members)

    def _checked(self, weights: ArrayLike, coef: Array | None = None) -> Array:
        """Weights of all kernels; one set for each machine only where there are coefficients."""
        array = np.asarray(weights, dtype=np.float64)
        if array.ndim == 2 and coef is not None:
            if array.shape != (*coef.shape[1:], self.m_all):
                raise ValueError(
                    f"weights must have shape ({self.m_all},) or (k, {self.m_all}) for coef of "
                    f"shape (n_rows, k); found {array.shape} and {coef.shape}."
                )
        elif array.shape != (self.m_all,) or not np.isfinite(array).all():
            raise ValueError(
                f"weights must be {self.m_all} finite numbers, one for each kernel of the bank; "
                f"found shape {array.shape}."
            )
        return array

    def _active(self, numbers: list[int]) -> list[Numbered]:
        """These kernels; raises an error if one cannot be evaluated."""
        found = []
        for number in numbers:
            member = self.members[number]
            if member.kernel is None:
                raise ValueError(
                    f"Kernel {member.name!r} was left out of this fitted bank (dropped in fit or "
                    "by compact); it cannot be evaluated. Give it weight 0."
                )
            found.append((number, member))
        return found

    def _check_finite(
        self, found: Array, new: Table, numbers: list[int], index: Places | None
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
        self, new: Table, numbers: list[int], index: Places | None
    ) -> Iterator[tuple[slice, Iterator[tuple[int, Array]]]]:
        """Blocks of new rows, each with an iterator over (kernel number, normalized matrix).

        A matrix is valid only until the next one is requested: they share a buffer.
        """
        active = self._active(numbers)
        if not (self.n_rows if index is None else len(index)):
            active = []  # no training rows: nothing to compute
        if index is None:
            against = training_sides(self.table, active, self._columns)
        else:
            against = training_sides(self.table, active, self.places[index], index)
        scratch = Scratch()
        for block in blocks(len(new), len(self.table), SETTINGS.computed):
            average = partial(self.average, index)
            yield block, evaluate(new.block(block), against, scratch, average)

    def average(self, rows: Places | None, number: int, member: Member) -> Array:
        """Mean of k(·, x_j) over the training rows for each of the rows x_j."""
        if member.average is not None:
            return member.average if rows is None else member.average[rows]
        n, place = self.stack.n, np.flatnonzero(self.kept == number)
        counts = np.ones(n) if self.weights is None else self.weights
        some = np.arange(n) if rows is None else rows
        return self.stack.matvecs(counts / counts.sum(), some, place)[0]


def _add_up(matrices: Iterator[tuple[int, Array]], weights: Array, out: Array) -> None:
    """Add Σ_m weights_m K_m."""
    for number, matrix in matrices:
        matrix *= weights[number]
        out += matrix
