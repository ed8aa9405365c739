"""Several machines that share their kernel weights: one-versus-rest as a sum of dual QPs."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from _helpers.opened import opened, problem_of
from _helpers.references import factor, gaussian, gram, qcqp_optimum, solve, unit_mean_diagonal
from _helpers.small_stacks import Factors, OnDemand, factors_of

from kernelweave import KernelStack
from kernelweave.learners import NAMES, make_learner
from kernelweave.learning import solve as drive
from kernelweave.machines.machine import Machine
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import hinge, squared_hinge
from kernelweave.problems.weight_sets import NormBall

N, CLASSES = 45, 3
SUMMING = ["newton", "simple", "silp", "alternate", "uniform"]
ALONE = ["qcqp", "skm", "radius", "radius_bound"]  # those that know one machine only
LOSSES = {"hinge": hinge, "squared_hinge": squared_hinge}


def points() -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping clouds, fifteen points each."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((N, 4))
    target = np.repeat(np.arange(CLASSES), N // CLASSES)
    X[:, :2] += 1.6 * np.array([[0.0, 0.0], [1.0, 0.3], [0.2, 1.0]])[target]
    return X, target


def kernels(X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
    """Three widths, a linear kernel and one of rank one, all of mean diagonal 1 on X."""
    whole = X if Z is None else np.concatenate([Z, X])
    K = np.stack(
        [*(gaussian(whole, width) for width in (0.7, 1.5, 4.0)), gram(whole), gram(whole[:, :1])]
    )
    new = len(whole) - len(X)
    scale = len(X) / np.trace(K[:, new:, new:], axis1=1, axis2=2)
    return scale[:, None, None] * (K if Z is None else K[:, :new, new:])


X, TARGET = points()
K = kernels(X)
SIDES = [np.where(TARGET == c, 1.0, -1.0) for c in range(CLASSES)]


def machines(loss: str = "hinge", C: float = 1.0) -> list[DualQP]:
    return [LOSSES[loss](y, C) for y in SIDES]


def summed_optimum(loss: str = "hinge", C: float = 1.0, d: np.ndarray | None = None) -> float:
    """min_d Σ_c J_c(d) as max Σ_c 1ᵀα_c − ½ρ‖α_c‖² − ½t, Σ_c ‖F_mᵀ(y_c∘α_c)‖² ≤ t for all m.

    With weights ``d`` given, Σ_c J_c(d) instead.
    """
    matrices = K if d is None else np.tensordot(d, K, 1)[None]
    alphas = [cp.Variable(N, nonneg=True) for _ in SIDES]
    t = cp.Variable(nonneg=True)
    limits = [y @ alpha == 0 for y, alpha in zip(SIDES, alphas, strict=True)]
    value = sum(cp.sum(alpha) for alpha in alphas) - 0.5 * t
    if loss == "hinge":
        limits += [alpha <= C for alpha in alphas]
    else:
        value = value - sum(cp.sum_squares(alpha) for alpha in alphas) / (2.0 * C)
    for matrix in matrices:
        F = factor(matrix)
        parts = [F.T @ cp.multiply(y, alpha) for y, alpha in zip(SIDES, alphas, strict=True)]
        limits.append(cp.sum_squares(cp.hstack(parts)) <= t)
    return solve(cp.Problem(cp.Maximize(value), limits))


def learned(name: Any, *qps: DualQP, tol: float = 1e-6, stack: Any = K, **options: Any) -> Any:
    learner = make_learner(name)
    return drive(problem_of(stack, *qps), learner, tol=tol, **options)


# --- the sum is what is minimized -------------------------------------------------------------


@pytest.mark.parametrize("name", SUMMING)
@pytest.mark.parametrize("loss", LOSSES)
def test_one_versus_rest(name: str, loss: str) -> None:
    qps = machines(loss)
    solution = learned(name, *qps)
    judged = solution.certificate()
    if name != "alternate":  # where J has kinks it gets there, but may not prove it
        assert solution.status == "optimal" and judged.gap <= 1e-6 + 1e-8
    given = solution.weights if name == "uniform" else None
    best = summed_optimum(loss, d=given)
    assert solution.objective == pytest.approx(best, rel=2e-6)
    assert solution.dual <= best * (1 + 1e-7)  # the reference is as exact as that
    assert judged.primal == pytest.approx(solution.primal, rel=1e-9)
    assert judged.dual == pytest.approx(solution.dual, rel=1e-9)
    assert solution.weights.sum() == pytest.approx(1.0) and solution.weights.min() >= 0.0


@pytest.mark.parametrize("name", SUMMING)
def test_what_comes_back(name: str) -> None:
    solution = learned(name, *machines())
    assert solution.coef.shape == (CLASSES, N) and solution.bias.shape == (CLASSES,)
    assert solution.alpha.shape == solution.dual_alpha.shape == (CLASSES, N)
    np.testing.assert_allclose(solution.alpha, solution.coef * np.array(SIDES), atol=1e-15)
    np.testing.assert_allclose(solution.coef.sum(axis=1), 0.0, atol=1e-12)
    Z = np.random.default_rng(8).standard_normal((7, 4))
    cross = kernels(X, Z)
    found = solution.decision_function(cross)
    assert found.shape == (7, CLASSES)
    together = np.tensordot(solution.weights, cross, 1)
    for c in range(CLASSES):
        expected = together @ solution.coef[c] + solution.bias[c]
        np.testing.assert_allclose(found[:, c], expected, rtol=1e-12, atol=1e-12)
    values = solution.decision_function(K)
    assert np.mean(values.argmax(axis=1) == TARGET) > 0.6
    assert "Solution(" in repr(solution)


@pytest.mark.parametrize("name", SUMMING)
def test_bounds_are_true_machine_by_machine(name: str) -> None:
    """Primal and dual from what a user has: coefficients, biases, dual variables."""
    for loss, C in (("hinge", 1.0), ("squared_hinge", 0.5)):
        solution = learned(name, *machines(loss, C), tol=1e-4)
        ridge = 0.0 if loss == "hinge" else 1.0 / C
        primal, linear, q = 0.0, 0.0, np.zeros(len(K))
        Kd = np.tensordot(solution.weights, K, 1)
        for y, coef, bias, alpha in zip(
            SIDES, solution.coef, solution.bias, solution.dual_alpha, strict=True
        ):
            slack = np.maximum(1.0 - y * (Kd @ coef + bias), 0.0)
            primal += 0.5 * coef @ Kd @ coef
            primal += C * slack.sum() if loss == "hinge" else 0.5 * C * (slack**2).sum()
            assert alpha.min() >= 0.0 and abs(y @ alpha) <= 1e-12 * max(alpha.sum(), 1.0)
            if loss == "hinge":
                assert alpha.max() <= C
            linear += alpha.sum() - 0.5 * ridge * alpha @ alpha
            q += K @ (y * alpha) @ (y * alpha)
        most = q @ solution.weights if name == "uniform" else q.max()
        assert solution.primal == pytest.approx(primal, rel=1e-10)
        assert solution.dual == pytest.approx(linear - 0.5 * most, rel=1e-10)
        assert solution.gap <= 1e-4


@pytest.mark.parametrize("name", SUMMING)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_same_machine_twice(name: str, loss: str) -> None:
    """2J, to the last digits that the tolerance leaves."""
    qp = machines(loss)[1]
    once, twice = learned(name, qp, tol=1e-10), learned(name, qp, qp, tol=1e-10)
    assert twice.objective == pytest.approx(2.0 * once.objective, rel=1e-8)
    assert twice.dual == pytest.approx(2.0 * once.dual, rel=1e-8)
    if name != "alternate":  # see above
        assert twice.certificate().gap <= 1e-8 and once.certificate().gap <= 1e-8
    assert twice.coef.shape == (2, N) and once.coef.shape == (N,)
    assert isinstance(once.bias, float)
    if name != "uniform":
        best = qcqp_optimum(K, SIDES[1], 1.0, loss)
        assert once.objective == pytest.approx(best, rel=2e-6)


def test_machines_may_differ_in_everything() -> None:
    """Losses, costs, regression with two variables a row, one class: the sum is one problem."""
    rng = np.random.default_rng(9)
    targets, C = X[:, 0] + 0.1 * rng.standard_normal(N), 2.0
    zero, full = np.zeros(N), np.full(N, C)
    regression = DualQP(
        linear=np.concatenate([targets - 0.1, targets + 0.1]),
        lower=np.concatenate([zero, -full]),
        upper=np.concatenate([full, zero]),
        n=N,
    )
    one_class = DualQP(zero, zero, np.full(N, 1.0 / (0.3 * N)), N, total=1.0)
    costs = rng.uniform(0.5, 2.0, N)
    qps = [hinge(SIDES[0], costs), squared_hinge(SIDES[1], 3.0), regression, one_class]
    found = {name: learned(name, *qps, tol=1e-6) for name in ("newton", "simple", "silp")}
    for solution in found.values():
        assert solution.status == "optimal" and solution.certificate().gap <= 1e-6 + 1e-8
        assert solution.coef.shape == (4, N)
        assert solution.objective == pytest.approx(found["newton"].objective, rel=2e-6)
    best = _optimum_of(qps)
    assert found["newton"].objective == pytest.approx(best, rel=2e-6)


def _optimum_of(qps: list[DualQP]) -> float:
    """The summed problem of any dual QPs, by cvxpy."""
    t, value, limits, folded = cp.Variable(nonneg=True), 0.0, [], []
    for qp in qps:
        v = cp.Variable(qp.size)
        folded.append(sum(v[k : k + N] for k in range(0, qp.size, N)))
        limits.append(cp.sum(v) == qp.total)
        for bound, sign in ((qp.upper, 1.0), (qp.lower, -1.0)):
            at = np.flatnonzero(np.isfinite(bound))
            limits.append(sign * v[at] <= sign * bound[at])
        value = value + qp.linear @ v - 0.5 * qp.ridge * cp.sum_squares(v)
    for matrix in K:
        F = factor(matrix)
        limits.append(cp.sum_squares(cp.hstack([F.T @ v for v in folded])) <= t)
    return solve(cp.Problem(cp.Maximize(value - 0.5 * t), limits))


@pytest.mark.parametrize("name", ["newton", "simple", "silp"])
def test_weights_of_the_sum_are_not_those_of_its_parts(name: str) -> None:
    """Σ_c min_d J_c(d) is less than min_d Σ_c J_c(d): one set of weights has to do for all."""
    apart = sum(learned(name, qp).objective for qp in machines())
    together = learned(name, *machines()).objective
    assert apart < together * (1 - 1e-3)


def test_other_norms() -> None:
    for norm in (2.0, np.inf):
        weight_set = NormBall(np.ones(len(K)), norm)
        problem = problem_of(K, *machines(), weight_set=weight_set)
        found = [
            drive(problem, make_learner(name), tol=1e-6)
            for name in ("newton", "simple", "alternate")
        ]
        for solution in found:
            assert solution.status == "optimal" and solution.certificate().gap <= 1e-6 + 1e-8
            assert solution.objective == pytest.approx(found[0].objective, rel=2e-6)


@pytest.mark.parametrize("name", SUMMING)
def test_a_sum_starts_from_an_earlier_one(name: str) -> None:
    first = learned(name, *machines(), tol=1e-5)
    again = learned(name, *machines(), tol=1e-5, start=first)
    assert again.status == "optimal" and again.gap <= 1e-5
    if name != "uniform":
        assert again.n_iter == 1 and again.n_svm_solves == 0
    other = learned(name, *machines(C=2.0), tol=1e-5, start=first)
    assert other.certificate().gap <= 1e-5 + 1e-8


def test_one_kernel() -> None:
    """Nothing to choose: the sum of the machines' own optima."""
    whole = unit_mean_diagonal(K[1][None])
    solution = learned("newton", *machines(), stack=whole, tol=1e-8)
    alone = [learned("newton", qp, stack=whole, tol=1e-8).objective for qp in machines()]
    assert solution.objective == pytest.approx(sum(alone), rel=2e-8)


