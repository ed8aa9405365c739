"""F(t), its gradient and its second derivatives: the criterion at given parameters of kernels.

    F(t) = min_d J(K(d, t))    or    min_d J(K(d, t)/R²(d, t))

See ``kernelweave.parameters`` for the formulas. J is a sum over machines, and F over problems
with weights of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.cached import cached_property
from kernelweave._core.checks import check_floats, shown
from kernelweave._core.tolerances import FREE, SQUARED_TOL, VARIES
from kernelweave._core.types import Array, Places
from kernelweave._solvers.enclosing_ball import ball_qp, center, smallest_ball
from kernelweave._solvers.svm.curvature import hessian_factor
from kernelweave.kernels.differentiable import Bends, Expansion, bends
from kernelweave.learners.base import Learner
from kernelweave.parameters.normalized import LearnableKernel, NormalizedExpansion
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.problem import Formulation
from kernelweave.solution import Solution
from kernelweave.solving import solve
from kernelweave.stacks.dense import DenseCombined, KernelStack
from kernelweave.stacks.mixed import MixedStack
from kernelweave.stacks.protocol import Stack

_FLAT = 1e-3  # a derivative of the kernel below this share of it is as good as none


@dataclass(frozen=True)
class Others:
    """Kernels without parameters, and their numbers among all."""

    stack: Stack
    places: Places


class ParameterProblem:
    """The problem apart from t: kernels with parameters beside others, and what to minimize."""

    def __init__(
        self,
        parts: Sequence[LearnableKernel],
        formulations: Sequence[Formulation],
        learner: Learner,
        tol: float,
        others: Others | None = None,
    ) -> None:
        self.parts, self.formulations, self.learner = parts, formulations, learner
        self.others = others
        self.tol = max(1e-3 * tol, SQUARED_TOL)  # of the inner problem: values are compared
        self.first = [_check_parameters(part) for part in parts]
        sizes = [t.size for t in self.first]
        self.blocks = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        known = np.empty(0, dtype=np.intp) if others is None else others.places
        self.places = np.setdiff1d(np.arange(known.size + len(parts)), known)

    def at(self, t: Array) -> list[tuple[LearnableKernel, Array]]:
        """Each part with its parameters."""
        return [(part, t[block]) for part, block in zip(self.parts, self.blocks, strict=True)]

    def evaluate(self, t: Array, start: Evaluation | None) -> Evaluation:
        """F(t), from the weights and machines of a neighbor."""
        expansions = [part.expansion(s) for part, s in self.at(t)]
        if start is not None and not all(np.isfinite(np.sum(e.matrix)) for e in expansions):
            raise FloatingPointError("a kernel is not finite")
        stack: Stack = KernelStack([e.matrix for e in expansions], check=start is None)
        if self.others is not None:
            stack = MixedStack([stack, self.others.stack], [self.places, self.others.places])
        starts = [None] * len(self.formulations) if start is None else start.solutions
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the certificate says how far it came
            solutions = [
                solve(formulation.on(stack), self.learner, self.tol, one)
                for formulation, one in zip(self.formulations, starts, strict=True)
            ]
        return Evaluation(self, t, expansions, stack, solutions)


@dataclass(frozen=True)
class Evaluation:
    """F at t: value, gradient and Hessian, each a sum over problems."""

    task: ParameterProblem
    t: Array
    expansions: list[Expansion]
    stack: Stack
    solutions: list[Solution]

    @property
    def value(self) -> float:
        """F(t)."""
        return sum(solution.objective for solution in self.solutions)

    @cached_property
    def solved(self) -> list[Solved]:
        """The machines of each problem."""
        pairs = zip(self.task.formulations, self.solutions, strict=True)
        return [Solved(self, formulation, solution) for formulation, solution in pairs]

    @property
    def is_flat(self) -> bool:
        """Whether no parameter changes the combined kernels by much, as their varying part goes."""
        return all(one.is_flat for one in self.solved)

    @cached_property
    def gradient(self) -> Array:
        """∂F/∂t [gai2010, eq. 21]."""
        return np.sum([one.gradient for one in self.solved], axis=0)

    def bend(self, z: Array) -> Array:
        """∂²F/∂t² times z, at fixed weights, with the second-order terms of K and of 1/R²."""
        return np.sum([one.bend(z) for one in self.solved], axis=0)

    def hessian(self) -> Array:
        """∂²F/∂t², column by column."""
        H = np.zeros((self.t.size, self.t.size))
        for row, z in zip(H, np.eye(self.t.size), strict=True):
            row[:] = self.bend(z)
        return 0.5 * (H + H.T)

    @property
    def bends_in_products(self) -> bool:
        """Whether no kernel needs its second derivatives one by one."""
        plain = [e.inner if isinstance(e, NormalizedExpansion) else e for e in self.expansions]
        return all(hasattr(expansion, "bends") for expansion in plain)


@dataclass(frozen=True)
class Solved:
    """One problem at t: all its machines, on one combined kernel."""

    state: Evaluation
    formulation: Formulation
    solution: Solution

    @cached_property
    def K(self) -> Array:
        """The combined kernel, centered: that changes no vᵀKv with Σv = 0, and no curvature."""
        weights, every = self.solution.weights, np.arange(self.state.stack.n)
        return center(self.state.stack.combined(weights).rows(every))[0]

    @cached_property
    def ball(self) -> tuple[Array, float]:
        """β and R² of the combined kernel; for the margin criterion a ball that never changes."""
        if self.state.task.learner.objective != "radius":
            return np.zeros(len(self.K)), 1.0
        ball = smallest_ball(DenseCombined(self.K), self.state.task.tol)
        return ball.beta, ball.radius2

    @cached_property
    def machines(self) -> list[tuple[DualQP, Array]]:
        """Each dual QP, and its signed variables on K/R²."""
        scale = self.solution.extras.get("radius", 1.0) ** 2
        pairs = zip(self.formulation.qps, np.atleast_2d(self.solution.alpha), strict=True)
        return [(qp, qp.from_alpha(scale * alpha)) for qp, alpha in pairs]

    @cached_property
    def V(self) -> Array:
        """The coefficients of all machines, (n, k)."""
        return np.column_stack([qp.fold(v) for qp, v in self.machines])

    @cached_property
    def ridge(self) -> float:
        """1/C where C was learned: the weight of the identity, which no parameter changes."""
        return 1.0 / float(self.solution.C) if self.formulation.learns_C else 0.0

    @cached_property
    def firsts(self) -> list[_Derivative]:
        """∂K/∂t_i, as far as it is needed."""
        return [
            self._derivative(weight * expansion.first(i))
            for weight, expansion, block in self._parts()
            for i in range(block.size)
        ]

    def _parts(self) -> list[tuple[float, Expansion, NDArray[np.intp]]]:
        task = self.state.task
        weights = self.solution.weights[task.places]
        return list(zip(weights, self.state.expansions, task.blocks, strict=True))

    def _derivative(self, D: Array) -> _Derivative:
        if D.shape != self.K.shape:
            raise ValueError(f"derivatives of kernels must be {self.K.shape}, found {D.shape}")
        if not np.isfinite(D).all():
            raise ValueError("derivatives of kernels must be finite, found NaN or infinity")
        size = float(np.linalg.norm(D))
        self._check_trace(D, size)
        products = D @ self.V
        energy = float(np.vdot(self.V, products))
        center = 0.5 * np.diagonal(D) - D @ self.ball[0]
        return _Derivative(products, energy, center, self._slope(D), size)

    def _slope(self, D: Array) -> float:
        """The derivative of R² at fixed β."""
        beta = self.ball[0]
        return float((np.diagonal(D) - D @ beta) @ beta) if beta.any() else 0.0

    def _check_trace(self, D: Array, size: float) -> None:
        """Raise ValueError if weights are measured by traces that change with the parameters."""
        asked = self.formulation
        if asked.trace is None and not (asked.recenter or asked.learns_C):
            return
        w = np.ones(len(D)) if asked.row_weights is None else asked.row_weights
        change = float(w @ np.diagonal(D)) - asked.recenter * float(w @ D @ w) / float(w.sum())
        if abs(change) > VARIES * size:
            raise ValueError(
                "trace=, recenter=True and C='learn' measure kernel weights by traces, and these "
                "change with the parameters to be learned. Normalize the kernels: "
                "KernelBank(…, normalize='center+unit_trace')."
            )

    @property
    def is_flat(self) -> bool:
        """Whether no parameter changes K by much."""
        most = max((d.size for d in self.firsts), default=np.inf)
        return most <= _FLAT * float(np.linalg.norm(self.K))

    @property
    def energy(self) -> float:
        """Σ vᵀKv over all machines."""
        return float(np.vdot(self.V, self.K @ self.V))

    @cached_property
    def gradient(self) -> Array:
        """−½ vᵀ(∂K)v/R² + ½ vᵀKv ∂R²/R⁴."""
        radius2 = self.ball[1]
        return np.array(
            [
                -0.5 * d.energy / radius2 + 0.5 * self.energy * d.radius2 / radius2**2
                for d in self.firsts
            ]
        )

    @cached_property
    def bend(self) -> Bends:
        """z ↦ ∂²F/∂t² z at fixed weights.

        With E = vᵀKv and its derivatives at fixed v, that of −½E/R²; and QᵀĀQ for each machine.
        """
        radius2, energy = self.ball[1], self.energy
        energies = np.array([d.energy for d in self.firsts])
        slopes = np.array([d.radius2 for d in self.firsts])
        of_energy, of_ball = self._bends(self.V @ self.V.T), self._bends_of_ball()
        responses = self._responses()

        def along(z: Array) -> Array:
            rise, widening = float(energies @ z), float(slopes @ z)
            bent = of_energy(z) / radius2
            bent = bent - (energies * widening + slopes * rise) / radius2**2
            bent += energy * (2.0 * slopes * widening / radius2**3 - of_ball(z) / radius2**2)
            return np.asarray(sum((B.T @ (B @ z) for B in responses), -0.5 * bent))

        return along

    def _bends(self, M: Array) -> Bends:
        """z ↦ (Σ_j ⟨M, ∂_i∂_jK⟩ z_j)_i over all parts; zero for those without a weight."""
        found = [
            (weight, block, bends(expansion, M, block.size))
            for weight, expansion, block in self._parts()
            if weight > 0.0 and block.size
        ]

        def along(z: Array) -> Array:
            out = np.zeros_like(z)
            for weight, block, part in found:
                out[block] = weight * part(z[block])
            return out

        return along

    def _bends_of_ball(self) -> Bends:
        """Those of R²: at fixed β, and because β follows."""
        beta = self.ball[0]
        if not beta.any():
            return np.zeros_like
        fixed = self._bends(np.diag(beta) - np.outer(beta, beta))
        qp = ball_qp(np.zeros(len(self.K)))
        B = _response(self.K, qp, beta, [d.center for d in self.firsts])
        return lambda z: fixed(z) + 2.0 * (B.T @ (B @ z))

    def _responses(self) -> list[Array]:
        """B with BᵀB = QᵀĀQ, of each machine."""
        radius2 = self.ball[1]
        K, found = self.K / radius2 + self.ridge * np.eye(len(self.K)), []
        for number, (qp, v) in enumerate(self.machines):
            f = self.K @ self.V[:, number]
            moves = [
                d.products[:, number] / radius2 - f * d.radius2 / radius2**2 for d in self.firsts
            ]
            found.append(_response(K, qp, v, moves))
        return found


@dataclass(frozen=True)
class _Derivative:
    """What a derivative D of K contributes: DV, Σ vᵀDv, ½diag(D) − Dβ, to that of R²; ‖D‖."""

    products: Array
    energy: float
    center: Array
    radius2: float
    size: float


def _response(K: Array, qp: DualQP, v: Array, products: list[Array]) -> Array:
    """B with BᵀB = QᵀĀQ: how the value bends because v follows; empty where no variable is free."""
    slack = FREE * float(np.abs(v).max())  # rounding makes no variable free
    free = np.flatnonzero((v > qp.lower + slack) & (v < qp.upper - slack))
    Q = np.reshape(products, (-1, qp.n))[:, free % qp.n]
    B = hessian_factor(DenseCombined(K), qp, free, Q)
    return np.zeros((0, len(products))) if B is None else B


def _check_parameters(part: LearnableKernel) -> Array:
    """What a kernel says its parameters are, as a vector; there may be none."""
    t: Any = part.kernel.parameters(part.X)
    vector = check_floats(f"{part.name}.parameters", t)
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError(
            f"{part.name}.parameters must be a vector of finite numbers, found {shown(t)}"
        )
    return vector
