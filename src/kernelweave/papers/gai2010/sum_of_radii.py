"""Margin and radius, one radius per kernel: the criterion of Do et al. [gai2010, eq. 11].

    min_{θ ∈ Θ}  min_{w,b,ξ}  ½ Σ_j ‖w_j‖²/θ_j + C/(Σ_j θ_j R_j²) Σ_i ξ_i²

s.t. y_i(f(x_i) + b) ≥ 1 − ξ_i, with R_j the radius of the smallest ball around the points under
kernel j alone. It falls for ever as θ grows, so that θ needs a norm; Θ is the simplex, or whatever
weights are asked for. At fixed θ this is the squared hinge, (C'/2)Σξ² with C' = 2C/Σ_j θ_j R_j²,
whose dual has a ridge of 1/C' on the kernel. The ridge is linear in θ, as the kernel is:

    K_θ + I/C' = Σ_j θ_j (K_j + R_j²/(2C)·I)

Hence the dual is that of plain multiple kernel learning with a hard margin on the kernels
K_j + R_j²/(2C)·I: convex in θ, and every α ≥ 0 with yᵀα = 0 proves

    min  ≥  Σα − ½ max_j (vᵀK_j v + R_j²/(2C)·‖v‖²),     v = y∘α        (on the simplex).

Newton's learner solves it. Decision values are those of K_θ, without the ridge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kernelweave._core.types import Array
from kernelweave.certificate import Certificate, primal_of
from kernelweave.learners.base import Learner, Step
from kernelweave.learners.newton import Newton
from kernelweave.machines.certified import (
    certified_bound,
    certified_point,
    most_quads,
    proven_dual,
)
from kernelweave.machines.evaluator import Bound, Evaluator, Incumbent
from kernelweave.machines.machine import Machine, Point
from kernelweave.papers.gai2010._balls import Balls, certified_radius
from kernelweave.papers.gai2010._centering import centered
from kernelweave.papers.gai2010._ridged import Ridged
from kernelweave.problems.problem import Problem
from kernelweave.solution import Solution
from kernelweave.stacks.identity import Changed
from kernelweave.stacks.protocol import Stack

_BALL = 1e-11  # relative gap of the balls


class MarginAndRadius(Learner):
    """Minimizes the criterion of Do et al., to a certified duality gap.

    It takes ``loss="squared_hinge"``; C is that of eq. 11, which has no ½. Where all kernels have
    the same radius this is the margin criterion. ``Solution.extras`` has the "radii" R_j.
    """

    targets = ("labels",)
    why_not = "the radius of the data bounds the error of a classifier"
    losses = ("squared_hinge",)  # the one whose 1/C is a ridge
    objective = "margin_and_radius"
    settles = True
    weighted = False

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Newton's steps on the kernels with their ridges, from unit weights ``e``."""
        criterion = _Criterion(evaluator)
        for step in Newton().iterate(criterion.inner, criterion.incumbent, e, tol):
            yield criterion.step(step.by)

    def unsolved(self, evaluator: Evaluator, e: Array) -> Step:
        """f = 0 at unit weights ``e``."""
        criterion = _Criterion(evaluator)
        criterion.inner.judge(e, criterion.inner.machine.feasible())
        return criterion.step("start")

    def judged(self, solution: Solution) -> Certificate:
        """Both bounds, from balls, margin and dual variables."""
        problem = solution.problem
        assert problem is not None
        hard = _hard_margin(problem)
        most, least = _squared_radii(problem.stack) / (2.0 * problem.formulation.C)
        d = solution.weights
        soft = replace(hard.qp, ridge=float(d @ least))
        primal = primal_of(problem, soft, d, solution.coef, float(solution.bias))
        machine = Machine.of(replace(hard, stack=Ridged(problem.stack, most)))
        v = np.clip(machine.from_alpha(solution.dual_alpha[problem.rows]), *machine.limits)
        q = most_quads(machine, v, True, problem.weight_set.is_simplex)
        return Certificate(primal, proven_dual(machine, v, problem.weight_set.unit_support(q)))


class _Criterion:
    """The problem with a hard margin on kernels with a ridge, and what its points are for users.

    ``inner`` evaluates it, ``incumbent`` is its ledger. The radii are known to rounding only: the
    ridges of the bound are their upper ends, those of primal values the ``least``.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        problem, self.given = evaluator.problem, evaluator.machine
        hard = _hard_margin(problem)
        most, least = _squared_radii(evaluator.stack)
        self.radii, cost = np.sqrt(most), 2.0 * problem.formulation.C
        self.least = least / cost
        stack = Ridged(evaluator.stack, most / cost)
        self.inner = Evaluator(replace(hard, stack=stack, whole=stack), evaluator)
        self.inner.last = evaluator.last
        self.incumbent = Incumbent(self.inner.first_bound())
        self.inner.watch = self.incumbent.offer

    def step(self, by: str) -> Step:
        """The best point so far, with slacks in place of the ridge."""
        best, bound = self.incumbent.best, self.incumbent.bound
        assert best is not None and isinstance(best.K, Changed)
        ridge = float((self.given.scale * best.e) @ self.least)
        qp = replace(self.inner.machine.qps[0], ridge=ridge)
        soft = Machine([qp], self.given.stack, self.given.scale)
        point = soft.judge(best.e, best.v, best.K.kernel)

        def certify(fine: bool) -> tuple[Point, Bound]:
            proven = certified_bound(self.inner, bound, fine)
            return certified_point(soft, point, fine), proven

        extras = {"radii": self.radii}
        return Step(by, settled=(point, bound), extras=extras, certify=certify)


def _hard_margin(problem: Problem) -> Problem:
    """The problem with C = ∞, which is the same in all units."""
    formulation = problem.formulation
    if formulation.task.ridge != 0.0 or np.ndim(formulation.C):
        raise ValueError(
            "learner 'margin_and_radius' makes its own ridge from C: give C as a "
            f"number, and leave ridge=0; found C={formulation.C!r}, "
            f"ridge={formulation.task.ridge!r}"
        )
    return replace(problem, formulation=formulation.at_cost(np.inf))


def _squared_radii(stack: Stack) -> Array:
    """Upper and lower bounds of all R_j², shape (2, m); 0 where all points coincide."""
    kernels = centered(stack)
    kernels.weights("start", np.ones(stack.m))  # complains where no kernel tells points apart
    found = np.zeros((2, stack.m))
    for j in np.flatnonzero(kernels.traces):
        alone = np.zeros(stack.m)
        alone[j] = 1.0
        ball = Balls(kernels, np.ones(stack.m)).around(alone, _BALL)
        found[:, j] = certified_radius(stack, alone, ball.beta, ball.radius2, True)
    return found
