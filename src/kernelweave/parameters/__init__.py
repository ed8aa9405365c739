"""Weights and parameters of kernels, learned together.

    min_{t}  F(t),    F(t) = min_{d ∈ D}  J(K(d, t))          margin criterion, D the weight set
                      F(t) = min_{d ∈ D}  J(K̃(d, t))          trace criterion [chapelle2008, eq. 1]
                      F(t) = min_{d ≥ 0}  J(K(d, t)/R²(d, t))  radius criterion [gai2010, eq. 15]

with K(d, t) = Σ_m d_m K_m(t_m) and J(K) = max_v cᵀv − ½ρ‖v‖² − ½vᵀKv; K̃ is of centered kernels
over their traces T(K_m), and J(K̃) is T(K)Ω(K) where the margin is hard. The inner problem is convex
and is left to ``learn``. F has at its solution the gradient of the inner objective at fixed d:

    ∂J/∂t_i = −½ vᵀ(∂_iK)v,      ∂²J/∂t_i∂t_j = Q_iᵀĀQ_j − ½ vᵀ(∂_i∂_jK)v,    Q_i = (∂_iK)v at F

[gai2010, eq. 21–22; chapelle2008, §5, where the second term lacks its ½], F the free support
vectors and Ā as in ``_solvers/svm/curvature.py``. The second derivatives are F's own where there is
one kernel. With several d follows t, and F, a minimum over d, bends less than they say: a model for
steps. F is not convex: steps are only taken downhill, and several starts may be tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats, check_number, is_whole
from kernelweave._core.types import Array
from kernelweave.banks.normalize import RULES, Normalizer
from kernelweave.kernels.differentiable import DifferentiableKernel
from kernelweave.learners import check_options
from kernelweave.parameters.criterion import ParameterProblem
from kernelweave.parameters.descent import descend
from kernelweave.parameters.normalized import LearnableKernel
from kernelweave.problems.losses import Loss
from kernelweave.problems.problem import make_formulation
from kernelweave.solution import Solution

CRITERIA = {
    "margin": ("newton", RULES[None]),
    "radius": ("radius", RULES[None]),
    "trace": ("newton", RULES["center+unit_trace"]),
}
"""The learner of each criterion, and how it normalizes kernels."""


@dataclass(frozen=True, eq=False)
class ParametricSolution:
    """Learned kernels, and the machine on them.

    Attributes
    ----------
    kernels : list of kernels
        With the parameters learned.
    solution : Solution
        Weights and machine for these kernels, with a certificate (of the weights and the
        machine: no certificate exists for the parameters).
    stationarity : float
        The relative fall of the criterion that the last step promised, to first order.
    status : str
        "optimal": stationarity ≤ tol; "flat": the same, but because the kernels hardly depend on
        their parameters there, which a warning says; "stopped": no step fell; "max_iter".
    history : array
        The criterion after each step of the best start. It never increases.
    runs : list of float
        The criterion that each start reached.
    method : str
        "newton" or "gradient".
    """

    kernels: list[DifferentiableKernel]
    solution: Solution
    stationarity: float
    status: str
    history: Array
    runs: list[float]
    X: Array = field(repr=False)
    normalizers: list[Normalizer] = field(repr=False)
    method: str = "newton"

    @property
    def objective(self) -> float:
        """The criterion."""
        return self.solution.objective

    def decision_function(self, X: ArrayLike) -> Array:
        """Decision values of new rows."""
        Z = _check_rows(X)
        if Z.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"X has {Z.shape[1]} features, but the kernels were learned on {self.X.shape[1]}"
            )
        crosses = [kernel.cross(Z, self.X) for kernel in self.kernels]
        for K, normalizer in zip(crosses, self.normalizers, strict=True):
            new = normalizer.of_new(_unasked, partial(np.asarray, K))
            normalizer.apply(K, new, normalizer.of_train(slice(None)))
        return self.solution.decision_function(crosses)


def learn_parameters(
    X: ArrayLike,
    y: ArrayLike,
    kernels: DifferentiableKernel | Sequence[DifferentiableKernel],
    C: float | str = 1.0,
    criterion: str = "radius",
    method: str = "newton",
    loss: str | Loss = "hinge",
    weight_norm: float | None = 1,
    tol: float = 1e-3,
    max_iter: int = 50,
    n_starts: int = 1,
    random_state: int | None = None,
) -> ParametricSolution:
    """Learn the weights of kernels, their parameters, and the machine.

    Parameters
    ----------
    X : array (n, n_features)
        Rows as the kernels take them, best with columns of about equal spread: where widths are
        far from all distances, the criterion is flat and nothing can be learned.
    y : array (n,)
        Labels -1 and +1.
    kernels : kernel or list of kernels
        Each with the methods of ``DifferentiableKernel``, such as ``GaussianWidths``; their
        parameters are where the first start begins.
    C, loss
        As for ``learn``. ``C="learn"`` with the squared hinge learns C as well
        [chapelle2008, §5], under any criterion but the radius.
    criterion : "radius", "margin" or "trace"
        Radius and margin [gai2010, eq. 9]; the margin alone, which depends on the scale that
        parameters give a kernel and is meant for kernels that keep it, as Gaussians do; or the
        margin of kernels that are centered and have trace 1, whatever their parameters: T(K)Ω(K)
        of [chapelle2008, §2].
    method : "newton" or "gradient"
        Newton steps, with the curvature made positive, or gradient steps of spectral length. For
        more than ten parameters Newton's system is solved by products with the second derivatives
        (conjugate gradients), where kernels offer these (``bends``), as ``GaussianWidths`` does.
    weight_norm : float or None
        As for ``learn``.
    tol : float
        Stop when a step promises a relative fall of less.
    max_iter : int
        Steps from each start.
    n_starts : int
        The first start is where the kernels are; others add standard normal numbers to their
        parameters. The best result is returned.
    random_state : int, optional
        Seed of those numbers.
    """
    if criterion not in list(CRITERIA):
        raise ValueError(f"criterion must be one of {sorted(CRITERIA)}, found {criterion!r}")
    if method not in ("newton", "gradient"):
        raise ValueError(f"method must be 'newton' or 'gradient', found {method!r}")
    if weight_norm is None and criterion != "radius":
        raise ValueError(f"weight_norm=None needs criterion='radius', found {criterion!r}")
    check_number("tol", tol)
    check_number("max_iter", max_iter, int)
    check_number("n_starts", n_starts, int)
    if not (random_state is None or is_whole(random_state)):
        raise TypeError(f"random_state must be None or a whole number, found {random_state!r}")
    if random_state is not None and random_state < 0:
        raise ValueError(f"random_state must be nonnegative, found {random_state!r}")
    task = make_task(X, y, kernels, C, criterion, loss, weight_norm, tol)
    rng = np.random.default_rng(random_state)
    first = np.concatenate(task.first)
    starts = [first, *(first + rng.standard_normal(first.size) for _ in range(n_starts - 1))]
    runs = [descend(task, t, method, tol, max_iter) for t in starts]
    best = min(runs, key=lambda run: run.state.value)
    best.warn()
    learned = task.at(best.state.t)
    return ParametricSolution(
        kernels=[part.kernel.with_parameters(t) for part, t in learned],
        solution=best.state.solutions[0],
        stationarity=best.stationarity,
        status=best.status,
        history=np.array(best.history),
        runs=[run.state.value for run in runs],
        X=task.parts[0].X,
        normalizers=[part.normalizer(t) for part, t in learned],
        method=best.method,
    )


def make_task(
    X: ArrayLike,
    y: ArrayLike,
    kernels: DifferentiableKernel | Sequence[DifferentiableKernel],
    C: float | str,
    criterion: str,
    loss: str | Loss,
    weight_norm: float | None,
    tol: float,
) -> ParameterProblem:
    """What ``learn_parameters`` minimizes, every argument checked."""
    name, rule = CRITERIA[criterion]
    learner = check_options(name, C, weight_norm, tol, 1, loss=loss)
    formulation = make_formulation(y, C, loss, weight_norm)
    rows, many = _check_rows(X), _check_kernels(kernels)
    parts = [
        LearnableKernel(f"kernels[{place}]", kernel, rows, rule)
        for place, kernel in enumerate(many)
    ]
    return ParameterProblem(parts, [formulation], learner, tol)


def _unasked() -> Array:
    """k(x, x) of new rows, which no criterion normalizes by."""
    raise NotImplementedError


def _check_rows(X: ArrayLike) -> Array:
    """Rows of finite numbers."""
    rows = np.ascontiguousarray(check_floats("X", X))
    if np.ndim(X) != 2 or rows.size == 0:
        raise ValueError(f"X must be a table of numbers, found shape {np.shape(X)}")
    if not np.isfinite(rows).all():
        raise ValueError("X must be finite, found NaN or infinity")
    return rows


def _check_kernels(
    kernels: DifferentiableKernel | Sequence[DifferentiableKernel],
) -> list[DifferentiableKernel]:
    """One or more kernels that know their derivatives."""
    many: list[Any] = list(kernels) if isinstance(kernels, list | tuple) else [kernels]
    if not many:
        raise ValueError("kernels must hold at least one kernel, found an empty list")
    for place, kernel in enumerate(many):
        if isinstance(kernel, type) or not isinstance(kernel, DifferentiableKernel):
            name = "kernels" if kernel is kernels else f"kernels[{place}]"
            raise TypeError(
                f"{name} must be a kernel that knows its derivatives, such as GaussianWidths(1.0), "
                f"found {kernel!r}"
            )
    return many
