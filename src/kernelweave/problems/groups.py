"""Group norms: groups of kernels compete, kernels inside a group share.

    D = { d ≥ 0 :  Σ_g ‖d_g‖_p ≤ 1 },        ‖d_g‖_p = (Σ_{m ∈ g} d_m^p)^{1/p}

The 1-norm over groups leaves most groups, such as views, without any weight; the p-norm inside
spreads the weight of a group over its kernels, the more evenly the larger p. p = 1 is the simplex,
and so is a group for each kernel; one group for all is the ℓp ball.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import is_number, shown
from kernelweave._core.params import Params
from kernelweave._core.types import Places

_VIEWS = "views"


class GroupNorm(Params):
    """A norm of kernel weights, for the parameter ``weight_norm``: Σ_g ‖d_g‖_p ≤ 1.

    Parameters
    ----------
    groups : "views" or sequence of labels
        Which kernels form a group: those of the same view, in estimators, or those of equal
        labels, one for each kernel. In estimators that is each kernel of the bank, dropped ones
        included, in the order of ``kernel_names_``.
    inner : float
        p ≥ 1, ``inf`` included, the norm inside a group.

    Examples
    --------
    >>> from kernelweave import GroupNorm, MKLClassifier
    >>> MKLClassifier(weight_norm=GroupNorm("views", inner=2))
    MKLClassifier(weight_norm=GroupNorm())
    """

    def __init__(self, groups: Any = _VIEWS, inner: float = 2) -> None:
        self.groups = groups
        self.inner = inner

    def check(self) -> None:
        """Complain about parameters that are wrong whatever the kernels."""
        if not is_number(self.inner):
            raise TypeError(f"inner of GroupNorm must be a number ≥ 1, found {shown(self.inner)}")
        if not self.inner >= 1.0:
            raise ValueError(f"inner of GroupNorm must be a number ≥ 1, found {self.inner!r}")
        if self._by_view:
            return
        if isinstance(self.groups, str) or np.ndim(self.groups) != 1:
            raise ValueError(
                "groups of GroupNorm must be 'views' or a label for each kernel, found "
                f"{shown(self.groups)}"
            )

    @property
    def _by_view(self) -> bool:
        return isinstance(self.groups, str) and self.groups == _VIEWS

    def numbers(self, m: int) -> Places:
        """The number of the group of each of ``m`` kernels, in the order in which groups appear."""
        if self._by_view:
            raise ValueError(
                "groups='views' is for estimators, whose banks know the view of each kernel; give "
                f"groups of GroupNorm as {m} labels, one for each kernel"
            )
        if len(self.groups) != m:
            raise ValueError(
                f"groups of GroupNorm must have {m} labels, one for each kernel, found "
                f"{len(self.groups)}"
            )
        order: dict[Any, int] = {}
        return np.array([order.setdefault(label, len(order)) for label in self.groups])

    def on_bank(self, views: Sequence[str], kept: ArrayLike) -> GroupNorm:
        """The same for the kernels ``kept`` of a bank, given the view of each of its kernels."""
        numbers = GroupNorm(views if self._by_view else self.groups).numbers(len(views))
        return GroupNorm(numbers[np.asarray(kept)].tolist(), self.inner)
