"""Kernels that a device of PyTorch computes from rows: exact, and no m × n² numbers anywhere.

    K_k = scale_k diag(u_k)(G_k − μ_k 1ᵀ − 1 μ_kᵀ) diag(u_k)

The device holds the rows of each view, and K(d) as one matrix where it fits: in float64 if there is
room for that, else in float32. Where not even that fits, products with K(d) are computed from the
rows each time. Vectors are arrays of the host. ``fine_product`` and ``block`` are
float64 throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import as_places, check_vector, float_type
from kernelweave._core.tolerances import EPS
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import frozen, read_only
from kernelweave.stacks.dense import DenseCombined
from kernelweave.stacks.rounding import Units
from kernelweave.stacks.row_kernels import Entry, RowKernels, amplified, roundings
from kernelweave.stacks.torch_combined import HeldMatrix, TorchCombined
from kernelweave.stacks.torch_device import (
    KINDS,
    SINGLE,
    device_of,
    fetched,
    fine_device,
    free_bytes,
    numbers,
    sent,
)
from kernelweave.stacks.torch_tiles import (
    MATRIX,
    MatrixView,
    RowsView,
    TileGroup,
    bases,
    multiply,
)

_FEW = 16  # kernels that one pass in float64 goes through, be all of them needed or not


@dataclass
class _Passes:
    """Vectors that are expected, and what the kernels make of them once it is known."""

    vectors: Sequence[Array]
    found: Array | None = None

    def column(self, x: Array) -> int | None:
        """Which of them x is."""
        return next((k for k, v in enumerate(self.vectors) if np.array_equal(v, x)), None)


class TorchStack:
    """Kernels over n rows, computed by ``device``.

    Parameters
    ----------
    views : sequence of RowKernels
        The kernels of each view, with their numbers in the stack.
    matrices : mapping of int to arrays (n, n)
        Kernels that no device can generate, by number.
    device : str
        "cpu", "cuda", "cuda:1" or "mps".
    dtype : float64, float32 or None
        In what passes compute, and the combined matrix is kept; None: float64 where that matrix
        fits, else float32.
    rows : sequence of tensors or None
        The rows of each view, where they are on the device already.
    """

    most_dense = 2000  # points up to which a combined kernel is an array of the host: 32 MB
    room = 0.4  # share of the free memory of the device that a combined matrix may take

    def __init__(
        self,
        views: Sequence[RowKernels],
        matrices: Mapping[int, ArrayLike] | None = None,
        device: str = "cuda",
        dtype: DTypeLike | None = None,
        rows: Sequence[torch.Tensor | None] | None = None,
    ) -> None:
        given = {int(k): np.asarray(K) for k, K in (matrices or {}).items()}
        count = len(given) + sum(view.numbers.size for view in views)
        if not count:
            raise ValueError("there must be at least one kernel, found none")
        self._device = device_of(device)
        n = views[0].n if views else len(next(iter(given.values())))
        diagonals, groups = np.empty((count, n)), dict[int, TileGroup]()
        places: list[Any] = []
        self._loss, self._entry = 1.0, 1.0
        for view, x in zip(views, rows or [None] * len(views), strict=True):
            own = view.diagonals()
            diagonals[view.numbers] = own
            loss = amplified(view, own)
            self._loss = max(self._loss, loss)
            self._entry = max(self._entry, loss * roundings(view))
            groups.update(zip(view.numbers.tolist(), self._groups(view, len(places)), strict=True))
            places.append(RowsView(x if x is not None else sent(view.x, self._device, self.wide)))
        every = torch.arange(n, device=self._device)
        for k, K in given.items():
            diagonals[k] = np.diagonal(K)
            groups[k] = TileGroup(len(places), ((1.0, Entry(MATRIX, 0.0)),))
            kind = torch.float32 if K.dtype == np.float32 else self.wide
            places.append(MatrixView(sent(K, self._device, kind), every))
        self._views, self._kernels = tuple(places), tuple(groups[k] for k in range(count))
        self._diagonals = frozen(diagonals)
        self._fine: TorchStack | None = None
        if fine_device(self._device) != self._device:
            self._fine = TorchStack(views, given, "cpu", np.float64)
        self._asked = None if dtype is None else float_type(dtype)
        self.held, self._passes = HeldMatrix(), _Passes([])

    def _groups(self, view: RowKernels, number: int) -> Iterator[TileGroup]:
        """A group for each kernel; norms that are alike are one tensor, and a number has none."""
        known: dict[bytes, torch.Tensor] = {}
        for k, entry in enumerate(zip(view.kinds.tolist(), view.a, view.b.tolist(), strict=True)):
            scale, norms = float(view.scale[k]), None
            if view.norms is not None:
                row = view.norms[k]
                if np.ptp(row) > 0.0:
                    norms = known.setdefault(row.tobytes(), sent(row, self._device, self.wide))
                else:
                    scale *= float(row[0]) ** 2
            means = None
            if view.means is not None and view.means[k].any():
                means = scale * sent(view.means[k], self._device, self.wide)
            yield TileGroup(number, ((scale, Entry(*entry)),), norms, means)

    @property
    def wide(self) -> torch.dtype:
        """The widest numbers that the device has."""
        return torch.float32 if self._device.type == "mps" else torch.float64

    @cached_property
    def _form(self) -> tuple[torch.dtype, bool]:
        most = self.room * free_bytes(self._device)
        asked = self._asked
        kinds = [torch.float64, torch.float32] if asked is None else [KINDS[asked]]
        kinds = [kind for kind in kinds if kind.itemsize <= self.wide.itemsize] or [self.wide]
        for kind in kinds:
            if self.n**2 * kind.itemsize <= most:
                return kind, True
        return kinds[-1], False

    @property
    def kind(self) -> torch.dtype:
        """What passes compute in."""
        return self._form[0]

    @property
    def keeps(self) -> bool:
        """Whether the combined matrix is kept."""
        return self._form[1]

    # ---- what it is ----------------------------------------------------------------------------

    @property
    def m(self) -> int:
        """Number of kernels."""
        return len(self._kernels)

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self._diagonals.shape[1])

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._device

    @property
    def precision(self) -> np.dtype:
        """float64: that of the rows, and of the kernels that are certified."""
        return np.dtype(np.float64)

    @property
    def name(self) -> str:
        """That of the class."""
        return type(self).__name__

    @property
    def units(self) -> Units:
        """Those of float64; or of float32, of whose entries short products leave less.

        Centering takes most of the terms off where all rows are alike: sums lose as many digits.
        """
        entry, fine = self._entry, self._loss * EPS
        operations = int(np.ceil(min(entry, 1.0 / EPS)))
        if self.kind is torch.float64:
            return Units(fine, 0.0, fine, operations)
        share = entry * (2.0**-10 if self.is_short else 8.0 * SINGLE)
        return Units(self._loss * SINGLE, share, fine, operations)

    @property
    def is_short(self) -> bool:
        """Whether PyTorch was asked to multiply float32 as TF32, which has ten bits."""
        return self._device.type == "cuda" and bool(torch.backends.cuda.matmul.allow_tf32)

    def diagonals(self) -> Array:
        """All K_k[i, i], shape (m, n), read-only."""
        return self._diagonals

    def traces(self) -> Array:
        """All tr K_k."""
        return self._traces

    @cached_property
    def _traces(self) -> Array:
        return read_only(self._diagonals.sum(axis=1))

    # ---- what it computes ----------------------------------------------------------------------

    def block(self, kernel: int, rows: Index, columns: Index) -> Array:
        """One kernel at some rows and columns, a new array of float64."""
        left, right = (as_places(p, self.n, w) for p, w in ((rows, "rows"), (columns, "columns")))
        return self.entries(np.eye(1, self.m, int(kernel) % self.m)[0], left, right)

    def entries(self, weights: Array, rows: Places, columns: Places) -> Array:
        """K(d) at some rows and columns, float64."""
        if self._fine is not None:
            return self._fine.entries(weights, rows, columns)
        at = self._places(rows), self._places(columns)
        return fetched(self.tensor(self.summed(weights), *at, torch.float64))

    def tensor(
        self,
        groups: Sequence[TileGroup],
        rows: torch.Tensor | None,
        columns: torch.Tensor | None,
        kind: torch.dtype,
    ) -> torch.Tensor:
        """The same as a tensor, at rows and columns or all."""
        i = slice(None) if rows is None else rows
        j = slice(None) if columns is None else columns
        shape = (self.n if rows is None else len(rows), self.n if columns is None else len(columns))
        out = torch.zeros(shape, dtype=kind, device=self._device)
        for number in sorted({group.view for group in groups}):
            view = self._views[number]
            left, right = view.take(rows), view.take(columns)
            base = bases(left, right, slice(None), slice(None), kind)
            for group in groups:
                if group.view == number:
                    out += group.finish(group.entries(base), i, j)
        return out

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """All vᵀK_k v, from the rows where v is not zero."""
        x = check_vector("v", v, self.n, finite=False)
        support = np.flatnonzero(x)
        return self.matvecs(x, support, kernels) @ x[support]

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k[rows] v for each of ``kernels``, shape (m', n')."""
        x = check_vector("v", v, self.n, finite=False)
        groups = [self._kernels[k] for k in as_places(kernels, self.m, "kernels")]
        places = None if rows is None else as_places(rows, self.n, "rows")
        V = sent(x[:, None], self._device, self.wide)
        return fetched(self.times(groups, V, places)[:, :, 0])

    def times(
        self,
        groups: Sequence[TileGroup],
        V: torch.Tensor,
        rows: Places | None = None,
        quick: bool = False,
    ) -> torch.Tensor:
        """Each group times the columns of V, a tensor."""
        return multiply(self._views, groups, V, self._places(rows), self.kind, quick=quick)

    def expect(self, vectors: Sequence[Array]) -> None:
        """One pass over few kernels serves all of these vectors, once the first is asked for."""
        self._passes = _Passes(vectors if self.m <= _FEW else [])

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w in float64."""
        return self.fine_products(np.array([kernel]), rows, support, w)[0]

    def fine_products(
        self, kernels: Places, rows: Places, support: Places, w: np.ndarray
    ) -> np.ndarray:
        """The same of several kernels, in one pass."""
        x = np.zeros(self.n)
        x[support] = w
        column = self._passes.column(x)
        if column is None:
            return self._fine_pass(x[:, None], rows, kernels)[:, :, 0]
        if self._passes.found is None:
            self._passes.found = self._fine_pass(np.column_stack(self._passes.vectors))
        return self._passes.found[kernels][:, rows, column]

    def finer(self) -> None:
        """None: float64 is kept from the beginning where it fits."""

    def _fine_pass(
        self, V: Array, rows: Places | None = None, kernels: Places | None = None
    ) -> Array:
        """All K_k V (m, n, c) for the columns of V (n, c), in float64 throughout."""
        if self._fine is not None:
            return self._fine._fine_pass(V, rows, kernels)
        groups = self._kernels if kernels is None else [self._kernels[k] for k in kernels]
        there, at = sent(V, self._device), self._places(rows)
        return fetched(multiply(self._views, groups, there, at, torch.float64))

    def combined(self, weights: ArrayLike) -> DenseCombined | TorchCombined:
        """K(d): an array of the host where n is small, else on the device."""
        w = check_vector("weights", weights, self.m, finite=False)
        K = TorchCombined(self, w)
        if self.n > self.most_dense:
            return K
        every = np.arange(self.n)
        found = self.entries(w, every, every)
        return DenseCombined(frozen(0.5 * (found + found.T)))

    def summed(self, weights: Array) -> list[TileGroup]:
        """Σ_k d_k K_k as few groups: kernels with the same norms in one."""
        groups: dict[tuple[int, int | None], TileGroup] = {}
        for k in np.flatnonzero(weights):
            one, d = self._kernels[k], float(weights[k])
            key = one.view, None if one.norms is None else id(one.norms)
            ((scale, formula),) = one.members
            means = None if one.means is None else d * one.means
            before = groups.get(key, TileGroup(one.view, (), one.norms))
            if before.means is not None:
                means = before.means if means is None else before.means + means
            members = (*before.members, (d * scale, formula))
            groups[key] = TileGroup(one.view, members, one.norms, means)
        return list(groups.values())

    # ---- parts ---------------------------------------------------------------------------------

    def restrict(self, rows: Index) -> TorchStack:
        """The same kernels on some of the points, in the order of ``rows``."""
        places = as_places(rows, self.n, "rows", empty=False)
        if np.array_equal(places, np.arange(self.n)):
            return self
        at = self._places(places)
        part = self._copied(self._diagonals[:, places])
        part._views = tuple(view.take(at) for view in self._views)
        known: dict[int, torch.Tensor | None] = {id(None): None}

        def taken(x: torch.Tensor | None) -> torch.Tensor | None:
            if id(x) not in known:
                assert x is not None
                known[id(x)] = x[at]
            return known[id(x)]

        part._kernels = tuple(
            one._replace(norms=taken(one.norms), means=taken(one.means)) for one in self._kernels
        )
        part._fine = None if self._fine is None else self._fine.restrict(places)
        return part

    def select(self, kernels: Index) -> TorchStack:
        """Some of the kernels on the same points."""
        chosen = as_places(kernels, self.m, "kernels", empty=False)
        part = self._copied(self._diagonals[chosen])
        part._kernels = tuple(self._kernels[k] for k in chosen)
        part._fine = None if self._fine is None else self._fine.select(chosen)
        return part

    def threaded(self, n_jobs: int | None) -> TorchStack:
        """The stack itself: threads of the host multiply nothing on a device."""
        return self

    def _copied(self, diagonals: Array) -> TorchStack:
        """A stack that differs in points or kernels, which are still to be set."""
        part = copy(self)
        part._diagonals = frozen(np.ascontiguousarray(diagonals))
        for known in ("_traces", "_form"):
            part.__dict__.pop(known, None)
        part.held, part._passes = HeldMatrix(), _Passes([])
        return part

    def _places(self, places: Places | None) -> torch.Tensor | None:
        return None if places is None else numbers(places, self._device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(m={self.m}, n={self.n}, {self._device}, {self.kind})"


def row_sums(x: torch.Tensor, entry: Entry, counts: Array) -> Array:
    """Σ_j counts_j φ(x_i, x_j) for each row x_i, in the numbers of the rows."""
    group = TileGroup(0, ((1.0, entry),))
    V = sent(counts[:, None], x.device, x.dtype)
    return fetched(multiply([RowsView(x)], [group], V, None, V.dtype)[0, :, 0])
