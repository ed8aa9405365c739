"""F(t), its gradient and its second derivatives: the criterion at given parameters of kernels.

    F(t) = min_d J(K(d, t))    or    min_d J(K(d, t)/R²(d, t))

See ``kernelweave.parameters`` for the formulas.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import check_floats, shown
from kernelweave._core.tolerances import FREE, SQUARED_TOL
from kernelweave._core.types import Array
from kernelweave._solvers.radius.centering import center
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
_FLAT = 1e-3  # a derivative of the kernel below this share of it is as good as none


class Task:
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

    def evaluate(self, t: Array, start: Solution | None) -> State:
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
        return State(self, t, expansions, solution, K)


@dataclass(frozen=True)
class State:
    """F at t: value, gradient and Hessian; K is centred, since Σv = 0."""

    task: Task
    t: Array
    expansions: list[Expansion]
    solution: Solution
    K: Array

    @property
    def value(self) -> float:
        """F(t)."""
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
            D @ v,
            float(v @ D @ v),
            0.5 * diagonal - along,
            float((diagonal - along) @ beta),
            float(np.linalg.norm(D)),
        )

    @property
    def is_flat(self) -> bool:
        """Whether no parameter changes the combined kernel by much, as its varying part goes."""
        most = max((d.size for d in self.firsts), default=np.inf)
        return most <= _FLAT * float(np.linalg.norm(self.K))

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
    """What a derivative D of K contributes: Dv, vᵀDv, ½diag(D) − Dβ, to that of R²; ‖D‖."""

    product: Array
    energy: float
    centre: Array
    radius2: float
    size: float


def _response(K: Array, qp: DualQP, v: Array, products: list[Array]) -> Array:
    """QᵀĀQ: how the value bends because v follows; zero where no variable is free."""
    slack = FREE * float(np.abs(v).max())  # rounding makes no variable free
    free = np.flatnonzero((v > qp.lower + slack) & (v < qp.upper - slack))
    B = hessian_factor(DenseCombined(K), qp, free, np.reshape(products, (-1, v.size))[:, free])
    return np.zeros((len(products), len(products))) if B is None else B.T @ B


def _check_parameters(place: int, t: Any) -> Array:
    """What a kernel says its parameters are, as a vector; there may be none."""
    vector = check_floats(f"kernels[{place}].parameters", t)
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError(
            f"kernels[{place}].parameters must be a vector of finite numbers, found {shown(t)}"
        )
    return vector
