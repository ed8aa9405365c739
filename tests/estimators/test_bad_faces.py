"""Bad input to many classes, regression, one class and weights: the argument and the remedy."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from kernelweave import BagOfWords, MKLClassifier, MKLOneClass, MKLRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
Y = np.arange(30) % 3
VALUE = X[:, 0]
WEIGHTS = np.ones(30)
TEXT = np.array([["red green"], ["green blue"]] * 15, dtype=object)


def spoilt(values, value, dtype=float):
    copy = np.array(values, dtype=dtype)
    copy[3] = value
    return copy


@pytest.mark.parametrize(
    ("model", "y", "weights", "message"),
    [
        (MKLClassifier(), VALUE, None, "y holds numbers with fractions.*use MKLRegressor"),
        (MKLClassifier(multi_class="ova"), Y, None, r"multi_class must be one of \['ovr', 'ovo'\]"),
        (MKLClassifier(multi_class=None), Y, None, "multi_class must be one of .* found None"),
        (MKLClassifier(shared_weights="no"), Y, None, "shared_weights must be True or False"),
        (
            MKLClassifier(loss="squared"),
            Y,
            None,
            "loss must be one of .*_hinge'.*'squared'",
        ),
        (
            MKLClassifier(learner="skm"),
            Y,
            None,
            "Skm.*3 classes. Set shared_weights=False",
        ),
        (MKLClassifier(recenter="no"), Y, None, "recenter must be True or False, found 'no'"),
        (MKLRegressor(recenter="no"), VALUE, None, "recenter must be True or False, found 'no'"),
        (MKLClassifier(class_weight="even"), Y, None, "class_weight must be None, 'balanced' or a"),
        (MKLClassifier(class_weight=[1, 2, 3]), Y, None, r"class_weight .*dict.*found \[1, 2, 3\]"),
        (
            MKLClassifier(class_weight={"a": 2.0}),
            Y,
            None,
            "no class 'a' to weigh: the classes",
        ),
        (MKLClassifier(class_weight={0: -1.0}), Y, None, r"class_weight\[0\] must be positive"),
        (MKLClassifier(class_weight={0: "x"}), Y, None, r"class_weight\[0\] must be a positive fl"),
        (
            MKLClassifier(C="learn", loss="squared_hinge", class_weight="balanced"),
            Y,
            None,
            "class_weight multiplies C, which C='learn' learns: give C as a number",
        ),
        (MKLClassifier(), Y, WEIGHTS[:-1], r"sample_weight must have shape \(30,\), found \(29,\)"),
        (MKLClassifier(), Y, spoilt(WEIGHTS, -1.0), "sample_weight must be nonnegative, found -1"),
        (MKLClassifier(), Y, spoilt(WEIGHTS, np.nan), "sample_weight must be finite, found NaN"),
        (MKLClassifier(), Y, ["1"] * 30, "sample_weight must hold real numbers, found strings"),
        (MKLClassifier(), Y, 0.0 * WEIGHTS, "sample_weight: all weights are zero.*positive weight"),
        (MKLClassifier(), Y, 1.0 * (Y == 2), "only one class, 2;.*sample_weight 0.*MKLOneClass"),
        (MKLRegressor(), ["a"] * 30, None, "y must hold real numbers(.|\n)*use MKLClassifier"),
        (MKLRegressor(), VALUE[:-1], None, "X has 30 rows, but y has 29 labels"),
        (MKLRegressor(), spoilt(VALUE, np.nan), None, "Input y contains NaN"),
        (MKLRegressor(), spoilt(VALUE, np.inf), None, r"Input y contains infinity.* row \d+; clip"),
        (MKLRegressor(), np.ones((30, 2, 2)), None, r"y must have shape \(n,\), or \(n, k\)"),
        (MKLRegressor(), spoilt(VALUE, 1e308) * 1.7, None, "y: values too large to standardize"),
        (MKLRegressor(), spoilt(0.0 * VALUE, 5e-324), None, "y: values too small to standardize"),
        (MKLRegressor(), np.ma.masked_less(VALUE, 0), None, r"masked array; .* out of X and y\.$"),
        (MKLRegressor(), None, None, "requires y to be passed, but the target y is None"),
        (MKLRegressor(loss="hinge"), VALUE, None, r"loss must be one of \['epsilon_ins.*'hinge'"),
        (MKLRegressor(C="learn"), VALUE, None, "C must be a number, found 'learn'"),
        (MKLRegressor(C=-1.0), VALUE, None, "C must be positive, found -1"),
        (MKLRegressor(epsilon=-0.1), VALUE, None, "epsilon must be .*-0.1"),
        (MKLRegressor(loss="quantile", quantile=1.5), VALUE, None, "quantile must .*1.5"),
        (
            MKLRegressor(learner="radius"),
            VALUE,
            None,
            "does not go with loss='epsilon_ins",
        ),
        (MKLRegressor(learner="skm"), X, None, "y has 2 targets: set shared_weights=False"),
        (MKLOneClass(nu=0), None, None, "nu must be above 0 and at most 1, .*found 0"),
        (MKLOneClass(learner="sdp"), None, None, "learn.*signed|does not go with"),
    ],
)
def test_refused(model, y, weights, message):
    with pytest.raises((TypeError, ValueError)) as told:
        model.fit(X, y, sample_weight=weights)
    whole = "\n".join([str(told.value), *getattr(told.value, "__notes__", [])])
    assert re.search(message, whole), whole
    assert not hasattr(model, "bank_")


def test_texts_refuse_weights_of_rows_but_not_of_classes():
    y = np.arange(30) % 2
    with pytest.raises(ValueError, match=r"BagOfWords.*cannot weigh them: leave sample_weight out"):
        MKLClassifier([BagOfWords()]).fit(TEXT, y, sample_weight=1.0 + y)
    MKLClassifier([BagOfWords()], class_weight="balanced").fit(TEXT, y)


def test_bad_new_rows():
    for model in (MKLRegressor().fit(X, VALUE), MKLOneClass().fit(X)):
        name = type(model).__name__
        with pytest.raises(ValueError, match=f"X has 3 features, but {name} is expecting 2"):
            model.predict(np.ones((4, 3)))
        with pytest.raises(ValueError, match="Input X contains NaN"):
            model.predict([[np.nan, 1.0]])
        frame = pd.DataFrame(X, columns=["a", "b"])
        model.fit(frame, VALUE)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame.rename(columns={"a": "c"}))
