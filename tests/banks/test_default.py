"""Scaling, and the default kernels."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers.small_table import NEW, X, quiet, rng
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernelweave import Gaussian, KernelBank


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
