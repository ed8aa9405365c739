"""Rows without labels: in ``learn``, and in TransductiveMKLClassifier."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from _helpers.references import gaussian, gram, labels, points, sdp_optimum
from _helpers.sklearn_faults import FAULTS
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from kernelweave import (
    Gaussian,
    KernelBank,
    Linear,
    MKLClassifier,
    Polynomial,
    Precomputed,
    TransductiveMKLClassifier,
    duality_gap,
    learn,
)
from kernelweave.learners import NAMES, make_learner
from kernelweave.views.table import Table

CRITERIA = {
    "hard": {"C": np.inf},
    "hinge": {"C": 1.0},
    "squared_hinge": {"C": 1.0, "loss": "squared_hinge"},
    "learn": {"C": "learn", "loss": "squared_hinge"},
}


def partly(seed: int, n: int = 24, known: int = 14) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three kernels of unequal trace, labels with gaps, and all labels."""
    rng = np.random.default_rng(seed)
    truth = labels(rng, n)
    X = points(rng, n, 4, truth)
    X[rng.permutation(n)[:3]] *= 2.0
    K = np.stack([(gram(X) + 1.0) ** 2, gaussian(X, 1.0), gram(X)])
    y = truth.copy()
    y[rng.permutation(n)[: n - known]] = 0.0
    return K, y, truth


# --- learn --------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
def test_signed_weights_reach_the_reference(criterion):
    K, y, _ = partly(0)
    options = CRITERIA[criterion]
    solution = learn(K, y, learner="sdp", tol=1e-7, **options)
    assert solution.objective == pytest.approx(sdp_optimum(K, y, **options), rel=1e-5)
    whole = np.tensordot(solution.weights, K, axes=1)
    assert np.linalg.eigvalsh(whole)[0] >= -1e-8 * np.trace(whole)
    ridge = 1.0 / solution.C if criterion == "learn" else 0.0
    judged = duality_gap(
        K, y, solution.weights, solution.coef, solution.bias,
        dual_alpha=solution.dual_alpha, signed=True, ridge=ridge, **options,
    )  # fmt: skip
    assert judged.gap <= 1e-6


def test_unlabeled_rows_bind_the_weights():
    """K ⪰ 0 on labeled rows alone allows more than K ⪰ 0 on all of them."""
    K, y, _ = partly(1)
    known = np.flatnonzero(y)
    c = float(np.trace(K, axis1=1, axis2=2).mean())
    all_rows = learn(K, y, learner="sdp", trace=c, tol=1e-6)
    scaled = K * (c / np.trace(K, axis1=1, axis2=2))[:, None, None]  # traces of all rows
    part = scaled[:, known][:, :, known]
    few = learn(part, y[known], learner="sdp", trace=c, tol=1e-6)
    assert all_rows.weights.min() < 0.0
    assert few.gap <= 1e-6 < abs(few.objective / all_rows.objective - 1.0)


@pytest.mark.parametrize(
    "learner", [name for name in NAMES if "align" not in name and not make_learner(name).signed]
)
@pytest.mark.parametrize("trace", [None, 30.0])
def test_nonnegative_weights_see_unlabeled_rows_in_the_trace_alone(learner, trace):
    K, y, _ = partly(2)
    loss = (make_learner(learner).losses or ["hinge"])[0]
    known = np.flatnonzero(y)
    traces = np.trace(K, axis1=1, axis2=2)
    scale = np.ones(3) if trace is None else trace / traces
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "alternate" and "radius_bound" take long to a small gap
        whole = learn(K, y, learner=learner, trace=trace, tol=1e-5, loss=loss)
        part = (scale[:, None, None] * K)[:, known][:, :, known]
        alone = learn(part, y[known], learner=learner, tol=1e-5, loss=loss)
    assert whole.objective == pytest.approx(alone.objective, rel=2e-4)
    assert (whole.weights / scale).sum() == pytest.approx(1.0)  # the trace is that of all rows
    assert not whole.coef[y == 0.0].any() and not whole.dual_alpha[y == 0.0].any()
    if learner == "newton":
        judged = duality_gap(
            K, y, whole.weights, whole.coef, whole.bias,
            C=1.0, trace=trace, dual_alpha=whole.dual_alpha,
        )  # fmt: skip
        assert judged.gap <= 1e-5


