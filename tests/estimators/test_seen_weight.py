"""Rows whose views carry next to none of the weight are told: their predictions say nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kernelweave
from kernelweave import KernelBank, Linear, MKLClassifier, MKLClassifierCV, MKLRegressor

rng = np.random.default_rng(3)
VIEWS = {"genes": [0, 1, 2], "lipids": [3, 4]}
Y = np.repeat([0, 1], 20)
X = rng.normal(size=(40, 5))
X[:, :3] += 3.0 * (2.0 * Y - 1.0)[:, None]  # genes tell the classes, lipids nothing
NEW = rng.normal(size=(12, 5))
BANK = KernelBank(Linear(), VIEWS, "center+trace")


def without(X, *columns, rows=slice(None)):
    table = X.copy()
    for column in columns:
        table[rows, column] = np.nan
    return table


@pytest.fixture(scope="module")
def model():
    return MKLClassifier(BANK).fit(X, Y)


def told(model, rows, ask="predict"):
    """The warnings of one call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(model, ask)(rows)
    return [str(one.message) for one in caught]


def test_predictions_without_the_view_that_has_the_weight_are_told(model):
    assert model.weights_[0] > 0.99
    blind = without(NEW, *VIEWS["genes"])
    assert np.unique(model.decision_function(NEW)).size == 12
    with pytest.warns(UserWarning, match=r"12 of 12 rows of X .*less than 5 %.*the first is row 0"):
        values = model.decision_function(blind)
    assert np.ptp(values) < 1e-2  # they say nothing
    for ask in ("predict", "decision_function"):
        assert len(told(model, blind, ask)) == 1
        assert not told(model, NEW, ask)
    few = without(NEW, *VIEWS["genes"], rows=[4, 7])
    (line,) = told(model, few)
    assert line.startswith("2 of 12 rows") and "row 4" in line and "seen_weight" in line
    assert not told(model, without(NEW, *VIEWS["lipids"]))


def test_the_share_of_each_row(model):
    rows = without(NEW, *VIEWS["genes"], rows=[0, 1])
    rows = without(rows, *VIEWS["lipids"], rows=[1, 2])
    seen = model.seen_weight(rows)
    genes = model.weights_[0] / model.weights_.sum()
    np.testing.assert_allclose(seen[:3], [1.0 - genes, 0.0, genes], atol=1e-15)
    assert (seen[3:] == 1.0).all() and seen[1] == 0.0


def test_machines_with_weights_of_their_own_count_alike():
    three = np.arange(40) % 3
    model = MKLClassifier(BANK, shared_weights=False).fit(X, three)
    shares = model.weights_[:, 0] / model.weights_.sum(axis=1)
    seen = model.seen_weight(without(NEW, *VIEWS["lipids"]))
    np.testing.assert_allclose(seen, shares.mean())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_estimator_has_it(model, tmp_path):
    blind = without(NEW, *VIEWS["genes"])
    numbers = MKLRegressor(BANK).fit(X, X[:, 0])
    chosen = MKLClassifierCV(BANK, Cs=[1.0], weight_norms=[1], cv=2).fit(X, Y)
    model.save(tmp_path / "m.kweave")
    for one in (numbers, chosen, kernelweave.load(tmp_path / "m.kweave")):
        assert (one.seen_weight(NEW) == 1.0).all()
        assert one.seen_weight(blind).max() < 0.05
        assert len(told(one, blind)) == 1


def test_who_has_a_view_is_seen_even_of_rows_that_lack_it():
    """The kernel on presence reads every row."""
    bank = KernelBank(Linear(), VIEWS, "center+trace", missing="indicator")
    gaps = without(X, *VIEWS["genes"], rows=slice(0, 30, 3))
    model = MKLClassifier(bank).fit(gaps, Y)
    presence = model.weights_[[name.startswith("has ") for name in model.kernel_names_]].sum()
    lipids = model.weights_[[view == "lipids" for view in model.bank_.views]].sum()
    seen = model.seen_weight(without(NEW, *VIEWS["genes"]))
    np.testing.assert_allclose(seen, (presence + lipids) / model.weights_.sum())


def test_without_weights_nothing_is_amiss():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        constant = MKLRegressor(BANK).fit(X, np.zeros(40))
    assert (constant.seen_weight(NEW) == 1.0).all()
