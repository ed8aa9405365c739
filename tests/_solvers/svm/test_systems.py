"""Conjugate gradients on products with the kernel reach what SMO reaches on the array."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave._solvers.svm import interior_point, smo, systems
from kernelweave.problems import losses, value_losses
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.problems.one_class import OneClass
from kernelweave.stacks.combined import BlockCombined
from kernelweave.stacks.dense import DenseCombined, KernelStack
from kernelweave.stacks.factor import JoinedFactor
from kernelweave.stacks.factors import FactorCombined

N = 240
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 4))
Y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=N) > 0.0, 1.0, -1.0)
T = X[:, 0] ** 2 + 0.2 * rng.normal(size=N)
D2 = ((X[:, None] - X[None]) ** 2).sum(axis=2)
KERNELS = {
    "wide": np.exp(-0.02 * D2),
    "narrow": np.exp(-2.0 * D2),
    "repeated rows": np.exp(-0.5 * D2)[np.ix_(np.arange(N) // 2, np.arange(N) // 2)],
    "rank one": np.outer(X[:, 0], X[:, 0]),
    "large": 1e4 * np.exp(-0.2 * D2),
}
LOSSES = {
    "hinge": lambda C: losses.hinge(Y, C),
    "squared hinge": lambda C: losses.squared_hinge(Y, C),
    "tube": lambda C: value_losses.EpsilonInsensitive().lower(T, C),
    "pinball": lambda C: value_losses.Quantile(0.2).lower(T, C),
    "weights": lambda C: losses.hinge(Y, C * np.linspace(0.1, 2.0, N)),
    "one class": lambda C: OneClass().lower(Y, 4.0 / N),
}


def bounds(qp: DualQP, K: np.ndarray, v: np.ndarray) -> tuple[float, float]:
    coef = qp.fold(v)
    f = K @ coef
    quad = float(coef @ f)
    return qp.primal_value(f, qp.best_bias(f), quad), qp.dual_value(v, quad)


@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("loss", LOSSES)
def test_same_optimum_as_smo(loss: str, kind: str, C: float) -> None:
    qp, K = LOSSES[loss](C), KERNELS[kind]
    found, told = interior_point.solve_by_products(DenseCombined(K), qp, 1e-4)
    primal, dual = bounds(qp, K, found.v)
    assert np.all((found.v >= qp.lower) & (found.v <= qp.upper))
    assert abs(found.v.sum() - qp.total) <= 1e-12 * max(np.abs(found.v).sum(), 1.0)
    if told > 1e-4:  # it says so, and rows go on from there
        assert kind in ("rank one", "large") or loss == "one class"
        return
    assert relative_gap(primal, dual) <= 2e-4
    other = bounds(qp, K, smo.solve(K, qp, None, 1e-5).v)
    assert dual <= other[0] * (1 + 1e-9) and other[1] <= primal * (1 + 1e-9)


def test_products_do_not_grow_with_the_rows() -> None:
    counts = []
    for n in (300, 1500):
        points = rng.normal(size=(n, 4))
        y = np.where(points[:, 0] * points[:, 1] > 0.3 * rng.normal(size=n), 1.0, -1.0)
        K = np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=2))
        counted = Counted(K)
        assert interior_point.solve_by_products(counted, losses.hinge(y, 1.0), 1e-3)[1] <= 1e-3
        counts.append(counted.products)
    assert max(counts) <= 120


class Counted(DenseCombined):
    products = 0

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        self.products += 1
        return super().__matmul__(v)


def test_a_system_is_solved_as_exactly_as_was_asked() -> None:
    K, D = KERNELS["narrow"], np.exp(rng.normal(size=2 * N) * 2.0)
    lift = systems.Lift(np.arange(2 * N) % N, N)  # two variables per row
    matrix = np.tile(K, (2, 2)) + np.diag(D)
    B = rng.normal(size=(2 * N, 2))
    system = systems.Conjugate(DenseCombined(K), DenseCombined(K).landmark_factor(60), lift)
    asked = []
    for gap in (1.0, 0.0):
        system.prepare(D, gap)
        rest = matrix @ system.solve(B) - B
        sizes = [(x * system.inner.solve(x)).sum(axis=0) for x in (rest, B)]  # D + e + FFᵀ's norm
        assert (sizes[0] <= system.accuracy**2 * sizes[1] * (1.0 + 1e-9)).all()
        asked.append(system.accuracy)
    assert asked[1] < asked[0]
    near = np.linalg.solve(matrix, B)
    before = system.products
    np.testing.assert_allclose(system.solve(B, near), near, atol=1e-8)
    assert system.products == before + 1  # that which finds nothing left to do


def test_landmarks_leave_a_diagonal_that_is_not_negative() -> None:
    for K in KERNELS.values():
        F, rest = DenseCombined(K).landmark_factor(50)
        assert F.shape == (N, 50) and rest.min() >= 0.0
        left = K - F.array() @ F.array().T
        assert np.linalg.eigvalsh(left).min() >= -1e-7 * np.trace(K)
        np.testing.assert_allclose(left.diagonal(), rest, atol=1e-8 * K.max())


def test_products_of_several_columns() -> None:
    K, V = np.stack([KERNELS["wide"], KERNELS["narrow"]]), rng.normal(size=(N, 3))
    total = 0.3 * K[0] + 0.7 * K[1]
    G = JoinedFactor.of(rng.normal(size=(N, 5)))
    w = np.arange(1.0, 6.0)
    combined = [
        (BlockCombined(KernelStack(K), np.array([0.3, 0.7])), total),
        (DenseCombined(total), total),
        (FactorCombined(G, w), (w * G.array()) @ G.array().T),
    ]
    for kernel, matrix in combined:
        np.testing.assert_allclose(kernel @ V, matrix @ V, rtol=1e-10, atol=1e-10)
