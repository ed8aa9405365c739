"""Model files of every format that was ever written: they load, and predict what they predicted."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from kernelweave import load, structures
from kernelweave.io import _registry, model_file

ZOO = Path(__file__).parent / "zoo"
FILES = sorted(ZOO.glob("format*/*.kweave"))


def rows_of(answer: dict[str, Any]) -> Any:
    """The rows that the model was asked about."""
    kind, rows = answer["kind"], answer["rows"]
    if kind == "table":
        return pd.DataFrame(rows, columns=answer["columns"]).infer_objects()
    if kind == "sparse":
        return csr_array(rows)
    if any(isinstance(cell, list) for row in rows for cell in row):  # graphs and trees
        return structures([tuples(row[0]) for row in rows])
    return np.array(rows, dtype=object if kind == "O" else None)


def tuples(cell: Any) -> Any:
    """Nested tuples, which JSON has as lists."""
    return tuple(map(tuples, cell)) if isinstance(cell, list) else cell


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_says_what_it_said(path: Path) -> None:
    answer = json.loads((path.parent / "answers.json").read_text())[path.stem]
    model, rows = load(path), rows_of(answer)
    if "weights" in answer:
        np.testing.assert_allclose(model.weights_, answer["weights"], rtol=1e-9)
        return
    values = getattr(model, "decision_function", model.predict)(rows)
    np.testing.assert_allclose(values, answer["values"], rtol=1e-9, atol=1e-9)
    if "probabilities" in answer:
        shares = model.predict_proba(rows)
        np.testing.assert_allclose(shares, answer["probabilities"], rtol=1e-9, atol=1e-9)
    else:  # as files have none that were written before there were some
        assert not hasattr(model, "predict_proba")
    predicted = model.predict(rows)
    if predicted.dtype.kind == "f":
        np.testing.assert_allclose(predicted, answer["predicted"], rtol=1e-9, atol=1e-9)
    else:
        assert predicted.tolist() == answer["predicted"]


def test_every_format_has_every_estimator_and_kernel() -> None:
    """``python tests/io/zoo/make.py`` makes the files of a new format, once."""
    assert {path.parent.name for path in FILES} == {
        f"format{version}" for version in range(1, model_file.VERSION + 1)
    }
    named: set[str] = set()
    for path in ZOO.glob(f"format{model_file.VERSION}/*.kweave"):
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read("manifest.json"))
        assert manifest["version"] == model_file.VERSION
        named |= {entry["class"] for entry in manifest["objects"] if "class" in entry}
    kernels = {name for name in _registry.CLASSES if name.startswith("kernels.")}
    curves = {name for name in _registry.CLASSES if name.startswith("Calibration")}
    assert named >= {*_registry.ESTIMATORS, *kernels, *curves} - {"kernels.FeatureKernel"}  # a base
