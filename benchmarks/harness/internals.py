"""All that experiments use of the package's inside. Only this file changes when that does.

Everything else in benchmarks/ uses documented names: those of ``kernelweave`` itself, and of its
``datasets``, ``plotting``, ``learners`` and ``papers``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from kernelweave import solving
from kernelweave._core.dask_cluster import Cluster
from kernelweave._core.settings import SETTINGS
from kernelweave._solvers.svm import choice, interior_point, smo
from kernelweave.estimators._times import concordance
from kernelweave.families.widths import WidthRange
from kernelweave.inspection.held_out import HeldOut, told
from kernelweave.io._registry import CLASSES as MODEL_CLASSES
from kernelweave.kernels._plsa import plsa
from kernelweave.kernels.eigen import EigenvectorKernels
from kernelweave.learners import Learner, make_learner
from kernelweave.learners.base import Step
from kernelweave.machines.evaluator import HardMarginInfeasible
from kernelweave.papers.lanckriet2004._clarabel import ConeSolution, solve_cone_program
from kernelweave.papers.lanckriet2004._programs import group_form, machine_form
from kernelweave.problem_file import read_problem, write_problem
from kernelweave.problems.losses import hinge, make_qp
from kernelweave.stacks.cholesky import factor
from kernelweave.stacks.dask_stack import DaskStack
from kernelweave.stacks.defaults import matrices
from kernelweave.stacks.dense import DenseCombined
from kernelweave.stacks.factor import JoinedFactor
from kernelweave.stacks.factors import FactorCombined
from kernelweave.stacks.lazy import LazyStack
from kernelweave.views.products import sq_distances

__all__ = [
    "MODEL_CLASSES",
    "Cluster",
    "ConeSolution",
    "DaskStack",
    "DenseCombined",
    "EigenvectorKernels",
    "FactorCombined",
    "HardMarginInfeasible",
    "HeldOut",
    "Hinge",
    "JoinedFactor",
    "LazyStack",
    "Watched",
    "WidthRange",
    "as_if_large",
    "certifying",
    "choice",
    "concordance",
    "cone_program",
    "factor",
    "hinge",
    "matrices",
    "plsa",
    "read_problem",
    "smo",
    "solve_cone_program",
    "sq_distances",
    "steps_timed",
    "told",
    "write_problem",
]


class Hinge:
    """The machine with hinge loss: its primal values, and the cone programs that have it.

    P(f, b) = ½‖f‖² + C Σ (1 − y_i(f_i + b))₊, with ``quad`` = ‖f‖².
    """

    def __init__(self, y: np.ndarray, C: float) -> None:
        self.problem = make_qp(y, len(y), C, "hinge")

    def best_bias(self, f: np.ndarray) -> float:
        """The b that minimizes P(f, b)."""
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

    sums = True

    def __init__(self, learner: str | Learner) -> None:
        self.learner = make_learner(learner)
        self.weights: list[np.ndarray] = []
        self.passes = 0

    @property
    def patience(self) -> int:
        return self.learner.patience

    def iterate(self, evaluator: Any, incumbent: Any, e: np.ndarray, tol: float) -> Iterator[Step]:
        return self.learner.iterate(_Watching(evaluator, self), incumbent, e, tol)


class _Watching:
    """An evaluator that tells where it solves, and counts passes over all kernels."""

    def __init__(self, evaluator: Any, log: Watched) -> None:
        self._evaluator, self._log = evaluator, log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._evaluator, name)

    def solve(self, e: np.ndarray, tol: float, *args: Any, **options: Any) -> Any:
        self._log.weights.append(self._evaluator.weight_set.scale * e)
        return replace(self._evaluator.solve(e, tol, *args, **options), _quads=self.quads)

    def quads(self, v: np.ndarray, kernels: Any = None) -> np.ndarray:
        self._log.passes += kernels is None  # else it fills in what an earlier pass left out
        return self._evaluator.quads(v, kernels)

    def look(self, point: Any, kernels: Any = None) -> Any:
        self._log.passes += 1
        return self._evaluator.look(point, kernels)

    def bound(self, v: np.ndarray, q: Any = None, by: str = "machine", **options: Any) -> Any:
        q = self.quads(v) if q is None else q
        return self._evaluator.bound(v, q, by, **options)


@contextmanager
def steps_timed(n: int) -> Iterator[list[float]]:
    """Seconds of each interior-point step on n rows."""
    plain, seconds = interior_point._Path.step, list[float]()

    def step(path: Any) -> None:
        began = time.perf_counter()
        plain(path)
        if path.f.size == n:
            seconds.append(time.perf_counter() - began)

    interior_point._Path.step = step  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        interior_point._Path.step = plain  # type: ignore[method-assign]


@contextmanager
def certifying() -> Iterator[list[float]]:
    """Processor seconds that fits spend on bounds in exact arithmetic, in a list of one."""
    spent, real = [0.0], solving._Run._certified

    def timed(run: Any, fine: bool) -> Any:
        began = time.process_time()
        found = real(run, fine)
        spent[0] += time.process_time() - began
        return found

    solving._Run._certified = timed  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        solving._Run._certified = real  # type: ignore[method-assign]


@contextmanager
def as_if_large(dtype: str) -> Iterator[None]:
    """Few rows are treated as many: kernels are generated, and K(d) is float32 or float64."""
    names, wide = ("one_matrix", "most_matrices", "wide_matrix"), 0 if dtype == "float32" else 2**28
    kept = [getattr(SETTINGS, name) for name in names]
    SETTINGS.one_matrix, SETTINGS.most_matrices, SETTINGS.wide_matrix = 0, 0, wide
    try:
        yield
    finally:
        for name, value in zip(names, kept, strict=True):
            setattr(SETTINGS, name, value)


def device_modules() -> tuple[Any, ...]:
    """K(d), the stack and the tiles of a device, which need PyTorch."""
    from kernelweave.stacks import torch_combined, torch_stack, torch_tiles

    return torch_combined, torch_stack, torch_tiles
