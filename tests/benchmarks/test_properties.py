"""Promises that hold for every problem, on problems that hypothesis draws.

Two fits of one problem need not find the same weights, so that intervals [dual, primal] are
compared: each holds the optimum, and two of them have to intersect.
"""

from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from _helpers import references
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from kernelweave import learn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
with mock.patch.dict(os.environ):
    from benchmarks.accuracy import loss_optima
    from benchmarks.harness import exact_gap, fuzz_cases, fuzz_judging

LEARNERS = ("auto", "simple", "silp", "alternate", "skm", "qcqp")  # those of J
ANY_NORM = ("auto", "simple", "alternate")
MAKERS = (
    references.dense,
    references.rank_one,
    references.coarse,
    references.duplicate,
    references.single,
    references.nearly_identical,
    references.far_scaled,
    references.imbalanced,
    references.with_zero,
)


def examples(count: int) -> Callable[[Any], Any]:
    """So many examples, the same in every run."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes, and helps little
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


class Drawn:
    """An awkward problem of moderate size, its numbers short: products with few bits are exact."""

    def __init__(self, maker: Any, seed: int, n: int, C: Any) -> None:
        problem = maker(seed, n=n)
        self.K, self.y, self.C = shortened(problem.K), problem.y, C
        self.told = f"Drawn(references.{maker.__name__}, {seed}, {n}, {C})"

    def __repr__(self) -> str:
        return self.told


def problems() -> st.SearchStrategy[Drawn]:
    costs = st.sampled_from([0.0625, 1.0, 100.0])
    return st.builds(
        Drawn, st.sampled_from(MAKERS), st.integers(0, 10**6), st.integers(6, 30), costs
    )


def shortened(K: np.ndarray) -> np.ndarray:
    """Every kernel on a grid of 2⁻³⁴ of its largest entry."""
    unit = np.ldexp(1.0, np.frexp(np.abs(K).max(axis=(1, 2)))[1] - 34)[:, None, None]
    return np.rint(K / unit) * unit


def few_bits(x: float) -> float:
    """The number of 16 bits that is nearest."""
    mantissa, exponent = np.frexp(x)
    return float(np.ldexp(np.rint(np.ldexp(mantissa, 16)), exponent - 16))


def fit(K: np.ndarray, y: np.ndarray, C: Any, learner: str = "auto", **options: Any) -> Any:
    """``learn``, where a gap that stays open is no matter: it is reported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learn(K, y, C, learner, **options)


def interval(solution: Any, unit: float = 1.0) -> tuple[Fraction, Fraction]:
    return Fraction(unit) * Fraction(solution.dual), Fraction(unit) * Fraction(solution.primal)


def assert_meet(one: Any, other: Any, unit: float = 1.0) -> None:
    """Both hold the same optimum, that of ``one`` times ``unit``."""
    (low, high), (least, most) = interval(one, unit), interval(other)
    assert low <= most, (float(low), float(most))
    assert least <= high, (float(least), float(high))


def assert_true(solution: Any, exact: exact_gap.Exact, what: object) -> None:
    """The gap reported is at least the exact one, but for a last digit."""
    __tracebackhide__ = True
    if fuzz_judging.too_small(solution.gap, exact):
        more = float(exact.gap - Fraction(solution.gap))
        pytest.fail(f"reported {solution.gap:.3g}, exact {more:.3g} more: {what}")


# --- the checker --------------------------------------------------------------------------------


HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("options", "coef", "expected"),
    [
        ({"C": 1.0}, 0.5, (Fraction(5, 4), Fraction(3, 4), Fraction(2, 5))),
        ({"C": 1.0}, 1.0, (1, 1, 0)),
        ({"C": 1.0, "weight_norm": 2}, 1.0, (1, 1, 0)),
        ({"C": 1.0, "weight_norm": np.inf}, 1.0, (1, 1, 0)),
        ({"C": np.inf}, 1.0, (1, 1, 0)),
        ({"C": np.inf}, 0.5, (np.inf, Fraction(3, 4), np.inf)),
        ({"C": np.array([1.0, 0.25])}, 0.5, (Fraction(7, 8), Fraction(7, 16), HALF)),
        ({"C": 1.0, "ridge": 0.5}, 0.5, (Fraction(3, 4), Fraction(5, 8), Fraction(1, 6))),
        (
            {"C": 2.0, "loss": "squared_hinge"},
            0.5,
            (Fraction(3, 4), Fraction(5, 8), Fraction(1, 6)),
        ),
        ({"C": 1.0, "trace": 4.0}, 0.5, (HALF, HALF, 0)),
        # R² = 1/2: ½·½·½ + 2·½ and 1 − ½·½/(1/2)
        (
            {"C": 1.0, "criterion": "radius", "center": [2.0, 2.0]},
            0.5,
            (Fraction(9, 8), HALF, None),
        ),
        # K = 2I is judged at its own weight, 2: ½ and 1 − ½
        ({"C": 1.0, "criterion": "given", "weights": [2.0]}, 0.5, (HALF, HALF, 0)),
        # half of the trace for the identity: d = τ = 1/2, f = ±1/4, ½/8 + 2·(3/4)², 1 − ½·½
        (
            {"C": "learn", "loss": "squared_hinge", "learned": 2.0, "weights": [0.5], "trace": 2.0},
            0.5,
            (Fraction(1, 8) + Fraction(9, 8), Fraction(3, 4), Fraction(2, 5)),
        ),
    ],
)
def test_the_checker_computes_what_pencil_and_paper_do(options, coef, expected):
    """K = I, y = (1, −1): mostly ½‖f‖² is coef², slacks are 1 − coef, and D = 2 coef − coef²."""
    scaled = "criterion" not in options  # elsewhere weights are divided by their norm
    options = {"weights": [3.0] if scaled else [1.0], "bias": 0.0, **options}
    sides, alpha = np.array([1.0, -1.0]), [coef, coef]
    found = exact_gap.exact_gap(
        np.eye(2)[None], sides, coef=coef * sides, dual_alpha=alpha, **options
    )
    assert found[:2] == expected[:2]
    assert expected[2] is None or found.gap == expected[2]


@pytest.mark.parametrize("norm", [1, 4 / 3, 2, np.inf])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_checker_agrees_with_floats(norm, loss):
    K, y, C = (getattr(references.dense(5), name) for name in "KyC")
    s = fit(K, y, C, loss=loss, weight_norm=norm)
    found = exact_gap.of_solution(K, y, s, C, loss=loss, weight_norm=norm)
    assert float(found.primal) == pytest.approx(s.primal, rel=1e-11)
    assert float(found.dual) == pytest.approx(s.dual, rel=1e-11)


def test_the_checker_knows_when_a_gap_is_open():
    """Half of the best dual point proves three quarters of the optimum."""
    K, y = (getattr(references.single(3), name) for name in "Ky")
    s = fit(K, y, np.inf, tol=1e-9)
    found = exact_gap.exact_gap(K, y, np.inf, s.weights, 2 * s.coef, 2 * s.bias, s.dual_alpha / 2)
    assert float(found.dual) == pytest.approx(0.75 * s.primal, rel=1e-6)


# --- the gap ------------------------------------------------------------------------------------


def test_the_gap_reported_is_at_least_the_exact_one():
    """On problems made to break it; and "optimal", as many are, means that tol is met."""
    optimal = []

    @examples(40)
    @given(st.integers(0, 10**6))
    def judged(number):
        case = replace(fuzz_cases.make(15, number), seconds=0.5)
        try:
            solution = case.fit()
        except ValueError as error:
            assert fuzz_judging.documented(case, error), case
            return
        if solution.status == "optimal":
            assert solution.gap <= case.tol, case
            optimal.append(number)
        if case.learner != "sdp":
            assert_true(solution, case.exact(solution), case)

    judged()
    assert len(optimal) >= 15


@pytest.mark.parametrize("seed", range(8))
def test_the_gap_of_censored_targets_is_at_least_the_exact_one(seed):
    K, y, C, loss, weights = loss_optima.problem("interval", seed)
    for far in (0.0, 1e4):
        s = fit(K, y + far, C, loss=loss, sample_weight=weights, tol=1e-8)
        exact = exact_gap.of_solution(K, y + far, s, C, loss=loss, sample_weight=weights)
        assert_true(s, exact, seed)
        assert s.status == "optimal" and 0 < exact.dual <= exact.primal
        low = np.stack([y[:, 0], np.full(len(y), np.inf)], axis=1) + far  # the optimum is 0
        s = fit(K, low, C, loss=loss, tol=1e-8)
        exact = exact_gap.of_solution(K, low, s, C, loss=loss)
        assert s.status == "optimal" and exact.primal == exact.dual == 0


