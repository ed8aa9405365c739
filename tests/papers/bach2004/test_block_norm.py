"""The machine whose block norm is not squared, against other solvers and the squared one."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import (
    Problem,
    dense,
    duplicate,
    factor,
    far_scaled,
    labels,
    rank_one,
    separable,
    solve,
    wide,
    with_zero,
)
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from kernelweave import learn
from kernelweave.papers.bach2004.block_norm import block_norm_machine
from kernelweave.papers.bach2004.theory import paper_form

PROBLEMS = [dense(0), dense(2, n=41, m=3, C=100.0), rank_one(0), duplicate(0), wide(0)]


def primal_by_conic_solver(problem: Problem, d: np.ndarray, squared_loss: bool = False) -> float:
    """Σ d_j‖w_j‖ + the loss, as it is written on paper."""
    F = [factor(K) for K in problem.K]
    w = [cp.Variable(part.shape[1]) for part in F]
    b, xi = cp.Variable(), cp.Variable(problem.y.size, nonneg=True)
    f = sum(part @ x for part, x in zip(F, w, strict=True))
    norms = sum(unit * cp.norm(x) for unit, x in zip(d, w, strict=True))
    loss = 0.5 * problem.C * cp.sum_squares(xi) if squared_loss else problem.C * cp.sum(xi)
    limits = [cp.multiply(problem.y, f + b) >= 1 - xi]
    return solve(cp.Problem(cp.Minimize(norms + loss), limits))


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_optimum(problem: Problem) -> None:
    d = np.linspace(0.5, 2.0, len(problem.K))
    found = block_norm_machine(problem.K, problem.y, C=problem.C, d=d)
    assert found.gap <= 1e-6
    assert found.primal == pytest.approx(primal_by_conic_solver(problem, d), rel=1e-5)


def test_both_objectives_are_those_of_the_model() -> None:
    """Recomputed from η, the coefficients and the bias; α is feasible."""
    problem, d = dense(3, C=2.0), np.array([1.0, 0.8, 1.2, 1.0, 0.9])
    K, y = problem.K, problem.y
    found = block_norm_machine(K, y, C=2.0, d=d)
    parts = [eta * (matrix @ found.coef) for eta, matrix in zip(found.eta, K, strict=True)]
    lengths = np.sqrt([eta * part @ found.coef for eta, part in zip(found.eta, parts, strict=True)])
    slack = np.maximum(1.0 - y * (sum(parts) + found.bias), 0.0)
    assert found.primal == pytest.approx(d @ lengths + 2.0 * slack.sum(), rel=1e-9)
    v = y * found.alpha
    assert found.alpha.min() >= 0.0 and found.alpha.max() <= 2.0 and abs(v.sum()) < 1e-9
    assert (np.sqrt(np.einsum("i,kij,j->k", v, K, v)) <= d * (1 + 1e-9)).all()
    assert found.dual == pytest.approx(found.alpha.sum(), rel=1e-12)
    # only kernels whose constraint is tight have a weight
    tight = np.sqrt(np.einsum("i,kij,j->k", v, K, v)) > d * (1 - 1e-3)
    assert set(found.support_kernels) <= set(np.flatnonzero(tight))


def test_kernels_of_rank_one_make_the_lp_svm() -> None:
    rng = np.random.default_rng(0)
    y, C = labels(rng, 30), 0.7
    X = rng.standard_normal((30, 5)) + 0.5 * y[:, None]
    found = block_norm_machine(np.stack([np.outer(x, x) for x in X.T]), y, C=C)
    signed = y[:, None] * np.hstack([X, -X, np.ones((30, 1)), -np.ones((30, 1))])
    cost = np.concatenate([np.ones(10), np.zeros(2), np.full(30, C)])
    best = linprog(cost, -np.hstack([signed, np.eye(30)]), -np.ones(30), method="highs").fun
    assert found.primal == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("problem", PROBLEMS[:3], ids=repr)
def test_same_solution_as_the_squared_machine_at_another_cost(problem: Problem) -> None:
    """min ½u² + CL is min u + (C/γ)L where γ is the best u."""
    K, y, C = problem.K, problem.y, problem.C
    squared = learn(K, y, C=C, learner="skm", tol=1e-9)
    gamma = paper_form(squared).gamma
    found = block_norm_machine(K, y, C=C / gamma)
    assert found.primal == pytest.approx((squared.primal + 0.5 * gamma**2) / gamma, rel=1e-5)


def test_squared_hinge() -> None:
    problem, d = dense(0, C=3.0), np.ones(5)
    found = block_norm_machine(problem.K, problem.y, C=3.0, loss="squared_hinge")
    assert found.gap <= 1e-6
    assert found.primal == pytest.approx(primal_by_conic_solver(problem, d, True), rel=1e-5)


def test_hard_margin() -> None:
    problem = separable(0)
    found = block_norm_machine(problem.K, problem.y, C=np.inf)
    assert found.gap <= 1e-6
    large = block_norm_machine(problem.K, problem.y, C=1e4)
    assert found.primal == pytest.approx(large.primal, rel=1e-5)


def test_hard_margin_without_separation_is_named() -> None:
    rng = np.random.default_rng(0)
    K = np.stack([np.outer(x, x) for x in rng.standard_normal((2, 40))])
    with pytest.raises(ValueError, match="C=inf asks for a hard margin"):
        block_norm_machine(K, labels(rng, 40), C=np.inf)


def test_awkward_kernels() -> None:
    for problem in (with_zero(0), far_scaled(0), far_scaled(1)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = block_norm_machine(problem.K, problem.y, C=problem.C, tol=1e-4)
        assert found.gap <= 1e-4


def test_rows_without_a_label() -> None:
    problem = dense(0)
    y = np.where(np.arange(30) % 5 == 0, 0.0, problem.y)
    known = np.flatnonzero(y)
    found = block_norm_machine(problem.K, y)
    part = block_norm_machine(problem.K[:, known][:, :, known], y[known])
    assert found.primal == pytest.approx(part.primal, rel=1e-5)
    assert (found.alpha[y == 0.0] == 0.0).all() and (found.coef[y == 0.0] == 0.0).all()


def test_bad_input_is_named() -> None:
    K, y = dense(0).K, dense(0).y
    with pytest.raises(ValueError, match="d must hold positive numbers, found 0"):
        block_norm_machine(K, y, d=np.zeros(5))
    with pytest.raises(ValueError, match=r"d must have shape \(5,\)"):
        block_norm_machine(K, y, d=np.ones(4))
    with pytest.raises(ValueError, match=r"tol must be positive, found 0\.0"):
        block_norm_machine(K, y, tol=0.0)
    with pytest.raises(ValueError, match="K must have a kernel that is not zero"):
        block_norm_machine(np.zeros((2, 30, 30)), y)


def test_where_the_norm_costs_too_much_no_kernel_has_a_weight() -> None:
    """With w = 0 both classes cost the same: C times their number."""
    K, y = dense(0).K, dense(0).y
    for C, tol in [(1e-4, 1e-6), (1e-4, 1e-3), (1e-12, 1e-6)]:
        found = block_norm_machine(K, y, C=C, tol=tol)
        assert found.support_kernels.size == 0 and not found.eta.any()
        assert found.primal == pytest.approx(30.0 * C, rel=1e-9) and found.gap <= tol


def test_a_gap_out_of_reach_is_said() -> None:
    with pytest.warns(ConvergenceWarning, match="the duality gap reached is .*, not tol=1e-17"):
        block_norm_machine(dense(0).K, dense(0).y, tol=1e-17)


def test_learned_C_is_refused() -> None:
    with pytest.raises(ValueError, match="C must be a number, or one per row, found 'learn'"):
        block_norm_machine(dense(0).K, dense(0).y, C="learn", loss="squared_hinge")
