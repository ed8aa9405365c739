"""MKLClassifierCV: the scores of a cold grid search, nothing of the held-out rows, one choice."""

import pickle
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelweave import (
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    Polynomial,
    Precomputed,
    report,
)
from kernelweave.estimators._candidates import Choice, choose
from kernelweave.estimators._fit import FitOptions, read
from kernelweave.estimators._search import Search, share_rows

MARGIN = make_scorer(lambda y, f: np.mean((2 * y - 1) * f), response_method="decision_function")
QUICK = {"banks": [Linear(), Gaussian(1.0)], "Cs": [0.1, 10.0], "weight_norms": [1]}


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:90]
    return X[rows][:, :6], y[rows]


CHECKED = {"Cs": [1.0], "weight_norms": ["equal"], "cv": 2}
EXPECTED = {  # of machines with bounds; test_whole_weights_are_repeated_rows compares at 1e-9
    f"check_sample_weight_equivalence_on_{kind}_data": "machines are solved to tol, not exactly"
    for kind in ("dense", "sparse")
} | {"check_classifiers_train": "predict goes by decision values, not by probabilities"}


@parametrize_with_checks(
    [MKLClassifierCV(**CHECKED), MKLRegressorCV(**CHECKED)],
    expected_failed_checks=lambda model: EXPECTED if model.loss == "hinge" else {},
)
def test_scikit_learn(estimator, check):
    check(estimator)


BANKS = {
    "fixed": KernelBank([Gaussian(2.0), Polynomial(2), Linear()], views="all+each", scale=None),
    "relative": KernelBank([Gaussian(1.0, True), Laplacian(1.0, True)], scale=None),
    "standard": KernelBank(),
    "sphere": KernelBank([Polynomial(2), Linear()], normalize="sphere", scale=None),
    "centered": KernelBank([Gaussian(1.0), Linear()], normalize="center+trace", scale=None),
}


@pytest.mark.parametrize("norm", [1, "equal"])
def test_scores_are_those_of_a_cold_grid_search(data, norm):
    X, y = data
    X = X / X.std(axis=0)
    cv, Cs, tol = StratifiedKFold(3), [0.1, 30.0], 1e-7
    model = MKLClassifierCV(BANKS, Cs, [norm], cv, scoring="roc_auc", cv_tol=tol, refit=False)
    model.fit(X, y)
    way = {"learner": "uniform"} if norm == "equal" else {"weight_norm": norm}
    single = MKLClassifier(tol=tol, **way)
    grid = {"kernels": list(BANKS.values()), "C": Cs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cold = GridSearchCV(single, grid, cv=cv, scoring="roc_auc", refit=False).fit(X, y)
    places = [
        next(
            i
            for i, params in enumerate(cold.cv_results_["params"])
            if params["kernels"] is BANKS[ours["bank"]] and params["C"] == ours["C"]
        )
        for ours in model.cv_results_["params"]
    ]
    for key in ("split0_test_score", "split2_test_score", "mean_test_score", "std_test_score"):
        assert model.cv_results_[key] == pytest.approx(cold.cv_results_[key][places], abs=1e-12)
    assert np.array_equal(
        model.cv_results_["rank_test_score"], cold.cv_results_["rank_test_score"][places]
    )


@pytest.mark.parametrize(
    "chooser, single, target",
    [
        (MKLClassifierCV(multi_class="ovr"), MKLClassifier(), "classes"),
        (MKLClassifierCV(multi_class="ovo"), MKLClassifier(multi_class="ovo"), "classes"),
        (
            MKLClassifierCV(class_weight="balanced", scoring="balanced_accuracy"),
            MKLClassifier(class_weight="balanced"),
            "rare",
        ),
        (
            MKLClassifierCV(class_weight="balanced", learner="easy", scoring=MARGIN),
            MKLClassifier(class_weight="balanced", learner="easy"),
            "rare",
        ),
        (
            MKLClassifierCV(class_weight={0: 1.0, 1: 3.0}, learner="alignment", scoring=MARGIN),
            MKLClassifier(class_weight={0: 1.0, 1: 3.0}, learner="alignment"),
            "rare",
        ),
        (MKLRegressorCV(), MKLRegressor(loss="squared"), "number"),
        (MKLRegressorCV(loss="epsilon_insensitive"), MKLRegressor(), "numbers"),
    ],
    ids=["ovr", "ovo", "balanced", "balanced easy", "costly alignment", "squared", "two targets"],
)
def test_every_task_scores_as_a_cold_grid_search(data, chooser, single, target):
    X, _ = data
    X = X / X.std(axis=0)
    y = {
        "classes": np.array(list("abc"))[np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.7]))],
        "rare": np.digitize(X[:, 0], np.quantile(X[:, 0], [0.8])),
        "number": 100.0 + 7.0 * X[:, 0] * X[:, 1],
        "numbers": np.column_stack([X[:, 0] * X[:, 1], 1e3 * X[:, 2]]),
    }[target]
    bank, Cs, tol = [Gaussian(2.0), Linear()], [0.1, 10.0], 1e-8
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    chooser.set_params(banks=bank, Cs=Cs, weight_norms=[1], cv=folds, cv_tol=tol, refit=False)
    chooser.fit(X[:, 1:], y)
    single.set_params(kernels=bank, tol=tol)
    cold = GridSearchCV(single, {"C": Cs}, cv=folds, scoring=chooser.scoring).fit(X[:, 1:], y)
    assert chooser.cv_results_["mean_test_score"] == pytest.approx(
        cold.cv_results_["mean_test_score"], abs=1e-6
    )


