"""``device=`` of banks and estimators: where a fit takes place, and what is said if it cannot."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch", reason="torch is an extra: make torch")

from kernelweave import (  # noqa: E402
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
    Nystroem,
    Polynomial,
    TorchStorage,
    TransductiveMKLClassifier,
)
from kernelweave.banks import torch_storage  # noqa: E402

CPU = torch.device("cpu")
ALL = (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
    TransductiveMKLClassifier,
)


def rows(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1, 0)


@pytest.fixture
def elsewhere(monkeypatch):
    """A device that is not the processor's ordinary path, on any machine: "cuda" is the host."""
    from kernelweave.banks import torch_approximation, torch_decision
    from kernelweave.stacks import torch_device, torch_stack

    asked = []

    def device_of(name):
        asked.append(str(name))
        return CPU

    for module in (torch_device, torch_stack, torch_approximation, torch_decision):
        monkeypatch.setattr(module, "device_of", device_of)
    return asked


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_estimator_takes_a_device(kind, elsewhere):
    X, y = rows()
    there, here = kind(device="cuda"), kind()
    for model in (there, here):
        if hasattr(model, "Cs"):
            model.set_params(Cs=[1.0], weight_norms=["equal"], cv=2)
    here.fit(X, y)
    assert not elsewhere
    clone(there).fit(X, y)
    assert set(elsewhere) == {"cuda"}
    np.testing.assert_allclose(there.fit(X, y).predict(X), here.predict(X), atol=0.01)


def test_the_bank_and_the_estimator_may_name_the_same_device(elsewhere):
    X, y = rows()
    bank = KernelBank(device="cuda")
    assert MKLClassifier(bank, device="cuda").fit(X, y).score(X, y) > 0.6
    with pytest.raises(ValueError, match="'cpu' of the estimator and device='cuda' of its bank"):
        MKLClassifier(bank, device="cpu").fit(X, y)


def test_tensors_are_rows_and_targets():
    X, y = rows()
    model = MKLClassifier().fit(torch.tensor(X, requires_grad=True), torch.tensor(y))
    plain = MKLClassifier().fit(X, y)
    np.testing.assert_array_equal(model.weights_, plain.weights_)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_tensors_are_answered_by_tensors(kind):
    X, y = rows()
    model = kind(tol=1e-2)
    if hasattr(model, "Cs"):
        model.set_params(Cs=[1.0], weight_norms=["equal"], cv=2)
    if hasattr(model, "calibration"):
        model.set_params(calibration="sigmoid")
    model.fit(torch.tensor(X, requires_grad=True), torch.tensor(y))
    for method in ("predict", "decision_function", "score_samples", "predict_proba", "seen_weight"):
        if hasattr(model, method):
            found = getattr(model, method)(torch.tensor(X))
            expected = getattr(model, method)(X)
            assert isinstance(found, torch.Tensor) and isinstance(expected, np.ndarray)
            np.testing.assert_array_equal(found.numpy(), expected)
    if hasattr(model, "score"):
        assert model.score(torch.tensor(X), torch.tensor(y)) == model.score(X, y)


def test_answers_are_on_the_device_of_the_rows():
    """And rows are never asked for anything but their numbers."""
    X, y = rows()
    names = np.array(["no", "yes"])[y]
    model = MKLClassifier(views={"a": [0, 1], "b": [2, 3]}).fit(X, names)

    class There(torch.Tensor):
        device = torch.device("meta")

    there = torch.tensor(X).as_subclass(There)
    assert model.decision_function(there).device.type == "meta"
    found = model.predict(there)
    assert isinstance(found, np.ndarray) and isinstance(model.classes_, np.ndarray)
    np.testing.assert_array_equal(found, model.predict(X))
    assert model.score(there, names) == model.score(X, names)


def test_where_a_tensor_lives_is_where_the_fit_is(elsewhere):
    class There(torch.Tensor):
        device = torch.device("meta")  # any but the host

    X, y = rows()
    MKLClassifier().fit(torch.tensor(X).as_subclass(There), y)
    assert set(elsewhere) == {"meta"}
    del elsewhere[:]
    MKLClassifier(device="cpu").fit(torch.tensor(X).as_subclass(There), y)
    assert not elsewhere


def test_auto_is_the_processor_where_there_is_no_gpu_or_few_rows(elsewhere, monkeypatch):
    X, y = rows()
    monkeypatch.setattr(torch_storage, "is_there", lambda device: False)
    MKLClassifier(device="auto").fit(X, y)
    monkeypatch.setattr(torch_storage, "is_there", lambda device: True)
    MKLClassifier(device="auto").fit(X, y)
    assert not elsewhere
    monkeypatch.setattr(torch_storage.SETTINGS, "device_rows", len(X))
    MKLClassifier(device="auto").fit(X, y)
    assert set(elsewhere) == {"cuda"}


