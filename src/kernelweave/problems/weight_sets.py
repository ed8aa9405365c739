"""The sets that kernel weights are chosen from, and their support functions.

    D = { s∘e : e ≥ 0, ‖e‖_p ≤ 1 },    σ(q) = max_{d ∈ D} dᵀq = ‖s∘q‖_{p/(p−1)}   (q ≥ 0)

With p = 1 and s = 1 this is the simplex of [rakoto2007, eq. 3] (the objective falls as weights
grow, so the inequality is met with equality); s_m = c / tr K_m gives the trace constraint
Σ d_m tr K_m = c of [lanckriet2004, eq. 18]. Learners work with e; ``scale`` is s.

In groups of kernels (``kernelweave.problems.groups``) the set and its support function are

    D = { s∘e : e ≥ 0, Σ_g ‖e_g‖_p ≤ 1 },    σ(q) = max_g ‖(s∘q)_g‖_{p/(p−1)}.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelweave._core.checks import is_number
from kernelweave._core.types import Array, Places
from kernelweave.problems.groups import GroupNorm


@dataclass(frozen=True)
class WeightSet:
    """Scaled part of the unit ℓp ball with nonnegative weights.

    Not ``bounded``, it is the whole cone d ≥ 0, for objectives that do not depend on the size of
    the weights. ``groups`` has the number of each kernel's group, from 0 on without a gap; None
    where all are in one.
    """

    scale: Array
    norm: float = 1.0
    bounded: bool = True
    groups: Places | None = None

    @property
    def dual_norm(self) -> float:
        """The exponent p/(p−1) of the support function."""
        if self.norm == 1.0:
            return np.inf
        return 1.0 if np.isinf(self.norm) else self.norm / (self.norm - 1.0)

    @property
    def largest_counts(self) -> bool:
        """Whether the support function is the largest entry."""
        return self.norm == 1.0

    def size(self, e: Array) -> float:
        """The norm of unit weights, 1 at most in the set."""
        return float(self.sizes(e).sum())

    def sizes(self, e: Array) -> Array:
        """‖e_g‖_p of each group."""
        return _norms(e, self.norm, self.groups)

    def unit_support(self, q: Array) -> float:
        """max eᵀq over the unit weights e, for q ≥ 0."""
        return float(self.supports(q).max())

    def supports(self, q: Array) -> Array:
        """max rᵀq_g over ‖r‖_p ≤ 1 in each group, for q ≥ 0."""
        return _norms(q, self.dual_norm, self.groups)

    def support(self, q: Array) -> float:
        """σ(q) for q ≥ 0."""
        return self.unit_support(self.scale * np.maximum(q, 0.0))

    def contains(self, weights: Array, slack: float) -> bool:
        """Whether ``weights`` lie in the set, up to ``slack``."""
        unit = weights / self.scale
        return bool(unit.min() >= -slack and self.size(unit) <= 1.0 + slack)

    def uniform(self) -> Array:
        """Unit weights e, all equal."""
        ones = np.ones(self.scale.size)
        return ones / self.size(ones)

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
    """The p ≥ 0 with Σp = 1 that minimizes Σ (p_m − x_m)²/metric_m: max(x − λ·metric, 0)."""
    order = np.argsort(-x / metric)
    level = (np.cumsum(x[order]) - 1.0) / np.cumsum(metric[order])
    last = np.flatnonzero(x[order] > level * metric[order])[-1]
    return np.maximum(x - level[last] * metric, 0.0)


def norm(x: Array, p: float) -> float:
    """‖x‖_p without overflow or underflow, whatever p."""
    top = float(np.abs(x).max(initial=0.0))
    return top * float(np.linalg.norm(x / top, p)) if top > 0.0 else 0.0


def _norms(x: Array, p: float, groups: Places | None) -> Array:
    """‖x_g‖_p of each group, without overflow or underflow."""
    if groups is None:
        return np.array([norm(x, p)])
    top = np.zeros(int(groups.max()) + 1)
    np.maximum.at(top, groups, np.abs(x))
    if np.isinf(p):
        return top
    parts = np.abs(x) / np.where(top > 0.0, top, 1.0)[groups]
    return np.asarray(top * np.bincount(groups, parts**p) ** (1.0 / p))


def check_norm(norm: float | GroupNorm | None, constrained: bool) -> None:
    """Complain about a norm that is none, or one that a trace constraint does not go with."""
    if isinstance(norm, GroupNorm):
        norm.check()
    elif norm is not None and not is_number(norm):
        raise TypeError(f"weight_norm must be a number ≥ 1 or a GroupNorm, found {norm!r}")
    elif norm is not None and not norm >= 1.0:
        raise ValueError(f"weight_norm must be a number ≥ 1, found {norm!r}")
    if constrained and norm != 1:
        raise ValueError(f"a trace constraint goes with weight_norm=1, found {norm!r}")


def make_weight_set(
    m: int,
    norm: float | GroupNorm | None = 1.0,
    trace: float | None = None,
    traces: Array | None = None,
    empty: bool = False,
) -> WeightSet:
    """The set ‖d‖_p ≤ 1, without a norm d ≥ 0, or with ``trace`` Σ d_m traces_m = trace.

    ``empty``: kernels of trace zero are all zero, and get no weight.
    """
    if isinstance(norm, GroupNorm):
        groups = norm.numbers(m)
        one = norm.inner == 1 or not groups.any()  # no more than the norm itself
        return WeightSet(np.ones(m), float(norm.inner), groups=None if one else groups)
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


def towards(e: Array, q: Array, p: float, relax: float = 1.0) -> Array:
    """The weights, up to their size, that suit the parts f_m of the machine at ``e`` best.

    With ‖f_m‖² = e_m²q_m, Σ_m ‖f_m‖²/x_m is least over ‖x‖_p ≤ 1 at x_m ∝ ‖f_m‖^{2/(p+1)}. The
    step there is longer by ``relax`` on a logarithmic scale.
    """
    power = relax / (p + 1.0)  # of q; that of e must not become negative
    power = min(power, 1.0 / (p - 1.0)) if p > 1.0 else power
    return np.asarray(e ** (1.0 - power * (p - 1.0)) * q**power)
