"""The dual QP and its primal: weak duality, the best bias and scale, repair of points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from _helpers.references import MACHINES, SOFT, gram, hinge_machine, labels, separable
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.problems.losses import hinge, squared_hinge

SEEDS = st.integers(0, 2**32 - 1)
often = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def some_kernel(rng: np.random.Generator, n: int) -> np.ndarray:
    return gram(rng.standard_normal((n, int(rng.integers(1, n + 1)))) * 10.0 ** rng.uniform(-1, 1))


def some_function(rng: np.random.Generator, K: np.ndarray) -> tuple[np.ndarray, float]:
    """f = Kw and ‖f‖² = wᵀKw for a random w."""
    w = rng.standard_normal(len(K)) * 10.0 ** rng.uniform(-2, 1)
    return K @ w, float(w @ K @ w)


def largest_gain(qp: DualQP, h: np.ndarray) -> np.ndarray:
    """ℓ(h) = max hu − ½ρu² over the box, one row at a time, from first principles."""
    out = np.empty_like(h)
    for k, (low, high) in enumerate(zip(qp.lower, qp.upper, strict=True)):
        if qp.ridge > 0.0:  # a parabola: its vertex, or the end nearest to it
            u = min(max(h[k] / qp.ridge, low), high)
            out[k] = h[k] * u - 0.5 * qp.ridge * u * u
        else:  # linear: one of the ends, and 0·∞ is nothing gained
            out[k] = 0.0 if h[k] == 0.0 else max(h[k] * low, h[k] * high)
    return out


# --- the primal is what the papers write --------------------------------------------------------


def hinge_by_hand(f: np.ndarray, y: np.ndarray, b: float) -> np.ndarray:
    return np.maximum(0.0, 1.0 - y * (f + b))


TEXTBOOK: dict[str, Callable[[DualQP, np.ndarray, float], float]] = {
    "hinge": lambda qp, f, b: (qp.upper - qp.lower) @ hinge_by_hand(f, qp.linear, b),
    "per_sample": lambda qp, f, b: (qp.upper - qp.lower) @ hinge_by_hand(f, qp.linear, b),
    "squared_hinge": lambda qp, f, b: 0.5 / qp.ridge * (hinge_by_hand(f, qp.linear, b) ** 2).sum(),
    "epsilon_insensitive": lambda qp, f, b: (
        qp.upper[0] * np.maximum(0.0, np.abs(qp.linear[: qp.n] + 0.1 - f - b) - 0.1).sum()
    ),
    "squared_loss": lambda qp, f, b: 0.5 / qp.ridge * ((qp.linear - f - b) ** 2).sum(),
    "one_class": lambda qp, f, b: qp.upper[0] * np.maximum(0.0, -b - f).sum() + b,
}


@pytest.mark.parametrize("name", sorted(TEXTBOOK))
def test_primal_value_is_the_textbook_loss(name: str) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 15))
        qp = MACHINES[name](rng, n)
        f, quad = some_function(rng, some_kernel(rng, n))
        b = float(rng.standard_normal())
        expected = 0.5 * quad + TEXTBOOK[name](qp, f, b)
        assert qp.primal_value(f, b, quad) == pytest.approx(expected, rel=1e-12)


def test_box_and_ridge_round_the_hinge_off() -> None:
    """ℓ(h) is 0, h²/(2ρ) up to h = ρC, then linear with slope C."""
    qp = hinge(np.array([1.0, -1.0]), C=3.0, ridge=0.5)
    for h, loss in [(-1.0, 0.0), (0.4, 0.4**2), (1.5, 1.5**2), (2.0, 3.0 * 2.0 - 0.25 * 9.0)]:
        f = np.array([1.0 - h, -1.0])  # the second row has slack 0
        assert qp.primal_value(f, 0.0, 0.0) == pytest.approx(loss, abs=1e-15)


def test_hard_margin_is_infinite_when_violated() -> None:
    qp = hinge(np.array([1.0, -1.0]), C=np.inf)
    assert qp.primal_value(np.array([1.0, -1.0]), 0.0, 4.0) == 2.0
    assert qp.primal_value(np.array([2.0, -1.5]), 0.3, 4.0) == 2.0
    assert qp.primal_value(np.array([0.9, -1.0]), 0.0, 4.0) == np.inf


# --- weak duality -------------------------------------------------------------------------------


@often
@given(SEEDS, st.sampled_from(sorted(MACHINES)), st.integers(2, 12))
def test_weak_duality(seed: int, name: str, n: int) -> None:
    """For every f and b and every feasible v, P(f, b) ≥ D(v)."""
    rng = np.random.default_rng(seed)
    qp = MACHINES[name](rng, n)
    K = some_kernel(rng, n)
    v = qp.feasible(rng.standard_normal(qp.linear.size) * 10.0 ** rng.uniform(-2, 2))
    coef = v.reshape(-1, n).sum(axis=0)
    by_hand = qp.linear @ v - 0.5 * qp.ridge * (v @ v) - 0.5 * (coef @ K @ coef)
    dual = qp.dual_value(v, float(coef @ K @ coef))
    assert dual == pytest.approx(by_hand, rel=1e-12, abs=1e-12)
    f, quad = some_function(rng, K)
    size = abs(dual) + np.abs(qp.linear * v).sum() + coef @ K @ coef
    for b in (*rng.standard_normal(3), qp.best_bias(f)):
        primal = qp.primal_value(f, float(b), quad)
        slack = qp.linear - np.tile(f, qp.linear.size // n) - b
        independent = 0.5 * quad + largest_gain(qp, slack).sum() + qp.total * b
        assert primal == pytest.approx(independent, rel=1e-10, abs=1e-12)
        assert primal >= dual - 1e-12 * size
        if np.isfinite(primal):
            assert relative_gap(primal, dual) >= 0.0


@often
@given(SEEDS, st.integers(4, 20))
def test_weak_duality_of_a_separating_function(seed: int, n: int) -> None:
    problem = separable(seed, n=n)
    rng = np.random.default_rng(seed)
    qp = hinge(problem.y, np.inf)
    K = problem.K[0]
    w = np.linalg.lstsq(K, problem.y, rcond=None)[0]
    f, quad = K @ w, float(w @ K @ w)
    _, _, primal = qp.improve(f, quad)
    v = qp.feasible(problem.y * rng.random(n))
    v *= (qp.linear @ v) / (v @ K @ v)  # the best multiple
    assert primal >= qp.dual_value(v, float(v @ K @ v)) * (1 - 1e-10)


# --- the bias -----------------------------------------------------------------------------------


def least_by_scan(qp: DualQP, f: np.ndarray) -> float:
    """min_b P(f, b) with ‖f‖ = 0: all breakpoints, a dense scan, then a bounded minimizer."""
    slack = qp.linear - np.tile(f, qp.linear.size // qp.n)
    ends = [slack]
    if qp.ridge > 0.0:
        ends += [slack - qp.ridge * qp.lower, slack - qp.ridge * qp.upper]
    corners = np.concatenate(ends)
    corners = np.sort(corners[np.isfinite(corners)])
    low, high = corners[0] - 1.0, corners[-1] + 1.0
    trials = np.concatenate([corners, np.linspace(low, high, 400)])
    values = [qp.primal_value(f, float(b), 0.0) for b in trials]
    near = trials[int(np.argmin(values))]
    step = (high - low) / 200
    found = minimize_scalar(
        lambda b: qp.primal_value(f, float(b), 0.0),
        bounds=(near - step, near + step),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return min(*values, float(found.fun))


@often
@given(SEEDS, st.sampled_from(SOFT), st.integers(2, 12), st.booleans())
def test_best_bias_minimizes(seed: int, name: str, n: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    qp = MACHINES[name](rng, n)
    f = rng.standard_normal(n) * 10.0 ** rng.uniform(-2, 2)
    if ties:
        f = np.round(f)
    b = qp.best_bias(f)
    assert np.isfinite(b)
    found, least = qp.primal_value(f, b, 0.0), least_by_scan(qp, f)
    assert found <= least + 1e-9 * max(1.0, abs(least))


@often
@given(SEEDS, st.integers(2, 12), st.sampled_from([0.0, 0.3]), st.floats(-0.9, 0.9))
def test_best_bias_with_a_right_hand_side(seed: int, n: int, ridge: float, share: float) -> None:
    """Σv = r with r anywhere between the sums of the bounds."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    C = 10.0 ** rng.uniform(-1, 1, n)
    base = hinge(y, C, ridge=ridge)
    total = share * float(base.upper.sum() if share > 0 else -base.lower.sum())
    qp = DualQP(base.linear, base.lower, base.upper, n, ridge=ridge, total=total)
    f = rng.standard_normal(n)
    found, least = qp.primal_value(f, qp.best_bias(f), 0.0), least_by_scan(qp, f)
    assert found <= least + 1e-9 * max(1.0, abs(least))


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("name", ["hinge", "box_and_ridge", "squared_hinge"])
def test_best_bias_at_any_scale_of_f(name: str, scale: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        qp = MACHINES[name](rng, 9)
        f = scale * rng.standard_normal(9)
        found, least = qp.primal_value(f, qp.best_bias(f), 0.0), least_by_scan(qp, f)
        assert found <= least + 1e-9 * max(1.0, abs(least))


@pytest.mark.parametrize("C", [1e-15, 1e-9, 1e9])
def test_best_bias_at_any_scale_of_C(C: float) -> None:
    """One row of three lies on the smaller side: the bias is that of the two others."""
    qp = hinge(np.array([1.0, -1.0, -1.0]), C)
    f = np.zeros(3)
    assert qp.primal_value(f, qp.best_bias(f), 0.0) == pytest.approx(2.0 * C, abs=0.0)


def test_best_bias_is_the_middle_of_an_interval() -> None:
    qp = hinge(np.array([1.0, -1.0, 1.0, -1.0]), C=2.0)
    assert qp.best_bias(np.zeros(4)) == 0.0  # flat on [−1, 1]
    assert qp.best_bias(np.full(4, 5.0)) == -5.0
    hard = hinge(np.array([1.0, -1.0]), C=np.inf)
    assert hard.best_bias(np.array([4.0, -2.0])) == -1.0  # feasible on [−3, 1]


def test_best_bias_of_squared_loss_is_the_mean_residual() -> None:
    rng = np.random.default_rng(0)
    qp = MACHINES["squared_loss"](rng, 11)
    f = rng.standard_normal(11)
    assert qp.best_bias(f) == pytest.approx(float(np.mean(qp.linear - f)), rel=1e-12)


# --- scale --------------------------------------------------------------------------------------


@often
@given(SEEDS, st.sampled_from(SOFT), st.integers(2, 12))
def test_improve_never_raises_the_primal(seed: int, name: str, n: int) -> None:
    rng = np.random.default_rng(seed)
    qp = MACHINES[name](rng, n)
    f, quad = some_function(rng, some_kernel(rng, n))
    scale, bias, value = qp.improve(f, quad)
    before = qp.primal_value(f, qp.best_bias(f), quad)
    assert value <= before
    assert value == pytest.approx(qp.primal_value(scale * f, bias, scale**2 * quad), rel=1e-12)
    for t in (0.25, 0.5, 0.9, 1.1, 1.5, 1.9):
        other = qp.primal_value(t * f, qp.best_bias(t * f), t * t * quad)
        assert value <= other + 1e-7 * max(1.0, abs(other))


@often
@given(SEEDS, st.integers(4, 30), st.floats(-8, 8))
def test_improve_makes_a_hard_margin_feasible(seed: int, n: int, exponent: float) -> None:
    """Whatever the scale of a separating f, the slacks of the improved one are exactly met."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    qp = hinge(y, np.inf)
    f = 10.0**exponent * (y * (0.01 + rng.random(n)) + 3.0 * rng.standard_normal())
    scale, bias, value = qp.improve(f, quad=1.0)
    assert value == pytest.approx(0.5 * scale**2, rel=1e-12)
    assert (y * (scale * f + bias) >= 1.0).all()
    assert qp.primal_value(scale * f, bias, scale**2) == pytest.approx(value, rel=1e-12)
    margin = f[y > 0].min() - f[y < 0].max()
    assert scale == pytest.approx(2.0 / margin, rel=1e-6)


def test_improve_is_infinite_where_f_does_not_separate() -> None:
    qp = hinge(np.array([1.0, -1.0, 1.0]), np.inf)
    assert qp.improve(np.array([1.0, 0.5, 0.5]), 1.0)[2] == np.inf
    assert qp.improve(np.zeros(3), 0.0)[2] == np.inf


# --- repair -------------------------------------------------------------------------------------


@often
@given(SEEDS, st.sampled_from(sorted(MACHINES)), st.integers(2, 20), st.floats(-3, 3))
def test_feasible_points_near_the_input(seed: int, name: str, n: int, exponent: float) -> None:
    rng = np.random.default_rng(seed)
    qp = MACHINES[name](rng, n)
    v = 10.0**exponent * rng.standard_normal(qp.linear.size)
    w = qp.feasible(v)
    assert (w >= qp.lower).all() and (w <= qp.upper).all()
    assert abs(w.sum() - qp.total) <= 1e-13 * max(1.0, np.abs(w).sum())
    clipped = np.clip(v, qp.lower, qp.upper)
    missing = abs(qp.total - clipped.sum())
    assert np.abs(w - clipped).sum() <= missing + 1e-10 * max(1.0, np.abs(clipped).sum())


@often
@given(SEEDS, st.sampled_from(sorted(MACHINES)), st.integers(2, 20))
def test_feasible_points_stay(seed: int, name: str, n: int) -> None:
    rng = np.random.default_rng(seed)
    qp = MACHINES[name](rng, n)
    v = qp.feasible(rng.standard_normal(qp.linear.size))
    again = qp.feasible(v)
    assert np.abs(again - v).max() <= 1e-13 * max(1.0, np.abs(v).max())


def test_feasible_without_an_input() -> None:
    rng = np.random.default_rng(0)
    for name, make in sorted(MACHINES.items()):
        qp = make(rng, 10)
        v = qp.feasible()
        assert (v >= qp.lower).all() and (v <= qp.upper).all(), name
        assert abs(v.sum() - qp.total) <= 1e-14, name
        if qp.total == 0.0:
            assert not v.any(), name


def test_feasible_leaves_its_input_alone() -> None:
    qp = hinge_machine(np.random.default_rng(0), 8)
    v = np.linspace(-5.0, 5.0, 8)
    v.flags.writeable = False
    before = v.copy()
    qp.feasible(v)
    assert (v == before).all()


# --- lowering -----------------------------------------------------------------------------------


def test_is_hard() -> None:
    y = np.array([1.0, -1.0])
    assert hinge(y, np.inf).is_hard
    assert hinge(y, np.array([1.0, np.inf])).is_hard
    assert not hinge(y, 5.0).is_hard
    assert not squared_hinge(y, 5.0).is_hard
    assert squared_hinge(y, np.inf).is_hard
    assert not hinge(y, np.inf, ridge=0.1).is_hard


def test_relative_gap() -> None:
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(-2.0, -3.0) == pytest.approx(1 / 3)
    assert relative_gap(2e-30, 1e-30) == 0.5  # in any units
    assert 0.0 < relative_gap(1.0, 1.0 + 1e-15) < 1e-14  # rounding, by its size
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(np.inf, 1.0) == np.inf
    assert relative_gap(np.nan, 1.0) == np.inf


def test_rounding_of_the_sum_leaves_variables_on_their_bounds():
    qp = hinge(np.repeat([1.0, -1.0], 4), 1.0)
    v = np.array([1.0, 1.0, 0.3, 0.0, -1.0, -1.0, -0.3 + 2e-16, 0.0])
    found = qp.feasible(v)
    assert found.sum() == 0.0
    assert np.array_equal(found[[0, 1, 3, 4, 5, 7]], v[[0, 1, 3, 4, 5, 7]])


def test_a_gap_over_zero_is_above_one():
    """Of bounds on both sides of 0 nothing relative is known, however small one of them is."""
    assert relative_gap(1e-28, -4e-9) > 1.0
    assert relative_gap(1.0, -1.0) == 2.0
    assert relative_gap(1.0, 0.0) == 1.0 and relative_gap(0.0, -1.0) == 1.0


@pytest.mark.parametrize("dual", [np.nan, -np.inf, np.inf])
def test_a_bound_that_is_not_finite_proves_nothing(dual: float) -> None:
    assert relative_gap(1.0, dual) == relative_gap(dual, 1.0) == np.inf
