"""SMO on the regularized dual: the optimum, the search along a line, the points held in play."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import (
    MACHINES,
    SOFT,
    Problem,
    dense,
    duplicate,
    factor,
    far_scaled,
    gaussian,
    labels,
    points,
    qp_optimum,
    rank_one,
    separable,
    solve,
    with_zero,
)
from scipy.optimize import minimize_scalar

from kernelweave import KernelStack
from kernelweave._solvers.svm import smo
from kernelweave.papers.bach2004 import _pairs as skm_pairs
from kernelweave.papers.bach2004 import _smo as skm_smo
from kernelweave.papers.bach2004._moreau_yosida import regularize
from kernelweave.papers.bach2004._pairs import Line, Target
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import hinge
from kernelweave.stacks.identity import WithIdentity


def target(a: np.ndarray, d: np.ndarray) -> Target:
    """All kernels, regularized by a and d."""
    return Target(np.arange(a.size), a, d)


def scales(K: np.ndarray, size: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """a and d of about the kernels' own scale, different for each."""
    rng = np.random.default_rng(seed)
    d = np.sqrt(np.maximum(np.trace(K, axis1=1, axis2=2), 1e-3) / K.shape[1])
    return size * d * rng.uniform(0.7, 1.4, len(K)), d * rng.uniform(0.7, 1.4, len(K))


def optimum(K: np.ndarray, qp: DualQP, a: np.ndarray, d: np.ndarray) -> float:
    """min G by a conic solver, as appendix B states it."""
    v, gamma, mu = cp.Variable(qp.linear.size), cp.Variable(nonneg=True), cp.Variable(len(K))
    rows = sum(v[k : k + qp.n] for k in range(0, qp.linear.size, qp.n))
    limits = [cp.sum(v) == qp.total]
    for bound, sign in ((qp.upper, 1.0), (qp.lower, -1.0)):
        at = np.flatnonzero(np.isfinite(bound))
        if at.size:
            limits.append(sign * v[at] <= sign * bound[at])
    limits += [cp.norm(factor(matrix).T @ rows) <= mu[k] for k, matrix in enumerate(K)]
    value = 0.5 * cp.square(gamma) + 0.5 * cp.sum_squares(cp.multiply(1 / a, mu - gamma * d))
    value += 0.5 * qp.ridge * cp.sum_squares(v) - qp.linear @ v
    return solve(cp.Problem(cp.Minimize(value), limits))


def run(K: Any, qp: DualQP, a: np.ndarray, d: np.ndarray, **options: Any) -> skm_smo.SkmInner:
    stack = K if hasattr(K, "block") else KernelStack(K)
    rows = skm_smo.KernelRows(stack, options.pop("limit", 1 << 26))
    options = {"gap_tol": 1e-8, **options}
    return skm_smo.solve(rows, Target(np.arange(stack.m), a, d), qp, **options)


def value(qp: DualQP, found: skm_smo.SkmInner) -> float:
    return found.parts.value - qp.dual_linear(found.v)


def check(K: np.ndarray, qp: DualQP, a: np.ndarray, d: np.ndarray, found: skm_smo.SkmInner) -> None:
    """Feasible, consistent, and as low as a conic solver gets."""
    assert (found.v >= qp.lower).all() and (found.v <= qp.upper).all()
    assert found.v.sum() == pytest.approx(qp.total, abs=1e-9 * max(1.0, np.abs(found.v).sum()))
    coef = qp.fold(found.v)
    assert found.products == pytest.approx(np.einsum("kij,j->ki", K, coef), rel=1e-9, abs=1e-9)
    assert found.q == pytest.approx(np.einsum("i,kij,j->k", coef, K, coef), rel=1e-9, abs=1e-12)
    best = optimum(K, qp, a, d)
    assert abs(value(qp, found) - best) <= 1e-6 * max(1.0, abs(best)) + found.gap * abs(best)


@pytest.mark.parametrize("size", [1.0, 0.1, 0.01])
@pytest.mark.parametrize(
    "problem",
    [dense(0), rank_one(0), duplicate(0), with_zero(0), dense(2, n=41, m=3, C=100.0)],
    ids=repr,
)
def test_optimum(problem: Problem, size: float) -> None:
    qp, (a, d) = hinge(problem.y, problem.C), scales(problem.K, size)
    found = run(problem.K, qp, a, d)
    assert found.gap <= 1e-8
    check(problem.K, qp, a, d, found)


def test_kernels_of_other_scales() -> None:
    problem = far_scaled(0)
    qp, (a, d) = hinge(problem.y, 1.0), scales(problem.K, 0.1)
    found = run(problem.K, qp, a, d)
    check(problem.K, qp, a, d, found)


@pytest.mark.parametrize("kind", SOFT)
def test_every_machine(kind: str) -> None:
    """Box, ridge, both, two variables a row, no bounds, Σv = 1."""
    rng = np.random.default_rng(1)
    K = dense(4, n=22, m=4).K
    qp, (a, d) = MACHINES[kind](rng, 22), scales(K, 0.2)
    found = run(K, qp, a, d)
    assert found.gap <= 1e-8
    check(K, qp, a, d, found)


