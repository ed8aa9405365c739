"""ONNX graphs give the model's own values, in onnxruntime."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import kernelweave
from kernelweave import Gaussian, KernelBank, Laplacian, Linear, MKLClassifier, Nystroem, Polynomial

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

rng = np.random.default_rng(4)
X = rng.normal(size=(40, 4)) * [1.0, 30.0, 0.1, 1.0] + [0.0, 500.0, 3.0, 0.0]
NEW = rng.normal(size=(50, 4)) * [1.0, 30.0, 0.1, 1.0] + [0.0, 500.0, 3.0, 0.0]
Y = np.where(X[:, 0] + (X[:, 1] - 500.0) / 30.0 > 0.0, "a", "b")
KERNELS = [Gaussian(1.0, relative=True), Polynomial(3), Linear()]


def bank(**options):
    return KernelBank(KERNELS, {"p": [0, 1], "q": [1, 2, 3]}, scale="standard", **options)


MODELS = {
    "default": lambda: MKLClassifier().fit(X, Y),
    "views": lambda: MKLClassifier(bank(), weight_norm=2).fit(X, Y),
    "sphere": lambda: MKLClassifier(bank(normalize="sphere"), weight_norm=2).fit(X, Y),
    "centered": lambda: MKLClassifier(bank(normalize="center+trace"), weight_norm=2).fit(X, Y),
    "centered sphere": lambda: MKLClassifier(bank(normalize="center+sphere")).fit(X, Y),
    "raw": lambda: MKLClassifier([Polynomial(2), Gaussian(20.0)]).fit(X, Y),
    "classes": lambda: MKLClassifier(bank()).fit(X, np.digitize(X[:, 0], [-0.5, 0.5])),
    "regressor": lambda: kernelweave.MKLRegressor(bank()).fit(X, X[:, 1]),
    "one class": lambda: kernelweave.MKLOneClass().fit(X),
}


WITH_PROBABILITIES = {
    "two": lambda method: MKLClassifier(bank(), calibration=method).fit(X, Y),
    "classes": lambda method: MKLClassifier(bank(), calibration=method).fit(X, LEVELS),
    "pairs": lambda method: MKLClassifier(bank(), calibration=method, multi_class="ovo").fit(
        X, LEVELS
    ),
}
LEVELS = np.digitize(X[:, 0], [-0.5, 0.5])


@pytest.mark.filterwarnings("ignore:calibration='isotonic'")
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("name", WITH_PROBABILITIES)
def test_same_probabilities(name, method, tmp_path):
    model = WITH_PROBABILITIES[name](method)
    kernelweave.to_onnx(model, tmp_path / "m.onnx", double=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    _, found = session.run(["values", "probabilities"], {"X": NEW})
    np.testing.assert_allclose(found, model.predict_proba(NEW), atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_same_values(name, tmp_path):
    model = MODELS[name]()
    values = getattr(model, "decision_function", model.predict)
    for dtype, share in ((np.float32, 1e-6), (np.float64, 1e-12)):
        rows = NEW.astype(dtype)
        path = tmp_path / "m.onnx"
        kernelweave.to_onnx(model, path, double=dtype is np.float64)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {"X": rows})
        expected = values(rows).reshape(len(rows), -1)
        assert found.dtype == np.float64
        assert np.abs(found - expected).max() <= share * np.abs(expected).max()


def test_rows_at_the_origin_of_a_sphere(tmp_path):
    model = MKLClassifier(KernelBank([Linear()], normalize="sphere", scale=None)).fit(
        X - X.mean(axis=0), Y
    )
    kernelweave.to_onnx(model, tmp_path / "m")
    session = onnxruntime.InferenceSession(tmp_path / "m", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"X": np.zeros((1, 4), dtype=np.float32)})
    assert found[0] == pytest.approx(model.intercept_)


def test_what_cannot_be_exported_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"'Laplacian.*cannot be exported: .*Gaussian.*, Linear"):
        kernelweave.to_onnx(MKLClassifier([Laplacian(1.0)]).fit(X, Y))
    few = KernelBank([Gaussian(1.0)], approximation=Nystroem(5))
    with pytest.raises(ValueError, match="cannot be exported"):
        kernelweave.to_onnx(MKLClassifier(few).fit(X, Y))
    with pytest.raises(TypeError, match="fitted estimator"):
        kernelweave.to_onnx(MKLClassifier())


def test_without_the_extra_it_is_told_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        ImportError, match=re.escape("to_onnx needs onnx, the extra 'onnx': pip install onnx")
    ):
        kernelweave.to_onnx(MKLClassifier().fit(X, Y))
