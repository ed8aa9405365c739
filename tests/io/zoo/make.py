"""Make the model files of a format: one small file per estimator and kernel family.

    python tests/io/zoo/make.py tests/io/zoo/format1

Files that are there stay as they are, for ever; a new estimator or kernel gets one beside them, and
``tests/io/test_zoo.py`` loads them all. ``answers.json`` holds rows and what each model says
of them.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from kernelweave import (
    ConsensusKernel,
    Gaussian,
    GaussianRange,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLKernelKMeans,
    MKLRegressor,
    PolynomialWidths,
)
from kernelweave.kernels.differentiable import GaussianWidths

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
from test_model_file import BANKS, ESTIMATORS, LETTERS, X, Y, three  # noqa: E402

HOLES = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
GONE = np.where(np.arange(len(X))[:, None] % 5 + [0, 1, 1] == 0, np.nan, X)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=LETTERS[:, 0])
BOTH = [Gaussian(1.0), Linear()]
OPEN = np.stack([X[:, 1], np.where(np.arange(len(X)) % 3, X[:, 1], np.inf)], axis=1)
MORE = {
    "pairs": lambda: MKLClassifier(BOTH, multi_class="ovo").fit(X, three(X[:, 0])),
    "own weights": lambda: MKLClassifier(BOTH, shared_weights=False).fit(X, three(X[:, 0])),
    "widths": lambda: MKLClassifier([GaussianWidths(1.0)]).fit(X, Y),
    "polynomial widths": lambda: MKLClassifier([PolynomialWidths(2, 2.0, True)]).fit(X, Y),
    "range": lambda: MKLClassifier([GaussianRange()]).fit(X, Y),
    "filled": lambda: MKLClassifier(KernelBank(BOTH, impute="median")).fit(HOLES, Y),
    "missing views": lambda: MKLClassifier(KernelBank(BOTH, {"a": [0], "b": [1, 2]})).fit(GONE, Y),
    "table": lambda: MKLClassifier().fit(FRAME, Y),
    "epsilon": lambda: MKLRegressor(BOTH, loss="epsilon_insensitive").fit(X, X[:, 1]),
    "quantile": lambda: MKLRegressor(BOTH, loss="quantile", quantile=0.7).fit(X, X[:, 1]),
    "interval": lambda: MKLRegressor(BOTH, loss="interval").fit(X, OPEN),
    "several targets": lambda: MKLRegressor(BOTH).fit(X, X[:, 1:]),
    "probabilities": lambda: MKLClassifier(BOTH, calibration="sigmoid").fit(X, Y),
    "probabilities of pairs": lambda: MKLClassifier(
        BOTH, calibration="isotonic", multi_class="ovo"
    ).fit(X, three(X[:, 0])),
    "probabilities by temperature": lambda: MKLClassifierCV(
        BOTH, Cs=[1.0], calibration="temperature"
    ).fit(X, three(X[:, 0])),
    "clusters": lambda: MKLKernelKMeans(2, random_state=0).fit(X),
    "consensus": lambda: ConsensusKernel(BOTH).fit(X),
}
SEEN = {"filled": HOLES, "missing views": GONE, "table": FRAME}


def plain(rows: Any) -> dict[str, Any]:
    """A few rows as JSON has them."""
    few = rows[:5]
    if isinstance(few, pd.DataFrame):
        return {"kind": "table", "columns": list(few), "rows": few.to_numpy().tolist()}
    if issparse(few):
        return {"kind": "sparse", "rows": few.toarray().tolist()}
    return {"kind": str(few.dtype.kind), "rows": few.tolist()}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    models = {
        name: lambda bank=bank: MKLClassifier(bank[0]).fit(bank[1], Y)
        for name, bank in BANKS.items()
    }
    told = folder / "answers.json"
    answers = json.loads(told.read_text()) if told.exists() else {}
    models |= ESTIMATORS | MORE
    for name in models.keys() - answers.keys():
        rows = BANKS[name][1] if name in BANKS else SEEN.get(name, X)
        model = models[name]()
        model.save(folder / f"{name}.kweave")
        if not hasattr(model, "predict"):
            answers[name] = {**plain(rows), "weights": model.weights_.tolist()}
            continue
        values = getattr(model, "decision_function", model.predict)(rows[:5])
        answers[name] = {**plain(rows), "values": values.tolist()}
        answers[name]["predicted"] = model.predict(rows[:5]).tolist()
        if hasattr(model, "predict_proba"):
            answers[name]["probabilities"] = model.predict_proba(rows[:5]).tolist()
    told.write_text(json.dumps(answers, indent=0))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
