"""The certificate: plain formulas, any model, every norm, and what it refuses."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from _helpers.references import (
    Problem,
    awkward,
    dense,
    far_scaled,
    imbalanced,
    primal_optimum,
    qcqp_optimum,
    rank_one,
    separable,
    single,
    wide,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelweave import KernelStack, duality_gap, learn, solving

NORMS = [1, 4 / 3, 2, 4, np.inf]


def combined(K: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.einsum("k,kij->ij", weights, K)


def primal_by_hand(
    problem: Problem, weights: np.ndarray, coef: np.ndarray, bias: float, loss: str, C: Any
) -> float:
    """½ coefᵀK(d)coef + C Σξ or (C/2) Σξ²."""
    matrix = combined(problem.K, weights)
    slack = np.maximum(0.0, 1.0 - problem.y * (matrix @ coef + bias))
    cost = (C * slack).sum() if loss == "hinge" else (0.5 * C * slack**2).sum()
    return float(0.5 * coef @ matrix @ coef + cost)


def dual_by_hand(
    problem: Problem, alpha: np.ndarray, loss: str, C: Any, weight_norm: float = 1
) -> float:
    """Σα − ‖α‖²/(2C) − ½‖q‖_{p/(p−1)}, q_m = (y∘α)ᵀK_m(y∘α)."""
    v = problem.y * alpha
    q = np.array([v @ matrix @ v for matrix in problem.K])
    p = weight_norm
    if p == 1:
        norm = q.max()
    elif np.isinf(p):
        norm = q.sum()
    else:
        norm = (q ** (p / (p - 1))).sum() ** ((p - 1) / p)
    ridge = 0.5 / C * (alpha @ alpha) if loss == "squared_hinge" else 0.0
    return float(alpha.sum() - ridge - 0.5 * norm)


def feasible_alpha(rng: np.random.Generator, problem: Problem, C: float) -> np.ndarray:
    """0 ≤ α ≤ C with yᵀα = 0, away from the optimum."""
    alpha = C * rng.random(problem.y.size)
    for sign in (1.0, -1.0):
        side = problem.y == sign
        alpha[side] *= 0.1 * C / alpha[side].sum()
    return alpha


def some_model(
    rng: np.random.Generator, problem: Problem, norm: float = 1
) -> tuple[np.ndarray, np.ndarray, float]:
    weights = rng.random(len(problem.K)) * (rng.random(len(problem.K)) < 0.7)
    weights[0] += 0.1
    coef = rng.standard_normal(problem.y.size) * 10.0 ** rng.uniform(-3, 1)
    return weights / np.linalg.norm(weights, norm), coef, float(rng.standard_normal())


# --- by plain formulas --------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([dense, rank_one, imbalanced, single]),
    st.sampled_from(["hinge", "squared_hinge"]),
    st.sampled_from(NORMS),
    st.sampled_from([0.1, 1.0, 30.0]),
)
def test_any_model_by_plain_formulas(
    seed: int, make: Any, loss: str, norm: float, C: float
) -> None:
    problem = make(seed, n=14)
    rng = np.random.default_rng(seed)
    weights, coef, bias = some_model(rng, problem, norm)
    alpha = feasible_alpha(rng, problem, C)
    found = duality_gap(
        problem.K, problem.y, weights, coef, bias,
        C=C, loss=loss, weight_norm=norm, dual_alpha=alpha,
    )  # fmt: skip
    primal = primal_by_hand(problem, weights, coef, bias, loss, C)
    dual = dual_by_hand(problem, alpha, loss, C, norm)
    assert found.primal == pytest.approx(primal, rel=1e-9)
    assert found.dual == pytest.approx(dual, rel=1e-9)
    assert found.gap == pytest.approx((primal - dual) / max(abs(primal), 1e-12), rel=1e-8)


def test_per_sample_costs_by_plain_formulas() -> None:
    problem = dense(0, n=14)
    rng = np.random.default_rng(0)
    C = 10.0 ** rng.uniform(-1, 1, 14)
    weights, coef, bias = some_model(rng, problem)
    alpha = feasible_alpha(rng, problem, float(C.min()))
    found = duality_gap(problem.K, problem.y, weights, coef, bias, C=C, dual_alpha=alpha)
    assert found.primal == pytest.approx(
        primal_by_hand(problem, weights, coef, bias, "hinge", C), rel=1e-12
    )
    assert found.dual == pytest.approx(dual_by_hand(problem, alpha, "hinge", C), rel=1e-12)


def test_ridge_by_plain_formulas() -> None:
    """A ridge of 1/C under hi = ∞ is the squared hinge: two ways to say one problem."""
    problem = dense(1, n=14)
    rng = np.random.default_rng(1)
    weights, coef, bias = some_model(rng, problem)
    alpha = feasible_alpha(rng, problem, 2.0)
    model = (problem.K, problem.y, weights, coef, bias)
    one = duality_gap(*model, C=np.inf, ridge=0.5, dual_alpha=alpha)
    other = duality_gap(*model, C=2.0, loss="squared_hinge", dual_alpha=alpha)
    assert one.primal == pytest.approx(other.primal, rel=1e-12)
    assert one.dual == pytest.approx(other.dual, rel=1e-12)


def test_trace_by_plain_formulas() -> None:
    """Σ d_m tr K_m = c is the simplex for kernels scaled by c/tr K_m."""
    problem = far_scaled(1)
    rng = np.random.default_rng(1)
    traces, c = np.trace(problem.K, axis1=1, axis2=2), 7.0
    unit = rng.dirichlet(np.ones(5))
    coef = rng.standard_normal(problem.y.size)
    alpha = feasible_alpha(rng, problem, 1.0)
    one = duality_gap(
        problem.K, problem.y, c * unit / traces, coef, 0.3, C=1.0, trace=c, dual_alpha=alpha
    )
    scaled = problem.K * (c / traces)[:, None, None]
    other = duality_gap(scaled, problem.y, unit, coef, 0.3, C=1.0, dual_alpha=alpha)
    assert one.primal == pytest.approx(other.primal, rel=1e-9)
    assert one.dual == pytest.approx(other.dual, rel=1e-9)


def test_stack_and_array_agree() -> None:
    problem = dense(2, n=14)
    weights, coef, bias = some_model(np.random.default_rng(2), problem)
    array = duality_gap(problem.K, problem.y, weights, coef, bias, C=1.0)
    stack = duality_gap(KernelStack(problem.K), problem.y, weights, coef, bias, C=1.0)
    assert (array.primal, array.dual) == (stack.primal, stack.dual)


# --- valid whatever the model -------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("problem", [dense(0), rank_one(0), wide(0), imbalanced(0)], ids=repr)
def test_wrong_models_are_bounded_all_the_same(problem: Problem, loss: str) -> None:
    best = qcqp_optimum(problem.K, problem.y, problem.C, loss)
    rng = np.random.default_rng(0)
    solved = learn(problem.K, problem.y, C=problem.C, loss=loss, tol=1e-5)
    models = [some_model(rng, problem) for _ in range(5)]
    models += [
        (solved.weights, solved.coef * (1 + 1e-3 * rng.standard_normal()), solved.bias + shift)
        for shift in (0.0, 0.01, -0.3)
    ]
    models.append((solved.weights, np.zeros_like(solved.coef), 0.0))
    for weights, coef, bias in models:
        for alpha in (None, rng.standard_normal(problem.y.size), solved.dual_alpha):
            found = duality_gap(
                problem.K, problem.y, weights, coef, bias,
                C=problem.C, loss=loss, dual_alpha=alpha,
            )  # fmt: skip
            assert found.primal >= best * (1 - 1e-6)
            assert found.dual <= best * (1 + 1e-6)
            assert found.primal - best <= found.gap * abs(found.primal) + 1e-6 * best


@pytest.mark.parametrize("learner", ["newton", "simple", "silp", "qcqp", "skm"])
@pytest.mark.parametrize("problem", awkward()[::3], ids=repr)
def test_solutions_carry_this_certificate(problem: Problem, learner: str) -> None:
    for loss in ("hinge", "squared_hinge"):
        found = learn(problem.K, problem.y, C=problem.C, learner=learner, loss=loss, tol=1e-4)
        again = duality_gap(
            problem.K, problem.y, found.weights, found.coef, found.bias,
            C=problem.C, loss=loss, dual_alpha=found.dual_alpha,
        )  # fmt: skip
        # those of ``learn`` may be charged for rounding, by a hundredth of tol
        assert again.primal == pytest.approx(found.primal, rel=1e-6)
        assert again.dual == pytest.approx(found.dual, rel=1e-6)
        assert again.gap <= found.gap + 1e-13


def test_solutions_carry_this_certificate_with_other_options() -> None:
    problem = dense(4, n=20)
    C = np.linspace(0.5, 5.0, 20)
    for options in (
        {"C": C},
        {"C": 2.0, "ridge": 0.1},
        {"C": 2.0, "trace": 3.0},
        {"C": 2.0, "recenter": True},
        *({"C": 2.0, "weight_norm": p} for p in NORMS),
    ):
        found = learn(problem.K, problem.y, tol=1e-5, **options)
        again = duality_gap(
            problem.K, problem.y, found.weights, found.coef, found.bias,
            dual_alpha=found.dual_alpha, **options,
        )  # fmt: skip
        assert again.gap == pytest.approx(found.gap, abs=1e-9), options
        assert again.gap <= 1.001e-5, options


def test_without_dual_alpha_the_best_multiple_is_used() -> None:
    """coef of any scale suggests the same α, and the scale of α is the best one."""
    problem = dense(5, n=20)
    found = learn(problem.K, problem.y, C=1e3, tol=1e-6, learner="uniform")
    model = (problem.K, problem.y, found.weights)
    alpha = problem.y * found.coef
    values = [
        dual_by_hand(problem, t * alpha, "hinge", 1e3)
        for t in np.linspace(0.0, 1e3 / alpha.max(), 20_001)
    ]
    for scale in (1.0, 0.5):
        one = duality_gap(*model, scale * found.coef, found.bias, C=1e3)
        assert one.dual >= max(values) * (1 - 1e-9)
        assert one.dual == pytest.approx(max(values), rel=1e-3)


@pytest.mark.parametrize("norm", NORMS)
def test_lp_bounds_enclose_the_optimum(norm: float) -> None:
    """min over w, b, ξ and d in the ℓp ball, by a conic solver with the weights as variables."""
    for problem in (dense(6, n=14, m=4), rank_one(6, n=14, m=4), single(6, n=14)):
        best = primal_optimum(problem.K, problem.y, 2.0, weight_norm=norm)
        rng = np.random.default_rng(0)
        for _ in range(4):
            weights, coef, bias = some_model(rng, problem, norm)
            found = duality_gap(problem.K, problem.y, weights, coef, bias, C=2.0, weight_norm=norm)
            assert found.dual <= best * (1 + 1e-6)
            assert found.primal >= best * (1 - 1e-6)


def test_the_gap_closes_at_the_optimum_of_a_known_problem() -> None:
    """Two points x = ±1: α = ½ each, f(x) = x, both bounds ½."""
    K = np.array([[[1.0, -1.0], [-1.0, 1.0]]])
    y = np.array([1.0, -1.0])
    found = duality_gap(K, y, [1.0], [0.5, -0.5], 0.0, C=10.0)
    assert (found.primal, found.dual) == pytest.approx((0.5, 0.5), rel=1e-12)
    assert found.gap <= 1e-12
    worse = duality_gap(K, y, [1.0], [0.5, -0.5], 0.1, C=10.0)
    assert worse.primal == pytest.approx(0.5 + 10.0 * 0.1)
    assert worse.gap == pytest.approx(1.0 / 1.5)


# --- hard margin --------------------------------------------------------------------------------


def test_hard_margin_is_infinite_unless_separated() -> None:
    problem = separable(0)
    uniform = np.full(len(problem.K), 1.0 / len(problem.K))
    noise = np.random.default_rng(0).standard_normal(problem.y.size)
    model = (problem.K, problem.y, uniform)
    assert duality_gap(*model, noise, 0.0, C=np.inf).gap == np.inf
    assert duality_gap(*model, 0.0 * noise, 0.0, C=np.inf).primal == np.inf
    found = learn(problem.K, problem.y, C=np.inf, tol=1e-6)
    model = (problem.K, problem.y, found.weights)
    again = duality_gap(*model, found.coef, found.bias, C=np.inf, dual_alpha=found.dual_alpha)
    assert again.gap == pytest.approx(found.gap, abs=1e-9)
    assert duality_gap(*model, 0.999 * found.coef, found.bias, C=np.inf).gap == np.inf


# --- what it refuses ----------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "K": dense(0, n=6, m=2).K,
    "y": dense(0, n=6, m=2).y,
    "weights": [0.5, 0.5],
    "coef": np.zeros(6),
    "bias": 0.0,
    "C": 1.0,
}
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"K": np.full((2, 6, 6), np.nan)}, ValueError, r"K\[0\] has 36 NaN"),
    ({"K": np.ones((2, 6, 5))}, ValueError, r"K must have shape \(m, n, n\), found \(2, 6, 5\)"),
    ({"K": -np.stack([np.eye(6)] * 2)}, ValueError, r"K\[0\] is not positive semidefinite.* -1"),
    ({"K": "kernels"}, TypeError, "K must hold real numbers"),
    ({"y": np.ones(6)}, ValueError, r"y holds one class only \(\+1\)"),
    ({"y": np.arange(6)}, ValueError, r"y must hold the labels -1 and \+1 only, found 0, 1, 2"),
    ({"y": [1, -1, 1]}, ValueError, "y has 3 labels, but the kernels have 6 rows"),
    ({"y": list("aabbab")}, ValueError, "y must hold the numbers -1 and .1, found dtype <U1"),
    ({"weights": [0.5, 0.4, 0.1]}, ValueError, r"weights must have shape \(2,\), found \(3,\)"),
    ({"weights": [0.5, np.nan]}, ValueError, "weights must be finite, found NaN"),
    ({"weights": [1.5, -0.5]}, ValueError, "weights must be nonnegative, found -0.5.*signed=True"),
    ({"weights": [0.9, 0.9]}, ValueError, "in their set.* found norm 1.8; pass weight_norm"),
    ({"weights": "both"}, TypeError, "weights must hold real numbers, found str"),
    ({"weights": None}, ValueError, r"weights must have shape \(2,\), found \(\)"),
    ({"coef": np.zeros(5)}, ValueError, r"coef must have shape \(6,\), found \(5,\)"),
    ({"coef": np.zeros((1, 6))}, ValueError, r"coef must have shape \(6,\), found \(1, 6\)"),
    ({"coef": np.full(6, np.inf)}, ValueError, "coef must be finite, found NaN or infinity"),
    ({"coef": [{}] * 6}, TypeError, "coef must hold real numbers, found list"),
    ({"bias": np.nan}, ValueError, "bias must be a finite number, found nan"),
    ({"bias": -np.inf}, ValueError, "bias must be a finite number, found -inf"),
    ({"bias": np.zeros(2)}, ValueError, "bias must be a finite number, found ndarray"),
    ({"bias": "0"}, TypeError, "bias must be a finite number, found '0'"),
    ({"bias": None}, TypeError, "bias must be a finite number, found None"),
    ({"C": 0.0}, ValueError, "C must be positive, found 0"),
    ({"C": -1.0}, ValueError, "C must be positive, found -1"),
    ({"C": np.nan}, ValueError, "C must be positive, found nan"),
    ({"C": np.ones(5)}, ValueError, r"C must be one number or 6 of them, found shape \(5,\)"),
    ({"C": None}, TypeError, "C must be a positive number.* found None"),
    ({"C": "much"}, TypeError, "C must be a positive number.* found 'much'"),
    ({"dual_alpha": np.zeros(7)}, ValueError, r"dual_alpha must have shape \(6,\), found \(7,\)"),
    ({"dual_alpha": np.full(6, np.nan)}, ValueError, "dual_alpha must be finite"),
    ({"loss": "hing"}, ValueError, r"loss must be one of \['hinge', .*found 'hing'"),
    ({"weight_norm": 0.5}, ValueError, "weight_norm must be a number ≥ 1, found 0.5"),
    ({"weight_norm": np.nan}, ValueError, "weight_norm must be a number ≥ 1, found nan"),
    ({"weight_norm": "2"}, TypeError, "weight_norm must be a number ≥ 1 or a GroupNorm, found '2'"),
    ({"trace": -1.0}, ValueError, "trace must be positive, found -1.0"),
    ({"ridge": -0.1}, ValueError, "ridge must be a finite number ≥ 0, found -0.1"),
    ({"ridge": np.inf}, ValueError, "ridge must be a finite number ≥ 0, found inf"),
]


@pytest.mark.parametrize(
    ("change", "error", "message"), BAD, ids=[f"{k}-{x[0]!r:.30}" for k, x in enumerate(BAD)]
)
def test_bad_input(change: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments = GOOD | change
    model = [arguments.pop(name) for name in ("K", "y", "weights", "coef", "bias")]
    with pytest.raises(error, match=message):
        duality_gap(*model, **arguments)


def test_good_input_is_accepted() -> None:
    arguments = dict(GOOD)
    model = [arguments.pop(name) for name in ("K", "y", "weights", "coef", "bias")]
    judged = duality_gap(*model, **arguments)
    assert judged.primal == pytest.approx(6.0, rel=1e-12)  # f = 0: every slack is 1


def test_the_better_of_two_certificates_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extended precision is asked for where rounding shows; where it proves less, plain counts."""
    honest = solving.certified_point

    def worse_if_fine(machine, point, fine):
        found = honest(machine, point, fine)
        return replace(found, fits=found.fits * [2.0 if fine else 1.0 + 5e-5, 1.0, 1.0])

    monkeypatch.setattr(solving, "certified_point", worse_if_fine)
    rng = np.random.default_rng(0)
    F = rng.normal(size=(3, 40, 4))
    y = np.where(F[0, :, 0] + 0.3 * rng.normal(size=40) > 0.0, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = learn(F @ F.transpose(0, 2, 1), y, C=1.0, tol=1e-3)
    assert found.status == "optimal" and 4e-5 < found.gap <= 1e-3
