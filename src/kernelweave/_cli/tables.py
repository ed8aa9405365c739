"""Tables in files: CSV, Parquet and NPZ, whole or in pieces; kernel matrices in ``.npy``."""

from __future__ import annotations

import csv
import gzip
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._core.checks import did_you_mean, some
from kernelweave._core.settings import SETTINGS
from kernelweave._core.warnings import warn
from kernelweave.views.cells import reads_as_number

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".parquet", ".npz")
MATRIX = ".npy"
_SEPARATORS = (",", ";", "\t", "|")
_LONGEST = 2**20  # characters of a first line that are looked at
_DECIMAL = r"\s*[+-]?\d+(,\d+)?([eE][+-]?\d+)?\s*"  # a number with a decimal comma


def is_file(text: str) -> bool:
    """Whether this names a file rather than columns."""
    return text.lower().endswith((*TABLES, MATRIX))


def read_table(
    path: str,
    delimiter: str | None = None,
    texts: tuple[str, ...] = (),
    *,
    may_be_empty: bool = False,
) -> Any:
    """All rows of a file as a data frame; columns ``texts`` are read as text."""
    return next(pieces(path, delimiter, texts=texts, whole=True, may_be_empty=may_be_empty))


def pieces(
    path: str,
    delimiter: str | None = None,
    *,
    texts: tuple[str, ...] = (),
    whole: bool = False,
    may_be_empty: bool = False,
) -> Iterator[Any]:
    """The rows of a file, some at a time, as data frames; columns ``texts`` are read as text."""
    name = path.lower()
    if not name.endswith(TABLES):
        raise ValueError(f"{path}: a table is one of {', '.join(TABLES)}")
    if not Path(path).is_file():
        raise FileNotFoundError(2, "No such file", path)
    try:
        if name.endswith(".parquet"):
            found = _parquet(path, whole)
        elif name.endswith(".npz"):
            found = iter([_npz(path)])
        else:
            found = _csv(path, delimiter, texts, whole)
        first = next(found, ())  # Parquet has no piece where there is no row
        if not len(first) and not may_be_empty:
            raise ValueError(f"{path} has no rows")
        yield first
        yield from found
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read: save it as UTF-8 ({error})") from error
    except (zipfile.BadZipFile, gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def read_matrix(path: str) -> Any:
    """A kernel matrix from a ``.npy`` file."""
    try:
        matrix = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no .npy file of numbers: {error}") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(
            f"{path} must hold a matrix of numbers, found {matrix.dtype} {matrix.shape}"
        )
    return matrix


def column(frame: Any, name: str, path: str) -> Any:
    """One column; the error says which there are."""
    if name not in frame.columns:
        raise ValueError(f"{path} has no column {name!r}; {did_you_mean(name, frame.columns)}")
    return frame[name]


def _csv(path: str, delimiter: str | None, texts: tuple[str, ...], whole: bool) -> Iterator[Any]:
    import pandas as pd

    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(
            f"--delimiter must be one character, such as ';', found {delimiter!r}; without it, "
            "what separates the columns is found out"
        )
    separator = delimiter or _separator(path)
    options: dict[str, Any] = {"sep": separator, "low_memory": False}
    options |= {"dtype": dict.fromkeys(texts, "str")} if texts else {}
    try:
        if whole:
            found = iter([pd.read_csv(path, **options)])
        else:
            found = iter(pd.read_csv(path, chunksize=SETTINGS.table_rows, **options))
        for number, frame in enumerate(found):
            if number == 0:
                _check_header(frame, separator, path)
            yield frame if separator == "," else _with_decimal_points(frame, texts)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _separator(path: str) -> str:
    """What separates the names in the first line; where several could, the usual one."""
    usual = "\t" if ".tsv" in path.lower() else ","
    opened: Any = gzip.open if path.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        line = file.readline(_LONGEST)
    try:
        names = {s: len(next(csv.reader([line], delimiter=s), [])) for s in (usual, *_SEPARATORS)}
    except csv.Error:
        return usual
    return max(names, key=lambda separator: names[separator])


def _with_decimal_points(frame: Any, texts: tuple[str, ...]) -> Any:
    """The table with numbers where a column holds nothing but 12,5 and the like."""
    found = {}
    for name in frame.columns:
        cells = frame[name].dropna()
        if frame[name].dtype.kind in "biuf" or name in texts or not len(cells):
            continue
        cells = cells.astype("str")
        if cells.str.contains(",").any() and cells.str.fullmatch(_DECIMAL).all():
            found[name] = frame[name].str.replace(",", ".").astype(float)
    return frame.assign(**found) if found else frame


def _check_header(frame: Any, separator: str, path: str) -> None:
    names = [str(name) for name in frame.columns]
    if _are_values(names):
        warn(
            f"{path} seems to lack a header: its columns would be named {some(names, 4)}. If so, "
            "add a line of names"
        )
    if len(names) == 1:
        for other in _SEPARATORS:
            if other != separator and other in names[0]:
                raise ValueError(
                    f"{path} has one column, {names[0]!r}; is it separated by {other!r}? "
                    f"Say so: --delimiter {other!r}"
                )
    twice = [name for name in names if name.endswith(".1") and name[:-2] in names]
    if twice:
        raise ValueError(f"{path} has two columns named {twice[0][:-2]!r}")


def _are_values(names: list[str]) -> bool:
    """Whether names of columns read as the cells of a row.

    Numbers in order are names: of wavelengths, of years, of columns that nobody named.
    """
    numbers = [float(name) for name in names if name[-1:].isdigit() and reads_as_number(name)]
    if len(numbers) == 1:
        return not numbers[0].is_integer()
    steps = np.diff(numbers)
    return len(numbers) > 1 and not ((steps > 0.0).all() or (steps < 0.0).all())


def _parquet(path: str, whole: bool) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        if whole:
            yield file.read().to_pandas()
            return
        for batch in file.iter_batches(SETTINGS.table_rows):
            yield batch.to_pandas()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _npz(path: str) -> Any:
    """One column for each array of one dimension, several (a__0, a__1, …) for a matrix a."""
    import pandas as pd

    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} cannot be read: it is no archive of arrays")
    columns: dict[str, Any] = {}
    with np.load(path, allow_pickle=False) as file:
        for name in file.files:
            array = file[name]
            if array.ndim == 1:
                columns[name] = array
            elif array.ndim == 2:
                columns |= {f"{name}__{j}": array[:, j] for j in range(array.shape[1])}
            else:
                raise ValueError(f"{path}: {name!r} has {array.ndim} dimensions, not 1 or 2")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ValueError(f"{path}: its arrays have {some(sorted(lengths))} rows, not the same")
    return pd.DataFrame(columns)
