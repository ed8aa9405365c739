"""Kernel normalizations, learned on training rows and applied exactly to new ones.

==================== ====================================================================
``"trace"``          K · n / tr K: mean diagonal 1 on the n training rows
``"unit_trace"``     K / tr K: trace 1 on the training rows
``"sphere"``         k(x, z) / √(k(x, x) k(z, z)): unit diagonal on training and new rows;
                     0 where k(x, x) = 0
``"center+trace"``   k(x, z) − mean_j k(x, x_j) − mean_i k(x_i, z) + mean_ij k(x_i, x_j),
                     means over the training rows, then as ``"trace"``
``"center+unit_trace"``  the same, then as ``"unit_trace"``
``"center+sphere"``  the same, then as ``"sphere"`` [lanckriet2004, §6.2]
``"auto"``           as ``"trace"``; the default kernels on a view that is mostly zeros, as
                     indicators and counts are, as ``"sphere"`` (``banks/plan.py``)
``None``             K unchanged
==================== ====================================================================

With weights, training row i counts w_i times: n is Σ w_i, tr K is Σ w_i k(x_i, x_i), and so on.
Rows that lack the view do not count, and a view that some training rows lack is centered under
every rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.tolerances import HALF_DIGITS
from kernelweave._core.types import Array
from kernelweave.views import products, weighted

RULES: dict[str | None, tuple[bool, str | None]] = {
    "trace": (False, "trace"),
    "unit_trace": (False, "unit_trace"),
    "sphere": (False, "sphere"),
    "center+trace": (True, "trace"),
    "center+unit_trace": (True, "unit_trace"),
    "center+sphere": (True, "sphere"),
    None: (False, None),
}
ASKED = {"auto": RULES["trace"], **RULES}  # what a bank may be asked for

_TINY = float(np.finfo(np.float64).tiny)


class Placed(NamedTuple):
    """What centering takes off the entries of some rows, and what the sphere multiplies them by."""

    means: Array | None
    norms: Array | None


@dataclass(frozen=True)
class Normalizer:
    """The normalization of one kernel, learned on its training matrix.

    ``scale``: factor s on the (centered) kernel; NaN for "sphere", which has no single factor.
    ``means``: mean over training rows of k(·, x_j) for each x_j, minus half the mean of these.
    ``inverse_norms``: 1/√k(x_j, x_j) per training row, of the centered kernel if it is.
    ``weights``: how often each training row counts in the means; None for once.
    """

    scale: float = 1.0
    means: Array | None = None
    inverse_norms: Array | None = None
    weights: Array | None = None

    def train(self, half: Array, out: NDArray[Any]) -> None:
        """Write the normalized training matrix to ``out``, from its lower triangle ``half``.

        Afterwards ``half`` is the normalized triangle up to scale.
        """
        if self.means is not None:
            products.center(half, self.means)
        if self.inverse_norms is not None:
            products.rescale(half, self.inverse_norms)
        scale = 1.0 if math.isnan(self.scale) else self.scale
        if np.may_share_memory(half, out):
            products.unpack_in_place(scale, out)
        else:
            products.unpack(half, scale, out)

    def factor(self, G: Array) -> Array:
        """The same for a factor Fᵀ (r, n) of the training matrix, which is changed in place."""
        if self.means is not None:
            G -= weighted.mean(G, self.weights, axis=1)[:, None]
        if self.inverse_norms is not None:
            G *= self.inverse_norms
        else:
            G *= math.sqrt(self.scale)
        return G

    def of_train(self, rows: Any) -> Placed:
        """What is applied to the training rows ``rows``."""
        norms = self.inverse_norms
        return Placed(
            None if self.means is None else self.means[rows], None if norms is None else norms[rows]
        )

    def of_new(self, diagonal: Callable[[], Array], against: Callable[[], Array]) -> Placed:
        """What is applied to new rows.

        ``diagonal()`` gives k(x, x), ``against()`` k(x, x_j) for all training rows x_j; either is
        called only where it is needed.
        """
        means = norms = None
        if self.means is not None:
            half = weighted.mean(self.means, self.weights)  # of the grand mean
            means = np.asarray(weighted.mean(against(), self.weights, axis=1) - half)
        if self.inverse_norms is not None:
            norms = inverse_root(_less(diagonal(), means))
        return Placed(means, norms)

    def apply(self, K: Array, left: Placed, right: Placed) -> Array:
        """Normalize a kernel between any rows in place, and return it."""
        if left.means is not None and right.means is not None:
            K -= np.add.outer(left.means, right.means)
        if left.norms is not None and right.norms is not None:
            K *= np.multiply.outer(left.norms, right.norms)
        elif self.scale != 1.0:
            K *= self.scale
        return K

    def diagonal(self, own: Array, rows: Placed) -> Array:
        """The normalized k(x, x) of rows from the plain one."""
        factor = self.scale if rows.norms is None else rows.norms * rows.norms
        return _less(own, rows.means) * factor


def learn_normalizer(
    rule: tuple[bool, str | None],
    diagonal: Array,
    means_of: Callable[[Array], Array],
    name: str,
    weights: Array | None = None,
) -> Normalizer | str:
    """Learn a normalization on the training rows; or return the reason to drop the kernel.

    ``rule``: whether to center, and the scaling. ``diagonal`` is that of the training matrix,
    ``means_of(counts)`` the mean of each row, in which row i counts ``weights[i]`` times.
    """
    center, scaling = rule
    counts = np.ones(diagonal.size) if weights is None else weights
    trace = weighted.total(diagonal, weights)
    if not math.isfinite(trace):
        raise ValueError(
            f"Kernel {name!r} overflows: its trace on the training rows is {trace}. "
            "Scale the columns it reads, or lower its degree."
        )
    if not trace > counts.sum() * _TINY:
        return "its trace is zero on the training rows"
    means = None
    if center:
        means = means_of(counts)
        means -= 0.5 * weighted.mean(means, weights)
        centered = trace - 2.0 * weighted.total(means, weights)
        if not centered > HALF_DIGITS * trace:
            return (
                "it is constant on the training rows, or so nearly that centering leaves only "
                "rounding; if its columns are far from zero, scale them (scale='standard')"
            )
        trace = centered
    if scaling == "sphere":
        norms = inverse_root(_less(diagonal, means))
        return Normalizer(np.nan, means, norms, weights if center else None)
    target = {"trace": float(counts.sum()), "unit_trace": 1.0, None: trace}[scaling]
    return Normalizer(target / trace, means, weights=weights if center else None)


def _less(diagonal: Array, means: Array | None) -> Array:
    """k(x, x) of the centered kernel, where it is centered."""
    return diagonal if means is None else diagonal - 2.0 * means


def inverse_root(diagonal: Array) -> Array:
    """1/√k(x, x), and 0 where k(x, x) is."""
    root = np.sqrt(np.maximum(diagonal, 0.0))
    return np.divide(1.0, root, where=root > 0, out=np.zeros_like(root))
