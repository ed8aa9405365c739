"""One SMO for every machine: right, certified, warm, interruptible, compiled once."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from _helpers.references import (
    MACHINES,
    enclosing_ball,
    far_scaled,
    gaussian,
    gram,
    labels,
    points,
    qp_optimum,
    rank_one,
    separable,
)

from kernelweave import learn
from kernelweave._core.jit import jit
from kernelweave._solvers.svm import chunks, smo
from kernelweave._solvers.svm import pairs as smo_pairs
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.problems.losses import hinge, squared_hinge
from kernelweave.problems.value_losses import EpsilonInsensitive
from kernelweave.stacks.dense import KernelStack


def bounds(K: np.ndarray, qp: DualQP, inner: smo.Inner) -> tuple[float, float]:
    """Primal and dual value of what the solver returned, from K and v alone."""
    v = inner.v
    assert (v >= qp.lower).all() and (v <= qp.upper).all()
    assert abs(v.sum() - qp.total) <= 1e-12 * max(1.0, np.abs(v).sum())
    coef = v.reshape(-1, qp.n).sum(axis=0)
    f = K @ coef
    quad = max(float(coef @ f), 0.0)
    dual = float(qp.linear @ v - 0.5 * qp.ridge * (v @ v) - 0.5 * quad)
    if qp.is_hard:
        return qp.improve(f, quad)[2], dual
    return qp.primal_value(f, qp.best_bias(f), quad), dual


def certified(K: np.ndarray, qp: DualQP, tol: float, **options: Any) -> tuple[float, float]:
    inner = smo.solve(K, qp, tol=tol, **options)
    assert inner.bounded
    primal, dual = bounds(K, qp, inner)
    assert relative_gap(primal, dual) <= tol
    return primal, dual


def kernel(seed: int, n: int) -> np.ndarray:
    return gaussian(np.random.default_rng(seed).standard_normal((n, 3)), 1.0)


def machine(name: str, K: np.ndarray, seed: int) -> DualQP:
    return (
        enclosing_ball(K) if name == "ball" else MACHINES[name](np.random.default_rng(seed), len(K))
    )


# --- against a conic solver ---------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MACHINES, "ball"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_optimum(name: str, seed: int) -> None:
    K = kernel(seed, 15 + 10 * seed)
    qp = machine(name, K, seed)
    best = qp_optimum(K, qp)
    primal, dual = certified(K, qp, 1e-7)
    assert primal >= best - 1e-6 * abs(best)
    assert dual <= best + 1e-6 * abs(best)
    assert abs(primal - best) <= 2e-6 * abs(best)


def test_optimum_with_an_exact_answer() -> None:
    """Two points x = ±a: the hard margin has ‖w‖ = 1/a; the smallest ball has radius a."""
    a = 3.0
    K = gram(np.array([[a], [-a]]))
    primal, dual = certified(K, hinge(np.array([1.0, -1.0]), np.inf), 1e-10)
    assert primal == pytest.approx(0.5 / a**2, rel=1e-9)
    primal, dual = certified(K, enclosing_ball(K), 1e-10)
    assert 2.0 * dual == pytest.approx(a**2, rel=1e-9)


def test_squared_loss_is_ridge_regression() -> None:
    """With ρ = 1/C and no bounds the optimum solves one linear system."""
    rng = np.random.default_rng(3)
    n = 20
    K = kernel(3, n)
    qp = MACHINES["squared_loss"](rng, n)
    system = np.block([[K + qp.ridge * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), 0.0]])
    v = np.linalg.solve(system, np.append(qp.linear, 0.0))[:n]
    expected = qp.linear @ v - 0.5 * v @ (K + qp.ridge * np.eye(n)) @ v
    primal, dual = certified(K, qp, 1e-10)
    assert dual == pytest.approx(expected, rel=1e-9)
    assert primal == pytest.approx(expected, rel=1e-9)


def test_enclosing_ball_holds_every_point() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    K = gram(X)
    inner = smo.solve(K, enclosing_ball(K), tol=1e-8)
    center = inner.v @ X
    distances = ((X - center) ** 2).sum(axis=1)
    squared_radius = 2.0 * bounds(K, enclosing_ball(K), inner)[1]
    assert distances.max() == pytest.approx(squared_radius, rel=1e-4)


# --- always certified ---------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("name", [*MACHINES, "ball"])
def test_gap_is_at_most_tol(name: str, tol: float) -> None:
    K = kernel(7, 60)
    certified(K, machine(name, K, 7), tol)


@pytest.mark.parametrize("C", [1e-4, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("loss", [hinge, squared_hinge])
def test_any_cost(loss: Any, C: float) -> None:
    rng = np.random.default_rng(1)
    y = labels(rng, 60)
    K = gaussian(points(rng, 60, 4, y), 2.0)
    certified(K, loss(y, C), 1e-6)


@pytest.mark.parametrize("C", [1.0, 1e3, 1e6])
def test_rank_deficient(C: float) -> None:
    for seed in range(3):
        problem = rank_one(seed, n=40, m=3)
        for K in (problem.K[0], problem.K.mean(axis=0)):
            certified(K, hinge(problem.y, C), 1e-6)
            certified(K, squared_hinge(problem.y, C), 1e-6)


@pytest.mark.parametrize("C", [1.0, 1e3])
def test_duplicate_rows_of_either_label(C: float) -> None:
    """Every point four times, the last copy with the other label: curvature zero everywhere."""
    rng = np.random.default_rng(5)
    y = labels(rng, 12)
    X = points(rng, 12, 3, y)
    X, y = np.tile(X, (4, 1)), np.concatenate([y, y, y, -y])
    K = gaussian(X, 1.0)
    qp = hinge(y, C)
    primal, _ = certified(K, qp, 1e-6)
    best = qp_optimum(K, qp)
    assert abs(primal - best) <= 1e-5 * best


def test_zero_kernel() -> None:
    """Only the bias is left: 2·C·(size of the smaller class)."""
    y = labels(np.random.default_rng(0), 15, positive=4)
    primal, dual = certified(np.zeros((15, 15)), hinge(y, 2.0), 1e-9)
    assert primal == pytest.approx(16.0, rel=1e-12)
    assert dual == pytest.approx(16.0, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "hard_margin", "epsilon_insensitive"])
def test_scale_of_the_kernel(name: str, scale: float) -> None:
    """Scaling K by s and the box by 1/s scales the optimum by 1/s."""
    K = kernel(2, 30)
    qp = machine(name, K, 2)
    size = 1.0 if name == "epsilon_insensitive" else 1.0 / scale
    scaled = replace(qp, lower=qp.lower * size, upper=qp.upper * size, ridge=qp.ridge * scale)
    primal, dual = certified(scale * K, scaled, 1e-6)
    if name != "epsilon_insensitive":
        one, other = certified(K, qp, 1e-6)
        assert other / scale <= primal * (1 + 1e-9)
        assert dual <= one / scale * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
def test_scale_of_the_kernel_at_one_cost(scale: float) -> None:
    """From all variables at C = 1 to a hard margin in all but name."""
    rng = np.random.default_rng(6)
    y = labels(rng, 40)
    K = scale * gaussian(points(rng, 40, 3, y), 1.0)
    for qp in (hinge(y, 1.0), squared_hinge(y, 1.0)):
        certified(K, qp, 1e-4)


def test_far_scaled_sum() -> None:
    for seed in range(3):
        problem = far_scaled(seed)
        certified(problem.K.mean(axis=0), hinge(problem.y, 1.0), 1e-6)


def test_per_sample_bounds_are_kept() -> None:
    rng = np.random.default_rng(4)
    y = labels(rng, 30)
    C = np.where(np.arange(30) % 3 == 0, 1e-3, 10.0)
    K = gram(rng.standard_normal((30, 2)))
    inner = smo.solve(K, hinge(y, C), tol=1e-6)
    alpha = y * inner.v
    assert alpha.min() >= 0.0
    assert (alpha <= C).all()
    assert (alpha == C).any()  # some bound is active, so it was there to be kept


# --- hard margin --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_infeasible_hard_margin_is_said_quickly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 100
    y = labels(rng, n)
    K = gram(rng.standard_normal((n, 3)))  # labels are noise: three features cannot separate
    inner = smo.solve(K, hinge(y, np.inf), tol=1e-4)
    assert not inner.bounded
    assert inner.steps < 100 * n


def test_contradicting_labels_are_infeasible() -> None:
    y = np.array([1.0, -1.0, 1.0, -1.0])
    K = gram(np.array([[1.0], [1.0], [2.0], [3.0]]))
    assert not smo.solve(K, hinge(y, np.inf), tol=1e-4).bounded


@pytest.mark.parametrize("seed", range(4))
def test_separable_hard_margin_is_solved(seed: int) -> None:
    problem = separable(seed, n=60)
    for K in problem.K:
        certified(K, hinge(problem.y, np.inf), 1e-6)


@pytest.mark.parametrize("margin", [1.0, 1e-2, 1e-4])
def test_narrow_but_separable(margin: float) -> None:
    """A margin far below the radius of the data, with an exact answer: ½(2/margin)²."""
    x = np.concatenate([np.linspace(margin / 2, 1.0, 15), np.linspace(-1.0, -margin / 2, 15)])
    qp = hinge(np.sign(x), np.inf)
    primal, _ = certified(gram(x[:, None]), qp, 1e-6)
    assert primal == pytest.approx(0.5 * (2.0 / margin) ** 2, rel=2e-6)


# --- warm starts and shrinking ------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MACHINES, "ball"])
def test_restart_from_the_optimum_does_nothing(name: str) -> None:
    K = kernel(9, 80)
    qp = machine(name, K, 9)
    first = smo.solve(K, qp, tol=1e-8)
    again = smo.solve(K, qp, start=first.v, tol=1e-6)
    assert first.steps > 20
    assert again.steps <= 2
    primal, dual = bounds(K, qp, again)
    assert relative_gap(primal, dual) <= 1e-6


def test_warm_start_saves_steps() -> None:
    rng = np.random.default_rng(0)
    y = labels(rng, 200)
    X = points(rng, 200, 5, y)
    K, near = gaussian(X, 2.0), gaussian(X, 2.02)
    qp = hinge(y, 10.0)
    cold = smo.solve(near, qp, tol=1e-3)
    warm = smo.solve(near, qp, start=smo.solve(K, qp, tol=1e-3).v, tol=1e-3)
    assert warm.steps < 0.5 * cold.steps
    assert relative_gap(*bounds(near, qp, warm)) <= 1e-3


def test_start_out_of_bounds_is_repaired() -> None:
    K = kernel(1, 30)
    qp = machine("hinge", K, 1)
    start = np.full(30, 1e9)
    inner = smo.solve(K, qp, start=start, tol=1e-6)
    assert relative_gap(*bounds(K, qp, inner)) <= 1e-6
    assert (start == 1e9).all()


def mostly_idle(name: str, n: int) -> tuple[np.ndarray, DualQP]:
    """Problems in which most rows end at a bound."""
    rng = np.random.default_rng(11)
    y = labels(rng, n)
    X = points(rng, n, 4, 2.0 * y)
    qp = {
        "hinge": hinge(y, 100.0),
        "per_sample": hinge(y, 10.0 ** rng.uniform(1, 4, n)),
        "squared_hinge": squared_hinge(y, 1e3),
        "epsilon_insensitive": MACHINES["epsilon_insensitive"](rng, n),
    }[name]
    if name == "epsilon_insensitive":
        target = np.sin(X[:, 0])
        qp = replace(qp, linear=np.concatenate([target - 0.1, target + 0.1]))
    return gaussian(X, 1.5), qp


@pytest.mark.parametrize("name", ["hinge", "per_sample", "squared_hinge", "epsilon_insensitive"])
def test_shrinking_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without shrinking: the same optimum; and shrinking did happen."""
    n = 400
    K, qp = mostly_idle(name, n)
    tol = 1e-8
    shrunk = []
    within = smo.Ascent.ascend_rows

    def spy(self: Any, n: int, state: Any, rows: np.ndarray, *args: Any) -> Any:
        shrunk.append(rows.size)
        return within(self, n, state, rows, *args)

    monkeypatch.setattr(smo.Ascent, "ascend_rows", spy)
    primal, dual = certified(K, qp, tol)
    assert shrunk and min(shrunk) < n
    monkeypatch.setattr(smo, "rows_in_play", lambda n, *args: np.arange(n))
    before = len(shrunk)
    whole_primal, whole_dual = certified(K, qp, tol)
    assert len(shrunk) == before
    assert abs(primal - whole_primal) <= tol * abs(primal)
    assert abs(dual - whole_dual) <= tol * abs(dual)


