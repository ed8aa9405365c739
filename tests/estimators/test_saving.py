"""Saved models: pickles tell their version, skops loads them without running code."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import kernelweave
from kernelweave import MKLClassifier, TransductiveMKLClassifier
from kernelweave.estimators import _base

rng = np.random.default_rng(3)
X = rng.normal(size=(30, 3))
Y = np.where(X[:, 0] > 0.0, "yes", "no")


@pytest.fixture(params=[MKLClassifier, TransductiveMKLClassifier], ids=lambda kind: kind.__name__)
def model(request):
    return request.param().fit(X, Y)


@pytest.fixture(autouse=True)
def strict():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_the_same_version_is_silent(model):
    for back in (pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
        assert np.array_equal(back.decision_function(X), model.decision_function(X))
        assert vars(back).keys() == vars(model).keys() - {"_training_bank"}
    assert vars(clone(model)).keys() == model.get_params().keys()


def test_another_version_is_told(model, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(_base, "__version__", "0.0.7")
        old = pickle.dumps(model)
    name = type(model).__name__
    told = rf"{name} was saved by kernelweave 0\.0\.7.*this is kernelweave 0\.1.*[Ff]it it again"
    with pytest.warns(UserWarning, match=told) as found:
        back = pickle.loads(old)
    assert found[0].filename == __file__
    assert np.array_equal(back.predict(X), model.predict(X))


def test_a_pickle_without_a_version_is_told(model):
    state = model.__getstate__()
    assert state.pop("_kernelweave_version") == kernelweave.__version__
    with pytest.warns(UserWarning, match="saved by an unknown version of kernelweave"):
        MKLClassifier.__new__(type(model)).__setstate__(state)


def test_skops_loads_what_it_is_told_to_trust(model):
    """The recipe in README.md."""
    io = pytest.importorskip("skops.io")
    saved = io.dumps(model)
    types = io.get_untrusted_types(data=saved)
    assert all(name.startswith("kernelweave.") for name in types)
    back = io.loads(saved, trusted=types)
    assert np.array_equal(back.decision_function(X), model.decision_function(X))
