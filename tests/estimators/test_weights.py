"""Weights of rows and classes: 0 is absent, whole weights are repeats, classes scale C."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers.sklearn_faults import IS_OLD
from sklearn import config_context
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernelweave import KernelBank, MKLClassifier, MKLOneClass, MKLRegressor
from kernelweave.learners import NAMES, make_learner

rng = np.random.default_rng(6)
X = rng.normal(size=(40, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, 1.0]
NEW = rng.normal(size=(15, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, 1.0]
VALUE = X[:, 0] ** 2 + 0.1 * X[:, 1] + 0.3 * rng.normal(size=40)
TWO = np.where(VALUE > 1.0, "high", "low")
THREE = np.digitize(VALUE, [0.6, 1.4])
TIMES = np.r_[rng.integers(0, 4, size=36), 1, 1, 2, 3]
AGAIN = np.repeat(np.arange(40), TIMES)

CASES = [
    (MKLClassifier(tol=1e-10), TWO),
    (MKLClassifier(loss="squared_hinge", tol=1e-10), TWO),
    (MKLClassifier(tol=1e-10, class_weight="balanced"), THREE),
    (MKLClassifier(multi_class="ovo", loss="squared_hinge", tol=1e-10), THREE),
    (MKLClassifier(shared_weights=False, tol=1e-10), THREE),
    (MKLRegressor(tol=1e-10), VALUE),
    (MKLRegressor(loss="squared", tol=1e-10), np.c_[VALUE, X[:, 0]]),
    (MKLRegressor(loss="quantile", quantile=0.3, tol=1e-10), VALUE),
    (MKLOneClass(nu=0.3, tol=1e-10), None),
    (MKLOneClass(nu=0.3, learner="newton", tol=1e-10), None),
]


def values(model, rows=NEW):
    return getattr(model, "decision_function", model.predict)(rows)


def rows_of(y, rows):
    return None if y is None else y[rows]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("rule", ["trace", "center+trace"])
@pytest.mark.parametrize(("model", "y"), CASES, ids=lambda case: str(case)[:60])
def test_weights_are_repeats(model, y, rule):
    """Also in widths, means, traces and units of the target, which the bank learns from rows."""
    if isinstance(model, MKLOneClass) and rule != "trace":
        pytest.skip("centered kernels are refused")
    model.set_params(kernels=KernelBank(normalize=rule))
    weighted = model.fit(X, y, sample_weight=TIMES)
    one, weights = values(weighted), weighted.weights_
    objective, support = weighted.objective_, weighted.support_
    again = model.fit(X[AGAIN], rows_of(y, AGAIN))
    assert objective == pytest.approx(again.objective_, rel=1e-8)
    np.testing.assert_allclose(one, values(again), atol=2e-4 * np.abs(one).max())
    np.testing.assert_allclose(weights, again.weights_, atol=2e-3)
    assert (TIMES[support] > 0).all()


def test_rows_of_weight_zero_are_absent():
    kept = TIMES > 0
    spoilt, labels = X.copy(), TWO.copy()
    spoilt[~kept], labels[~kept] = 1e6, "never seen"
    for weights in (TIMES * 1.0, np.where(kept, 2.0, 0.0)):
        some = MKLClassifier().fit(X[kept], TWO[kept], sample_weight=weights[kept])
        all_ = MKLClassifier().fit(spoilt, labels, sample_weight=weights)
        assert np.array_equal(values(some), values(all_))
        assert all_.classes_.tolist() == ["high", "low"]
        assert np.array_equal(np.flatnonzero(kept)[some.support_], all_.support_)


def test_equal_weights_scale_the_cost():
    weighted = MKLClassifier(C=1.0, tol=1e-8).fit(X, TWO, sample_weight=np.full(40, 3.0))
    number = MKLClassifier(C=1.0, tol=1e-8).fit(X, TWO, sample_weight=3)
    costly = MKLClassifier(C=3.0, tol=1e-8).fit(X, TWO)
    assert weighted.objective_ == pytest.approx(costly.objective_, rel=1e-7)
    assert number.objective_ == weighted.objective_
    assert weighted.C_ == 1.0 and costly.C_ == 3.0


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_class_weights_are_costs(y):
    names = np.unique(y)
    given = dict(zip(names.tolist(), [2.0, 0.5, 3.0], strict=False))
    rows = np.array([given[label] for label in y.tolist()])
    one = MKLClassifier(class_weight=given, learner="uniform", tol=1e-9).fit(X, y)
    K = KernelBank().fit(X).cross(X, np.full(5, 0.2))
    total = 0.0
    for sign in (y == name for name in (names[1:] if names.size == 2 else names)):
        machine = SVC(kernel="precomputed", tol=1e-9).fit(K, sign, sample_weight=rows)
        v = np.zeros(40)
        v[machine.support_] = machine.dual_coef_[0]
        total += np.abs(v).sum() - 0.5 * v @ K @ v
    assert one.objective_ == pytest.approx(total, rel=1e-6)
    balanced = 40 / (names.size * np.array([np.sum(y == name) for name in names]))
    factors = dict(zip(names.tolist(), balanced, strict=True))
    assert MKLClassifier(class_weight="balanced").fit(X, y).objective_ == pytest.approx(
        MKLClassifier(class_weight=factors).fit(X, y).objective_, rel=1e-12
    )


def test_class_weights_leave_kernels_alone():
    plain = MKLClassifier().fit(X, TWO)
    heavy = MKLClassifier(class_weight={"high": 100.0}).fit(X, TWO)
    assert np.array_equal(plain.bank_.scales, heavy.bank_.scales)
    other = MKLClassifier().fit(X, TWO, sample_weight=np.where(TWO == "high", 100.0, 1.0))
    assert not np.allclose(plain.bank_.scales, other.bank_.scales)


def test_a_rare_class_is_found():
    Z = rng.normal(size=(400, 2))
    rare = Z[:, 0] + 0.8 * rng.normal(size=400) > 2.2
    scores = [
        balanced_accuracy_score(
            rare[200:], MKLClassifier(class_weight=w).fit(Z[:200], rare[:200]).predict(Z[200:])
        )
        for w in (None, "balanced")
    ]
    assert scores[1] > scores[0] + 0.1


@pytest.mark.parametrize("name", NAMES)
def test_every_learner_takes_weights_or_refuses(name):
    loss = (make_learner(name).losses or ["hinge"])[0]
    model = MKLClassifier(learner=name, loss=loss, tol=1e-5)
    if make_learner(name).signed:
        pytest.skip("for transduction alone")
    try:
        weighted = model.fit(X, TWO, sample_weight=TIMES).objective_
    except ValueError as error:
        assert "sample_weight" in str(error)
        return
    assert weighted == pytest.approx(model.fit(X[AGAIN], TWO[AGAIN]).objective_, rel=1e-3)


@pytest.mark.skipif(IS_OLD, reason="pipelines of SVC do not route weights to their score either")
def test_weights_are_routed():
    weights = 1.0 + np.arange(40)
    with config_context(enable_metadata_routing=True):
        model = MKLClassifier().set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        routed = cross_validate(
            make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model),
            X,
            TWO,
            cv=2,
            params={"sample_weight": weights},
            return_estimator=True,
        )["estimator"][0][-1]
        silent = MKLRegressor().set_fit_request(sample_weight=False)
        assert silent.get_metadata_routing().fit.requests == {"sample_weight": False}
    n = len(routed.solution_.coef)
    assert np.abs(routed.solution_.coef).max() > 1.5  # costs C·w above C
    assert n == 20
