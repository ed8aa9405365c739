"""The support kernel machine for any d_j, regularized by any a_j [bach2004, §2.2, §4.4].

    min_w  ½(Σ_j d_j‖w_j‖)² + C Σ ξ_i

solved by adding ½ (κ/(1 − κ))² Σ_j a_j²‖w_j‖², with κ decreasing.
"""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import ArrayLike

from kernelweave._core.checks import check_number, check_positive
from kernelweave.papers.bach2004.skm import Skm
from kernelweave.papers.bach2004.theory import SupportKernelMachine, paper_form
from kernelweave.problems.problem import make_problem, refuse_learned_C
from kernelweave.problems.weight_sets import Simplex
from kernelweave.solution import Solution
from kernelweave.solving import solve
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.protocol import Stack


def support_kernel_machine(
    K: ArrayLike | Stack,
    y: ArrayLike,
    *,
    d: ArrayLike,
    a: ArrayLike | None = None,
    C: ArrayLike = 1.0,
    loss: str = "hinge",
    tol: float = 1e-3,
) -> tuple[SupportKernelMachine, Solution]:
    """Solve (D_K) for any d_j > 0 by machines regularized with κ/(1 − κ)·a_j, κ decreasing.

    The weights η satisfy Σ_j d_j²η_j = 1; so do those of the ``Solution``, whose certificate is
    for this constraint. ``a`` is d by default, the schedule of §4.4.
    """
    refuse_learned_C(C)
    check_number("tol", tol)
    stack = as_stack(K)
    units = check_positive("d", d, stack.m)
    learner = Skm(a=None if a is None else check_positive("a", a, stack.m))
    problem = make_problem(stack, y, C, loss=loss)
    problem = replace(problem, weight_set=Simplex(1.0 / units**2))
    found = solve(problem, learner, tol)
    return paper_form(found), found
