"""Decision values under kernels made of few features: what many rows come to is summed once.

    f(x) = Σ_j coef_j φ(x)ᵀφ(x_j) = φ(x)ᵀ image,      image = Σ_j coef_j φ(x_j)

New rows are then compared with r numbers per kernel, whatever the number of support rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kernelweave._core.types import Array
from kernelweave.banks.member import Member
from kernelweave.views.rows import Rows
from kernelweave.views.table import Table

_ROWS = 4096  # rows whose features are held at a time


def images(table: Table, members: list[tuple[int, Member]], coef: Array) -> dict[int, Array]:
    """Σ_j coef_j φ(x_j) for each kernel, by number; rows that lack its view do not count."""
    found = {}
    for number, member in members:
        having, rows = Rows.having(table, member.view)
        own = coef if having is None else coef[having]
        total: Any = 0.0
        for block, phi in _features(member, rows):
            total = total + phi.T @ own[block]
        found[number] = total
    return found


def values(
    new: Table,
    members: list[tuple[int, Member]],
    image: dict[int, Array],
    weights: Array,
    lacking: Callable[[int, Member], Array],
) -> Array:
    """Σ_m weights_m φ_m(x)ᵀ image_m for each new row; ``lacking`` gives it for rows without a view.

    ``weights`` has one set for all machines, or one row for each.
    """
    machines = next(iter(image.values())).shape[1:]
    out = np.zeros((len(new), *machines))
    for number, member in members:
        having, rows = Rows.having(new, member.view)
        found = np.empty((len(rows), *machines))
        for block, phi in _features(member, rows):
            np.matmul(phi, image[number], out=found[block])
        if not np.isfinite(found).all():
            raise ValueError(
                f"Kernel {member.name!r} is not finite between these rows of X and the training "
                "rows."
            )
        if having is not None:
            whole = np.empty((len(new), *machines))
            whole[...] = lacking(number, member)
            whole[having] = found
            found = whole
        out += weights[..., number] * found
    return out


def _features(member: Member, rows: Rows) -> Iterator[tuple[slice, Array]]:
    kernel: Any = member.kernel
    for start in range(0, max(1, len(rows)), _ROWS):
        block = slice(start, min(start + _ROWS, len(rows)))
        yield block, kernel.features(Rows(rows.table.block(block), rows.view))
