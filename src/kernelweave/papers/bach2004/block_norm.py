"""The support kernel machine with a norm that is not squared [bach2004, §2.4].

    min_{w, b}  Σ_j d_j‖w_j‖ + C Σ_i (1 − y_i(Σ_j ⟨w_j, φ_j(x_i)⟩ + b))₊
    max_α       Σ_i α_i    s.t.  √(αᵀD(y)K_jD(y)α) ≤ d_j,  0 ≤ α ≤ C,  yᵀα = 0

With kernels of rank one it is the LP-SVM. At the optimum w_j = η_j Σ_i α_i y_i φ_j(x_i), where
η_j > 0 only if the constraint of kernel j is tight; the size of η is not fixed in advance.
``learn`` minimizes ½(Σ_j d_j‖w_j‖)² + C Σξ. It has the same solution if its C is Σ_j d_j‖w_j‖ times
the C here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.checks import check_number, check_positive
from kernelweave._core.tolerances import CONE_ACCURACY_FINE, NOTHING
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave._solvers.svm import choice
from kernelweave.machines.evaluator import NOT_SEPARABLE, HardMarginInfeasible
from kernelweave.papers.lanckriet2004._programs import in_units, machine_form
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.problems.problem import make_problem, refuse_learned_C
from kernelweave.stacks.cholesky import factor
from kernelweave.stacks.protocol import Stack


@dataclass(frozen=True, eq=False)
class BlockNormMachine:
    """f = Σ_j η_j K_j ``coef`` + ``bias``, with primal and dual values computed from the data.

    ``alpha`` is the feasible point that attains ``dual``.
    """

    eta: Array
    coef: Array
    bias: float
    alpha: Array
    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """Relative duality gap."""
        return relative_gap(self.primal, self.dual)

    @property
    def support_kernels(self) -> NDArray[np.intp]:
        """Numbers of the kernels with a weight."""
        return np.flatnonzero(self.eta)


def block_norm_machine(
    K: ArrayLike | Stack,
    y: ArrayLike,
    *,
    C: ArrayLike = 1.0,
    d: ArrayLike | None = None,
    loss: str = "hinge",
    tol: float = 1e-6,
) -> BlockNormMachine:
    """Solve the machine by a conic solver, for small problems; needs the extra ``conic``.

    Parameters
    ----------
    K, y, C, loss
        As for ``learn``, except that C cannot be learned.
    d : array (m,), optional
        Positive cost per kernel; 1 by default.
    tol : float
        Relative duality gap; a ``ConvergenceWarning`` says if it is not reached.
    """
    refuse_learned_C(C)
    problem = make_problem(K, y, C, loss=loss)
    stack, qp, tol = problem.stack, problem.qp, check_number("tol", tol)
    units = np.ones(stack.m) if d is None else check_positive("d", d, stack.m)
    sizes = np.sqrt(stack.diagonals().max(axis=1)) / units
    if not sizes.any():
        raise ValueError("K must have a kernel that is not zero")
    eta, v = _by_conic_solver(
        stack, qp, units, sizes, float(np.clip(1e-3 * tol, *CONE_ACCURACY_FINE))
    )
    # For given η this is the SVM on Σ_j η_j K_j. Solved again, its error is that of η squared.
    (svm,) = choice.solve("auto", stack.combined(eta), [qp], [v], 0.01 * tol)
    scale, bias = qp.improve(svm.f, 0.0)[:2] if qp.is_hard else (1.0, qp.best_bias(svm.f))
    norm = float(eta * units @ np.sqrt(np.maximum(stack.quad_forms(svm.v), 0.0)))
    primal = qp.primal_value(scale * svm.f, bias, 2.0 * scale * norm)
    alpha = max((_shrunk(stack, units, x) for x in (v, svm.v)), key=qp.dual_linear)
    machine = BlockNormMachine(
        scale * eta,
        problem.to_all_rows(svm.v),
        bias + qp.origin,
        problem.to_all_rows(qp.alpha(alpha)),
        primal,
        qp.dual_linear(alpha),
    )
    if machine.gap > tol:
        warn_unconverged(
            f"the duality gap reached is {machine.gap:.2g}, not tol={tol:g}; use a larger tol"
        )
    return machine


def _by_conic_solver(
    stack: Stack, qp: DualQP, units: Array, sizes: Array, tol: float
) -> tuple[Array, Array]:
    """η, and a v that solves the dual but may violate the kernels' constraints slightly."""
    # scale the variables to the order of one, by their bounds and the largest kernel
    unit = min(float(np.abs([qp.lower, qp.upper]).max()), 1.0 / float(sizes.max()))
    used, factors = np.flatnonzero(sizes), []
    for j in used.tolist():
        every = np.arange(stack.n)
        K = stack.block(j, every, every)
        root = np.sqrt(unit) / units[j]  # ``in_units`` adds the other √unit: norms are not squared
        factors.append(root * factor(K, NOTHING * float(K.diagonal().max())))
    factors, scaled = in_units(factors, qp, unit)
    program, read = machine_form(factors, scaled, squared=False)
    found = program.solve(tol)
    if not found.found:
        raise HardMarginInfeasible(NOT_SEPARABLE)
    multipliers, v = read(found)
    # the multiplier of a constraint that is not tight is zero up to the solver's tolerance
    loose = [float(np.linalg.norm(F.T @ v)) < 0.999 for F in factors]
    noise = np.maximum(1e-9 * multipliers.max(), np.where(loose, tol * scaled.dual_linear(v), 0.0))
    eta = np.zeros(stack.m)
    eta[used] = np.where(multipliers > noise, unit * multipliers, 0.0)
    return eta / units**2, qp.feasible(unit * v)


def _shrunk(stack: Stack, units: Array, v: Array) -> Array:
    """v scaled down, if needed, so that all √(vᵀK_j v) ≤ d_j."""
    sizes = np.sqrt(np.maximum(stack.quad_forms(v), 0.0))
    return v / max(1.0, float((sizes / units).max()))
