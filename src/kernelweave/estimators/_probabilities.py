"""Probabilities from decision values, by curves fitted to rows that the machines had not seen.

    two classes    p(second class) = s(f)
    "ovr"          p_k ∝ s_k(f_k)
    "ovo"          min_p Σ_k Σ_{l ≠ k} (r_lk p_k − r_kl p_l)²,  Σp = 1,  r_kl = s_kl(f_kl)
    temperature    p_k ∝ exp(βf_k) under "ovr", else s(f) = 1 / (1 + exp(−βf)); one β for all

Pairs are coupled by the second way of [wu2004, eq. 21]: if r_kl = p_k / (p_k + p_l), it gives p.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from kernelweave._core.tolerances import COINCIDE, EPS, SUM_ROUNDING, TINY
from kernelweave._core.types import Array, Places
from kernelweave.estimators._targets import FORMS, machine_labels

METHODS = ("sigmoid", "isotonic", "temperature")
_STEPS = 100  # of Newton's method; a dozen are taken
_LOGS = -12.0, 12.0  # between which log β is looked for, in units of the values


@dataclass(frozen=True)
class Sigmoid:
    """s(f) = 1 / (1 + exp(−slope·f − shift))."""

    slope: float
    shift: float = 0.0

    @classmethod
    def fit(cls, values: Array, positive: NDArray[np.bool_], weights: Array) -> Sigmoid:
        """The least Σ_i w_i (log(1 + exp z_i) − t_i z_i), z = slope·f + shift, by Newton's method.

        The targets t are Platt's [platt1999, §2.2]: (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2), with the
        sums of weights as n₊ and n₋, so that classes which values tell apart have a finite slope.
        """
        more, fewer = weights[positive].sum(), weights[~positive].sum()
        targets = np.where(positive, (more + 1.0) / (more + 2.0), 1.0 / (fewer + 2.0))
        middle, unit = values.mean(), values.std() or 1.0
        line = np.column_stack([(values - middle) / unit, np.ones_like(values)])
        found, total = np.array([0.0, np.log((more + 1.0) / (fewer + 1.0))]), weights.sum()

        def loss(parameters: Array) -> float:
            z = line @ parameters
            return float(weights @ (np.logaddexp(0.0, z) - targets * z))

        best = loss(found)
        for _ in range(_STEPS):
            shares = expit(line @ found)
            gradient = line.T @ (weights * (shares - targets))
            curvature = (line * (weights * shares * (1.0 - shares))[:, None]).T @ line
            step = np.linalg.solve(curvature + COINCIDE * total * np.eye(2), gradient)
            slope, length = float(gradient @ step), 1.0
            while loss(found - length * step) > best - 1e-4 * length * slope and length > EPS:
                length /= 2.0
            found, last, best = found - length * step, best, loss(found - length * step)
            if last - best <= SUM_ROUNDING * abs(best):
                break
        return cls(float(found[0] / unit), float(found[1] - found[0] * middle / unit))

    def logit(self, values: Array) -> Array:
        """slope·f + shift."""
        return self.slope * values + self.shift

    def __call__(self, values: Array) -> Array:
        """Probabilities."""
        return np.asarray(expit(self.logit(values)))


@dataclass(frozen=True)
class Steps:
    """The increasing function of least squares: linear between ``values``, constant beyond."""

    values: Array
    shares: Array

    @classmethod
    def fit(cls, values: Array, positive: NDArray[np.bool_], weights: Array) -> Steps:
        """Isotonic regression of 0 and 1 on the values."""
        made = IsotonicRegression(out_of_bounds="clip").fit(values, positive * 1.0, weights)
        return cls(made.X_thresholds_, made.y_thresholds_)

    def __call__(self, values: Array) -> Array:
        """Probabilities."""
        return np.interp(values, self.values, self.shares)


@dataclass(frozen=True)
class Calibration:
    """A curve for each machine, and how they become probabilities of ``n_classes`` classes."""

    method: str
    n_classes: int
    multi_class: str
    curves: tuple[Sigmoid | Steps, ...]

    @classmethod
    def fit(
        cls,
        method: str,
        values: Array,
        numbers: Places,
        n_classes: int,
        multi_class: str = "ovr",
        weights: Array | None = None,
    ) -> Calibration:
        """From values (n, n_machines) of held-out rows and the numbers of their classes.

        Row i counts ``weights[i]`` times.
        """
        weights = np.ones(len(values)) if weights is None else weights
        labels = machine_labels(numbers, n_classes, multi_class).reshape(values.shape)
        if method == "temperature":
            unit = max(float(np.sqrt(np.mean(values**2))), TINY)

            def at(log: float) -> Calibration:
                curve = Sigmoid(float(np.exp(log)) / unit)
                return cls(method, n_classes, multi_class, (curve,) * values.shape[1])

            best = minimize_scalar(
                lambda log: at(log).loss(values, numbers, weights),
                bounds=_LOGS,
                method="bounded",
                options={"xatol": np.sqrt(EPS)},
            )
            return at(float(best.x))
        kind = Sigmoid if method == "sigmoid" else Steps
        curves = [
            kind.fit(column[part], label[part] > 0.0, weights[part])
            for column, label in zip(values.T, labels.T, strict=True)
            for part in [label != 0.0]
        ]
        return cls(method, n_classes, multi_class, tuple(curves))

    def loss(self, values: Array, numbers: Places, weights: Array) -> float:
        """Minus the mean log-probability of the true classes."""
        own = self(values)[np.arange(len(numbers)), numbers]
        return float(-np.average(np.log(np.maximum(own, TINY)), weights=weights))

    def __call__(self, values: Array) -> Array:
        """Probabilities (n, n_classes) from values (n, n_machines)."""
        if self.by_logits:
            logits = [c.logit(v) for c, v in zip(self.curves, values.T, strict=True)]  # type: ignore[union-attr]
            return np.asarray(softmax(np.column_stack(logits), axis=1))
        shares = np.column_stack([c(v) for c, v in zip(self.curves, values.T, strict=True)])
        if self.n_classes == 2:
            return np.hstack([1.0 - shares, shares])
        if self.multi_class == "ovo":
            shares = _coupled(shares, self.n_classes)
        total = shares.sum(axis=1, keepdims=True)
        even = np.full_like(shares, 1.0 / self.n_classes)  # where no curve allows any class
        return np.divide(shares, total, out=even, where=total > 0.0)

    @property
    def by_logits(self) -> bool:
        """Whether probabilities are exp(βf_k), normalized."""
        return self.method == "temperature" and self.n_classes > 2 and self.multi_class == "ovr"

    def validate(self) -> None:
        """Raise ValueError unless this can have come from ``fit``; a file may hold anything."""
        pairs = self.n_classes * (self.n_classes - 1) // 2
        count = {"ovr": 1 if self.n_classes == 2 else self.n_classes, "ovo": pairs}
        kind = Steps if self.method == "isotonic" else Sigmoid
        if self.method not in METHODS or self.multi_class not in FORMS or self.n_classes < 2:
            raise ValueError("its calibration is none that there is")
        if len(self.curves) != count[self.multi_class]:
            raise ValueError("its calibration does not fit its machines")
        if not all(isinstance(curve, kind) and _sound(curve) for curve in self.curves):
            raise ValueError("a curve of its calibration is none")


def _sound(curve: Sigmoid | Steps) -> bool:
    """Whether a curve has finite numbers, and shares between 0 and 1 that rise with the values."""
    if isinstance(curve, Sigmoid):
        return bool(np.isfinite([curve.slope, curve.shift]).all())
    values, shares = curve.values, curve.shares
    if values.ndim != 1 or values.shape != shares.shape or not values.size:
        return False
    finite = np.isfinite(values).all() and shares.min() >= 0.0 and shares.max() <= 1.0
    return bool(finite and (np.diff(values) > 0.0).all() and (np.diff(shares) >= 0.0).all())


def _coupled(shares: Array, n_classes: int) -> Array:
    """The least pᵀQp over Σp = 1, up to scale, from the share of b in each pair of classes a < b.

    Q_kk = Σ_{l ≠ k} r_lk² and Q_kl = −r_lk r_kl [wu2004, eq. 21]. The least p ∝ Q⁻¹1 is never
    negative; the ridge decides where a class wins all its pairs for sure, and its row is 0.
    """
    r, every = np.zeros((len(shares), n_classes, n_classes)), np.arange(n_classes)
    for share, (a, b) in zip(shares.T, combinations(range(n_classes), 2), strict=True):
        r[:, a, b], r[:, b, a] = 1.0 - share, share
    Q = -r * r.swapaxes(1, 2)
    Q[:, every, every] = np.square(r).sum(axis=1) + COINCIDE
    return np.maximum(np.linalg.solve(Q, np.ones((len(shares), n_classes, 1)))[:, :, 0], 0.0)
