"""The sets that kernel weights are chosen from, and their support functions.

    D = { s∘e : e ≥ 0, ‖e‖_p ≤ 1 },    σ(q) = max_{d ∈ D} dᵀq = ‖s∘q‖_{p/(p−1)}   (q ≥ 0)

With p = 1 and s = 1 this is the simplex of [rakoto2007, eq. 3] (the objective falls as weights
grow, so the inequality is met with equality); s_m = c / tr K_m gives the trace constraint
Σ d_m tr K_m = c of [lanckriet2004, eq. 18]. Learners work with e; ``scale`` is s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelweave._core.checks import is_number
from kernelweave._core.types import Array


@dataclass(frozen=True)
class WeightSet:
    """Scaled part of the unit ℓp ball with nonnegative weights.

    Not ``bounded``, it is the whole cone d ≥ 0, for objectives that do not depend on the size of
    the weights.
    """

    scale: Array
    norm: float = 1.0
    bounded: bool = True

    @property
    def dual_norm(self) -> float:
        """The exponent p/(p−1) of the support function."""
        if self.norm == 1.0:
            return np.inf
        return 1.0 if np.isinf(self.norm) else self.norm / (self.norm - 1.0)

    def support(self, q: Array) -> float:
        """σ(q) for q ≥ 0."""
        return norm(self.scale * np.maximum(q, 0.0), self.dual_norm)

    def contains(self, weights: Array, slack: float) -> bool:
        """Whether ``weights`` lie in the set, up to ``slack``."""
        unit = weights / self.scale
        return bool(unit.min() >= -slack and norm(unit, self.norm) <= 1.0 + slack)

    def uniform(self) -> Array:
        """Unit weights e, all equal."""
        m = self.scale.size
        return np.full(m, 1.0 if np.isinf(self.norm) else m ** (-1.0 / self.norm))

    def project(self, e: Array, metric: Array) -> Array:
        """Unit weights near ``e`` [gai2010, §5].

        On the simplex the nearest in Σ (·)²/metric. Under other norms negative weights become zero
        and e is brought to norm one; in the cone they become zero.
        """
        if self.bounded and self.norm == 1.0:
            return project_simplex(e, metric)
        positive = np.maximum(e, 0.0)
        if not positive.any():
            positive = (e == e.max()).astype(float)
        return positive / np.linalg.norm(positive, self.norm) if self.bounded else positive


def project_simplex(x: Array, metric: Array) -> Array:
    """The p ≥ 0 with Σp = 1 that minimises Σ (p_m − x_m)²/metric_m: max(x − λ·metric, 0)."""
    order = np.argsort(-x / metric)
    level = (np.cumsum(x[order]) - 1.0) / np.cumsum(metric[order])
    last = np.flatnonzero(x[order] > level * metric[order])[-1]
    return np.maximum(x - level[last] * metric, 0.0)


def norm(x: Array, p: float) -> float:
    """‖x‖_p without overflow or underflow, whatever p."""
    top = float(np.abs(x).max(initial=0.0))
    return top * float(np.linalg.norm(x / top, p)) if top > 0.0 else 0.0


def check_norm(norm: float | None, constrained: bool) -> None:
    """Complain about a norm that is none, or one that a trace constraint does not go with."""
    if norm is not None and not is_number(norm):
        raise TypeError(f"weight_norm must be a number ≥ 1, found {norm!r}")
    if norm is not None and not norm >= 1.0:
        raise ValueError(f"weight_norm must be a number ≥ 1, found {norm!r}")
    if constrained and norm != 1:
        raise ValueError(f"a trace constraint goes with weight_norm=1, found {norm!r}")


def make_weight_set(
    m: int,
    norm: float | None = 1.0,
    trace: float | None = None,
    traces: Array | None = None,
    empty: bool = False,
) -> WeightSet:
    """The set ‖d‖_p ≤ 1, without a norm d ≥ 0, or with ``trace`` Σ d_m traces_m = trace.

    ``empty``: kernels of trace zero are all zero, and get no weight.
    """
    if norm is None:
        return WeightSet(np.ones(m), bounded=False)
    if traces is None:
        return WeightSet(np.ones(m), float(norm))
    positive = traces > 0.0
    if not positive.all() and not (empty and positive.any()):
        first = int(np.argmin(positive))
        raise ValueError(
            f"a trace constraint needs kernels of positive trace, but that of K[{first}] is "
            f"{traces[first]:g}"
        )
    total = float(traces[positive].mean()) if trace is None else trace
    return WeightSet(np.divide(total, traces, out=np.zeros(traces.size), where=positive))
