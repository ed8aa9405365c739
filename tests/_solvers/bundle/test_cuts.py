"""The bundle: aggregated dual points, and optimality where J has kinks."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from _helpers.opened import opened, problem_of
from _helpers.references import (
    Problem,
    awkward,
    coarse,
    far_scaled,
    qcqp_optimum,
    rank_one,
    with_zero,
)

from kernelweave._solvers.bundle.cuts import Cuts, Descent, descend, inner_tol
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.problems.losses import hinge, squared_hinge
from kernelweave.problems.weight_sets import Simplex
from kernelweave.stacks.dense import KernelStack

Pair = tuple[Evaluator, Incumbent]


def pair_for(problem: Problem, loss: str = "hinge") -> Pair:
    lower = {"hinge": hinge, "squared_hinge": squared_hinge}[loss]
    return opened(problem_of(problem.K, lower(problem.y, problem.C)))


def by_hand(problem: Problem, v: np.ndarray, ridge: float = 0.0) -> float:
    """yᵀv − ½ρ‖v‖² − ½ max_m vᵀK_m v."""
    q = np.array([v @ K @ v for K in problem.K])
    return float(problem.y @ v - 0.5 * ridge * (v @ v) - 0.5 * q.max())


def weights_to_try(m: int) -> list[np.ndarray]:
    rng = np.random.default_rng(m)
    return [np.full(m, 1.0 / m), *np.eye(m)[:3], *rng.dirichlet(np.ones(m), 4)]


def bundle(problem: Problem, loss: str = "hinge") -> Cuts:
    """A bundle from a few solves at arbitrary weights."""
    evaluator, incumbent = pair_for(problem, loss)
    cuts = Cuts(1e-6, evaluator=evaluator, incumbent=incumbent)
    for e in weights_to_try(len(problem.K)):
        point = evaluator.solve(e, 1e-6)
        cuts.keep(point.v, point.linear, point.q)
    return cuts


# --- cuts and aggregates ------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("make", [rank_one, far_scaled, with_zero])
def test_cuts_lie_below_J(make, loss: str) -> None:
    problem = make(0)
    cuts = bundle(problem, loss)
    for e in np.random.default_rng(5).dirichlet(np.ones(len(problem.K)), 5):
        above = pair_for(problem, loss)[0].solve(e, 1e-9)
        assert cuts.model(e) <= above.primal * (1 + 1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("make", [rank_one, far_scaled, with_zero])
def test_the_aggregate_is_feasible_and_beats_its_linear_bound(make, loss: str) -> None:
    problem = make(1)
    cuts = bundle(problem, loss)
    qp, rng = cuts.evaluator.problem.qp, np.random.default_rng(0)
    best = qcqp_optimum(problem.K, problem.y, problem.C, loss)
    for multipliers in (*rng.dirichlet(np.ones(len(cuts.v)), 20), np.eye(len(cuts.v))[2]):
        v = multipliers @ np.array(cuts.v)
        assert (v >= qp.lower - 1e-15 * problem.C).all()  # Σλ = 1 up to rounding
        assert (v <= qp.upper + 1e-15 * problem.C).all()
        assert abs(v.sum()) <= 1e-12 * np.abs(v).sum()
        linear_bound = multipliers @ cuts.linear - 0.5 * (multipliers @ np.array(cuts.q)).max()
        value = by_hand(problem, v, qp.ridge)
        assert value >= linear_bound - 1e-9 * abs(linear_bound)
        assert value <= best * (1 + 1e-6)


def test_the_incumbent_keeps_the_best_bound() -> None:
    problem = rank_one(2, C=1.0)
    cuts = bundle(problem)
    incumbent = cuts.incumbent
    before = incumbent.bound.value
    assert before == pytest.approx(max(by_hand(problem, v) for v in cuts.v), rel=1e-12)
    cuts.bound()
    assert incumbent.bound.value > before  # no single solution is as good as a combination here
    assert incumbent.bound.by == "mixture"
    exact = cuts.evaluator.bound(incumbent.bound.v)
    assert exact.value == pytest.approx(by_hand(problem, incumbent.bound.v), rel=1e-12)
    assert exact.value >= incumbent.bound.value * (1 - 1e-12)


def test_a_bound_found_while_kernels_are_left_aside_holds_for_all() -> None:
    problem = rank_one(2, C=1.0)
    cuts = bundle(problem)
    cuts.tol = 1.0  # any bound above 0 closes the gap, if no kernel left aside has a larger q
    cuts.incumbent.bound = cuts.evaluator.first_bound()
    cuts.among = np.arange(len(problem.K) - 1)
    cuts.bound()
    bound = cuts.incumbent.bound
    assert bound.by == "mixture" and bound.exact
    assert bound.value == pytest.approx(by_hand(problem, bound.v), rel=1e-12)


def test_solutions_beyond_all_numbers_are_not_kept() -> None:
    cuts = bundle(coarse(0))
    count, v = len(cuts.linear), cuts.v[-1]
    cuts.keep(np.full_like(v, np.nan), 1.0, cuts.q[-1])
    cuts.keep(v, np.inf, cuts.q[-1])
    assert len(cuts.linear) == len(cuts.q) == len(cuts.v) == count


def test_thinning_keeps_the_useful_half() -> None:
    cuts = bundle(rank_one(0))
    qp = cuts.evaluator.problem.qp
    cuts.size = 8
    multipliers = np.array([0.5, 0.0, 0.0, 0.2, 0.0, 0.0, 0.2, 0.1])
    kept = [cuts.v[k] for k in (0, 3, 6, 7)]
    cuts.thin(multipliers)
    assert len(cuts.v) == len(cuts.q) == len(cuts.linear) == 6
    for v in kept:
        assert any(v is other for other in cuts.v)
    for linear, v in zip(cuts.linear, cuts.v, strict=True):
        assert linear == pytest.approx(float(qp.linear @ v), rel=1e-12)


def test_q_is_the_gradient() -> None:
    """∂J/∂e_m = −½ q_m by finite differences, on a smooth problem."""
    problem = awkward()[0]
    stack = KernelStack(problem.K)
    weight_set = Simplex(np.linspace(0.5, 2.0, stack.m))
    qp = squared_hinge(problem.y, 1.0)
    evaluator, _ = opened(problem_of(stack, qp, weight_set=weight_set))
    e = np.random.default_rng(0).dirichlet(np.ones(stack.m))
    point = evaluator.solve(e, 1e-12)
    step = 1e-5
    for m in range(stack.m):
        ahead, behind = e.copy(), e.copy()
        ahead[m] += step
        behind[m] -= step
        up, down = (evaluator.solve(x, 1e-12).value for x in (ahead, behind))
        slope = (up - down) / (2 * step)
        assert slope == pytest.approx(-0.5 * point.q[m], rel=1e-5)


def test_inner_tol_follows_the_gap() -> None:
    assert inner_tol(np.inf, 1e-3) == inner_tol(1.0, 1e-3) == 1e-2
    assert inner_tol(1e-2, 1e-4) == pytest.approx(5e-4)
    assert inner_tol(1e-9, 1e-4) == pytest.approx(1e-5)


# --- where single solutions stall ---------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_single_solutions_stall_and_the_bundle_does_not(seed: int) -> None:
    """J has a kink at the best weights, and the SVM's solution there is one of many."""
    problem = coarse(seed)
    best = qcqp_optimum(problem.K, problem.y, problem.C)
    evaluator, incumbent = pair_for(problem)
    cuts = Cuts(1e-6, evaluator=evaluator, incumbent=incumbent)
    first = evaluator.solve(evaluator.weight_set.uniform(), 1e-6)
    cuts.keep(first.v, first.linear, first.q)
    solves = 0
    for _ in islice(descend(cuts), 300):
        solves += 1
        if incumbent.gap <= 1e-6:
            break
    assert incumbent.gap <= 1e-6
    assert solves < 200
    assert incumbent.best.primal == pytest.approx(best, rel=2e-6)
    assert by_hand(problem, incumbent.bound.v) == pytest.approx(best, rel=2e-6)
    # the SVM at these very weights, solved a thousand times as tightly, does not certify them
    alone = pair_for(problem)[0].solve(incumbent.best.e, 1e-9)
    assert alone.primal == pytest.approx(best, rel=2e-6)
    assert (alone.primal - by_hand(problem, alone.v)) / alone.primal > 1e-6


@pytest.mark.parametrize("problem", awkward(), ids=repr)
def test_the_bundle_alone_reaches_1e_4(problem: Problem) -> None:
    evaluator, incumbent = pair_for(problem)
    cuts = Cuts(1e-4, evaluator=evaluator, incumbent=incumbent)
    first = evaluator.solve(evaluator.weight_set.uniform(), 1e-4)
    cuts.keep(first.v, first.linear, first.q)
    for _ in islice(descend(cuts), 500):
        if incumbent.gap <= 1e-4:
            break
    assert incumbent.gap <= 1e-4
    proven = by_hand(problem, incumbent.bound.v)
    assert incumbent.best.primal - proven <= 1e-4 * incumbent.best.primal


def test_null_steps_shorten_no_further_than_rounding():
    """Some hundred of them once made the proximal term infinite."""
    state = Descent(center=None, damping=0.1)
    for _ in range(600):
        state.reject(None, 1.0, 1.0)
    assert 1e15 < state.damping < 1e16