def test_transduction_tells_the_classes_apart():
    K, y, truth = partly(3, n=60, known=30)
    for learner in ("newton", "sdp"):
        solution = learn(K, y, learner=learner, tol=1e-4)
        values = np.tensordot(solution.weights, K, axes=1) @ solution.coef + solution.bias
        np.testing.assert_allclose(solution.decision_function(K), values, atol=1e-9)
        assert np.mean(np.sign(values[y == 0]) == truth[y == 0]) > 0.65


def test_costs_by_row_are_those_of_labeled_rows():
    K, y, _ = partly(4)
    known = np.flatnonzero(y)
    C = np.linspace(0.5, 2.0, y.size)
    whole = learn(K, y, C=C, tol=1e-6)
    part = learn(K[:, known][:, :, known], y[known], C=C[known], tol=1e-6)
    assert whole.objective == pytest.approx(part.objective, rel=1e-5)
    assert whole.C.shape == (y.size,)


@pytest.mark.parametrize("learner", ["newton", "sdp"])
def test_continues_from_a_solution(learner):
    K, y, _ = partly(5)
    first = learn(K, y, C=1.0, learner=learner, tol=1e-6)
    again = learn(K, y, C=2.0, learner=learner, tol=1e-6, start=first)
    fresh = learn(K, y, C=2.0, learner=learner, tol=1e-6)
    assert again.objective == pytest.approx(fresh.objective, rel=2e-6)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_weights_do_not_depend_on_the_number_of_new_points(criterion):
    """[lanckriet2004, eq. 57–58], with c in proportion to the trace and unit diagonals."""
    rng = np.random.default_rng(6)
    n = 20
    y = labels(rng, n)
    X = np.concatenate([points(rng, n, 4, y), rng.standard_normal((30, 4))])
    bank = KernelBank([Polynomial(2), Gaussian(1.0), Linear()], "all", "sphere", None)
    found = []
    for new in (0, 1, 30):
        rows = X[: n + new]
        stack = bank.fit(rows).stack
        c = float(stack.traces().sum())
        if criterion == "learn":
            c += len(rows)
        partly_known = np.concatenate([y, np.zeros(new)])
        solution = learn(stack, partly_known, trace=c, tol=1e-8, **CRITERIA[criterion])
        found.append(np.append(solution.weights, solution.objective))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-4, atol=1e-4)


# --- the estimator ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cancer():
    """Every fourth row, half of the labels hidden, and rows that nobody has seen."""
    X, y = load_breast_cancer(return_X_y=True)
    rows, others = X[::4], X[1::16]
    return rows, np.where(np.arange(len(rows)) % 2, -1, y[::4]), y[::4], others, y[1::16]


def test_fit_completes_the_labels(cancer):
    X, y, truth, others, their_truth = cancer
    for learner in ("auto", "sdp"):
        model = TransductiveMKLClassifier(learner=learner).fit(X, y)
        assert model.duality_gap_ <= 1e-3
        known = y != -1
        assert np.array_equal(model.transduction_[known], y[known])
        assert np.mean(model.transduction_[~known] == truth[~known]) > 0.9
        assert set(model.support_) <= set(np.flatnonzero(known))
        predicted = model.predict(X)
        assert np.array_equal(predicted[~known], model.transduction_[~known])
        assert model.transduction_.dtype == y.dtype
    model = TransductiveMKLClassifier().fit(X, y)
    assert model.score(others, their_truth) > 0.9


