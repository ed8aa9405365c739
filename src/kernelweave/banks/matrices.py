"""Computes the kernels of a bank as matrices, view by view."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.types import Array
from kernelweave.banks.duplicates import Duplicates
from kernelweave.banks.member import Group, Member, drop, drop_equal
from kernelweave.banks.normalize import Normalizer, learn_normalizer, rule_of
from kernelweave.stacks.threads import run
from kernelweave.views import triangle
from kernelweave.views.rows import Gram, Scratch


class MatrixBuilder:
    """A stack being filled: ``K[slot]`` holds kernel ``numbers[slot]`` of the bank.

    ``members``: all kernels, of which those fitted here replace themselves; ``numbers``: the
    kernels to compute; ``tell`` is called whenever one is done.
    """

    def __init__(
        self,
        groups: list[Group],
        members: list[Member],
        numbers: list[int],
        K: NDArray[Any],
        tell: Callable[[], None],
    ) -> None:
        self.members, self.numbers, self.K, self.tell = members, numbers, K, tell
        self.any_scale = all(group.rule is not None for group in groups)
        self.duplicates = Duplicates(self.K, self.any_scale)
        self.tasks: list[_Task] = []
        first = slot = 0
        for group in groups:
            last, start = first + len(group.members), slot
            slot += sum(first <= number < last for number in numbers)
            self.tasks.append((group, range(start, slot)))
            first = last
        self._local = threading.local()

    def fill(self, threads: int) -> None:
        """Compute every kernel. Those from other libraries run in one thread: they may need to."""

        def known(task: _Task) -> bool:
            return all(self._kernel(slot).known_psd for slot in task[1])

        ours = [task for task in self.tasks if known(task)]
        foreign = [task for task in self.tasks if not known(task)]
        self._fill(foreign, 0, len(foreign))
        run(self._fill, len(ours), self.K.size, threads, ours)

    def leave_out_duplicates(self) -> None:
        """Drop kernels equal to an earlier one up to scale."""
        live = [s for s, number in enumerate(self.numbers) if self.members[number].dropped is None]
        for slot, twin in self.duplicates.twins(live):
            number, first = self.numbers[slot], self.numbers[twin]
            drop_equal(self.members, number, first, any_scale=self.any_scale)

    def close_gaps(self) -> NDArray[np.intp]:
        """Move the last kernels into the slots of dropped ones; returns the numbers by slot."""
        live = [self.members[number].dropped is None for number in self.numbers]
        count = sum(live)
        gaps = [slot for slot in range(count) if not live[slot]]
        movers = [slot for slot in range(count, len(live)) if live[slot]]
        for gap, mover in zip(gaps, movers, strict=True):
            self.K[gap] = self.K[mover]
            self.numbers[gap] = self.numbers[mover]
        return np.array(self.numbers[:count], dtype=np.intp)

    def _kernel(self, slot: int) -> Any:
        return self.members[self.numbers[slot]].kernel

    def _fill(self, tasks: list[_Task], start: int, stop: int) -> None:
        if not hasattr(self._local, "scratch"):
            self._local.scratch = Scratch()
        for group, slots in tasks[start:stop]:
            gram = Gram(group.rows, self._local.scratch, shared=len(slots) > 1)
            for slot in slots:
                half = self._room(gram, slot, group.places)
                self._fill_slot(gram, half, slot, group)
                self.tell()

    def _room(self, gram: Gram, slot: int, places: NDArray[np.intp] | None) -> Array:
        """Room for a lower triangle: in the kernel's own slot if it fits there, else apart."""
        if places is None and self.K.dtype == np.float64:
            return triangle.room(self.K[slot])
        return gram.scratch("kernel")

    def _fill_slot(self, gram: Gram, half: Array, slot: int, group: Group) -> None:
        """Compute one kernel into its slot, with ``half`` as room for its lower triangle."""
        number = self.numbers[slot]
        member = self.members[number]
        member.fill(gram, half)
        rows, places = group.rows, group.places
        normalizer = learn_normalizer(
            rule_of(group.rule, places),
            triangle.diagonal(half, len(rows)),
            partial(triangle.means, half),
            member.name,
            rows.weights,
        )
        if isinstance(normalizer, str):
            drop(self.members, number, normalizer)
            return
        if places is None:
            normalizer.train(half, self.K[slot])
        else:
            self._spread(normalizer, half, slot, places)
        self.duplicates.see(slot)
        self.members[number] = member.fitted(normalizer)

    def _spread(
        self, normalizer: Normalizer, half: Array, slot: int, places: NDArray[np.intp]
    ) -> None:
        """Write a kernel of the rows ``places``; all other entries are zero."""
        some = np.empty((len(places), len(places)), self.K.dtype)
        normalizer.train(half, some)
        self.K[slot] = 0.0
        self.K[slot][np.ix_(places, places)] = some


_Task = tuple[Group, range]  # kernels and rows, and the slots of these kernels
