"""Probabilities: the curves are scikit-learn's on the same values, which no machine had seen."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_score,
)

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier, MKLClassifierCV, load
from kernelweave.estimators._probabilities import METHODS, Calibration, Sigmoid, Steps, _coupled

rng = np.random.default_rng(3)
N = 90
X = rng.normal(size=(N, 3))
TWO = np.where(X[:, 0] + rng.normal(size=N) > 0.0, "yes", "no")
THREE = np.digitize(X[:, 0] + 0.7 * rng.normal(size=N), [-0.5, 0.5])
NEW = rng.normal(size=(15, 3))
BANK = [Gaussian(1.0, relative=True), Linear()]
CV = {"banks": BANK, "Cs": [0.1, 1.0], "weight_norms": [1]}


class Known(ClassifierMixin, BaseEstimator):
    """A classifier whose decision values are X."""

    def __init__(self, classes=None):
        self.classes = classes
        self.classes_ = np.asarray(classes)

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X[:, 0] if X.shape[1] == 1 else X

    def predict(self, X):
        raise NotImplementedError

    def __sklearn_is_fitted__(self):
        return True


def of_scikit_learn(method, values, y, new, weights=None):
    known = FrozenEstimator(Known(np.unique(y)))
    made = CalibratedClassifierCV(known, method=method).fit(values, y, sample_weight=weights)
    return made.predict_proba(new)


def columns(values):
    return np.asarray(values).reshape(len(values), -1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore:Since FrozenEstimator")
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.filterwarnings("ignore:calibration='isotonic'")
def test_same_curves_as_scikit_learn(method, weighted, y):
    weights = rng.integers(0, 4, size=N) if weighted else None
    model = MKLClassifier(BANK, calibration=method).fit(X, y, sample_weight=weights)
    held, new = columns(model.decision_values_), columns(model.decision_function(NEW))
    part = ~np.isnan(held[:, 0])
    assert np.array_equal(part, np.ones(N) if weights is None else weights > 0)
    counts = None if weights is None else weights[part].astype(float)
    expected = of_scikit_learn(method, held[part], y[part], new, counts)
    np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=2e-5)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_sigmoid_is_the_best_there_is(scale):
    values, positive = scale * (rng.normal(size=60) + 5.0), rng.uniform(size=60) < 0.3
    weights = rng.uniform(0.5, 2.0, size=60)
    found = Sigmoid.fit(values, positive, weights)
    more, fewer = weights[positive].sum(), weights[~positive].sum()
    targets = np.where(positive, (more + 1) / (more + 2), 1 / (fewer + 2))
    miss = weights * (found(values) - targets)  # the gradient vanishes
    assert abs(miss.sum()) < 1e-6 * len(values)
    assert abs(miss @ values) < 1e-6 * scale * len(values)


def test_classes_that_values_tell_apart_have_a_finite_slope():
    found = Sigmoid.fit(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1]) > 0, np.ones(4))
    assert 0.0 < found.slope < 10.0 and found(np.array([2.0]))[0] < 0.9
    flat = Sigmoid.fit(np.ones(6), np.arange(6) < 2, np.ones(6))
    assert flat(np.ones(1))[0] == pytest.approx((2 * 0.75 + 4 / 6) / 6, abs=1e-6)


def test_pairs_are_coupled_as_the_reference_says():
    p = rng.dirichlet(np.ones(4), size=5)
    a, b = np.array([(i, j) for i in range(4) for j in range(i + 1, 4)]).T
    consistent = p[:, b] / (p[:, a] + p[:, b])
    found = _coupled(consistent, 4)
    np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), p, atol=1e-9)
    (shares,) = rng.uniform(0.05, 0.95, size=(1, 6))
    found = _coupled(shares[None], 4)[0]

    def unequal(q):
        return sum((s * q[i] - (1 - s) * q[j]) ** 2 for s, i, j in zip(shares, a, b, strict=True))

    least = minimize(
        unequal, np.full(4, 0.25), bounds=[(0, 1)] * 4, tol=1e-12,
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
    )  # fmt: skip
    np.testing.assert_allclose(found / found.sum(), least.x, atol=1e-4)
    sure = _coupled(np.array([[0.0, 0.0, 0.3], [1.0, 0.0, 1.0]]), 3)  # first wins; a cycle
    assert np.isfinite(sure).all() and sure[0, 0] > 0.999 * sure[0].sum()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:calibration='isotonic'")
def test_pairs(method):
    model = MKLClassifier(BANK, calibration=method, multi_class="ovo").fit(X, THREE)
    shares = model.predict_proba(NEW)
    assert shares.shape == (15, 3) and model.decision_values_.shape == (N, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert log_loss(THREE, model.predict_proba(X)) < 0.9


def test_values_are_those_of_fits_to_the_other_rows():
    model = MKLClassifier(BANK, calibration="sigmoid", tol=1e-2).fit(X, TWO)
    folds = [*StratifiedKFold(5).split(X, TWO)]
    for number, (train, test) in enumerate(folds):
        assert np.array_equal(np.flatnonzero(model.decision_folds_ == number), test)
        other = MKLClassifier(BANK, tol=1e-2).fit(X[train], TWO[train])
        values = other.decision_function(X[test])
        np.testing.assert_allclose(model.decision_values_[test], values, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"shared_weights": False}])
def test_the_machine_is_the_one_without(options):
    plain = MKLClassifier(BANK, **options).fit(X, THREE)
    model = MKLClassifier(BANK, calibration="sigmoid", **options).fit(X, THREE)
    assert np.array_equal(model.decision_function(NEW), plain.decision_function(NEW))
    assert np.array_equal(model.predict(NEW), plain.predict(NEW))
    assert model.predict_proba(NEW).shape == (15, 3)


def test_matrices_have_probabilities_too():
    K = [X @ X.T, np.exp(-np.square(X[:, None] - X).sum(axis=2))]
    model = MKLClassifier("precomputed", calibration="sigmoid").fit(K, TWO)
    new = [NEW @ X.T, np.exp(-np.square(NEW[:, None] - X).sum(axis=2))]
    assert model.predict_proba(new).shape == (15, 2)


def test_groups_are_held_out_together():
    groups = np.arange(N) // 3
    model = MKLClassifier(BANK, calibration="sigmoid").fit(X, TWO, groups=groups)
    assert all(len(set(model.decision_folds_[groups == g])) == 1 for g in groups)
    folds = [*StratifiedGroupKFold(5).split(X, TWO, groups)]
    assert np.array_equal(np.flatnonzero(model.decision_folds_ == 1), folds[1][1])
    with pytest.warns(UserWarning, match="class 'yes' has one group alone; predict works"):
        MKLClassifier(BANK, calibration="sigmoid").fit(X, TWO, groups=(TWO == "no") * groups)


def test_too_few_rows_are_told():
    y = np.where(np.arange(N) == 5, "rare", TWO)
    with pytest.warns(UserWarning, match="class 'rare' has one row alone"):
        model = MKLClassifier(BANK, calibration="sigmoid").fit(X, y)
    assert set(model.predict(NEW)) <= {"rare", "yes", "no"} and not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="too few held-out rows"):
        _ = model.predict_proba
    with pytest.warns(UserWarning, match="on 90 rows: below about 1000 rows its steps"):
        MKLClassifier(BANK, calibration="isotonic").fit(X, TWO)
    with pytest.raises(ValueError, match=r"calibration must be one of .None, 'sigmoid'"):
        MKLClassifier(BANK, calibration="platt").fit(X, TWO)


# ---- MKLClassifierCV ---------------------------------------------------------------------------


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_cross_validation_keeps_what_its_folds_say(y):
    model = MKLClassifierCV(**CV).fit(X, y)
    best = MKLClassifier(BANK, C=model.C_, tol=1e-2, calibration="sigmoid").fit(X, y)
    assert np.array_equal(model.decision_folds_, best.decision_folds_)
    np.testing.assert_allclose(model.decision_values_, best.decision_values_, atol=0.05)
    held = columns(model.decision_values_)
    new = columns(model.decision_function(NEW))
    expected = of_scikit_learn("sigmoid", held, y, new)
    np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=2e-5)
    again = model.best_estimator_.predict_proba(NEW)
    assert np.array_equal(model.predict_proba(NEW), again)


def test_values_held_out_twice_are_averaged_and_others_take_no_part():
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = MKLClassifierCV(**CV, cv=cv).fit(X, TWO)
    single = {"C": model.C_, "tol": 1e-2}
    row = 7
    values = [
        MKLClassifier(BANK, **single).fit(X[train], TWO[train]).decision_function(X[[row]])[0]
        for train, test in cv.split(X, TWO)
        if row in test
    ]
    assert len(values) == 2
    assert model.decision_values_[row] == pytest.approx(np.mean(values), abs=0.05)
    folds = np.where(np.arange(N) < 30, -1, np.arange(N) % 3)
    model = MKLClassifierCV(**CV, cv=PredefinedSplit(folds)).fit(X, TWO)
    assert np.array_equal(model.decision_folds_, folds)
    assert np.array_equal(np.isnan(model.decision_values_), folds == -1)
    held = model.decision_values_[30:, None]
    new = model.decision_function(NEW)[:, None]
    expected = of_scikit_learn("sigmoid", held, TWO[30:], new)
    np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=2e-5)


def test_scores_of_probabilities():
    model = MKLClassifierCV(**CV, scoring="neg_log_loss").fit(X, TWO)
    plain = MKLClassifierCV(**(CV | {"Cs": [model.C_]})).fit(X, TWO)
    losses = []
    for fold in range(5):  # by curves of the other folds
        mine = plain.decision_folds_ == fold
        others = plain.decision_values_[~mine, None], TWO[~mine]
        shares = of_scikit_learn("sigmoid", *others, plain.decision_values_[mine, None])
        losses.append(log_loss(TWO[mine], shares))
    assert model.best_score_ == pytest.approx(-np.mean(losses), abs=2e-3)
    chosen = MKLClassifierCV(**CV, scoring=lambda model, X, y: model.predict_proba(X)[:, 0].mean())
    assert 0.0 < chosen.fit(X, TWO).best_score_ < 1.0
    grid = GridSearchCV(
        MKLClassifier(BANK, calibration="sigmoid"), {"C": [0.1, 1.0]}, scoring="neg_log_loss"
    )
    assert grid.fit(X, TWO).best_score_ > -0.7
    assert cross_val_score(model, X, THREE, scoring="neg_brier_score", cv=2).min() > -1.0


def test_without_a_final_fit_there_are_values_but_no_probabilities():
    model = MKLClassifierCV(**CV, refit=False).fit(X, TWO)
    assert model.decision_values_.shape == (N,) and isinstance(model.calibration_, Calibration)
    with pytest.raises(AttributeError, match="refit=False"):
        model.predict_proba(NEW)
    folds = np.where(TWO == "yes", np.arange(N) % 2, -1)
    with pytest.warns(UserWarning, match="fewer than two rows are among the"):
        model = MKLClassifierCV(**CV, cv=PredefinedSplit(folds)).fit(X, TWO)
    assert not hasattr(model, "predict_proba") and model.predict(NEW).shape == (15,)


# ---- kept --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MKLClassifier, MKLClassifierCV])
def test_files_and_pickles_keep_them(kind, tmp_path):
    model = kind(BANK, calibration="sigmoid").fit(X, THREE)
    model.save(tmp_path / "m.kweave")
    for same in (load(tmp_path / "m.kweave"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(same.predict_proba(NEW), model.predict_proba(NEW))
        assert np.array_equal(same.decision_values_, model.decision_values_)
    assert not hasattr(clone(model), "calibration_")


def test_pickles_of_before_have_none():
    for model in (MKLClassifier(BANK).fit(X, TWO), MKLClassifierCV(**CV).fit(X, TWO)):
        state = dict(model.__getstate__())
        for name in ("calibration", "calibration_", "decision_values_", "decision_folds_"):
            state.pop(name, None)
        old = object.__new__(type(model))
        old.__setstate__(state)
        assert np.array_equal(old.predict(NEW), model.predict(NEW))
        assert clone(old).get_params().keys() == model.get_params().keys()
        assert not hasattr(old, "predict_proba")


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "magic"},
        {"curves": (Sigmoid(1.0),) * 2},
        {"curves": (Sigmoid(np.nan),)},
        {"curves": (Steps(np.array([0.0, 1.0]), np.array([0.5, 0.2])),)},
        {"method": "isotonic", "curves": (Steps(np.array([1.0, 0.0]), np.array([0.2, 0.5])),)},
        {"method": "isotonic", "curves": (Steps(np.array([0.0, 1.0]), np.array([0.5, 1.2])),)},
        {"method": "isotonic", "curves": (Steps(np.zeros(0), np.zeros(0)),)},
    ],
)
def test_what_is_no_calibration_is_refused(changed):
    good = {"method": "sigmoid", "n_classes": 2, "multi_class": "ovr", "curves": (Sigmoid(1.0),)}
    Calibration(**good).validate()
    with pytest.raises(ValueError, match="its calibration"):
        Calibration(**(good | changed)).validate()


def test_probabilities_without_the_parameter():
    model = MKLClassifier(KernelBank(BANK)).fit(X, TWO)
    with pytest.raises(AttributeError, match=r"no probabilities\. Use CalibratedClassifierCV"):
        _ = model.predict_proba
    made = CalibratedClassifierCV(model, ensemble=False).fit(X, TWO)
    assert made.predict_proba(NEW).shape == (15, 2)