def test_normalization_is_over_all_rows(cancer):
    X, y, *_ = cancer
    bank = KernelBank([Linear(), Gaussian(3.0)], normalize="trace", scale="standard")
    model = TransductiveMKLClassifier(bank).fit(X, y)
    stack = bank.fit(X).stack
    np.testing.assert_allclose(stack.traces(), len(X))
    signs = np.where(y == -1, 0, 2 * y - 1)
    solution = learn(stack, signs)
    np.testing.assert_allclose(model.weights_, solution.weights)


def test_new_rows_get_what_they_would_get_beside_the_others(cancer):
    """[lanckriet2004, eq. 57–58]: under unit diagonals they change neither weights nor values."""
    X, y, _, others, _ = cancer
    X, others = ((rows - X.mean(axis=0)) / X.std(axis=0) for rows in (X, others))
    bank = KernelBank([Polynomial(2), Gaussian(5.0), Linear()], "all", "sphere", None)
    model = TransductiveMKLClassifier(bank, learner="qcqp", tol=1e-7).fit(X, y)
    for new in (1, len(others)):
        rows = np.concatenate([X, others[:new]])
        marks = np.concatenate([y, np.full(new, -1)])
        beside = TransductiveMKLClassifier(bank, learner="qcqp", tol=1e-7).fit(rows, marks)
        np.testing.assert_allclose(beside.weights_, model.weights_, atol=1e-4)
        np.testing.assert_allclose(
            beside.decision_function(others[:new]), model.decision_function(others[:new]), atol=1e-2
        )


def test_all_rows_labeled_is_induction(cancer):
    X, _, truth, others, _ = cancer
    plain, other = MKLClassifier().fit(X, truth), TransductiveMKLClassifier().fit(X, truth)
    np.testing.assert_array_equal(other.transduction_, truth)
    np.testing.assert_allclose(other.decision_function(others), plain.decision_function(others))


def test_new_rows_under_negative_weights(cancer):
    X, y, _, others, _ = cancer
    bank = KernelBank(
        [Polynomial(2), Gaussian(5.0), Linear()], normalize="sphere", scale="standard"
    )
    model = TransductiveMKLClassifier(bank, learner="sdp", tol=1e-7).fit(X[:60], y[:60])
    assert model.weights_.min() < 0.0
    seen = model.decision_function(X[[5, 3, 5]])
    np.testing.assert_allclose(seen[0], seen[2])
    by_hand = model.combined_kernel(X[[5]]) @ model.solution_.coef + model.intercept_
    np.testing.assert_allclose(seen[0], by_hand[0], atol=1e-8)
    with pytest.raises(ValueError, match=r"2 of 3 rows of X .* the first is row 1.*induction"):
        model.predict(np.concatenate([X[:1], others[:2]]))
    model.set_params(induction="per_point")
    alone = model.decision_function(np.concatenate([X[:1], others[:2]]))
    assert alone[0] == pytest.approx(model.decision_function(X[:1])[0])
    for row, value in zip(others[:2], alone[1:], strict=True):
        with_it = TransductiveMKLClassifier(bank, learner="sdp", tol=1e-7).fit(
            np.concatenate([X[:60], [row]]), np.append(y[:60], -1)
        )
        assert with_it.decision_function([row])[0] == pytest.approx(value, abs=1e-4)


def test_copies_predict_as_well(cancer):
    X, y, *_ = cancer
    model = TransductiveMKLClassifier(learner="sdp").fit(X[:60], y[:60])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X[:60]), model.decision_function(X[:60]))


