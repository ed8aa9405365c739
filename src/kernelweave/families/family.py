"""What a family of kernels is, and learning over its convex hull.

    min_{K ∈ conv 𝒦}  J(K),     J(K) = max_v  cᵀv − ½ρ‖v‖² − ½vᵀKv

𝒦 may be infinite. J is convex in K, and for every feasible v

    min J  ≥  cᵀv − ½ρ‖v‖² − ½ max_{K ∈ 𝒦} vᵀKv,

so that whoever knows the kernel of the family that suits v best can prove an optimum over the hull
[lanckriet2004, theorem 16 holds for every convex set of kernels]. Kernels enter as they are needed:
the problem is solved over those at hand, the family is asked for the kernels that its dual
variables would rather have, and the two bounds meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeGuard

import numpy as np

from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave.certificate import proof_of, proven_at_best
from kernelweave.learners.base import Learner
from kernelweave.problems.dual_qp import relative_gap
from kernelweave.problems.problem import Formulation
from kernelweave.solution import Solution
from kernelweave.solving import Progress, solve
from kernelweave.stacks.protocol import Stack

_SHARE = 0.5  # of tol, for the problem over the kernels at hand
_ROUNDS = 50


@dataclass(frozen=True)
class Largest:
    """The kernels of a family that suit dual variables best, and what none of the family exceeds.

    ``bound`` ≥ max_{K ∈ 𝒦} Σ_c v_cᵀKv_c. ``kernels`` are worth adding, those that come near it.
    """

    kernels: Sequence[Any]
    bound: float


class Family(Protocol):
    """Kernels over n points, of which each is described by anything that ``stack`` understands."""

    @property
    def n(self) -> int:
        """Number of points."""
        ...

    def begin(self) -> Sequence[Any]:
        """Kernels to begin with, one at least."""
        ...

    def stack(self, kernels: Sequence[Any]) -> tuple[Stack, Sequence[Any]]:
        """These kernels over all points, and their order in the stack."""
        ...

    def largest(self, V: Array) -> Largest:
        """Those with the largest Σ_c v_cᵀKv_c, v_c the rows of V (machines, n)."""
        ...


def is_family(K: Any) -> TypeGuard[Family]:
    """Whether ``K`` keeps the protocol."""
    return all(map(partial(hasattr, K), ("n", "begin", "stack", "largest")))


def check_family(formulation: Formulation, learner: Learner) -> None:
    """Complain, before any kernel is computed, about what has no meaning over a hull."""
    if formulation.weight_norm != 1:
        raise ValueError(
            "weight_norm must be 1 for a family of kernels, found "
            f"{formulation.weight_norm!r}: other norms depend on how many kernels there are"
        )
    if formulation.trace is not None or formulation.recenter or formulation.learns_C:
        raise ValueError(
            "trace, recenter and C='learn' do not go with a family of kernels: scale its kernels "
            "to the trace they shall have"
        )
    if learner.objective != "margin" or learner.signed:
        raise ValueError(
            f"{learner!r} does not minimize J over nonnegative weights, which a family of kernels "
            "needs: use learner='newton'"
        )


def learn_over_hull(
    formulation: Formulation,
    family: Family,
    learner: Learner,
    tol: float,
    max_iter: int,
    start: Any,
    clock: tuple[int, float, float | None],
    solver: str = "auto",
) -> Solution:
    """The solution over the hull; its bounds and gap hold for all kernels of the family.

    ``extras["kernels"]`` are those that ``weights`` belong to, ``extras["rounds"]`` says how often
    the family was asked. It goes on from the kernels of ``start``. ``clock``: how much to print,
    since when time is counted, and how much there is.
    """
    check_family(formulation, learner)
    if start is not None and "kernels" not in getattr(start, "extras", {}):
        raise ValueError("start must be a solution over the same family of kernels, or left out")
    solves = 0
    kernels = family.begin() if start is None else start.extras["kernels"]
    dual, proof = -np.inf, np.zeros(0)
    for rounds in range(1, _ROUNDS + 1):
        stack, kernels = family.stack(kernels)
        problem = formulation.on(stack, solver)
        progress = Progress(problem, *clock)
        first = None if start is None else moved(start, kernels)
        solution = solve(problem, learner, _SHARE * tol, first, max_iter, progress)
        solves += solution.n_svm_solves
        extras = {**solution.extras, "kernels": kernels, "rounds": rounds}
        solution = replace(solution, n_svm_solves=solves, extras=extras)
        machine, v = proof_of(solution, problem)
        found = family.largest(problem.to_all_rows(np.array(machine.coefficients(v))))
        proven = proven_at_best(problem, machine, v, found.bound)
        if proven > dual:
            dual, proof = proven, solution.dual_alpha
        gap = relative_gap(solution.primal, dual)
        new = [kernel for kernel in found.kernels if kernel not in kernels]
        if gap <= tol or not new or solution.status != "optimal" or rounds == _ROUNDS:
            break
        kernels, start = [*kernels, *new], solution
    status = solution.status
    if gap <= tol:
        status = "optimal"
    elif status == "optimal":
        status = "stopped"
        warn_unconverged(
            f"the duality gap over the whole family of kernels is {gap:.2g}, not tol={tol:g}; over "
            f"the {len(kernels)} kernels at hand it is {solution.gap:.2g}; raise tol"
        )
    return replace(solution, dual=dual, dual_alpha=proof, gap=gap, status=status)


def moved(solution: Solution, kernels: Sequence[Any]) -> Solution:
    """The same solution among these kernels, which hold all that it gives a weight."""
    known = dict(zip(solution.extras["kernels"], solution.weights, strict=True))
    weights = np.array([known.get(kernel, 0.0) for kernel in kernels])
    return replace(solution, weights=weights, extras={**solution.extras, "kernels": kernels})
