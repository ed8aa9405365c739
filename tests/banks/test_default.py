"""Scaling, and the default kernels."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers.small_table import NEW, X, quiet, rng
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier


def test_standard_scale():
    plain = quiet(KernelBank(Gaussian(1.0)), (X - X.mean(0)) / X.std(0))
    fitted = quiet(KernelBank(Gaussian(1.0), scale="standard"), X)
    np.testing.assert_allclose(
        fitted.cross(NEW, [1.0]), plain.cross((NEW - X.mean(0)) / X.std(0), [1.0]), rtol=1e-12
    )


def test_standard_scale_ignores_a_column_constant_in_training():
    wide, new = np.column_stack([X, np.full(15, 0.1)]), np.column_stack([NEW, rng.normal(size=5)])
    np.testing.assert_allclose(
        quiet(KernelBank(Gaussian(), scale="standard"), wide).cross(new, [1.0]),
        quiet(KernelBank(Gaussian(), scale="standard"), X).cross(NEW, [1.0]),
        rtol=1e-12,
    )
    with pytest.raises(ValueError, match="too large to standardize"):
        KernelBank(Gaussian(), scale="standard").fit(1e300 * X)


def test_default_bank_on_views():
    fitted = quiet(KernelBank(views={"body": [1, 2], "rest": [0, 3]}), X)
    assert fitted.names[0] == "Linear() on body"
    assert fitted.names[2] == "Gaussian(width=0.5×median) on body"
    assert set(fitted.views) == {"body", "rest"}
    assert len(fitted.names) == 10


def _linear_diagonals(bank, X, weights=None):
    """The diagonal of the linear kernel on each view."""
    fitted = bank.fit(X, sample_weight=weights)
    names = [fitted.names[number] for number in fitted.kept]
    return {
        name.removeprefix("Linear() on "): diagonal
        for name, diagonal in zip(names, fitted.stack.diagonals(), strict=True)
        if name.startswith("Linear()") and not name.endswith("scale")
    }


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_default_kernels_compare_directions_on_views_of_mostly_zeros(kind):
    counts = (rng.random((60, 20)) < 0.1) * rng.integers(1, 50, (60, 20))
    counts[:, 0] = rng.integers(1, 9, 60)  # no row without a count
    table = kind(np.hstack([counts, rng.normal(size=(60, 10))]))
    views = {"counts": slice(0, 20), "few": slice(1, 10), "numbers": slice(20, 30)}
    found = _linear_diagonals(KernelBank(views=views), table)
    np.testing.assert_allclose(found["counts"], 1.0)
    for name in ("few", "numbers"):
        assert found[name].mean() == pytest.approx(1.0)
        assert np.ptp(found[name]) > 0.1
    for plain in (KernelBank(views=views, normalize="trace"), KernelBank(Linear(), views)):
        assert np.ptp(_linear_diagonals(plain, table)["counts"]) > 0.1


def test_rows_that_count_twice_count_twice_among_the_zeros():
    table = np.eye(12)
    table[0] = 1.0  # 23 of 144 cells are filled; with this row six times, 83 of 204
    twice = np.where(np.arange(12) == 0, 6, 1)
    once = _linear_diagonals(KernelBank(), table)["all"]
    assert np.ptp(once) < 1e-9 < np.ptp(_linear_diagonals(KernelBank(), table, 1.0 * twice)["all"])


def test_default_bank_does_not_depend_on_units():
    bank = KernelBank(views={"body": [1, 2], "rest": [0, 3]})
    unit, shift = np.array([1e3, 1e-4, 1e-4, 1e3]), np.array([5.0, -1.0, 0.0, 1e3])
    one, other = quiet(bank, X), quiet(bank, X * unit + shift)
    weights = np.arange(1.0, 11.0)
    np.testing.assert_allclose(one.stack.combine(weights), other.stack.combine(weights), atol=1e-8)
    np.testing.assert_allclose(
        one.cross(NEW, weights), other.cross(NEW * unit + shift, weights), atol=1e-8
    )


def test_default_bank_on_a_raw_table_is_as_good_as_svc_on_a_scaled_one():
    data, y = load_breast_cancer(return_X_y=True)
    scaled = cross_val_score(make_pipeline(StandardScaler(), SVC()), data, y, cv=3).mean()
    scores = []
    for fold in range(3):
        test = np.arange(len(y)) % 3 == fold
        fitted = quiet(KernelBank(), data[~test])
        weights = np.full(fitted.m_all, 1 / fitted.m_all)
        model = SVC(kernel="precomputed").fit(fitted.stack.combine(weights), y[~test])
        scores.append(model.score(fitted.cross(data[test], weights), y[test]))
    assert np.mean(scores) > scaled - 0.01


def test_named_kernels_see_standardized_columns_unless_told_otherwise():
    """On raw columns the widest decides alone: 0.902 in the same cross-validation."""
    X, y = load_breast_cancer(return_X_y=True)
    scores = cross_val_score(MKLClassifier([Linear(), Gaussian()]), X, y, cv=3)
    assert scores.mean() >= 0.970


def test_one_number_for_all_columns():
    data = X * [1.0, 2.0, 3.0, 4.0] + 5.0
    fitted = quiet(KernelBank(Linear(), normalize=None, scale="common"), data)
    expected = data @ data.T / data.var(axis=0).mean()
    np.testing.assert_allclose(fitted.stack.combine([1.0]), expected, rtol=1e-10)
    flat = np.column_stack([data, np.zeros(15)])
    found = quiet(KernelBank(Linear(), scale="common"), flat).cross(flat, [1.0])
    expected = quiet(KernelBank(Linear(), scale="common"), data).cross(data, [1.0])
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_columns_that_may_share_a_unit_get_both_scales():
    """Ranges alike, deviations not, as of pixels; else only standardized columns."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 17, (200, 12)) * (rng.random((200, 12)) < np.geomspace(0.02, 1, 12))
    units = np.geomspace(1.0, 1e4, 12)
    both = quiet(KernelBank(), pixels)
    assert both.m_all == 10 and both.names[5] == "Linear() on all, common scale"
    alone = quiet(KernelBank(scale="common"), pixels)
    for m in range(5):
        found = both.stack.combine(np.eye(10)[5 + m])
        np.testing.assert_allclose(found, alone.stack.combine(np.eye(5)[m]), rtol=1e-12)
    assert quiet(KernelBank(), pixels * units).m_all == 5
    assert quiet(KernelBank(), rng.normal(size=(200, 12))).m_all == 5
    assert quiet(KernelBank(scale="standard"), pixels).m_all == 5
    assert quiet(KernelBank([Linear()]), pixels).m_all == 1


def test_digits_lose_nothing_by_the_default_scales():
    """Pixels of one class of digits against others: the raw columns are the better ones."""
    X, digit = load_digits(return_X_y=True)
    X, y = X[::3], digit[::3] < 5
    found, raw = (
        cross_val_score(MKLClassifier(KernelBank(scale=scale)), X, y, cv=3).mean()
        for scale in ("auto", None)
    )
    assert found >= raw - 0.003


def test_kernels_on_counts_see_them_unchanged():
    counts = np.random.default_rng(1).integers(0, 9, (15, 4))
    auto, raw = (quiet(KernelBank("chi2", scale=scale), counts) for scale in ("auto", None))
    np.testing.assert_array_equal(auto.stack.combine([1.0]), raw.stack.combine([1.0]))
