"""Combined kernels may be arrays of float32: sums over them are float64 whoever makes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from _helpers.stack_contract import PROTOCOL, check_restrict_to_repeats

from kernelweave import KernelStack, learn
from kernelweave.learners import NAMES, make_learner
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.dense import DenseCombined
from kernelweave.stacks.dense import KernelStack as Dense
from kernelweave.stacks.identity import Changed, WithIdentity
from kernelweave.stacks.mixed import MixedStack

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * RNG.normal(size=N) > 0.8, 1.0, -1.0)
FAR = ((X[:, None] - X[None]) ** 2).sum(axis=2)
K = np.stack([np.exp(-FAR / (2 * s**2)) for s in (0.3, 1.0, 3.0)])


class Short:
    """K(d) as one array of float32, rounded once; what it lacks is the object's claim."""

    is_dense = True

    def __init__(self, K: np.ndarray) -> None:
        self._K = K.astype(np.float32)

    def dense(self) -> np.ndarray:
        return self._K

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        return DenseCombined(self._K) @ v


class OneMatrix:
    """Passes and blocks are those of a stack; the combined kernel alone is short."""

    entry_eps = 2.0**-23

    def __init__(self, K: np.ndarray) -> None:
        self.stack = Dense(K)
        self.m, self.n = self.stack.m, self.stack.n
        self.block, self.matvecs = self.stack.block, self.stack.matvecs
        self.quad_forms, self.diagonals = self.stack.quad_forms, self.stack.diagonals

    def combined(self, weights: np.ndarray) -> Short:
        return Short(self.stack.combine(weights))


def one_matrix(K: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    return OneMatrix(K), K, abs(K)


@pytest.mark.parametrize("check", PROTOCOL, ids=lambda check: check.__name__)
def test_contract(check: Any) -> None:
    if check is not check_restrict_to_repeats:
        check(one_matrix, 3e-7)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared", "epsilon_insensitive"])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_gaps_hold(loss: str, C: float) -> None:
    y = Y if "hinge" in loss else X[:, 0] ** 2
    found = learn(OneMatrix(K), y, C=C, loss=loss, tol=1e-3)
    exact = learn(KernelStack(K), y, C=C, loss=loss, tol=1e-8)
    assert found.status == "optimal"
    assert found.dual <= exact.primal and exact.dual <= found.primal
    assert found.certificate().gap <= found.gap * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("name", [name for name in NAMES if name != "skm_published"])
def test_every_learner_takes_it(name: str) -> None:
    loss = (make_learner(name).losses or ["hinge"])[0]
    short, exact = (learn(stack, Y, C=2.0, learner=name, loss=loss) for stack in (OneMatrix(K), K))
    assert short.certificate().gap <= 2e-3 or short.status == exact.status != "optimal"
    assert short.objective == pytest.approx(exact.objective, rel=2e-3)


def test_a_hard_margin() -> None:
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    short, exact = (learn(stack, y, C=np.inf, tol=1e-3) for stack in (OneMatrix(K[:1]), K[:1]))
    assert short.objective == pytest.approx(exact.objective, rel=3e-3)


def test_what_is_made_of_it_is_float64() -> None:
    """Sums, multiples and ridges of float32 would be rougher than the object says it is."""
    stack, w = as_stack(OneMatrix(K)), np.ones(3)
    kernel = stack.combined(w)
    v = RNG.normal(size=(N, 2))
    wide = kernel.dense().astype(float)
    assert kernel.dense().dtype == np.float32
    np.testing.assert_allclose(kernel @ v, wide @ v, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(Changed(kernel, 3.0, 0.1).dense(), 3.0 * wide + 0.1 * np.eye(N))
    together = MixedStack([stack, stack]).combined(np.ones(6))
    np.testing.assert_array_equal(together.dense(), 2.0 * wide)
    learned = learn(OneMatrix(K), Y, C="learn", loss="squared_hinge")
    assert learned.certificate().gap <= 2e-3
    assert WithIdentity(stack).combined(np.ones(4)).dense().dtype == np.float64
