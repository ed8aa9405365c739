"""Interval-censored targets: what is refused, optima of 0, far targets, exact certificates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from _helpers.references import gaussian, gram, unit_mean_diagonal
from _helpers.textbook import loss_optimum

from kernelweave import duality_gap, learn, regularization_path
from kernelweave.learners import Alignment
from kernelweave.problems.interval import Interval

N = 30


def problem(seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Kernels, ends and options: exact, right-, left-, interval-censored and unknown rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 3))
    K = unit_mean_diagonal(np.stack([gaussian(X, 1.0), gram(X), gram(X[:, [0]]), gram(X[:, [0]])]))
    f = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.3 * rng.standard_normal(N)
    kind, wide = rng.integers(0, 5, N), rng.uniform(0.0, 1.0, N)
    low, high = f - wide * (kind == 1), f + wide * (kind == 1)
    low[(kind == 2) | (kind == 4)] = -np.inf
    high[(kind == 3) | (kind == 4)] = np.inf
    options = {
        "C": float(10.0 ** rng.uniform(-1, 1.5)),
        "epsilon": float(rng.choice([0.0, 0.05, 0.3])),
        "sample_weight": rng.integers(0, 4, N).astype(float) if seed % 2 else None,
    }
    return K, np.stack([low, high], axis=1), {k: v for k, v in options.items() if v is not None}


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum(seed: int) -> None:
    """Within 1e-6 of a conic solver."""
    K, y, options = problem(seed)
    solution = learn(K, y, loss="interval", tol=1e-8, **options)
    costs = options["C"] * options.get("sample_weight", np.ones(N))
    best = loss_optimum(K, y, costs, "interval", epsilon=options["epsilon"])
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best, rel=1e-6)
    assert solution.certificate().gap <= 1e-8


def test_exact_targets_are_the_epsilon_insensitive_loss() -> None:
    K, y, _ = problem(0)
    values = np.nan_to_num(y[:, 0], neginf=0.0)
    asked: dict[str, Any] = {"epsilon": 0.2, "tol": 1e-7}
    tube = learn(K, values, 2.0, loss="epsilon_insensitive", **asked)
    for ends in (values, np.stack([values, values], axis=1)):
        both = learn(K, ends, 2.0, loss="interval", **asked)
        assert both.objective == tube.objective and both.coef.shape == (N,)
        np.testing.assert_array_equal(both.coef, tube.coef)
    np.testing.assert_array_equal(both.predict(K), both.decision_function(K))


def test_labels_are_open_intervals() -> None:
    """The hinge asks for f + b ≥ 1 or ≤ −1."""
    K, y, _ = problem(1)
    labels = np.where(np.nan_to_num(y[:, 1], posinf=1.0) > 0.0, 1.0, -1.0)
    ends = np.where(labels[:, None] > 0.0, (1.0, np.inf), (-np.inf, -1.0))
    hinge = learn(K, labels, 2.0, tol=1e-8)
    both = learn(K, ends, 2.0, loss="interval", epsilon=0.0, tol=1e-8)
    assert both.objective == pytest.approx(hinge.objective, rel=2e-8)


def test_what_the_ends_say() -> None:
    """A bound that is not active changes nothing; the prediction respects those that are."""
    K, y, _ = problem(2)
    K = np.concatenate([K, [np.eye(N)]])  # any f can be had, where slacks cost enough
    solution = learn(K, y, 1e3, loss="interval", epsilon=0.0, tol=1e-8)
    f = solution.predict(K)
    assert (y[:, 0] - 1e-5 <= f).all() and (f <= y[:, 1] + 1e-5).all()
    unknown = ~np.isfinite(y).any(axis=1)
    assert unknown.any() and (solution.coef[unknown] == 0.0).all()
    loose = np.where(y < (f - 0.5)[:, None], -np.inf, np.where(y > f[:, None] + 0.5, np.inf, y))
    again = learn(K, loose, 1e3, loss="interval", epsilon=0.0, tol=1e-8)
    assert again.objective == pytest.approx(solution.objective, rel=1e-6)


OPEN = {"right": (0.0, np.inf), "left": (-np.inf, 0.0), "wide": (-5.0, 5.0)}


@pytest.mark.parametrize("learner", ["newton", "simple", "uniform", "silp", "qcqp"])
@pytest.mark.parametrize("kind", OPEN)
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_an_optimum_of_zero_is_proved(learner: str, kind: str, far: float) -> None:
    """One number lies in all intervals: f = 0, and the bias is that number."""
    K, _, _ = problem(1)
    values = np.random.default_rng(0).standard_normal(N)
    y = (values + far)[:, None] + OPEN[kind]
    for C in (1e-3, 1e6):
        solution = learn(K, y, C, learner, loss="interval", tol=1e-6)
        assert solution.status == "optimal" and solution.gap == solution.primal == 0.0
        assert solution.certificate().gap == 0.0
        low, high = y[:, 0].max() - 0.1, y[:, 1].min() + 0.1  # as near as rounding allows
        inside = 0.5 * (low + high) if kind == "wide" else low if kind == "right" else high
        assert solution.bias == pytest.approx(inside, abs=1e-9 + 1e-13 * far)


def test_far_targets_keep_their_digits() -> None:
    K, y, _ = problem(3)
    near = learn(K, y, loss="interval", tol=1e-7)
    far = learn(K, y + 2.0**20, loss="interval", tol=1e-7)
    assert far.certificate().gap <= 1e-7
    assert far.objective == pytest.approx(near.objective, rel=1e-7)
    assert far.bias - 2.0**20 == pytest.approx(near.bias, abs=1e-4)


def test_paths_and_warm_starts() -> None:
    K, y, _ = problem(4)
    Cs = [0.3, 1.0, 4.0]
    for C, one in zip(Cs, regularization_path(K, y, Cs, loss="interval", tol=1e-6), strict=True):
        cold = learn(K, y, C, loss="interval", tol=1e-6)
        assert one.objective == pytest.approx(cold.objective, rel=2e-6)
    judged = duality_gap(
        K, y, cold.weights, cold.coef, cold.bias, C=C, loss="interval", dual_alpha=cold.dual_alpha
    )
    assert judged.gap <= 1e-6


def test_what_a_prediction_costs() -> None:
    loss = Interval(0.5)
    ends, _ = loss.read([[1.0, 2.0], [-np.inf, 2.0], [1.0, np.inf], [3.0, 3.0]])
    np.testing.assert_allclose(loss.cost(ends, np.zeros(4)), [0.5, 0.0, 0.5, 2.5])
    np.testing.assert_allclose(loss.cost(ends, np.full(4, 4.0)), [1.5, 1.5, 0.0, 0.5])


def test_what_is_refused() -> None:
    K, y, _ = problem(0)

    def refused(y: Any, message: str, **options: Any) -> None:
        with pytest.raises(ValueError, match=message):
            learn(K, y, loss="interval", **options)

    wrong = y.copy()
    wrong[7] = 2.0, 1.0
    refused(wrong, r"lower end above its upper end in row 7: \(2, 1\)")
    wrong[9] = np.nan, 1.0
    wrong[7] = np.nan, 1.0
    refused(wrong, r"NaN in 2 rows, the first is row 7: \(nan, 1\)")
    wrong[7] = wrong[9] = np.inf, np.inf
    refused(wrong, r"\(-inf, u\) and \(l, inf\) leave an end open; in 2 rows")
    refused(np.where(np.arange(N) == 3, np.inf, 0.0), "infinity where it says nothing")
    refused(np.zeros((N, 3)), r"y must have shape \(n, 2\).*found \(30, 3\)")
    refused(np.tile([-np.inf, np.inf], (N, 1)), "no finite end: every row is open on both sides")
    some = np.tile([-np.inf, np.inf], (N, 1))
    some[0] = 0.0, 1.0
    refused(
        some, "no finite end among the rows with a positive sample_weight",
        sample_weight=(np.arange(N) > 0).astype(float),
    )  # fmt: skip
    refused(y, "epsilon must be a finite number", epsilon=-1.0)
    refused(y, "C must be finite with loss='interval'", C=np.inf)
    for learner in ("alignment", "radius", "sdp", "easy"):
        refused(y, "does not go with loss='interval'", learner=learner)
    assert Alignment.targets == ("labels", "values")
    with pytest.raises(TypeError, match="real numbers"):
        learn(K, [["low", "high"]] * N, loss="interval")