def test_same_input_same_bits() -> None:
    K = kernel(0, 120)
    qp = machine("hinge", K, 0)
    first, second = smo.solve(K, qp, tol=1e-6), smo.solve(K, qp, tol=1e-6)
    assert first.steps == second.steps
    assert (first.v == second.v).all() and (first.f == second.f).all()


def test_f_is_the_product() -> None:
    K = kernel(0, 50)
    for name in MACHINES:
        qp = machine(name, K, 0)
        inner = smo.solve(K, qp, tol=1e-3)
        assert inner.f == pytest.approx(K @ qp.fold(inner.v), rel=1e-12, abs=1e-12)


# --- engineering --------------------------------------------------------------------------------


def test_inputs_share_one_compiled_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = jit(smo_pairs.iterate.py_func)  # one that no other test has called
    monkeypatch.setattr(smo, "iterate", fresh)
    rng = np.random.default_rng(0)
    n = 20
    y = labels(rng, n)
    K = np.stack([gaussian(points(rng, n, 3, y), width) for width in (1.0, 2.0)])
    frozen = K.copy()
    frozen.flags.writeable = False
    roomy = np.zeros((2, 2 * n, 2 * n))
    roomy[:, ::2, ::2] = K
    forms = [K, frozen, np.asfortranarray(K), roomy[:, ::2, ::2], K[::-1][::-1], list(K)]
    results = []
    for form in forms:
        stack = KernelStack(form)
        for weights in ([0.5, 0.5], [1.0, 0.0]):  # a sum, and a kernel handed out as it is
            for qp in (hinge(y, 1.0), hinge(y, np.inf), squared_hinge(y, 2.0)):
                results.append(smo.solve(stack.combine(weights), qp, tol=1e-4).v)
    assert len(fresh.signatures) == 1
    for k, v in enumerate(results):
        assert (v == results[k % 6]).all()


