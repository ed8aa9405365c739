"""Losses, each lowered to the dual QP.

    hinge            C Σ ξ_i          c = y,  v_i between 0 and C·y_i
    squared_hinge    (C/2) Σ ξ_i²     c = y,  v_i between 0 and ∞·y_i,  ρ = 1/C

C may be one number or one per row; C = ∞ is the hard margin under either loss.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_number, refuse_masked, some
from kernelweave._core.types import Array
from kernelweave.problems.dual_qp import DualQP


def hinge(y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
    """½‖f‖² + C Σ (1 − y_i(f_i + b))₊ ; with a ridge, the hinge rounded off at its corner."""
    bound = np.broadcast_to(np.asarray(C, dtype=float), y.shape)
    return DualQP(
        linear=y,
        lower=np.where(y > 0.0, 0.0, -bound),
        upper=np.where(y > 0.0, bound, 0.0),
        n=y.size,
        ridge=ridge,
        sign=y,
    )


def squared_hinge(y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
    """½‖f‖² + (C/2) Σ (1 − y_i(f_i + b))₊²."""
    if np.ndim(C) > 0:
        raise ValueError("C must be one number with loss='squared_hinge', found an array")
    return hinge(y, np.inf, ridge + 1.0 / float(C))


_LARGEST_C = 1e100  # and the least is 1 over it

LOSSES = {"hinge": hinge, "squared_hinge": squared_hinge}


def check_loss(loss: str) -> None:
    """Complain about a loss that is not known."""
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(f"loss must be one of {sorted(LOSSES)}, found {loss!r}")


def lower(y: Array, C: float | Array, loss: str, ridge: float = 0.0) -> DualQP:
    """The dual QP of a named loss, for labels, costs and loss that were checked."""
    return LOSSES[loss](y, C, check_number("ridge", ridge, zero=True))


def make_qp(y: ArrayLike, n: int, C: ArrayLike, loss: str, ridge: float = 0.0) -> DualQP:
    """The same for ``n`` kernel rows, every argument checked."""
    check_loss(loss)
    return lower(check_labels(y, n), check_C(C, n), loss, ridge)


def check_labels(y: ArrayLike, n: int | None = None, partly: bool = False) -> Array:
    """Labels as an array of ±1.0, both present; one for each of ``n`` kernel rows, if n is given.

    ``partly``: 0 is allowed, too, and means that a row has no label.
    """
    also = ", or give them 0" if partly else ""
    refuse_masked("y", y, f"leave rows without a label out{also}")
    labels = np.asarray(y)
    if labels.dtype.kind not in "iufb":
        raise ValueError(f"y must hold the numbers -1 and +1, found dtype {labels.dtype}")
    if labels.ndim != 1:
        raise ValueError(f"y must be one-dimensional, found shape {labels.shape}")
    if n is not None and labels.size != n:
        raise ValueError(f"y has {labels.size} labels, but the kernels have {n} rows")
    labels = labels.astype(float)
    if not np.isfinite(labels).all():
        raise ValueError("y must be finite, found NaN or infinity")
    found = np.unique(labels)
    if not np.isin(found, (-1.0, 0.0, 1.0) if partly else (-1.0, 1.0)).all():
        also = "; 0 means no label" if partly else ""
        told = some(f"{value:g}" for value in found)
        raise ValueError(f"y must hold the labels -1 and +1 only, found {told}{also}")
    classes = found[found != 0.0]
    if classes.size < 2:
        which = "no class" if not classes.size else f"one class only ({classes[0]:+g})"
        also = " beside 0, which means no label" if found.size > classes.size else ""
        advice = ": for labels 0 and 1 pass 2 * y - 1" if found.tolist() == [0.0, 1.0] else ""
        raise ValueError(f"y holds {which}{also}; both -1 and +1 are needed{advice}")
    return labels


def check_C(C: ArrayLike, n: int) -> float | Array:
    """C as a positive number (∞ allowed) or as ``n`` of them."""
    refuse_masked("C", C)
    if C is None or isinstance(C, str | bool):
        raise TypeError(f"C must be a positive number, an array of them or 'learn', found {C!r}")
    try:
        bound = np.asarray(C, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"C must be a positive number or an array of them, found {C!r}") from None
    if bound.ndim > 0 and bound.shape != (n,):
        raise ValueError(f"C must be one number or {n} of them, found shape {bound.shape}")
    if not (bound > 0.0).all():
        raise ValueError(f"C must be positive, found {float(bound.min()):g}")
    finite = bound[np.isfinite(bound)]
    if ((finite < 1.0 / _LARGEST_C) | (finite > _LARGEST_C)).any():
        raise ValueError(
            f"C must lie between 1e-100 and 1e100, or be infinite, found {float(bound.max()):g}"
        )
    if bound.ndim and np.isinf(bound).any() and np.isfinite(bound).any():
        raise ValueError("C must be finite for all rows or infinite for all, found both")
    return bound if bound.ndim else float(bound)
