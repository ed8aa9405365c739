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
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import did_you_mean, some

VARIABLE = "KERNELWEAVE_DATA"


@dataclass(frozen=True, eq=False)
class DataSet:
    """Rows, labels, and their description.

    Attributes
    ----------
    X : array (n, d)
        Floats, or objects if columns hold letters or texts. Row numbers into ``graphs`` if the rows
        are nodes of networks.
    y : array (n,), or (n, q) of 0 and 1
        Labels; one column per label if a row can have several.
    views : {name: columns}
        Columns of X grouped by what they measure, for ``KernelBank(views=…)``.
    columns : list of str
        Names of the columns of X.
    labels : list of str
        Names of the columns of a two-dimensional y.
    train : array of bool or None
        The training rows, if the set comes with a split.
    rows : array of str or None
        Names of the rows.
    graphs : {name: sparse matrix}
        Symmetric 0/1 adjacency matrices; column ``name`` of X holds the node of each row.
    nodes : {name: array of str}
        Names of the nodes of each graph.
    origin : str
        Where the data were found.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    views: dict[str, list[int]]
    columns: list[str]
    labels: list[str] = field(default_factory=list)
    train: NDArray[np.bool_] | None = None
    rows: NDArray[Any] | None = None
    graphs: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, NDArray[Any]] = field(default_factory=dict)
    origin: str = ""

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"DataSet({n} rows, {d} columns, views: {some(self.views)}; from {self.origin})"

    def view(self, name: str) -> NDArray[Any]:
        """The columns of X in one view."""
        return self.X[:, self.views[name]]


def load(name: str, folder: str | os.PathLike[str] | None = None) -> DataSet:
    """The data set of this name; ``names()`` lists those known.

    Raises ``ValueError`` for an unknown name or a copy of the wrong size, and
    ``FileNotFoundError``, with advice, if the set is not found anywhere.
    """
    known = _KNOWN.get(name) if isinstance(name, str) else None
    if known is None:
        raise ValueError(f"name: there is no data set {name!r}; {did_you_mean(name, names())}")
    tried: list[str] = []
    path = _find(known.file(name), folder, tried)
    if path is not None:
        return _checked(replace(known.read(path), origin=f"file {path.name}"), name, known)
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


def _table(path: Path) -> DataSet:
    """Columns of numbers, and labels that are integers."""
    columns, cells = _cells(path, float)
    return _plain(cells[:, :-1], cells[:, -1].astype(int), columns)


def _letters(path: Path) -> DataSet:
    """Columns of letters, and labels that are words."""
    columns, cells = _cells(path, str)
    return _plain(cells[:, :-1].astype(object), cells[:, -1], columns)


def _cells(path: Path, kind: type) -> tuple[list[str], NDArray[Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        header = next(lines).strip().split(",")
        if header[-1] != "y":
            raise ValueError(f"{path.name}: the last column must be 'y'; found {header[-1]!r}.")
        return header[:-1], np.loadtxt(lines, dtype=kind, delimiter=",", ndmin=2)


def _plain(X: NDArray[Any], y: NDArray[Any], columns: Iterable[Any]) -> DataSet:
    names = [str(name) for name in columns]
    return DataSet(X, y, {"all": list(range(len(names)))}, names)


def _side_by_side(views: dict[str, NDArray[Any]], y: NDArray[Any]) -> DataSet:
    ends = np.cumsum([0, *(V.shape[1] for V in views.values())])
    places = {name: list(range(ends[k], ends[k + 1])) for k, name in enumerate(views)}
    columns = [f"{name}{j}" for name, V in views.items() for j in range(V.shape[1])]
    return DataSet(np.hstack([*views.values()], dtype=float), y, places, columns)


def _views(path: Path) -> DataSet:
    """One array per view, all over the same rows, and ``y``."""
    with np.load(path) as parts:
        return _side_by_side({key: parts[key] for key in parts.files if key != "y"}, parts["y"])


def _tcga(path: Path) -> DataSet:
    """150 training and 70 test rows; the test rows have no protein view: NaN."""
    with np.load(path) as parts:
        y = np.concatenate([parts["y_train"], parts["y_test"]])
        tests = len(parts["y_test"])
        views = {}
        for name in ("mirna", "mrna", "protein"):
            train = parts[f"{name}_train"]
            blank = np.full((tests, train.shape[1]), np.nan)
            test = parts[f"{name}_test"] if f"{name}_test" in parts.files else blank
            views[name] = np.vstack([train, test])
    return replace(_side_by_side(views, y), train=np.arange(len(y)) < len(y) - tests)


def _ones(path: Path) -> DataSet:
    """A sparse matrix of ones, stored as row pointers and column numbers."""
    with np.load(path) as parts:
        X = np.zeros(tuple(parts["shape"]), dtype=np.int8)
        X[np.repeat(np.arange(len(X)), np.diff(parts["indptr"])), parts["indices"]] = 1
        return _plain(X, parts["y"].astype(int), (f"f{j}" for j in range(X.shape[1])))


def _texts(path: Path) -> DataSet:
    """One document per line: title, body, topics, and whether it is for training or test."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    columns = ["title", "body"]
    X = np.array([[document[name] for name in columns] for document in documents], dtype=object)
    topics = sorted({topic for document in documents for topic in document["topics"]})
    column = {topic: j for j, topic in enumerate(topics)}
    y = np.zeros((len(X), len(topics)), dtype=np.int8)
    for row, document in enumerate(documents):
        y[row, [column[topic] for topic in document["topics"]]] = 1
    return DataSet(
        X,
        y,
        {"title": [0], "body": [1]},
        columns,
        labels=topics,
        train=np.array([document["split"] == "train" for document in documents]),
        rows=np.array([str(document["id"]) for document in documents]),
    )


