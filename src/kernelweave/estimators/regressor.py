"""Regression: numbers to predict, one machine per target."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin

from kernelweave._core.checks import (
    check_floats,
    check_truth,
    is_on_dask,
    is_one_of,
    refuse_masked,
)
from kernelweave._core.types import Array
from kernelweave.estimators._base import MKLEstimator, store
from kernelweave.estimators._fit import fit
from kernelweave.estimators._targets import (
    Targets,
    Training,
    as_vector,
    refuse_complex,
    takes_several,
)
from kernelweave.learners.base import Learner, versatile
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.interval import (
    AMONG_WEIGHTED,
    Interval,
    check_informed,
    informed,
    middle,
    read_ends,
)
from kernelweave.problems.losses import Loss, as_loss
from kernelweave.views import weighted


@dataclass(frozen=True)
class Numbers(Targets):
    """Numbers at mean 0 and variance 1, a machine for each column: y = ``mean`` + ``scale``·f."""

    mean: Any = 0.0
    scale: Any = 1.0
    one_column: bool = True

    kind = "values"
    also = ("interval",)
    metric = "R²"

    @classmethod
    def check(cls, model: Any) -> None:
        """Raise an error if parameters of the estimator do not go together."""
        check_truth("shared_weights", model.shared_weights)

    @classmethod
    def read(cls, y: Any, model: Any) -> Array:
        """Finite floats, (n,) or (n, k)."""
        values = check_values(y)
        if values.shape[1:] == (1,) and not takes_several(model.learner, model.shared_weights):
            return as_vector(values)
        return values

    @classmethod
    def encode(cls, training: Training, model: Any, learner: Learner) -> Numbers:
        """The targets of these rows."""
        columns = training.targets.reshape(len(training.targets), -1)
        several = columns.shape[1] > 1
        if several and not takes_several(learner, model.shared_weights):
            raise ValueError(
                f"{learner!r} learns the weights of one machine, but y has {columns.shape[1]} "
                f"targets: set shared_weights=False, or use learner={versatile()}."
            )
        mean, scale = standard_units(columns, training.weights)
        standard = (columns - mean) / scale
        parts = (standard,) if several and model.shared_weights else tuple(standard.T)
        return cls(parts, None, mean, scale, training.targets.ndim == 1)

    @classmethod
    def known(cls, model: Any) -> Numbers:
        """Those of a fitted estimator, to decode with."""
        return cls(one_column=model._one_column)

    @property
    def attributes(self) -> dict[str, Any]:
        """Fitted attributes from which ``known`` makes them again."""
        return {
            "target_mean_": self.mean,
            "target_scale_": self.scale,
            "_one_column": self.one_column,
        }

    def in_units(self, coef: Array, bias: Array) -> tuple[Array, Array]:
        """Coefficients (k, n) and biases (k,) of the machines in the units of y."""
        return coef * self.scale[:, None], bias * self.scale + self.mean

    def scores(self, values: Array) -> Array:
        """Numbers, shaped as y was."""
        return values[:, 0] if self.one_column else values


@dataclass(frozen=True)
class Intervals(Numbers):
    """Numbers that are known to lie between two ends; one machine, in units of the finite ends."""

    kind = "intervals"
    metric = "minus mean cost"
    most = 0.0

    @classmethod
    def read(cls, y: Any, model: Any) -> Any:
        """Both ends of each row, from (n, 2), or (n,) where all targets are exact."""
        refuse_complex(y)
        return read_ends(as_vector(y) if np.asarray(y).shape[1:] == (1,) else y)

    @classmethod
    def encode(cls, training: Training, model: Any, learner: Learner) -> Intervals:
        """The targets of these rows."""
        ends, weights = training.targets, training.weights
        check_informed(ends, AMONG_WEIGHTED)
        known = informed(ends)
        places = middle(ends[known])[:, None]
        mean, scale = standard_units(places, None if weights is None else weights[known])
        return cls((in_standard_units(ends, mean, scale),), None, mean, scale)

    @classmethod
    def numbers(cls, targets: Any) -> Array:
        """The finite end of each row, or the middle of both; the mean of all where none is."""
        known, places = informed(targets), middle(targets)
        return np.where(known, places, places[known].mean())

    @classmethod
    def distance(cls, targets: Any, said: Array) -> Array:
        """How far predictions are outside, (n,)."""
        return np.maximum(np.maximum(targets["lower"] - said, said - targets["upper"]), 0.0)


def takes_intervals(loss: Any) -> bool:
    """Whether y holds intervals under this loss."""
    return isinstance(loss, Interval) or is_one_of(loss, ("interval",))


def in_standard_units(ends: Any, mean: Any, scale: Any) -> Any:
    """Both ends of each row at these units; what is open stays open."""
    found = np.empty_like(ends)
    for side in ("lower", "upper"):
        found[side] = (ends[side] - mean) / scale
    return found


def mean_cost(model: Any, loss: Any, ends: Any, f: Array, weights: ArrayLike | None) -> float:
    """What predictions f cost on average, at C = 1 and in the standard units of a fitted model.

    Rows that are open on both sides do not count.
    """
    units = model.target_mean_, model.target_scale_
    costs = loss.cost(in_standard_units(ends, *units), (f - units[0]) / units[1])
    known = informed(ends)
    count = None if weights is None else np.asarray(weights, dtype=float)[known]
    return float(np.average(costs[known], weights=count))


def check_values(y: Any) -> Array:
    """Targets as finite floats, (n,) or (n, k)."""
    refuse_masked("y", y, "leave rows without a target out of X and y.")
    if np.asarray(y).dtype.kind == "c":
        raise ValueError("Complex data not supported: y must hold real numbers.")
    try:
        values = check_floats("y", y)
    except TypeError as error:
        raise TypeError(
            f"{error}. A regression predicts numbers; to predict classes, use MKLClassifier."
        ) from None
    if values.ndim not in (1, 2) or 0 in values.shape:
        raise ValueError(f"y must have shape (n,), or (n, k) for k targets; found {values.shape}.")
    if (missing := np.isnan(values).reshape(len(values), -1).any(axis=1)).any():
        raise ValueError(
            f"Input y contains NaN, in {np.count_nonzero(missing)} rows, the first in row "
            f"{np.argmax(missing)}; leave these rows out of X and y."
        )
    if (infinite := np.isinf(values).reshape(len(values), -1).any(axis=1)).any():
        raise ValueError(
            f"Input y contains infinity, the first in row {np.argmax(infinite)}; clip it, or leave "
            "these rows out of X and y."
        )
    return values


def standard_units(values: Array, weights: Array | None) -> tuple[Array, Array]:
    """Mean and standard deviation of each target, (n, k); a constant one has deviation 1.

    Row i counts ``weights[i]`` times.
    """
    with np.errstate(over="ignore"):
        mean = np.asarray(weighted.mean(values, weights))
        scale = np.asarray(weighted.deviation(values, weights))
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        raise ValueError("y: values too large to standardize (overflow); use other units.")
    counted = values if weights is None else values[weights > 0.0]
    varies = counted.max(axis=0) > counted.min(axis=0)
    if (varies & (scale == 0.0)).any():
        raise ValueError("y: values too small to standardize (underflow); use other units.")
    return np.where(varies, mean, counted[0]), np.where(varies, scale, 1.0)


class MKLRegressor(RegressorMixin, MultiOutputMixin, MKLEstimator):
    """Regression on a learned combination of kernels.

        min_{d ∈ D}  Σ_t  min_{f, b}  ½‖f‖² + C Σ_i ℓ(y_it − f(x_i) − b)

    f is from the space of the kernel Σ_m d_m k_m, and y_t is target t at mean 0 and variance 1.
    The kernel weights d_m ≥ 0, Σ_m d_m = 1 (or another norm), and the machines are learned
    together; the duality gap certifies how close they are to the optimum.

    Targets are standardized inside, so that C and epsilon mean the same in any units; predictions
    are in the units of y.

    Parameters
    ----------
    kernels : KernelBank, kernel, list of kernels or "precomputed", default=None
        As for ``MKLClassifier``. "precomputed": X is a list or dict of kernel matrices; one matrix
        is ``[K]``.
    C : float, default=1.0
        Cost of errors beside ‖f‖². With the bank's default normalization it has the same scale as
        in ``SVR`` on standardized targets.
    learner : str or learner object, default="auto"
        How the weights are learned, as for ``MKLClassifier``; some are for classes alone.
    loss : {"epsilon_insensitive", "squared", "huber", "quantile", "interval"}
        By default "epsilon_insensitive".
        ℓ(h) = (|h| − epsilon)₊; h²/2, which is kernel ridge regression with a bias and ridge 1/C;
        the same for small errors and |h| for large ones; max(qh, (q − 1)h) with q = ``quantile``,
        whose f is a quantile, not a mean. "interval" is for targets that are known to lie between
        two ends, such as values below a detection limit: y has shape (n, 2), an open end is ±inf,
        and a prediction costs (lower − f − epsilon)₊ + (f − upper − epsilon)₊. For times of which
        some are censored there is ``MKLSurvival``.
    epsilon : float, default=0.1
        Errors up to this cost nothing, with "epsilon_insensitive" and "interval". It is in standard
        deviations of the target, not in units of y.
    quantile : float, default=0.5
        The share of targets that shall lie below the prediction, with "quantile"; 0.5 is the
        median.
    weight_norm : float, GroupNorm or None, default=1
        p ≥ 1, ``inf`` included: weights with Σ_m d_m^p ≤ 1. 1 makes most of them zero.
    tol, max_iter, n_jobs, random_state, verbose, max_time, solver, device
        As for ``MKLClassifier``.
    shared_weights : bool, default=True
        With several targets: whether they share one set of kernel weights, or each learns its own.
    trace : float, optional
        c of [lanckriet2004]: weights with Σ_m d_m tr K_m = c in place of Σ_m d_m = 1, which needs
        ``weight_norm=1``. The paper's choice is c = Σ_m tr K_m.
    recenter : bool, default=False
        The same with the traces that kernels have once centered [chapelle2008, eq. 1]; without
        ``trace``, their mean is c.
    views : dict {name: columns}, "each" or "all+each", default=None
        As for ``MKLClassifier``.

    Attributes
    ----------
    weights_, raw_weights_ : ndarray (n_kernels,)
        As for ``MKLClassifier``; (n_targets, n_kernels) with ``shared_weights=False`` and more
        than one target.
    kernel_names_, bank_, n_iter_, n_svm_solves_, history_, n_features_in_, feature_names_in_
        As for ``MKLClassifier``.
    support_ : ndarray (n_SV,)
        Numbers of the support rows in X, of any target; all rows under "squared".
    dual_coef_ : ndarray (n_targets, n_SV)
        Coefficients of the support rows, for predictions in the units of y.
    intercept_ : ndarray (n_targets,)
        The bias of each target, in the units of y.
    target_mean_, target_scale_ : ndarray (n_targets,)
        What the targets were standardized by; the scale of a constant target is 1. With "interval",
        mean and deviation of the finite ends, of the middle where both are finite.
    duality_gap_, objective_ : float
        The certificate and the primal value for standardized targets, summed over them.
    solution_ : Solution
        The result of ``kernelweave.learn`` for standardized targets; if targets learned their own
        weights, a tuple with one per target.

    Notes
    -----
    ``sample_weight`` is as for ``MKLClassifier``: rows of weight 0 are left out, and whole weights
    are the same as repeated rows, in the mean and deviation of the targets too.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kernelweave import MKLRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MKLRegressor().fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    """

    _on_cluster = True

    @property
    def _targets(self) -> type[Numbers]:  # type: ignore[override]
        return Intervals if takes_intervals(self.loss) else Numbers

    def __init__(
        self,
        kernels: Any = None,
        C: float = 1.0,
        learner: str | Learner = "auto",
        loss: str | Loss = "epsilon_insensitive",
        epsilon: float = 0.1,
        quantile: float = 0.5,
        weight_norm: float | GroupNorm | None = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        max_time: float | None = None,
        shared_weights: bool = True,
        trace: float | None = None,
        recenter: bool = False,
        solver: str = "auto",
        device: str | None = None,
        views: Any = None,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kernel weights and machines.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read; kernel matrices if ``kernels="precomputed"``.
        y : array-like (n,) or (n, n_targets)
            Numbers to predict; with loss="interval", the lower and upper end of each, (n, 2), or
            (n,) where all are exact.
        sample_weight : array-like (n,), optional
            How often each row counts, ≥ 0; 1 for all by default.

        Returns
        -------
        self
        """
        return fit(self, X, y, sample_weight)

    def predict(self, X: Any) -> Array:
        """Predictions in the units of y, shaped as y was: (n_new,) or (n_new, n_targets)."""
        if "dask" in sys.modules and is_on_dask(X):
            return self._by_partition("predict", X)
        values, targets = self._values(X), self._targets.known(self)
        return targets.decode(targets.scores(values))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R²; with loss="interval" minus the mean cost, in standard units of the targets."""
        if not takes_intervals(self.loss):
            return float(super().score(X, y, sample_weight))
        loss, ends = as_loss(self.loss, epsilon=self.epsilon), self._targets.read(y, self)
        return -mean_cost(self, loss, ends, self.predict(X), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        several, ends = takes_several(self.learner, self.shared_weights), takes_intervals(self.loss)
        tags.target_tags.multi_output = several and not ends
        tags.regressor_tags.poor_score = ends  # which is a cost, not R²
        return tags
