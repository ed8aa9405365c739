"""Numbers to predict: rows, targets and views of five data sets, and their splits."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

from benchmarks.harness.paper_data import fetch
from benchmarks.harness.skipped import Skipped

ABOUT = {
    "diabetes": "442 patients, 10 measurements: progression after a year",
    "abalone": "4,177 shells, 8 measurements: rings, which are years",
    "bupa": "345 men, 5 blood tests: drinks a day",
    "covertype": "581,012 patches of forest, 9 other numbers of the map: elevation",
    "tcga": "150 tumours, 184 micro-RNA and 200 messenger RNA: the protein of largest variance",
}
MOST = 400  # rows to train; the others test, at most five times as many


def split(name: str, data: str | None, seed: int) -> tuple[np.ndarray, ...]:
    """Training rows and targets, test rows and targets."""
    X, y, _ = load(name, data)
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(MOST, 2 * len(y) // 3)
    train, test = order[:n], order[n : n + 5 * MOST]
    return X[train], y[train], X[test], y[test]


@lru_cache(maxsize=1)
def load(name: str, data: str | None) -> tuple[np.ndarray, np.ndarray, dict[str, list[int]] | None]:
    """Rows, targets, and the columns of the views if there are several."""
    if name == "diabetes":
        return *load_diabetes(return_X_y=True, scaled=False), None
    if name == "bupa":
        X = fetch("liver_bupa", data).X.astype(float)
        return X[:, :5], X[:, 5], None
    if name == "abalone":
        table = np.loadtxt(_file("abalone_scale.csv.gz", data), delimiter=",")
        return table[:, :-1], table[:, -1], None
    if name == "covertype":
        numbers = np.load(_file("covertype.npz", data))["numeric"].astype(float)
        return numbers[:, 1:], numbers[:, 0], None
    found = np.load(_file("tcga_breast_mixomics.npz", data))
    proteins = found["protein_train"]
    X = np.hstack([found["mirna_train"], found["mrna_train"]])
    views = {"miRNA": list(range(184)), "mRNA": list(range(184, 384))}
    return X, proteins[:, proteins.var(axis=0).argmax()], views


def _file(name: str, data: str | None) -> Path:
    folder = data or os.environ.get("KERNELWEAVE_DATA")
    if not folder or not (path := Path(folder) / name).exists():
        raise Skipped(f"{name} is not in the data folder: --data FOLDER")
    return path
