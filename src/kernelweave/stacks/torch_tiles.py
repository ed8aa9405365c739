"""Products with kernels whose rows lie on a device: a tile of entries at a time, none of them kept.

    K = scale · diag(u)(G − μ1ᵀ − 1μᵀ) diag(u),        G_ij = g(x_i, x_j)

u are norms of the sphere, and 0 where a row lacks the view; μ are the means of a centered kernel, a
correction of rank two. What kernels of a view share, products or distances, is computed once in
each tile; those with the same u share the product with a vector, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch

from kernelweave._core.blocks import blocks
from kernelweave._core.settings import SETTINGS
from kernelweave.stacks.row_kernels import GAUSSIAN, LAPLACIAN, POLYNOMIAL, Entry

MATRIX = 3  # beside the families of rows: a matrix that is kept
TILE = {"cpu": 2**20, "cuda": 2**26, "mps": 2**24}  # entries of a tile
_MOST = 0.9  # share of the rows with a coefficient, above which the others are no burden


def entries_of(formula: Entry, base: torch.Tensor) -> torch.Tensor:
    """φ from distances, products or entries; a new tensor, unless they are it."""
    kind, a, b = formula
    if kind in (GAUSSIAN, LAPLACIAN):
        return torch.mul(base, -a).exp_()
    if kind == MATRIX or (a, b) == (0.0, 1):
        return base
    return torch.add(base, a) ** b


class RowsView:
    """Rows x_i of numbers, float64; distances are those of rows less ``center``."""

    def __init__(self, X: torch.Tensor, center: torch.Tensor | None = None) -> None:
        self.X = X
        self.center = X.mean(dim=0) if center is None else center
        self._as: dict[torch.dtype, tuple[torch.Tensor, torch.Tensor]] = {}
        self._padded: dict[bool, tuple[torch.Tensor, torch.Tensor]] = {}

    def __len__(self) -> int:
        return len(self.X)

    @property
    def device(self) -> str:
        """The kind of device they are on."""
        return str(self.X.device.type)

    def take(self, places: torch.Tensor | None) -> RowsView:
        """Some of the rows."""
        return self if places is None else RowsView(self.X[places], self.center)

    def centered(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows less the center, and their squared norms."""
        if dtype not in self._as:
            X = (self.X - self.center).to(dtype)
            self._as[dtype] = X, torch.linalg.vecdot(X, X)
        return self._as[dtype]

    def padded(self, is_distance: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of float32 with columns of zeros beside them, and squared norms; for ``fused``."""
        if is_distance not in self._padded:
            from kernelweave.stacks.torch_fused import padded_to

            X = self.X - self.center if is_distance else self.X
            wide = X.new_zeros(len(X), padded_to(X.shape[1]), dtype=torch.float32)
            wide[:, : X.shape[1]] = X
            self._padded[is_distance] = wide, torch.linalg.vecdot(wide, wide)
        return self._padded[is_distance]

    def base(
        self, kind: int, other: RowsView, i: slice, j: slice, dtype: torch.dtype
    ) -> torch.Tensor:
        """|x − z|², |x − z|₁ or xᵀz."""
        if kind == GAUSSIAN:
            (A, a), (B, b) = self.centered(dtype), other.centered(dtype)
            apart = torch.addmm(a[i, None] + b[j], A[i], B[j].T, alpha=-2.0)
            return apart.clamp_(min=0.0)
        if kind == LAPLACIAN:
            A, B = self.centered(dtype)[0], other.centered(dtype)[0]
            return torch.cdist(A[i], B[j], p=1.0)
        return self.X[i].to(dtype) @ other.X[j].to(dtype).T


class MatrixView:
    """Rows ``places`` of a matrix that is kept."""

    def __init__(self, K: torch.Tensor, places: torch.Tensor) -> None:
        self.K, self.places = K, places

    def __len__(self) -> int:
        return len(self.places)

    @property
    def device(self) -> str:
        """The kind of device it is on."""
        return str(self.K.device.type)

    def take(self, places: torch.Tensor | None) -> MatrixView:
        """Some of the rows."""
        return self if places is None else MatrixView(self.K, self.places[places])

    def base(
        self, kind: int, other: MatrixView, i: slice, j: slice, dtype: torch.dtype
    ) -> torch.Tensor:
        """The entries."""
        return self.K[self.places[i, None], other.places[j]].to(dtype)


class TileGroup(NamedTuple):
    """A sum of kernels of one view, diag(u)(Σ_k c_k G_k − μ1ᵀ − 1μᵀ) diag(u)."""

    view: int
    members: tuple[tuple[float, Entry], ...]
    norms: torch.Tensor | None = None
    means: torch.Tensor | None = None

    def entries(self, base: Callable[[int], torch.Tensor]) -> torch.Tensor:
        """Σ_k c_k G_k of a tile; not to be changed."""
        total: torch.Tensor | None = None
        for times, formula in self.members:
            E = entries_of(formula, base(formula.kind))
            if total is None:
                total = E if times == 1.0 else E * times
            else:
                total = torch.add(total, E, alpha=times)
        assert total is not None
        return total

    def finish(
        self, tile: torch.Tensor, i: torch.Tensor | slice, j: torch.Tensor | slice
    ) -> torch.Tensor:
        """The entries themselves from those of the sum, at rows i and columns j."""
        if self.means is not None:
            tile = tile - self.means[i, None].to(tile.dtype) - self.means[j].to(tile.dtype)
        if self.norms is not None:
            tile = tile * self.norms[i, None].to(tile.dtype) * self.norms[j].to(tile.dtype)
        return tile


def tiles(
    left: Any, right: Any, dtype: torch.dtype
) -> Iterator[tuple[slice, slice, Callable[[int], torch.Tensor]]]:
    """Rows, columns and bases of each tile between two views."""
    for j in blocks(len(right), 1, SETTINGS.tile_columns):
        for i in blocks(len(left), j.stop - j.start, TILE[left.device]):
            yield i, j, bases(left, right, i, j, dtype)


def bases(
    left: Any, right: Any, i: slice, j: slice, dtype: torch.dtype
) -> Callable[[int], torch.Tensor]:
    """Distances, products or entries by the kind of formula, each computed once."""
    known: dict[int, torch.Tensor] = {}

    def base(kind: int) -> torch.Tensor:
        if kind not in known:
            known[kind] = left.base(kind, right, i, j, dtype)
        return known[kind]

    return base


def multiply(
    views: Sequence[Any],
    groups: Sequence[TileGroup],
    V: torch.Tensor,
    rows: torch.Tensor | None,
    dtype: torch.dtype,
    quick: bool = False,
) -> torch.Tensor:
    """Each group times the columns of V (n, c), at some rows or all: (groups, rows, c), float64.

    Tiles are of ``dtype``; ``quick`` lets a device use shorter products.
    """
    n = len(V)
    used = torch.nonzero(V.abs().amax(dim=1))[:, 0] if V.shape[1] else V.new_zeros(0).long()
    support = used if len(used) < _MOST * n else None
    W = V if support is None else V[support]
    out = V.new_zeros(len(groups), n if rows is None else len(rows), V.shape[1])
    for number in sorted({group.view for group in groups}):
        own = [k for k, group in enumerate(groups) if group.view == number]
        left, right = views[number].take(rows), views[number].take(support)
        sides = [_side(groups[k], W, support) for k in own]
        some = [groups[k] for k in own]
        if _can_fuse(some, out, dtype):
            out[own] = _fused(left, right, some, sides, quick)
        else:
            out[own] = tiled(left, right, some, sides, dtype)
        for k, U in zip(own, sides, strict=True):
            _correct(groups[k], out[k], U, rows, support)
    return out


def _can_fuse(groups: Sequence[TileGroup], out: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether these kernels are of two rows, in float32 on CUDA, and Triton is there."""
    kinds = {entry.kind for group in groups for _, entry in group.members}
    single = dtype is torch.float32 and kinds <= {GAUSSIAN, POLYNOMIAL}
    return single and out.is_cuda and find_spec("triton") is not None


def _fused(
    left: RowsView,
    right: RowsView,
    groups: Sequence[TileGroup],
    sides: Sequence[torch.Tensor],
    quick: bool,
) -> torch.Tensor:
    """Each group times its vectors, in kernels of the device."""
    from kernelweave.stacks import torch_fused as fused

    if len(groups) > 1 and all(len(group.members) == 1 for group in groups):
        alone = [group.members[0] for group in groups]
        return torch.stack(fused.each(left, right, alone, sides, quick))
    pairs = zip(groups, sides, strict=True)
    return torch.stack([fused.summed(left, right, group.members, U, quick) for group, U in pairs])


def tiled(
    left: Any,
    right: Any,
    groups: Sequence[TileGroup],
    sides: Sequence[torch.Tensor],
    dtype: torch.dtype,
) -> torch.Tensor:
    """Each group times its vectors between two sets of rows, tile by tile: (groups, rows, c)."""
    short = [U.to(dtype) for U in sides]
    out = sides[0].new_zeros(len(groups), len(left), sides[0].shape[1])
    for i, j, base in tiles(left, right, dtype):
        for k, (group, U) in enumerate(zip(groups, short, strict=True)):
            out[k, i] += group.entries(base) @ U[j]
    return out


def _side(group: TileGroup, W: torch.Tensor, support: torch.Tensor | None) -> torch.Tensor:
    """The vectors as the sum of entries meets them."""
    return W if group.norms is None else _at(group.norms, support)[:, None] * W


def _correct(
    group: TileGroup,
    out: torch.Tensor,
    U: torch.Tensor,
    rows: torch.Tensor | None,
    support: torch.Tensor | None,
) -> None:
    """Take the means off, times the norms."""
    if group.means is not None:
        left, right = _at(group.means, rows)[:, None], _at(group.means, support)
        out -= left * U.sum(dim=0) + right @ U
    if group.norms is not None:
        out *= _at(group.norms, rows)[:, None]


def _at(x: torch.Tensor, places: torch.Tensor | None) -> torch.Tensor:
    return x if places is None else x[places]