# --- every stack ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUMMING)
def test_on_every_stack(name: str) -> None:
    on_demand = OnDemand(X, [0.7, 1.5, 4.0, 1.5], [X[:, 0]])
    array = on_demand.matrices()
    found = [
        learned(name, *machines(), stack=stack, tol=1e-5)
        for stack in (KernelStack(array), on_demand, Factors(factors_of(array)))
    ]
    for solution in found:
        assert solution.status == "optimal" and solution.certificate().gap <= 1e-5 + 1e-8
        assert solution.objective == pytest.approx(found[0].objective, rel=2e-5)


# --- what cannot be summed --------------------------------------------------------------------


@pytest.mark.parametrize("name", ALONE)
def test_a_learner_that_cannot_sum_says_so(name: str) -> None:
    told = rf"{type(make_learner(name)).__name__}\(.*\) learns the weights of one machine, found 3"
    with pytest.raises(ValueError, match=told + ".* 'newton'"):
        learned(name, *machines())


def test_which_learners_sum() -> None:
    sums = {name for name in NAMES if make_learner(name).sums}
    assert {"auto", "alignment", "sdp", *SUMMING} <= sums and not sums & set(ALONE)


def test_a_hard_margin_that_one_machine_does_not_have() -> None:
    """Bounded means that all machines are."""
    qps = [hinge(y, np.inf) for y in SIDES]
    with pytest.raises(ValueError, match="C=inf asks for a hard margin, but"):
        learned("newton", *qps, stack=K[4:])
    # Gaussians separate every class from the rest
    for name in ("newton", "simple", "alternate"):
        solution = learned(name, *qps, stack=K[:3], tol=1e-4)
        assert solution.status == "optimal" and solution.certificate().gap <= 1e-4 + 1e-8


