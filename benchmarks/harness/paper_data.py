"""Data sets, the splits and kernels that papers make of them."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

import kernelweave as kw
from benchmarks.harness.skipped import Skipped
from kernelweave import datasets

FILES = {"liver": "liver_bupa", "credit": "credit_crx"}
GAI_SETS = {  # our name for each set of gai2010, table 1
    "ionosphere": "Ionosphere",
    "splice_libsvm_train": "Splice",
    "liver": "Liver",
    "fourclass_scale": "Fourclass",
    "heart": "Heart",
    "german_numeric": "Germannum",
    "musk1": "Musk1",
    "wdbc": "Wdbc",
    "wpbc": "Wpbc",
    "sonar": "Sonar",
    "colon_cancer_libsvm": "Coloncancer",
}
GAI_FOLDS = 5
_missing: dict[str, str] = {}
WIDTHS = (0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20)


# ---- rows --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Standardized training and test rows."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def fetch(name: str, data: str | None) -> datasets.DataSet:
    """A data set with all that is known of it; one that is not there is looked for once."""
    if name not in _missing:
        try:
            return datasets.load(FILES.get(name, name), data)
        except FileNotFoundError as error:
            _missing[name] = f"{error} Here, --data FOLDER does so."
    raise Skipped(_missing[name])


@lru_cache(maxsize=4)
def load(name: str, data: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Features and ±1 labels of a data set, as they came."""
    found = fetch(name, data)
    return found.X.astype(float), found.y.astype(float)


def standardize(X: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Mean 0 and variance 1 on the rows of X; features constant on them dropped."""
    keep = np.ptp(X, axis=0) > 0.0
    mean, std = X[:, keep].mean(axis=0), X[:, keep].std(axis=0)
    return [(Z[:, keep] - mean) / std for Z in (X, *others)]


def half(name: str, data: str | None, seed: int) -> Split:
    """A random half of the rows to learn on, the other half to test [rakoto2007, §3]."""
    X, y = load(name, data)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    X_train, X_test = standardize(X[train], X[test])
    return Split(X_train, y[train], X_test, y[test])


def sample(name: str, data: str | None, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """``n`` random rows, standardized, and their labels."""
    X, y = load(name, data)
    rows = np.random.default_rng(seed).permutation(len(y))[:n]
    if len(rows) < n:
        raise ValueError(f"{name} has {len(rows)} rows, {n} are needed")
    return standardize(X[rows])[0], y[rows]


# ---- kernels -----------------------------------------------------------------------------------


def rakoto_kernels() -> list[Any]:
    """10 Gaussian widths and 3 polynomials [rakoto2007, §3]."""
    return [kw.Gaussian(w) for w in WIDTHS] + [kw.Polynomial(degree) for degree in (1, 2, 3)]


def gai_kernels() -> list[Any]:
    """10 Gaussian widths and 10 polynomials [gai2010, §6]."""
    return [kw.Gaussian(w) for w in WIDTHS] + [kw.Polynomial(degree) for degree in range(1, 11)]


def fit_bank(
    X: np.ndarray, kernels: list[Any], views: Any = "all", normalize: str | None = "trace"
) -> kw.FittedBank:
    """The bank of these kernels on X in one thread; silent about kernels it drops."""
    bank = kw.KernelBank(kernels, views=views, normalize=normalize, scale=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return bank.fit(X, n_jobs=None)


def rakoto_bank(X: np.ndarray, normalize: str = "unit_trace") -> kw.FittedBank:
    """All kernels of rakoto2007 on all features and on each."""
    return fit_bank(X, rakoto_kernels(), "all+each", normalize)


def matrices(stack: kw.KernelStack) -> np.ndarray:
    """A copy of the kernels as one array (m, n, n), for rivals."""
    return np.stack([stack.combined(e).dense() for e in np.eye(stack.m)])


# ---- kernels on rows ---------------------------------------------------------------------------


def breast_cancer(rows: int = 569) -> tuple[kw.KernelStack, np.ndarray]:
    """20 kernels of gai2010 on scikit-learn's breast cancer."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = standardize(X[:rows])[0], np.where(y[:rows] > 0, 1.0, -1.0)
    return fit_bank(X, gai_kernels()).stack, y


def random_stack(
    name: str, data: str | None, n: int, m: int, seed: int
) -> tuple[kw.KernelStack, np.ndarray, float]:
    """``m`` Gaussians of random width on random columns; and the time it took to build."""
    X, y = sample(name, data, n, seed)
    rng = np.random.default_rng(seed)
    p = X.shape[1]
    items = []
    for k in range(m):
        columns = rng.choice(p, rng.integers(1, max(p // 4, 2) + 1), replace=False)
        typical = np.sqrt(2.0 * len(columns))  # distance between rows of variance 1
        items.append((str(k), kw.Gaussian(typical * 2.0 ** rng.uniform(-2, 2)), columns))
    began = time.perf_counter()
    bank = fit_bank(X, items)
    return bank.stack, y, time.perf_counter() - began
