"""One stack of several: each kernel in the form that suits it, an array, a factor or on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import as_places, check_vector
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import frozen, read_only
from kernelweave.stacks.combined import BaseCombined
from kernelweave.stacks.dense import DenseCombined
from kernelweave.stacks.factor import beside
from kernelweave.stacks.identity import Changed
from kernelweave.stacks.protocol import CombinedKernel, Factor, Stack
from kernelweave.stacks.rounding import FINE, PlainSums, Units, roughest


class MixedStack(PlainSums):
    """The kernels of several stacks over the same points, in any order.

    Parameters
    ----------
    stacks : sequence of stacks
        All over the same n points.
    places : sequence of arrays, optional
        For each stack, the numbers that its kernels have in this one; each number from 0 to m − 1
        once. By default those of the first stack come first.
    """

    def __init__(self, stacks: Sequence[Stack], places: Sequence[Places] | None = None) -> None:
        self.stacks = tuple(stacks)
        sizes = {stack.n for stack in self.stacks}
        if len(sizes) != 1:
            raise ValueError(f"stacks must be over the same points, found {sorted(sizes)} of them")
        (self.n,) = sizes
        counts = [stack.m for stack in self.stacks]
        self.m = sum(counts)
        if places is None:
            places = np.split(np.arange(self.m), np.cumsum(counts)[:-1])
        self._places = tuple(np.asarray(part, dtype=np.intp) for part in places)
        if [part.size for part in self._places] != counts or not np.array_equal(
            np.sort(np.concatenate(self._places)), np.arange(self.m)
        ):
            raise ValueError(f"places must give each of the {self.m} kernels one number of its own")
        self._owner, self._inner = np.empty((2, self.m), np.intp)
        for number, part in enumerate(self._places):
            self._owner[part], self._inner[part] = number, np.arange(part.size)

    @property
    def precision(self) -> np.dtype:
        """The coarsest of the stacks."""
        return min((stack.precision for stack in self.stacks), key=lambda kind: kind.itemsize)

    @cached_property
    def units(self) -> Units:
        """The roughest of the stacks."""
        return roughest(stack.units for stack in self.stacks)

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns."""
        owner = self.stacks[self._owner[kernel]]
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        return owner.block(int(self._inner[kernel]), left, right)

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n), read-only."""
        return self._diagonals

    def traces(self) -> Array:
        """All tr K_k, read-only."""
        return self._traces

    @cached_property
    def _diagonals(self) -> Array:
        return read_only(self._gathered([stack.diagonals() for stack in self.stacks]))

    @cached_property
    def _traces(self) -> Array:
        return read_only(self._gathered([stack.traces() for stack in self.stacks]))

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """All vᵀK_k v, or those of some kernels."""
        x = check_vector("v", v, self.n, finite=False)
        chosen = as_places(kernels, self.m, "kernels")
        out = np.empty(len(chosen))
        for stack, inner, to in self._shares(chosen):
            out[to] = stack.quad_forms(x, inner)
        return out

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """All K_k v, or some rows of some of them."""
        x = check_vector("v", v, self.n, finite=False)
        places = None if rows is None else as_places(rows, self.n, "rows")
        chosen = as_places(kernels, self.m, "kernels")
        out = np.empty((len(chosen), self.n if places is None else len(places)))
        for stack, inner, to in self._shares(chosen):
            out[to] = stack.matvecs(x, places, inner)
        return out

    def expect(self, vectors: Sequence[Array]) -> None:
        """All stacks are told."""
        for stack in self.stacks:
            stack.expect(vectors)

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w in the precision of ``w``, as the stack of the kernel does it."""
        owner = self.stacks[self._owner[kernel]]
        return owner.fine_product(int(self._inner[kernel]), rows, support, w)

    def fine_products(
        self, kernels: Places, rows: Places, support: Places, w: np.ndarray
    ) -> np.ndarray:
        """The same of several kernels, each stack asked once."""
        out = np.zeros((kernels.size, rows.size), FINE)
        for stack, inner, to in self._shares(kernels):
            out[to] = stack.fine_products(inner, rows, support, w)
        return out

    def combined(self, weights: ArrayLike) -> CombinedKernel:
        """The sum of the stacks' own; an array where each is one."""
        w = check_vector("weights", weights, self.m, finite=False)
        parts = [
            stack.combined(w[part])
            for stack, part in zip(self.stacks, self._places, strict=True)
            if w[part].any()
        ] or [self.stacks[0].combined(np.zeros(self.stacks[0].m))]
        if len(parts) == 1:
            return parts[0]
        if not all(part.is_dense for part in parts):
            return SumCombined(parts)
        total = np.add(parts[0].dense(), parts[1].dense(), dtype=float)
        for part in parts[2:]:
            total += part.dense()
        return DenseCombined(frozen(total))

    def restrict(self, rows: Index) -> MixedStack:
        """The same kernels on some of the points."""
        places = as_places(rows, self.n, "rows", empty=False)
        return MixedStack([stack.restrict(places) for stack in self.stacks], self._places)

    def select(self, kernels: Index) -> Stack:
        """Some of the kernels on the same points."""
        chosen = as_places(kernels, self.m, "kernels", empty=False)
        shares = list(self._shares(chosen))
        stacks = [stack.select(inner) for stack, inner, _ in shares]
        return stacks[0] if len(stacks) == 1 else MixedStack(stacks, [to for _, _, to in shares])

    def threaded(self, n_jobs: int | None) -> MixedStack:
        """The same kernels, worked on by ``n_jobs`` threads."""
        return MixedStack([stack.threaded(n_jobs) for stack in self.stacks], self._places)

    def finer(self) -> MixedStack | None:
        """The same with every stack as fine as it can be, if one of them can."""
        finer = [stack.finer() for stack in self.stacks]
        if all(stack is None for stack in finer):
            return None
        parts = zip(finer, self.stacks, strict=True)
        return MixedStack([stack if new is None else new for new, stack in parts], self._places)

    def _gathered(self, parts: Sequence[Array]) -> Array:
        out = np.empty((self.m, *parts[0].shape[1:]))
        for part, places in zip(parts, self._places, strict=True):
            out[places] = part
        return out

    def _shares(self, chosen: Places) -> Iterator[tuple[Stack, Places, Places]]:
        """Each stack with its own numbers of the kernels asked for, and where these go."""
        owners = self._owner[chosen]
        for number, stack in enumerate(self.stacks):
            to = np.flatnonzero(owners == number)
            if to.size:
                yield stack, self._inner[chosen[to]], to

    def __repr__(self) -> str:
        return f"MixedStack([{', '.join(map(repr, self.stacks))}])"