@pytest.mark.parametrize(
    ("bank", "match"),
    [
        (KernelBank(device="cuda", storage="dense"), "storage='dense', too"),
        (KernelBank(device="cuda", storage=TorchStorage("cpu")), "storage=TorchStorage"),
        (KernelBank(device="gpu"), "'cpu', 'cuda', 'cuda:1' or 'mps', found 'gpu'"),
    ],
)
def test_what_does_not_go_together_is_refused(bank, match):
    for run in (bank.fit, bank.plan):
        with pytest.raises(ValueError, match=match):
            run(rows()[0])


def test_words_alone_are_devices():
    with pytest.raises(TypeError, match="device must be None, 'auto' or the name of a device"):
        KernelBank(device=CPU).fit(rows()[0])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_never_the_processor():
    with pytest.raises(ValueError, match="sees 0 CUDA devices"):
        MKLClassifier(device="cuda").fit(*rows())


def test_an_approximation_goes_with_a_device(elsewhere):
    X, y = rows()
    bank = KernelBank([Gaussian(), Gaussian(2.0)], approximation=Nystroem(9), device="cuda")
    assert "2 as factors" in str(bank.plan(X))
    search = MKLClassifierCV(bank, Cs=[0.1, 1.0], weight_norms=[1], cv=2).fit(X, y)
    assert set(elsewhere) == {"cuda"}
    assert search.duality_gap_ <= 1e-3 < search.exact_gap_ < 1.0
    plain = MKLClassifierCV(bank.set_params(device=None), Cs=[0.1, 1.0], weight_norms=[1], cv=2)
    np.testing.assert_allclose(
        search.decision_function(X), plain.fit(X, y).decision_function(X), atol=0.02
    )


def test_the_plan_tells_the_device(elsewhere, monkeypatch):
    X, _ = rows(3000)
    bank = KernelBank([Gaussian(), Gaussian(2.0)], device="cuda")
    told = bank.plan(X)
    assert "in TorchStorage" in str(told) and told.fits
    assert told.nbytes == (X.nbytes, 0) and told.peak > 8 * 3000**2
    monkeypatch.setattr("kernelweave.stacks.torch_device.free_bytes", lambda device: 1e6)
    assert not bank.plan(X).fits
    with pytest.raises(MemoryError, match=r"what takes less: .*Nystroem"):
        bank.fit(X, verbose=1)


@pytest.mark.parametrize("normalize", ["trace", "sphere", None])
def test_decision_values_are_those_of_the_host(normalize):
    X, _ = rows()
    kernels = [Gaussian(1.0), Gaussian(2.0), Laplacian(1.0), Polynomial(2), Linear()]
    views = {"left": [0, 1], "right": [2, 3]}
    here = KernelBank(kernels, views=views, normalize=normalize).fit(X)
    there = KernelBank(kernels, views=views, normalize=normalize, device="cpu").fit(X)
    there = dataclasses.replace(there, device="cpu")
    rng = np.random.default_rng(1)
    new = rng.normal(size=(7, 4))
    new[2, :2] = np.nan
    for weights, coef in [
        (rng.uniform(size=10), rng.normal(size=60)),
        (rng.uniform(size=(3, 10)), rng.normal(size=(60, 3))),
    ]:
        expected = here.decision(new, weights, coef)
        np.testing.assert_allclose(there.decision(new, weights, coef), expected, rtol=1e-11)
        part = np.arange(0, 60, 2)
        np.testing.assert_allclose(
            there.decision(new, weights, coef[::2], part),
            here.decision(new, weights, coef[::2], part),
            rtol=1e-11,
        )
        some = there.compact(np.arange(10), np.arange(0, 60, 2), coef[::2])
        half = here.compact(np.arange(10), np.arange(0, 60, 2), coef[::2])
        np.testing.assert_allclose(
            some.decision(new, weights, coef[::2]),
            half.decision(new, weights, coef[::2]),
            rtol=1e-11,
        )


def test_predictions_leave_the_host_and_come_back_to_it(elsewhere, monkeypatch):
    X, y = rows()
    model = MKLClassifier([Gaussian(1.0)], device="cuda").fit(X, y)
    del elsewhere[:]
    there = model.decision_function(X)
    assert set(elsewhere) == {"cuda"}
    again = pickle.loads(pickle.dumps(model))
    monkeypatch.undo()  # a machine without that device
    np.testing.assert_allclose(again.decision_function(X), there, atol=1e-12)
