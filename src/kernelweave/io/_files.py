"""Data sets in files: tables, arrays and texts, read in bounded memory.

A reader gets the path and the number of bytes that a file of this set holds at most when unpacked:
a few kilobytes of gzip may unpack to gigabytes.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import shown, some


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


def read(path: Path, reader: Callable[[Path, int], DataSet], most: int) -> DataSet:
    """What ``reader`` makes of a file; raises ValueError, with its name, if it is damaged."""
    try:
        return reader(path, most)
    except (OSError, MemoryError) as error:
        if not isinstance(error, gzip.BadGzipFile):
            raise
        told = str(error)
    except KeyError as error:
        told = f"there is no {error} in it"
    except Exception as error:  # damaged files raise errors of many kinds
        told = str(error)
    raise ValueError(
        f"{path} cannot be read: {told}. The file is damaged or is not this data set; get a new "
        "copy, or delete it to look for the set elsewhere."
    )


def table(path: Path, most: int) -> DataSet:
    """Columns of numbers, and labels that are integers."""
    columns, cells = _cells(path, float, most)
    return plain(cells[:, :-1], _whole(cells[:, -1]), columns)


def letters(path: Path, most: int) -> DataSet:
    """Columns of letters, and labels that are words."""
    columns, cells = _cells(path, str, most)
    return plain(cells[:, :-1].astype(object), cells[:, -1], columns)


def plain(X: NDArray[Any], y: NDArray[Any], columns: Iterable[Any]) -> DataSet:
    """A set with one view of all columns."""
    names = [str(name) for name in columns]
    return DataSet(X, y, {"all": list(range(len(names)))}, names)


def side_by_side(views: dict[str, NDArray[Any]], y: NDArray[Any]) -> DataSet:
    """A set of several views over the same rows."""
    ends = np.cumsum([0, *(V.shape[1] for V in views.values())])
    places = {name: list(range(ends[k], ends[k + 1])) for k, name in enumerate(views)}
    columns = [f"{name}{j}" for name, V in views.items() for j in range(V.shape[1])]
    return DataSet(np.hstack([*views.values()], dtype=float), y, places, columns)


def views(path: Path, most: int) -> DataSet:
    """One array per view, all over the same rows, and ``y``."""
    parts = _parts(path, most)
    y = parts.pop("y")
    return side_by_side(parts, y)


def tcga(path: Path, most: int) -> DataSet:
    """150 training and 70 test rows; the test rows have no protein view: NaN."""
    parts = _parts(path, most)
    y = np.concatenate([parts["y_train"], parts["y_test"]])
    tests = len(parts["y_test"])
    found = {}
    for name in ("mirna", "mrna", "protein"):
        train = parts[f"{name}_train"]
        blank = np.full((tests, train.shape[1]), np.nan)
        found[name] = np.vstack([train, parts.get(f"{name}_test", blank)])
    return replace(side_by_side(found, y), train=np.arange(len(y)) < len(y) - tests)


def ones(path: Path, most: int) -> DataSet:
    """A sparse matrix of ones, stored as row pointers and column numbers."""
    parts = _parts(path, most)
    _check_size(int(np.prod(parts["shape"], dtype=float)), most)
    X = np.zeros(tuple(parts["shape"]), dtype=np.int8)
    X[np.repeat(np.arange(len(X)), np.diff(parts["indptr"])), parts["indices"]] = 1
    return plain(X, _whole(parts["y"]), (f"f{j}" for j in range(X.shape[1])))


def texts(path: Path, most: int) -> DataSet:
    """One document per line: title, body, topics, and whether it is for training or test."""
    documents = [_document(*place) for place in enumerate(_lines(path, most), start=1)]
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


def networks(path: Path, most: int) -> DataSet:
    """The genes that two networks share, as row numbers into each, and their classes."""
    from scipy.sparse import csr_array

    parts = _parts(path, most)
    sources = ("biogrid", "string")
    nodes = {name: parts[f"{name}_genes"] for name in sources}
    graphs = {}
    for name in sources:
        i, j = parts[f"{name}_edges"].astype(np.int64).T
        ends = np.concatenate([i, j]), np.concatenate([j, i])
        n = len(nodes[name])
        graphs[name] = csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    genes, *places = np.intersect1d(nodes["biogrid"], nodes["string"], return_indices=True)
    labels = [str(label) for label in parts["string_classes"]]
    y = parts["string_funcat"][places[1]]
    X = np.column_stack(places).astype(float)
    columns = {name: [k] for k, name in enumerate(sources)}
    return DataSet(X, y, columns, [*sources], labels, None, genes, graphs, nodes)


def _cells(path: Path, kind: type, most: int) -> tuple[list[str], NDArray[Any]]:
    """The names of all columns but the last, which is ``y``, and the cells of all columns."""
    first, *lines = _lines(path, most)
    header = first.strip().split(",")
    if header[-1] != "y":
        raise ValueError(f"the last column must be 'y'; found {header[-1]!r}")
    if not any(line.strip() for line in lines):
        raise ValueError("it has a header, but no rows")
    cells: NDArray[Any] = np.loadtxt(lines, dtype=kind, delimiter=",", ndmin=2)
    if cells.shape[1] != len(header):
        raise ValueError(f"it has {len(header)} names in the header, but {cells.shape[1]} columns")
    return header[:-1], cells


def _lines(path: Path, most: int) -> list[str]:
    """The lines of a compressed text, at least one."""
    with gzip.open(path, "rb") as content:
        found = content.read(most + 1)
    _check_size(len(found), most)
    lines = found.decode("utf-8").replace("\r\n", "\n").strip().split("\n")
    if lines == [""]:
        raise ValueError("it is empty")
    return lines


def _parts(path: Path, most: int) -> dict[str, NDArray[Any]]:
    """The arrays of an archive, by name."""
    with zipfile.ZipFile(path) as archive:
        _check_size(sum(member.file_size for member in archive.infolist()), most)
    with np.load(path) as parts:
        return {name: parts[name] for name in parts.files}


def _check_size(found: int, most: int) -> None:
    if found > most:
        raise ValueError(f"its content takes more than {most:,} bytes, too much for this set")


def _document(number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"line {number} is not a document but {shown(found)}")
    return found


def _whole(y: NDArray[Any]) -> NDArray[np.int_]:
    """Labels as integers."""
    other = np.flatnonzero(y != np.floor(y))
    if other.size:
        raise ValueError(
            f"labels in y must be whole numbers, found {y[other[0]]:g} in row {other[0]}"
        )
    return y.astype(int)