def test_hard_margin() -> None:
    problem = separable(0)
    qp, (a, d) = hinge(problem.y, np.inf), scales(problem.K, 0.1)
    check(problem.K, qp, a, d, run(problem.K, qp, a, d))


def test_hard_margin_without_separation_is_unbounded() -> None:
    rng = np.random.default_rng(0)
    y = labels(rng, 40)
    K = np.stack([np.outer(x, x) for x in rng.standard_normal((2, 40))])
    found = run(K, hinge(y, np.inf), *scales(K, 0.1))
    assert not found.bounded


def test_no_d_is_the_svm_on_the_sum() -> None:
    """κ = 1: Σ K_j/a_j² and nothing else."""
    problem = dense(5, C=3.0)
    a, qp = np.linspace(0.7, 1.5, 5), hinge(problem.y, 3.0)
    found = run(problem.K, qp, a, np.zeros(5))
    total = np.tensordot(1 / a**2, problem.K, 1)
    assert -value(qp, found) == pytest.approx(qp_optimum(total, qp), rel=1e-6)
    plain = smo.solve(total, qp, tol=1e-10)
    assert found.parts.eta @ found.products == pytest.approx(plain.f, abs=1e-3)


@pytest.mark.parametrize("kappa", [0.5, 0.1])
def test_parameters_of_the_paper_in_other_units(kappa: float) -> None:
    """a = κ, d = 1 − κ at cost C is a = κ/(1 − κ), d = 1 at cost C/(1 − κ)²: v and G scale."""
    problem, unit = dense(6), np.ones(5)
    shrink = (1.0 - kappa) ** 2
    papers, ours = hinge(problem.y, 2.0), hinge(problem.y, 2.0 / shrink)
    one = run(problem.K, papers, kappa * unit, (1.0 - kappa) * unit, gap_tol=1e-11)
    other = run(problem.K, ours, kappa / (1.0 - kappa) * unit, unit, gap_tol=1e-11)
    assert value(papers, one) == pytest.approx(shrink * value(ours, other), rel=1e-9)
    assert one.q == pytest.approx(shrink**2 * other.q, rel=1e-4)
    assert one.parts.eta_tilde * shrink == pytest.approx(other.parts.eta_tilde, rel=1e-3, abs=1e-3)


def test_some_kernels_of_a_stack() -> None:
    problem = dense(7, m=6)
    kernels = np.array([1, 2, 5])
    qp, (a, d) = hinge(problem.y, 1.0), scales(problem.K, 0.1)
    rows = skm_smo.KernelRows(KernelStack(problem.K))
    found = skm_smo.solve(rows, Target(kernels, a[kernels], d[kernels]), qp, gap_tol=1e-8)
    check(problem.K[kernels], qp, a[kernels], d[kernels], found)


def test_identity_as_a_kernel() -> None:
    problem = dense(8, n=20, m=3)
    K = np.concatenate([problem.K, np.eye(20)[None]])
    qp, (a, d) = hinge(problem.y, np.inf), scales(K, 0.1)
    found = run(WithIdentity(KernelStack(problem.K)), qp, a, d)
    check(K, qp, a, d, found)


def test_start_near_the_optimum_costs_little() -> None:
    problem = dense(0)
    qp, (a, d) = hinge(problem.y, 1.0), scales(problem.K, 0.1)
    cold = run(problem.K, qp, a, d)
    assert run(problem.K, qp, a, d, start=cold.v).steps == 0
    near = run(problem.K, qp, 0.9 * a, d, start=cold.v)
    assert near.steps < run(problem.K, qp, 0.9 * a, d).steps


def test_it_ends_where_steps_crawl() -> None:
    """Little regularization at a huge C: neither pairs nor Newton steps get anywhere."""
    problem = rank_one(200, C=1e6)
    found = run(problem.K, hinge(problem.y, 1e6), np.full(6, 4.56e-3), np.ones(6), gap_tol=5e-6)
    assert found.gap > 5e-6 and found.steps < 30_000


def test_kkt_tolerance_stops_by_opt_6() -> None:
    problem = dense(2, n=41, m=3)
    qp, (a, d) = hinge(problem.y, 1.0), scales(problem.K, 0.1)
    found = run(problem.K, qp, a, d, gap_tol=0.0, kkt_tol=1e-3)
    gradient = qp.linear - found.parts.eta @ found.products
    top, bottom = gradient[found.v < qp.upper].max(), gradient[found.v > qp.lower].min()
    assert found.violation == pytest.approx(top - bottom, rel=1e-9)
    assert found.violation <= 1e-3


# --- points in play -----------------------------------------------------------------------------


def many(n: int = 300) -> Problem:
    """Points enough that some leave play."""
    rng = np.random.default_rng(3)
    y = labels(rng, n)
    X = points(rng, n, 6, y)
    X[:, 0] += 1.5 * y
    return Problem("many", np.stack([gaussian(X[:, k:], 2.2) for k in (0, 2, 4)]), y, 1.0)


