"""Weights and parameters of kernels, learnt together.

    min_{t}  F(t),    F(t) = min_{d ∈ D}  J(K(d, t))          margin criterion, D the weight set
                      F(t) = min_{d ≥ 0}  J(K(d, t)/R²(d, t))  radius criterion [gai2010, eq. 15]

with K(d, t) = Σ_m d_m K_m(t_m) and J(K) = max_v cᵀv − ½ρ‖v‖² − ½vᵀKv. The inner problem is convex
and is left to ``learn``. F has at its solution the derivatives of the inner objective at fixed d:

    ∂J/∂t_i = −½ vᵀ(∂_iK)v,      ∂²J/∂t_i∂t_j = Q_iᵀĀQ_j − ½ vᵀ(∂_i∂_jK)v,    Q_i = (∂_iK)v at F

[gai2010, eq. 21–22; chapelle2008, §5, where the second term lacks its ½], F the free support
vectors and Ā as in ``_solvers/svm/curvature.py``. It is not convex: steps are only taken downhill,
and several starts may be tried.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import check_floats, check_number, is_whole, shown
from kernelweave._core.tolerances import FREE, SQUARED_TOL
from kernelweave._core.types import Array
from kernelweave._solvers.radius.centering import PointsCoincide, center
from kernelweave._solvers.radius.enclosing_ball import ball_qp, smallest_ball
from kernelweave._solvers.svm.curvature import hessian_factor
from kernelweave.kernels.differentiable import DifferentiableKernel, Expansion
from kernelweave.learning import learn
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import make_qp
from kernelweave.solution import Solution
from kernelweave.stacks.combined import DenseCombined
from kernelweave.stacks.dense import KernelStack

LEARNERS = {"margin": "newton", "radius": "radius"}
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
        "optimal": stationarity ≤ tol; "stopped": no step fell; "max_iter".
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
        Rows as the kernels take them.
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
    task = _Task(rows, y, many, C, criterion, loss, weight_norm, tol)
    rng = np.random.default_rng(random_state)
    first = np.concatenate(task.first)
    starts = [first, *(first + rng.standard_normal(first.size) for _ in range(n_starts - 1))]
    runs = [_descend(task, t, method == "newton", tol, max_iter) for t in starts]
    state, history, stationarity, status = min(runs, key=lambda run: run[0].value)
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


def _check_parameters(place: int, t: Any) -> Array:
    """What a kernel says its parameters are, as a vector; there may be none."""
    vector = check_floats(f"kernels[{place}].parameters", t)
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError(
            f"kernels[{place}].parameters must be a vector of finite numbers, found {shown(t)}"
        )
    return vector


class _Task:
    """The problem apart from t."""

    def __init__(
        self,
        X: Array,
        y: ArrayLike,
        kernels: list[DifferentiableKernel],
        C: float,
        criterion: str,
        loss: str,
        weight_norm: float | None,
        tol: float,
    ) -> None:
        self.X, self.y, self.kernels = X, y, kernels
        self.criterion, self.qp = criterion, make_qp(y, len(X), C, loss)
        self.tol = max(1e-3 * tol, SQUARED_TOL)  # of the inner problem: values are compared
        self.options: dict[str, Any] = {
            "C": C,
            "loss": loss,
            "weight_norm": weight_norm,
            "tol": self.tol,
        }
        self.first = [_check_parameters(place, k.parameters(X)) for place, k in enumerate(kernels)]
        sizes = [t.size for t in self.first]
        self.blocks = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])

    def kernels_at(self, t: Array) -> list[DifferentiableKernel]:
        """The kernels with the parameters t."""
        pairs = zip(self.kernels, self.blocks, strict=True)
        return [kernel.with_parameters(t[block]) for kernel, block in pairs]

    def evaluate(self, t: Array, start: Solution | None) -> _State:
        """F(t), from the weights and machine of a neighbour."""
        expansions = [kernel.expand(self.X) for kernel in self.kernels_at(t)]
        if start is not None and not all(np.isfinite(np.sum(e.matrix)) for e in expansions):
            raise FloatingPointError("a kernel is not finite")
        stack = KernelStack([e.matrix for e in expansions], check=start is None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the certificate says how far it came
            solution = learn(
                stack, self.y, learner=LEARNERS[self.criterion], start=start, **self.options
            )
        K, *_ = center(stack.combine(solution.weights))
        return _State(self, t, expansions, solution, K)


@dataclass(frozen=True)
class _State:
    """F at t: value, gradient and Hessian; K is centred, since Σv = 0."""

    task: _Task
    t: Array
    expansions: list[Expansion]
    solution: Solution
    K: Array

    @property
    def value(self) -> float:
        return self.solution.objective

    @cached_property
    def ball(self) -> tuple[Array, float]:
        """β and R² of the combined kernel; for the margin criterion a ball that never changes."""
        if self.task.criterion == "margin":
            return np.zeros(self.K.shape[0]), 1.0
        ball = smallest_ball(DenseCombined(self.K), self.task.tol)
        return ball.beta, ball.radius2

    @cached_property
    def v(self) -> Array:
        """Signed variables of the machine on K/R²."""
        v = self.solution.coef * self.solution.extras.get("radius", 1.0) ** 2
        return np.clip(v, self.task.qp.lower, self.task.qp.upper)

    @cached_property
    def firsts(self) -> list[_Derivative]:
        """∂K/∂t_i, as far as it is needed."""
        return [
            self._derivative(weight * expansion.first(i))
            for weight, expansion, block in self._parts()
            for i in range(block.size)
        ]

    def _parts(self) -> list[tuple[float, Expansion, NDArray[np.intp]]]:
        return list(zip(self.solution.weights, self.expansions, self.task.blocks, strict=True))

    def _derivative(self, D: Array) -> _Derivative:
        beta, v = self.ball[0], self.v
        if D.shape != self.K.shape:
            raise ValueError(f"derivatives of kernels must be {self.K.shape}, found {D.shape}")
        if not np.isfinite(D).all():
            raise ValueError("derivatives of kernels must be finite, found NaN or infinity")
        along = D @ beta
        diagonal = np.diagonal(D)
        return _Derivative(
            D @ v, float(v @ D @ v), 0.5 * diagonal - along, float((diagonal - along) @ beta)
        )

    @cached_property
    def gradient(self) -> Array:
        """∂F/∂t [gai2010, eq. 21]."""
        radius2 = self.ball[1]
        energy = float(self.v @ self.K @ self.v)
        return np.array(
            [-0.5 * d.energy / radius2 + 0.5 * energy * d.radius2 / radius2**2 for d in self.firsts]
        )

    def hessian(self) -> Array:
        """∂²F/∂t² at fixed weights, with the second-order terms of K and of 1/R²."""
        qp, radius2, firsts = self.task.qp, self.ball[1], self.firsts
        count, n = self.t.size, self.K.shape[0]
        energy = float(self.v @ self.K @ self.v)
        energies = np.array([d.energy for d in firsts])
        slopes = np.array([d.radius2 for d in firsts])
        bends, curves = np.zeros((count, count)), np.zeros((count, count))
        for weight, expansion, block in self._parts():
            for i in range(block.size if weight > 0.0 else 0):
                for j in range(i + 1):
                    d = self._derivative(weight * expansion.second(i, j))
                    for a, b in ((block[i], block[j]), (block[j], block[i])):
                        bends[a, b], curves[a, b] = d.energy, d.radius2
        curves += 2.0 * _response(
            self.K, ball_qp(np.zeros(n)), self.ball[0], [d.centre for d in firsts]
        )
        # ∂_i∂_j of vᵀKv/R² at fixed v
        cross = np.outer(energies, slopes)
        ratio = bends / radius2 - (cross + cross.T) / radius2**2
        ratio += energy * (2.0 * np.outer(slopes, slopes) / radius2**3 - curves / radius2**2)
        f = self.K @ self.v
        moves = [d.product / radius2 - f * d.radius2 / radius2**2 for d in firsts]
        return _response(self.K / radius2, qp, self.v, moves) - 0.5 * ratio


@dataclass(frozen=True)
class _Derivative:
    """What a derivative D of K contributes: Dv, vᵀDv, ½diag(D) − Dβ, and to that of R²."""

    product: Array
    energy: float
    centre: Array
    radius2: float


def _response(K: Array, qp: DualQP, v: Array, products: list[Array]) -> Array:
    """QᵀĀQ: how the value bends because v follows; zero where no variable is free."""
    slack = FREE * float(np.abs(v).max())  # rounding makes no variable free
    free = np.flatnonzero((v > qp.lower + slack) & (v < qp.upper - slack))
    B = hessian_factor(DenseCombined(K), qp, free, np.reshape(products, (-1, v.size))[:, free])
    return np.zeros((len(products), len(products))) if B is None else B.T @ B


def _descend(
    task: _Task, t: Array, newton: bool, tol: float, max_iter: int
) -> tuple[_State, list[float], float, str]:
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
            return now, history, max(share, 0.0), "optimal"
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


def _newton_step(state: _State) -> Array:
    """−|H|⁻¹∇F: negative curvature turned round, flat directions bounded."""
    values, vectors = np.linalg.eigh(state.hessian())
    sizes = np.abs(values)
    sizes = np.maximum(sizes, 1e-3 * sizes.max(initial=1e-300))
    return -vectors @ ((vectors.T @ state.gradient) / sizes)
