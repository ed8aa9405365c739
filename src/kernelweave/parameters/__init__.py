"""Weights and parameters of kernels, learnt together.

    min_{t}  F(t),    F(t) = min_{d ∈ D}  J(K(d, t))          margin criterion, D the weight set
                      F(t) = min_{d ≥ 0}  J(K(d, t)/R²(d, t))  radius criterion [gai2010, eq. 15]

with K(d, t) = Σ_m d_m K_m(t_m) and J(K) = max_v cᵀv − ½ρ‖v‖² − ½vᵀKv. The inner problem is convex
and is left to ``learn``. F has at its solution the gradient of the inner objective at fixed d:

    ∂J/∂t_i = −½ vᵀ(∂_iK)v,      ∂²J/∂t_i∂t_j = Q_iᵀĀQ_j − ½ vᵀ(∂_i∂_jK)v,    Q_i = (∂_iK)v at F

[gai2010, eq. 21–22; chapelle2008, §5, where the second term lacks its ½], F the free support
vectors and Ā as in ``_solvers/svm/curvature.py``. The second derivatives are F's own where there is
one kernel. With several d follows t, and F, a minimum over d, bends less than they say: a model for
steps. F is not convex: steps are only taken downhill, and several starts may be tried.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats, check_number, is_whole
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave._solvers.radius.centering import PointsCoincide
from kernelweave.kernels.differentiable import DifferentiableKernel
from kernelweave.parameters.criterion import LEARNERS, State, Task
from kernelweave.solution import Solution

_LONGEST = 1.0  # no parameter changes by more in one step; for a log width, by a factor e


@dataclass(frozen=True, eq=False)
class ParametricSolution:
    """Learnt kernels, and the machine on them.

    Attributes
    ----------
    kernels : list of kernels
        With the parameters learnt.
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
    """

    kernels: list[DifferentiableKernel]
    solution: Solution
    stationarity: float
    status: str
    history: Array
    runs: list[float]
    X: Array = field(repr=False)

    @property
    def objective(self) -> float:
        """The criterion."""
        return self.solution.objective

    def decision_function(self, X: ArrayLike) -> Array:
        """Decision values of new rows."""
        Z = _check_rows(X)
        if Z.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"X has {Z.shape[1]} features, but the kernels were learnt on {self.X.shape[1]}"
            )
        return self.solution.decision_function([k.cross(Z, self.X) for k in self.kernels])


def learn_parameters(
    X: ArrayLike,
    y: ArrayLike,
    kernels: DifferentiableKernel | Sequence[DifferentiableKernel],
    C: float = 1.0,
    criterion: str = "radius",
    method: str = "newton",
    loss: str = "hinge",
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
        far from all distances, the criterion is flat and nothing can be learnt.
    y : array (n,)
        Labels -1 and +1.
    kernels : kernel or list of kernels
        Each with the methods of ``DifferentiableKernel``, such as ``GaussianWidths``; their
        parameters are where the first start begins. No kernel matrix is normalised.
    C, loss
        As for ``learn``.
    criterion : "radius" or "margin"
        Radius and margin [gai2010, eq. 9], or the margin alone, which depends on the scale that
        parameters give a kernel and is meant for kernels that keep it, as Gaussians do.
    method : "newton" or "gradient"
        Newton steps, with the curvature made positive, or gradient steps of spectral length.
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
    if criterion not in list(LEARNERS):
        raise ValueError(f"criterion must be one of {sorted(LEARNERS)}, found {criterion!r}")
    if method not in ("newton", "gradient"):
        raise ValueError(f"method must be 'newton' or 'gradient', found {method!r}")
    if weight_norm is None and criterion != "radius":
        raise ValueError(f"weight_norm=None needs criterion='radius', found {criterion!r}")
    if isinstance(C, str):
        raise TypeError(f"C must be a positive number, which is not learnt here, found {C!r}")
    check_number("tol", tol)
    check_number("max_iter", max_iter, int)
    check_number("n_starts", n_starts, int)
    if not (random_state is None or is_whole(random_state)):
        raise TypeError(f"random_state must be None or a whole number, found {random_state!r}")
    if random_state is not None and random_state < 0:
        raise ValueError(f"random_state must be nonnegative, found {random_state!r}")
    rows, many = _check_rows(X), _check_kernels(kernels)
    task = Task(rows, y, many, C, criterion, loss, weight_norm, tol)
    rng = np.random.default_rng(random_state)
    first = np.concatenate(task.first)
    starts = [first, *(first + rng.standard_normal(first.size) for _ in range(n_starts - 1))]
    runs = [_descend(task, t, method == "newton", tol, max_iter) for t in starts]
    state, history, stationarity, status = min(runs, key=lambda run: run[0].value)
    if status == "flat":
        warn_unconverged(
            "the criterion is flat: the kernels hardly change with their parameters, and nothing "
            "was learnt of these. Standardize the columns of X, begin at parameters that suit the "
            "distances between rows, or raise n_starts"
        )
    return ParametricSolution(
        kernels=task.kernels_at(state.t),
        solution=state.solution,
        stationarity=stationarity,
        status=status,
        history=np.array(history),
        runs=[run[0].value for run in runs],
        X=rows,
    )


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


def _descend(
    task: Task, t: Array, newton: bool, tol: float, max_iter: int
) -> tuple[State, list[float], float, str]:
    """Steps downhill from t: the last state, all values, the last promise, and why it ended."""
    now = task.evaluate(t, None)
    history, length = [now.value], 1.0
    share = np.inf
    for _ in range(max_iter):
        step = _newton_step(now) if newton else -length * now.gradient
        size = float(np.abs(step).max(initial=0.0))
        step *= min(1.0, _LONGEST / size) if size > 0.0 else 1.0
        fall = -float(now.gradient @ step)
        share = fall / max(abs(now.value), 1e-300)
        if share <= tol:
            return now, history, max(share, 0.0), "flat" if now.is_flat else "optimal"
        for _ in range(20):
            with contextlib.suppress(PointsCoincide, FloatingPointError):  # a step too far, then
                new = task.evaluate(now.t + step, now.solution)
                if new.value <= now.value - 1e-4 * fall:
                    break
            step, fall = 0.3 * step, 0.3 * fall
        else:
            return now, history, share, "stopped"
        change = float(step @ (new.gradient - now.gradient)) if not newton else 0.0
        length = float(step @ step) / change if change > 0.0 else 10.0 * length
        now = new
        history.append(now.value)
    return now, history, share, "max_iter"


def _newton_step(state: State) -> Array:
    """−|H|⁻¹∇F: negative curvature turned round, flat directions bounded."""
    values, vectors = np.linalg.eigh(state.hessian())
    sizes = np.abs(values)
    sizes = np.maximum(sizes, 1e-3 * sizes.max(initial=1e-300))
    return -vectors @ ((vectors.T @ state.gradient) / sizes)
