"""The minimum enclosing ball against a conic solver and against geometry."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import awkward, factor, gaussian, gram, solve

from kernelweave import enclosing_ball


def conic_radius2(K: np.ndarray) -> float:
    """min r s.t. ‖F_i − c‖² ≤ r, the rows of F being the points [gai2010, eq. 7]."""
    F = factor(K)
    c, r = cp.Variable(F.shape[1]), cp.Variable()
    return solve(cp.Problem(cp.Minimize(r), [cp.sum_squares(x - c) <= r for x in F]))


@pytest.mark.parametrize("problem", awkward()[::3], ids=repr)
def test_radius_is_that_of_a_conic_solver(problem):
    K = problem.K.mean(axis=0)
    K = K / np.trace(K) * len(K)
    ball = enclosing_ball(K, tol=1e-10)
    assert ball.gap <= 1e-10
    assert ball.radius2 == pytest.approx(conic_radius2(K), rel=1e-6)


def test_every_point_is_inside_and_the_bounds_hold():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    for tol in (1e-1, 1e-3, 1e-8):
        ball = enclosing_ball(gram(X), tol=tol)
        center = ball.beta @ X
        distances = ((X - center) ** 2).sum(axis=1)
        assert ball.gap <= tol
        assert distances.max() <= ball.radius2 * (1 + 1e-12)
        exact = enclosing_ball(gram(X), tol=1e-12).radius2
        assert ball.lower <= exact * (1 + 1e-10) and exact <= ball.radius2 * (1 + 1e-10)


def test_known_balls():
    line = np.array([[0.0], [1.0], [4.0]])
    assert enclosing_ball(gram(line), tol=1e-12).radius2 == pytest.approx(4.0)
    assert enclosing_ball(np.eye(5), tol=1e-12).radius2 == pytest.approx(0.8)
    assert enclosing_ball(np.ones((4, 4))).radius2 == pytest.approx(0.0, abs=1e-12)
    assert enclosing_ball([[2.0]]).radius2 == pytest.approx(0.0, abs=1e-12)


def test_scaling_a_kernel_scales_its_ball():
    K = gaussian(np.random.default_rng(1).standard_normal((40, 3)), 1.0)
    one = enclosing_ball(K, tol=1e-12)
    for a in (1e-6, 1e6):
        assert enclosing_ball(a * K, tol=1e-12).radius2 == pytest.approx(a * one.radius2, rel=1e-9)


def test_a_good_start_needs_no_work():
    K = gaussian(np.random.default_rng(3).standard_normal((50, 3)), 1.0)
    first = enclosing_ball(K, tol=1e-8)
    again = enclosing_ball(K, tol=1e-8, start=first.beta)
    assert np.array_equal(again.beta, first.beta)


def test_bad_matrices_are_refused():
    with pytest.raises(ValueError, match="square"):
        enclosing_ball(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="finite"):
        enclosing_ball(np.full((2, 2), np.nan))