@pytest.mark.parametrize("problem", references.awkward(), ids=repr)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_gap_of_awkward_problems_is_at_least_the_exact_one(problem, loss):
    s = fit(problem.K, problem.y, problem.C, loss=loss, tol=1e-8)
    assert_true(s, exact_gap.of_solution(problem.K, problem.y, s, problem.C, loss=loss), problem)


def test_no_units_make_the_gap_lie():
    optimal = []

    @examples(25)
    @given(
        problems(),
        st.sampled_from([1, 4 / 3, 2, np.inf]),
        st.integers(-30, 30),
        st.integers(-3, 14),
    )
    def judged(problem, norm, scale, cost):
        K, C = problem.K * 10.0**scale, 10.0**cost
        s = fit(K, problem.y, C, weight_norm=norm, tol=1e-6)
        assert_true(s, exact_gap.of_solution(K, problem.y, s, C, weight_norm=norm), problem)
        if s.status == "optimal":
            assert s.gap <= 1e-6
            optimal.append(problem)

    judged()
    assert len(optimal) >= 20


# --- units --------------------------------------------------------------------------------------


def scaled_pair(s, K, y, C, learner, **options):
    """(sK, C', sρ, s·c) and (K, sC', ρ, c), where C' is near C/s and of few bits."""
    inner = {name: s * options[name] for name in ("ridge", "trace") if name in options}
    cost = C * few_bits(1.0 / s)
    one = fit(s * K, y, cost, learner, **{**options, **inner})
    return one, fit(K, y, s * cost, learner, **options)


def assert_same_in_units_of(s, K, one, other):
    for name in ("weights", "bias", "gap", "status"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    for name in ("primal", "dual", "coef", "alpha", "dual_alpha"):
        ours, theirs = np.asarray(getattr(one, name)) * s, getattr(other, name)
        np.testing.assert_array_equal(ours, theirs, name)
    np.testing.assert_array_equal(one.decision_function(s * K), other.decision_function(K))


powers = st.integers(-100, 100).map(lambda k: 2.0**k)


@pytest.mark.parametrize("learner", [*LEARNERS, "uniform", "alignment"])
@examples(8)
@given(
    problems(), powers, st.sampled_from(["plain", "squared", "per row", "ridge", "trace", "inf"])
)
def test_kernels_times_a_power_of_two_are_c_times_it(learner, problem, s, kind):
    K, y, C = problem.K, problem.y, problem.C
    options: dict[str, Any] = {
        "squared": {"loss": "squared_hinge"},
        "ridge": {"ridge": 0.25},
        "trace": {"trace": 3.0},
        "inf": {"weight_norm": np.inf if learner in ANY_NORM else 1},
    }.get(kind, {})
    assume(kind != "trace" or np.trace(K, axis1=1, axis2=2).all())
    C = C * np.linspace(0.5, 2.0, y.size) if kind == "per row" else C
    assert_same_in_units_of(s, K, *scaled_pair(s, K, y, C, learner, **options))


@pytest.mark.parametrize("learner", LEARNERS)
@examples(3)
@given(st.integers(0, 10**6), powers)
def test_hard_margins_have_no_units(learner, seed, s):
    problem = references.separable(seed, n=16)
    K = shortened(problem.K)
    assert_same_in_units_of(s, K, *scaled_pair(s, K, problem.y, np.inf, learner))


@examples(8)
@given(problems(), powers, st.sampled_from(ANY_NORM), st.sampled_from([4 / 3, 2.0]))
def test_p_norms_have_no_units_to_eight_digits(problem, s, learner, norm):
    options = {"weight_norm": norm, "tol": 1e-10}
    one, other = scaled_pair(s, problem.K, problem.y, problem.C, learner, **options)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-8, atol=1e-8)
    assert s * one.primal == pytest.approx(other.primal, rel=1e-8)


