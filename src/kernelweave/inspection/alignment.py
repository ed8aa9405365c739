"""Kernel alignment: the similarity of a kernel matrix to the labels [lanckriet2004, def. 6].

    A(K, L) = ⟨K, L⟩ / (‖K‖‖L‖),     ⟨K, L⟩ = tr KᵀL,      L = yyᵀ for labels y     (eq. 7)

The cosine of the angle between two matrices. If centered, between HKH and HLH, H = I − 11ᵀ/n, so
that a constant added to a kernel does not count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats
from kernelweave._core.tolerances import NOTHING
from kernelweave._core.types import Array
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.defaults import matrices
from kernelweave.stacks.protocol import is_stack


def alignment(K: Any, target: ArrayLike, *, centered: bool = False) -> float | Array:
    """The alignment of one kernel matrix, or of each of several, with labels or another matrix.

    Parameters
    ----------
    K : array (n, n), array (m, n, n) or stack
    target : array (n,) or (n, n)
        Labels y, for yyᵀ, or a kernel matrix. Two classes are -1 and +1 (or any two numbers, if
        centered) and 0 is a row without a label; other values are numbers to predict.
    centered : bool
        Center both matrices first.

    Returns
    -------
    float or array (m,)
        Between −1 and 1, and not negative for kernels; 0 if either matrix is zero.
    """
    if is_stack(K):
        stack = as_stack(K)
        each, n, one = matrices(stack), stack.n, False
    else:
        array = _numbers("K", K)
        one = array.ndim == 2
        array = array[None] if one else array
        if array.ndim != 3 or array.shape[1] != array.shape[2] or not array.size:
            raise ValueError(f"K must have shape (n, n) or (m, n, n), found {np.shape(K)}")
        each, n = iter(array), array.shape[1]
    other = _numbers("target", target)
    if other.shape == (n,):
        values = np.unique(other)
        if values.size == 2 and not centered and values.tolist() != [-1.0, 1.0]:
            signs = "2 * y - 1, or " if values.tolist() == [0.0, 1.0] else ""
            raise ValueError(
                f"target must hold -1 and +1 for two classes, found {values[0]:g} and "
                f"{values[1]:g}; pass {signs}np.outer(y, y) to use the numbers unchanged"
            )
        other = np.outer(other, other)
    if other.shape != (n, n):
        raise ValueError(f"target must have shape ({n},) or ({n}, {n}), found {other.shape}")
    found = np.array([_cosine(matrix, other, centered) for matrix in each])
    return float(found[0]) if one else found


def _cosine(K: Array, L: Array, centered: bool) -> float:
    if centered:
        K, L = _centered(K), _centered(L)
    K, L = (matrix / (np.abs(matrix).max() or 1.0) for matrix in (K, L))
    size = np.linalg.norm(K) * np.linalg.norm(L)
    return float(np.vdot(K, L) / size) if size > 0.0 else 0.0


def _centered(K: Array) -> Array:
    means = K.mean(axis=0)
    centered = K - means - K.mean(axis=1)[:, None] + means.mean()
    return centered if np.linalg.norm(centered) > NOTHING * np.linalg.norm(K) else 0.0 * K


def _numbers(name: str, x: ArrayLike) -> Array:
    array = check_floats(name, x)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, found NaN or infinity")
    return array
