"""What may enter a stack: real, finite, symmetric, positive semidefinite matrices of one size.

Every tolerance is relative to the kernel it judges, so kernels of any scale are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.linalg import eigh, eigvalsh, lapack

from kernelweave._core.checks import refuse_masked, refuse_sparse, shown
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import ASYMMETRY, EPS, NEGATIVITY, TINY
from kernelweave._core.types import Array, Index, Places
from kernelweave.stacks import _passes
from kernelweave.stacks.memory import fits, require_memory
from kernelweave.stacks.threads import run

_ULPS = 4  # kernels of scikit-learn differ from their transposes by one or two


def float_type(dtype: DTypeLike | None) -> np.dtype:
    """float64 (the default) or float32."""
    try:
        kind = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError:
        raise ValueError(f"dtype must be float64 or float32, found {shown(dtype)}") from None
    if kind not in ASYMMETRY:
        raise ValueError(f"dtype must be float64 or float32, found {kind}")
    return kind


def as_places(index: Index | None, size: int, name: str, empty: bool = True) -> Places:
    """What ``index`` picks from 0, …, size − 1, as NumPy would: numbers, a mask or a slice."""
    if index is None or isinstance(index, slice):
        places = np.arange(*(slice(None) if index is None else index).indices(size))
    else:
        index = np.asarray(index)
        index = index if index.size else index.astype(np.intp)
        if index.ndim != 1:
            raise IndexError(f"{name} must be one-dimensional, found shape {index.shape}")
        try:
            places = np.arange(size)[index]
        except IndexError as error:
            raise IndexError(f"{name}: {error}") from None
    if not (empty or len(places)):
        raise ValueError(f"{name} picks nothing")
    return places


def as_matrices(
    K: ArrayLike | Sequence[ArrayLike], dtype: np.dtype
) -> tuple[NDArray, bool, np.dtype]:
    """K as one C-contiguous (m, n, n) array, whether that is a copy, and how precise it can be.

    It is K itself where that will do. float32 numbers stay as rough as they were in float64.
    """
    listed = isinstance(K, list | tuple)
    parts = [as_real(A, f"K[{k}]") for k, A in enumerate(K)] if listed else as_real(K, "K")  # type: ignore[arg-type]
    shape = (len(parts), *parts[0].shape) if listed and parts else np.shape(parts)
    if len(shape) == 2 and 0 not in shape:
        raise ValueError(
            f"K must have shape (m, n, n), found {shape}; for a single kernel pass K[None]"
        )
    if 0 in shape:
        raise ValueError(f"K is empty: found shape {shape}")
    if len(shape) != 3 or shape[1] != shape[2]:
        raise ValueError(f"K must have shape (m, n, n), found {shape}")
    for k, A in enumerate(parts):
        if A.shape != shape[1:]:
            raise ValueError(f"K[{k}] has shape {A.shape}, but K[0] has shape {shape[1:]}")
    rough = any(is_rough(A) for A in parts)
    precision = np.dtype(np.float32) if rough else dtype
    if isinstance(parts, np.ndarray) and parts.dtype == dtype:
        if parts.flags.c_contiguous and parts.flags.aligned:
            return parts, False, precision
    require_memory(shape[0], shape[1], dtype)
    data = np.empty(shape, dtype)
    for k, A in enumerate(parts):
        data[k] = A
    return data, True, precision


def is_rough(A: NDArray) -> bool:
    """Whether the numbers in A are float32 or shorter."""
    return A.dtype.kind == "f" and A.dtype.itemsize <= 4


def as_real(A: Any, name: str, objects: bool = False) -> NDArray:
    """A as an array of real numbers; with ``objects`` they may be kept as objects."""
    refuse_masked(name, A)
    refuse_sparse(name, A)
    array = np.asarray(A)
    if objects and array.dtype.kind == "O":
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold real numbers, found {type(A).__name__} of dtype {array.dtype}"
        )
    return array


@dataclass(frozen=True)
class Voice:
    """How errors speak: what the matrices are called, and what to do about their faults."""

    names: Callable[[int], str] = "K[{}]".format
    symmetrize: str = "(K + K.transpose(0, 2, 1)) / 2"
    definite: str = (
        "KernelStack(K, indefinite='clip') sets negative eigenvalues to zero, or leave this kernel "
        "out"
    )


def check_entries(
    K: NDArray, precision: np.dtype, threads: int, voice: Voice
) -> tuple[Array, Array]:
    """Raise ``ValueError`` unless all is finite and symmetric; max |K_k| and max |K_k − K_kᵀ|."""
    scales, gaps = np.empty(len(K)), np.empty(len(K))
    K = read_only(K)
    run(_passes.survey, len(K), K.size, threads, K, scales, gaps)
    bad = np.flatnonzero(np.isinf(scales))
    if len(bad):
        A = K[bad[0]]
        i, j = np.argwhere(~np.isfinite(A))[0]
        others = f" ({len(bad)} kernels have such)" if len(bad) > 1 else ""
        raise ValueError(
            f"{voice.names(bad[0])} has {np.isnan(A).sum()} NaN and {np.isinf(A).sum()} infinite "
            f"entries, the first at [{i}, {j}]{others}"
        )
    bad = np.flatnonzero(gaps > ASYMMETRY[precision] * scales)
    if len(bad):
        k = bad[0]
        difference = np.abs(np.subtract(K[k], K[k].T, dtype=np.float64))
        i, j = np.unravel_index(difference.argmax(), difference.shape)
        raise ValueError(
            f"{voice.names(k)} is not symmetric: entries [{i}, {j}] and [{j}, {i}] differ by "
            f"{gaps[k]:.3g} (largest entry {scales[k]:.3g}); if that is rounding, pass "
            f"{voice.symmetrize}"
        )
    return scales, gaps


def symmetric(
    K: NDArray, gaps: Array, precision: np.dtype, threads: int, owned: bool
) -> tuple[NDArray, bool, float]:
    """K, kernels that differ from their transposes by more than a few ulp by their symmetric parts.

    Passes sum rows in the place of columns: what the two differ by would be in no bound. ``gaps``
    are max |K_k − K_kᵀ|. Whether K is ours, and whether the result is, is ``owned``. Last is what
    is left where there is no room for a copy: the largest |K_ij − K_ji|/√(K_ii K_jj).
    """
    kernels, few = np.flatnonzero(gaps > 0.0), _ULPS * EPS
    sizes = np.einsum("kii->ki", K)[kernels].astype(np.float64)
    sizes += NEGATIVITY[precision] * np.abs(sizes.sum(axis=1, keepdims=True))
    doubtful = gaps[kernels] > few * sizes.min(axis=1, initial=np.inf)
    kernels, inverse = kernels[doubtful], 1.0 / np.sqrt(np.maximum(sizes[doubtful], TINY))
    if not kernels.size:
        return K, owned, 0.0
    skews, reads = np.empty(kernels.size), kernels.size * K.shape[1] ** 2
    run(_passes.skews, kernels.size, reads, threads, read_only(K), kernels, inverse, skews)
    far = kernels[skews > few]
    if not far.size:
        return K, owned, 0.0
    more = 2 if owned else 2 + len(K)  # beside K: two of one kernel, and the copy
    if not fits(more, K.shape[1], K.dtype):
        return K, owned, float(skews.max())
    if not owned:
        K = K.copy()
    for k in far:
        K[k] = 0.5 * K[k] + 0.5 * K[k].T
    return K, True, 0.0


def check_definite(
    K: NDArray,
    scales: Array,
    precision: np.dtype,
    threads: int,
    clip: bool,
    owned: bool,
    voice: Voice,
) -> NDArray:
    """Raise ``ValueError`` for negative eigenvalues, or set them to zero in a copy.

    λ_min ≥ −tol·max|λ| counts as rounding. A Cholesky factor of K_k + tol·mean(diag)·I proves
    that much, because the mean of the diagonal, which is that of the eigenvalues, is at most
    the largest; only where there is none are eigenvalues computed.
    """
    tolerance = NEGATIVITY[precision]
    require_memory(1, K.shape[1], np.float64)
    for k in map(int, np.flatnonzero(~_have_factors(K, scales, tolerance, threads))):
        A = np.divide(K[k], scales[k], dtype=np.float64)
        values = eigvalsh(A)
        if values[0] >= -tolerance * np.abs(values).max():
            continue
        if not clip:
            raise ValueError(
                f"{voice.names(k)} is not positive semidefinite: smallest eigenvalue "
                f"{values[0] * scales[k]:.3g} (largest {values[-1] * scales[k]:.3g})"
                + (voice.definite and f"; {voice.definite}")
            )
        if not owned:
            require_memory(K.shape[0], K.shape[1], K.dtype)
            K, owned = K.copy(), True
        values, V = eigh(A)
        A = (V * np.maximum(values, 0.0)) @ V.T
        K[k] = (A + A.T) * (scales[k] / 2)
    return K


def _have_factors(K: NDArray, scales: Array, tolerance: float, threads: int) -> NDArray[np.bool_]:
    """Whether each K_k + tolerance·mean(diag)·I has a Cholesky factor; zero matrices pass."""
    m, n, _ = K.shape
    zero = scales == 0
    scales = np.where(zero, 1.0, scales)
    shifts = tolerance * np.einsum("kii->k", K, dtype=np.float64) / n / scales + zero
    found = np.zeros(m, dtype=np.bool_)
    if n <= SETTINGS.lapack_rows:
        run(_passes.factors, m, m * n**3 // 8, threads, read_only(K), scales, shifts, found)
        return found
    for k in np.flatnonzero(shifts > 0):
        A = np.divide(K[k], scales[k], dtype=np.float64)
        A.flat[:: n + 1] += shifts[k]
        found[k] = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)[1] == 0
    return found


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


def read_only(array: NDArray) -> NDArray:
    """A view that cannot be written to: the one type of array the compiled passes see."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def frozen(array: NDArray) -> NDArray:
    """The array itself, which nobody writes to from here on."""
    array.flags.writeable = False
    return array


def indices(chosen: ArrayLike, size: int, what: str) -> Places:
    """Positions from integers or from a mask of length ``size``."""
    array = np.atleast_1d(np.asarray(chosen))
    if array.dtype == bool:
        if array.shape != (size,):
            raise ValueError(f"{what}: a mask must have {size} entries; found {array.shape}.")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError(f"{what} must be integers or a mask; found {shown(chosen)}.")
    if array.min() < 0 or array.max() >= size:
        raise ValueError(
            f"{what} must lie between 0 and {size - 1}; found {array.min()} to {array.max()}."
        )
    return array.astype(np.intp)
