"""scikit-learn's callbacks hear of a fit and of each of its steps, and may end it."""

from __future__ import annotations

import pickle
import runpy
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import kernelweave
from kernelweave import (
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    TransductiveMKLClassifier,
)
from kernelweave.estimators import _base

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks yet")

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


class Listener:
    """Writes down what it hears; ends the fit after ``patience`` steps."""

    def __init__(self, patience=np.inf):
        self.patience, self.heard, self.scored = patience, [], []

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.heard.append(f"end {context.task_name}")
        if fitted_estimator is not None:
            self.scored.append(np.mean(fitted_estimator.predict(X)))
        return self.heard.count("end step") >= self.patience


@pytest.mark.parametrize(
    "model",
    [
        MKLClassifier(),
        MKLRegressor(),
        MKLOneClass(),
        TransductiveMKLClassifier(),
        MKLClassifierCV(Cs=[0.1, 1.0], weight_norms=[1], cv=2, n_jobs=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_is_a_task_and_so_is_each_step(model):
    listener = Listener()
    fitted = clone(model).set_callbacks(listener).fit(X, Y)
    steps = 2 * len(fitted.banks_) if hasattr(fitted, "banks_") else fitted.n_iter_
    inside = ["begin step", "end step"] * steps
    assert listener.heard == ["setup", "begin fit", *inside, "end fit", "teardown"]
    assert len(listener.scored) == 1


def test_a_callback_ends_the_fit():
    listener = Listener(patience=1)
    with pytest.warns(ConvergenceWarning, match="a callback ended the fit"):
        model = MKLClassifier(tol=1e-9).set_callbacks(listener).fit(X, Y)
    assert (model.n_iter_, model.solution_.status) == (1, "callback")
    assert model.duality_gap_ > 1e-9
    assert listener.heard[-1] == "teardown"


def test_callbacks_are_torn_down_after_an_error():
    listener = Listener()
    model = MKLClassifierCV(Cs=[1.0], weight_norms=[1], cv=2, learner="no such").set_callbacks(
        listener
    )
    with pytest.raises(ValueError, match="learner"):
        model.fit(X, Y)
    assert listener.heard in ([], ["setup", "begin fit", "teardown"])


def test_models_with_callbacks_can_be_kept(tmp_path):
    pytest.importorskip("rich", reason="ProgressBar needs it")
    model = MKLClassifier().set_callbacks(callback.ProgressBar()).fit(X, Y)
    model.save(tmp_path / "m")
    for again in (kernelweave.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.decision_function(X), model.decision_function(X))


def test_a_search_hands_its_callbacks_down():
    pytest.importorskip("rich", reason="ProgressBar needs it")
    listener = callback.ProgressBar(max_propagation_depth=None)
    search = GridSearchCV(MKLClassifier(), {"C": [0.1, 1.0]}, cv=2, n_jobs=2)
    search.set_callbacks(listener).fit(X, Y)
    assert not hasattr(search.best_estimator_, "_callback_fit_ctx")
    assert search.best_score_ > 0.5


def test_before_scikit_learn_had_callbacks(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    found = runpy.run_path(_base.__file__)
    assert not hasattr(found["Estimator"](), "set_callbacks")
    with found["Estimator"]()._callbacks(X, Y) as step:
        assert step is None
    assert found["with_callbacks"](len) is len


def test_warnings_point_to_the_line_that_fits():
    with pytest.warns(UserWarning, match="constant") as caught:
        MKLClassifier(KernelBank(views={"a": [0, 1], "b": [3]})).fit(
            np.column_stack([X, np.ones(40)]), Y
        )
    assert caught[0].filename == __file__
