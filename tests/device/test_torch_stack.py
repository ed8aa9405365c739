"""Kernels computed on a device: the contract of stacks, on the processor."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers.described import described
from _helpers.stack_contract import PROTOCOL, SHAPES, grams

pytest.importorskip("torch", reason="torch is an extra: make torch")

import torch

from kernelweave._core.settings import SETTINGS
from kernelweave.stacks import torch_tiles
from kernelweave.stacks.torch_factors import TorchFactorStack
from kernelweave.stacks.torch_stack import TorchStack


def kept(K, **options):
    """Matrices, moved."""
    return TorchStack([], dict(enumerate(K)), "cpu", **options), K, abs(K)


def generated(K, **options):
    views, K, sizes = described(*K.shape[:2])
    return TorchStack(views, None, "cpu", **options), K, sizes


def products(K):
    """The same where the combined kernel is no array of the host, and is not kept either."""
    stack, K, sizes = generated(K, dtype=np.float64)
    stack.most_dense, stack.room = 0, 0.0
    return stack, K, sizes


def matrix(K):
    """The same where the combined kernel is kept on the device."""
    stack, K, sizes = generated(K)
    stack.most_dense = 0
    return stack, K, sizes


def factors(K):
    """Low-rank kernels as factors, the combined one an array."""
    parts = []
    for own in K:
        sizes, V = np.linalg.eigh(own)
        few = sizes > 1e-13 * sizes[-1]
        parts.append(torch.tensor(V[:, few] * np.sqrt(sizes[few])))
    stack = TorchFactorStack(parts)
    K = np.array([(F @ F.T).numpy() for F in parts])
    return stack, K, abs(K)


def joined_factors(K):
    """The same where the combined kernel is a factor."""
    stack, K, sizes = factors(K)
    stack.most_dense = 0
    return stack, K, sizes


MAKERS = [kept, generated, products, matrix, factors, joined_factors]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("check", PROTOCOL, ids=lambda check: check.__name__)
def test_contract(check, make, monkeypatch):
    monkeypatch.setitem(torch_tiles.TILE, "cpu", 700)
    monkeypatch.setattr(SETTINGS, "tile_columns", 50)
    check(make, 1e-11)


def test_shapes_hold_all_forms():
    assert max(m for m, _ in SHAPES) >= 5 and grams(1, 2).shape == (1, 2, 2)


def test_one_pass_serves_all_that_is_expected(monkeypatch):
    """Whatever was foretold, fine products are what blocks say."""
    stack, K, _ = generated(grams(6, 23))
    passes = []
    fine_pass = TorchStack._fine_pass

    def counted(self, V, rows=None, kernels=None):
        passes.append(V.shape[1])
        return fine_pass(self, V, rows, kernels)

    monkeypatch.setattr(TorchStack, "_fine_pass", counted)
    rng = np.random.default_rng(0)
    v, w, other = rng.normal(size=(3, 23))
    v[::3] = 0.0
    some = np.arange(5, 20)
    stack.expect([v, w])
    for x in (v, w, v, other):
        support = np.flatnonzero(x)
        for k in (0, 4):
            found = stack.fine_product(k, some, support, x[support].astype(np.longdouble))
            np.testing.assert_allclose(found, (K[k] @ x)[some], rtol=1e-10, atol=1e-10)
    assert passes == [2, 1, 1]
    stack.restrict(some).fine_product(0, np.arange(15), np.arange(15), v[some])
    assert passes == [2, 1, 1, 1]
