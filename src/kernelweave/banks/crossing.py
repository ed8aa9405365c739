"""New rows against training rows, view by view; either side may lack a view.

A row that lacks a view stands at the view's mean in feature space. In a centered kernel the mean
is the origin: the row's entries are zero. In any other kernel they are the mean of k(x_i, ·) over
the training rows x_i.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.types import Array
from kernelweave.banks.member import Member
from kernelweave.views.columns import View
from kernelweave.views.rows import Pair, Rows, Scratch
from kernelweave.views.table import Table

Numbered = tuple[int, Member]  # the number of a kernel in its bank, and the kernel


@dataclass(frozen=True)
class Side:
    """The kernels of one view against the training rows that they are compared with.

    ``rows``: these training rows, all of which have the view.
    ``wanted``: which of them are columns of the result; a centered kernel needs others as well.
    ``places``: the columns of the result that these are; None for all.
    """

    rows: Rows
    members: list[Numbered]
    wanted: NDArray[np.intp]
    places: NDArray[np.intp] | None


def sides(table: Table, members: Iterable[Numbered], index: NDArray[np.intp]) -> list[Side]:
    """The kernels by view, against the rows ``index`` of the training table."""
    found, some = [], None
    for view, group in groupby(members, key=lambda pair: pair[1].view):
        kernels = list(group)
        if kernels[0][1].centered:
            found.append(_centered_side(table, view, kernels, index))
        else:
            some = table.take(index) if some is None else some  # one copy for all views
            places, rows = Rows.having(some, view)
            found.append(Side(rows, kernels, np.arange(len(rows)), places))
    return found


def _centered_side(
    table: Table, view: View, kernels: list[Numbered], index: NDArray[np.intp]
) -> Side:
    having, rows = Rows.having(table, view)
    if having is None:
        return Side(rows, kernels, index, None)
    number = np.full(len(table), -1)
    number[having] = np.arange(len(having))
    wanted = number[index]
    places = np.flatnonzero(wanted >= 0)
    return Side(rows, kernels, wanted[places], places)


def matrices(
    new: Table,
    against: list[Side],
    width: int,
    scratch: Scratch,
    average: Callable[[int, Member], Array],
) -> Iterator[tuple[int, Array]]:
    """(number, normalized kernel of the new rows against ``width`` training rows), one by one.

    A matrix is valid only until the next one is requested: they share memory. ``average`` gives
    the row of a new row that lacks the view of an uncentered kernel.
    """
    for side in against:
        having, rows = Rows.having(new, side.rows.view)
        pair = Pair(rows, side.rows, scratch, shared=len(side.members) > 1)
        for number, member in side.members:
            matrix = _normalized(member, pair, side.wanted)
            if having is not None or side.places is not None:
                whole = scratch("whole", (len(new), width))
                whole[...] = 0.0
                if having is not None and not member.centered:
                    whole[...] = average(number, member)
                columns = np.arange(width) if side.places is None else side.places
                whole[np.ix_(np.arange(len(new)) if having is None else having, columns)] = matrix
                matrix = whole
            yield number, matrix


def _normalized(member: Member, pair: Pair, wanted: NDArray[np.intp]) -> Array:
    assert member.kernel is not None and member.normalizer is not None
    out = pair.scratch("kernel")
    if not len(pair.a):
        return out[:, wanted]
    member.fill(pair, out)
    return member.normalizer.cross(out, wanted, partial(member.kernel.diagonal, pair.a))
