"""MKLClassifier: what it computes, what it keeps, what it says, and what it refuses."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from kernelweave import (
    Gaussian,
    Hamming,
    KernelBank,
    Linear,
    MKLClassifier,
    Polynomial,
    Precomputed,
    TransductiveMKLClassifier,
    duality_gap,
    learn,
)
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.normalize import RULES
from kernelweave.learners import NAMES

rng = np.random.default_rng(5)
X = rng.normal(size=(80, 4))
Y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=80) > 0.8, 1, 0)
NEW = rng.normal(size=(23, 4))
VIEWS = {"front": [0, 1], "back": [2, 3]}
KERNELS = [Gaussian(1.5), Polynomial(2), Linear()]


def fit(*args, X=X, y=Y, **params):
    return MKLClassifier(*args, **params).fit(X, y)


# What it computes


def gram(kernel, A, B):
    products = A @ B.T
    if isinstance(kernel, Gaussian):
        distances = ((A[:, None] - B[None]) ** 2).sum(axis=2)
        return np.exp(-distances / (2 * kernel.width**2))
    return (products + kernel.offset) ** kernel.degree if hasattr(kernel, "degree") else products


def normalized(rule, K, cross, new_diagonal):
    """A kernel of new rows against training rows, normalized by the book."""
    center, scaling = RULES[rule]
    if center:
        new_diagonal = new_diagonal - 2.0 * cross.mean(axis=1) + K.mean()
        cross = cross - cross.mean(axis=1, keepdims=True) - K.mean(axis=0) + K.mean()
        K = K - K.mean(axis=1, keepdims=True) - K.mean(axis=0) + K.mean()
    if scaling == "sphere":
        return cross / np.sqrt(np.outer(new_diagonal, K.diagonal()))
    return cross * {"trace": len(K) / np.trace(K), "unit_trace": 1 / np.trace(K), None: 1}[scaling]


@pytest.mark.parametrize("rule", RULES)
def test_decision_function_by_hand(rule):
    C = 1e4 if rule and rule.endswith("unit_trace") else 1.0
    model = fit(KernelBank(KERNELS, VIEWS, rule, scale=None), C=C, learner="uniform")
    coef = np.zeros(len(X))
    coef[model.support_] = model.dual_coef_[0]
    values = np.full(len(NEW), model.intercept_[0])
    pairs = [(kernel, columns) for columns in VIEWS.values() for kernel in KERNELS]
    for weight, (kernel, columns) in zip(model.weights_, pairs, strict=True):
        A, B = NEW[:, columns], X[:, columns]
        diagonal = gram(kernel, A, A).diagonal()
        values += weight * normalized(rule, gram(kernel, B, B), gram(kernel, A, B), diagonal) @ coef
    np.testing.assert_allclose(model.decision_function(NEW), values, rtol=0, atol=1e-10)
    assert np.array_equal(model.predict(NEW), (values > 0).astype(int))


@pytest.mark.parametrize("rule", ["trace", "center+unit_trace", "sphere"])
def test_learned_weights_give_the_same_decision(rule):
    model = fit(KernelBank(KERNELS, VIEWS, rule), C=10.0)
    fitted = KernelBank(KERNELS, VIEWS, rule).fit(X)
    coef = np.zeros(len(X))
    coef[model.support_] = model.dual_coef_[0]
    by_hand = np.tensordot(model.weights_, fitted.cross_stack(NEW) @ coef, axes=1)
    np.testing.assert_allclose(
        model.decision_function(NEW), by_hand + model.intercept_[0], rtol=0, atol=1e-10
    )


OTHER = (
    "radius",
    "radius_bound",
    "margin_and_radius",
    "sdp",
)  # these certify something else, or do not predict
MARGIN = [name for name in NAMES if name not in OTHER]


@pytest.mark.parametrize("learner", MARGIN)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_certificate_is_confirmed(learner, loss):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(learner=learner, loss=loss, C=2.0)
    solution = model.solution_
    assert model.weights_.sum() == pytest.approx(1.0, abs=1e-9)
    assert model.weights_.min() >= 0.0
    assert (model.duality_gap_, model.objective_) == (solution.gap, solution.primal)
    judged = duality_gap(
        KernelBank().fit(X).stack,
        2 * Y - 1,
        solution.weights,
        solution.coef,
        solution.bias,
        C=2.0,
        dual_alpha=solution.dual_alpha,
        loss=loss,
    )
    assert judged.primal == pytest.approx(solution.primal, rel=1e-9)
    if solution.criterion != "given":  # its bound is for given weights
        assert judged.gap == pytest.approx(solution.gap, abs=1e-9)
        assert model.duality_gap_ <= 1e-3
        assert solution.status == ("rule_met" if learner == "skm_published" else "optimal")


def test_svc_on_the_learned_kernel_is_the_same_machine():
    model = fit(C=3.0, tol=1e-6)
    K = model.combined_kernel(X)
    machine = SVC(kernel="precomputed", C=3.0, tol=1e-8).fit(K, Y)
    v = np.zeros(len(X))
    v[machine.support_] = machine.dual_coef_[0]
    assert np.abs(v).sum() - 0.5 * v @ K @ v == pytest.approx(model.objective_, rel=1e-5)
    np.testing.assert_allclose(
        machine.decision_function(model.combined_kernel(NEW)),
        model.decision_function(NEW),
        atol=2e-3,
    )


def test_combined_kernel():
    model = fit(KernelBank(views=VIEWS))
    K = model.combined_kernel(NEW)
    assert K.shape == (len(NEW), len(X))
    f = K @ model.solution_.coef + model.intercept_[0]
    np.testing.assert_allclose(f, model.decision_function(NEW), atol=1e-10)
    assert np.trace(model.combined_kernel(X)) == pytest.approx(len(X))
    with pytest.raises(ValueError, match="X has 3 features, but MKLClassifier is expecting 4"):
        model.combined_kernel(NEW[:, :3])
    back = pickle.loads(pickle.dumps(model))
    with pytest.raises(ValueError, match=r"on all training rows.*bank_\.cross"):
        back.combined_kernel(NEW)
    np.testing.assert_allclose(
        back.bank_.cross(NEW, back.weights_), K[:, model.support_], atol=1e-12
    )


def test_raw_weights_are_for_kernels_before_normalization():
    model = fit(KernelBank([Gaussian(1.0), Linear()], "all", "unit_trace", None), C=100.0)
    by_hand = model.raw_weights_[0] * gram(Gaussian(1.0), NEW, X)
    by_hand += model.raw_weights_[1] * gram(Linear(), NEW, X)
    np.testing.assert_allclose(by_hand, model.combined_kernel(NEW), atol=1e-12)
    assert np.isnan(fit(KernelBank(Linear(), normalize="sphere")).raw_weights_).all()


def test_units_do_not_matter_to_the_default_bank():
    bank = KernelBank(views=VIEWS)
    unit, shift = np.array([1e4, 1e4, 1e-5, 1e-5]), np.array([3.0, 3.0, -100.0, -100.0])
    one, other = fit(bank, tol=1e-6), fit(bank, X=X * unit + shift, tol=1e-6)
    np.testing.assert_allclose(
        one.decision_function(NEW), other.decision_function(NEW * unit + shift), atol=1e-3
    )
    assert np.array_equal(one.predict(NEW), other.predict(NEW * unit + shift))
    each = np.array([1e3, 1.0, 1e-3, 50.0])  # nor does the unit of a single column
    assert np.array_equal(one.predict(NEW), fit(bank, X=X * each, tol=1e-6).predict(NEW * each))


def test_threads_change_nothing():
    one, two = fit(KernelBank(views="all+each")), fit(KernelBank(views="all+each"), n_jobs=2)
    assert np.array_equal(one.weights_, two.weights_)
    assert np.array_equal(one.decision_function(NEW), two.decision_function(NEW))


# What it takes


@pytest.mark.parametrize(
    "kernels",
    [Gaussian(2.0), [Gaussian(2.0)], KernelBank(Gaussian(2.0)), ("a", Gaussian(2.0), [0])],
)
def test_ways_to_give_kernels(kernels):
    assert fit(kernels).weights_ == pytest.approx([1.0])


@pytest.mark.parametrize(
    "labels",
    [[-1, 1], [1, 0], [7, 3], ["no", "yes"], ["b", "a"], [False, True], [0.0, 1.0]],
    ids=str,
)
@pytest.mark.parametrize("kind", [np.array, list, pd.Series])
def test_labels_of_any_type(labels, kind):
    y = kind([labels[i] for i in Y])
    model = fit(y=y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.score(X, y) > 0.85
    assert set(model.predict(NEW).tolist()) <= set(labels)
    agrees = (model.decision_function(X) > 0) == (model.predict(X) == sorted(labels)[1])
    assert agrees.all()


def test_data_frames():
    frame = pd.DataFrame(X, columns=["age", "dose", "weight", "height"])
    model = fit([("response", Gaussian(1.0), ["age", "dose"]), Linear()], X=frame)
    assert model.kernel_names_.tolist() == ["Linear() on all", "response"]
    assert model.feature_names_in_.tolist() == [*frame.columns]
    assert model.n_features_in_ == 4
    new = pd.DataFrame(NEW, columns=frame.columns)
    values = model.decision_function(new)
    for wrong, told in (
        (new[["dose", "age", "weight", "height"]], "in the same order as they were in fit"),
        (new.rename(columns={"age": "years"}), "unseen at fit time:\n- years"),
        (new.drop(columns="age"), "yet now missing:\n- age"),
        (new.assign(sex=0.0), "unseen at fit time:\n- sex"),
    ):
        with pytest.raises(ValueError, match="feature names should match") as error:
            model.predict(wrong)
        assert told in str(error.value)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_allclose(model.decision_function(NEW), values)
    assert not hasattr(model.set_params(kernels=None).fit(X, Y), "feature_names_in_")


def test_columns_of_strings_reach_kernels_that_ask_for_them():
    def same(A, B):
        return (A[:, 0][:, None] == B[:, 0][None]).astype(float)

    words = pd.DataFrame({"word": np.where(Y, "yes", "no"), "x": X[:, 0]})
    words.loc[:8, "word"] = "maybe"
    model = fit([("word", same, "word"), ("number", Gaussian(), "x")], X=words)
    assert model.score(words, Y) > 0.9
    for kernels in (model.kernels, None, Hamming(), [Linear(), Hamming()]):
        assert MKLClassifier(kernels).__sklearn_tags__().input_tags.string
    for kernels in (Linear(), [("a", Linear(), 0)], Precomputed(np.eye(3)), 7, [()], "chi2"):
        assert not MKLClassifier(kernels).__sklearn_tags__().input_tags.string


# What it keeps


def test_attributes():
    model = fit(KernelBank(views=VIEWS))
    m, n_support = len(model.kernel_names_), len(model.support_)
    assert model.weights_.shape == model.raw_weights_.shape == (m,) == (10,)
    assert model.dual_coef_.shape == (1, n_support)
    assert model.intercept_.shape == (1,)
    assert model.bank_.n_rows == n_support < len(X)
    assert model.bank_.views == ("front",) * 5 + ("back",) * 5
    assert model.n_iter_ >= 1 and model.n_svm_solves_ >= 1  # some steps need no machine
    assert model.history_["weights"].shape == (model.n_iter_, m)
    assert model.history_["gap"].shape == (model.n_iter_,)
    signs = np.where(Y == 1, 1, -1)[model.support_]
    assert (model.dual_coef_[0] * signs > 0).all()
    assert model.dual_coef_.sum() == pytest.approx(0.0, abs=1e-9)


def test_dropped_kernels_have_weight_zero():
    data = np.column_stack([X[:, :1], np.ones(80), X[:, 1:]])
    bank = KernelBank([Linear(), Gaussian(1.0)], views="each")
    with pytest.warns(UserWarning, match="2 of 10 kernels are left out"):
        model = fit(bank, X=data)
    assert [*model.bank_.dropped] == ["Linear() on x1", "Gaussian(width=1) on x1"]
    assert not model.weights_[2:4].any() and not model.raw_weights_[2:4].any()
    assert not model.history_["weights"][:, 2:4].any()
    new = np.column_stack([NEW[:, :1], np.full(23, 5.0), NEW[:, 1:]])
    plain = fit(bank)
    np.testing.assert_allclose(model.decision_function(new), plain.decision_function(NEW))


def test_a_pickle_holds_support_rows_only():
    wide = rng.normal(size=(500, 80))
    y = np.arange(500) % 2
    wide[:, 0] += 8.0 * y
    model = fit(KernelBank([Linear()], {"signal": [0, 1], "noise": slice(2, 80)}), X=wide, y=y)
    assert len(model.support_) < 30
    back = pickle.loads(data := pickle.dumps(model))
    assert len(data) < 0.25 * wide.nbytes
    assert len(back.bank_.table) == len(model.support_)
    assert np.array_equal(back.decision_function(wide), model.decision_function(wide))


def test_prediction_computes_active_kernels_and_support_rows_only():
    seen = []

    def useful(A, B):
        seen.append(("useful", len(B)))
        return A @ B.T

    def useless(A, B):
        seen.append(("useless", len(B)))
        return 0.01 * (A == B.T).astype(float)

    data = np.column_stack([np.where(Y, 3.0, -3.0) + X[:, 0], np.arange(80.0)])
    model = fit(KernelBank([("good", useful, 0), ("bad", useless, 1)], normalize=None), X=data)
    assert model.weights_.tolist() == [1.0, 0.0]
    seen.clear()
    model.predict(data[:7])
    assert seen == [("useful", len(model.support_))]


def test_refitting_forgets():
    model = fit()
    assert model.fit(X[:, :2], Y).n_features_in_ == 2
    assert model.predict(NEW[:, :2]).shape == (23,)


# What it says


def test_says_when_it_has_not_converged():
    with pytest.warns(ConvergenceWarning, match="duality gap reached is .*raise max_iter"):
        model = fit(max_iter=1, tol=1e-9)
    assert model.n_iter_ == 1
    assert model.solution_.status == "max_iter"


def test_says_what_it_does_if_asked(capsys):
    fit(verbose=1)
    plan, built, first, *_ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\[kernelweave\] 5 kernels on 80 rows: .* GiB", plan)
    assert re.fullmatch(r"\[kernelweave\] 5 kernels on 80 rows, \d+\.\d s", built)
    assert first.startswith("[kernelweave] iteration 1:")
    fit()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "kernels", [None, "rbf", Gaussian(2.0), [Linear(), Gaussian(2.0)], ("a", Linear(), 0)]
)
def test_parameters_of_the_bank_that_kernels_stand_for(kernels):
    model = MKLClassifier(kernels).set_params(kernels__normalize="center+trace", C=3.0)
    assert model.kernels.normalize == "center+trace"
    assert model.kernels.kernels == kernels
    other = MKLClassifier().set_params(kernels__scale=None, kernels=kernels)
    assert (other.kernels.scale, other.kernels.kernels) == (None, kernels)
    assert MKLClassifier(Gaussian()).set_params(kernels__width=3.0).kernels == Gaussian(3.0)
    search = GridSearchCV(MKLClassifier(kernels), {"kernels__normalize": ["trace", None]}, cv=2)
    assert search.fit(X, Y).best_score_ > 0.5


# What it may learn besides


def test_learning_C_with_the_weights():
    X, y = load_breast_cancer(return_X_y=True)
    model = MKLClassifier(C="learn", loss="squared_hinge").fit(X[:200], y[:200])
    assert model.duality_gap_ <= 1e-3
    assert 0.0 < model.C_ < np.inf
    # weights of kernels of trace n and of the identity, whose trace is n too, sum to 1
    assert model.weights_.sum() + 1.0 / model.C_ == pytest.approx(1.0)
    assert model.score(X[200:], y[200:]) > 0.9
    # the ridge is no part of the kernel that predicts
    by_hand = model.combined_kernel(X[200:]) @ model.solution_.coef + model.intercept_
    np.testing.assert_allclose(model.decision_function(X[200:]), by_hand, atol=1e-10)


def test_learning_C_where_rows_are_separable_or_kernels_useless():
    y = np.arange(80) % 2
    with pytest.warns(
        UserWarning, match=r"C_ is infinite, a hard margin.*choosing C by cross-validation"
    ):
        model = fit(Linear(), X=10.0 * (2.0 * y[:, None] - 1), y=y, C="learn", loss="squared_hinge")
    assert np.isinf(model.C_) and model.weights_.sum() == pytest.approx(1.0)
    useless = np.repeat([[1.0], [2.0]], 40, axis=0)  # as many of either class at each value
    with pytest.warns(UserWarning, match="No kernel has a weight.*No kernel helps"):
        model = fit(Linear(), X=useless, y=y, C="learn", loss="squared_hinge")
    assert not model.weights_.any()


def test_learning_C_needs_the_squared_hinge():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match="C='learn' needs loss='squared_hinge'"):
        MKLClassifier(C="learn").fit(X[:50], y[:50])


@pytest.mark.parametrize("norm", [2, np.inf])
def test_weight_norms(norm):
    X, y = load_breast_cancer(return_X_y=True)
    model = MKLClassifier(weight_norm=norm).fit(X[:200], y[:200])
    assert np.linalg.norm(model.weights_, norm) == pytest.approx(1.0)
    assert (model.weights_ > 0.0).all()
    assert model.duality_gap_ <= 1e-3


@pytest.mark.parametrize("kind", [MKLClassifier, TransductiveMKLClassifier])
def test_a_fit_that_fails_leaves_the_one_before(kind):
    """Labels, columns and weights: nothing of a refused fit is kept."""
    model = kind([Linear()]).fit(X, Y)
    before = model.predict(X)
    broken = np.delete(X, 0, axis=1)
    broken[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken, Y)
    assert model.n_features_in_ == X.shape[1]
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("kind", [MKLClassifier, TransductiveMKLClassifier])
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_nor_does_one_that_ends_late(kind, error, monkeypatch):
    model = kind([Linear()]).fit(X, Y)
    before = model.predict(X)

    def fail(*args):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(FittedBank, "compact", fail)
        with pytest.raises(error):
            model.fit(X[:, :2], 1 - Y)
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("options", [{"trace": 50.0}, {"recenter": True}], ids=repr)
def test_trace_constraints_of_the_papers(options):
    """The same optimum as ``learn`` has on the matrices of the bank."""
    X, target = load_breast_cancer(return_X_y=True)
    X, y = X[::8, :3], np.where(target[::8] == 1, 1.0, -1.0)
    bank = KernelBank([Gaussian(1.0), Gaussian(3.0)], normalize="center+sphere")
    model = MKLClassifier(bank, C=5.0, tol=1e-5, **options).fit(X, y)
    stack = bank.fit(X).stack
    best = learn(stack, y, C=5.0, tol=1e-6, **options)
    assert model.objective_ == pytest.approx(best.objective, rel=2e-5)
    plain = MKLClassifier(bank, C=5.0, tol=1e-5).fit(X, y)
    assert abs(plain.objective_ / best.objective - 1.0) > 1e-3
    if "trace" in options:
        assert model.weights_ @ stack.traces() == pytest.approx(50.0)
    assert stack.diagonals() == pytest.approx(1.0)  # centered and normalized
