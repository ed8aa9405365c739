"""Clusters of rows that have several views.

    min_{w, H}  Σ_m w_m² tr K_m(I − HHᵀ)    s.t.  Σ_m w_m = 1

where H_ic is 1/√n_c for the rows i of cluster c, and 0 for others.

For given clusters the weights are w_m ∝ 1/t_m with t_m = tr K_m(I − HHᵀ), the sum of squared
distances of the rows from the means of their clusters under kernel m, and the value is 1/Σ_m 1/t_m.
For given weights H is k-means in the feature space of K = Σ w_m² K_m. Neither step raises the
objective [gonen2014].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kernelweave._core.checks import check_number
from kernelweave._core.types import Array, Places
from kernelweave._core.warnings import warn_unconverged
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._base import as_bank, read_new, store
from kernelweave.estimators.unlabeled import Unlabeled
from kernelweave.kernels.numeric import Linear
from kernelweave.stacks.protocol import CombinedKernel, Stack


class MKLKernelKMeans(ClusterMixin, Unlabeled):
    """k-means on a combination of kernels, whose weights and clusters are learned together.

    A kernel counts the more, the closer the rows are to the means of their clusters under it. The
    problem is not convex: the best of ``n_init`` starts is a local minimum, and there is **no
    certificate**.

    Kernels are compared by what clusters leave of them: give each view kernels of one kind, and
    center them, as the default does. A kernel of few dimensions is easier to cluster than one of
    many, whatever it means.

    Parameters
    ----------
    n_clusters : int, default=8
    kernels : KernelBank, kernel, list of kernels or "precomputed", default=None
        None, or a bank without kernels: a linear kernel on each view, on standardized columns, for
        clusters around means. Kernels are centered unless a bank says otherwise.
    n_init : int, default=10
        Starts, with centers far from each other (k-means++); the best is kept.
    max_iter : int, default=300
        Steps of each start.
    n_jobs : int, default=None
        Threads that compute kernels.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_ : ndarray (n,)
        The cluster of each row of ``fit``, the largest is 0; −1 for rows of weight 0.
    shares_ : ndarray (n_kernels,)
        w, of sum 1.
    weights_ : ndarray (n_kernels,)
        w², by which the kernels are multiplied.
    inertia_ : float
        The objective.
    history_ : ndarray
        The objective after each step of the best start; it never rises.
    n_iter_ : int
        Steps of the best start.
    raw_weights_, kernel_names_, bank_, n_features_in_, feature_names_in_
        As for ``MKLClassifier``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import KernelBank, MKLKernelKMeans
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat([0, 1], 50)
    >>> X = rng.normal(size=(100, 6))
    >>> X[:, :3] += 4 * group[:, None]
    >>> views = {"told": slice(0, 3), "noise": slice(3, 6)}
    >>> model = MKLKernelKMeans(2, KernelBank(views=views), random_state=0).fit(X)
    >>> bool(model.shares_[0] > model.shares_[1])
    True
    """

    _kept = ("bank_", "weights_", "_training_bank", "_members", "_centers")
    _training_bank: FittedBank
    _members: Array
    _centers: Array

    def __init__(
        self,
        n_clusters: int = 8,
        kernels: Any = None,
        n_init: int = 10,
        max_iter: int = 300,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        store(self, locals())

    @staticmethod
    def _as_bank(kernels: Any) -> KernelBank:
        """The bank for the parameter ``kernels``: centered, unless a bank says how to normalize."""
        given = as_bank(kernels)
        if isinstance(kernels, str):  # matrices
            return given
        params = given.get_params(deep=False)
        if params["normalize"] == "auto":
            params["normalize"] = "center+trace"
        if params["kernels"] is None:
            params["kernels"] = [Linear()]
        return KernelBank(**params)

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn clusters and weights.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read; kernel matrices if ``kernels="precomputed"``.
        y : ignored
        sample_weight : array-like (n,), optional
            How often each row counts, ≥ 0; 1 for all by default.

        Returns
        -------
        self
        """
        count = check_number("n_clusters", self.n_clusters, int)
        starts = check_number("n_init", self.n_init, int)
        steps = check_number("max_iter", self.max_iter, int)
        rng = check_random_state(self.random_state)
        training, bank = self._fitted_bank(X, sample_weight, max(count, 2), f"n_clusters={count}")
        n = len(training.table)
        sizes = np.ones(n) if training.weights is None else training.weights
        best = min(
            (_descend(bank.stack, count, sizes, steps, rng) for _ in range(starts)),
            key=lambda found: found[2][-1],
        )
        labels, shares, history = best
        if len(history) > steps:
            warn_unconverged(f"MKLKernelKMeans: {steps} steps were not enough; raise max_iter")
        members, kernel = _members(labels, count, sizes), bank.stack.combined(shares**2)
        centers = np.einsum("ic,ic->c", members, kernel @ members)
        weights = np.bincount(labels, sizes, minlength=count)
        order = np.lexsort((centers, -weights))
        places = np.full(training.n_given, -1, dtype=np.intp)
        places[training.places] = np.argsort(order)[labels]
        found = {
            "labels_": places,
            "shares_": bank.spread(shares),
            "inertia_": float(history[-1]),
            "history_": np.array(history),
            "n_iter_": len(history) - 1,
            "_members": members[:, order],
            "_centers": centers[order],
        }
        self._keep(training, bank, shares**2, found)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """With all training rows, which new ones are compared to."""
        known = {k: v for k, v in vars(self).items() if k == "_training_bank"}
        return {**super().__getstate__(), **known}

    @property
    def _expansion(self) -> tuple[FittedBank, Array, Array]:
        """The means of the clusters."""
        return self._training_bank, self._members.T, self._centers

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The cluster whose mean is nearest, (n_new,)."""
        check_is_fitted(self)
        bank, table = read_new(self, X, self._training_bank)
        values = bank.decision(table, self.weights_, self._members)
        return np.asarray(np.argmin(self._centers - 2.0 * values, axis=1))


def _descend(
    stack: Stack, count: int, sizes: Array, steps: int, rng: Any
) -> tuple[Places, Array, list[float]]:
    """Clusters, weights and the objective after each step, from one start."""
    shares = np.full(stack.m, 1.0 / stack.m)
    kernel = stack.combined(shares**2)
    labels = _nearest(kernel, _seeds(kernel, count, sizes, rng), count, sizes)
    rest = _residuals(stack, labels, count, sizes)
    history = [float(shares**2 @ rest)]
    while True:
        shares = closed_form(rest)
        kernel, value = stack.combined(shares**2), float(shares**2 @ rest)
        history.append(value)
        for new in _steps(kernel, labels, count, sizes):
            new_rest = _residuals(stack, new, count, sizes)
            falls = float(shares**2 @ new_rest) < value * (1.0 - 1e-12)
            if falls:
                break
        if len(history) > steps or not falls:
            return labels, shares, history
        labels, rest = new, new_rest


def _steps(kernel: CombinedKernel, labels: Places, count: int, sizes: Array) -> Iterator[Places]:
    """Other clusters: every row to the nearest mean; where that ends, rows one by one."""
    yield _nearest(kernel, _members(labels, count, sizes), count, sizes)
    yield _moved(kernel, labels, count, sizes)


def _moved(kernel: CombinedKernel, labels: Places, count: int, sizes: Array) -> Places:
    """Rows that change their cluster one by one, while the sum of squared distances falls.

    A row of weight s takes s·T/(T − s)·|x − mean|² out of a cluster of weight T, and brings
    s·T/(T + s)·|x − mean|² into another: a row may gain by leaving the nearest mean, which it has
    drawn to itself [hartigan1979].
    """
    labels, rows = labels.copy(), np.arange(labels.size)
    totals = np.bincount(labels, sizes, minlength=count)
    whole = np.where(labels[:, None] == np.arange(count), sizes[:, None], 0.0)
    products, own = kernel @ whole, kernel.diagonal()
    inner = np.einsum("ic,ic->c", whole, products)
    for _ in range(labels.size):
        filled = np.maximum(totals, np.finfo(float).tiny)
        apart = own[:, None] - 2.0 * products / filled + inner / filled**2
        change = sizes[:, None] * totals / (totals + sizes[:, None]) * apart
        mine, left = apart[rows, labels], totals[labels] - sizes
        alone = left <= 0.0
        change -= np.where(alone, 0.0, sizes * totals[labels] * mine / np.where(alone, 1.0, left))[
            :, None
        ]
        change[rows, labels] = change[alone] = np.inf
        row, new = np.unravel_index(np.argmin(change), change.shape)
        if not change[row, new] < -1e-12 * float(sizes @ own):
            break
        old, size, k = labels[row], sizes[row], kernel.rows(rows[row : row + 1])[0]
        for cluster, sign in ((old, -1.0), (new, 1.0)):
            inner[cluster] += sign * 2.0 * size * products[row, cluster] + size**2 * own[row]
            products[:, cluster] += sign * size * k
            totals[cluster] += sign * size
        labels[row] = new
    return labels


def closed_form(rest: Array) -> Array:
    """w_m ∝ 1/t_m, of sum 1; the kernels of t_m = 0 share it, where there are some."""
    if (rest <= 0.0).any():
        inverse = (rest <= 0.0).astype(float)
    else:
        inverse = rest.min() / rest
    return np.asarray(inverse / inverse.sum())


def _residuals(stack: Stack, labels: Places, count: int, sizes: Array) -> Array:
    """t_m = tr K_m(I − HHᵀ), rows counted by weight."""
    total = stack.diagonals() @ sizes
    found = total.copy()
    for cluster in range(count):
        own = np.where(labels == cluster, sizes, 0.0)
        if own.any():
            found -= stack.quad_forms(own) / own.sum()
    found[found <= 1e-12 * total] = 0.0
    return np.asarray(found)


def _members(labels: Places, count: int, sizes: Array) -> Array:
    """The share of each row in the mean of its cluster, (n, count); empty clusters have zeros."""
    found = np.zeros((labels.size, count))
    found[np.arange(labels.size), labels] = sizes
    totals = found.sum(axis=0)
    return np.divide(found, totals, out=found, where=totals > 0.0)


def _nearest(kernel: CombinedKernel, members: Array, count: int, sizes: Array) -> Places:
    """The nearest mean of every row; an empty cluster gets the row farthest from its own."""
    products = kernel @ members
    apart = np.einsum("ic,ic->c", members, products) - 2.0 * products
    apart[:, ~members.any(axis=0)] = np.inf
    labels = np.argmin(apart, axis=1)
    left = kernel.diagonal() + apart[np.arange(len(labels)), labels]
    for cluster in range(count):
        if not (labels == cluster).any():
            several = np.bincount(labels, minlength=count)[labels] > 1
            far = int(np.argmax(np.where(several, sizes * left, -np.inf)))
            labels[far], left[far] = cluster, 0.0
    return labels


def _seeds(kernel: CombinedKernel, count: int, sizes: Array, rng: Any) -> Array:
    """Single rows as centers, drawn by their squared distance from those before (k-means++)."""
    own = kernel.diagonal()
    chosen = [int(rng.choice(sizes.size, p=sizes / sizes.sum()))]
    apart = np.full(sizes.size, np.inf)
    while True:
        row = kernel.rows(np.array(chosen[-1:]))[0]
        apart = np.minimum(apart, np.maximum(own + own[chosen[-1]] - 2.0 * row, 0.0))
        if len(chosen) == count:
            break
        chances = sizes * apart
        chances[chosen] = 0.0
        if chances.sum() <= 0.0:  # all rows are one of those chosen
            chances = np.ones(sizes.size)
            chances[chosen] = 0.0
        chosen.append(int(rng.choice(sizes.size, p=chances / chances.sum())))
    found = np.zeros((sizes.size, count))
    found[chosen, np.arange(count)] = 1.0
    return found