@pytest.mark.parametrize(
    ("marked", "unlabeled"),
    [
        (lambda y, gap: np.where(gap, -1, y), -1),
        (lambda y, gap: np.where(gap, 0, 2 * y - 1), 0),
        (lambda y, gap: np.where(gap, "?", np.array(["no", "yes"])[y]), "?"),
        (
            lambda y, gap: [None if hidden else "ab"[k] for k, hidden in zip(y, gap, strict=True)],
            None,
        ),
        (lambda y, gap: np.where(gap, np.nan, y), np.nan),
        (lambda y, gap: [None if hidden else k for k, hidden in zip(y, gap, strict=True)], None),
        (lambda y, gap: np.where(gap, None, y == 1), None),
        (lambda y, gap: pd.Series(y, dtype="Int64").mask(gap), None),
        (lambda y, gap: pd.Series(np.where(gap, pd.NA, y)), pd.NA),
    ],
    ids=["-1", "0", "word", "None", "NaN", "None, numbers", "None, bools", "NA, Int64", "NA"],
)
def test_what_marks_a_row_without_label(cancer, marked, unlabeled):
    X, _, truth, *_ = cancer
    gap = np.arange(len(truth)) % 2 == 1
    model = TransductiveMKLClassifier(unlabeled=unlabeled).fit(X, marked(truth, gap))
    codes = np.searchsorted(model.classes_, model.transduction_)
    reference = TransductiveMKLClassifier().fit(X, np.where(gap, -1, truth))
    np.testing.assert_array_equal(codes, reference.transduction_)


