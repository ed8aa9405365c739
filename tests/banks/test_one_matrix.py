"""storage="combined" against storage="dense": the same kernels, optima and predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from kernelweave import (
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    Polynomial,
)
from kernelweave._core.settings import SETTINGS
from kernelweave.stacks.mixed import MixedStack
from kernelweave.stacks.one_matrix import OneMatrixStack

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 5)) + 1.0
GAPS = X.copy()
GAPS[::7, :2] = np.nan
SIGNAL = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + 0.3 * RNG.normal(size=150)
Y = np.where(SIGNAL > np.median(SIGNAL), "yes", "no")
THREE = np.digitize(SIGNAL, np.quantile(SIGNAL, [0.3, 0.7]))
KERNELS = [
    Gaussian(0.5, relative=True),
    Gaussian(2.0),
    Polynomial(3, 0.5),
    Linear(),
    Laplacian(2.0),
]
VIEWS = {"a": [0, 1], "b": [2, 3, 4]}
RULES = ["trace", "unit_trace", "sphere", "center+trace", "center+sphere", None]


def both(kernels: Any = None, **options: Any) -> tuple[KernelBank, KernelBank]:
    kernels = KERNELS if kernels is None else kernels
    return tuple(KernelBank(kernels, storage=word, **options) for word in ("combined", "dense"))  # type: ignore[return-value]


@pytest.fixture(params=["float64", "float32"])
def precision(request: Any, monkeypatch: Any) -> None:
    if request.param == "float32":
        monkeypatch.setattr(SETTINGS, "wide_matrix", 0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("data", [X, GAPS], ids=["whole", "with gaps"])
def test_kernels_and_normalizations_are_those_of_matrices(rule: str | None, data: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, exact = (bank.fit(data) for bank in both(views=VIEWS, normalize=rule))
    assert found.names == exact.names and isinstance(found.stack, OneMatrixStack)
    np.testing.assert_allclose(found.scales, exact.scales, rtol=1e-12)
    every = np.arange(len(X))
    for place, number in enumerate(found.kept):
        K = exact.stack.block(int(np.flatnonzero(exact.kept == number)[0]), every, every)
        size = np.abs(K).max()
        np.testing.assert_allclose(
            found.stack.block(place, every, every), K, rtol=0, atol=1e-12 * size
        )


def test_kernels_that_equal_an_earlier_one_are_left_out() -> None:
    twice = np.column_stack([X, X[:, 2]])
    kernels = [Linear(), Polynomial(1, 0.0), Gaussian(1.0), Gaussian(1.0)]
    options = {"views": {"a": [0, 1], "c": [2], "d": [5]}, "scale": None}
    with pytest.warns(UserWarning, match="equals"):
        found, exact = (bank.fit(twice) for bank in both(kernels, **options))
    assert found.dropped == exact.dropped and len(found.dropped) == 8
    assert found.stack.m == exact.stack.m == 4


@pytest.mark.usefixtures("precision")
@pytest.mark.parametrize("rule", ["trace", "center+sphere"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared", "epsilon_insensitive"])
@pytest.mark.parametrize("data", [X, GAPS], ids=["whole", "with gaps"])
def test_optima_and_predictions_are_those_of_matrices(rule: str, loss: str, data: Any) -> None:
    labels = loss in ("hinge", "squared_hinge")
    kind, y = (MKLClassifier, Y) if labels else (MKLRegressor, SIGNAL)
    models = [
        kind(bank, C=3.0, loss=loss, tol=1e-5).fit(data, y)
        for bank in both(views=VIEWS, normalize=rule)
    ]
    agree(models, 2e-2)
    predict = "decision_function" if labels else "predict"
    first, second = (getattr(model, predict)(data[:40]) for model in models)
    np.testing.assert_allclose(first, second, rtol=0, atol=2e-2)


@pytest.mark.usefixtures("precision")
def test_several_classes_share_one_matrix() -> None:
    models = [MKLClassifier(bank, tol=1e-4).fit(X, THREE) for bank in both(views=VIEWS)]
    agree(models, 2e-2)
    first, second = (model.predict(X) for model in models)
    assert np.mean(first == second) > 0.97


@pytest.mark.usefixtures("precision")
def test_one_class() -> None:
    kernels = [Gaussian(1.0), Gaussian(3.0), Laplacian(2.0)]
    agree([MKLOneClass(bank, tol=1e-4).fit(X) for bank in both(kernels)], 1e-2)


@pytest.mark.parametrize("learner", ["simple", "silp", "skm", "alternate", "uniform", "alignf"])
def test_every_way_to_learn_weights(learner: str) -> None:
    tol = 1e-3 if learner == "silp" else 1e-4
    agree([MKLClassifier(bank, learner=learner, tol=tol).fit(X, Y) for bank in both()], 1e-2)


def agree(models: Any, share: float) -> None:
    """Both are proved, and their intervals overlap."""
    found, exact = (model.solution_ for model in models)
    for one in (found, exact):
        assert one.status in ("optimal", "rule_met")
    size = abs(exact.primal)
    assert found.dual <= exact.primal + 1e-12 * size
    assert exact.dual <= found.primal + 1e-12 * size
    assert abs(found.primal - exact.primal) <= share * size


def test_row_weights_count_in_means() -> None:
    weights = RNG.integers(1, 4, len(X)).astype(float)
    found, exact = (bank.fit(X, sample_weight=weights) for bank in both(normalize="center+trace"))
    np.testing.assert_allclose(found.scales, exact.scales, rtol=1e-12)


def own(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return A @ B.T


def test_kernels_that_cannot_be_generated_are_matrices_beside() -> None:
    kernels = [Gaussian(1.0), own, Laplacian(2.0)]
    found, exact = both(kernels)
    stack = found.fit(X).stack
    assert isinstance(stack, MixedStack) and stack.m == 3
    every = np.arange(len(X))
    for k in range(3):
        np.testing.assert_allclose(
            stack.block(k, every, every), exact.fit(X).stack.block(k, every, every), atol=1e-12
        )
    agree([MKLClassifier(bank, tol=1e-5).fit(X, Y) for bank in (found, exact)], 1e-3)
    told = found.plan(X)
    assert told.storage == ("generated", "matrix", "generated")
    assert "1 as matrices, 2 generated from rows" in str(told)


def test_auto_generates_where_matrices_are_large(monkeypatch: Any) -> None:
    bank = KernelBank(KERNELS)
    assert "generated" not in bank.plan(X).storage
    monkeypatch.setattr(SETTINGS, "one_matrix", 5 * 8 * 150**2)
    assert set(bank.plan(X).storage) == {"generated"}
    assert isinstance(bank.fit(X).stack, OneMatrixStack)
    low = KernelBank([Linear(), Gaussian(20.0)], views="each")
    assert set(low.plan(np.tile(X, (3, 1))).storage) == {"factor"}  # all of low rank
    told = KernelBank(KERNELS, dtype="float32").plan(X)
    assert "generated" not in told.storage  # half as large


def test_what_is_forecast_is_one_matrix(monkeypatch: Any) -> None:
    bank = KernelBank(KERNELS, storage="combined")
    told, dense = bank.plan(X), KernelBank(KERNELS, storage="dense").plan(X)
    assert told.nbytes == (0,) * 5
    assert told.peak <= dense.peak - 5 * 8 * 150**2
    monkeypatch.setattr("kernelweave.banks.forecast.available_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match="5 generated from rows"):
        bank.fit(X, verbose=1)


def test_float32_is_kept_where_it_is_asked_for() -> None:
    stack = KernelBank(KERNELS, storage="combined", dtype="float32").fit(X).stack
    assert stack.dtype == np.float32 and stack.finer() is None


@pytest.mark.parametrize(("columns", "kind"), [(57, "generated"), (600, "matrix")])
def test_auto_generates_kernels_of_few_columns_only(columns: int, kind: str) -> None:
    """A pass computes entries from all columns; a matrix is computed and touched once."""
    wide = np.random.default_rng(1).normal(size=(2700, columns))
    found = KernelBank(KERNELS, storage="auto").plan(wide)
    assert set(found.storage) == {kind}
