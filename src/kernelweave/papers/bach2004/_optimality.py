"""Approximate optimality of a support kernel machine [bach2004, §3.3, §3.4].

(v, η) is (ε₁, ε₂)-optimal when η ≥ 0, Σ d_j²η_j = 1, every kernel with a weight is ε₁-active,
J_j = ½vᵀK_j v/d_j² ≥ max_k J_k − ε₁, and v solves the SVM of K(η) = Σ η_j K_j up to ε₂:

    max_{v_i < hi_i} g_i ≤ min_{v_i > lo_i} g_i + 2ε₂,      g = c − K(η)v − ρv          (OPT_4)

For v alone, whether such an η exists is a linear program (OPT_3). (Of the conditions in the
paper, the second in (OPT_1)–(OPT_3) and (OPT_5) is over the other index set, as in (OPT_4), and
the sum in (OPT_3) is of η_j d_j² ∂J_j.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_number
from kernelweave._core.types import Array
from kernelweave.problems.dual_qp import DualQP

if TYPE_CHECKING:
    from kernelweave.machines.evaluator import Evaluator


def extremes(qp: DualQP, v: Array, gradient: Array) -> tuple[float, float]:
    """The largest gradient where v may grow, and the least where it may fall."""
    top = gradient[v < qp.upper].max(initial=-np.inf)
    bottom = gradient[v > qp.lower].min(initial=np.inf)
    return float(top), float(bottom)


def attained(
    qp: DualQP, v: Array, f: Array, levels: Array, used: NDArray[np.bool_]
) -> tuple[float, float]:
    """The least ε₁ and ε₂ for which (v, η) is optimal.

    ``f`` is K(η)v, ``levels`` are the J_j, ``used`` says which kernels have a weight.
    """
    top, bottom = extremes(qp, v, qp.linear - qp.tile(f) - qp.ridge * v)
    least = float(levels[used].min(initial=np.inf))  # no weight at all: nothing is attained
    eps1 = float(levels.max()) - least if used.any() else np.inf
    return eps1, max(0.5 * (top - bottom), 0.0)


def report(
    evaluator: Evaluator,
    v: Array,
    f: Array,
    q: Array,
    eta: Array,
    kappa: float,
    d: float = 1.0,
) -> dict[str, Any]:
    """The pair (v, η), Σ d²η_j = 1 in unit weights, and what it attains, in the user's units.

    ``f`` is K(η)v, ``q`` are all s_j vᵀK_j v; ε₁ is per row.
    """
    problem, qp = evaluator.problem, evaluator.problem.qp
    eps1, eps2 = attained(qp, v, f, 0.5 * q / d**2, eta > 0.0)
    eta = problem.unit * evaluator.weight_set.scale * eta
    return {
        "alpha": problem.unit_of_v * qp.alpha(v), "eta": eta,
        "eps1": problem.size * problem.unit_of_v * eps1 / qp.n, "eps2": problem.size * eps2,
        "kappa": kappa,
    }  # fmt: skip


def check_tolerances(mu: float, eps1: float, eps2: float) -> None:
    """Complain about tolerances that are not positive, and about a κ that would not fall."""
    check_number("eps1", eps1)
    check_number("eps2", eps2)
    if not check_number("mu", mu) < 1.0:
        raise ValueError(f"mu must lie between 0 and 1, found {mu!r}")


def excess(pair: Mapping[str, Any], eps1: float, eps2: float) -> float:
    """By how many times a reported pair misses (ε₁, ε₂)-optimality."""
    return float(max(pair["eps1"] / eps1, pair["eps2"] / eps2))


def best_weights(qp: DualQP, v: Array, products: Array, d: Array) -> tuple[Array, float]:
    """The η with the least ε₂ for a given v, and that ε₂, by linear programming.

        min t    s.t.  g_i − b ≤ t where v_i < hi_i,  b − g_i ≤ t where v_i > lo_i,
                       η ≥ 0,  Σ d_j²η_j = 1,  t ≥ 0

    ``products`` are the K_j v of the kernels that may have a weight, the ε₁-active ones.
    """
    from scipy.optimize import linprog

    m = len(d)
    unit = products.T / d**2  # in units of e_j = d_j²η_j
    unit = np.tile(unit, (v.size // qp.n, 1))
    rest = qp.linear - qp.ridge * v
    grow, fall = v < qp.upper, v > qp.lower
    sides = [(grow, 1.0), (fall, -1.0)]
    rows = [
        np.column_stack([-sign * unit[some], np.tile([-sign, -1.0], (some.sum(), 1))])
        for some, sign in sides
    ]
    limits = np.concatenate([-sign * rest[some] for some, sign in sides])
    total = np.append(np.ones(m), [0.0, 0.0])[None]
    bounds = [(0.0, None)] * m + [(None, None), (0.0, None)]
    cost = np.append(np.zeros(m + 1), 1.0)
    answer = linprog(cost, np.vstack(rows), limits, total, [1.0], bounds, method="highs")
    if not answer.success:
        raise ArithmeticError(f"HiGHS could not solve the linear program: {answer.message}")
    e = np.maximum(answer.x[:m], 0.0)
    return e / e.sum() / d**2, float(answer.fun)


def sparser(qp: DualQP, v: Array, products: Array, d: Array, eta: Array, eps2: float) -> Array:
    """Weights, from ``eta`` > 0, with which v stays ε₂-optimal; none can be done without.

    Each kernel, the lightest first, is left out where a linear program finds weights for the
    others.
    """
    for j in np.argsort(d * d * eta, kind="stable"):
        rest = np.setdiff1d(np.flatnonzero(eta), j)
        if eta[j] == 0.0 or rest.size == 0:
            continue
        found, reached = best_weights(qp, v, products[rest], d[rest])
        if reached <= eps2:
            eta = np.zeros(d.size)
            eta[rest] = found
    return eta