@examples(8)
@given(problems(), powers)
def test_a_learned_c_has_no_units(problem, s):
    """Under a fixed trace weights are divided by s, and nothing else changes."""
    K, y = problem.K, problem.y
    assume(np.trace(K, axis1=1, axis2=2).all())
    options = {"loss": "squared_hinge", "trace": 5.0}
    one, other = fit(s * K, y, "learn", **options), fit(K, y, "learn", **options)
    np.testing.assert_array_equal(s * one.weights, other.weights)
    for name in ("C", "primal", "dual", "gap", "bias", "coef"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@examples(8)
@given(problems(), powers)
def test_the_radius_has_no_units(problem, s):
    one, other = (fit(t * problem.K, problem.y, problem.C, "radius") for t in (s, 1.0))
    for name in ("weights", "primal", "dual", "gap", "bias"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    np.testing.assert_array_equal(s * one.coef, other.coef)


@examples(20)
@given(
    problems(),
    st.floats(-30, 30).map(lambda power: few_bits(10.0**power)),
    st.sampled_from((*LEARNERS, "radius")),
    st.sampled_from(["hinge", "squared_hinge"]),
)
def test_kernels_in_other_units_have_the_same_optimum(problem, s, learner, loss):
    if learner == "radius":
        one, other = (
            fit(t * problem.K, problem.y, problem.C, learner, loss=loss) for t in (s, 1.0)
        )
        assert_meet(one, other)
    else:
        pair = scaled_pair(s, problem.K, problem.y, problem.C, learner, loss=loss)
        assert_meet(*pair, unit=s)


# --- order, copies, and more of something -------------------------------------------------------

tols = st.sampled_from([1e-2, 1e-5, 1e-9])


@examples(15)
@given(problems(), st.randoms(use_true_random=False), st.sampled_from((*LEARNERS, "radius")), tols)
def test_the_order_of_rows_and_kernels_does_not_matter(problem, random, learner, tol):
    K, y, C = problem.K, problem.y, problem.C
    rows, kernels = (random.sample(range(k), k) for k in (y.size, len(K)))
    other = fit(K[kernels][:, rows][:, :, rows], y[rows], C, learner, tol=tol)
    assert_meet(fit(K, y, C, learner, tol=tol), other)


@examples(12)
@given(problems(), st.sampled_from(LEARNERS), st.sampled_from(["hinge", "squared_hinge"]), tols)
def test_rows_twice_at_half_the_cost_change_nothing(problem, learner, loss, tol):
    K, y, C = problem.K, problem.y, problem.C
    one = fit(K, y, C, learner, loss=loss, tol=tol)
    twice = np.tile(K, (1, 2, 2))
    assert_meet(one, fit(twice, np.tile(y, 2), C / 2.0, learner, loss=loss, tol=tol))


@examples(12)
@given(problems(), st.data(), st.sampled_from(LEARNERS), tols)
def test_kernels_twice_change_nothing_on_the_simplex(problem, data, learner, tol):
    K, y, C = problem.K, problem.y, problem.C
    again = data.draw(st.lists(st.integers(0, len(K) - 1), min_size=1, max_size=3))
    one = fit(K, y, C, learner, tol=tol)
    assert_meet(one, fit(np.concatenate([K, K[again]]), y, C, learner, tol=tol))


@examples(12)
@given(problems(), st.floats(1.0, 1e3), st.sampled_from(ANY_NORM), st.sampled_from([1, 2]), tols)
def test_the_optimum_grows_with_c(problem, factor, learner, norm, tol):
    K, y, C = problem.K, problem.y, problem.C
    less = fit(K, y, C, learner, weight_norm=norm, tol=tol)
    more = fit(K, y, factor * C, learner, weight_norm=norm, tol=tol)
    assert less.dual <= more.primal


@examples(12)
@given(problems(), st.data(), st.sampled_from(LEARNERS), tols)
def test_more_kernels_are_never_worse(problem, data, learner, tol):
    K, y, C = problem.K, problem.y, problem.C
    count = data.draw(st.integers(1, len(K)))
    part, whole = (fit(bank, y, C, learner, tol=tol) for bank in (K[:count], K))
    assert whole.dual <= part.primal


@pytest.mark.parametrize(
    ("seed", "number"),
    [(4242, 325), (4242, 2981), (4242, 6532), (777, 2078), (777, 6172), (777, 7561), (31415, 547)],
)
def test_what_random_fits_found(seed, number):
    """Each of them raised an error once, or was judged wrongly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [
            found
            for found in fuzz_judging.judge(fuzz_cases.make(seed, number))[1]
            if found[0] != "late"
        ] == []
