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
from typing import ClassVar

import numpy as np

from kernelweave._core.checks import is_number
from kernelweave._core.types import Array, Places
from kernelweave.problems.groups import GroupNorm


@dataclass(frozen=True)
class WeightSet:
    """What learners may ask of a set of weights: a subclass says which unit weights e are in it.

    ``is_simplex``: the support function is the largest entry, and a weight may be zero at the best;
    learners that need this hand over to another where it is not so. Not ``bounded``, the set is a
    cone, for objectives that do not depend on the size of the weights.
    """

    scale: Array
    is_simplex: ClassVar[bool] = False
    bounded: ClassVar[bool] = True

    def size(self, e: Array) -> float:
        """The norm of unit weights, 1 at most in the set."""
        raise NotImplementedError

    def unit_support(self, q: Array) -> float:
        """max eᵀq over the unit weights e, for q ≥ 0."""
        raise NotImplementedError

    def uniform(self) -> Array:
        """Unit weights e, all equal."""
        ones = np.ones(self.scale.size)
        return ones / self.size(ones)

    def project(self, e: Array, metric: Array) -> Array:
        """Unit weights of norm one near ``e``, nearest in Σ (·)²/metric where that is known."""
        positive = np.maximum(e, 0.0)
        if not positive.any():
            positive = (e == e.max()).astype(float)
        return positive / self.size(positive)

    def support(self, q: Array) -> float:
        """σ(q) for q ≥ 0."""
        return self.unit_support(self.scale * np.maximum(q, 0.0))

    def contains(self, weights: Array, slack: float) -> bool:
        """Whether ``weights`` lie in the set, up to ``slack``."""
        unit = weights / self.scale
        return bool(unit.min() >= -slack and self.size(unit) <= 1.0 + slack)


class Simplex(WeightSet):
    """Σe ≤ 1: most kernels get no weight."""

    is_simplex = True
    norm: ClassVar[float] = 1.0

    def size(self, e: Array) -> float:
        """‖e‖₁."""
        return norm(e, 1.0)

    def uniform(self) -> Array:
        """One part of as many."""
        return np.full(self.scale.size, 1.0 / self.scale.size)

    def unit_support(self, q: Array) -> float:
        """The largest entry."""
        return float(q.max(initial=0.0))

    def project(self, e: Array, metric: Array) -> Array:
        """The nearest in Σ (·)²/metric [gai2010, §5]."""
        return project_simplex(e, metric)


class Cone(Simplex):
    """All e ≥ 0; weights are reported on the simplex."""

    bounded = False

    def project(self, e: Array, metric: Array) -> Array:
        """The nearest, in any metric."""
        return np.maximum(e, 0.0)


@dataclass(frozen=True)
class NormBall(WeightSet):
    """‖e‖_p ≤ 1, p > 1: no weight is zero at the best, and J has no kinks."""

    norm: float

    @property
    def dual_norm(self) -> float:
        """The exponent p/(p−1) of the support function."""
        if self.norm == 1.0:
            return np.inf
        return 1.0 if np.isinf(self.norm) else self.norm / (self.norm - 1.0)

    def size(self, e: Array) -> float:
        """‖e‖_p."""
        return norm(e, self.norm)

    def unit_support(self, q: Array) -> float:
        """‖q‖_{p/(p−1)}."""
        return norm(q, self.dual_norm)


@dataclass(frozen=True)
class GroupBall(NormBall):
    """Σ_g ‖e_g‖_p ≤ 1; ``groups`` has the number of each kernel's group, from 0 without a gap."""

    groups: Places

    def size(self, e: Array) -> float:
        """The sum of the groups' norms."""
        return float(self.sizes(e).sum())

    def sizes(self, e: Array) -> Array:
        """‖e_g‖_p of each group."""
        return _norms(e, self.norm, self.groups)

    def unit_support(self, q: Array) -> float:
        """The largest of the groups' support functions."""
        return float(self.supports(q).max())

    def supports(self, q: Array) -> Array:
        """max rᵀq_g over ‖r‖_p ≤ 1 in each group, for q ≥ 0."""
        return _norms(q, self.dual_norm, self.groups)


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


def _norms(x: Array, p: float, groups: Places) -> Array:
    """‖x_g‖_p of each group, without overflow or underflow."""
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
        groups, norm = norm.numbers(m), float(norm.inner)
        if norm > 1.0 and groups.any():
            return GroupBall(np.ones(m), norm, groups)
    if norm is None:
        return Cone(np.ones(m))
    if traces is None:
        return NormBall(np.ones(m), float(norm)) if norm > 1.0 else Simplex(np.ones(m))
    positive = traces > 0.0
    if not positive.all() and not (empty and positive.any()):
        first = int(np.argmin(positive))
        raise ValueError(
            f"a trace constraint needs kernels of positive trace, but that of K[{first}] is "
            f"{traces[first]:g}"
        )
    total = float(traces[positive].mean()) if trace is None else trace
    return Simplex(np.divide(total, traces, out=np.zeros(traces.size), where=positive))


def towards(e: Array, q: Array, p: float, relax: float = 1.0) -> Array:
    """The weights, up to their size, that suit the parts f_m of the machine at ``e`` best.

    With ‖f_m‖² = e_m²q_m, Σ_m ‖f_m‖²/x_m is least over ‖x‖_p ≤ 1 at x_m ∝ ‖f_m‖^{2/(p+1)}. The
    step there is longer by ``relax`` on a logarithmic scale.
    """
    power = relax / (p + 1.0)  # of q; that of e must not become negative
    power = min(power, 1.0 / (p - 1.0)) if p > 1.0 else power
    return np.asarray(e ** (1.0 - power * (p - 1.0)) * q**power)