def test_bad_labels_and_parameters(cancer):
    X, y, truth, *_ = cancer
    for params, target, message in (
        ({}, 2 * truth - 1, "one class, 1; .* hold unlabeled=-1, which.*set unlabeled"),
        (
            {"unlabeled": 0},
            truth,
            f"1; {np.sum(truth == 0)} of {len(y)} rows hold unlabeled=0",
        ),
        ({"unlabeled": True}, y, r"3 classes. They are -1, 0, 1\. .*\(now True\)"),
        ({}, y.astype(str), r"3 classes. They are '-1', '0', '1'\. .*\(now -1\)"),
        ({}, np.full(len(y), -1), "y holds no label: all of it is -1"),
        ({}, np.where(y == 0, -1, y) + (y == 1), "only one class"),
        ({}, y[:-1], "inconsistent numbers of samples"),
        (
            {"induction": "guess"},
            y,
            r"induction must be one of \['weights', 'per_point'\]; found 'guess'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            TransductiveMKLClassifier(**params).fit(X, target)
    listed = [int(label) if label == -1 else str(label) for label in y]
    assert TransductiveMKLClassifier().fit(X, listed).classes_.tolist() == ["0", "1"]
    for unlabeled in ([-1], np.array([-1]), {"-1": 1}):
        with pytest.raises(TypeError, match="unlabeled must be one value, found"):
            TransductiveMKLClassifier(unlabeled=unlabeled).fit(X, y)
    mixed = [None if k % 3 == 2 else (0 if k % 2 else "a") for k in range(len(y))]
    with pytest.raises(TypeError, match="labels of one type, found int, str"):
        TransductiveMKLClassifier(unlabeled=None).fit(X, mixed)
    words = np.where(y == -1, "?", np.array(["no", "yes"])[truth])
    told = r"3 classes. They are '\?', 'no', 'yes'.*set unlabeled to it \(now -1\).*class against"
    with pytest.raises(ValueError, match=told) as raised:
        TransductiveMKLClassifier().fit(X, words)
    assert raised.value.__notes__ == ["Every row has a label: nothing in y is unlabeled=-1."]
    for gaps in (np.where(y == -1, None, y), np.where(y == -1, np.nan, y)):
        with pytest.raises(
            ValueError, match=r"71 labels in y are missing.*row 1, .*unlabeled=None"
        ):
            TransductiveMKLClassifier().fit(X, gaps)
    both = TransductiveMKLClassifier(unlabeled=0).fit(X, 2 * truth - 1)
    assert set(both.classes_) == {-1, 1}
    with pytest.raises(ValueError, match="TransductiveMKLClassifier with the rows to predict"):
        MKLClassifier(learner="sdp").fit(X, truth)


def test_what_is_wrong_with_new_rows_is_said_by_their_number(cancer):
    X, y, _, others, _ = cancer
    model = TransductiveMKLClassifier(learner="sdp", induction="per_point").fit(X[:60], y[:60])
    broken = others[:5].copy()
    broken[3, 2] = np.nan
    for induction in ("per_point", "weights"):
        model.set_params(induction=induction)
        with pytest.raises(ValueError, match=r"column 'x2' \(1 NaN\) among 5 rows"):
            model.predict(broken)


def test_scores_are_those_of_labeled_rows(cancer):
    X, y, _, others, their_truth = cancer
    model = TransductiveMKLClassifier().fit(X, y)
    some = np.where(np.arange(len(their_truth)) % 3, their_truth, -1)
    known = some != -1
    right = model.predict(others)[known] == their_truth[known]
    assert model.score(others, some) == right.mean() > 0.9
    weight = np.arange(1.0, len(some) + 1.0)
    expected = np.average(right, weights=weight[known])
    assert model.score(others, some, sample_weight=weight) == expected
    with pytest.raises(ValueError, match="y holds no label"):
        model.score(others, np.full(len(others), -1))
    for wrong in ({"y": some[:-1]}, {"y": np.append(some, 1)}, {"sample_weight": weight[1:]}):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.score(others, **{"y": some, **wrong})
    search = GridSearchCV(TransductiveMKLClassifier(), {"C": [0.1, 1.0]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9
    named = np.where(y == -1, None, np.where(y == 1, "yes", "no"))
    words = TransductiveMKLClassifier(unlabeled=None).fit(X, named)
    assert words.score(others, np.where(known, np.where(some == 1, "yes", "no"), None)) > 0.9
    assert words.score(others, np.where(known, "yes, no", None)) == 0.0


@pytest.mark.parametrize(
    ("dtype", "values"), [("Int64", [0, 1]), ("boolean", [False, True]), ("string", ["n", "y"])]
)
def test_labels_keep_their_type(cancer, dtype, values):
    X, y, truth, *_ = cancer
    given = pd.Series([values[k] for k in truth], dtype=dtype).mask(y == -1)
    model = TransductiveMKLClassifier(unlabeled=None).fit(X, given)
    assert model.classes_.tolist() == values
    assert {type(label) for label in model.transduction_.tolist()} == {type(values[0])}


def test_rows_of_any_type():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.standard_normal(30), "color": rng.choice(list("rgb"), 30)})
    y = np.where(np.arange(30) % 3 == 2, -1, (frame["size"] > 0).astype(int))

    def same(A, B):
        return (A == B.T).astype(float)

    kernels = [("size", Gaussian(1.0), ["size"]), ("color", same, ["color"])]
    model = TransductiveMKLClassifier(kernels, learner="sdp", induction="per_point").fit(frame, y)
    new = pd.DataFrame({"size": [frame["size"][0], 0.3], "color": [frame["color"][0], "b"]})
    values = model.decision_function(new)
    assert values[0] == pytest.approx(model.decision_function(frame)[0])
    assert np.isfinite(values[1])


def test_precomputed_kernels():
    K, y, _ = partly(7)
    items = [(f"kernel {k}", Precomputed(matrix)) for k, matrix in enumerate(K)]
    bank = KernelBank(items, normalize=None)
    seen = np.arange(20)[:, None]
    model = TransductiveMKLClassifier(bank, learner="sdp", unlabeled=0).fit(seen, y[:20])
    assert np.isin(model.transduction_, (-1, 1)).all()
    with pytest.raises(ValueError, match="1 of 1 rows of X were not given to fit"):
        model.predict([[22]])


def test_rows_found_and_joined():
    table = Table.read([[1.0, "a"], [2.0, "b"], [np.nan, "a"]])
    other = Table.read([[2.0, "b"], [2.0, "a"], [np.nan, "a"]])
    np.testing.assert_array_equal(table.find(other), [1, -1, 2])
    joined = table.join(other)
    assert len(joined) == 6 and joined.objects is not None
    np.testing.assert_array_equal(joined.find(other), [3, 4, 5])
    np.testing.assert_array_equal(Table.read([[0.0]]).find(Table.read([[-0.0], [1.0]])), [0, -1])


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"unlabeled": "none"},
        {
            "kernels": [Linear(), Gaussian()],
            "unlabeled": None,
            "learner": "sdp",
            "induction": "per_point",
        },
    ],
    ids=["default", "another mark", "signed"],
)
def test_check_estimator(params):
    """All checks pass but the one that has classes -1 and +1, where -1 means no label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(TransductiveMKLClassifier(**params), on_fail=None)
    others = {result["check_name"] for result in results if result["status"] != "passed"}
    expected = {"check_classifiers_classes"} if not params else set()
    assert expected <= others <= expected | {"check_array_api_input", *FAULTS}


@pytest.mark.parametrize("mark", [True, np.True_])
def test_booleans_are_marks_of_their_own(cancer, mark):
    X, y, truth, *_ = cancer
    given = [mark if label == -1 else str(label) for label in y]
    assert TransductiveMKLClassifier(unlabeled=mark).fit(X, given).classes_.tolist() == ["0", "1"]
    both = TransductiveMKLClassifier(unlabeled=0).fit(X, truth == 1)  # False is no 0
    assert both.classes_.tolist() == [False, True]


def test_C_by_hidden_labels(cancer):
    """The recipe of the docstring: cross-validation has no new rows for signed weights."""
    X, y, truth, *_ = cancer
    known = np.flatnonzero(y != -1)
    hidden = known[::3]
    kept = y.copy()
    kept[hidden] = -1
    scores = {}
    for C in (0.1, 1.0):
        model = TransductiveMKLClassifier(C=C, learner="sdp").fit(X, kept)
        scores[C] = float(np.mean(model.transduction_[hidden] == truth[hidden]))
    assert max(scores.values()) > 0.8


# --- rows that arrive one by one ----------------------------------------------------------------


@pytest.mark.parametrize("rule", ["sphere", "trace", "center+trace"])
@pytest.mark.parametrize("learner", ["sdp", "auto"])
def test_rows_that_arrive_one_by_one(learner, rule):
    """Labeled or not: the result is that of a cold fit, for fewer machines."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[::6], np.where(np.arange(95) % 2, y[::6], -1)
    model = TransductiveMKLClassifier(KernelBank(normalize=rule), learner=learner, tol=1e-4)
    before, solves = model.fit(X[:88], y[:88]).solution_, []
    for n in range(89, 93):
        before = model.fit(X[:n], y[:n], start=before).solution_
        cold = clone(model).fit(X[:n], y[:n])
        assert model.duality_gap_ <= 1e-4
        assert model.objective_ == pytest.approx(cold.objective_, rel=2.1e-4)
        assert (model.transduction_ == cold.transduction_).mean() > 0.97
        solves.append((before.n_svm_solves, cold.solution_.n_svm_solves))
    warm, cold = np.sum(solves, axis=0)
    assert warm <= 0.7 * cold


def test_a_start_must_be_of_the_first_rows():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:40], np.where(np.arange(40) % 2, y[:40], -1)
    found = TransductiveMKLClassifier().fit(X, y).solution_
    with pytest.raises(ValueError, match="first rows of X: found one of 40 rows, and X has 30"):
        TransductiveMKLClassifier().fit(X[:30], y[:30], start=found)
    with pytest.raises(TypeError, match="start must be a Solution"):
        TransductiveMKLClassifier().fit(X, y, start=found.weights)
    with pytest.raises(ValueError, match=r"start\.weights"):
        TransductiveMKLClassifier([Gaussian(1.0)]).fit(X, y, start=found)
