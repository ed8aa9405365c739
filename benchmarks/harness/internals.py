"""All that experiments use of the package's inside. Only this file changes when that does.

Everything else in benchmarks/ uses documented names: those of ``kernelweave`` itself, and of its
``datasets``, ``plotting``, ``learners`` and ``papers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelweave._solvers.conic.clarabel import ConeSolution, solve_cone_program
from kernelweave._solvers.conic.programs import group_form, machine_form
from kernelweave.kernels._plsa import plsa
from kernelweave.learners import Learner, Newton, make_learner
from kernelweave.machines.oracle import HardMarginInfeasible
from kernelweave.problems.losses import lower

__all__ = [
    "ConeSolution",
    "HardMarginInfeasible",
    "Hinge",
    "Watched",
    "cone_program",
    "plsa",
    "solve_cone_program",
]


class Hinge:
    """The machine with hinge loss: its primal values, and the cone programs that have it.

    P(f, b) = ½‖f‖² + C Σ (1 − y_i(f_i + b))₊, with ``quad`` = ‖f‖².
    """

    def __init__(self, y: np.ndarray, C: float) -> None:
        self.problem = lower(y, len(y), C, "hinge")

    def best_bias(self, f: np.ndarray) -> float:
        """The b that minimises P(f, b)."""
        return self.problem.best_bias(f)

    def value(self, f: np.ndarray, bias: float, quad: float) -> float:
        """P(f, b)."""
        return self.problem.primal_value(f, bias, quad)

    def best_value(self, f: np.ndarray, quad: float) -> float:
        """The least P(t·f, b) over scale and bias."""
        return self.problem.improve(f, quad)[2]


def cone_program(form: str, L: list[np.ndarray], y: np.ndarray, C: float) -> tuple[Any, Any]:
    """Arrays of the "dual" or "primal" form, and what reads weights and v off a ConeSolution."""
    build = {"dual": machine_form, "primal": group_form}[form]
    program, read = build(L, Hinge(y, C).problem)
    return program.arrays(), read


class Watched(Learner):
    """A learner, the weights it solves at, and its passes over all kernels.

    A pass gives the gradient, gradient and Hessian together, or the bound that a mixture of
    solutions proves.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.learner = Newton(mixed=True) if name == "mixed" else make_learner(name)
        self.weights: list[np.ndarray] = []
        self.passes = 0

    def iterate(self, oracle: Any, e: np.ndarray, tol: float) -> Iterator[None]:
        solve, quads, products = oracle.solve, oracle.quads, oracle.products

        def watched_solve(e, tol):
            self.weights.append(oracle.weight_set.scale * e)
            return solve(e, tol)

        def watched_quads(v, kernels=None):
            self.passes += kernels is None  # else it fills in what an earlier pass left out
            return quads(v, kernels)

        def watched_products(point, kernels=None):
            self.passes += 1
            return products(point, kernels)

        oracle.solve, oracle.quads, oracle.products = watched_solve, watched_quads, watched_products
        yield from self.learner.iterate(oracle, e, tol)
