"""Whether a matrix from outside is a kernel: square, finite, symmetric, semidefinite."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._checks import ASYMMETRY, check_definite, is_rough
from .table import FloatArray


def check_gram(
    K: Any, who: str, psd: bool = True, clip: bool = False, advice: str = ""
) -> FloatArray:
    """K as a float64 array, exactly symmetric: K itself if it is one already, else a copy.

    ``who`` is named in errors, ``advice`` added to that about negative eigenvalues. float32
    numbers are judged as rounded to float32. ``psd=False`` leaves the eigenvalues unchecked,
    ``clip`` sets negative ones to zero.
    """
    matrix = np.asarray(K)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"{who}: a kernel matrix is square; found shape {matrix.shape}.")
    if matrix.dtype.kind not in "biufO":
        raise ValueError(f"{who}: a kernel matrix is real; found {matrix.dtype} entries.")
    precision = np.dtype(np.float32 if is_rough(matrix) else np.float64)
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    if not all(np.isfinite(matrix[rows]).all() for rows in _chunks(matrix)):
        i, j = (int(place) for place in np.argwhere(~np.isfinite(matrix))[0])
        raise ValueError(
            f"{who}: {matrix.size - np.isfinite(matrix).sum()} entries of the kernel matrix are "
            f"not finite; [{i}, {j}] is {matrix[i, j]}."
        )
    scale = max(float(np.abs(matrix[rows]).max()) for rows in _chunks(matrix))
    gap = max(float(np.abs(matrix[rows] - matrix[:, rows].T).max()) for rows in _chunks(matrix))
    if gap > ASYMMETRY[precision] * scale:
        worst = np.abs(matrix - matrix.T)
        i, j = (int(place) for place in np.unravel_index(worst.argmax(), worst.shape))
        raise ValueError(
            f"{who}: the kernel matrix is not symmetric; [{i}, {j}] is {matrix[i, j]:g}, "
            f"[{j}, {i}] is {matrix[j, i]:g}. If that is rounding, use (K + K.T) / 2."
        )
    if gap > 0:
        matrix = 0.5 * (matrix + matrix.T)
    if not psd:
        return matrix
    try:
        return check_definite(matrix[None], np.array([scale]), precision, 1, clip, False)[0]
    except ValueError as error:
        values = np.linalg.eigvalsh(matrix)
        raise ValueError(
            f"{who}: the kernel matrix is not positive semidefinite; its smallest eigenvalue is "
            f"{values[0]:.6g} (the largest {values[-1]:.6g}).{advice and ' ' + advice}"
        ) from error


def _chunks(matrix: FloatArray, size: int = 256) -> list[slice]:
    """A few rows at a time: large matrices leave no room for copies of themselves."""
    return [slice(start, start + size) for start in range(0, len(matrix), size)]
