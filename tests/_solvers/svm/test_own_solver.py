"""A combined kernel that solves its own systems is asked to: by ridge regression and by newton."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernelweave import KernelStack, learn
from kernelweave._solvers.svm import curvature, linear_system

N = 80
rng = np.random.default_rng(2)
X = rng.normal(size=(N, 5))
K = np.stack([np.exp(-0.5 * ((X[:, None, c] - X[None, :, c]) ** 2).sum(-1)) for c in ([0], [1, 2])])
VALUES = np.sin(X[:, 0]) + 0.3 * rng.normal(size=N)
Y = np.where(VALUES > 0.0, 1.0, -1.0)


class Elsewhere:
    """Kernels whose combination can be multiplied with, and solves systems."""

    n, m = N, len(K)

    def __init__(self) -> None:
        self.solved: list[int] = []

    def block(self, kernel: int, rows: Any, columns: Any) -> np.ndarray:
        return K[kernel][np.ix_(rows, columns)]

    def combined(self, weights: np.ndarray) -> Any:
        whole, outer = np.tensordot(weights, K, 1), self

        class Combined:
            def __matmul__(self, v: np.ndarray) -> np.ndarray:
                return whole @ v

            def solver(self, rows: np.ndarray, ridge: np.ndarray) -> Any:
                outer.solved.append(rows.size)
                A = whole[np.ix_(rows, rows)] + np.diag(ridge)
                half = np.linalg.inv(np.linalg.cholesky(A))
                return SimpleNamespace(
                    solve=lambda B: np.linalg.solve(A, B), half=lambda B: half @ B
                )

        return Combined()


@pytest.mark.parametrize("targets", [VALUES, np.stack([VALUES, VALUES**2], 1)])
def test_ridge_regression(targets, monkeypatch):
    monkeypatch.setattr(linear_system, "_iterated", None)  # conjugate gradients are not needed
    stack = Elsewhere()
    found = learn(stack, targets, C=2.0, loss="squared", tol=1e-8)
    exact = learn(KernelStack(K), targets, C=2.0, loss="squared", tol=1e-8)
    assert found.gap <= 1e-8 and found.objective == pytest.approx(exact.objective, rel=1e-7)
    assert N in stack.solved


def test_the_curvature_of_newton(monkeypatch):
    monkeypatch.setattr(curvature, "CholeskySolver", None)
    stack = Elsewhere()
    found = learn(stack, Y, C=5.0, tol=1e-9)
    exact = learn(KernelStack(K), Y, C=5.0, tol=1e-6, learner="simple")
    assert found.gap <= 1e-9 and found.objective == pytest.approx(exact.objective, rel=2e-6)
    assert stack.solved and "joint" in found.history["by"]
