"""Regressions: cases that once gave a wrong answer without a word."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelweave import KernelBank, Linear, MKLClassifier, duality_gap, learn, solving
from kernelweave.learners.newton import Newton
from kernelweave.solving import Ended

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 4))
y = np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1, -1)
SQUARES = ((X[:, None] - X) ** 2).sum(axis=2)
K = np.stack([np.outer(x, x) for x in X.T] + [np.exp(-SQUARES / 8)])


@pytest.mark.parametrize("hard", [1, 2])
def test_costs_partly_infinite_are_refused(hard):
    C = np.ones(30)
    C[:hard] = np.inf
    with pytest.raises(ValueError, match="C must be finite for all rows or infinite for all"):
        learn(K, y, C=C)


@pytest.mark.parametrize(("scale", "C"), [(1e4, 1e-4), (1e-3, 1e3), (1.0, 1.0)])
def test_norms_just_above_one(scale, C):
    """q to the power 101 neither overflows nor underflows."""
    found = learn(K * scale, y, C=C, weight_norm=1.01)
    assert found.status == "optimal"
    assert 0.0 <= found.primal - found.dual <= 1e-3 * found.primal
    simplex = learn(K * scale, y, C=C)
    assert found.primal <= simplex.primal * (1 + 1e-3)


def test_uniform_is_uniform_wherever_it_starts():
    start = learn(K, y)
    np.testing.assert_allclose(learn(K, y, learner="uniform", start=start).weights, 0.2)


def test_largest_norm_from_a_start():
    found = learn(K, y, weight_norm=np.inf, start=learn(K, y))
    assert found.status == "optimal"
    np.testing.assert_allclose(found.weights, 1.0)


def test_hard_margin_from_weights_that_do_not_separate():
    pair = np.stack([np.outer(X[:, 1], X[:, 1]), np.exp(-2.0 * SQUARES)])
    found = learn(pair, y, C=np.inf, start=[1, 0])
    assert found.status == "optimal"
    assert found.primal == pytest.approx(learn(pair, y, C=np.inf).primal, rel=2e-3)


def test_scaled_copies_stay_without_normalization():
    """Scale is what kernels without normalization differ in."""

    def big(A, B):
        return 100 * A @ B.T

    values = [
        MKLClassifier(KernelBank(kernels, normalize=None), C=0.01).fit(X, y).objective_
        for kernels in ([Linear(), big], [big, Linear()])
    ]
    assert values[0] == pytest.approx(values[1], rel=2e-3)


def test_a_dual_above_the_primal_is_no_closed_gap():
    from kernelweave.problems.dual_qp import relative_gap

    assert relative_gap(1.0, 1.5) == pytest.approx(1 / 3)


def test_endless_tolerance_is_refused():
    with pytest.raises(ValueError, match="tol must be positive, found inf"):
        learn(K, y, tol=np.inf)


def test_radius_is_forgotten_by_another_learner():
    model = MKLClassifier(learner="radius").fit(X, y)
    assert model.radius_ > 0.0
    assert not hasattr(model.set_params(learner="simple").fit(X, y), "radius_")


def test_the_certificate_of_a_start_is_its_own():
    found = learn(K, y, tol=1e-4)
    judged = duality_gap(
        K, y, found.weights, found.coef, found.bias, C=1.0, dual_alpha=found.dual_alpha
    )
    assert judged.gap == pytest.approx(found.gap, abs=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_balls_and_parameters_want_finite_numbers(bad):
    from kernelweave import GaussianWidths, enclosing_ball, learn_parameters

    matrix, rows = K[4].copy(), X.copy()
    matrix[1, 2] = matrix[2, 1] = rows[0, 0] = bad
    with pytest.raises(ValueError, match="K must be finite"):
        enclosing_ball(matrix)
    with pytest.raises(ValueError, match="X must be finite"):
        learn_parameters(rows, y, [GaussianWidths(1.0)], criterion="margin")


@pytest.mark.parametrize("seed", [75, 102])
def test_hard_margin_of_nearly_dependent_rows_certifies_itself(seed):
    """Coefficients of 1e6 and more leave f few digits; a margin met within them is met."""
    draw = np.random.default_rng(seed)
    n, m = draw.integers(6, 40), draw.integers(1, 5)
    kernels = []
    for _ in range(m):
        points, width = draw.normal(size=(n, 3)), draw.uniform(2, 30)
        squares = ((points[:, None] - points) ** 2).sum(axis=2)
        kernels.append(np.exp(-squares / (2 * width * width)))
    labels = np.where(draw.random(n) < 0.5, -1, 1)
    labels[:2] = 1, -1
    found = learn(np.array(kernels), labels, C=np.inf)
    again = duality_gap(
        *(np.array(kernels), labels, found.weights, found.coef, found.bias),
        C=np.inf,
        dual_alpha=found.dual_alpha,
    )
    assert np.abs(found.coef).max() > 1e5
    assert again.gap <= 1e-3


def test_time_that_ends_within_the_first_iteration_leaves_a_history():
    """Where a point is known and no iteration was made, the fit has one entry all the same."""

    class Slow(Newton):
        def iterate(self, evaluator, incumbent, e, tol):
            evaluator.solve(e, 1e-2)
            raise Ended("max_time")
            yield

    with pytest.warns(ConvergenceWarning):
        found = learn(K, y, learner=Slow())
    assert found.status == "max_time"
    assert found.history["gap"].size == 1


def test_one_class_is_never_called_inseparable():
    """Kernels of 1e23 with weights of 1e30 look unbounded; bounded variables are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = learn(
            K * 2.0**78, None, 0.09, "skm_published", loss="one_class", trace=2.0**99, max_time=5.0
        )
    assert np.isfinite(found.primal)


