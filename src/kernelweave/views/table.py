"""Reads X: arrays, lists of rows and data frames, column by column.

Columns of numbers are converted to floats once. All other columns (strings, dates, objects) stay
unchanged for kernels that read them. If a numeric kernel meets such a column, the error names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import is_sparse, on_host, refuse_masked, shown, some
from kernelweave.views.cells import (
    NUMBERS,
    all_equal,
    as_numbers,
    describe_ragged,
    filled,
    is_category,
    is_huge,
    is_missing,
    reads_as_number,
    token,
)

Array = NDArray[np.floating[Any]]

_FILL = 'KernelBank(impute="median") fills in single empty cells'
_NOTHING = (
    "KernelBank(impute=…) fills in single empty cells, but these rows have nothing in the view"
)
_NEW_LEVEL = (
    'KernelBank(impute="median") makes an empty cell a level of its own where the row has another '
    "category in the view."
)
_NO_CATEGORY = "Some rows have no category at all in the view, which KernelBank(impute=…) leaves."
_NO_INFINITY = "X.replace([np.inf, -np.inf], np.nan)"
WHOLE_VIEWS = (
    'If KernelBank has several views and missing="mean", a row may lack one as a whole, all of its '
    "columns NaN."
)


@dataclass(frozen=True)
class Table:
    """Rows of X: ``numbers`` (n, d), and ``objects`` (n, d), unchanged, if not all are numbers.

    ``declared``: columns that a data frame holds as categories, whatever their levels are.
    ``source``: X itself, for functions that select its columns; fitted banks and pickles do not
    keep it.
    """

    numbers: Array
    objects: NDArray[Any] | None
    numeric: NDArray[np.bool_]
    names: tuple[Any, ...] | None
    declared: NDArray[np.bool_]
    source: Any = None

    apart: ClassVar[bool] = False  # whether rows are elsewhere, and only some can be fetched
    sparse: ClassVar[bool] = False  # whether ``numbers`` is a CSR array
    shares: ClassVar[bool] = False  # whether it has a store of what two rows determine

    @classmethod
    def read(cls, X: Any) -> Table:
        """Read a 2-D array, sparse or not, a list of rows or a data frame; refuse the rest."""
        if isinstance(X, cls):
            return X
        check_one_table(X)
        if is_sparse(X):
            from kernelweave.views.sparse_table import SparseTable

            return SparseTable.of(X)
        if isinstance(X, np.ma.MaskedArray) and not np.ma.is_masked(X):
            X = X.data
        refuse_masked("X", X)
        names = tuple(X.columns) if hasattr(X, "columns") else None
        data = _as_array(X)
        if data.dtype.kind == "c":
            raise ValueError(f"Complex data not supported; found {shown(data)}.")
        check_shape(data)
        n_columns = data.shape[1]
        declared = np.zeros(n_columns, dtype=bool)
        if hasattr(X, "dtypes"):
            declared[:] = [is_category(dtype) for dtype in X.dtypes]
        if data.dtype.kind in NUMBERS:
            numbers = np.ascontiguousarray(data, dtype=np.float64)
            return cls(numbers, None, np.ones(n_columns, dtype=bool), names, declared, X)
        columns = [as_numbers(data[:, j]) for j in range(n_columns)]
        numeric = np.array([column is not None for column in columns])
        blank = np.full(len(data), np.nan)
        numbers = np.column_stack([blank if column is None else column for column in columns])
        objects = None if numeric.all() else data
        return cls(np.ascontiguousarray(numbers), objects, numeric, names, declared, X)

    def validate(self) -> None:
        """Raise ValueError unless all parts are of the same rows and columns."""
        shape, objects = self.numbers.shape, self.objects
        fits = (
            len(shape) == 2 and self.numeric.shape == self.declared.shape == shape[1:],
            self.names is None or len(self.names) == shape[-1],
            self.numeric.all() if objects is None else objects.shape == shape,
        )
        if not all(fits):
            raise ValueError("a table whose parts are not of the same rows and columns")

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        return self.numbers.shape[1]

    def take(self, rows: Any) -> Table:
        """Some of the rows, as a copy."""
        objects = None if self.objects is None else self.objects[rows].copy()
        return replace(self, numbers=self.numbers[rows].copy(), objects=objects)

    def block(self, rows: slice) -> Table:
        """Consecutive rows, as a view of the same memory."""
        objects = None if self.objects is None else self.objects[rows]
        return replace(self, numbers=self.numbers[rows], objects=objects, source=None)

    def join(self, other: Table) -> Table:
        """These rows followed by those of ``other``."""
        other = self.adopt(other)
        numeric = self.numeric & other.numeric
        objects = None if numeric.all() else np.vstack([self._objects, other._objects])
        numbers = np.vstack([self.numbers, other.numbers])
        return Table(numbers, objects, numeric, self.names, self.declared)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None}

    def find(self, other: Table) -> NDArray[np.intp]:
        """For each row of ``other``, the number of an equal row here, or −1."""
        other = self.adopt(other)
        numbers = {key: number for number, key in enumerate(self._keys())}
        return np.array([numbers.get(key, -1) for key in other._keys()], dtype=np.intp)

    @property
    def _objects(self) -> NDArray[Any]:
        return self.numbers.astype(object) if self.objects is None else self.objects

    def _keys(self) -> Iterator[tuple[Any, ...]]:
        """A key per row; equal rows have equal keys, and NaN equals NaN."""
        numbers = np.where(np.isnan(self.numbers), np.nan, self.numbers + 0.0)  # −0 is 0
        for row in range(len(self)):
            words = () if self.objects is None else self.objects[row, ~self.numeric]
            yield numbers[row].tobytes(), *(token(word) for word in words)

    def label(self, column: int) -> str:
        """Name of a column; ``x3`` for the fourth column of an array."""
        return f"x{column}" if self.names is None else str(self.names[column])

    def kind(self, column: int) -> str:
        """What a column holds: "category" if declared, "number", "string" or "object"."""
        if self.declared[column]:
            return "category"
        if self.objects is None or self.numeric[column]:
            return "number"
        values = (value for value in self.objects[:, column] if not is_missing(value))
        return "string" if all(isinstance(value, str) for value in values) else "object"

    def holds_numbers(self, columns: Sequence[int]) -> bool:
        """Whether all of these columns hold numbers, and none is declared to be categories."""
        index = list(columns)
        return bool(self.numeric[index].all() and not self.declared[index].any())

    def raw(self, columns: Sequence[int], filling: Array | None = None) -> NDArray[Any]:
        """Columns unchanged: floats if all of them hold numbers, else objects.

        ``filling``: what empty cells of the floats hold, by column.
        """
        index = list(columns)
        if self.objects is None or self.numeric[index].all():
            values = self.numbers[:, index]
            return values if filling is None else filled(values, filling)
        return self.objects[:, index]

    def floats(
        self,
        columns: Sequence[int],
        rows: Any = slice(None),
        gaps: str = WHOLE_VIEWS,
        filling: Array | None = None,
    ) -> Array:
        """Columns as finite floats; errors name the columns that cannot be converted.

        ``gaps``: what an error about NaN says of rows that lack a view. ``filling``: what an empty
        cell holds, by column, where its row holds something else; None refuses it.
        """
        for column in columns:
            if not self.numeric[column]:
                self._refuse(column)
        values = np.take(self.numbers[rows], columns, axis=1)
        if not np.isfinite(values.sum()):  # one cheap pass; a sum of finite numbers may overflow
            bad = ~np.isfinite(filled(values, filling))
            if bad.any():
                found = np.isnan(values).sum(axis=0), np.isinf(values).sum(axis=0)
                raise ValueError(self._describe_gaps(columns, *found, gaps, filling is None))
        return values

    def lacking(self, columns: Sequence[int]) -> NDArray[np.bool_]:
        """Which rows have nothing in these columns: NaN, None or NA in all of them."""
        lacks = np.ones(len(self), dtype=bool)
        for column in columns:
            if not lacks.any():
                break
            lacks[lacks] = self._missing(column, lacks)
        return lacks

    def _missing(self, column: int, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        if self.objects is None or self.numeric[column]:
            return np.isnan(self.numbers[rows, column])
        return np.array([is_missing(value) for value in self.objects[rows, column]], dtype=bool)

    def check_filled(self, columns: Sequence[int], filling: bool) -> None:
        """Raise ValueError if a value is missing in some of these columns.

        ``filling``: single empty cells are filled in, so that a row has none of these columns.
        """
        counts = {self.label(j): int(self.lacking([j]).sum()) for j in columns}
        told = [f"{label!r} ({count})" for label, count in counts.items() if count]
        if told:
            raise ValueError(
                f"Input X contains NaN or None in column {some(told)} among {len(self)} rows. "
                f"{_NO_CATEGORY if filling else _NEW_LEVEL} "
                'X.fillna({column: "missing"}) makes it a level of its own everywhere.'
            )

    def constant(self, columns: Sequence[int], filling: Array | None = None) -> bool:
        """Whether each of these columns has one value in all rows, its empty cells filled."""
        for place, column in enumerate(columns):
            if self.objects is not None and not self.numeric[column]:
                same = all_equal(self.objects[:, column])
            else:
                values = self.numbers[:, column]
                if filling is not None:
                    values = np.where(np.isnan(values), filling[place], values)
                same = values.min() == values.max()
            if not same:
                return False
        return True

    def adopt(self, new: Table) -> Table:
        """New rows for a model fitted on this table; they must have its columns."""
        new.check_like(self)
        if new.sparse:
            raise TypeError(
                "X is sparse, but the rows given to fit were dense: pass X.toarray(), or fit on "
                "sparse rows."
            )
        return new

    def check_like(self, other: Table) -> None:
        """Raise ValueError unless this table has the columns of ``other``, the table of ``fit``."""
        if self.n_columns != other.n_columns:
            raise ValueError(
                f"X has {self.n_columns} features, but KernelBank is expecting "
                f"{other.n_columns} features as input."
            )
        if self.names is None or other.names is None or self.names == other.names:
            return
        unseen = [name for name in self.names if name not in other.names]
        missing = [name for name in other.names if name not in self.names]
        told = "The feature names should match those that were passed during fit.\n"
        if unseen:
            told += f"Feature names unseen at fit time: {some(map(repr, unseen))}\n"
        if missing:
            told += f"Feature names seen at fit time, yet now missing: {some(map(repr, missing))}\n"
        if not unseen and not missing:
            told += "Feature names must be in the same order as they were in fit.\n"
        raise ValueError(told)

    def _refuse(self, column: int) -> None:
        assert self.objects is not None
        name = self.label(column)
        self._refuse_huge(column)
        advice = (
            "add Hamming() to the kernels if it holds categories, give it its own kernel, "
            "(name, kernel, columns), or encode it as numbers"
        )
        for value in self.objects[:, column]:
            try:
                float(value.item() if isinstance(value, np.str_) else value)
            except (TypeError, ValueError) as error:
                told = f"Column {name!r} of X does not hold numbers: {error}; {advice}."
                raise type(error)(told) from error
        raise ValueError(
            f"Column {name!r} of X does not hold numbers but strings, found "
            f"{shown(self.objects[0, column])}; all of them can be converted: use pd.to_numeric, "
            "or astype(float) for an array."
        )

    def _refuse_huge(self, column: int) -> None:
        """Raise ValueError if a cell of the column holds a number too large for a float."""
        for row, value in enumerate(self.raw([column])[:, 0]):
            if is_huge(value):
                raise ValueError(
                    f"Column {self.label(column)!r} of X holds a number too large for a float in "
                    f"row {row}, above 1.8e308: correct it, or leave the column out of X."
                )

    def check_still_numbers(self, columns: Iterable[int]) -> None:
        """Raise ValueError if one of these columns, which held numbers in ``fit``, holds others."""
        for column in columns:
            if self.numeric[column]:
                continue
            self._refuse_huge(column)
            values = self.raw([column])[:, 0]
            bad = [i for i in range(len(values)) if as_numbers(values[i : i + 1]) is None]
            row = next((i for i in bad if not reads_as_number(values[i])), bad[0])
            raise ValueError(
                f"Column {self.label(column)!r} of X held numbers in fit, but holds "
                f"{shown(values[row])} in row {row}: correct it, or convert the column as for "
                "fit, such as with pd.to_numeric."
            )

    def _describe_gaps(
        self, columns: Sequence[int], empty: Any, infinite: Any, gaps: str, unfilled: bool
    ) -> str:
        """Where NaN and infinity are, and what to do; ``unfilled``: single cells are not filled."""
        told, cures = list[str](), list[str]()
        for j, nan, inf in zip(columns, empty, infinite, strict=True):
            counts = [f"{nan} NaN"] * bool(nan) + [f"{inf} infinity"] * bool(inf)
            told += [f"{self.label(j)!r} ({' and '.join(counts)})"] * bool(counts)
        if missing_any := bool(empty.any()):
            cures.append(_FILL if unfilled else _NOTHING)
        if infinite.any():
            clip = "np.clip(X, low, high)" if self.names is None else _NO_INFINITY
            cures.append(f"replace or clip infinity, {clip}")
        return (
            f"Input X contains NaN or infinity in column {some(told)} among "
            f"{len(self)} rows. Kernels on numbers need finite values: {'; '.join(cures)}; or drop "
            f"these rows or columns.{f' {gaps}' if missing_any else ''}"
        )


def _as_array(X: Any) -> NDArray[Any]:
    if hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns"):
        kinds = {getattr(dtype, "kind", "O") for dtype in X.dtypes}
        if "c" in kinds:
            raise ValueError("Complex data not supported")
        plain = kinds <= set(NUMBERS)
        return X.to_numpy(dtype=np.float64 if plain else object, na_value=np.nan)
    X = on_host(X) if hasattr(X, "is_cuda") else X  # a tensor of PyTorch, wherever it is
    try:
        data = np.asarray(X)
    except ValueError as error:
        if not isinstance(X, list | tuple):
            raise
        raise ValueError(describe_ragged(X)) from error
    if data.dtype.kind in "US" and not hasattr(X, "dtype"):
        data = np.asarray(X, dtype=object)  # else NumPy turns numbers in mixed rows into text
    return data


def check_shape(data: Any) -> None:
    """Raise ValueError unless ``data`` has rows and columns, and at least one of each."""
    if data.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {'1D' if data.ndim else 'scalar'} array instead: "
            f"{shown(data)}.\n"
            "Reshape your data either using array.reshape(-1, 1) if your data has a single "
            "feature or array.reshape(1, -1) if it contains a single sample."
        )
    if data.ndim > 2:
        raise ValueError(f"Found array with dim {data.ndim}, while dim <= 2 is required for X.")
    for length, what in zip(data.shape, ("sample(s)", "feature(s)"), strict=True):
        if length == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape={data.shape}) while a minimum of 1 is required."
            )


def check_one_table(X: Any) -> None:
    """Raise an error if X is nothing or several tables; it has the line that joins them."""
    if X is None:
        raise TypeError(
            "X must be a table: a data frame, a 2-D array or a list of rows; found None."
        )
    if isinstance(X, list | tuple) and not X:
        raise ValueError(f"X has no rows: found {X!r}.")
    first = X[0] if isinstance(X, list | tuple) and X else None
    mapping = isinstance(X, Mapping) and not is_sparse(X)  # a sparse DOK matrix is a mapping
    if mapping or hasattr(first, "columns"):
        found = f" with {some(map(repr, X))}" if mapping else " of data frames"
        raise TypeError(
            f"X must be one table, found {type(X).__name__}{found}. Join them:\n"
            "    joined = kernelweave.join_views(X)\n"
            "    MKLClassifier(KernelBank(views=joined.views)).fit(joined.X, y)"
        )
