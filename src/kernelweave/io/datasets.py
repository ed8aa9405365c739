"""Data sets by name: from a local folder, from scikit-learn, or from OpenML.

``load("ionosphere")`` looks, in this order,

1. in a folder: the argument ``folder`` or the environment variable ``KERNELWEAVE_DATA``. Tables
   are ``NAME.csv.gz`` with a header and the labels in a last column ``y``; sets of several parts
   are ``NAME.npz`` with one array per part, and texts are ``NAME.jsonl.gz``;
2. among the sets that come with scikit-learn;
3. on OpenML, through scikit-learn, which caches its downloads.

The number of rows, columns and labels is checked, because copies with lost rows or other labels are
in circulation. Values are neither scaled nor imputed; rows with missing values are left out if the
literature leaves them out.

``make_multiomics()`` makes patients up, with four tables of which it is known which ones matter.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import did_you_mean
from kernelweave.io import _files
from kernelweave.io._files import DataSet as DataSet
from kernelweave.io._simulated import MultiOmics as MultiOmics
from kernelweave.io._simulated import make_multiomics as make_multiomics

VARIABLE = "KERNELWEAVE_DATA"


def load(name: str, folder: str | os.PathLike[str] | None = None) -> DataSet:
    """The data set of this name; ``names()`` lists those known.

    Raises ``ValueError`` for an unknown name, a damaged file or a copy of the wrong size, and
    ``FileNotFoundError``, with advice, if the set is not found anywhere.
    """
    known = _KNOWN.get(name) if isinstance(name, str) else None
    if known is None:
        raise ValueError(f"name: there is no data set {name!r}; {did_you_mean(name, names())}")
    tried: list[str] = []
    path = _find(known.file(name), folder, tried)
    if path is not None:
        data = _files.read(path, known.reader, known.most)
        return _checked(replace(data, origin=f"file {path.name}"), name, known)
    if name in _SKLEARN:
        return _checked(replace(_from_sklearn(name), origin="scikit-learn"), name, known)
    if name in _OPENML or name == "mfeat":
        try:
            data = _mfeat_from_openml() if name == "mfeat" else _from_openml(name)
            return _checked(replace(data, origin="OpenML"), name, known)
        except OSError as error:  # no network: URLError, timeouts
            tried.append(f"OpenML could not be reached ({error})")
    else:
        tried.append("neither scikit-learn nor OpenML has this set in this form")
    raise FileNotFoundError(
        f"{name}: {'; '.join(tried)}. Put {known.file(name)} into a folder and name the folder "
        f"with load({name!r}, folder=…) or the environment variable {VARIABLE}."
    )


def names() -> list[str]:
    """Names of all data sets that ``load`` knows."""
    return sorted(_KNOWN)


def breast_cancer() -> DataSet:
    """Wisconsin diagnostic breast cancer, from scikit-learn: 569 tumors, 30 measurements.

    Each of ten properties of the cell nuclei is given by its mean, its standard error and its
    worst value. View ``size``: radius, perimeter, area. View ``shape``: texture, smoothness,
    compactness, concavity, concave points, symmetry, fractal dimension.
    """
    data = _from_sklearn("wdbc")
    size = [any(word in name for word in ("radius", "perimeter", "area")) for name in data.columns]
    views = {
        "size": [j for j, chosen in enumerate(size) if chosen],
        "shape": [j for j, chosen in enumerate(size) if not chosen],
    }
    y = np.where(data.y == 1, "malignant", "benign")
    return replace(data, y=y, views=views, origin="scikit-learn")


# ---- files -------------------------------------------------------------------------------------


def _find(file: str, folder: str | os.PathLike[str] | None, tried: list[str]) -> Path | None:
    given = os.environ.get(VARIABLE) if folder is None else folder
    if not given:
        tried.append(f"no folder is given and {VARIABLE} is not set")
        return None
    if not Path(given).is_dir():
        source = VARIABLE if folder is None else "folder"
        raise FileNotFoundError(f"{source}: there is no folder {os.fspath(given)!r}.")
    path = Path(given) / file
    if not path.is_file():
        tried.append(f"no file {file} in the folder")
        return None
    return path


# ---- scikit-learn and OpenML -------------------------------------------------------------------


def _from_sklearn(name: str) -> DataSet:
    import sklearn.datasets

    data = getattr(sklearn.datasets, _SKLEARN[name])()
    y = np.where(data.target == 0, 1, -1) if name == "wdbc" else data.target
    return _files.plain(data.data, y, data.feature_names)


def _from_openml(name: str) -> DataSet:
    known, signs = _OPENML[name]
    frame, target = _fetch(known)
    complete = ~frame.isna().any(axis=1).to_numpy()
    frame, words = frame[complete], target[complete]
    if signs is None:
        X = frame.to_numpy(dtype=object)
        return _files.plain(X, words, frame.columns)
    numbers = [_as_numbers(frame[column]) for column in frame.columns]
    y = np.array([signs.get(word, 0) for word in words])
    return _files.plain(np.column_stack(numbers), y, frame.columns)


def _as_numbers(column: Any) -> NDArray[np.float64]:
    """Floats; words become their position in alphabetical order."""
    try:
        return column.to_numpy(dtype=float)
    except ValueError:
        return np.unique(column.to_numpy(dtype=str), return_inverse=True)[1].astype(float)


def _mfeat_from_openml() -> DataSet:
    """Six sets over the same digits, 200 of each in order."""
    found = {name[:3]: _fetch(f"mfeat-{name}") for name in _MFEAT}
    for _, labels in found.values():
        if len(labels) != 2000 or (labels != np.repeat(labels[::200], 200)).any():
            raise ValueError("mfeat: the rows on OpenML are in a different order than at UCI.")
    views = {name: frame.to_numpy(dtype=float) for name, (frame, _) in found.items()}
    return _files.side_by_side(views, np.repeat(np.arange(10), 200))


def _fetch(known: str) -> tuple[Any, NDArray[Any]]:
    """The first version of a set on OpenML: a data frame, and the labels as strings."""
    from sklearn.datasets import fetch_openml

    found = fetch_openml(known, version=1, as_frame=True, parser="auto")
    return found.data, found.target.to_numpy(dtype=str)


# ---- known data sets --------------------------------------------------------------------------


class _Known(NamedTuple):
    """Rows, columns, label counts, and the reader, extension and width of the file."""

    shape: tuple[int, int]
    counts: dict[Any, int]
    reader: Callable[[Path, int], DataSet] = _files.table
    ending: str = "csv.gz"
    width: int = 0  # bytes of a row at most; by default 40 for each cell

    @property
    def most(self) -> int:
        """Bytes that the content of the file takes at most, with room for names."""
        rows, columns = self.shape
        return 2**16 + (rows + 1) * (self.width or 40 * (columns + 1))

    def file(self, name: str) -> str:
        return f"{name}.{self.ending}"


def _two(n: int, d: int, negative: int, positive: int, *how: Any) -> _Known:
    return _Known((n, d), {-1: negative, 1: positive}, *how)


_KNOWN: dict[str, _Known] = {
    "ionosphere": _two(351, 34, 126, 225),
    "sonar": _two(208, 60, 97, 111),
    "heart": _two(270, 13, 150, 120),
    "liver_bupa": _two(345, 6, 145, 200),
    "pima": _two(768, 8, 500, 268),
    "credit_crx": _two(653, 15, 357, 296),
    "breast_wisconsin": _two(683, 9, 444, 239),
    "wdbc": _two(569, 30, 357, 212),
    "wpbc": _two(194, 33, 148, 46),
    "german_numeric": _two(1000, 24, 700, 300),
    "splice_libsvm_train": _two(1000, 60, 483, 517),
    "splice_libsvm_test": _two(2175, 60, 1044, 1131),
    "splice_uci_letters": _Known((3190, 60), {"EI": 767, "IE": 768, "N": 1655}, _files.letters),
    "fourclass_scale": _two(862, 2, 555, 307),
    "musk1": _two(476, 166, 269, 207),
    "colon_cancer_libsvm": _two(62, 2000, 40, 22),
    "adult_a1a": _two(1605, 123, 1210, 395),
    "adult_a2a": _two(2265, 123, 1693, 572),
    "adult_a3a": _two(3185, 123, 2412, 773),
    "adult_a4a": _two(4781, 123, 3593, 1188),
    "adult_a6a": _two(11220, 123, 8528, 2692),
    "adult_a9a_train": _two(32561, 123, 24720, 7841),
    "adult_a9a_test": _two(16281, 123, 12435, 3846),
    "w8a": _two(49749, 300, 48270, 1479, _files.ones, "npz"),
    "mfeat": _Known((2000, 649), dict.fromkeys(range(10), 200), _files.views, "npz"),
    "mv_webkb": _Known((1051, 4840), {1: 230, 2: 821}, _files.views, "npz"),
    "tcga_breast_mixomics": _Known(
        (220, 526), {"Basal": 66, "Her2": 44, "LumA": 110}, _files.tcga, "npz"
    ),
    "reuters21578_modapte": _Known(
        (12902, 2),
        {"earn": 3964, "acq": 2369, "money-fx": 717, "grain": 582, "crude": 578, "trade": 486},
        _files.texts,
        "jsonl.gz",
        10_000,
    ),
    "yeast_networks": _Known(
        (2310, 2), {"01": 840, "10": 565, "11": 583}, _files.networks, "npz", 100_000
    ),
    "digits": _Known((1797, 64), {0: 178, 1: 182, 2: 177}),
    "iris": _Known((150, 4), {0: 50, 1: 50, 2: 50}),
    "wine": _Known((178, 13), {0: 59, 1: 71, 2: 48}),
}

_SKLEARN = {
    "wdbc": "load_breast_cancer",
    "digits": "load_digits",
    "iris": "load_iris",
    "wine": "load_wine",
}

# The name on OpenML, and the sign of each label; None keeps letters and words unchanged.
_OPENML: dict[str, tuple[str, dict[str, int] | None]] = {
    "ionosphere": ("ionosphere", {"b": -1, "g": 1}),
    "sonar": ("sonar", {"Rock": -1, "Mine": 1}),
    "heart": ("heart-statlog", {"absent": -1, "present": 1}),
    "pima": ("diabetes", {"tested_negative": -1, "tested_positive": 1}),
    "credit_crx": ("credit-approval", {"-": -1, "+": 1}),
    "breast_wisconsin": ("breast-w", {"benign": -1, "malignant": 1}),
    "splice_uci_letters": ("splice", None),
}

_MFEAT = ("fourier", "factors", "karhunen", "pixel", "zernike", "morphological")


def _checked(data: DataSet, name: str, known: _Known) -> DataSet:
    """The data, if it has the known shape and label counts; raises ValueError otherwise."""
    if data.X.shape != known.shape or len(data.y) != len(data.X):
        raise ValueError(
            f"{name}: expected {known.shape[0]} rows and {known.shape[1]} columns, found "
            f"{data.X.shape} and {len(data.y)} labels in {data.origin}."
        )
    for label, count in known.counts.items():
        members = data.y[:, data.labels.index(label)] if data.labels else data.y == label
        if members.sum() != count:
            raise ValueError(
                f"{name}: expected {count} rows labeled {label!r}, found {members.sum()} in "
                f"{data.origin}."
            )
    return data