ZERO = {  # problems whose optimum is 0, where rounding leaves a primal value above it
    "squared": ("squared", {}),
    "quantile": ("quantile", {}),
    "tube": ("epsilon_insensitive", {"epsilon": 0.5, "ridge": 0.01}),
}


@pytest.mark.parametrize("learner", ["newton", "simple", "silp", "skm", "uniform"])
@pytest.mark.parametrize("name", ZERO)
def test_an_optimum_of_zero_ends_the_fit_and_is_told(name, learner):
    """No relative gap can be told of it, and no further step helps."""
    loss, options = ZERO[name]
    kernels = np.array([np.eye(5), np.eye(5) + 1.0])
    targets = np.full(5, 0.3) + (0.1 * np.arange(5) if name == "tube" else 0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = learn(kernels, targets, loss=loss, learner=learner, tol=1e-9, **options)
    assert abs(found.primal) < 1e-14 and found.n_iter <= 3
    assert found.status == "optimal" or "the optimum is 0" in str(caught[0].message)


@pytest.mark.parametrize("learner", ["newton", "simple", "silp", "skm"])
def test_rows_on_all_sides_of_the_origin_end_the_fit(learner):
    """Kernels of rank one, five of them: −½αᵀKα = 0 is in reach for every weight."""
    U = np.random.default_rng(0).normal(size=(5, 60))
    kernels = np.einsum("mi,mj->mij", U, U)
    with pytest.warns(ConvergenceWarning, match="the optimum is 0.*use Gaussian kernels"):
        found = learn(kernels, None, 1 / 18, learner, loss="one_class")
    assert found.n_iter <= 2


def test_a_gap_that_extended_precision_brings_below_tol_is_optimal():
    """By plain numbers the gap stays a little above tol; what is proved counts."""
    for seed in (87, *range(30)):
        draw = np.random.default_rng(seed)
        X = draw.normal(size=(20, 3))
        labels = np.where(X[:, 0] + 0.3 * draw.normal(size=20) > 0, 1.0, -1.0)
        labels[:2] = 1, -1
        sizes = (1e5, 1e3, 1.0)
        squares = (X[:, None] - X) ** 2
        kernels = np.array([s * np.exp(-squares[:, :, j]) for j, s in enumerate(sizes)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = learn(kernels, labels, tol=1e-11)
        assert (found.status == "optimal") == (found.gap <= 1e-11), seed


def test_a_fit_that_ends_early_is_not_judged_in_extended_precision(monkeypatch):
    """Where a gap is far above tol, the last digits of it are not worth a pass over kernels."""
    asked = []
    plain = solving.certified_point

    def watched(evaluator, point, fine):
        asked.append(fine)
        return plain(evaluator, point, fine)

    monkeypatch.setattr(solving, "certified_point", watched)
    with pytest.warns(ConvergenceWarning):
        found = learn(K, y, C=100.0, tol=1e-4, max_iter=1)
    assert found.gap > 1e-4
    assert asked and not any(asked)


def test_radius_under_high_norms_in_any_units():
    """‖e‖_p of weights far from 1 over- or underflows unless they are divided first."""
    K, y = two_kernels()
    base = learn(K, y, learner="radius", weight_norm=50)
    for scale in (1e-30, 1e-8, 1e8, 1e30):
        found = learn(scale * K, y, learner="radius", weight_norm=50)
        assert found.gap <= 1e-3
        assert found.dual <= base.primal and base.dual <= found.primal


def test_bias_of_the_squared_loss_in_any_units():
    K, _ = two_kernels()
    values = np.random.default_rng(3).normal(size=K.shape[1])
    for scale in (1.0, 1e-10, 1e-20, 1e20):
        solution = learn(K, scale * values, loss="squared", tol=1e-8)
        assert solution.gap <= 1e-8


@pytest.mark.parametrize(
    ("scale", "options", "message"),
    [
        (1e307, {}, "kernel 0 is too large to compute with"),
        (1e-310, {}, "kernel 0 is too small to compute with"),
        (1.0, {"sample_weight": np.full(20, 1e-310)}, "C times sample_weight must lie between"),
    ],
)
def test_numbers_that_end_are_refused(scale, options, message):
    K, y = two_kernels()
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=message):
        learn(scale * K, y, loss="squared_hinge", **options)


@pytest.mark.parametrize("learner", ["radius", "radius_bound"])
def test_no_step_of_a_radius_is_judged(learner):
    K, y = two_kernels()
    with pytest.warns(ConvergenceWarning):
        solution = learn(K, y, learner=learner, max_time=1e-9)
    assert solution.certificate().gap == 1.0


def two_kernels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=20) > 0, 1.0, -1.0)
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    return np.array([X @ X.T, np.exp(-D / 2)]), y


