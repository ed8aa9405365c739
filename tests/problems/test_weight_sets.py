"""Projections onto sets of weights, against a conic solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from kernelweave.problems.weight_sets import Cone, NormBall, project_simplex


@pytest.mark.parametrize("seed", range(5))
def test_simplex(seed):
    rng = np.random.default_rng(seed)
    x, metric = rng.standard_normal(7), 10.0 ** rng.uniform(-2, 2, 7)
    p = cp.Variable(7, nonneg=True)
    distance = cp.sum(cp.multiply(1 / metric, cp.square(p - x)))
    cp.Problem(cp.Minimize(distance), [cp.sum(p) == 1]).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(project_simplex(x, metric), p.value, atol=1e-5)
    assert project_simplex(x, metric).sum() == pytest.approx(1.0)


def test_sphere_and_cone():
    x, ones = np.array([3.0, -1.0, 4.0]), np.ones(3)
    np.testing.assert_allclose(NormBall(ones, 2.0).project(x, ones), [0.6, 0.0, 0.8])
    np.testing.assert_allclose(Cone(ones).project(x, ones), [3.0, 0.0, 4.0])
    np.testing.assert_allclose(NormBall(ones, 2.0).project(-x, ones), [0.0, 1.0, 0.0])
