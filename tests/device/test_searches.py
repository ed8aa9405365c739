"""Searches and paths on a device: rows are moved once, and folds pick theirs there."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is an extra: make torch")

from kernelweave import (  # noqa: E402
    Gaussian,
    KernelBank,
    Laplacian,
    MKLClassifierCV,
    MKLRegressorCV,
    TorchStorage,
    regularization_path,
)
from kernelweave._core.settings import SETTINGS  # noqa: E402
from kernelweave.banks import torch_decision, torch_rows  # noqa: E402
from kernelweave.stacks import torch_combined, torch_device, torch_stack  # noqa: E402
from kernelweave.stacks.torch_stack import TorchStack  # noqa: E402
from kernelweave.views.parts import PairStore  # noqa: E402

COLUMNS = 7
KERNELS = [Gaussian(0.5), Gaussian(2.0), Laplacian(1.0)]
USERS = torch_rows, torch_stack, torch_decision, torch_combined


def rows(n=240):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, COLUMNS))
    return X, X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)


@pytest.fixture
def moved(monkeypatch):
    """Shapes of the arrays that are moved either way; where large kernels have no array."""
    shapes = []
    sent, fetched = torch_device.sent, torch_device.fetched

    def counted_sent(x, *args):
        shapes.append(np.shape(x))
        return sent(x, *args)

    def counted_fetched(x):
        shapes.append(tuple(x.shape))
        return fetched(x)

    for module in USERS:
        if hasattr(module, "sent"):
            monkeypatch.setattr(module, "sent", counted_sent)
        if hasattr(module, "fetched"):
            monkeypatch.setattr(module, "fetched", counted_fetched)
    monkeypatch.setattr(TorchStack, "most_dense", 0)
    monkeypatch.setattr(SETTINGS, "free_rows", 10)
    return shapes


@pytest.mark.parametrize("scale", ["standard", None])
@pytest.mark.parametrize("kind", [MKLClassifierCV, MKLRegressorCV])
def test_rows_are_moved_once(kind, scale, moved, monkeypatch):
    monkeypatch.setattr(PairStore, "triangle", None)  # nothing of all pairs on the host
    X, score = rows()
    y = score if kind is MKLRegressorCV else np.sign(score)
    bank = KernelBank(KERNELS, scale=scale, device="cpu", storage=TorchStorage("cpu"))
    shared = {"Cs": [0.1, 1.0, 10.0], "weight_norms": [1], "cv": 3, "cv_tol": 1e-6}
    found = kind(bank, **shared).fit(X, y)
    with_columns = [shape for shape in moved if shape[1:] == (COLUMNS,)]
    assert with_columns.count((240, COLUMNS)) == len(with_columns) == 2  # the search, the last fit
    assert max(map(np.prod, moved)) <= 240 * COLUMNS
    del moved[:]
    monkeypatch.undo()
    plain = kind(KernelBank(KERNELS, scale=scale), **shared).fit(X, y)
    for key in plain.cv_results_:
        if key.startswith("split"):
            np.testing.assert_allclose(found.cv_results_[key], plain.cv_results_[key], atol=0.03)


def test_a_path_moves_no_rows(moved):
    X, score = rows()
    stack = KernelBank(KERNELS, storage=TorchStorage("cpu")).fit(X).stack
    del moved[:]
    found = regularization_path(stack, np.sign(score), [0.1, 1.0, 10.0], tol=1e-2)
    assert all(solution.gap <= 1e-2 for solution in found)
    assert max(map(np.prod, moved)) <= 240 * len(KERNELS)