@pytest.mark.parametrize("seed", [7, 9, 10])
def test_squared_loss_where_the_ridge_is_lost_in_rounding(seed):
    """C·K_ii of 1e20 and more: a true bound and a warning, no numbers that grow beyond all."""
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(40, rank)) for rank in (1, 2, 3)]
    K = np.array([1e8 * F @ F.T for F in factors])
    with pytest.warns(ConvergenceWarning):
        solution = learn(K, rng.normal(size=40), C=1e12, loss="squared", tol=1e-4)
    assert np.isfinite(solution.coef).all()
    assert 1e-4 < solution.gap <= 2.0 and np.isfinite(solution.primal)


@pytest.mark.parametrize("size", [1e-170, 1e-110, 1e104, 1e150])
def test_one_class_in_extreme_units_is_right(size: float) -> None:
    """Bounds were 0 or NaN, and told as optimal; then it was refused."""
    X = np.random.default_rng(0).normal(size=(12, 3))
    G = X @ X.T
    K = np.stack([G, (G + 1.0) ** 2])
    plain, found = (learn(K * s, None, C=1 / 3, loss="one_class") for s in (1.0, size))
    assert found.status == "optimal" and found.certificate().gap <= 1.1e-3
    assert found.dual <= size * plain.primal and size * plain.dual <= found.primal


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (1e-170, {"loss": "squared"}),
        (1e155, {"loss": "squared"}),
        (1e-170, {"loss": "huber"}),  # was "optimal", with bounds of 0
        (1e-170, {"loss": "epsilon_insensitive", "epsilon": 1e-172, "ridge": 1.0}),
        (1e-170, {"loss": "quantile"}),
    ],
)
def test_squares_of_extreme_targets_are_refused(size: float, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    with pytest.raises(ValueError, match=r"y is too (small|large)"):
        learn(np.stack([X @ X.T, (X @ X.T) ** 2]), size * y, **options)


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive", "quantile"])
def test_losses_that_are_no_squares_take_larger_targets(loss: str) -> None:
    """Slacks of 1e200 cost C each, and all else is nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), 1e200 * rng.normal(size=12)
    found = learn(np.stack([X @ X.T, (X @ X.T) ** 2]), y, loss=loss)
    assert found.status == "optimal" and 0.0 < found.dual <= found.primal < np.inf
    far = np.abs(y - np.median(y)).sum()
    assert found.primal == pytest.approx(0.5 * far if loss == "quantile" else far)
