"""The QCQP of lanckriet2004: its equations as printed, its duals, its two forms, its adapter."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import (
    MACHINES,
    TIGHT,
    Problem,
    coarse,
    dense,
    duplicate,
    far_scaled,
    gaussian,
    gram,
    labels,
    points,
    qp_optimum,
    rank_one,
    separable,
    wide,
    with_zero,
)
from scipy import sparse

from kernelweave import learn
from kernelweave._solvers.svm import smo
from kernelweave.papers.lanckriet2004 import _clarabel as conic
from kernelweave.papers.lanckriet2004._clarabel import ConeProgram, solve_cone_program
from kernelweave.papers.lanckriet2004._programs import FORMS, in_units
from kernelweave.papers.lanckriet2004.qcqp import Qcqp
from kernelweave.problems.losses import hinge
from kernelweave.stacks.cholesky import factor

CRITERIA: dict[str, dict[str, Any]] = {
    "hard margin": {"C": np.inf},
    "1-norm": {"C": 2.0},
    "2-norm": {"C": 2.0, "loss": "squared_hinge"},
    "2-norm, C learned": {"C": "learn", "loss": "squared_hinge"},
}


def printed(
    quadratics: list[Any], alpha: Any, t: Any, y: np.ndarray, c: float, criterion: str
) -> tuple[float, list[float]]:
    """max 2αᵀe − τ αᵀα − ct with t ≥ each of ``quadratics``; ω and the constraints' multipliers."""
    tau = 0.5 if criterion == "2-norm" else 0.0
    limits = [quadratic <= t for quadratic in quadratics]
    if criterion == "2-norm, C learned":
        limits.append(cp.sum_squares(alpha) / y.size <= t)
    feasible = [alpha @ y == 0, alpha >= 0]
    feasible += [alpha <= 2.0] if criterion == "1-norm" else []
    value = 2 * cp.sum(alpha) - tau * cp.sum_squares(alpha) - c * t
    problem = cp.Problem(cp.Maximize(value), limits + feasible)
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    return float(problem.value), [float(np.sum(limit.dual_value)) for limit in limits]


def found(K: np.ndarray, y: np.ndarray, c: float, criterion: str, **knobs: Any) -> Any:
    return learn(K, y, learner=Qcqp(**knobs), trace=c, tol=1e-7, **CRITERIA[criterion])