class SumCombined(BaseCombined):
    """The sum of combined kernels of different kinds, none of them written out."""

    def __init__(self, parts: Sequence[CombinedKernel]) -> None:
        self._parts = parts

    @property
    def n(self) -> int:
        """Number of points."""
        return self._parts[0].n

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        return np.sum([part.diagonal() for part in self._parts], axis=0)

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        total = np.array(self._parts[0].block(rows, columns), dtype=float)
        for part in self._parts[1:]:
            total += part.block(rows, columns)
        return total

    def __matmul__(self, v: Array) -> Array:
        return np.sum([part @ v for part in self._parts], axis=0)

    def quick_product(self, V: Array, accuracy: float) -> Array:
        """The sum of the parts' own."""
        return np.sum([part.quick_product(V, accuracy) for part in self._parts], axis=0)

    def factor(self) -> tuple[Factor, float] | None:
        """The factors of all parts side by side, where each has one."""
        found = [part.factor() for part in self._parts]
        known = [pair for pair in found if pair is not None]
        if len(known) < len(found):
            return None
        return beside([F for F, _ in known], [1.0] * len(known)), sum(tau for _, tau in known)


def between(one: CombinedKernel, other: CombinedKernel, share: float) -> CombinedKernel | None:
    """(1 − share)·one + share·other where both are arrays of float64, with no pass over kernels."""
    if not (one.is_dense and other.is_dense):
        return None
    first, second = one.dense(), other.dense()
    if not (first.dtype == second.dtype == np.float64):
        return None  # of float32 nobody has said how far a mixture is off
    low = SumCombined([Changed(one, 1.0 - share), Changed(other, share)]).factor()
    return DenseCombined(frozen((1.0 - share) * first + share * second), low)
