"""Kernels described by arrays are those of the bank, normalized and with missing views, too."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from kernelweave import Gaussian, KernelBank, Laplacian, Linear, Polynomial
from kernelweave.banks.row_kernels import row_kernels
from kernelweave.stacks.row_kernels import RowKernels

RNG = np.random.default_rng(0)
KERNELS = [Gaussian(1.5), Polynomial(3, 0.5), Linear(), Laplacian(2.0), Gaussian(0.7, True)]
RULES = ["trace", "unit_trace", "sphere", "center+trace", "center+sphere", None]


class Described:
    """A storage that keeps what it is given, and the stack that storage="lazy" would build."""

    def build(self, kernels: Any) -> Any:
        self.kernels, self.views, self.others = kernels, *row_kernels(kernels)
        return self

    @property
    def m(self) -> int:
        return len(self.kernels)

    @property
    def n(self) -> int:
        return int(self.kernels[0].n)

    def block(self, kernel: int, rows: Any, columns: Any) -> np.ndarray:
        return np.asarray(self.kernels[kernel].block(rows, columns))


def described(X: Any, *, views: Any = "all", normalize: str | None = "trace", **more: Any) -> Any:
    storage = Described()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KernelBank(KERNELS, views=views, normalize=normalize, storage=storage, **more).fit(X)
    return storage


def agree(storage: Any, views: list[RowKernels], rows: np.ndarray, rtol: float = 1e-12) -> None:
    every = np.arange(rows.size)
    for view in views:
        diagonals = view.diagonals()
        for k, number in enumerate(view.numbers):
            expected, found = storage.block(int(number), rows, rows), view.block(k, every, every)
            size = abs(expected).max()
            np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * size)
            np.testing.assert_allclose(
                diagonals[k], np.diagonal(expected), rtol=0, atol=rtol * size
            )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lacking", [False, True])
def test_arrays_make_the_kernels(rule: str | None, lacking: bool) -> None:
    X = RNG.normal(size=(60, 5)) + 3.0
    if lacking:
        X[::7, :2] = np.nan
    storage = described(X, views={"a": [0, 1], "b": [2, 3, 4]}, normalize=rule)
    assert len(storage.views) == 2 and not storage.others.size
    assert sorted(np.concatenate([view.numbers for view in storage.views])) == [*range(10)]
    agree(storage, storage.views, np.arange(60))
    some = np.array([59, 7, 7, 0, 21])
    agree(storage, [view.take(some) for view in storage.views], some)
    chosen = np.array([4, 0])
    parts = [view.select(chosen, view.numbers[chosen]) for view in storage.views]
    agree(storage, parts, np.arange(60))


def test_what_is_no_function_of_two_rows_is_told_apart() -> None:
    from scipy.sparse import csr_array

    def own(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return A @ B.T

    X = RNG.normal(size=(30, 3))
    storage = Described()
    KernelBank([Linear(), own, Gaussian(1.0)], storage=storage).fit(X)
    assert [*storage.others] == [1] and [*storage.views[0].numbers] == [0, 2]
    sparse = Described()
    KernelBank([Linear(), Gaussian(1.0)], storage=sparse, scale=None).fit(csr_array(X))
    assert [*sparse.others] == [0, 1] and sparse.views == []


def test_arrays_are_read_only() -> None:
    (view,) = described(RNG.normal(size=(20, 2)), normalize="center+sphere").views
    for array in vars(view).values():
        assert not array.flags.writeable and array.flags.c_contiguous
        assert array.dtype in (np.float64, np.int64)