# --- the equations ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_positive_combinations(criterion: str, form: str) -> None:
    """(33), (38), (43), (47) with trace(K) = c; the multipliers as printed, over r_i, are μ."""
    problem = separable(1, n=20, m=3)
    K, y, c = problem.K * np.array([1.0, 4.0, 0.2])[:, None, None], problem.y, 30.0
    traces = np.trace(K, axis1=1, axis2=2)
    alpha, t = cp.Variable(20), cp.Variable()
    roots = [np.linalg.cholesky(k + 1e-12 * np.trace(k) * np.eye(20)) for k in K]
    quadratics = [
        cp.sum_squares((y[:, None] * L).T @ alpha) / r for L, r in zip(roots, traces, strict=True)
    ]
    omega, duals = printed(quadratics, alpha, t, y, c, criterion)
    solution = found(K, y, c, criterion, form=form)
    assert solution.gap <= 1e-7
    assert 2.0 * solution.objective == pytest.approx(omega, rel=2e-6)
    sizes = [*traces, 20.0] if "learned" in criterion else traces
    mu = np.array(duals) / sizes
    assert mu @ sizes == pytest.approx(c, rel=1e-6)
    learned = [*solution.weights, 1.0 / solution.C] if "learned" in criterion else solution.weights
    assert np.dot(learned, sizes) == pytest.approx(c, rel=1e-9)
    # ω at the weights that the paper's multipliers are, by a machine that knows nothing of cones
    ridge = {"2-norm": 0.5, "2-norm, C learned": mu[-1]}.get(criterion, 0.0)
    combined = np.tensordot(mu[:3], K, 1) + ridge * np.eye(20)
    bound = 2.0 if criterion == "1-norm" else np.inf
    alone = qp_optimum(combined, hinge(y, bound))
    assert 2.0 * alone == pytest.approx(omega, rel=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_eigenvectors_of_a_kernel(
    criterion: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(32), (37), (42), (46): kernels of rank one make linear constraints, not cones."""
    rng = np.random.default_rng(3)
    y = labels(rng, 16)
    _, V = np.linalg.eigh(gaussian(points(rng, 16, 3, y), 1.5))
    kernels = np.stack([np.outer(v, v) for v in V.T])
    alpha, t, c = cp.Variable(16), cp.Variable(), 5.0
    omega, _ = printed([cp.square((y * v) @ alpha) for v in V.T], alpha, t, y, c, criterion)
    kinds: list[str] = []
    solve = conic.solve_cone_program

    def watched(P: Any, q: Any, A: Any, b: Any, cones: Any, *rest: Any) -> Any:
        kinds.extend(kind for kind, _ in cones)
        return solve(P, q, A, b, cones, *rest)

    monkeypatch.setattr(conic, "solve_cone_program", watched)
    solution = found(kernels, y, c, criterion, form=form, batch=17)
    assert 2.0 * solution.objective == pytest.approx(omega, rel=2e-6)
    assert kinds.count("second order") == ("learned" in criterion)


def test_rows_without_labels() -> None:
    """(27) with r_i the traces on all rows, G(K_i,tr) on those with labels."""
    problem, c = dense(7, n=18, m=3), 11.0
    rows = np.arange(18) % 3 > 0
    y = problem.y[rows]
    traces = np.trace(problem.K, axis1=1, axis2=2)
    alpha, t = cp.Variable(y.size), cp.Variable()
    quadratics = [
        cp.sum_squares((y[:, None] * factor(K[np.ix_(rows, rows)], 1e-13)).T @ alpha) / r
        for K, r in zip(problem.K, traces, strict=True)
    ]
    omega, _ = printed(quadratics, alpha, t, y, c, "1-norm")
    solution = found(problem.K, np.where(rows, problem.y, 0.0), c, "1-norm")
    assert 2.0 * solution.objective == pytest.approx(omega, rel=2e-6)
    assert solution.weights @ traces == pytest.approx(c, rel=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_agrees_with_newton(criterion: str) -> None:
    problem = separable(5)
    one = found(problem.K, problem.y, 7.0, criterion)
    other = learn(problem.K, problem.y, trace=7.0, tol=1e-7, **CRITERIA[criterion])
    assert one.dual <= other.primal * (1 + 1e-12) and other.dual <= one.primal * (1 + 1e-12)


# --- the programs -------------------------------------------------------------------------------


def solved(form: str, factors: list[np.ndarray], qp: Any) -> tuple[np.ndarray, np.ndarray]:
    program, read = FORMS[form](factors, qp)
    answer = program.solve(1e-9)
    assert answer.found
    return read(answer)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("machine", MACHINES)
def test_forms_of_every_machine(machine: str, form: str) -> None:
    """One kernel, of any dual QP: v is feasible and has the optimal value."""
    rng = np.random.default_rng(11)
    for width in (0.7, 2.0):
        qp = MACHINES[machine](rng, 18)
        K = gaussian(rng.standard_normal((18, 3)), width)
        e, v = solved(form, [factor(K, 1e-13)], qp)
        assert e == pytest.approx([1.0])
        assert v == pytest.approx(qp.feasible(v), abs=1e-5 * (1.0 + np.abs(v).max()))
        v = qp.feasible(v)
        best = qp_optimum(K, qp)
        assert qp.dual_value(v, qp.fold(v) @ K @ qp.fold(v)) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("problem", [dense(4), rank_one(4), coarse(4), wide(4)], ids=repr)
def test_weights_from_the_duals(problem: Problem, form: str) -> None:
    """Complementary: only kernels with the largest vᵀKv have weight, and J there is the value."""
    qp = hinge(problem.y, 1.0)
    e, v = solved(form, [factor(K, 1e-12) for K in problem.K], qp)
    v = qp.feasible(v)
    q = np.array([v @ K @ v for K in problem.K])
    assert e.min() >= 0.0 and e.sum() == pytest.approx(1.0)
    assert e @ (q.max() - q) <= 1e-6 * q.max()
    value = qp.dual_value(v, q.max())
    assert qp_optimum(np.tensordot(e, problem.K, 1), qp) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_units_change_nothing_but_the_scale(form: str) -> None:
    problem = dense(2, n=15)
    qp, factors = hinge(problem.y, 3.0), [factor(K, 1e-12) for K in problem.K]
    e, v = solved(form, factors, qp)
    for unit in (0.05, 4.0):
        scaled, w = solved(form, *in_units(factors, qp, unit))
        assert scaled == pytest.approx(e, abs=1e-5)
        assert qp.dual_linear(unit * w) == pytest.approx(qp.dual_linear(v), rel=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kernels", "costs"), [(1e-8, 1.0), (1e8, 1e-8), (1.0, 1e-8), (1e-8, 1e8)])
def test_scales(kernels: float, costs: float, form: str) -> None:
    """The conic solver, not the cuts after it, gets there whatever the units of K and C are."""
    for problem in (far_scaled(3), dense(3, C=5.0), with_zero(3), duplicate(3)):
        K, C = kernels * problem.K, costs * problem.C
        solution = learn(K, problem.y, C=C, learner=Qcqp(form), tol=1e-6)
        assert solution.gap <= 1e-6
        assert solution.n_iter <= 2


@pytest.mark.parametrize("form", FORMS)
def test_kernels_enter_in_batches(form: str) -> None:
    problem = wide(3, n=30, m=40)
    best = learn(problem.K, problem.y, learner=Qcqp(form, batch=40), tol=1e-6)
    assert best.n_iter == 2
    few = learn(problem.K, problem.y, learner=Qcqp(form, batch=3), tol=1e-6)
    assert 2 < few.n_iter <= 15
    assert few.dual <= best.primal * (1 + 1e-12) and best.dual <= few.primal * (1 + 1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_hard_margin_that_the_first_kernels_do_not_have(form: str) -> None:
    problem = separable(3)
    noise = np.random.default_rng(0).standard_normal((3, 24, 1))
    K = np.concatenate([1e3 * np.stack([gram(X) for X in noise]), problem.K[:1]])
    alone = learn(problem.K[:1], problem.y, C=np.inf, tol=1e-6)
    solution = learn(K, problem.y, C=np.inf, learner=Qcqp(form, batch=1), tol=1e-6)
    assert solution.gap <= 1e-6 and solution.objective <= alone.objective * (1 + 1e-6)


def test_no_weights_are_left_over_from_the_interior() -> None:
    problem = wide(5, n=20, m=30)
    solution = learn(problem.K, problem.y, learner="qcqp", tol=1e-4)
    newton = learn(problem.K, problem.y, learner="newton", tol=1e-8)
    assert set(np.flatnonzero(solution.weights)) <= set(np.flatnonzero(newton.weights))


def test_cuts_finish_what_the_conic_solver_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def rough(*args: Any) -> Any:
        return solve(*args[:5], 1e-2)

    solve = conic.solve_cone_program
    monkeypatch.setattr(conic, "solve_cone_program", rough)
    problem = dense(0)
    solution = learn(problem.K, problem.y, learner="qcqp", tol=1e-6)
    assert solution.status == "optimal" and solution.n_iter > 2


# --- what it refuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "options", "message"),
    [
        (Qcqp(), {"weight_norm": 2}, r"Qcqp\(\) needs weight_norm=1, found 2"),
        (Qcqp(form="primal"), {}, r"form must be one of \['group', 'machine'\], found 'primal'"),
        (Qcqp(batch=0), {}, "batch must be positive, found 0"),
    ],
)
def test_refused_before_any_work(
    learner: Any, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smo, "solve", lambda *_: pytest.fail("solved something"))
    with pytest.raises(ValueError, match=message):
        learn(dense(0).K, dense(0).y, learner=learner, **options)


def test_without_clarabel_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smo, "solve", lambda *_: pytest.fail("solved something"))
    monkeypatch.setitem(__import__("sys").modules, "clarabel", None)
    with pytest.raises(ImportError, match=r"need clarabel, the extra 'conic': pip install"):
        learn(dense(0).K, dense(0).y, learner="qcqp")


# --- the adapter --------------------------------------------------------------------------------


def test_cone_program_and_its_dual() -> None:
    """Px + q + Aᵀz = 0, z in the dual cones, complementary: one program with all three cones."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((5, 5))
    P, q = root @ root.T, rng.standard_normal(5)
    A = rng.standard_normal((7, 5))
    b = np.array([0.3, 1.0, 2.0, 3.0, 0.1, 0.2, 0.3])
    cones = [("zero", 1), ("nonnegative", 2), ("second order", 4)]
    found = solve_cone_program(sparse.csc_matrix(P), q, sparse.csc_matrix(A), b, cones, 1e-10)
    assert found.found and found.status == "Solved" and found.iterations > 0
    slack = b - A @ found.x
    assert P @ found.x + q + A.T @ found.z == pytest.approx(np.zeros(5), abs=1e-7)
    assert abs(slack[0]) <= 1e-8 and slack[1:3].min() >= -1e-8 and found.z[1:3].min() >= -1e-8
    for s in (slack[3:], found.z[3:]):
        assert s[0] >= np.linalg.norm(s[1:]) - 1e-7
    assert slack @ found.z == pytest.approx(0.0, abs=1e-7)


def test_program_written_in_blocks() -> None:
    """min x₀ + ½y²  with  x₀ ≥ ‖(y − 3, 4)‖, y ≥ 0.1: y solves y = (3 − y)/‖(y − 3, 4)‖."""
    program = ConeProgram()
    x, y = program.variables(1, cost=1.0), program.variables(1, bend=1.0)
    rows = program.constrain(
        "second order", [0.0, -3.0, 4.0], (x, [[1.0], [0.0], [0.0]]), (y, [[0.0], [1.0], [0.0]])
    )
    bound = program.constrain("nonnegative", -0.1, (y, [[1.0]]))
    found = program.solve(1e-10)
    value = float(found.x[y][0])
    assert value == pytest.approx((3.0 - value) / np.hypot(value - 3.0, 4.0), abs=1e-5)
    assert found.x[x] == pytest.approx(np.hypot(value - 3.0, 4.0), abs=1e-5)
    assert found.z[rows] == pytest.approx([1.0, value, -4.0 / np.hypot(value - 3.0, 4.0)], abs=1e-5)
    assert found.z[bound] == pytest.approx([0.0], abs=1e-5)


def test_no_solution_is_not_found() -> None:
    program = ConeProgram()
    x = program.variables(1, cost=1.0)
    program.constrain("nonnegative", [-1.0, 0.5], (x, [[1.0], [-1.0]]))
    assert not program.solve().found
    program = ConeProgram()
    x = program.variables(1, cost=1.0)
    program.constrain("nonnegative", 1.0, (x, [[-1.0]]))
    assert not program.solve().found


# --- factors ------------------------------------------------------------------------------------


def test_factor() -> None:
    rng = np.random.default_rng(0)
    for rank in (1, 4, 30):
        X = rng.standard_normal((30, rank)) * 10.0 ** rng.uniform(-2, 2, rank)
        F = factor(gram(X), 1e-9 * np.abs(X).max() ** 2)
        assert F.shape == (30, rank)
        assert F @ F.T == pytest.approx(gram(X), abs=1e-12 * np.abs(X).max() ** 2)
    assert factor(np.zeros((5, 5)), 0.0).shape == (5, 0)


def test_factor_leaves_out_what_it_may() -> None:
    K = gaussian(np.random.default_rng(1).standard_normal((60, 2)), 2.0)
    ranks = []
    for drop in (1e-2, 1e-5, 1e-9):
        F = factor(K, drop)
        rest = K - F @ F.T
        assert np.diagonal(rest).max() <= drop * (1 + 1e-6) + 1e-14
        assert np.linalg.eigvalsh(rest)[0] >= -1e-12
        ranks.append(F.shape[1])
    assert ranks == sorted(set(ranks)) and ranks[-1] < 60
