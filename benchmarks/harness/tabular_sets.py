"""Binary sets on which models meet as they are, with nothing set by hand; two disjoint lists.

``REPORTED`` was fixed before any run. ``DEVELOPMENT`` is where defaults may be chosen.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
from sklearn.datasets import (
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_friedman1,
    make_hastie_10_2,
)
from sklearn.model_selection import StratifiedShuffleSplit

from benchmarks.harness.paper_data import load
from benchmarks.harness.skipped import Skipped

REPORTED = (
    "heart",
    "sonar",
    "liver",
    "ionosphere",
    "wpbc",
    "wdbc",
    "breast_wisconsin",
    "credit",
    "pima",
    "fourclass_scale",
    "german_numeric",
    "musk1",
    "colon_cancer_libsvm",
    "splice_libsvm_train",
    "adult_a1a",
)
MOST, MOST_DEVELOPMENT = 1500, 800  # rows of a set; of larger ones, so many at random

Rows = tuple[np.ndarray, np.ndarray]


def read(name: str, data: str | None) -> Rows:
    """Features and labels 0 and 1 of a set of either list."""
    if name in DEVELOPMENT:
        X, y = DEVELOPMENT[name](data)
    else:
        X, y = load(name, data)
    y = np.asarray(y > np.min(y), dtype=int)
    most = MOST_DEVELOPMENT if name in DEVELOPMENT else MOST
    if len(y) > most:
        rows = np.sort(np.random.default_rng(0).permutation(len(y))[:most])
        X, y = X[rows], y[rows]
    return np.asarray(X, dtype=float), y


def split(name: str, data: str | None, seed: int) -> tuple[Rows, Rows]:
    """Seven tenths of the rows to learn on and three to test, stratified."""
    X, y = read(name, data)
    cut = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    (train, test), *_ = cut.split(X, y)
    return (X[train], y[train]), (X[test], y[test])


# ---- the development list -----------------------------------------------------------------------


def _file(name: str, data: str | None) -> dict[str, np.ndarray]:
    path = pathlib.Path(data or ".") / f"{name}.npz"
    if not path.exists():
        raise Skipped(f"{path.name} is not in the data folder")
    return dict(np.load(path, allow_pickle=True))


def _covertype(data: str | None) -> Rows:
    """Class 2 against the rest, ten numbers."""
    found = _file("covertype", data)
    return found["numeric"][::400].astype(float), found["y"][::400] == 2


def _covertype_codes(data: str | None) -> Rows:
    """The same, other rows, with soil and wilderness as indicator columns."""
    found = {key: value[150::400] for key, value in _file("covertype", data).items()}
    codes = [np.eye(int(found[k].max()) + 1)[found[k]] for k in ("wilderness", "soil")]
    return np.hstack([found["numeric"].astype(float), *codes]), found["y"] == 2


def _ijcnn1(data: str | None) -> Rows:
    found = _file("ijcnn1", data)
    return found["X_train"][::33], found["y_train"][::33] > 0


def _abalone(data: str | None) -> Rows:
    """More than nine rings."""
    path = pathlib.Path(data or ".") / "abalone_scale.csv.gz"
    if not path.exists():
        raise Skipped(f"{path.name} is not in the data folder")
    found = np.loadtxt(path, delimiter=",")
    return found[:, :-1], found[:, -1] > 9


def _mfeat(view: str) -> Callable[[str | None], Rows]:
    """Odd digits, from one of the six views."""

    def rows(data: str | None) -> Rows:
        found = _file("mfeat", data)
        return found[view].astype(float), found["y"] % 2 == 1

    return rows


def _tcga(data: str | None) -> Rows:
    """Luminal A tumors, from messenger RNA."""
    found = _file("tcga_breast_mixomics", data)
    return found["mrna_train"].astype(float), found["y_train"] == "LumA"


def _digits(_: str | None) -> Rows:
    X, y = load_digits(return_X_y=True)
    return X, y % 2 == 1


def _diabetes(_: str | None) -> Rows:
    X, y = load_diabetes(return_X_y=True)
    return X, y > np.median(y)


def _iris(_: str | None) -> Rows:
    X, y = load_iris(return_X_y=True)
    return X[y > 0], y[y > 0] == 2


def _wine(_: str | None) -> Rows:
    X, y = load_wine(return_X_y=True)
    return X, y == 1


def _hastie(_: str | None) -> Rows:
    return make_hastie_10_2(800, random_state=0)


def _friedman(_: str | None) -> Rows:
    """Friedman's first function with noise, above its median; skewed columns, five for nothing."""
    X, y = make_friedman1(600, 10, noise=2.0, random_state=0)
    return np.exp(3.0 * X), y > np.median(y)


def _ringnorm(_: str | None) -> Rows:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], 250))
    X = rng.standard_normal((500, 20))
    return np.where(y[:, None] == 1, X + 2.0 / np.sqrt(20.0), 2.0 * X), y


def _rules(_: str | None) -> Rows:
    """Three rules on single columns and pairs, one label in ten wrong: what trees like."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2, (500, 12))
    truth = ((X[:, 0] > 0.3) & (X[:, 1] < 0.5)) | (X[:, 2] > 1.2) | (X[:, 3] * X[:, 4] > 1.5)
    return X, truth ^ (rng.uniform(size=500) < 0.1)


DEVELOPMENT: dict[str, Callable[[str | None], Rows]] = {
    "covertype": _covertype,
    "covertype_codes": _covertype_codes,
    "ijcnn1": _ijcnn1,
    "abalone": _abalone,
    "mfeat_mor": _mfeat("mor"),
    "mfeat_zer": _mfeat("zer"),
    "mfeat_fou": _mfeat("fou"),
    "tcga": _tcga,
    "digits": _digits,
    "diabetes": _diabetes,
    "iris": _iris,
    "wine": _wine,
    "hastie": _hastie,
    "friedman": _friedman,
    "ringnorm": _ringnorm,
    "rules": _rules,
}
