"""Whether a matrix from outside is a kernel: square, finite, symmetric, semidefinite."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave._core.types import Array
from kernelweave.stacks.validation import Voice, as_real, check_definite, check_entries, is_rough


def check_gram(K: Any, who: str, psd: bool = True, clip: bool = False, advice: str = "") -> Array:
    """K as a float64 array, exactly symmetric: K itself if it is one already, else a copy.

    ``who`` is named in errors, ``advice`` added to that about negative eigenvalues. float32
    numbers are judged as rounded to float32. ``psd=False`` leaves the eigenvalues unchecked,
    ``clip`` sets negative ones to zero.
    """
    given = as_real(K, who, objects=True)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or not given.size:
        raise ValueError(f"{who} must be a square matrix, found shape {given.shape}")
    precision = np.dtype(np.float32 if is_rough(given) else np.float64)
    matrix = np.ascontiguousarray(given, dtype=np.float64)
    voice = Voice(lambda _: who, "(K + K.T) / 2", advice)
    scales, gaps = check_entries(matrix[None], precision, 1, voice)
    if gaps[0] > 0:
        matrix = 0.5 * (matrix + matrix.T)
    if psd:
        matrix = check_definite(matrix[None], scales, precision, 1, clip, False, voice)[0]
    return matrix
