"""Objects that keep part of the stack protocol: asked for what they have, else for their blocks.

Whatever NumPy understands as an index reaches them as an array of numbers, and what comes back is
checked: an array of the host, of the shape that was asked for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import as_places, check_vector, shown
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks._passes import frozen
from kernelweave.stacks.combined import BlockCombined
from kernelweave.stacks.defaults import BlockStack
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.factor import FactorsBeside
from kernelweave.stacks.lazy import LazyStack
from kernelweave.stacks.protocol import (
    OPTIONAL,
    CombinedKernel,
    Factor,
    KernelSolver,
    Stack,
    is_stack,
)
from kernelweave.stacks.rounding import Units, units_named_by

_CACHE = 200.0  # megabytes of rows that are kept of an object without passes of its own
_PASSES = ("quad_forms", "matvecs", "combined")


def as_stack(K: Any) -> Stack:
    """``K`` itself where it is a stack; the stack of an array, validated, where it is one."""
    if not is_stack(K):
        return KernelStack(K)
    return K if all(map(partial(hasattr, K), OPTIONAL)) else Completed(K)


class Completed(LazyStack):
    """An object with ``n``, ``m``, ``block`` and what else it defines of the protocol."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped, self.n, self.m = wrapped, int(wrapped.n), int(wrapped.m)
        self._keep_rows(_CACHE)

    @property
    def name(self) -> str:
        """What the object calls itself, else its class."""
        return str(getattr(self.wrapped, "name", type(self.wrapped).__name__))

    @property
    def precision(self) -> np.dtype:
        """That of the object, if it says so."""
        return np.dtype(getattr(self.wrapped, "precision", np.float64))

    @property
    def units(self) -> Units:  # type: ignore[override]
        """As the object says."""
        return units_named_by(self.wrapped)

    def _compute(self, kernel: int, rows: Places, columns: Places) -> Array:
        """The object's own block."""
        found = self.wrapped.block(kernel, rows, columns)
        return self._host("block", found, (rows.size, columns.size))

    def diagonals(self) -> Array:
        """All K_k[i, i], read-only."""
        return self._diagonals

    @cached_property
    def _diagonals(self) -> Array:
        own = self._own("diagonals")
        found = BlockStack.diagonals(self) if own is None else own()
        return frozen(np.array(self._host("diagonals", found, (self.m, self.n))))

    def traces(self) -> Array:
        """All tr K_k, read-only."""
        return self._traces

    @cached_property
    def _traces(self) -> Array:
        own = self._own("traces")
        found = self.diagonals().sum(axis=1) if own is None else own()
        return frozen(np.array(self._host("traces", found, (self.m,))))

    def quad_forms(self, v: ArrayLike, kernels: Index | None = None) -> Array:
        """vᵀK_k v for each of ``kernels``."""
        own = self._own("quad_forms")
        if own is None:
            return super().quad_forms(v, kernels)
        x = check_vector("v", v, self.n, finite=False)
        chosen = _places(kernels, self.m, "kernels")
        return self._host("quad_forms", own(x, chosen), (_count(chosen, self.m),))

    def matvecs(
        self, v: ArrayLike, rows: Index | None = None, kernels: Index | None = None
    ) -> Array:
        """K_k[rows] v for each of ``kernels``."""
        own = self._own("matvecs")
        if own is None:
            return super().matvecs(v, rows, kernels)
        x = check_vector("v", v, self.n, finite=False)
        places, chosen = _places(rows, self.n, "rows"), _places(kernels, self.m, "kernels")
        shape = _count(chosen, self.m), _count(places, self.n)
        return self._host("matvecs", own(x, places, chosen), shape)

    def fine_product(self, kernel: int, rows: Places, support: Places, w: np.ndarray) -> np.ndarray:
        """K_k[rows, support]·w, as the object does it, else in extended precision."""
        own = self._own("fine_product")
        if own is None:
            return super().fine_product(kernel, rows, support, w)
        return _hosted(self.name, "fine_product", own(kernel, rows, support, w), rows.shape, None)

    def fine_products(
        self, kernels: Places, rows: Places, support: Places, w: np.ndarray
    ) -> np.ndarray:
        """The same of several kernels, as the object does it, else one by one."""
        own = self._own("fine_products")
        if own is None:
            return super().fine_products(kernels, rows, support, w)
        shape, found = (kernels.size, rows.size), own(kernels, rows, support, w)
        return _hosted(self.name, "fine_products", found, shape, None)

    def combined(self, weights: ArrayLike) -> CombinedKernel:
        """K(d), as the object has it, else by blocks."""
        own = self._own("combined")
        w = check_vector("weights", weights, self.m, finite=False)
        return BlockCombined(self, w) if own is None else CompletedCombined(self, w, own(w))

    def restrict(self, rows: Index) -> Stack:
        """The same kernels on some of the points: the object's own, or a view of its passes."""
        own, places = self._own("restrict"), as_places(rows, self.n, "rows", empty=False)
        if own is not None:
            return as_stack(own(places))
        passes = any(hasattr(self.wrapped, name) for name in _PASSES)
        return BlockStack.restrict(self, places) if passes else super().restrict(places)

    def select(self, kernels: Index) -> Stack:
        """Some of the kernels, the object's own or a view."""
        own, chosen = self._own("select"), as_places(kernels, self.m, "kernels", empty=False)
        return super().select(chosen) if own is None else as_stack(own(chosen))

    def threaded(self, n_jobs: int | None) -> Stack:
        """The same, worked on by ``n_jobs`` threads if the object has threads."""
        own = self._own("threaded")
        return self if own is None else as_stack(own(n_jobs))

    def finer(self) -> Stack | None:
        """The object's own, if it has one."""
        own = self._own("finer")
        found = None if own is None else own()
        return None if found is None else as_stack(found)

    def _own(self, name: str) -> Any:
        """The object's own method of that name, or None."""
        return getattr(self.wrapped, name, None)

    def _host(self, what: str, found: Any, shape: tuple[int, ...]) -> Array:
        return _hosted(self.name, what, found, shape)

    def __repr__(self) -> str:
        return repr(self.wrapped)


