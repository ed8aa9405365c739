"""Tables that people have, and what is wrong with them: each error names it and says what to do."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from kernelweave import Gaussian, KernelBank, Laplacian, Linear, MKLClassifier, join_views

rng = np.random.default_rng(4)
N = 12
Y = np.arange(N) % 2
FRAME = pd.DataFrame(
    {"age": rng.normal(size=N), "dose": rng.normal(size=N), "city": [*"abc"] * 4},
    index=[f"p{i}" for i in range(N)],
)
NUMBERS = FRAME[["age", "dose"]]
VIEWS = {"first": ["age"], "second": ["dose"]}


def fit(data, kernels=None, **options):
    return lambda: MKLClassifier(KernelBank(kernels, **options)).fit(data, Y)


def gap(*columns, frame=NUMBERS, rows=(3,)):
    frame = frame.copy()
    frame.iloc[list(rows), [frame.columns.get_loc(column) for column in columns]] = None
    return frame


BAD = {
    "dict": (
        fit({"a": NUMBERS, "b": FRAME}),
        TypeError,
        ["one table", "'a', 'b'", "join_views(X)"],
    ),
    "list of frames": (fit([NUMBERS, FRAME]), TypeError, ["of data frames", "join_views(X)"]),
    "no view left": (
        fit(gap("age", "dose"), views=VIEWS),
        ValueError,
        ["lack every view", "row 3"],
    ),
    "gap in a view": (
        fit(gap("age")),
        ValueError,
        ["'age' (1 NaN)", 'finite values: KernelBank(impute="median")'],
    ),
    "gap, refused": (
        fit(gap("age"), views=VIEWS, missing="error"),
        ValueError,
        ["'age' (1 NaN)", 'KernelBank has missing="error"', 'missing="mean" allows'],
    ),
    "gap beside words": (
        fit(gap("age", frame=FRAME)),
        ValueError,
        ["'age' (1 NaN)", 'finite values: KernelBank(impute="median")'],
    ),
    "infinity": (
        fit(NUMBERS.assign(age=np.inf)),
        ValueError,
        ["infinity", "X.replace([np.inf, -np.inf], np.nan); or drop"],
    ),
    "infinity in an array": (
        fit(np.full((N, 2), np.inf)),
        ValueError,
        ["np.clip(X, low, high); or drop"],
    ),
    "constant": (
        fit(NUMBERS * 0.0),
        ValueError,
        ["No kernel is left on these 12 rows", "more: its columns are constant", "values differ"],
    ),
    "negated matrix": (
        lambda: MKLClassifier("precomputed").fit([-np.eye(N)], Y),
        ValueError,
        ["; if negative eigenvalues come", 'Precomputed(K, indefinite="clip")', "row numbers as X"],
    ),
    "repeated columns": (
        lambda: join_views([NUMBERS, FRAME[["age", "age"]]]),
        ValueError,
        ["'view2'", "1 columns", "'age'", "frame.loc[:, ~frame.columns.duplicated()]"],
    ),
    "columns of one name": (
        lambda: join_views({"a": NUMBERS.add_prefix("b__"), "a__b": NUMBERS}),
        ValueError,
        ["'a' and 'a__b'", "'a__b__age'", "Rename"],
    ),
    "gap in words": (
        fit(gap("city", frame=FRAME[["age", "city"]].assign(b=[*"xy"] * 6)), views="all"),
        ValueError,
        ["'city' (1)", 'KernelBank(impute="median")', "X.fillna"],
    ),
    "missing=": (fit(NUMBERS, missing="drop"), ValueError, ["missing must be", "'drop'", "'mean'"]),
    "scale=": (fit(NUMBERS, scale="robust"), ValueError, ["scale must be", "'robust'", "'common'"]),
    "scale of sparse": (
        fit(csr_array(np.eye(N)), scale="common"),
        ValueError,
        ["'common'", "MaxAbs"],
    ),
    "ids": (
        fit(FRAME.assign(id=FRAME.index)),
        ValueError,
        ["'id'", "12 different", "leave it out"],
    ),
    "numbers as text": (
        fit(NUMBERS.astype(str)),
        ValueError,
        ["'age'", "strings", "pd.to_numeric"],
    ),
    "objects": (fit(FRAME.assign(o=[{}] * N)), TypeError, ["'o'", "own kernel"]),
    "words, no kernel": (fit(FRAME, [Linear()]), ValueError, ["'city'", "Hamming()"]),
    "dates": (
        fit(NUMBERS.assign(t=pd.Timestamp("2020"))),
        TypeError,
        ["'t'", "encode it as numbers"],
    ),
    "wildcard": (fit(NUMBERS, views={"a": "gen*"}), ValueError, ["view 'a'", "'gen*'", "'age'"]),
    "name": (fit(NUMBERS, views={"a": "agee"}), ValueError, ["view 'a'", "'agee'", "did you mean"]),
    "function": (
        fit(NUMBERS.to_numpy(), views={"a": lambda X: [0]}),
        ValueError,
        ["view 'a'", "needs a pandas DataFrame", "positions"],
    ),
    "gamma": (lambda: Gaussian(gamma=0.5), TypeError, ["gamma", "width=(2γ)**-0.5"]),
    "gamma, l1": (lambda: Laplacian(gamma=0.5), TypeError, ["gamma", "width=1/γ"]),
    "one argument": (fit(NUMBERS, lambda A: A @ A.T), TypeError, ["f(A, B)", "functools.partial"]),
    "pair by pair": (
        fit(NUMBERS, lambda a, b: float(a[0] @ b[0])),
        ValueError,
        ["returned float", "(12, 12)", "not with one pair"],
    ),
    "repeated ids": (
        lambda: join_views([NUMBERS, pd.concat([FRAME, FRAME[:1]])]),
        ValueError,
        ["'view2'", "1 ids", "'p0'", "duplicated()"],
    ),
    "other ids": (
        lambda: join_views([NUMBERS, FRAME.reset_index(drop=True)]),
        ValueError,
        ["'view2'", "no id in common", "set_index"],
    ),
    "rows of arrays": (
        lambda: join_views([np.ones((3, 1)), np.ones((4, 1))]),
        ValueError,
        ["'view1': 3, 'view2': 4", "index names the rows"],
    ),
    "numbers as y": (
        lambda: MKLClassifier().fit(NUMBERS, NUMBERS["age"]),
        ValueError,
        ["MKLRegressor"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_the_error_names_what_is_wrong_and_what_to_do(name):
    call, error, words = BAD[name]
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert re.search(re.escape(word), str(caught.value)), str(caught.value)
