"""Which of very many views have to do with the targets, each by itself.

    z_m(π) = (q_m(π) − mean of q_m) / deviation of q_m,    q_m(π) = Σ_c y_{c,π}ᵀ K_m y_{c,π}

where the columns y_c are centered targets, an indicator for each class, in the order π of the rows;
q is the centered alignment of the kernel with the targets, up to a factor. A view's strength is the
largest z of its kernels, and

    p_v = (1 + #{π: max_w z_w(π) ≥ z_v}) / (1 + number of π).

The maximum is over all views [westfall1993]: where no view has to do with the targets, the chance
that any has p ≤ α is at most α, however many there are and however they overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from kernelweave._core.checks import check_level, check_number, some
from kernelweave._core.types import Array
from kernelweave.inspection._frames import frame
from kernelweave.inspection._refits import Refits
from kernelweave.inspection._resampling import Blocks

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, repr=False, eq=False)
class Association:
    """Which views have to do with the targets.

    Attributes
    ----------
    views : tuple of str
    strength : array (V,)
        By how many deviations each view is more like the targets than like shuffled ones.
    p_values : array (V,)
        Adjusted for all views: the chance of such a strength anywhere, without any association.
    informative : array (V,) of bool
        p-value at most ``level``.
    level : float
    """

    views: tuple[str, ...]
    strength: Array
    p_values: Array
    level: float

    @property
    def informative(self) -> NDArray[np.bool_]:
        """Which views have to do with the targets."""
        return self.p_values <= self.level

    def frame(self) -> DataFrame:
        """One line per view, the strongest first: view, strength, p_value, informative."""
        order = np.argsort(-self.strength, kind="stable")
        return frame(
            {
                "view": np.array(self.views, dtype=object)[order],
                "strength": self.strength[order],
                "p_value": self.p_values[order],
                "informative": self.informative[order],
            }
        )

    def __repr__(self) -> str:
        order = [k for k in np.argsort(-self.strength, kind="stable") if self.informative[k]]
        if not order:
            return f"none of {len(self.views)} views has to do with the targets beyond chance"
        names = some([self.views[k] for k in order], 10)
        return f"{len(order)} of {len(self.views)} views have to do with the targets: {names}"


def associated_views(
    model: Any,
    X: Any,
    y: Any,
    *,
    level: float = 0.01,
    n_permutations: int = 499,
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
) -> Association:
    """Which views have to do with the targets, each by itself: quick for thousands of gene sets.

    ``select_views`` fits the model anew for each shuffle of each view, and asks what a view adds to
    the others. This fits nothing: it compares the kernels of each view with the targets. Views
    that repeat an informative one are informative, too; a view whose worth shows only beside
    another is not found.

    Parameters
    ----------
    model, X, y, groups, n_jobs, random_state
        As for ``stability``.
    level : float
        The chance that any view is called informative where none is.
    n_permutations : int
        Orders of the targets; at least 1 / level − 1.

    Returns
    -------
    Association
        ``frame()``, ``informative``.
    """
    level, count = check_level(level), check_number("n_permutations", n_permutations, int)
    if (1 + count) * level < 1.0:
        raise ValueError(
            f"n_permutations must be {int(np.ceil(1.0 / level)) - 1} or more at level {level:g}, "
            f"found {count}: with fewer no view could ever be called informative"
        )
    refits = Refits.of(model, X, y, n_jobs)
    if refits.targets is None:
        raise ValueError(f"associated_views needs targets: {type(refits.model).__name__} has none")
    units = Blocks(refits.n, groups=groups)
    units.check_exchangeable()
    rng = np.random.default_rng(random_state)
    orders = np.array([np.arange(refits.n), *(units.permutation(rng) for _ in range(count))])
    strengths = _strengths(refits.bank.stack, _centered(refits), orders)
    of_kernel = np.array(refits.bank.views, dtype=object)[refits.bank.kept]
    views = tuple(dict.fromkeys(of_kernel.tolist()))
    z = np.array([strengths[of_kernel == view].max(axis=0) for view in views])
    largest = z[:, 1:].max(axis=0)
    beaten = (largest >= z[:, :1]).sum(axis=1)
    return Association(views, z[:, 0], (1.0 + beaten) / (1.0 + count), level)


def _centered(refits: Refits) -> Array:
    """The targets as columns of mean 0: indicators of classes, or numbers."""
    y: Any = refits.targets
    if is_classifier(refits.model):
        classes = np.unique(y)
        y = np.asarray(y)[:, None] == (classes[1:] if len(classes) == 2 else classes)
    y = np.asarray(y, dtype=float).reshape(refits.n, -1)
    y = y - y.mean(axis=0)
    return np.asarray(y / np.maximum(np.linalg.norm(y, axis=0), np.finfo(float).tiny))


def _strengths(stack: Any, Y: Array, orders: NDArray[np.intp]) -> Array:
    """z of every kernel under every order, (m, orders)."""
    every = np.arange(stack.n)
    moved = np.concatenate([column[orders] for column in Y.T]).T  # (n, targets · orders)
    found = np.empty((stack.m, len(orders)))
    for kernel in range(stack.m):
        products = stack.block(kernel, every, every) @ moved
        quads = np.einsum("ij,ij->j", moved, products)
        found[kernel] = quads.reshape(Y.shape[1], -1).sum(axis=0)
    found -= found.mean(axis=1, keepdims=True)
    spread = found.std(axis=1, keepdims=True)
    return np.divide(found, spread, out=np.zeros_like(found), where=spread > 0.0)