class CompletedCombined(BlockCombined):
    """A combined kernel with a product, and what else it defines of the protocol."""

    def __init__(self, stack: Stack, weights: Array, wrapped: Any) -> None:
        super().__init__(stack, weights)
        self.wrapped = wrapped

    @property
    def is_dense(self) -> bool:  # type: ignore[override]
        """Whether it says that it has an array."""
        return bool(getattr(self.wrapped, "is_dense", False))

    def dense(self) -> Array:
        """Its array, read-only."""
        return self._dense if self.is_dense else super().dense()

    @cached_property
    def _dense(self) -> Array:
        found = self.wrapped.dense()
        kind = None if getattr(found, "dtype", None) == np.float32 else np.float64
        array = _hosted(self.stack.name, "dense", found, (self.n, self.n), kind).view()
        array.flags.writeable = False
        return array

    def diagonal(self) -> Array:
        """All K(d)_ii."""
        own = self._own("diagonal")
        return super().diagonal() if own is None else self._host("diagonal", own(), (self.n,))

    def block(self, rows: Index, columns: Index) -> Array:
        """Some rows and columns, a new array."""
        own = self._own("block")
        if own is None:
            return super().block(rows, columns)
        left, right = as_places(rows, self.n, "rows"), as_places(columns, self.n, "columns")
        return self._host("block", own(left, right), (left.size, right.size))

    def __matmul__(self, v: Array) -> Array:
        own = self._own("__matmul__")
        return super().__matmul__(v) if own is None else self._host("@", own(v), v.shape)

    def products_at(self, rows: Places | None, v: Array) -> Array:
        """Some rows of K(d)v."""
        own = self._own("products_at")
        if own is not None and rows is not None:
            return self._host("products_at", own(rows, v), (rows.size, *v.shape[1:]))
        if self._own("__matmul__") is None:
            return super().products_at(rows, v)
        found = self @ v
        return found if rows is None else found[rows]

    def quick_product(self, V: Array, accuracy: float) -> Array:
        """Its own, or the product."""
        own = self._own("quick_product")
        if own is None:
            return self @ V
        return self._host("quick_product", own(V, accuracy), V.shape)

    def factor(self) -> tuple[Factor, float] | None:
        """Its own, if it has one."""
        own = self._own("factor")
        found = None if own is None else own()
        return None if found is None else (FactorsBeside([found[0]], [1.0]), float(found[1]))

    @property
    def has_landmarks(self) -> bool:  # type: ignore[override]
        """Whether it has a ``landmark_factor``."""
        return self._own("landmark_factor") is not None

    def landmark_factor(self, rank: int, seed: int = 0) -> tuple[Factor, Array]:
        """Its own, or one made of blocks."""
        own = self._own("landmark_factor")
        if own is None:
            return super().landmark_factor(rank, seed)
        F, rest = own(rank, seed)
        return FactorsBeside([F], [1.0]), self._host("landmark_factor", rest, (self.n,))

    def solver(self, rows: Places, ridge: Array) -> KernelSolver | None:
        """Its own, if it has one."""
        own = self._own("solver")
        return None if own is None else own(rows, ridge)

    def _own(self, name: str) -> Any:
        return getattr(self.wrapped, name, None)

    def _host(self, what: str, found: Any, shape: tuple[int, ...]) -> Array:
        return _hosted(self.stack.name, f"combined(weights).{what}", found, shape)


def _places(index: Index | None, size: int, name: str) -> Places | None:
    return None if index is None else as_places(index, size, name)


def _count(places: Places | None, size: int) -> int:
    return size if places is None else places.size


def _hosted(
    name: str, what: str, found: Any, shape: tuple[int, ...], dtype: Any = np.float64
) -> Any:
    """``found`` as an array of the host, if it is one of this shape."""
    try:
        array = np.ascontiguousarray(np.asarray(found, dtype=dtype))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{what} of {name} must return an array that NumPy can hold, found {shown(found)} "
            f"({error})"
        ) from None
    if array.shape != shape:
        raise ValueError(f"{what} of {name} must have shape {shape}, found {array.shape}")
    return array