@pytest.mark.parametrize("room", [2, 40, 150, 300])
def test_any_number_of_points_held_gives_the_same(room: int) -> None:
    problem = many()
    qp, (a, d) = hinge(problem.y, 1.0), scales(problem.K, 0.1)
    tol = 1e-3 if room == 2 else 1e-7
    found = run(problem.K, qp, a, d, limit=3 * room**2, gap_tol=tol)
    whole = run(problem.K, qp, a, d)
    assert found.gap <= tol
    assert value(qp, found) == pytest.approx(value(qp, whole), rel=2 * tol)


def test_points_that_cannot_matter_are_left_out() -> None:
    problem = many(700)
    rows = skm_smo.KernelRows(KernelStack(problem.K))
    qp, (a, d) = hinge(problem.y, 1.0), scales(problem.K, 0.1)
    found = skm_smo.solve(rows, Target(np.arange(3), a, d), qp, gap_tol=1e-6)
    found = skm_smo.solve(rows, Target(np.arange(3), 0.5 * a, d), qp, found.v, gap_tol=1e-6)
    free = np.flatnonzero((found.v > qp.lower) & (found.v < qp.upper))
    assert np.isin(free, rows.points).all() and rows.points.size < 350


def test_rows_are_fetched_once() -> None:
    """A second solve with the same points in play asks the stack for no row."""

    class Counting(KernelStack):
        fetched = 0

        def block(self, kernel: int, rows: Any, columns: Any) -> Any:
            Counting.fetched += len(rows)
            return super().block(kernel, rows, columns)

    problem = many()
    rows = skm_smo.KernelRows(Counting(problem.K))
    qp, (a, d) = hinge(problem.y, 1.0), scales(problem.K, 0.1)
    first = skm_smo.solve(rows, Target(np.arange(3), a, d), qp, gap_tol=1e-6)
    before = Counting.fetched
    assert before > 0
    skm_smo.solve(rows, Target(np.arange(3), 0.97 * a, d), qp, first.v, gap_tol=1e-6)
    assert Counting.fetched == before
    expected = problem.K[:, rows.points][:, :, rows.points]
    assert (rows.block == expected).all()


# --- along a line -------------------------------------------------------------------------------


def line(seed: int, m: int = 5) -> tuple[np.ndarray, ...]:
    """(v + xu)ᵀK_j(v + xu) of random kernels, and parameters."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((m, 4, 8))
    v, u = rng.standard_normal((2, 8))
    Fv, Fu = F @ v, F @ u
    q, slopes, bends = (Fv**2).sum(axis=1), (Fv * Fu).sum(axis=1), (Fu**2).sum(axis=1)
    return q, slopes, bends, 10.0 ** rng.uniform(-2, 0, m), rng.uniform(0.5, 2.0, m)


both = pytest.mark.parametrize("search", [skm_pairs.search, skm_pairs.brent])


@both
@pytest.mark.parametrize("seed", range(10))
def test_search_finds_the_minimum_along_a_line(seed: int, search: Any) -> None:
    q, slopes, bends, a, d = line(seed)
    rise, ridge = 2.0 * np.abs(slopes).max() / a.min() ** 2, 0.3

    def along(x: float) -> float:
        sizes = np.sqrt(np.maximum(q + x * (2.0 * slopes + x * bends), 0.0))
        return regularize(sizes, a, d).value - rise * x + 0.5 * ridge * x * x

    best = minimize_scalar(along, bounds=(0.0, 1e4), method="bounded", options={"xatol": 1e-9})
    for room in (np.inf, 0.5 * best.x):
        sizes = np.empty(q.size)
        x, gamma = search(Line(q, slopes, bends, rise, ridge, room), target(a, d), 0.0, sizes)
        least = along(min(best.x, room))
        assert along(x) <= least + 0.01 * (along(0.0) - least)
        assert x <= room
        assert gamma == pytest.approx(regularize(sizes, a, d).gamma, rel=1e-12)


@both
def test_search_stays_where_no_descent_is(search: Any) -> None:
    q, slopes, bends, a, d = line(0)
    x, _ = search(Line(q, np.abs(slopes), bends, 0.0, 0.0, 1.0), target(a, d), 1.0, np.empty(5))
    assert x == 0.0


@both
def test_search_says_when_there_is_no_minimum(search: Any) -> None:
    q, _, _, a, d = line(0)
    flat = np.zeros(5)
    x, _ = search(Line(q, flat, flat, 1.0, 0.0, np.inf), target(a, d), 1.0, np.empty(5))
    assert x == np.inf
    x, _ = search(Line(q, flat, flat, 1.0, 0.0, 0.25), target(a, d), 1.0, np.empty(5))
    assert x == 0.25


@pytest.mark.parametrize("guess", [0.0, 0.1, 1.0, 100.0])
def test_level_from_any_guess(guess: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sizes, a = 10.0 ** rng.uniform(-2, 2, 9), 10.0 ** rng.uniform(-3, 1, 9)
        sizes[:3] = sizes[0]
        d = rng.uniform(0.2, 3.0, 9)
        expected = regularize(sizes, a, d).gamma
        assert skm_pairs.level(sizes, target(a, d), guess) == pytest.approx(expected, rel=1e-12)
