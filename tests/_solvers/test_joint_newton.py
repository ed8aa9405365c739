"""Weights and machines moved together: all digits in one go, and no harm where bounds are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers.opened import opened

from kernelweave import KernelBank, KernelStack, learn
from kernelweave._solvers.joint_newton import refined
from kernelweave.problems.dual_qp import relative_gap

N = 120
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, 6))
VALUES = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.4 * RNG.standard_normal(N)
Y = np.where(VALUES > 0.0, 1.0, -1.0)
STACK = KernelBank(views={"a": [0, 1], "b": [2, 3], "c": [4, 5]}).fit(X).stack


def gap_of(evaluator, point) -> float:
    return relative_gap(point.primal, evaluator.bound(point.v).value)


def moved(evaluator, point):
    return refined(evaluator, evaluator.look(point))


def rough(y, C):
    """An evaluator, and a machine solved at weights that are nearly the best."""
    found = learn(STACK, y, C, tol=1e-6)
    evaluator, _ = opened(found.problem)
    e = found.weights / found.problem.weight_set.scale
    e = e * (1.0 + 1e-5 * np.cos(np.arange(STACK.m)))
    return evaluator, evaluator.solve(e / e.sum(), 1e-7)


@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])
def test_all_digits_come_at_once(C):
    evaluator, point = rough(Y, C)
    before, after = gap_of(evaluator, point), gap_of(evaluator, moved(evaluator, point))
    assert before > 1e-11
    assert after < 1e-12


def test_several_machines_move_together():
    classes = np.digitize(VALUES, [-0.7, 0.7])
    y = np.where(classes[:, None] == np.arange(3), 1.0, -1.0)
    evaluator, point = rough(y, 10.0)
    assert gap_of(evaluator, point) > 1e-11
    assert gap_of(evaluator, moved(evaluator, point)) < 1e-12


def test_wrong_bounds_do_no_harm():
    """The point stays feasible, so that its bounds are bounds, however far from the optimum."""
    optimum = learn(STACK, Y, 10.0, tol=1e-10)
    evaluator, _ = opened(optimum.problem)
    rng = np.random.default_rng(0)
    for _ in range(10):
        e = rng.dirichlet(np.full(STACK.m, 0.3))
        v = evaluator.machine.feasible(10.0 * Y * rng.random(N).round(1))
        point = moved(evaluator, evaluator.judge(e, v))
        assert abs(point.v.sum()) <= 1e-9 and (np.abs(point.v) <= 10.0).all()
        assert point.e.min() >= 0.0 and abs(point.e.sum() - 1.0) <= 1e-12
        assert point.primal >= optimum.dual
        assert evaluator.bound(point.v).value <= optimum.primal


def test_kernels_twice_and_of_rank_one():
    K = np.concatenate([STACK.block(0, np.arange(N), np.arange(N))[None]] * 2)
    more = np.concatenate([K, np.outer(X[:, 0], X[:, 0])[None], np.outer(Y, Y)[None] * 1e-3])
    assert learn(KernelStack(more), Y, 10.0, tol=1e-10).gap <= 1e-10


@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])
@pytest.mark.parametrize(
    ("loss", "y"),
    [
        ("hinge", Y),
        ("squared_hinge", Y),
        ("epsilon_insensitive", VALUES),
        ("squared", VALUES),
        ("quantile", VALUES),
    ],
)
def test_ten_digits_can_be_had(loss, y, C):
    asked = {"epsilon": 0.1} if loss == "epsilon_insensitive" else {}
    found = learn(STACK, y, C, loss=loss, tol=1e-10, **asked)
    assert found.status == "optimal"
    assert found.certificate().gap <= 1e-10


@pytest.mark.parametrize("seed", [136, 350, 351, 453, 454])
def test_one_kernel_in_use_stays_in_use(seed):
    """Then H may be rounding alone, and no step of the weights follows from it."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(int(rng.integers(6, 20)), 3))
    D = ((points[:, None] - points) ** 2).sum(axis=2)
    K, y = np.array([np.exp(-D / 2), np.exp(-D / 50)]), rng.normal(size=len(points))
    with np.errstate(all="raise"):
        solution = learn(K, y, 0.1, loss="quantile", tol=1e-6)
    assert solution.gap <= 1e-6
    assert abs(solution.weights.sum() - 1.0) <= 1e-12
