"""Products with sums of kernels of two rows in one kernel of the device, compiled by Triton.

    out_i = Σ_j Σ_k c_k φ_k(x_i, z_j) p_j

Each program keeps a block of rows i and goes through the columns j: products or distances by
``tl.dot``, then all functions φ_k of them, then the product with p, and nothing leaves the chip but
the sums. Sums over ``_SPAN`` columns are float32, what they come to is added up in float64.

"tf32x3" is nearly float32, "tf32" has three digits and takes half of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from kernelweave.stacks.row_kernels import GAUSSIAN, POLYNOMIAL, Entry

_PER_LOG2 = 1.4426950408889634
_ROWS = _COLUMNS = 64  # of a block: larger ones are slower
_SPAN = 2**15  # columns that one program goes through
_WIDTH = 16  # vectors at a time, at least: fewer take as long
_TOGETHER = 8  # kernels of one launch

Member = tuple[float, Entry]


@triton.jit
def _product(  # type: ignore[no-untyped-def]
    X, x_sizes, Z, z_sizes, P, out, a, b, c, rows, n, span, width,
    IS_DISTANCE: tl.constexpr, IS_EACH: tl.constexpr, KERNELS: tl.constexpr, COLUMNS: tl.constexpr,
    PART: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A block of rows, and the columns of one span.

    ``IS_EACH``: kernel k has vectors of its own, ``width`` of them from column k·width on.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r, k, inside = tl.arange(0, WIDTH), tl.arange(0, PART), i < rows
    first = tl.program_id(1) * span
    left = tl.load(x_sizes + i, mask=inside, other=0.0)
    X += i[:, None] * COLUMNS + k[None, :]
    x = tl.load(X, mask=inside[:, None], other=0.0)
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(first, min(first + span, n), BLOCK):
        j = start + tl.arange(0, BLOCK)
        there = j < n
        z_ = Z + j[None, :] * COLUMNS + k[:, None]
        z = tl.load(z_, mask=there[None, :], other=0.0)
        base = tl.dot(x, z, input_precision=PRECISION)
        for more in range(PART, COLUMNS, PART):
            u = tl.load(X + more, mask=inside[:, None], other=0.0)
            z = tl.load(z_ + more, mask=there[None, :], other=0.0)
            base = tl.dot(u, z, base, input_precision=PRECISION)
        if IS_DISTANCE:
            right = tl.load(z_sizes + j, mask=there, other=0.0)
            base = tl.maximum(left[:, None] + right[None, :] - 2.0 * base, 0.0)
        p = tl.load(P + j[:, None] * WIDTH + r[None, :], mask=there[:, None], other=0.0)
        sum_ = tl.zeros((BLOCK, BLOCK), tl.float32)
        for kernel in tl.static_range(KERNELS):
            if IS_DISTANCE:
                entry = tl.exp2(base * tl.load(a + kernel))
            else:
                shifted = base + tl.load(a + kernel)
                entry = shifted
                for _ in range(1, tl.load(b + kernel)):
                    entry = entry * shifted
            entry = entry * tl.load(c + kernel)
            if IS_EACH:
                own = tl.where((r // width == kernel)[None, :], p, 0.0)
                total = tl.dot(entry, own, total, input_precision=PRECISION)
            else:
                sum_ += entry
        if not IS_EACH:
            total = tl.dot(sum_, p, total, input_precision=PRECISION)
    place = (tl.program_id(1).to(tl.int64) * rows + i)[:, None] * WIDTH + r[None, :]
    tl.store(out + place, total, mask=inside[:, None])


def summed(
    left: Any, right: Any, members: Sequence[Member], U: torch.Tensor, quick: bool
) -> torch.Tensor:
    """Σ_k c_k φ_k times the columns of U, (rows, columns) in float64."""
    out = torch.zeros(len(left), U.shape[1], dtype=torch.float64, device=U.device)
    for kind in (GAUSSIAN, POLYNOMIAL):
        own = [member for member in members if member[1].kind == kind]
        for some in _parts(own, _TOGETHER):
            for first in range(0, U.shape[1], 4 * _WIDTH):
                columns = slice(first, first + 4 * _WIDTH)
                out[:, columns] += _launched(left, right, some, U[:, columns], 0, quick)
    return out


def each(
    left: Any, right: Any, members: Sequence[Member], sides: Sequence[torch.Tensor], quick: bool
) -> list[torch.Tensor]:
    """c_k φ_k times the columns of U_k for every k, in as few launches as there is room for."""
    width = sides[0].shape[1]
    out: list[torch.Tensor] = [sides[0]] * len(members)
    for kind in (GAUSSIAN, POLYNOMIAL):
        own = [k for k, member in enumerate(members) if member[1].kind == kind]
        for some in _parts(own, max(1, min(_TOGETHER, 2 * _WIDTH // width))):
            U = torch.cat([sides[k] for k in some], dim=1)
            found = _launched(left, right, [members[k] for k in some], U, width, quick)
            for place, k in enumerate(some):
                out[k] = found[:, place * width : (place + 1) * width]
    return out


def _parts(items: list[Any], size: int) -> list[list[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def _launched(
    left: Any, right: Any, members: Sequence[Member], U: torch.Tensor, width: int, quick: bool
) -> torch.Tensor:
    """One launch; ``width`` vectors for each kernel, or 0 where all kernels share all vectors."""
    is_distance, device = members[0][1].kind == GAUSSIAN, U.device
    (X, x_sizes), (Z, z_sizes) = left.padded(is_distance), right.padded(is_distance)
    room = max(_WIDTH, triton.next_power_of_2(U.shape[1]))
    P = torch.zeros(len(U), room, dtype=torch.float32, device=device)
    P[:, : U.shape[1]] = U
    rates = [-_PER_LOG2 * entry.a if is_distance else entry.a for _, entry in members]
    spans = max(1, triton.cdiv(len(right), _SPAN))
    out = torch.empty(spans, len(left), room, dtype=torch.float32, device=device)
    columns = X.shape[1]
    _product[(triton.cdiv(len(left), _ROWS), spans)](
        X, x_sizes, Z, z_sizes, P, out,
        torch.tensor(rates, dtype=torch.float32, device=device),
        torch.tensor([entry.b for _, entry in members], dtype=torch.int32, device=device),
        torch.tensor([times for times, _ in members], dtype=torch.float32, device=device),
        len(left), len(right), _SPAN, max(width, 1),
        IS_DISTANCE=is_distance, IS_EACH=width > 0, KERNELS=len(members), COLUMNS=columns,
        PART=min(columns, 64), WIDTH=room, BLOCK=_ROWS, PRECISION="tf32" if quick else "tf32x3",
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out.sum(dim=0, dtype=torch.float64)[:, : U.shape[1]]


def padded_to(columns: int) -> int:
    """Columns with zeros beside them: a power of two up to 64, then multiples of 64."""
    return max(16, triton.next_power_of_2(columns)) if columns <= 64 else -(-columns // 64) * 64
