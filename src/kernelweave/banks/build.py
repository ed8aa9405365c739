"""Computes the kernels of a bank into one stack, each in its cheaper form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave.banks.factoring import FactorBuilder
from kernelweave.banks.matrices import MatrixBuilder
from kernelweave.banks.member import Group, Member
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.mixed import MixedStack
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.threads import count_threads


def build(
    groups: list[Group],
    n: int,
    rule: str | None,
    dtype: np.dtype[Any],
    n_jobs: int | None,
    storage: str,
) -> tuple[tuple[Member, ...], NDArray[np.intp], Stack]:
    """Compute and normalize every kernel on n rows into one stack; drop those that add nothing.

    Entries of rows that lack a kernel's view are zero; such a kernel is centered.

    Returns all fitted kernels, the numbers of those in the stack, in its order, and the stack.
    """
    members = [member for group in groups for member in group.members]
    factors = FactorBuilder(groups, members, n, rule, dtype, storage)
    matrices = [
        number
        for number, member in enumerate(members)
        if member.kernel is not None and number not in factors.seen
    ]
    parts: list[tuple[NDArray[np.intp], Stack]] = []
    if matrices:
        K = KernelStack.allocate(len(matrices), n, dtype)
        builder = MatrixBuilder(groups, members, matrices, rule, K)
        builder.fill(count_threads(n_jobs))
        builder.leave_out_duplicates()
        kept = builder.close_gaps()
        if len(kept):
            parts.append((kept, KernelStack(K[: len(kept)], check=False, dtype=dtype)))
    if factors.numbers:
        parts.append((np.array(factors.numbers, dtype=np.intp), factors.stack()))
    if not parts:
        raise ValueError(
            "No kernel is left on these rows. "
            + "; ".join(f"{member.name}: {member.dropped}" for member in members[:5])
        )
    if len(parts) == 1:
        return tuple(members), *parts[0]
    kept = np.concatenate([numbers for numbers, _ in parts])
    order = np.argsort(kept)
    places = np.split(np.argsort(order), [len(parts[0][0])])
    return tuple(members), kept[order], MixedStack([stack for _, stack in parts], places)
