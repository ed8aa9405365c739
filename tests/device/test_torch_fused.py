"""Products fused in one kernel of the device: emulated on the processor, run where there is one."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is an extra: make torch")

import torch

from kernelweave.stacks.row_kernels import GAUSSIAN, POLYNOMIAL, RowKernels, roundings
from kernelweave.stacks.torch_device import SINGLE
from kernelweave.stacks.torch_stack import TorchStack
from kernelweave.stacks.torch_system import ROUGH

BLOCK = 64


def tf32(x):
    """Rounded to the 10 bits of a mantissa that matrix units read."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    even = bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (even & np.uint32(0xFFFFE000)).view(np.float32)


def dot(x, z, precision):
    """As ``tl.dot`` does it: products of short numbers, sums in float32."""
    x, z = np.asarray(x, np.float32), np.asarray(z, np.float32)
    big = tf32(x), tf32(z)
    total = big[0] @ big[1]
    if precision == "tf32x3":
        rest = tf32(x - big[0]), tf32(z - big[1])
        total += big[0] @ rest[1] + rest[0] @ big[1]
    return total


def emulated(view, weights, V, precision):
    """Σ_k w_k K_k V block by block, as ``stacks/torch_fused.py`` computes it."""
    out = np.zeros(V.shape, np.float32)
    for kind in (GAUSSIAN, POLYNOMIAL):
        own = np.flatnonzero(view.kinds == kind)
        X = (view.x - view.x.mean(axis=0) if kind == GAUSSIAN else view.x).astype(np.float32)
        sizes = np.einsum("ic,ic->i", X, X)
        for j in range(0, len(X), BLOCK):
            some = slice(j, j + BLOCK)
            base = dot(X, X[some].T, precision)
            if kind == GAUSSIAN:
                base = np.maximum(sizes[:, None] + sizes[some] - 2 * base, np.float32(0))
            total = np.zeros_like(base)
            for k in own:
                w = np.float32(weights[k] * view.scale[k])
                if kind == GAUSSIAN:
                    total += w * np.exp2(np.float32(-view.a[k] / np.log(2.0)) * base)
                else:
                    total += w * (base + np.float32(view.a[k])) ** int(view.b[k])
            out += dot(total, V[some].astype(np.float32), precision)
    return out


def some_rows(n=640, columns=54, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns)) * np.linspace(0.1, 1.0, columns) + 1.0
    kinds = [GAUSSIAN, GAUSSIAN, POLYNOMIAL, GAUSSIAN]
    scale = np.array([1.0, 2.0, 1e-3, 0.5])
    a, b = [0.02, 0.1, 1.0, 0.5], [1, 1, 2, 1]
    view = RowKernels(X, kinds, a, b, scale, None, None, np.arange(4))
    return view, rng.uniform(0.1, 1.0, 4), rng.normal(size=(n, 3))


@pytest.mark.parametrize("seed", range(3))
def test_short_products_are_as_exact_as_claimed(seed):
    view, d, V = some_rows(seed=seed)
    K = sum(d[k] * view.block(k, slice(None), slice(None)) for k in range(4))
    s = np.sqrt(np.diagonal(K))
    expected, sizes = K @ V, s[:, None] * (s @ abs(V))
    stack = TorchStack([view], None, "cpu", "float32")
    error = abs(emulated(view, d, V, "tf32x3") - expected)
    assert (error <= (len(V) * stack.units.sum + stack.units.entry) * sizes).all()
    assert stack.units.entry == 8 * SINGLE * roundings(view)
    assert error.max() <= 1e-5 * abs(expected).max()
    quick = emulated(view, d, V, "tf32")
    assert np.linalg.norm(quick - expected) <= ROUGH * np.linalg.norm(expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("columns", [3, 54, 70, 130])
def test_on_a_gpu(columns, monkeypatch):
    view, d, V = some_rows(3000, columns)
    monkeypatch.setattr(TorchStack, "most_dense", 0)
    monkeypatch.setattr(TorchStack, "room", 0.0)
    exact, single = (TorchStack([view], None, "cuda", dtype) for dtype in ("float64", "float32"))
    expected, found = (stack.combined(d) @ V for stack in (exact, single))
    s = np.sqrt(exact.combined(d).diagonal())
    sizes = s[:, None] * (s @ abs(V))
    assert (abs(found - expected) <= (3000 * single.units.sum + single.units.entry) * sizes).all()
    assert np.linalg.norm(found - expected) <= 1e-5 * np.linalg.norm(expected)
    quick = single.combined(d).quick_product(V, 0.1)
    assert np.linalg.norm(quick - expected) <= ROUGH * np.linalg.norm(expected)
    v, some = V[:, 0], np.arange(100, 700)
    unit = single.units.of(3000)
    for kernels in (None, np.array([2, 0])):
        wanted, found = (stack.matvecs(v, some, kernels) for stack in (exact, single))
        s = np.sqrt(exact.diagonals()[slice(None) if kernels is None else kernels])
        assert (abs(found - wanted) <= unit * s[:, some] * (s @ abs(v))[:, None]).all()
        assert (abs(found - wanted) <= 1e-3 * abs(wanted).max()).all()
