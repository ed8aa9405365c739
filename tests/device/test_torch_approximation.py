"""Kernels of few features on a device: the fits of the processor, and the same certificates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is an extra: make torch")

from kernelweave import (  # noqa: E402
    Cholesky,
    Gaussian,
    Hamming,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    Nystroem,
    Polynomial,
    RandomFeatures,
    TorchStorage,
)
from kernelweave._core.settings import SETTINGS  # noqa: E402
from kernelweave.stacks import torch_factor, torch_factors  # noqa: E402
from kernelweave.stacks.torch_factors import TorchFactorStack  # noqa: E402

KERNELS = [Gaussian(0.7), Gaussian(2.0), Linear(), Polynomial(2)]
FEW = Nystroem(9)


def rows(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n)


def both(X, y, model, tol=1e-6, **bank):
    """The same fit on the processor and by tensors there."""
    given = [{"storage": TorchStorage("cpu")}, {}]
    return [model(KernelBank(**bank, **one), tol=tol).fit(X, y) for one in given]


CASES = [
    (FEW, "trace", True),
    (FEW, "center+sphere", False),
    (Cholesky(6), "center+trace", True),
    (Cholesky(6), "sphere", False),
    (RandomFeatures(8), "sphere", True),
    (RandomFeatures(8), None, False),
]


@pytest.mark.filterwarnings("ignore:Rows lack a view")
@pytest.mark.parametrize(("few", "rule", "large"), CASES, ids=repr)
def test_the_fit_of_the_processor(few, rule, large, monkeypatch):
    X, score = rows()
    if large:
        monkeypatch.setattr(TorchFactorStack, "most_dense", 0)
        X[::7, :2] = np.nan
    bank = {"kernels": KERNELS, "views": {"a": [0, 1], "b": [2, 3, 4]}, "normalize": rule}
    there, here = both(X, np.sign(score), MKLClassifier, **bank, approximation=few)
    assert there.duality_gap_ <= 1e-6 and here.duality_gap_ <= 1e-6
    for one, other in ((there, here), (here, there)):
        assert one.solution_.dual <= other.solution_.primal * (1.0 + 1e-9)
    new, _ = rows(20, 1)
    np.testing.assert_allclose(there.decision_function(new), here.decision_function(new), atol=0.01)
    assert (there.exact_gap_ is None) <= (here.exact_gap_ is None)
    again = pickle.loads(pickle.dumps(there))
    np.testing.assert_array_equal(again.predict(new), there.predict(new))


def test_both_gaps_are_told_however_many_rows(monkeypatch):
    """The exact one is a bound that holds: of all kernels themselves, in one pass."""
    X, score = rows()
    y = np.sign(score)
    exact = MKLClassifier(KERNELS[:2], tol=1e-8).fit(X, y)
    monkeypatch.setattr(SETTINGS, "exact_pass", 0)
    for few in (FEW, RandomFeatures(200)):
        there, here = both(X, y, MKLClassifier, kernels=KERNELS[:2], approximation=few)
        assert there.duality_gap_ <= 1e-6 < there.exact_gap_
        assert here.exact_gap_ is None or there.exact_gap_ < here.exact_gap_
        if few is FEW:
            least = there.objective_ - exact.objective_
            assert there.exact_gap_ >= 0.999 * least / there.objective_


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared", "epsilon_insensitive"])
def test_factors_stay_on_the_device(loss, monkeypatch):
    X, score = rows(400, 2)
    moved, fetched = [], torch_factor.fetched

    def counted(x):
        moved.append(x.numel())
        return fetched(x)

    for module in (torch_factor, torch_factors):
        monkeypatch.setattr(module, "fetched", counted)
    monkeypatch.setattr(TorchFactorStack, "most_dense", 0)
    bank = {"kernels": KERNELS, "approximation": Nystroem(30)}
    model, y = (MKLClassifier, np.sign(score)) if loss.endswith("hinge") else (MKLRegressor, score)
    there, here = both(X, y, lambda bank, tol: model(bank, tol=tol, loss=loss), tol=1e-3, **bank)
    assert there.duality_gap_ <= 1e-3 and there.n_svm_solves_ <= here.n_svm_solves_ + 6
    assert max(moved) <= 4 * 400  # vectors: one for each kernel


def test_categories_and_float32():
    X, score = rows()
    X[:, 4] = np.round(X[:, 4])
    kernels = [("g", Gaussian(), slice(0, 4)), ("h", Hamming(), [4])]
    there, here = both(
        X, np.sign(score), MKLClassifier, kernels=kernels, approximation=FEW, dtype="float32"
    )
    assert there.duality_gap_ <= 1e-6
    np.testing.assert_allclose(there.objective_, here.objective_, rtol=1e-4)
