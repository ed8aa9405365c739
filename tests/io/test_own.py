"""Classes of the user's own in model files: only those that are registered, on both sides."""

import json
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import kernelweave
from kernelweave import DualQP, Gaussian, Loss, MKLClassifier, MKLRegressor
from kernelweave.io import _own, register
from kernelweave.kernels.base import Kernel
from kernelweave.learners import Newton

rng = np.random.default_rng(2)
X = rng.normal(size=(30, 2))
Y = X[:, 0] + 0.1 * rng.normal(size=30)


class Cosine(Kernel):
    """k(x, z) = cos(rate · (x − z)ᵀ1)."""

    def __init__(self, rate=1.0):
        self.rate = rate

    def fill(self, pair, out):
        """Every pair of rows."""
        a, b = (self.rate * rows.values.sum(axis=1) for rows in (pair.a, pair.b))
        np.cos(a[:, None] - b, out=out)

    def diagonal(self, rows):
        """All 1."""
        return np.ones(len(rows))


class Absolute(Loss):
    """C Σ |y_i − f_i − b|."""

    def lower(self, y, C, ridge=0.0):
        """−C ≤ v ≤ C."""
        cost = np.broadcast_to(C, y.shape)
        return DualQP(y, -cost, cost, y.size, ridge=ridge)


class Quiet(Newton):
    """Newton under another name."""


class Unknown(Cosine):
    """Never registered, as the two below."""


class UnknownLoss(Absolute):
    """The same cost."""


class UnknownLearner(Newton):
    """The same steps."""


def fitted():
    for cls in (Cosine, Absolute, Quiet):
        assert register(cls) is cls
    return MKLRegressor([Cosine(0.5), Gaussian(1.0)], loss=Absolute(), learner=Quiet()).fit(X, Y)


def test_registered_classes_are_saved_and_loaded(tmp_path):
    model = fitted()
    model.save(tmp_path / "m.kweave")
    same = kernelweave.load(tmp_path / "m.kweave")
    assert (same.predict(X) == model.predict(X)).all()
    assert [type(part) for part in (same.loss, same.learner)] == [Absolute, Quiet]
    assert same.kernels[0] == Cosine(0.5)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (MKLClassifier([Unknown()]), "Unknown"),
        (MKLRegressor(loss=UnknownLoss()), "UnknownLoss"),
        (MKLClassifier(learner=UnknownLearner()), "UnknownLearner"),
    ],
)
def test_saving_others_says_what_to_call(model, name, tmp_path):
    target = Y if isinstance(model, MKLRegressor) else Y > 0
    with pytest.raises(TypeError, match=rf"kernelweave\.io\.register\({name}\) before saving"):
        model.fit(X, target).save(tmp_path / "m.kweave")
    assert [*tmp_path.iterdir()] == []


def test_loading_others_says_what_to_call_and_imports_nothing(tmp_path):
    path = tmp_path / "m.kweave"
    fitted().save(path)
    code = f"import kernelweave, sys\ntry: kernelweave.load({str(path)!r})\n"
    code += f"except kernelweave.ModelFileError as e: print(e, {__name__!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    told = rf"{re.escape(__name__)}\.\w+'.* kernelweave\.io\.register\(\w+\) before .* False"
    assert re.search(told, done.stdout), (done.stdout, done.stderr)


def test_a_file_names_own_classes_by_their_import_paths(tmp_path):
    path = tmp_path / "m.kweave"
    fitted().save(path)
    with zipfile.ZipFile(path) as archive:
        classes = {one["class"] for one in json.loads(archive.read("manifest.json"))["objects"]}
    own = {name for name in classes if name.startswith("own:")}
    assert own == {f"own:{__name__}.{cls.__name__}" for cls in (Cosine, Absolute, Quiet)}
    for name in ("own:os.system", "own:kernelweave.io.register", "own:"):
        with pytest.raises(LookupError, match="not registered"):
            _own.own_class(name)


def test_what_is_registered_is_a_class_with_an_import_path():
    with pytest.raises(TypeError, match="pass the class of the object"):
        register(Cosine())

    class Local(Kernel):
        pass

    with pytest.raises(ValueError, match="top of a module"):
        register(Local)
