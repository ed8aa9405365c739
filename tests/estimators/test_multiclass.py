"""More than two classes: sums of machines, their shapes, and what they share."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.svm import SVC

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier, Polynomial, learn
from kernelweave.estimators._targets import class_scores, machine_labels

rng = np.random.default_rng(4)
CENTERS = np.array([[0.0, 2.0, 0.0], [2.0, -1.0, 0.0], [-2.0, -1.0, 0.0], [0.0, 0.0, 3.0]])
NUMBERS = rng.integers(0, 4, size=90)
X = CENTERS[NUMBERS] + rng.normal(size=(90, 3))
NEW = CENTERS[rng.integers(0, 4, size=25)] + rng.normal(size=(25, 3))
NAMES = np.array(["oak", "ash", "elm", "fir"])
Y = NAMES[NUMBERS]
BANK = KernelBank([Linear(), Polynomial(2), Gaussian(0.5), Gaussian(2.0)])
MACHINES = {"ovr": 4, "ovo": 6}
forms = pytest.mark.parametrize("form", MACHINES)


def fit(y=Y, **params):
    return MKLClassifier(BANK, **params).fit(X, y)


@forms
@pytest.mark.parametrize("shared", [True, False])
def test_shapes(form, shared):
    model = fit(multi_class=form, shared_weights=shared)
    k, m = MACHINES[form], 4
    assert model.classes_.tolist() == sorted(NAMES)
    assert model.weights_.shape == model.raw_weights_.shape == ((m,) if shared else (k, m))
    assert model.dual_coef_.shape == (k, model.support_.size)
    assert model.intercept_.shape == (k,)
    assert (np.diff(model.support_) > 0).all() and model.dual_coef_.any(axis=0).all()
    assert model.decision_function(NEW).shape == (25, 4)
    assert isinstance(model.duality_gap_, float) and model.duality_gap_ <= 1e-3
    best = model.decision_function(NEW).argmax(axis=1)
    assert np.array_equal(model.predict(NEW), model.classes_[best])
    assert model.score(X, Y) > 0.85
    assert model.combined_kernel(NEW).shape == ((25, 90) if shared else (k, 25, 90))
    back = pickle.loads(pickle.dumps(model))
    assert np.array_equal(back.decision_function(NEW), model.decision_function(NEW))


@forms
@pytest.mark.parametrize("shared", [True, False])
def test_values_by_hand(form, shared):
    model = fit(multi_class=form, shared_weights=shared)
    cross = BANK.fit(X).cross_stack(NEW)[:, :, model.support_]
    weights = np.broadcast_to(model.weights_, (MACHINES[form], 4))
    values = np.column_stack(
        [
            np.tensordot(d, cross @ coef, axes=1) + b
            for d, coef, b in zip(weights, model.dual_coef_, model.intercept_, strict=True)
        ]
    )
    np.testing.assert_allclose(
        model.decision_function(NEW), class_scores(values, 4, form), atol=1e-10
    )


@forms
def test_shared_weights_are_those_of_the_summed_objective(form):
    """At these weights machines alone add up to the objective; others are no better."""
    model = fit(multi_class=form, tol=1e-6)
    assert model.weights_.sum() == pytest.approx(1.0)
    K = np.array([BANK.fit(X).stack.combined(unit).dense() for unit in np.eye(4)])
    labels = machine_labels(np.searchsorted(model.classes_, Y), 4, form)

    def total(weights):
        values = 0.0
        for column in labels.T:
            rows = np.flatnonzero(column)
            part = np.tensordot(weights, K, axes=1)[np.ix_(rows, rows)]
            v = np.zeros(rows.size)
            machine = SVC(kernel="precomputed", C=1.0, tol=1e-9).fit(part, column[rows])
            v[machine.support_] = machine.dual_coef_[0]
            values += np.abs(v).sum() - 0.5 * v @ part @ v
        return values

    assert total(model.weights_) == pytest.approx(model.objective_, rel=1e-5)
    for other in (np.full(4, 0.25), *np.eye(4)):
        assert total(other) >= model.objective_ * (1.0 - 1e-6)


def test_machines_of_their_own_are_those_of_one_vs_rest():
    own = fit(shared_weights=False, tol=1e-8)
    rest = OneVsRestClassifier(MKLClassifier(BANK, tol=1e-8)).fit(X, Y)
    alone = sum(machine.objective_ for machine in rest.estimators_)
    assert own.objective_ == pytest.approx(alone, rel=1e-7)
    np.testing.assert_allclose(own.decision_function(NEW), rest.decision_function(NEW), atol=1e-3)
    assert own.objective_ <= fit(tol=1e-8).objective_ * (1.0 + 1e-7)
    assert len(own.solution_) == len(own.history_) == 4


def test_pairs_of_their_own_are_those_of_one_vs_one():
    own = fit(multi_class="ovo", shared_weights=False, learner="uniform", tol=1e-9)
    pairs = OneVsOneClassifier(SVC(kernel="precomputed", tol=1e-9))
    K = BANK.fit(X)
    pairs.fit(K.cross(X, np.full(4, 0.25)), Y)
    np.testing.assert_allclose(
        own.decision_function(NEW),
        pairs.decision_function(K.cross(NEW, np.full(4, 0.25))),
        atol=1e-3,
    )


def test_scores_of_pairs_follow_votes_then_margins():
    values = np.array([[-1.0, -1.0, -1.0], [-2.0, 1.0, -0.5], [-3.0, 2.0, -1.0]])
    scores = class_scores(values, 3, "ovo")  # pairs (0, 1), (0, 2), (1, 2)
    assert scores[0].argsort().tolist() == [2, 1, 0]
    assert np.abs(scores - np.round(scores)).max() < 1 / 3  # ties of votes are cycles
    assert scores[1].argmax() == 0 and scores[2].argmax() == 0
    up = class_scores(values - np.array([0.1, 0.1, 0.0]), 3, "ovo")
    assert (up[:, 0] >= scores[:, 0]).all()  # larger margins for class 0 never lower its score


def test_two_classes_have_the_same_shapes_under_every_form():
    y = Y == "oak"
    one = fit(y)
    for params in ({"multi_class": "ovo"}, {"shared_weights": False}):
        other = fit(y, **params)
        assert other.weights_.shape == (4,) and other.dual_coef_.shape[0] == 1
        assert other.decision_function(NEW).shape == (25,)
        assert np.array_equal(one.decision_function(NEW), other.decision_function(NEW))


@pytest.mark.parametrize(
    "names",
    [[3, 1, 2, 0], [-1.0, 0.0, 1.0, 7.0], ["b", "a", "d", "c"]],
    ids=str,
)
@pytest.mark.parametrize("kind", [np.array, list, pd.Series])
def test_labels_of_any_type(names, kind):
    y = [names[i] for i in NUMBERS]
    model = fit(kind(y))
    assert model.classes_.tolist() == sorted(names)
    assert accuracy_score(y, model.predict(X).tolist()) > 0.85


def test_kernels_are_computed_once():
    calls = []

    def counted(A, B):
        calls.append((len(A), len(B)))
        return A @ B.T

    for params in ({}, {"multi_class": "ovo"}, {"shared_weights": False}):
        calls.clear()
        model = MKLClassifier([counted, Gaussian(1.0)], learner="uniform", **params).fit(X, Y)
        assert calls == [(90, 90)]
        calls.clear()
        model.predict(NEW)
        assert len(calls) == 1


@pytest.mark.parametrize("learner", ["simple", "silp", "alternate", "uniform", "alignment"])
def test_other_learners(learner):
    model = fit(learner=learner)
    assert model.duality_gap_ <= 1e-3 and model.score(X, Y) > 0.8
    if learner not in ("uniform", "alignment"):
        assert model.objective_ == pytest.approx(fit(tol=1e-6).objective_, rel=2e-3)


def test_a_sum_of_machines_is_what_learn_solves():
    model = fit(tol=1e-6)
    labels = machine_labels(np.searchsorted(model.classes_, Y), 4, "ovr")
    solution = learn(BANK.fit(X).stack, labels, tol=1e-6)
    assert solution.primal == pytest.approx(model.objective_, rel=2e-6)
    assert model.solution_.coef.shape == solution.coef.shape == (4, 90)


def test_probabilities_the_way_of_scikit_learn():
    for y in (Y, Y == "oak"):
        model = CalibratedClassifierCV(MKLClassifier(BANK), ensemble=False, cv=3).fit(X, y)
        found = model.predict_proba(NEW)
        assert found.shape == (25, len(np.unique(y)))
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert len(model.calibrated_classifiers_) == 1
        assert isinstance(model.calibrated_classifiers_[0].estimator, MKLClassifier)
        guesses = model.classes_[found.argmax(axis=1)]
        truth = model.calibrated_classifiers_[0].estimator.predict(NEW)
        assert np.mean(guesses == truth) > 0.8
    assert not hasattr(MKLClassifier(), "predict_proba")
    proba = cross_val_predict(model, X, y, method="predict_proba", cv=3)
    assert np.mean((proba[:, 1] > 0.5) == y) > 0.85