@pytest.mark.parametrize("Chooser", [MKLClassifierCV, MKLRegressorCV])
def test_whole_weights_are_repeated_rows(data, Chooser):
    X, y = data
    X = X / X.std(axis=0)
    counts = np.random.default_rng(0).integers(0, 3, len(y))
    fold = np.arange(len(y)) % 3
    own = {
        "Cs": [0.1, 10.0],
        "weight_norms": [1],
        "banks": [Gaussian(1.0, relative=True), Linear()],
    }
    own |= {"cv_tol": 1e-9, "refit": False}
    target = y if Chooser is MKLClassifierCV else X[:, 0] ** 2
    once = Chooser(cv=[(fold != k, fold == k) for k in range(3)], **own)
    once.fit(X, target, sample_weight=counts)
    rows = np.repeat(np.arange(len(y)), counts)
    often = Chooser(cv=[(fold[rows] != k, fold[rows] == k) for k in range(3)], **own)
    often.fit(X[rows], target[rows])
    assert once.cv_results_["mean_test_score"] == pytest.approx(
        often.cv_results_["mean_test_score"], abs=1e-5
    )


def test_a_regressor_chooses_in_the_units_of_its_targets(data):
    X, _ = data
    y = 1e4 + 300.0 * X[:, 0]
    model = MKLRegressorCV(Cs=[0.1, 10.0], weight_norms=["equal"], random_state=0).fit(X[:, :3], y)
    assert model.best_score_ > 0.9
    assert model.score(X[:, :3], y) > 0.9
    assert model.predict(X[:2, :3]).shape == (2,)
    grouped = MKLRegressorCV(Cs=[1.0], weight_norms=[1], cv=3)
    assert grouped.fit(X, y, groups=np.arange(90) // 5).n_splits_ == 3
    assert {"Linear()", "Gaussian(width=4×median)", "all", "each"} == set(grouped.banks_) - {
        f"Gaussian(width={width}×median)" for width in (0.5, 1, 2)
    }
    with pytest.raises(ValueError, match="loss must be one of"):
        MKLRegressorCV(loss="hinge").fit(X, y)


@pytest.mark.parametrize("bank", BANKS.values(), ids=BANKS)
def test_held_out_rows_leave_the_weights_bit_identical(data, bank):
    X, y = data
    train, test = np.arange(60), np.arange(60, 90)
    changed = X.copy()
    changed[test] *= 1e6
    found, model = [], MKLClassifier()
    equal = MKLClassifier(learner="uniform")
    options = {1: FitOptions.of(model), "equal": FitOptions.of(equal)}
    for Z in (X, changed):
        training = read(model, Z, y)
        training = replace(training, table=share_rows(training.table))
        choice = Choice("bank", bank, [1, "equal"])
        _, learned = Search(model, training, options, [1.0], [choice], []).learn(choice, train)
        found.append([(s.weights, s.coef, s.bias) for one in learned for s in one.solutions])
    for one, other in zip(*found, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_attributes_are_those_of_grid_search(data):
    X, y = data
    model = MKLClassifierCV(Cs=[0.1, 1.0], weight_norms=[1, "equal"], cv=3).fit(X, y)
    found, best = model.cv_results_, model.best_index_
    assert model.best_params_ == found["params"][best]
    assert model.best_score_ == found["mean_test_score"][best]
    at_best = int(np.argmin(found["rank_test_score"]))
    assert best == at_best or model.best_params_["weight_norm"] == "equal"
    assert model.C_ == model.best_params_["C"] == found["param_C"][best]
    counts = Counter(candidate["bank"] for candidate in found["params"])
    assert counts.keys() == model.banks_.keys()
    assert counts["all"] == counts["each"] == 2 * 2
    assert counts["Linear()"] == 2  # nothing to weight
    scores = [found[f"split{k}_test_score"] for k in range(model.n_splits_)]
    assert np.mean(scores, axis=0) == pytest.approx(found["mean_test_score"])
    assert np.std(scores, axis=0) == pytest.approx(found["std_test_score"])


def test_of_equal_scores_the_simplest_is_taken():
    X = np.random.default_rng(0).standard_normal((90, 2))
    y = X[:, 0] > 0.0
    X[:, 0] += np.where(y, 2.0, -2.0)  # every kernel tells them apart
    model = MKLClassifierCV(Cs=[1.0], weight_norms=[1]).fit(X, y)
    assert len(model.banks_) > 2
    assert (model.cv_results_["mean_test_score"] == 1.0).all()
    assert model.best_params_ == {"bank": "Linear()", "weight_norm": 1, "C": 1.0}


def test_the_final_fit_is_that_of_the_candidate_chosen(data):
    X, y = data
    model = MKLClassifierCV(**QUICK, cv=3).fit(X, y)
    single = MKLClassifier(QUICK["banks"], C=model.C_).fit(X, y)
    assert np.array_equal(model.decision_function(X), single.decision_function(X))
    assert np.array_equal(model.predict(X), single.predict(X))
    assert np.array_equal(model.weights_, single.weights_)
    assert np.array_equal(model.combined_kernel(X), single.combined_kernel(X))
    assert "Linear()" in report.weights_by_kernel(model)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert clone(model).get_params() == model.get_params()


def test_threads_change_nothing(data):
    one, two = (MKLClassifierCV(**QUICK, n_jobs=n_jobs).fit(*data) for n_jobs in (None, 2))
    for k in range(5):
        key = f"split{k}_test_score"
        assert np.array_equal(one.cv_results_[key], two.cv_results_[key])


def test_groups_are_never_on_both_sides(data):
    X, y = data
    groups = np.arange(len(y)) // 3
    X, y = np.repeat(X[::3], 3, axis=0)[: len(y)], np.repeat(y[::3], 3)[: len(y)]
    bank = [Gaussian(1e-6)]  # knows equal rows again, and nothing else
    alone = MKLClassifierCV(bank, [1.0], [1], scoring="roc_auc", random_state=0).fit(X, y)
    apart = MKLClassifierCV(bank, [1.0], [1], scoring="roc_auc").fit(X, y, groups=groups)
    assert alone.best_score_ > 0.9
    assert apart.best_score_ == pytest.approx(0.5)
    same = MKLClassifierCV(bank, [1.0], [1], GroupKFold(2), "roc_auc").fit(X, y, groups=groups)
    assert same.best_score_ == pytest.approx(0.5)


def test_matrices_and_pandas(data):
    X, y = data
    K = [Precomputed(X[:, [j]] @ X[:, [j]].T) for j in range(2)]
    numbers = np.arange(len(y)).reshape(-1, 1)
    assert MKLClassifierCV(K, [1.0], [1]).fit(numbers, y).best_score_ > 0.5
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcdef"))
    model = MKLClassifierCV(Cs=[1.0], weight_norms=[1], views={"v": ["a", "b"], "w": ["c"]}, cv=2)
    model.fit(frame, y)
    assert {"all", "each", "views"} <= set(model.banks_)
    assert list(model.feature_names_in_) == list("abcdef")


def test_rows_of_mostly_zeros_are_compared_by_direction():
    rng = np.random.default_rng(0)
    X = (rng.random((80, 40)) < 0.1).astype(float)
    y = X[:, :8].sum(axis=1) > X[:, 8:16].sum(axis=1)
    model = MKLClassifierCV(Cs=[1.0], weight_norms=["equal"], cv=2)
    rules = {name: bank.normalize for name, bank in model.fit(X, y).banks_.items()}
    assert rules["Linear()"] == rules["all"] == "sphere"
    assert rules["each"] == "auto"  # one column has no direction
    thin = model.fit(sparse.csr_array(X), y).banks_
    assert {bank.normalize for bank in thin.values()} == {"sphere"}
    for other in (1.0 - X, X[:, :9]):
        assert "sphere" not in {bank.normalize for bank in model.fit(other, y).banks_.values()}


def test_a_C_at_the_edge_is_told(data, capsys):
    X, y = data
    inside = MKLClassifierCV(Gaussian(1.0, relative=True), [1e-3, 1.0, 1e4], [1], verbose=1)
    assert not inside.fit(X, y).C_at_edge_ and "edge" not in capsys.readouterr().err
    edge = clone(inside).set_params(Cs=[1e-3, 1.0]).fit(X, y)
    assert edge.C_at_edge_ and "C=1 was chosen at the edge of Cs" in capsys.readouterr().err
    assert not clone(inside).set_params(Cs=[1.0]).fit(X, y).C_at_edge_


def test_banks_that_do_not_fit_are_told(data, monkeypatch):
    monkeypatch.setattr("kernelweave.estimators._candidates.available_bytes", lambda: 4e6)
    model = MKLClassifierCV(Cs=[1.0], weight_norms=[1], cv=2).fit(*data)
    assert "all" in model.banks_
    assert "26 kernels on 90 rows" in model.skipped_["each"]


@pytest.mark.parametrize("Chooser", [MKLClassifierCV, MKLRegressorCV])
def test_banks_that_cannot_read_rows_without_a_view_are_skipped(data, Chooser):
    frame = pytest.importorskip("pandas").DataFrame(data[0][:, :4].copy(), columns=list("abcd"))
    frame.loc[:8, ["c", "d"]] = np.nan
    views = {"ab": ["a", "b"], "cd": ["c", "d"]}
    chooser = Chooser(Cs=[1.0], weight_norms=[1], views=views, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = chooser.fit(frame, data[1])
    assert list(model.banks_) == ["views"]
    assert set(model.skipped_) == {"all", "each"}
    assert "'c' (9 NaN)" in model.skipped_["all"]
    assert np.isfinite(model.predict(frame)).all()
    with pytest.raises(ValueError, match="'c'"):
        Chooser(Cs=[1.0], weight_norms=[1], cv=2).fit(frame, data[1])


@pytest.mark.parametrize("Chooser", [MKLClassifierCV, MKLRegressorCV])
def test_empty_cells_are_filled_in_by_what_training_rows_of_a_fold_have(data, Chooser):
    X, y = data[0][:, :4].copy(), data[1]
    X[2, 0] = X[40, 3] = np.nan
    views = {"ab": [0, 1], "cd": [2, 3]}
    chooser = Chooser(
        Cs=[1.0], weight_norms=[1], views=views, cv=KFold(2), cv_tol=1e-6, impute="median"
    )
    model = chooser.fit(X, y)
    assert {"all", "each", "views"} <= set(model.banks_)
    assert not model.skipped_
    assert np.isfinite(model.predict(X)).all()
    single = {MKLClassifierCV: MKLClassifier, MKLRegressorCV: MKLRegressor}[Chooser]
    cold = single(KernelBank(views=views, impute="median"), loss=model.loss, tol=1e-6)
    search = GridSearchCV(cold, {"C": [1.0]}, cv=KFold(2)).fit(X, y)
    number = [params["bank"] for params in model.cv_results_["params"]].index("views")
    for fold in ("split0_test_score", "split1_test_score"):
        assert model.cv_results_[fold][number] == pytest.approx(search.cv_results_[fold][0])


def test_one_standard_error_takes_the_smallest_C():
    params = [{"C": C} for C in (10.0, 1.0, 0.1, 0.01)]
    scores = np.array([[0.9, 0.8, 1.0], [0.88, 0.8, 0.99], [0.8, 0.9, 0.9], [0.5, 0.5, 0.5]])
    assert choose("best", params, scores) == 0
    assert choose("one_se", params, scores) == 2  # 0.867 ≥ 0.9 − 0.1/√3
    assert choose("best", params, np.full((4, 3), np.nan)) == 0


def test_without_a_final_fit(data):
    model = MKLClassifierCV(**QUICK, refit=False).fit(*data)
    assert model.best_params_["C"] in (0.1, 10.0)
    assert not hasattr(model, "weights_")
    with pytest.raises(AttributeError, match="refit=True"):
        model.predict(data[0])


def test_progress_is_told(data, capsys):
    MKLClassifierCV(**QUICK, cv=2, verbose=1).fit(*data)
    assert "fold 2, bank 'bank': 2 kernels, 2 fits" in capsys.readouterr().err


BAD = [
    ({"Cs": 0}, "Cs must be at least 1"),
    ({"Cs": "many"}, "Cs must be a number of values or a list"),
    ({"Cs": [1.0, -1.0]}, "Cs: C must be positive"),
    ({"Cs": [1.0, 1.0]}, "Cs names a value twice"),
    ({"Cs": [1.0, np.inf]}, "Cs must be finite"),
    ({"Cs": []}, "Cs must be a number of values or a list"),
    ({"weight_norms": []}, "weight_norms is empty"),
    ({"weight_norms": [0.5]}, "weight_norm must be"),
    ({"weight_norms": ["unequal"]}, "weight_norms must hold numbers ≥ 1 or 'equal'"),
    ({"weight_norms": [2, 2]}, "weight_norms names a norm twice"),
    ({"banks": {}}, "banks is empty"),
    ({"banks": [Linear()], "views": {"v": [0]}}, "views goes with banks=None"),
    ({"banks": [Linear()], "impute": "mean"}, "impute goes with banks=None"),
    ({"views": ["x0"]}, r"views must be \{name: columns\}"),
    ({"selection": "worst"}, "selection must be one of"),
    ({"refit": "accuracy"}, "refit must be True or False"),
    ({"cv": 1}, "cv must be between 2 and"),
    ({"cv": 1000}, "cv must be between 2 and"),
    ({"cv": "five"}, "cv must be a number of folds"),
    ({"cv": [(np.arange(50), np.arange(40, 60))]}, "tests rows that it also learns on"),
    ({"cv": [(np.arange(50), [90])]}, "cv must hold row numbers between 0 and 89"),
    ({"cv": [(np.arange(50), [])]}, "cv: split 0 has no rows"),
    ({"cv_tol": -1.0}, "cv_tol must be positive"),
    ({"scoring": "beauty"}, "scoring"),
    ({"random_state": "x"}, "seed"),
]


@pytest.mark.parametrize("params, told", BAD, ids=lambda x: str(x)[:40])
def test_bad_parameters_are_named(data, params, told):
    with pytest.raises((ValueError, TypeError), match=told):
        MKLClassifierCV(**{**QUICK, **params} if "views" not in params else params).fit(*data)


def test_a_fold_with_one_class_is_named(data):
    X, y = data
    order = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match="cv: the training rows of split 0 lack class"):
        MKLClassifierCV(**QUICK, cv=KFold(2)).fit(X[order], y[order])
    with pytest.raises(ValueError, match="at least 2 rows of each class"):
        MKLClassifierCV(**QUICK).fit(X, np.arange(90) == 3)


def test_groups_must_match(data):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MKLClassifierCV(**QUICK).fit(*data, groups=[1, 2])
