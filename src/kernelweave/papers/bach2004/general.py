"""The support kernel machine for any d_j, regularised by any a_j [bach2004, §2.2, §4.4].

    min_w  ½(Σ_j d_j‖w_j‖)² + C Σ ξ_i

approached by adding ½ (κ/(1 − κ))² Σ_j a_j²‖w_j‖², with κ falling.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_positive
from kernelweave.learners.skm import Skm
from kernelweave.learning import learn
from kernelweave.papers.bach2004.theory import SupportKernelMachine, paper_form
from kernelweave.problems.problem import refuse_learnt_C
from kernelweave.solution import Solution
from kernelweave.stacks.dense import KernelStack, as_stack


def support_kernel_machine(
    K: ArrayLike | KernelStack,
    y: ArrayLike,
    *,
    d: ArrayLike,
    a: ArrayLike | None = None,
    C: ArrayLike = 1.0,
    loss: str = "hinge",
    tol: float = 1e-3,
) -> tuple[SupportKernelMachine, Solution]:
    """Solve (D_K) for any d_j > 0 by machines regularised with κ/(1 − κ)·a_j, κ falling.

    With unit weights e_j = d_j²η_j it is the machine of the kernels K_j/d_j² on the simplex: the
    ``Solution``, with its certificate, is of these. ``a`` is d by default, the schedule of §4.4.
    """
    refuse_learnt_C(C)
    stack = as_stack(K)
    units = check_positive("d", d, stack.m)
    scaled = KernelStack.allocate(stack.m, stack.n)
    for matrix, weights in zip(scaled, np.diag(1.0 / units**2), strict=True):
        matrix[:] = stack.combine(weights)
    learner = Skm(a=None if a is None else check_positive("a", a, stack.m) / units)
    own = KernelStack(scaled, check=False)
    found = learn(own, y, C=C, loss=loss, learner=learner, tol=tol)
    form = paper_form(found, own, y)
    return replace(form, eta=form.eta / units**2, d=units), found