def _networks(path: Path) -> DataSet:
    """The genes that two networks share, as row numbers into each, and their classes."""
    from scipy.sparse import csr_array

    with np.load(path) as parts:
        sources = ("biogrid", "string")
        nodes = {name: parts[f"{name}_genes"] for name in sources}
        graphs = {}
        for name in sources:
            i, j = parts[f"{name}_edges"].astype(np.int64).T
            ends = np.concatenate([i, j]), np.concatenate([j, i])
            n = len(nodes[name])
            graphs[name] = csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
        genes, *places = np.intersect1d(*nodes.values(), return_indices=True)
        labels = [str(label) for label in parts["string_classes"]]
        y = parts["string_funcat"][places[1]]
    X = np.column_stack(places).astype(float)
    views = {name: [k] for k, name in enumerate(sources)}
    return DataSet(X, y, views, [*sources], labels, None, genes, graphs, nodes)


# ---- scikit-learn and OpenML -------------------------------------------------------------------


def _from_sklearn(name: str) -> DataSet:
    import sklearn.datasets

    data = getattr(sklearn.datasets, _SKLEARN[name])()
    y = np.where(data.target == 0, 1, -1) if name == "wdbc" else data.target
    return _plain(data.data, y, data.feature_names)


def _from_openml(name: str) -> DataSet:
    known, signs = _OPENML[name]
    frame, target = _fetch(known)
    complete = ~frame.isna().any(axis=1).to_numpy()
    frame, words = frame[complete], target[complete]
    if signs is None:
        X = frame.to_numpy(dtype=object)
        return _plain(X, words, frame.columns)
    numbers = [_as_numbers(frame[column]) for column in frame.columns]
    y = np.array([signs.get(word, 0) for word in words])
    return _plain(np.column_stack(numbers), y, frame.columns)


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
    return _side_by_side(views, np.repeat(np.arange(10), 200))


def _fetch(known: str) -> tuple[Any, NDArray[Any]]:
    """The first version of a set on OpenML: a data frame, and the labels as strings."""
    from sklearn.datasets import fetch_openml

    found = fetch_openml(known, version=1, as_frame=True, parser="auto")
    return found.data, found.target.to_numpy(dtype=str)


# ---- known data sets --------------------------------------------------------------------------


class _Known(NamedTuple):
    """Rows, columns, label counts, and the reader and extension of the file."""

    shape: tuple[int, int]
    counts: dict[Any, int]
    read: Callable[[Path], DataSet] = _table
    ending: str = "csv.gz"

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
    "splice_uci_letters": _Known((3190, 60), {"EI": 767, "IE": 768, "N": 1655}, _letters),
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
    "w8a": _two(49749, 300, 48270, 1479, _ones, "npz"),
    "mfeat": _Known((2000, 649), dict.fromkeys(range(10), 200), _views, "npz"),
    "mv_webkb": _Known((1051, 4840), {1: 230, 2: 821}, _views, "npz"),
    "tcga_breast_mixomics": _Known(
        (220, 526), {"Basal": 66, "Her2": 44, "LumA": 110}, _tcga, "npz"
    ),
    "reuters21578_modapte": _Known(
        (12902, 2),
        {"earn": 3964, "acq": 2369, "money-fx": 717, "grain": 582, "crude": 578, "trade": 486},
        _texts,
        "jsonl.gz",
    ),
    "yeast_networks": _Known((2310, 2), {"01": 840, "10": 565, "11": 583}, _networks, "npz"),
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
