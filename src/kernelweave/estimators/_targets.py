"""What y means: encoded for machines, and kept to read their values; numbers in standard units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kernelweave._core.checks import check_floats, refuse_masked
from kernelweave._core.types import Array
from kernelweave.estimators._training import Learnt, Training
from kernelweave.learners.base import Learner
from kernelweave.views import weighted


@dataclass(frozen=True)
class Targets:
    """The targets of some rows as machines learn them; a subclass for every task.

    ``parts``: one array per problem to solve, (n,), or (n, k) for k machines that share their
    weights. ``factors``: what C is multiplied by, one number or one per row; None for 1.
    """

    parts: tuple[Array, ...]
    factors: Any = None

    loss: ClassVar[str] = "hinge"  # of estimators that have no such parameter
    signed: ClassVar[bool] = False  # whether kernels may have negative weights

    @classmethod
    def check(cls, model: Any) -> None:
        """Raise an error if parameters of the estimator do not go together."""

    @classmethod
    def read(cls, y: Any, model: Any) -> Any:
        """What y holds, checked: one target per row of X, or None where there are none."""
        raise NotImplementedError

    @classmethod
    def of(cls, values: Any, training: Training, model: Any, learner: Learner) -> Self:
        """The targets of these rows, encoded; raises an error if the learner cannot learn them."""
        raise NotImplementedError

    def check_kernels(self, stack: Any, weights: Array | None) -> None:
        """Raise an error if nothing can be learned with these kernels."""

    def keep(self, model: Any, learnt: Learnt) -> None:
        """Set the fitted attributes that say what values of machines mean."""
        raise NotImplementedError


def check_targets(y: Any) -> Array:
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


@dataclass(frozen=True)
class Units:
    """Mean and standard deviation of each target; a constant target has deviation 1."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, values: Array, weights: Array | None) -> Units:
        """Those of these values, (n, k), in which row i counts ``weights[i]`` times."""
        with np.errstate(over="ignore"):
            mean = np.asarray(weighted.mean(values, weights))
            scale = np.asarray(weighted.deviation(values, weights))
        if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
            raise ValueError("y: values too large to standardize (overflow); use other units.")
        counted = values if weights is None else values[weights > 0.0]
        varies = counted.max(axis=0) > counted.min(axis=0)
        if (varies & (scale == 0.0)).any():
            raise ValueError("y: values too small to standardize (underflow); use other units.")
        return cls(np.where(varies, mean, counted[0]), np.where(varies, scale, 1.0))

    def standardized(self, values: Array) -> Array:
        """Values at mean 0 and variance 1."""
        return (values - self.mean) / self.scale
