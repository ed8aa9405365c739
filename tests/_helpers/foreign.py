"""A stack of somebody else's: arrays that NumPy cannot have, and every byte that moves is counted.

``foreign(K, members, meter)`` makes one with the members that are named; ``ALL`` are all there are.
Indices must reach it as arrays of numbers or None, vectors as arrays of float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from kernelweave.stacks.protocol import NotDense

PASSES = ("diagonals", "traces", "quad_forms", "matvecs", "fine_product")
VIEWS = ("restrict", "select", "threaded")
ALL = (*PASSES, *VIEWS, "combined")


class Device:
    """An array that refuses to be one of NumPy."""

    def __init__(self, array: np.ndarray) -> None:
        self.held = array

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("it lives elsewhere")


class Meter:
    """Bytes moved in and out, by method."""

    def __init__(self) -> None:
        self.moved: dict[str, int] = {}
        self.calls: dict[str, int] = {}

    def count(self, name: str, *arrays: Any) -> None:
        found = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))
        self.moved[name] = self.moved.get(name, 0) + found
        self.calls[name] = self.calls.get(name, 0) + 1

    @property
    def mebibytes(self) -> float:
        return sum(self.moved.values()) / 2**20


def counted(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method; arguments are judged, and they and the result are counted."""
    name = method.__name__

    def asked(self: Any, *arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                assert argument.dtype in (np.intp, np.float64, np.longdouble), name
            else:
                assert argument is None or isinstance(argument, int | float), (name, argument)
        found = method(self, *arguments)
        self.meter.count(f"{self.of}{name}", *arguments, found)
        return found

    return asked


def _chosen(index: np.ndarray | None) -> Any:
    assert index is None or (index.dtype == np.intp and index.ndim == 1)
    return slice(None) if index is None else index


class _Methods:
    """What the members do; ``kind`` is the type of numbers that passes sum in."""

    of = ""
    K: Device
    members: tuple[str, ...]
    meter: Meter
    kind: type
    claims: dict[str, float]

    @counted
    def block(self, kernel: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.K.held[kernel][np.ix_(_chosen(rows), _chosen(columns))]

    @counted
    def diagonals(self) -> np.ndarray:
        return np.einsum("kii->ki", self.K.held).copy()

    @counted
    def traces(self) -> np.ndarray:
        return np.einsum("kii->k", self.K.held)

    @counted
    def quad_forms(self, v: np.ndarray, kernels: np.ndarray | None = None) -> np.ndarray:
        K, x = self.K.held[_chosen(kernels)].astype(self.kind), v.astype(self.kind)
        return ((K @ x) @ x).astype(float)

    @counted
    def matvecs(
        self, v: np.ndarray, rows: np.ndarray | None = None, kernels: np.ndarray | None = None
    ) -> np.ndarray:
        K = self.K.held[_chosen(kernels)][:, _chosen(rows)]
        return (K.astype(self.kind) @ v.astype(self.kind)).astype(float)

    @counted
    def fine_product(
        self, kernel: int, rows: np.ndarray, support: np.ndarray, w: np.ndarray
    ) -> np.ndarray:
        return self.K.held[kernel][np.ix_(rows, support)] @ w.astype(float)

    def combined(self, weights: np.ndarray) -> Any:
        self.meter.count("combined", weights)
        return Combined(self, np.tensordot(weights, self.K.held, 1))

    def restrict(self, rows: np.ndarray) -> Any:
        self.meter.count("restrict", _chosen(rows))
        K = self.K.held[:, rows][:, :, rows]
        return foreign(K, self.members, self.meter, self.kind, **self.claims)

    def select(self, kernels: np.ndarray) -> Any:
        self.meter.count("select", _chosen(kernels))
        return foreign(self.K.held[kernels], self.members, self.meter, self.kind, **self.claims)

    def threaded(self, n_jobs: int | None) -> Any:
        return self


class Combined:
    """K(d) where it was made: products, blocks, and systems that are solved there."""

    of = "combined."
    is_dense = False

    def __init__(self, stack: Any, K: np.ndarray) -> None:
        self.K, self.meter, self.kind = Device(K), stack.meter, stack.kind

    def dense(self) -> np.ndarray:
        raise NotDense("it lives elsewhere")

    @counted
    def diagonal(self) -> np.ndarray:
        return self.K.held.diagonal().copy()

    @counted
    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.K.held[np.ix_(_chosen(rows), _chosen(columns))]

    @counted
    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        return (self.K.held.astype(self.kind) @ v.astype(self.kind)).astype(float)

    def solver(self, rows: np.ndarray, ridge: np.ndarray) -> Any:
        A = self.K.held[np.ix_(_chosen(rows), rows)] + np.diag(ridge)
        self.meter.count("combined.solver", rows, ridge)
        try:
            return Solver(Device(cho_factor(A, lower=True)[0]), self.meter)
        except np.linalg.LinAlgError:
            return None


class Solver:
    """A Cholesky factor where the kernel lives."""

    of = "solver."

    def __init__(self, L: Device, meter: Meter) -> None:
        self.L, self.meter = L, meter

    @counted
    def solve(self, B: np.ndarray) -> np.ndarray:
        return np.asarray(cho_solve((self.L.held, True), B))

    @counted
    def half(self, B: np.ndarray) -> np.ndarray:
        return np.asarray(solve_triangular(self.L.held, B, lower=True))


def foreign(
    K: np.ndarray,
    members: Iterable[str] = ALL,
    meter: Meter | None = None,
    kind: type = np.float64,
    **claims: float,
) -> Any:
    """A stack of these kernels with ``block``, the members that are named and the claims."""
    names = tuple(members)
    known = {name: getattr(_Methods, name) for name in ("block", *names)}
    stack = type("Foreign", (), {"of": "", **known, **claims})()
    stack.m, stack.n = K.shape[:2]
    stack.K, stack.members, stack.meter = Device(K), names, meter or Meter()
    stack.kind, stack.claims = kind, claims
    return stack