# --- the machine itself -----------------------------------------------------------------------


def test_a_total_is_the_sum_of_its_parts() -> None:
    qps = machines("squared_hinge", 2.0)
    problem = problem_of(K, *qps)
    stack, ones = problem.stack, np.ones(len(K))
    total, parts = Machine.of(problem), [Machine([qp], stack, ones) for qp in qps]
    assert not total.is_hard and Machine([hinge(SIDES[0], np.inf), *qps], stack, ones).is_hard
    rng = np.random.default_rng(0)
    v = total.feasible(rng.standard_normal(CLASSES * N))
    split = np.split(v, CLASSES)
    for qp, own in zip(qps, split, strict=True):
        np.testing.assert_allclose(qp.feasible(own), own, rtol=1e-12)
    d = rng.dirichlet(ones)
    assert total.dual_linear(v) == pytest.approx(
        sum(qp.dual_linear(own) for qp, own in zip(qps, split, strict=True))
    )
    for kernels in (None, np.array([3, 1])):
        forms = [
            stack.quad_forms(qp.fold(own), kernels) for qp, own in zip(qps, split, strict=True)
        ]
        np.testing.assert_allclose(total.quads(v, kernels), np.sum(forms, axis=0))
    points = [m.judge(d, own) for m, own in zip(parts, split, strict=True)]
    point = total.judge(d, v)
    for name in ("linear", "value", "primal", "doubt"):
        expected = sum(getattr(one, name) for one in points)
        assert getattr(point, name) == pytest.approx(expected)
    assert point.is_bounded and np.array_equal(point.v, v) and point.f.shape == (CLASSES, N)
    alpha = total.alpha(v)
    assert alpha.shape == (CLASSES, N)
    np.testing.assert_allclose(total.from_alpha(alpha), v)
    improved = total.improved(point)
    expected = sum(m.improved(a).primal for m, a in zip(parts, points, strict=True))
    assert improved.primal == pytest.approx(expected)
    assert improved.primal <= point.primal
    assert point.fits.shape == (CLASSES, 3)


