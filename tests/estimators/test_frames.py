"""Frames as people have them: booleans, nullable dtypes, Arrow, polars; names included."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier, MKLClassifierCV

rng = np.random.default_rng(9)
N = 60
NUMBERS = {
    "age": rng.integers(20, 70, N),
    "smokes": rng.random(N) < 0.4,
    "dose": rng.normal(size=N).round(3),
}
PLAIN = np.column_stack([column.astype(float) for column in NUMBERS.values()])
Y = np.where(PLAIN[:, 2] + PLAIN[:, 1] > 0.3, "ill", "well")
NULLABLE = {"age": "Int32", "smokes": "boolean", "dose": "Float64"}


def polars_frame():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame({name: column.tolist() for name, column in NUMBERS.items()})


def arrow_frame():
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return pd.DataFrame(NUMBERS).convert_dtypes(dtype_backend="pyarrow")


FRAMES = {
    "numpy dtypes": lambda: pd.DataFrame(NUMBERS),
    "nullable dtypes": lambda: pd.DataFrame(NUMBERS).astype(NULLABLE),
    "small dtypes": lambda: pd.DataFrame(NUMBERS).astype({"age": "uint8", "dose": "float64"}),
    "objects": lambda: pd.DataFrame(NUMBERS).astype(object),
    "Arrow dtypes": arrow_frame,
    "polars": polars_frame,
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(
    "kernels",
    [None, KernelBank([Linear(), Gaussian()], {"person": ["age", "smokes"], "drug": "dose"})],
    ids=["default", "views by name"],
)
def test_a_frame_gives_the_model_of_its_numbers(frame, kernels):
    X = frame()
    model = MKLClassifier(kernels).fit(X, Y)
    by_position = kernels and KernelBank(kernels.kernels, {"person": [0, 1], "drug": 2})
    plain = MKLClassifier(by_position).fit(PLAIN, Y)
    assert model.feature_names_in_.tolist() == [*NUMBERS]
    assert np.array_equal(model.decision_function(X), plain.decision_function(PLAIN))
    assert model.weights_.tolist() == plain.weights_.tolist()


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_go_through_cross_validation(frame):
    expected = cross_val_score(MKLClassifier(), PLAIN, Y, cv=3)
    assert np.array_equal(cross_val_score(MKLClassifier(), frame(), Y, cv=3), expected)


@pytest.mark.parametrize("name", ["numpy dtypes", "nullable dtypes", "polars"])
def test_columns_in_another_order_are_refused(name):
    X = FRAMES[name]()
    model = MKLClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(X[["dose", "age", "smokes"]])


def test_a_missing_boolean_is_named():
    X = FRAMES["nullable dtypes"]()
    X.loc[3, "smokes"] = pd.NA
    with pytest.raises(ValueError, match=r"NaN.*column 'smokes' \(1 NaN\)"):
        MKLClassifier().fit(X, Y)


def test_booleans_as_an_array():
    flags = rng.random((N, 4)) < 0.5
    y = flags[:, 0] ^ flags[:, 1]
    model, same = MKLClassifier().fit(flags, y), MKLClassifier().fit(flags.astype(float), y)
    assert np.array_equal(model.decision_function(flags), same.decision_function(flags))
    assert model.classes_.dtype == bool and (model.predict(flags) == y).mean() > 0.9


@pytest.mark.parametrize("kind", [MKLClassifier, MKLClassifierCV])
def test_labels_of_rows_in_another_order_are_refused(kind):
    X = FRAMES["numpy dtypes"]()
    y = pd.Series(Y, index=X.index)
    model = kind()
    with pytest.raises(ValueError, match=r"another order.*y\.loc\[X\.index\]"):
        model.fit(X, y[::-1])
    plain = MKLClassifier().fit(X, Y)
    turned = MKLClassifier().fit(X, y[::-1].loc[X.index])
    assert turned.dual_coef_.tolist() == plain.dual_coef_.tolist()
