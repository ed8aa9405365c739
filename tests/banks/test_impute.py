"""``impute``: single empty cells get the median or mean of the training rows, and no others do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold

import kernelweave
from kernelweave import (
    Gaussian,
    Hamming,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    Nystroem,
    TransductiveMKLClassifier,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

N = 40
rng = np.random.default_rng(11)
FULL = rng.normal(size=(N, 6)) * [1.0, 30.0, 0.1, 1.0, 2.0, 5.0] + [0.0, 500.0, 3.0, 0.0, 1.0, 9.0]
Y = np.where(FULL[:, 0] + (FULL[:, 1] - 500.0) / 30.0 > 0.0, "a", "b")
VIEWS = {"first": [0, 1, 2], "second": [3, 4, 5]}
HOLES = FULL.copy()
HOLES[rng.choice(N, 9, replace=False), 1] = np.nan
HOLES[rng.choice(N, 9, replace=False), 4] = np.nan
HOLES[[3, 8], 0] = np.nan
LACKS = [2, 5, 11]
FRAME = pd.DataFrame(HOLES, columns=list("abcdef")).assign(
    sex=np.array(["f", "m", None], dtype=object)[np.arange(N) % 3], ward=[*"xyzy"] * (N // 4)
)


def by_hand(how, rows, new=None):
    """Rows as scikit-learn fills them, learned on ``rows``."""
    return SimpleImputer(strategy=how).fit(rows).transform(rows if new is None else new)


BANKS = {
    "default": lambda **options: KernelBank(views=VIEWS, **options),
    "all": lambda **options: KernelBank(**options),
    "unscaled": lambda **options: KernelBank([Gaussian(20.0), Linear()], scale=None, **options),
    "function": lambda **options: KernelBank([lambda a, b: a @ b.T], VIEWS, **options),
    "by name": lambda **options: KernelBank(["rbf"], VIEWS, **options),
    "factors": lambda **options: KernelBank(views=VIEWS, storage="factors", **options),
    "lazy": lambda **options: KernelBank(Gaussian(), VIEWS, storage="lazy", **options),
    "approximated": lambda **options: KernelBank(approximation=Nystroem(10), **options),
}


@pytest.mark.parametrize("how", ["median", "mean"])
@pytest.mark.parametrize("name", BANKS)
def test_kernels_are_those_of_a_table_filled_by_hand(name, how):
    found, expected = BANKS[name](impute=how).fit(HOLES), BANKS[name]().fit(by_hand(how, HOLES))
    assert found.names == expected.names
    new, every, equal = HOLES[::-1] * 1.01, np.arange(N), np.ones(found.m_all)
    for rows in (HOLES, new):
        values = expected.cross(by_hand(how, HOLES, rows), equal)
        np.testing.assert_allclose(found.cross(rows, equal), values, rtol=1e-12, atol=1e-12)
    for kernel in range(found.stack.m):
        values = expected.stack.block(kernel, every, every)
        block = found.stack.block(kernel, every, every)
        np.testing.assert_allclose(block, values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", BANKS)
def test_models_are_those_of_a_table_filled_by_hand(name):
    """To the last bit: SimpleImputer finds the same medians."""
    model = MKLClassifier(BANKS[name](impute="median")).fit(HOLES, Y)
    plain = MKLClassifier(BANKS[name]()).fit(by_hand("median", HOLES), Y)
    np.testing.assert_array_equal(model.weights_, plain.weights_)
    new = HOLES[::-1] * 1.01
    expected = plain.decision_function(by_hand("median", HOLES, new))
    np.testing.assert_array_equal(model.decision_function(new), expected)


def test_default_kernels_are_those_of_the_filled_table():
    """Mostly zeros once filled: the rule and the scales must see the cells filled."""
    counts = (rng.random((N, 12)) < 0.15) * rng.integers(1, 5, size=(N, 12)).astype(float)
    counts[:, 7] = 2.0
    holes = counts.copy()
    holes[rng.random(holes.shape) < 0.3] = np.nan
    holes[:, 0] = counts[:, 0]
    found = KernelBank(impute="median").fit(holes)
    filled = by_hand("median", holes)
    expected = KernelBank().fit(filled)
    assert np.isnan(expected.scales).all()  # on the sphere
    assert found.names == expected.names
    equal = np.ones(found.m_all)
    np.testing.assert_array_equal(found.cross(holes, equal), expected.cross(filled, equal))


def test_a_column_of_one_value_and_empty_cells_is_constant():
    rows = HOLES.copy()
    rows[:, 1] = np.where(np.isnan(rows[:, 1]), np.nan, 7.0)
    views = {"one": [1, 2], "two": [0, 3]}
    rows[:, 2] = 1.0
    found = KernelBank(Linear(), views, impute="mean").fit(rows)
    assert found.dropped == {"Linear() on one": "its columns are constant on the training rows"}


def test_heavy_rows_count_more_and_rows_of_weight_zero_not_at_all():
    weights = rng.integers(0, 3, size=N).astype(float)
    model = MKLClassifier(KernelBank([Linear()], impute="median"))
    weighted = clone(model).fit(HOLES, Y, sample_weight=weights)
    repeated = np.repeat(HOLES, weights.astype(int), axis=0)
    (view,) = {member.view for member in weighted.bank_.members}
    np.testing.assert_array_equal(view.filling, np.nanmedian(repeated, axis=0))
    (view,) = {
        member.view
        for member in MKLClassifier(KernelBank([Linear()], impute="mean"))
        .fit(HOLES, Y, sample_weight=weights)
        .bank_.members
    }
    np.testing.assert_allclose(view.filling, np.nanmean(repeated, axis=0), rtol=1e-14)


# ---- nothing leaks -----------------------------------------------------------------------------


def test_folds_learn_their_filling_from_their_own_rows(monkeypatch):
    """Held-out rows a million times larger leave what their fold fills in unchanged."""
    fit, filled = KernelBank.fit, []

    def spied(*args, **options):
        found = fit(*args, **options)
        filled.append(found.members[0].view.filling)
        return found

    monkeypatch.setattr(KernelBank, "fit", spied)
    splits = list(KFold(4).split(HOLES))
    train, test = splits[0]
    spoilt = HOLES.copy()
    spoilt[test] *= 1e6
    bank = KernelBank([Linear()], impute="mean")
    for rows in (HOLES, spoilt):
        MKLClassifierCV(bank, Cs=[1.0], weight_norms=[1], cv=splits, refit=False).fit(rows, Y)
    np.testing.assert_allclose(filled[0], np.nanmean(HOLES[train], axis=0), rtol=1e-14)
    np.testing.assert_array_equal(filled[4], filled[0])
    assert (np.abs(filled[5]) > 100.0 * np.abs(filled[1])).all()


def test_folds_score_as_estimators_of_their_own():
    """What folds share must not hold cells that another fold has filled."""
    splits = list(KFold(4).split(HOLES))
    bank = KernelBank([Linear(), Gaussian(30.0)], scale=None, impute="median")
    chosen = MKLClassifierCV(bank, Cs=[1.0], weight_norms=[1], cv=splits).fit(HOLES, Y)
    for number, (train, test) in enumerate(splits):
        model = MKLClassifier(bank).fit(HOLES[train], Y[train])
        assert chosen.cv_results_[f"split{number}_test_score"][0] == pytest.approx(
            model.score(HOLES[test], Y[test])
        )


# ---- rows that lack views, and cells of others ---------------------------------------------------


@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_rows_without_a_view_stay_so(missing):
    rows = HOLES.copy()
    rows[LACKS, 3:] = np.nan
    filled = by_hand("median", rows)
    filled[LACKS, 3:] = np.nan
    found = MKLClassifier(KernelBank(views=VIEWS, impute="median", missing=missing)).fit(rows, Y)
    expected = MKLClassifier(KernelBank(views=VIEWS, missing=missing)).fit(filled, Y)
    assert list(found.kernel_names_) == list(expected.kernel_names_)
    np.testing.assert_array_equal(found.weights_, expected.weights_)
    values = found.decision_function(rows[::-1])
    np.testing.assert_array_equal(values, expected.decision_function(filled[::-1]))


@pytest.mark.parametrize("views", ["all", VIEWS])
def test_rows_that_have_nothing_are_refused_where_views_must_be_there(views):
    bank = KernelBank(Linear(), views, missing="error", impute="median")
    rows = HOLES.copy()
    rows[LACKS] = np.nan
    with pytest.raises(ValueError, match=r"\(3 NaN\).*these rows have nothing in the view"):
        bank.fit(rows)
    fitted = bank.fit(HOLES)
    with pytest.raises(ValueError, match="these rows have nothing in the view"):
        fitted.cross(rows, [1.0] * fitted.m_all)


# ---- tables of numbers and words ---------------------------------------------------------------


def test_empty_categories_are_a_level_of_their_own():
    model = MKLClassifier(KernelBank(impute="median")).fit(FRAME, Y)
    filled = FRAME.assign(sex=FRAME.sex.fillna("none"))
    filled[list("abcdef")] = by_hand("median", HOLES)
    expected = MKLClassifier(KernelBank()).fit(filled, Y)
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    new, same = FRAME.iloc[::-1].assign(ward="q"), filled.iloc[::-1].assign(ward="q")
    np.testing.assert_array_equal(model.decision_function(new), expected.decision_function(same))


def test_an_empty_category_that_fit_has_not_seen_agrees_with_none():
    frame = FRAME[["sex", "ward"]].fillna("f")
    fitted = KernelBank(Hamming(), impute="mean", normalize=None).fit(frame)
    values = fitted.cross(frame.iloc[:3].assign(sex=[None, np.nan, pd.NA]), [1.0])
    expected = 0.5 * np.equal.outer(frame.ward.iloc[:3].to_numpy(), frame.ward.to_numpy())
    np.testing.assert_array_equal(values, expected)


def test_what_will_be_filled_can_be_asked():
    bank = KernelBank(views={"one": [*"abc", "sex", "ward"], "two": [*"def"]}, impute="mean")
    frame = FRAME.copy()
    frame.loc[LACKS, [*"def"]] = np.nan
    empty = frame.isna().sum()
    expected = {"a": empty.a, "b": empty.b, "e": empty.e - len(LACKS), "sex": empty.sex}
    assert bank.filled_cells(frame) == expected
    assert KernelBank(views=VIEWS).filled_cells(FULL) == {}


@pytest.mark.parametrize("names", [["x", "z"], ["z", "x"]])
def test_a_cell_that_two_views_fill_counts_once(names):
    rows = np.array([[np.nan, np.nan, 1.0], [1, 2, 3], [2, np.nan, 5], [0, 1, 7]])
    views = {"x": [0, 1], "z": [0, 1, 2]}
    bank = KernelBank(views={name: views[name] for name in names}, impute="median")
    assert bank.filled_cells(rows) == {"x0": 1, "x1": 2}


def test_columns_of_one_name_are_added_up():
    rows = pd.DataFrame(FULL[:, :3], columns=["a", "a", "b"])
    rows.iloc[3:9, 0] = rows.iloc[10:12, 1] = np.nan
    assert KernelBank(impute="median").filled_cells(rows) == {"a": 8}


# ---- refusals, tags, files ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["impute", "missing", "scale", "storage", "normalize"])
def test_arrays_are_refused_like_strange_words(name):
    bank = KernelBank(**{name: np.array(["median", "mean"])})
    with pytest.raises(ValueError, match=rf"{name} must be one of .*ndarray of shape \(2,\)"):
        MKLClassifier(bank).fit(FULL, Y)


def test_to_categories_an_empty_cell_is_a_level_and_no_constant():
    rows = np.ones((len(FULL), 3))
    rows[::2, 0] = rows[1::2, 1] = np.nan
    rows[:, 2] = FULL[:, 0]
    kernels = [("levels", Hamming(), [0, 1]), ("line", Linear(), [2])]
    assert not KernelBank(kernels, impute="median").fit(rows).dropped


def test_infinity_is_counted_as_it_is_given():
    rows = FULL.copy()
    rows[2:8, 0], rows[0, 0], rows[1, 0] = np.nan, np.inf, -np.inf
    with pytest.raises(ValueError, match=r"'x0' \(2 infinity\).*replace or clip"):
        KernelBank(impute="mean").fit(rows)
    rows[:, 0] = np.where(np.isnan(rows[:, 0]), np.nan, 1.7e308)
    with pytest.raises(ValueError, match="'x0' of X: values too large for their mean"):
        KernelBank(impute="mean").fit(rows)


def test_who_has_no_category_is_told_so():
    frame = FRAME[["a", "sex"]].fillna({"a": 0.0})
    with pytest.raises(ValueError, match=r"'sex' .*no category at all in the view.*fillna"):
        KernelBank(impute="median", missing="error").fit(frame)


def test_columns_without_any_value_and_strange_words_are_refused():
    rows = HOLES.copy()
    rows[:, 2] = np.nan
    with pytest.raises(ValueError, match=r"Column 'x2' of X is empty in all 40 .*'mean'.*Leave"):
        KernelBank(impute="mean").fit(rows)
    with pytest.raises(ValueError, match=r"impute must be one of \[None, 'median', .*'zero'"):
        KernelBank(impute="zero").fit(HOLES)


@pytest.mark.parametrize("where", ["fit", "predict"])
def test_infinity_and_sparse_gaps_stay_refused(where):
    endless = HOLES.copy()
    endless[7, 5] = -np.inf
    for good, bad in ((HOLES, endless), (csr_array(FULL), csr_array(HOLES))):
        bank = KernelBank(Linear(), impute="mean")
        with pytest.raises(ValueError, match="NaN or infinity in column 'x"):
            if where == "fit":
                bank.fit(bad)
            else:
                bank.fit(good).cross(bad, [1.0])


@pytest.mark.parametrize("views", ["all", VIEWS, "all+each"])
def test_the_error_says_first_how_to_fill_cells(views):
    with pytest.raises(ValueError, match=r'finite values: KernelBank\(impute="median"\)'):
        KernelBank(Linear(), views).fit(HOLES)


def test_tags_say_that_gaps_are_allowed():
    for bank in (
        KernelBank(impute="median"),
        KernelBank(views=VIEWS, missing="error", impute="mean"),
    ):
        for model in (MKLClassifier, MKLClassifierCV, MKLRegressor):
            assert model(bank).__sklearn_tags__().input_tags.allow_nan


def test_model_files_keep_the_filling(tmp_path):
    model = MKLClassifier(KernelBank(views=VIEWS, impute="mean")).fit(HOLES, Y)
    model.save(tmp_path / "m.kweave")
    loaded = kernelweave.load(tmp_path / "m.kweave")
    new = HOLES[::-1] * 1.1
    np.testing.assert_array_equal(loaded.decision_function(new), model.decision_function(new))
    assert loaded.kernels.impute == "mean"


def test_onnx_graphs_fill_cells(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = MKLClassifier(KernelBank(views=VIEWS, impute="median")).fit(HOLES, Y)
    kernelweave.to_onnx(model, tmp_path / "m.onnx", double=True)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    new = np.vstack([HOLES[::-1] * 1.1, np.where(np.arange(6) < 3, np.nan, FULL[:1])])
    (found,) = session.run(None, {"X": new})
    expected = model.decision_function(new[:-1])
    np.testing.assert_allclose(found[:-1, 0], expected, rtol=1e-11, atol=1e-11)
    assert np.isnan(found[-1]).all()  # a graph cannot say what a row without the view gets


def test_rows_known_beforehand_may_have_gaps():
    labels = np.where(np.arange(N) < 30, Y, "?")
    bank = KernelBank(Linear(), impute="median")
    model = TransductiveMKLClassifier(bank, unlabeled="?").fit(HOLES, labels)
    plain = TransductiveMKLClassifier(KernelBank(Linear()), unlabeled="?")
    expected = plain.fit(by_hand("median", HOLES), labels).transduction_
    np.testing.assert_array_equal(model.transduction_, expected)