class Enough(Exception):
    pass


def slow_problem(n: int) -> tuple[np.ndarray, DualQP]:
    """Overlapping classes at a large C: minutes of pair steps at a tiny tolerance."""
    rng = np.random.default_rng(0)
    y = labels(rng, n)
    return gaussian(points(rng, n, 4, 0.1 * y), 3.0), hinge(y, 1e5)


@pytest.mark.slow
def test_returns_to_python_often() -> None:
    K, qp = slow_problem(2000)
    smo.solve(K[:50, :50].copy(), DualQP(qp.linear[:50], qp.lower[:50], qp.upper[:50], 50))
    times = [time.thread_time()]  # that of other processes does not count

    def tick() -> None:
        times.append(time.thread_time())
        if times[-1] - times[0] > 1.0:
            raise Enough

    try:
        smo.solve(K, qp, tol=1e-14, tick=tick)
    except Enough:
        pass
    assert len(times) > 10
    assert np.diff(times).max() < 0.5


@pytest.mark.parametrize("after", [1, 3])
def test_interrupt_from_a_tick(after: int) -> None:
    K, qp = slow_problem(300)
    ticks = []

    def tick() -> None:
        ticks.append(None)
        if len(ticks) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        smo.solve(K, qp, tol=1e-12, tick=tick)
    assert len(ticks) == after
    certified(K, replace(qp, lower=qp.lower * 1e-5, upper=qp.upper * 1e-5), 1e-4)


