"""Losses, each lowered to the dual QP.

    hinge                 C Σ ξ_i                    c = y,      v_i between 0 and C·y_i
    squared_hinge         (C/2) Σ ξ_i²               c = y,      v_i between 0 and ∞·y_i,  ρ = 1/C
    epsilon_insensitive   C Σ (|h_i| − ε)₊           c = y ∓ ε,  0 ≤ v⁺ ≤ C,  −C ≤ v⁻ ≤ 0
    squared               (C/2) Σ h_i²               c = y,      no bounds,  ρ = 1/C
    quantile              C Σ max(qh_i, (q − 1)h_i)  c = y,      −C(1 − q) ≤ v ≤ Cq
    one_class             C Σ (−f_i − b)₊ + b        c = 0,      0 ≤ v ≤ C,  Σv = 1

with ξ_i = (1 − y_i(f_i + b))₊ and h = y − f − b. C may be one number or one per row; C = ∞ is the
hard margin under the first two. A label of 0 says that the row takes no part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_choice, check_number, is_number, refuse_masked
from kernelweave._core.types import Array
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.targets import check_labels

_LARGEST_C = 1e100  # and the least is 1 over it


def hinge(y: Array, C: float | Array, ridge: float | Array = 0.0) -> DualQP:
    """½‖f‖² + C Σ (1 − y_i(f_i + b))₊ ; with a ridge, the hinge rounded off at its corner."""
    return DualQP(
        linear=y,
        lower=np.where(y < 0.0, -np.asarray(C), 0.0),
        upper=np.where(y > 0.0, C, 0.0),
        n=y.size,
        ridge=ridge,
        sign=y,
    )


def squared_hinge(y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
    """½‖f‖² + (C/2) Σ (1 − y_i(f_i + b))₊²."""
    return hinge(y, np.inf, ridge + 1.0 / C)


def epsilon_insensitive(
    y: Array, C: float | Array, ridge: float = 0.0, epsilon: float = 0.1
) -> DualQP:
    """½‖f‖² + C Σ (|y_i − f_i − b| − ε)₊: per row one variable for either side of the tube."""
    cost, none = np.broadcast_to(C, y.shape), np.zeros_like(y)
    return DualQP(
        linear=np.concatenate([y - epsilon, y + epsilon]),
        lower=np.concatenate([none, -cost]),
        upper=np.concatenate([cost, none]),
        n=y.size,
        ridge=ridge,
    )


def squared(y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
    """½‖f‖² + (C/2) Σ (y_i − f_i − b)²: kernel ridge regression, with a bias."""
    everywhere = np.full(y.size, np.inf)
    return DualQP(y, -everywhere, everywhere, y.size, ridge=ridge + 1.0 / C)


def pinball(y: Array, C: float | Array, ridge: float = 0.0, quantile: float = 0.5) -> DualQP:
    """½‖f‖² + C Σ max(q h_i, (q − 1) h_i), h = y − f − b: a share q of the targets lies below."""
    cost = np.broadcast_to(C, y.shape)
    return DualQP(y, (quantile - 1.0) * cost, quantile * cost, y.size, ridge=ridge)


def one_class(y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
    """½‖f‖² + C Σ (−f_i − b)₊ + b [rakoto2007, §2.3]; y says how many rows there are.

    With C = 1/(νn) at most a share ν of the rows is outside, where f + b < 0.
    """
    none = np.zeros(y.size)
    upper = np.array(np.broadcast_to(C, y.shape), dtype=float)
    if not upper.sum() >= 1.0:
        raise ValueError(
            f"with loss='one_class' the costs of all rows must add up to at least 1, found "
            f"{upper.sum():g}: C = 1/(νn) with 0 < ν ≤ 1 does"
        )
    return DualQP(none, none, upper, y.size, ridge=ridge, total=1.0)


@dataclass(frozen=True)
class Loss:
    """How a loss is lowered, and what it takes.

    ``target`` is what y holds: "labels", "values" or "nothing". ``knobs`` are the arguments beside
    C that it reads. ``hard`` says whether C = ∞ has a meaning.
    """

    lower: Callable[..., DualQP]
    target: str
    knobs: tuple[str, ...] = ()
    hard: bool = False


LOSSES = {
    "hinge": Loss(hinge, "labels", hard=True),
    "squared_hinge": Loss(squared_hinge, "labels", hard=True),
    "epsilon_insensitive": Loss(epsilon_insensitive, "values", knobs=("epsilon",)),
    "squared": Loss(squared, "values"),
    "quantile": Loss(pinball, "values", knobs=("quantile",)),
    "one_class": Loss(one_class, "nothing"),
}


def check_loss(loss: str) -> Loss:
    """The loss of that name; complains where there is none."""
    check_choice("loss", loss, LOSSES)
    return LOSSES[loss]


def check_knobs(epsilon: float, quantile: float) -> dict[str, float]:
    """The arguments that some losses have beside C, by name."""
    epsilon = check_number("epsilon", epsilon, zero=True)
    if not is_number(quantile) or not 0.0 < quantile < 1.0:
        raise ValueError(f"quantile must lie between 0 and 1, found {quantile!r}")
    return {"epsilon": epsilon, "quantile": float(quantile)}


def lower(y: Array, C: float | Array, loss: str, ridge: float = 0.0, **knobs: float) -> DualQP:
    """The dual QP of a named loss, for targets, costs and knobs that were checked.

    A loss takes what it reads of the ``knobs``.
    """
    chosen = LOSSES[loss]
    read = {name: knobs[name] for name in chosen.knobs if name in knobs}
    return chosen.lower(y, C, ridge, **read)


def make_qp(y: ArrayLike, n: int, C: ArrayLike, loss: str) -> DualQP:
    """The dual QP of labels and one of the hinges for ``n`` kernel rows, every argument checked."""
    if check_loss(loss).target != "labels":
        hinges = [name for name, loss in LOSSES.items() if loss.target == "labels"]
        raise ValueError(f"loss must be one of {hinges} here, found {loss!r}")
    return lower(check_labels(y, n), check_C(C, n), loss)


def check_costs(costs: Array, what: str = "C") -> Array:
    """``costs``, if one can compute with numbers of their size."""
    wrong = np.isfinite(costs) & ((costs < 1.0 / _LARGEST_C) | (costs > _LARGEST_C))
    if wrong.any():
        raise ValueError(
            f"{what} must lie between 1e-100 and 1e100, or be infinite, found "
            f"{float(costs.flat[np.argmax(wrong)]):g}"
        )
    return costs


def check_C(C: ArrayLike, n: int, loss: str = "hinge") -> float | Array:
    """C as a positive number or as ``n`` of them; ∞ where the loss has a hard margin."""
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
    check_costs(bound)
    if bound.ndim and np.isinf(bound).any() and np.isfinite(bound).any():
        raise ValueError("C must be finite for all rows or infinite for all, found both")
    if np.isinf(bound).any() and not LOSSES[loss].hard:
        raise ValueError(f"C must be finite with loss={loss!r}, found inf: there is no hard margin")
    return bound if bound.ndim else float(bound)
