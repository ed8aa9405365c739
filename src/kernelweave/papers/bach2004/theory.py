"""The support kernel machine (SKM) in the terms of [bach2004]: form, optimality tests, bounds.

    min_{α, γ}  ½γ² − Σα    s.t.  0 ≤ α ≤ C,  yᵀα = 0,  √(αᵀD(y)K_jD(y)α) ≤ γd_j        (D_K)

The learned kernel is Σ_j η_j K_j with Σ_j d_j²η_j = 1. On the simplex d_j = 1; with ``trace=c``,
d_j² = tr K_j/c, and ζ = γ² solves the problem (L) of [lanckriet2004], whose value is −2 times that
of (D_K). (The paper's §2.3 has d_j in place of d_j².)

``regularized_machine`` solves the regularized problem, for any a_j and d_j. The other functions
evaluate a given point of a problem, or compute bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.checks import (
    check_nonnegative,
    check_number,
    check_positive,
    check_vector,
    is_number,
)
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave.machines.evaluator import NOT_SEPARABLE, HardMarginInfeasible
from kernelweave.papers.bach2004 import _optimality as skm_optimality
from kernelweave.papers.bach2004 import _smo as skm_smo
from kernelweave.papers.bach2004._pairs import Target
from kernelweave.problems.dual_qp import relative_gap
from kernelweave.problems.problem import Problem, refuse_learned_C
from kernelweave.solution import Solution
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.defaults import matrices
from kernelweave.stacks.protocol import Stack


@dataclass(frozen=True, eq=False)
class SupportKernelMachine:
    """A solution of (D_K): dual variables α, weights η, the value γ, and the d_j of the problem."""

    alpha: Array
    eta: Array
    gamma: float
    d: Array

    @property
    def support_kernels(self) -> NDArray[np.intp]:
        """Numbers of the kernels with a weight."""
        return np.flatnonzero(self.eta)


def paper_form(solution: Solution) -> SupportKernelMachine:
    """A solution of ``learn`` as (α, η, γ): η = ``weights``, α = y∘``coef``.

    Requires ``weight_norm=1`` and a given C. A learned C is the weight of one more kernel, the
    identity, which this form does not include.
    """
    if solution.problem is None:
        raise ValueError("paper_form needs the kernels, which pickles and estimators leave out")
    task = _Form(solution.problem)
    levels = task.levels(task.signed(solution.alpha))
    gamma = math.sqrt(2.0 * float(levels.max()))
    weights = task.weights("solution.weights", solution.weights)
    return SupportKernelMachine(solution.alpha.copy(), weights, gamma, task.d)


@dataclass(frozen=True, eq=False)
class RegularizedMachine:
    """A solution of the regularized machine: α, and the parts of G(α) [app. C].

    ``value`` is G(α); ``gap`` bounds its relative distance from the minimum; ``eps`` is the
    smallest ε of (OPT_6).
    """

    alpha: Array
    gamma: float
    mu: Array
    eta: Array
    eta_tilde: Array
    value: float
    gap: float
    eps: float


def regularized_machine(
    problem: Problem, a: ArrayLike, d: ArrayLike, *, tol: float = 1e-6
) -> RegularizedMachine:
    """Minimize G(α) for any a_j > 0 and d_j ≥ 0, to relative gap ``tol`` [bach2004, §4.1].

        min_w  ½(Σ_j d_j‖w_j‖)² + ½ Σ_j a_j²‖w_j‖² + C Σ ξ_i                              (R)

    With all d_j = 0, the paper's κ = 1, it is the SVM on Σ_j K_j/a_j², and η̃ is zero. If only some
    d_j are zero, these kernels have η_j = 1/a_j² and no η̃_j. A ``ConvergenceWarning`` says if
    ``tol`` was not reached.
    """
    task = _Form(problem)
    scales, units = check_positive("a", a, task.stack.m), check_nonnegative("d", d, task.stack.m)
    qp, every = task.problem.qp, np.arange(task.stack.m)
    rows = skm_smo.KernelRows(task.stack)
    target = Target(every, scales, units)
    found = skm_smo.solve(rows, target, qp, gap_tol=check_number("tol", tol))
    if not found.bounded:
        raise HardMarginInfeasible(NOT_SEPARABLE)
    parts, gap = found.parts, found.gap
    if qp.is_hard:  # scale f so that it separates; its norms cost ``parts.value``
        best = qp.improve(parts.eta @ found.products, 2.0 * parts.value)[2]
        if not best < np.inf:
            raise HardMarginInfeasible(NOT_SEPARABLE)
        gap = relative_gap(best, qp.dual_linear(found.v) - parts.value)
    if gap > tol:
        warn_unconverged(f"the duality gap reached is {gap:.2g}, not tol={tol:g}; raise tol, or a")
    return RegularizedMachine(
        task.problem.to_all_rows(qp.alpha(found.v)),
        parts.gamma,
        parts.mu,
        parts.eta,
        parts.eta_tilde,
        parts.value - qp.dual_linear(found.v),
        gap,
        0.5 * max(found.violation, 0.0),
    )


def attained_optimality(problem: Problem, alpha: ArrayLike, eta: ArrayLike) -> tuple[float, float]:
    """The smallest (ε₁, ε₂) for which the feasible (α, η) is optimal [bach2004, (OPT_4)].

    ε₁ is the total over n samples; ``Skm`` and its ``extras`` have ε₁ per sample.
    """
    task = _Form(problem)
    v, weights = task.feasible(alpha), task.weights("eta", eta)
    f = task.stack.combined(weights) @ v
    return skm_optimality.attained(task.problem.qp, v, f, task.levels(v), weights > 0.0)


def optimal_weights(problem: Problem, alpha: ArrayLike, *, eps1: float) -> tuple[Array, float]:
    """The best η for α on the ε₁-active kernels, and the ε₂ it attains: a test of α alone.

    α is (ε₁, ε₂)-optimal, with the convex hull of the gradients in place of the
    ε₁-subdifferential, if and only if ε₂ is at least the value returned [bach2004, (OPT_3)].
    ``eps1`` is the total over n samples; ``Skm`` has it per sample.
    """
    if not (is_number(eps1) and eps1 >= 0.0):
        raise ValueError(f"eps1 must be a number ≥ 0, or infinite for all kernels, found {eps1!r}")
    task = _Form(problem)
    v = task.feasible(alpha)
    levels = task.levels(v)
    active = np.flatnonzero(levels >= levels.max() - eps1)
    products = task.stack.matvecs(v, kernels=active)
    eta = np.zeros(task.stack.m)
    eta[active], eps2 = skm_optimality.best_weights(task.problem.qp, v, products, task.d[active])
    return eta, eps2


def sparser_weights(problem: Problem, alpha: ArrayLike, eta: ArrayLike, *, eps2: float) -> Array:
    """Weights on fewer of the kernels of η, such that α stays ε₂-optimal [bach2004, §3.4].

    Kernels are dropped one by one, the lightest first, as long as a linear program finds weights
    for the rest; ε₁ can only fall. No remaining kernel can be dropped, but the search is greedy:
    another choice might need fewer. If nothing can be dropped, η is returned unchanged.
    """
    task, eps2 = _Form(problem), check_number("eps2", eps2, zero=True)
    v, weights = task.feasible(alpha), task.weights("eta", eta)
    used = np.flatnonzero(weights)
    products = task.stack.matvecs(v, kernels=used)
    found = np.zeros(weights.size)
    found[used] = skm_optimality.sparser(
        task.problem.qp, v, products, task.d[used], weights[used], eps2
    )
    return found


def regularization_bounds(
    K: ArrayLike | Stack, a: ArrayLike, d: ArrayLike, *, C: float, eps: float
) -> tuple[float, float]:
    """The accuracy (ε₁, ε₂) to which an ε-optimal regularized α solves the SKM [theorem 1].

        ε₁ = nC r(2 + r),  r = max_j a_j²/d_j²,      ε₂ = ε + C max_j a_j² M_j/d_j⁴

    together with η̃(α), where M_j is the largest absolute row sum of K_j. For the hinge only: α ≤ C.
    The theorem is for ε < 1: α = 0 is 1-optimal. The proof also assumes G(α) ≤ 0, which holds for
    any descent from 0. ε₁ is the total over n samples;
    ``Skm`` has it per sample.
    """
    stack = as_stack(K)
    C, eps = check_number("C", C), check_number("eps", eps, zero=True)
    if eps >= 1.0:
        raise ValueError(f"eps must be less than 1, as in theorem 1, found {eps!r}")
    squares, units = (check_positive(name, x, stack.m) ** 2 for name, x in (("a", a), ("d", d)))
    ratio = float((squares / units).max())
    eps1 = stack.n * C * ratio * (2.0 + ratio)
    return eps1, eps + C * float((squares * _row_sums(stack) / units**2).max())


def largest_regularization(
    K: ArrayLike | Stack, d: ArrayLike, *, C: float, eps1: float, eps2: float
) -> float:
    """The largest max_j a_j for which theorem 1 guarantees (ε₁, ε₂) at ε = ε₂/2 [corollary 2].

    For the hinge only; ε₁ is the total over n samples, as in ``regularization_bounds``.
    """
    stack = as_stack(K)
    C, eps1, eps2 = (check_number(*x) for x in (("C", C), ("eps1", eps1), ("eps2", eps2)))
    units = check_positive("d", d, stack.m) ** 2
    share = eps1 / (stack.n * C)
    by_eps1 = float(units.min()) * share / (1.0 + math.sqrt(1.0 + share))
    slope = C * float((_row_sums(stack) / units**2).max())
    by_eps2 = 0.5 * eps2 / slope if slope > 0.0 else np.inf  # zero kernels add nothing to ε₂
    return math.sqrt(min(by_eps1, by_eps2))


class _Form:
    """A problem in the paper's terms: d_j² = 1/s_j, and signed variables v = y∘α."""

    def __init__(self, problem: Problem) -> None:
        refuse_learned_C(problem.formulation.C)
        self.problem, self.stack = problem, problem.stack
        self.d = problem.weight_set.scale**-0.5

    def signed(self, alpha: ArrayLike) -> Array:
        """y∘α at the labeled rows."""
        whole = check_vector("alpha", alpha, self.problem.whole.n)
        return np.sign(self.problem.qp.linear) * whole[self.problem.rows]

    def feasible(self, alpha: ArrayLike) -> Array:
        """y∘α at the labeled rows; raises ValueError unless α is feasible up to rounding."""
        qp, v = self.problem.qp, self.signed(alpha)
        inside = np.clip(v, qp.lower, qp.upper)
        off, total = float(np.abs(v - inside).max()), abs(float(v.sum()))
        if off > 1e-8 * np.abs(v).max() or total > 1e-8 * np.abs(v).sum():
            raise ValueError(
                "alpha must be feasible, 0 ≤ α ≤ C with yᵀα = 0; found it outside the bounds by "
                f"{off:g}, and |yᵀα| = {total:g}"
            )
        return inside

    def weights(self, name: str, eta: ArrayLike) -> Array:
        """η; raises ValueError unless η ≥ 0 and Σ d_j²η_j = 1, up to rounding."""
        weights = check_vector(name, eta, self.stack.m)
        if weights.min() < 0.0 or abs(self.d**2 @ weights - 1.0) > 1e-8:
            raise ValueError(
                f"{name} must be nonnegative with Σ d_j² η_j = 1, found a smallest weight of "
                f"{weights.min():g} and a sum of {self.d**2 @ weights:g} with this problem's d_j"
            )
        return weights

    def levels(self, v: Array) -> Array:
        """All ½vᵀK_j v/d_j²."""
        return 0.5 * np.maximum(self.stack.quad_forms(v), 0.0) / self.d**2


def _row_sums(stack: Stack) -> Array:
    """M_j = max_u Σ_v |K_j[u, v]|."""
    return np.array([np.abs(K).sum(axis=1).max() for K in matrices(stack)])
