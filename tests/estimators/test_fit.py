"""One fit: options are checked once, kernels are one bank, attributes change in the end."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import Gaussian, KernelBank, MKLClassifier, MKLClassifierCV, MKLOneClass
from kernelweave.estimators import _fit, _search, classifier

X = np.random.default_rng(0).normal(size=(40, 3))
Y = X[:, 0] > 0.0


@pytest.mark.parametrize("model", [MKLClassifier(), MKLOneClass()], ids=["default", "one class"])
def test_options_are_checked_once_and_kernels_are_one_bank(model, monkeypatch):
    checked, fitted = [], []
    check, fit = _fit.check_options, KernelBank.fit
    monkeypatch.setattr(_fit, "check_options", lambda *a, **k: checked.append(1) or check(*a, **k))
    monkeypatch.setattr(KernelBank, "fit", lambda *a, **k: fitted.append(a[0]) or fit(*a, **k))
    model.fit(X, Y)
    assert len(checked) == len(fitted) == 1


def test_folds_check_options_once_for_each_norm(monkeypatch):
    made, real = [], _fit.FitOptions.of.__func__
    of = classmethod(lambda cls, *a: made.append(1) or real(cls, *a))
    monkeypatch.setattr(_search.FitOptions, "of", of)
    MKLClassifierCV([Gaussian(1.0)], Cs=[0.1, 1.0], weight_norms=[1, 2, "equal"], cv=3).fit(X, Y)
    assert len(made) == 3 + 1  # and once for the fit of the candidate chosen


def test_kernels_without_parameters_leave_their_learning_alone(monkeypatch):
    for name in ("check_learnable", "learn_bank"):
        monkeypatch.setattr(_fit, name, None)
    assert MKLClassifier([Gaussian(1.0)]).fit(X, Y).learned_kernels_ == {}


def test_an_earlier_fit_survives_what_fails_at_the_very_end(monkeypatch):
    model = MKLClassifier(C="learn", loss="squared_hinge", random_state=np.random.RandomState(0))
    model.fit(X, Y)
    before = dict(vars(model))
    monkeypatch.setattr(classifier, "learned_C", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(2.0 * X[:20], Y[:20])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


def test_a_new_fit_leaves_nothing_of_the_last():
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abc"))
    model = MKLClassifier(learner="radius").fit(frame, Y)
    assert model.radius_ > 0.0 and model.feature_names_in_.tolist() == list("abc")
    model.set_params(learner="newton").fit(X, Y)
    assert not hasattr(model, "radius_") and not hasattr(model, "feature_names_in_")
    assert vars(model).keys() == vars(MKLClassifier().fit(X, Y)).keys()
