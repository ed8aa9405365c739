"""Reads sparse X: a table of numbers of which most are zero, kept as CSR and never densified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import some
from kernelweave.views.table import Table, check_shape


@dataclass(frozen=True)
class SparseTable(Table):
    """Rows of a sparse X. ``numbers`` is a CSR array: sorted, without duplicates, float64.

    Every sparse format of SciPy is converted to CSR once. Columns are neither centered nor
    standardized: both would fill in the zeros.
    """

    numbers: Any
    sparse: ClassVar[bool] = True

    @classmethod
    def of(cls, X: Any) -> SparseTable:
        """Read a sparse matrix or array of any format; X itself stays unchanged."""
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported; X is a complex sparse matrix.")
        check_shape(X)
        try:
            numbers = _as_rows(X)
        except (IndexError, ValueError) as error:
            raise ValueError(
                f"X is a sparse matrix with damaged indices: {error}; build it anew from its "
                "rows, columns and values."
            ) from None
        if not numbers.has_canonical_format:
            numbers = numbers.copy()
            numbers.sum_duplicates()
        none = np.zeros(numbers.shape[1], dtype=bool)
        return cls(numbers, None, ~none, None, none)

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    def take(self, rows: Any) -> SparseTable:
        """Some of the rows, as a copy."""
        return replace(self, numbers=self.numbers[rows].copy())

    def block(self, rows: slice) -> SparseTable:
        """Consecutive rows."""
        return replace(self, numbers=self.numbers[rows])

    def join(self, other: Table) -> SparseTable:
        """These rows followed by those of ``other``."""
        from scipy.sparse import vstack

        same = self.adopt(other)
        return replace(self, numbers=vstack([self.numbers, same.numbers], format="csr"))

    def adopt(self, new: Table) -> Table:
        """New rows for a model fitted on this table; dense ones are made sparse."""
        new.check_like(self)
        if new.sparse:
            return new
        from scipy.sparse import csr_array

        return SparseTable.of(csr_array(new.floats(range(new.n_columns))))

    def raw(self, columns: Sequence[int], filling: Any = None) -> Any:
        """Columns unchanged, as CSR."""
        if tuple(columns) == tuple(range(self.n_columns)):
            return self.numbers
        chosen = self.numbers[:, list(columns)]
        chosen.sort_indices()
        return chosen

    def lacking(self, columns: Sequence[int]) -> NDArray[np.bool_]:
        """No row: what is not stored is zero, and a stored NaN is an error."""
        return np.zeros(len(self), dtype=bool)

    def floats(
        self, columns: Sequence[int], rows: Any = slice(None), gaps: str = "", filling: Any = None
    ) -> Any:
        """Columns as CSR of finite floats; errors name the columns that are not."""
        values = self.raw(columns)[rows]
        bad = ~np.isfinite(values.data)
        if bad.any():
            names = [repr(self.label(columns[j])) for j in np.unique(values.indices[bad])]
            raise ValueError(
                f"Input X contains NaN or infinity in column {some(names)} among {len(self)} "
                f"rows: {int(bad.sum())} of its {values.nnz} stored numbers. Kernels on numbers "
                "need finite values: set them to 0 in X.data, or drop their rows."
            )
        return values

    def constant(self, columns: Sequence[int], filling: Any = None) -> bool:
        """Whether each of these columns has one value in all rows."""
        values = self.raw(columns)
        return bool((values.max(axis=0) != values.min(axis=0)).nnz == 0)

    def _keys(self) -> Iterator[tuple[Any, ...]]:
        """Columns and numbers of each row that are not zero."""
        for row in range(len(self)):
            part = slice(self.numbers.indptr[row], self.numbers.indptr[row + 1])
            values = self.numbers.data[part]
            held = values != 0.0
            columns = self.numbers.indices[part][held].astype(np.int64)
            yield columns.tobytes(), values[held].tobytes()


def _as_rows(X: Any) -> Any:
    """X as CSR, checked before compiled loops read beyond its arrays: SciPy's own, too."""
    from scipy.sparse import coo_array, csr_array

    if X.format == "coo":
        X = coo_array((X.data, X.coords), shape=X.shape)
    elif hasattr(X, "check_format"):
        X.check_format(full_check=True)
    numbers = csr_array(X, dtype=np.float64)
    numbers.check_format(full_check=True)
    return numbers
