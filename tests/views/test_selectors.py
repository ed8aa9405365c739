"""Columns by dtype, function, wildcard and level of a MultiIndex; each survives what models do."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from _helpers.small_table import X, quiet
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier

FRAME = pd.DataFrame(X, columns=["gene__a", "gene__b", "lipid__a", "lipid__b"])
TYPED = FRAME.round().astype({"gene__b": "float32", "lipid__a": "Int64", "lipid__b": bool})
TWO_LEVELS = FRAME.set_axis(pd.MultiIndex.from_product([["gene", "lipid"], ["a", "b"]]), axis=1)
Y = np.arange(15) % 2


def columns(selector, frame):
    bank = KernelBank(("one", Linear(), selector), normalize=None)
    return quiet(bank, frame).members[0].view.columns


@pytest.mark.parametrize(
    ("selector", "frame", "expected"),
    [
        ("gene__*", FRAME, (0, 1)),
        ("*__a", FRAME, (0, 2)),
        (["lipid__?", "gene__a"], FRAME, (2, 3, 0)),
        (slice("gene__b", "lipid__a"), FRAME, (1, 2)),
        (make_column_selector("^lipid"), FRAME, (2, 3)),
        (make_column_selector(dtype_include=bool), TYPED, (3,)),
        (lambda frame: frame.columns.str.endswith("b"), FRAME, (1, 3)),
        (lambda frame: [0, 3], FRAME, (0, 3)),
        (bool, TYPED, (3,)),
        (np.float32, TYPED, (1,)),
        (np.number, TYPED, (0, 1, 2)),
        (pd.Int64Dtype(), TYPED, (2,)),
        ("gene", TWO_LEVELS, (0, 1)),
        (("lipid", "b"), TWO_LEVELS, (3,)),
        ([("lipid", "b"), "gene"], TWO_LEVELS, (3, 0, 1)),
    ],
)
def test_selectors(selector, frame, expected):
    assert columns(selector, frame) == expected


@pytest.mark.parametrize(
    ("selector", "data", "message"),
    [
        ("protein__*", FRAME, r"kernel 'one': no column of X matches 'protein__\*'"),
        (make_column_selector("^protein"), FRAME, "no column is selected"),
        (
            lambda: 3,
            FRAME,
            "kernel 'one': the function .* is called with X and must return columns",
        ),
        (lambda X: None, FRAME, "kernel 'one', by the function .* columns must be .* found None"),
        (make_column_selector("^gene"), X, "function .* needs a pandas DataFrame; give names or"),
        (bool, X, "dtype bool, which needs a pandas DataFrame"),
        (("lipid", "c"), TWO_LEVELS, r"no column named \('lipid', 'c'\)"),
        ("gene__*", X, "X has no column names; pass a pandas DataFrame, or give positions"),
        (["gene__*", "gene__a"], FRAME, "names a column twice"),
    ],
)
def test_selectors_that_find_nothing(selector, data, message):
    with pytest.raises((TypeError, ValueError), match=message):
        columns(selector, data)


@pytest.mark.parametrize(
    "views",
    [
        {"gene": "gene__*", "lipid": "lipid__*"},
        {"gene": make_column_selector("^gene"), "lipid": make_column_selector("^lipid")},
        {"first": slice("gene__a", "gene__b"), "rest": slice("lipid__a", None)},
    ],
)
def test_selectors_survive_search_pipelines_and_pickles(views):
    model = MKLClassifier(KernelBank(Linear(), views))
    scores = cross_val_score(model, FRAME, Y, cv=3, error_score="raise")
    assert scores.shape == (3,)
    scaled = make_pipeline(StandardScaler().set_output(transform="pandas"), clone(model))
    search = GridSearchCV(scaled, {"mklclassifier__C": [0.1, 1.0]}, cv=3, error_score="raise")
    search.fit(FRAME, Y)
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(FRAME), search.predict(FRAME))
    by_position = MKLClassifier(KernelBank(Linear(), {"a": [0, 1], "b": [2, 3]})).fit(FRAME, Y)
    found = clone(model).fit(FRAME, Y)
    np.testing.assert_array_equal(found.weights_, by_position.weights_)
    assert found.bank_.table.source is None


@pytest.mark.parametrize(
    "bank",
    [
        KernelBank(Linear(), {"gene": "gene__*", "lipid": ["lipid__a", "lipid__b"]}),
        KernelBank(None, {"gene": make_column_selector("^gene"), "rest": slice("lipid__a", None)}),
        KernelBank([("gene", Gaussian(), "gene__*"), ("b", Linear(), "lipid__b"), Linear()]),
        KernelBank(Linear(), {"numbers": float}, normalize="center+trace"),
        KernelBank(Linear(), views="each"),
    ],
    ids=["names", "functions", "own columns", "dtype", "each"],
)
def test_banks_by_position_survive_wrappers_that_strip_names(bank):
    placed = bank.by_position(FRAME)
    y = np.arange(len(FRAME)) % 3
    wrapped = OneVsOneClassifier(MKLClassifier(placed))
    grid = {"estimator__C": [0.1, 1.0]}
    search = GridSearchCV(wrapped, grid, cv=2, error_score="raise").fit(FRAME, y)
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(FRAME), search.predict(FRAME))
    named, stripped = bank.fit(FRAME), placed.fit(FRAME.to_numpy())
    for kernel in range(named.stack.m):
        blocks = (fit.stack.block(kernel, slice(None), slice(None)) for fit in (named, stripped))
        np.testing.assert_array_equal(*blocks)
    assert repr(placed.by_position(FRAME)) == repr(placed)


def test_banks_by_position_of_levels():
    placed = KernelBank(Linear(), {"gene": "gene", "b": [("lipid", "b")]}).by_position(TWO_LEVELS)
    assert placed.views == {"gene": [0, 1], "b": [3]}


def test_a_bank_by_position_needs_the_columns_it_names():
    with pytest.raises(ValueError, match="kernel 'a': X has no column named 'protein'"):
        KernelBank([("a", Linear(), "protein")]).by_position(FRAME)
