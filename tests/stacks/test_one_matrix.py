"""Kernels generated from rows, K(d) written over the last one: the contract, memory, precision."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from _helpers.described import described
from _helpers.stack_contract import PROTOCOL

from kernelweave._core.settings import SETTINGS
from kernelweave.stacks import one_matrix
from kernelweave.stacks.generator import Generator
from kernelweave.stacks.one_matrix import OneMatrixStack
from kernelweave.stacks.row_kernels import GAUSSIAN, LAPLACIAN, RowKernels

Made = tuple[Any, np.ndarray, np.ndarray]


def in_float64(K: np.ndarray) -> Made:
    views, K, sizes = described(*K.shape[:2])
    return OneMatrixStack(views, np.float64), K, sizes


def in_float32(K: np.ndarray) -> Made:
    """Entries are as exact as the diagonal is large, small ones too."""
    views, K, sizes = described(*K.shape[:2])
    roots = np.sqrt(np.einsum("kii->ki", sizes))
    return OneMatrixStack(views, np.float32, n_jobs=2), K, roots[:, :, None] * roots[:, None]


@pytest.mark.parametrize("check", PROTOCOL, ids=lambda check: check.__name__)
def test_contract(check: Any) -> None:
    check(in_float64, 1e-11)
    check(in_float32, 1e-5)


def stack_of(n: int, dtype: Any = None, m: int = 4, **options: Any) -> OneMatrixStack:
    return OneMatrixStack(described(m, n)[0], dtype, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 15, 64, 255, 700])
def test_the_array_is_the_blocks_to_the_last_bit(n: int, dtype: Any) -> None:
    stack, d, every = stack_of(n, dtype), np.array([0.3, 0.0, 0.6, 0.1]), np.arange(n)
    K = stack.combined(d)
    written = K.dense()
    assert written.dtype == dtype and not written.flags.writeable
    np.testing.assert_array_equal(written, written.T)
    eps = 8 * np.finfo(dtype).eps * np.abs(written).max()
    np.testing.assert_allclose(K.block(every, every), written, rtol=0, atol=eps)
    np.testing.assert_array_equal(stack.threaded(3).combined(d).dense(), written)
    v = np.random.default_rng(0).normal(size=(n, 2))
    found = K @ v
    again = stack.combined(d)  # has no array: generated
    np.testing.assert_allclose(again @ v, found, rtol=0, atol=1e2 * eps * np.abs(v).sum())


def test_memory_is_written_anew_unless_somebody_holds_it() -> None:
    stack = stack_of(90)
    first, second = stack.combined([1.0, 0.0, 0.0, 0.0]), stack.combined([0.0, 1.0, 0.0, 0.0])
    held = first.dense()
    kept = held.copy()
    part = held[3:5]
    assert first.dense() is not None and np.shares_memory(first.dense(), held)
    other = second.dense()
    assert not np.shares_memory(other, held)
    np.testing.assert_array_equal(held, kept)
    del held
    assert not np.shares_memory(first.dense(), other)  # a view is enough to hold it
    np.testing.assert_array_equal(part, kept[3:5])
    del part, other
    place = second.dense().__array_interface__["data"]
    assert first.dense().__array_interface__["data"] == place
    np.testing.assert_array_equal(first.dense(), kept)


def test_small_arrays_are_float64_and_large_ones_can_become_so(monkeypatch: Any) -> None:
    small = stack_of(40)
    assert small.dtype == np.float64 and small.finer() is None
    monkeypatch.setattr(SETTINGS, "wide_matrix", 1000)
    large = stack_of(40)
    assert large.dtype == np.float32 and large.precision == np.float64
    assert large.units.entry > 1e-7
    finer = large.finer()
    assert finer is not None and finer.dtype == np.float64 and finer.units.entry < 1e-12
    assert stack_of(40, np.float32).finer() is None  # as it was asked for
    monkeypatch.setattr(one_matrix, "available_bytes", lambda: 1000)
    assert large.finer() is None


def test_too_large_an_array_is_refused(monkeypatch: Any) -> None:
    stack = stack_of(40)
    monkeypatch.setattr(SETTINGS, "tiny", 0)
    monkeypatch.setattr("kernelweave.stacks.resources.available_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match="1 kernels on 40 rows"):
        stack.combined(np.ones(4)).dense()
    assert np.isfinite(stack.combined(np.ones(4)) @ np.ones(40)).all()  # without an array


@pytest.mark.parametrize("kind", [GAUSSIAN, LAPLACIAN])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e6])
def test_the_error_of_an_entry_is_as_small_as_is_said(kind: int, spread: float) -> None:
    """Clusters far from each other and from zero, narrow kernels: what float32 does worst."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 7)) + spread * rng.normal(size=(10, 7))[np.arange(300) % 10]
    rates = np.array([0.01, 0.3, 2.0])
    kinds, ones = np.full(3, kind), np.ones(3)
    view = RowKernels(X, kinds, rates, ones, ones, None, None, np.arange(3))
    rough, every = Generator([view], np.dtype(np.float32)), np.arange(300)
    for k in range(3):
        exact = view.block(k, every, every)
        found = rough.block(np.eye(3)[k], every, every, 1)
        assert np.abs(found - exact).max() <= rough.eps
    assert rough.eps < 1e-5 * spread


def test_copies_begin_without_an_array() -> None:
    stack = stack_of(50, n_jobs=2)
    stack.combined(np.ones(4)).dense()
    copy = pickle.loads(pickle.dumps(stack))
    assert (copy.m, copy.n, copy.n_jobs) == (4, 50, 2)
    np.testing.assert_array_equal(copy.traces(), stack.traces())
    assert len(pickle.dumps(stack)) < 2 * sum(
        array.nbytes for view in stack.views for array in vars(view).values()
    )
    assert "m=4, n=50" in repr(stack)