def test_step_limit() -> None:
    K, qp = slow_problem(200)
    inner = smo.solve(K, qp, tol=1e-12, max_steps=500)
    assert 500 <= inner.steps <= 2000
    primal, dual = bounds(K, qp, inner)
    assert primal >= dual


@pytest.mark.parametrize("scale", [1e-27, 1e-3, 1e3, 1e27])
def test_a_start_from_a_kernel_of_another_size(scale):
    """It may be 1e27 times as long as the solution, or as short."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3))
    K, qp = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)), hinge(labels(rng, 20), np.inf)
    start = smo.solve(K * scale, qp, tol=1e-3).v
    cold, warm = smo.solve(K, qp, tol=1e-6), smo.solve(K, qp, start, tol=1e-6)
    assert warm.bounded
    assert warm.v @ qp.linear == pytest.approx(cold.v @ qp.linear, rel=1e-5)


def test_a_start_that_the_kernel_does_not_see():
    """Variables that share a row may cancel, and cost what the loss charges for them."""
    qp = EpsilonInsensitive().lower(np.array([1.0, -1.0, 0.5, 0.2]), 10.0)
    start = np.concatenate([np.full(4, 3.0), np.full(4, -3.0)])
    found = smo.solve(np.eye(4), qp, start, tol=1e-8)
    cold = smo.solve(np.eye(4), qp, tol=1e-8)
    assert qp.dual_value(found.v, found.v @ qp.tile(found.f)) == pytest.approx(
        qp.dual_value(cold.v, cold.v @ qp.tile(cold.f))
    )


@pytest.mark.parametrize("ridge", [0.1, 1.0, 50.0])
def test_an_optimum_below_zero_is_no_growth(ridge: float) -> None:
    """One class with a ridge: the cost of f = 0 is negative, and dual values exceed twice that."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    found = learn((X @ X.T)[None], None, loss="one_class", ridge=ridge, tol=1e-6)
    assert found.status == "optimal" and found.objective < 0.0


@pytest.mark.parametrize(("seed", "C"), [(0, 1e2), (1, 1e7), (2, 1e7), (3, 1e7)])
def test_nothing_grows_along_a_negative_eigenvalue(seed: int, C: float) -> None:
    """Where it exceeds the ridge the dual has no maximum: v went on to 1e153, and f to NaN."""
    rng = np.random.default_rng(seed)
    X, u = rng.standard_normal((30, 3)), rng.standard_normal(30)
    K, qp = 5.0 + X @ X.T - 0.1 * np.outer(u, u) / (u @ u), squared_hinge(labels(rng, 30), C)
    combined = KernelStack(K[None], check=False).combined([1.0])
    for inner in (smo.solve(K, qp, tol=1e-6), chunks.solve(combined, qp, tol=1e-6)):
        primal, dual = bounds(K, qp, inner)
        assert inner.steps <= 20_000 and 0.0 <= dual <= primal < np.inf
