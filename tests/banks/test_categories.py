"""Categories and strings: the Hamming kernel, and views of mixed columns."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from _helpers.small_table import X, quiet
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from kernelweave import Gaussian, Hamming, KernelBank, Linear, MKLClassifier, Precomputed

rng = np.random.default_rng(3)
CITY, GRADE, SICK = rng.choice([*"abc"], 15), rng.integers(1, 4, 15), rng.random(15) > 0.5
FRAME = pd.DataFrame(
    {
        "age": X[:, 0],
        "city": CITY,
        "dose": X[:, 1],
        "grade": pd.Categorical(GRADE),
        "sick": SICK,
    }
)


def agreement(*pairs):
    return np.mean([np.equal.outer(a, b) for a, b in pairs], axis=0)


def test_the_share_of_columns_that_agree():
    words = np.column_stack([CITY, CITY[::-1], rng.choice([*"xy"], 15)]).astype(object)
    new = np.array([["a", "b", "x"], ["a", "never", "y"], ["never", "seen", "before"]], object)
    expected = agreement(*((column, column) for column in words.T))
    crossed = agreement(*zip(new.T, words.T, strict=True))
    for table, rows in ((words, new), (words.astype(str), new.astype(str)), (words.tolist(), new)):
        fitted = quiet(KernelBank(Hamming(), normalize=None), table)
        np.testing.assert_allclose(fitted.stack.combine([1.0]), expected, rtol=1e-15)
        np.testing.assert_allclose(fitted.cross(rows, [1.0]), crossed, rtol=1e-15)
    sphere = quiet(KernelBank(Hamming(), normalize="sphere"), words)
    np.testing.assert_allclose(sphere.cross(new, [1.0]), crossed, rtol=1e-15)
    cubed = quiet(KernelBank(Hamming(3), normalize=None), words)
    np.testing.assert_allclose(cubed.cross(new, [1.0]), crossed**3, rtol=1e-14)
    for K in (expected, expected**3):
        assert np.linalg.eigvalsh(K)[0] > -1e-12
    assert clone(Hamming(2)) == Hamming(2) and repr(Hamming()) == "Hamming()"
    with pytest.raises(ValueError, match="Hamming: degree must be positive, found 0"):
        KernelBank(Hamming(0)).fit(words)


def test_numbers_are_levels_if_asked():
    codes = GRADE[:, None].astype(float)
    fitted = quiet(KernelBank(Hamming(), normalize=None), codes)
    np.testing.assert_array_equal(fitted.stack.combine([1.0]), agreement((GRADE, GRADE)))


def test_the_default_bank_splits_by_dtype():
    fitted = quiet(KernelBank(), FRAME)
    assert fitted.names[5:] == ("Hamming() on all", "Hamming(degree=2) on all")
    assert set(fitted.views) == {"all"}
    numbers = quiet(KernelBank(), FRAME[["age", "dose", "sick"]])
    assert numbers.names == fitted.names[:5]
    for m in range(5):
        weights = np.eye(7)[m]
        found = fitted.stack.combine(weights)
        np.testing.assert_allclose(found, numbers.stack.combine(weights[:5]), rtol=1e-12)
    expected = agreement((CITY, CITY), (GRADE, GRADE))
    np.testing.assert_allclose(fitted.stack.combine(np.eye(7)[5]), expected, rtol=1e-15)
    np.testing.assert_allclose(fitted.stack.combine(np.eye(7)[6]), expected**2, rtol=1e-15)
    each = quiet(KernelBank(views="each"), FRAME)
    assert [name for name in each.names if "Hamming" in name] == [
        "Hamming() on city",
        "Hamming() on grade",
    ]


def test_named_kernels_share_the_columns_of_a_mixed_view():
    fitted = quiet(KernelBank([Linear(), Hamming(), lambda A, B: np.ones((len(A), len(B)))]), FRAME)
    assert [len(member.view.columns) for member in fitted.members] == [3, 2, 5]
    with pytest.raises(ValueError, match=r"Column 'city' of X .*add Hamming\(\) to the kernels"):
        KernelBank([Linear(), Gaussian()]).fit(FRAME)
    both = quiet(KernelBank([Linear(), Hamming()]), FRAME[["age", "dose"]])
    assert [member.view.columns for member in both.members] == [(0, 1), (0, 1)]


def test_a_level_not_seen_in_fit_matches_none_and_pipelines_work():
    y = (CITY == "a") | (X[:, 0] > 1)
    model = make_pipeline(MKLClassifier(C=10.0)).fit(FRAME, y)
    assert model.score(FRAME, y) == 1.0
    new = FRAME.assign(city="never", grade=pd.Categorical([9] * 15))
    used = ["Hamming" in name for name in model[-1].kernel_names_]
    weights = np.where(used, model[-1].weights_, 0.0)
    assert weights.any() and not model[-1].bank_.cross(new, weights).any()


def test_levels_of_another_type_are_told_once():
    codes = pd.DataFrame({"ward": [1, 2, 3] * 5}).astype("category")
    fitted = KernelBank(Hamming()).fit(codes)
    read = pd.DataFrame({"ward": ["1", "2", "3"]})
    with pytest.warns(UserWarning, match=r"'ward'.* had float such as 1.0; found str such as '1'"):
        assert not fitted.cross(read, [1.0]).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.cross(read.astype(int), [1.0])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([f"p{i}" for i in range(15)], r"Column 'new' of X has 15 different strings.*astype\('cat"),
        (["same"] * 7 + [f"text {i}" for i in range(8)], r"9 different strings in 15.*BagOfWords"),
        ([f"{i}.5" for i in range(15)], r"'new' of X does not hold numbers.*pd\.to_numeric"),
        ([{"a": 1}] * 15, "Column 'new' of X does not hold numbers"),
        (["a", None] + ["b"] * 13, r"NaN or None in column 'new' \(1\).*impute=.*missing"),
    ],
)
def test_strings_that_are_no_categories(column, message):
    with pytest.raises((ValueError, TypeError), match=message):
        KernelBank().fit(FRAME.assign(new=column))


def test_half_of_them_different_is_a_category_and_declared_ones_always_are():
    quiet(KernelBank(), FRAME.assign(new=[*"abcdefgabcdefga"]))
    ids = pd.Categorical([f"p{i}" for i in range(15)])
    assert quiet(KernelBank(), FRAME.assign(new=ids)).m_all == 7


@pytest.mark.parametrize("kernels", [None, [Linear(), Hamming()], Hamming()])
def test_tags_of_categories(kernels):
    tags = MKLClassifier(kernels).__sklearn_tags__().input_tags
    assert tags.string and tags.categorical
    tags = MKLClassifier([Linear(), Precomputed(np.eye(3))]).__sklearn_tags__().input_tags
    assert not tags.string and not tags.categorical


def test_rows_may_lack_categories():
    views = {"numbers": ["age", "dose"], "words": ["city", "grade"]}
    gappy = FRAME.copy()
    gappy.loc[[2, 5], ["city", "grade"]] = None
    fitted = quiet(KernelBank(views=views, normalize="center+trace"), gappy)
    K = fitted.stack.combine(np.eye(7)[5])
    assert not K[[2, 5]].any() and K[0].any()


def test_booleans_and_nullable_types_are_numbers():
    plain = FRAME[["age", "dose", "sick"]]
    expected = quiet(KernelBank(), plain).stack.combine(np.ones(5))
    nullable = plain.astype({"age": "Float64", "dose": "Float32", "sick": "boolean"})
    np.testing.assert_allclose(
        quiet(KernelBank(), nullable).stack.combine(np.ones(5)), expected, 1e-6
    )
    model = MKLClassifier().fit(nullable, SICK)
    assert list(model.feature_names_in_) == ["age", "dose", "sick"]
    counts = pd.DataFrame({"n": pd.array([*range(14), None], dtype="Int64"), "x": X[:, 0]})
    with pytest.raises(ValueError, match=r"column 'n' \(1 NaN\)"):
        KernelBank().fit(counts)


def test_polars_frames():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {"age": X[:, 0], "city": CITY, "dose": X[:, 1], "grade": GRADE.astype(str), "sick": SICK}
    )
    found = quiet(KernelBank(), frame.with_columns(pl.col("city").cast(pl.Categorical)))
    np.testing.assert_allclose(
        found.stack.combine(np.ones(7)), quiet(KernelBank(), FRAME).stack.combine(np.ones(7))
    )
    model = MKLClassifier().fit(frame, SICK)
    assert list(model.feature_names_in_) == frame.columns
    assert model.predict(frame).shape == (15,)