def test_q_and_hessian_add_up() -> None:
    """∂J/∂d_m = −½q_m and ∂²J = BᵀB, by differences of the sum."""
    qps = machines("squared_hinge", 2.0)
    problem = problem_of(K, *qps)
    evaluator, _ = opened(problem)
    e = np.array([0.1, 0.4, 0.2, 0.2, 0.1])
    point = evaluator.solve(e, 1e-14, exact=True)
    look = evaluator.look(point)
    np.testing.assert_allclose(look.q, point.q, rtol=1e-9)
    B = look.curvature(1e-14)
    hessian, step = B.T @ B, 1e-4
    values, slopes = [], []
    for m in range(len(K)):
        ends = [
            evaluator.solve(e + s * np.eye(len(K))[m], 1e-14, exact=True) for s in (step, -step)
        ]
        values.append((ends[0].value - ends[1].value) / (2 * step))
        slopes.append(-0.5 * (ends[0].q - ends[1].q) / (2 * step))
    np.testing.assert_allclose(values, -0.5 * point.q, rtol=1e-5)
    np.testing.assert_allclose(slopes, hessian, rtol=1e-3, atol=1e-4 * abs(hessian).max())
    some = evaluator.look(point, np.array([1, 3]))
    assert np.isnan(some.q[[0, 2, 4]]).all()
    np.testing.assert_allclose(some.q[[1, 3]], look.q[[1, 3]])


def test_parts_of_a_bound_may_come_from_different_solves() -> None:
    """Σ_c l_c(v_c) − ½ max_m Σ_c q_c bounds the sum for any feasible v_c."""
    problem = problem_of(K, *machines())
    evaluator, _ = opened(problem)
    rng = np.random.default_rng(1)
    best = summed_optimum()
    starts = [evaluator.solve(e, 1e-6).v for e in rng.dirichlet(np.ones(len(K)), size=4)]
    for _ in range(20):
        chosen = rng.integers(4, size=CLASSES)
        v = np.concatenate([np.split(starts[s], CLASSES)[c] for c, s in enumerate(chosen)])
        v = v * rng.uniform(0.0, 1.0)
        assert evaluator.bound(v).value <= best * (1 + 1e-6)
