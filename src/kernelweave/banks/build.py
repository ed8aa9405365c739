"""Computes the kernels of a bank into one stack, each in its cheaper form."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import some
from kernelweave.banks.exactness import Exactness
from kernelweave.banks.factoring import FactorBuilder, Recipe
from kernelweave.banks.matrices import MatrixBuilder
from kernelweave.banks.member import Group, Member, TrainingKernel
from kernelweave.banks.storage import OnDemand, build_stack
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.mixed import MixedStack
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.threads import count_threads
from kernelweave.views.table import Table


class Built(NamedTuple):
    """All fitted kernels, the numbers of those in the stack, in its order, and the stack.

    ``exactness``: what is left of the exact kernels, where they are approximated.
    """

    members: tuple[Member, ...]
    kept: NDArray[np.intp]
    stack: Stack
    exactness: Exactness | None


def build(
    groups: list[Group],
    table: Table,
    recipe: Recipe,
    n_jobs: int | None,
    tell: Callable[[], None],
) -> Built:
    """Compute and normalize every kernel on the rows into one stack; drop those that add nothing.

    ``tell`` is called whenever one is done.

    Entries of rows that lack a kernel's view are zero; such a kernel is centered.
    """
    members = [member for group in groups for member in group.members]
    own = isinstance(recipe.storage, str) or recipe.approximation is not None
    factors = FactorBuilder(groups if own else [], members, len(table), recipe, tell)
    matrices = [
        number
        for number, member in enumerate(members)
        if member.kernel is not None and number not in factors.seen
    ]
    parts: list[tuple[NDArray[np.intp], Stack]] = []
    if matrices and (not own or recipe.storage == "lazy"):
        owners = [group for group in groups for _ in group.members]
        kernels = {k: TrainingKernel(members[k], owners[k], len(table)) for k in matrices}
        storage = OnDemand(recipe.cache_size) if own else recipe.storage
        made = build_stack(storage, [*kernels.values()])
        for number, one in kernels.items():
            members[number] = one.member
        left = [number for number in matrices if members[number].dropped is None]
        if made is not None:
            parts.append((np.array(left, dtype=np.intp), made))
    elif matrices:
        K = KernelStack.allocate(len(matrices), len(table), recipe.dtype)
        builder = MatrixBuilder(groups, members, matrices, K, tell)
        builder.fill(count_threads(n_jobs))
        builder.leave_out_duplicates()
        kept = builder.close_gaps()
        if len(kept):
            parts.append((kept, KernelStack(K[: len(kept)], check=False, dtype=recipe.dtype)))
    if factors.numbers:
        parts.append((np.array(factors.numbers, dtype=np.intp), factors.stack()))
    if not parts:
        raise ValueError(
            f"No kernel is left on these {len(table)} rows. {_reasons(members)} Give columns whose "
            "values differ between rows, or other kernels on them."
        )
    return Built(tuple(members), *_joined(parts), factors.exactness(table))


def _reasons(members: list[Member]) -> str:
    """Each reason once, with the kernels that it concerns."""
    concerned: dict[str, list[str]] = {}
    for member in members:
        concerned.setdefault(str(member.dropped), []).append(member.name)
    return " ".join(f"{some(names, 2)}: {why}." for why, names in concerned.items())


def _joined(parts: list[tuple[NDArray[np.intp], Stack]]) -> tuple[NDArray[np.intp], Stack]:
    """One stack of all parts, its kernels by their numbers."""
    if len(parts) == 1:
        return parts[0]
    kept = np.concatenate([numbers for numbers, _ in parts])
    order = np.argsort(kept)
    ends = np.cumsum([len(numbers) for numbers, _ in parts])[:-1]
    places = np.split(np.argsort(order), ends)
    return kept[order], MixedStack([stack for _, stack in parts], places)
