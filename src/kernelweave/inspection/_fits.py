"""Reads what plots are made of: weights, histories and names of fits.

A fit is a ``Solution`` or a fitted estimator. If the machines of an estimator have weights of their
own, they are drawn one by one where there is room for several curves, and by their mean elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import shown
from kernelweave._core.types import Array


def named_fits(solutions: Any) -> list[tuple[str | None, Any]]:
    """Pairs (name or None, fit); machines with weights of their own are fits of their own."""
    if isinstance(solutions, Mapping):
        found: list[tuple[str | None, Any]] = [(str(k), fit) for k, fit in solutions.items()]
    elif isinstance(solutions, Iterable) and not is_one(solutions):
        found = [(None, fit) for fit in solutions]
    else:
        found = [(None, solutions)]
    if not found:
        raise ValueError("solutions is empty")
    return [pair for name, fit in found for pair in _machines(name, fit)]


def _machines(name: str | None, fit: Any) -> list[tuple[str | None, Any]]:
    solutions = getattr(fit, "solution_", None)
    if not isinstance(solutions, tuple):
        return [(name, fit)]
    prefix = "" if name is None else f"{name}, "
    return [(f"{prefix}machine {k}", solution) for k, solution in enumerate(solutions)]


def is_one(fit: Any) -> bool:
    """Whether this is one model or a word, although it can be iterated over."""
    return isinstance(fit, str) or hasattr(fit, "get_params")


def history_of(fit: Any) -> Mapping[str, Array]:
    """The history of a fit, by iteration."""
    history = getattr(fit, "history_", getattr(fit, "history", None))
    if isinstance(history, tuple):
        raise ValueError(
            f"each of {len(history)} machines has weights of its own; pass the history of one, "
            'model.history_[0]["weights"], and names=model.kernel_names_'
        )
    if not isinstance(history, Mapping) or "gap" not in history:
        raise TypeError(f"expected a Solution or a fitted estimator, found {found_instead(fit)}")
    if len(history["gap"]) == 0:
        raise ValueError("the history of the fit is empty")
    return history


def weights_of(fit: Any) -> Array:
    """The kernel weights of a fit, (m,); their mean if machines have weights of their own."""
    given = getattr(fit, "weights_", getattr(fit, "weights", fit))
    try:
        weights = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        weights = np.empty(())
    if weights.ndim == 0:
        raise TypeError(
            "expected a Solution, a fitted estimator or an array of weights, found "
            f"{found_instead(fit)}"
        )
    if weights.ndim == 2 and hasattr(fit, "weights_"):
        weights = weights.mean(axis=0)
    if weights.ndim != 1 or weights.size == 0:
        raise ValueError(f"weights must have shape (m,), found {weights.shape}")
    if not np.isfinite(weights).all():
        raise ValueError("weights must be finite")
    return weights


def found_instead(found: Any, last: str = "pipeline[-1]") -> str:
    """What was found instead of a fit, with advice for what holds one."""
    kind = type(found).__name__
    if hasattr(found, "steps"):
        return f"a {kind}: pass its last step, {last}"
    if hasattr(found, "param_grid") or hasattr(found, "best_estimator_"):
        return f"a {kind}: pass its best_estimator_"
    return shown(found)


def kernel_labels(names: Sequence[str] | None, fit: Any, m: int) -> list[str]:
    """A name per kernel: as given, those of the estimator, or numbers."""
    given = getattr(fit, "kernel_names_", None) if names is None else names
    labels = [f"kernel {k}" for k in range(m)] if given is None else [str(name) for name in given]
    if len(labels) != m:
        raise ValueError(f"names must hold one name for each of {m} kernels, found {len(labels)}")
    return labels


def chosen_kernels(top: int | Sequence[int], sizes: Array) -> NDArray[np.intp]:
    """The ``top`` largest kernels, without those of size zero; or those that ``top`` lists."""
    given = np.asarray(top)
    if given.dtype.kind in "iu" and given.ndim == 0 and given > 0:
        return np.argsort(-sizes, kind="stable")[: min(int(given), np.count_nonzero(sizes))]
    if given.dtype.kind in "iu" and given.ndim == 1 and given.size:
        if 0 <= given.min() and given.max() < sizes.size and np.unique(given).size == given.size:
            return given.astype(np.intp)
    raise ValueError(
        f"top must be a positive number or a list of different kernels out of {sizes.size}, "
        f"found {top!r}"
    )
