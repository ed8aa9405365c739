"""Fits on a device: the same optimum as on the processor, and nothing of size n × n on the host."""

from __future__ import annotations

import pickle
import weakref

import numpy as np
import pytest
from sklearn.base import clone

pytest.importorskip("torch", reason="torch is an extra: make torch")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelweave import (
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    Polynomial,
    Precomputed,
    TorchStorage,
)
from kernelweave._core.settings import SETTINGS
from kernelweave.machines.machine import Machine
from kernelweave.stacks import torch_combined, torch_factor, torch_stack, torch_system, torch_tiles
from kernelweave.stacks.torch_combined import TorchCombined
from kernelweave.stacks.torch_stack import TorchStack

KERNELS = [Gaussian(0.7), Gaussian(2.0), Linear(), Polynomial(2), Laplacian(3.0)]
LOSSES = ["hinge", "squared_hinge", "epsilon_insensitive", "squared", "quantile", "one_class"]
LOSSES += ["huber", "interval"]
NORMS = [1, 1.5, 2, 4]
RULES = [
    "trace",
    "sphere",
    "center+trace",
    "center+sphere",
    "center+unit_trace",
    None,
    "unit_trace",
]


def rows(seed, n=48):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    score = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n)
    return X, score


def fitted(number, storage, tol=1e-6):
    """One of many problems: a loss, a norm, a normalization, with views that rows lack or not."""
    X, score = rows(number)
    loss, norm = LOSSES[number % 8], NORMS[(number + number // 8) % 4]
    rule, lacking = RULES[number % 7], number % 3 == 0
    if rule is None and lacking:
        rule = "trace"
    if loss == "one_class":  # takes no centered kernels
        rule, lacking = RULES[number % 2], False
    if lacking:
        X[::5, :2] = np.nan
    views = {"a": [0, 1], "b": [2, 3, 4]} if lacking or number % 4 == 1 else "all"
    bank = KernelBank(KERNELS, views=views, normalize=rule, storage=storage)
    C = 10.0 ** (number % 3 - 1) * (len(X) if "unit" in str(rule) else 1)
    shared = {"weight_norm": norm, "tol": tol}
    if loss == "one_class":
        return MKLOneClass(bank, **shared).fit(X)
    if loss in ("hinge", "squared_hinge"):
        return MKLClassifier(bank, C=C, loss=loss, **shared).fit(X, np.sign(score))
    if loss == "interval":
        score = np.column_stack([score, np.where(score > 0.0, np.inf, score + 0.2)])
    return MKLRegressor(bank, C=C, loss=loss, **shared).fit(X, score)


@pytest.mark.filterwarnings("ignore:Rows lack a view")
@pytest.mark.parametrize("dense", [True, False], ids=["array", "products"])
@pytest.mark.parametrize("number", range(40))
def test_intervals_meet(number, dense, monkeypatch):
    if not dense:
        monkeypatch.setattr(TorchStack, "most_dense", 0)
        monkeypatch.setattr(TorchStack, "room", 0.4 * (number % 2))
    plain = fitted(number, "auto").solution_
    found = fitted(number, TorchStorage("cpu", "float64")).solution_
    assert found.gap <= 1e-6 and plain.gap <= 1e-6
    assert found.dual <= plain.primal and plain.dual <= found.primal


def test_every_kind_of_kernel():
    """Generated, computed on the host and moved, precomputed: all in one stack, in their order."""
    X, score = rows(1)
    y = np.sign(score)

    def own(A, B):
        return (1.0 + A @ B.T) ** 2

    K = np.exp(-np.abs(score[:, None] - score))
    X = np.column_stack([X, np.arange(len(X))])
    kernels = [
        ("g", Gaussian(2.0), slice(0, 5)),
        ("own", own, slice(0, 5)),
        ("l", Linear(), slice(2, 4)),
        ("p", Precomputed(K), [5]),
        ("cosine", "cosine", slice(0, 5)),
    ]
    banks = [KernelBank(kernels, storage=storage) for storage in ("dense", TorchStorage("cpu"))]
    plain, found = (bank.fit(X).stack for bank in banks)
    every = np.arange(len(X))
    for k in range(5):
        np.testing.assert_allclose(
            found.block(k, every, every), plain.block(k, every, every), atol=1e-12
        )
    models = [MKLClassifier(bank, tol=1e-6).fit(X, y) for bank in banks]
    np.testing.assert_allclose(*(model.objective_ for model in models), rtol=1e-5)


def test_what_is_no_kernel_is_refused():
    def own(A, B):
        return 2.0 * A[:, :1] @ B[:, :1].T - A[:, 1:2] @ B[:, 1:2].T

    bank = KernelBank([own], scale=None, storage=TorchStorage("cpu"))
    with pytest.raises(ValueError, match="positive semidefinite"):
        bank.fit(rows(0)[0])


def test_fits_are_cloned_pickled_and_predict_without_a_device():
    X, score = rows(2)
    y = np.where(score > 0.0, "a", "b")
    bank = KernelBank(KERNELS, storage=TorchStorage("cpu"))
    model = MKLClassifier(clone(bank), weight_norm=2).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert b"torch_stack" not in pickle.dumps(model)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("device", ["cuda:99", "cuda:7"])
def test_a_device_that_is_not_there(device):
    with pytest.raises(ValueError, match=r"PyTorch .* sees"):
        KernelBank(Linear(), storage=TorchStorage(device)).fit(rows(0)[0])


def test_no_such_device():
    with pytest.raises(ValueError, match="device must be"):
        KernelBank(Linear(), storage=TorchStorage("gpu")).fit(rows(0)[0])


class Matrices(TorchDispatchMode):
    """Counts the tensors of n² numbers or more that there are at once."""

    def __init__(self, n):
        super().__init__()
        self.size, self.seen, self.most = n * n, [], 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else [found]:
            if isinstance(one, torch.Tensor) and one.numel() >= self.size:
                self.seen = [ref for ref in self.seen if ref() is not None] + [weakref.ref(one)]
                places = [
                    kept.data_ptr() for kept in (ref() for ref in self.seen) if kept is not None
                ]
                self.most = max(self.most, len(set(places)))
        return found


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(
    "loss", ["hinge", "squared_hinge", "squared", "epsilon_insensitive", "huber"]
)
def test_no_block_of_a_large_kernel_reaches_the_host(loss, keeps, monkeypatch):
    """Not by a block, nor any other way; and the device has two matrices, at the most."""
    blocks, moved, solvers = [], [], []
    entries, fetched, solver = TorchStack.entries, torch_stack.fetched, TorchCombined.solver

    def counted(self, weights, rows, columns):
        blocks.append(8 * rows.size * columns.size)
        return entries(self, weights, rows, columns)

    def told(x):
        moved.append(x.numel())
        return fetched(x)

    def kept(self, rows, ridge):
        found = solver(self, rows, ridge)
        solvers.append(found is not None)
        return found

    monkeypatch.setattr(TorchStack, "entries", counted)
    monkeypatch.setattr(TorchCombined, "solver", kept)
    for module in (torch_stack, torch_combined, torch_factor, torch_system):
        monkeypatch.setattr(module, "fetched", told)
    monkeypatch.setattr(TorchStack, "most_dense", 0)
    monkeypatch.setattr(TorchStack, "room", 0.4 * keeps)
    monkeypatch.setattr(SETTINGS, "free_rows", 10)
    monkeypatch.setitem(torch_tiles.TILE, "cpu", 100 * 300)
    X, score = rows(3, 300)
    bank = KernelBank(KERNELS, storage=TorchStorage("cpu"))
    shared = {"loss": loss, "tol": 1e-3}
    with Matrices(300) as there:
        if "hinge" in loss:
            model = MKLClassifier(bank, **shared).fit(X, np.sign(score))
        else:
            model = MKLRegressor(bank, **shared).fit(X, score)
    assert model.duality_gap_ <= 1e-3 and model.n_iter_ <= 15
    assert sum(blocks) == 0 and max(moved) <= 3 * len(KERNELS) * 300
    assert there.most <= keeps + (loss == "squared")
    assert (loss == "squared") <= any(solvers)


def test_second_order_without_a_block(monkeypatch):
    """As few machines as with arrays: the Hessian by conjugate gradients is the Hessian."""
    X, score = rows(4, 400)
    plain = MKLClassifier(KERNELS, tol=1e-3).fit(X, np.sign(score))
    monkeypatch.setattr(TorchStack, "most_dense", 0)
    bank = KernelBank(KERNELS, storage=TorchStorage("cpu"))
    found = MKLClassifier(bank, tol=1e-3).fit(X, np.sign(score))
    assert found.n_svm_solves_ <= plain.n_svm_solves_ + 3


def test_a_ladder_of_samples(monkeypatch):
    """Each begins with the weights of the last; the cost of slacks stays, and so does the proof."""
    monkeypatch.setattr(TorchStack, "most_dense", 0)
    monkeypatch.setattr(SETTINGS, "sample_rows", 40)
    monkeypatch.setattr(SETTINGS, "sample_least", 40)
    sizes, costs = [], []
    solve = Machine.solve

    def counted(self, *args, **more):
        sizes.append(self.stack.n)
        costs.append(float(self.qps[0].upper.max()))
        return solve(self, *args, **more)

    monkeypatch.setattr(Machine, "solve", counted)
    X, score = rows(5, 840)
    bank = KernelBank(KERNELS, storage=TorchStorage("cpu"))
    model = MKLClassifier(bank, tol=1e-2).fit(X, np.sign(score))
    assert sorted(set(sizes)) == [40, 200, 840] and sizes == sorted(sizes)
    assert len(set(costs)) == 1
    assert sizes.count(840) <= 3 and model.duality_gap_ <= 1e-2
