"""Small models of every kind, and new rows for each: for files that are damaged on purpose."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from benchmarks.harness.internals import EigenvectorKernels
from kernelweave import (
    BagOfWords,
    Cholesky,
    Diffusion,
    EmpiricalKernelMap,
    Gaussian,
    Graph,
    KernelBank,
    Laplacian,
    LatentConcepts,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    MKLSurvival,
    Nystroem,
    Polynomial,
    Precomputed,
    RandomFeatures,
    SmithWaterman,
    Spectrum,
    Tanimoto,
    TransductiveMKLClassifier,
)

N = 24
rng = np.random.default_rng(5)
X = rng.normal(size=(N, 3))
Y = np.where(X[:, 0] + 0.3 * rng.normal(size=N) > 0.0, "yes", "no")
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
NEW = rng.normal(size=(7, 3))
ROWS = np.arange(N).reshape(-1, 1)
A = np.exp(-np.square(X[:, None] - X).sum(axis=2))
TEXTS = np.array([["sour milk " * int(x > 0) + "sweet wine, bread " * int(x < 1)] for x in X[:, 0]])
STRINGS = np.array([["".join("ACGT"[int(v) % 4] for v in 9 + 3 * row)] for row in X], dtype=object)
EDGES = (A > 0.5) * 1.0 - np.eye(N) * (A > 0.5)
NAMES = [f"node {i}" for i in range(N)]
GAPS = X.copy()
GAPS[::5, :2] = np.nan


def mixed() -> pd.DataFrame:
    """Numbers and words, and rows that lack some."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = [["u", "v", "w"][int(x + 9) % 3] for x in X[:, 1]]
    frame.loc[::5, "kind"] = None
    return frame


def classes(kernels: Any, rows: Any, new: Any = None, **more: Any) -> Callable[[], Any]:
    """A classifier, ready to be fitted, and rows to predict."""
    return lambda: (MKLClassifier(kernels, **more).fit(rows, Y), rows if new is None else new)


ZOO: dict[str, Callable[[], Any]] = {
    "default": classes(None, X, NEW),
    "three classes": lambda: (MKLClassifier(shared_weights=False).fit(X, THREE), NEW),
    "pairs of classes": lambda: (MKLClassifier(multi_class="ovo").fit(X, THREE), NEW),
    "numeric": classes([Gaussian(1.0), Laplacian(2.0), Polynomial(3, 0.5), Linear()], X, NEW),
    "centered": classes(KernelBank([Gaussian(1.0), Linear()], normalize="center+trace"), X, NEW),
    "sphere": classes(KernelBank([Polynomial(2)], normalize="sphere"), X, NEW),
    "missing": classes(KernelBank(views={"a": [0, 1], "b": [2]}, missing="indicator"), GAPS),
    "filled": classes(KernelBank(views={"a": [0, 1], "b": [2]}, impute="median"), X, GAPS),
    "mixed": classes(KernelBank(views={"n": ["a", "b", "c"], "k": ["kind"]}), mixed()),
    "landmarks": classes(KernelBank(approximation=Nystroem(9)), X, NEW),
    "cholesky": classes(KernelBank(approximation=Cholesky(rank=5)), X, NEW),
    "waves": classes(KernelBank([Gaussian(1.0)], approximation=RandomFeatures(8)), X, NEW),
    "texts": classes([BagOfWords("counts"), BagOfWords(TfidfVectorizer(min_df=2))], TEXTS),
    "concepts": classes([LatentConcepts(2)], TEXTS),
    "strings": classes([Spectrum(2), Spectrum(2, mismatches=1, alphabet="ACGT")], STRINGS),
    "alignments": classes([EmpiricalKernelMap(SmithWaterman(gap_open=2.0))], STRINGS),
    "map": classes([EmpiricalKernelMap("sigmoid")], X, NEW),
    "eigenvectors": classes([EigenvectorKernels(Gaussian(1.0), 3)], X),
    "matrices": classes([("a", Precomputed(A)), ("b", Precomputed(A @ A))], ROWS),
    "given matrices": classes("precomputed", [A, A @ A], [A[:7], (A @ A)[:7]]),
    "graph": classes([Diffusion(EDGES, [0.5, 1.0])], ROWS),
    "names": classes([Diffusion(Graph(EDGES, NAMES), normalized=True)], np.array(NAMES)[:, None]),
    "fingerprints": classes([Tanimoto()], np.round(np.abs(X)), np.round(np.abs(NEW))),
    "scikit-learn": classes(["rbf", RBF(0.7) + WhiteKernel(0.1)], X, NEW),
    "sparse": classes([Gaussian(1.0), Linear()], csr_array(X * (X > 0)), csr_array(NEW)),
    "cross-validated": lambda: (MKLClassifierCV(Cs=[0.1, 1.0], cv=2).fit(X, Y), NEW),
    "numbers": lambda: (MKLRegressor(max_iter=50).fit(X, X[:, 0]), NEW),
    "times": lambda: (MKLSurvival(folds=3).fit(X, np.exp(X[:, 0])), NEW),
    "one class": lambda: (MKLOneClass().fit(X), NEW),
    "transductive": lambda: (
        TransductiveMKLClassifier([Gaussian(1.0), Linear()], unlabeled="?").fit(
            X, np.where(np.arange(N) % 3 == 0, "?", Y)
        ),
        X,
    ),
}


def made(name: str) -> tuple[Any, Any]:
    """A fitted model, and rows to predict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: tuple[Any, Any] = ZOO[name]()
    return found
