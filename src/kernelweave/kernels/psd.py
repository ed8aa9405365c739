"""Whether a matrix from outside is a kernel: square, finite, symmetric, semidefinite."""

from __future__ import annotations

from typing import Any

import numpy as np

from .stack import KernelStack
from .table import FloatArray

_ASYMMETRY = 1e-8  # share of the largest entry


def check_gram(K: Any, who: str, psd: bool = True) -> FloatArray:
    """K as a float64 array, exactly symmetric: K itself if it is one already, else a copy.

    ``who`` is named in errors. ``psd=False`` leaves the eigenvalues unchecked.
    """
    matrix = np.asarray(K)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"{who}: a kernel matrix is square; found shape {matrix.shape}.")
    if matrix.dtype.kind not in "biufO":
        raise ValueError(f"{who}: a kernel matrix is real; found {matrix.dtype} entries.")
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    if not all(np.isfinite(matrix[rows]).all() for rows in _chunks(matrix)):
        i, j = (int(place) for place in np.argwhere(~np.isfinite(matrix))[0])
        raise ValueError(
            f"{who}: {matrix.size - np.isfinite(matrix).sum()} entries of the kernel matrix are "
            f"not finite; [{i}, {j}] is {matrix[i, j]}."
        )
    gap = max(float(np.abs(matrix[rows] - matrix[:, rows].T).max()) for rows in _chunks(matrix))
    if gap > _ASYMMETRY * max(float(np.abs(matrix[rows]).max()) for rows in _chunks(matrix)):
        worst = np.abs(matrix - matrix.T)
        i, j = (int(place) for place in np.unravel_index(worst.argmax(), worst.shape))
        raise ValueError(
            f"{who}: the kernel matrix is not symmetric; "
            f"[{i}, {j}] is {matrix[i, j]:g}, [{j}, {i}] is {matrix[j, i]:g}."
        )
    if gap > 0:
        matrix = 0.5 * (matrix + matrix.T)
    if psd:
        _check_eigenvalues(matrix, who)
    return matrix


def _chunks(matrix: FloatArray, size: int = 256) -> list[slice]:
    """A few rows at a time: large matrices leave no room for copies of themselves."""
    return [slice(start, start + size) for start in range(0, len(matrix), size)]


def _check_eigenvalues(matrix: FloatArray, who: str) -> None:
    try:
        KernelStack(matrix[np.newaxis])  # a Cholesky factor proves it in most cases
    except ValueError as error:
        values = np.linalg.eigvalsh(matrix)
        raise ValueError(
            f"{who}: the kernel matrix is not positive semidefinite; its smallest eigenvalue is "
            f"{values[0]:.6g} (the largest {values[-1]:.6g})."
        ) from error
