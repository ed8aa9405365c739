"""Kernels on which the radius criteria once erred: constants, zeros, scales, bad arguments."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from _helpers.foreign import foreign
from _helpers.opened import opened
from _helpers.references import (
    Problem,
    awkward,
    coarse,
    dense,
    gaussian,
    gram,
    labels,
    points,
    separable,
)
from sklearn.exceptions import ConvergenceWarning

from kernelweave import KernelStack, MKLClassifier, Precomputed, enclosing_ball, learn
from kernelweave.certificate import certify_given
from kernelweave.learners import Radius, RadiusBound
from kernelweave.papers import gai2010 as theory

CRITERIA = {
    "rkl": lambda K, y, theta, **o: theory.rkl(K, y, theta, C=1.0, **o),
    "kl_c": lambda K, y, theta, **o: theory.kl_c(K, y, theta, C=1.0, **o),
    "margin_and_radius": lambda K, y, theta, **o: theory.margin_and_radius(K, y, theta, C=1.0, **o),
    "penalized_radius": lambda K, y, theta, **o: theory.penalized_radius(
        K, y, theta, C1=1.0, C2=1.0, **o
    ),
    "constants": lambda K, y, theta, **o: theory.penalized_radius_constants(
        K, y, theta, C=1.0, **o
    )[1],
}
LEARNERS = {
    "newton": Radius(),
    "gradient": Radius("gradient"),
    "bound": RadiusBound(),
}


def judge(K, y, solution, **options):
    return theory.radius_gap(
        K, y, solution.weights, solution.coef, solution.bias,
        dual_alpha=solution.dual_alpha, center=solution.extras["center"], **options,
    )  # fmt: skip


# --- constants added to kernels -----------------------------------------------------------------


@pytest.mark.parametrize("constant", [1e6, 1e9, 1e11, 1e12])
@pytest.mark.parametrize("learner", list(LEARNERS))
def test_a_constant_changes_nothing(constant, learner):
    """Distances between points are what they were, to the digits that are left of them."""
    problem = dense(0)
    K = problem.K.copy()
    K[0] += constant
    start = np.ones(len(K))
    plain, other = (
        learn(A, problem.y, learner=LEARNERS[learner], tol=1e-3, start=start)
        for A in (problem.K, K)
    )
    assert plain.status == "optimal"
    # rounding of 1e12 in every entry is charged to the certificate of the kernels as given
    assert other.status == "optimal" or (constant == 1e12 and other.gap < 0.02)
    assert other.objective == pytest.approx(plain.objective, rel=1e-3 + other.gap)
    theta = plain.weights
    for name, criterion in CRITERIA.items():
        expected = criterion(problem.K, problem.y, theta, tol=1e-6)
        assert criterion(K, problem.y, theta, tol=1e-6) == pytest.approx(expected, rel=1e-3), name


@pytest.mark.parametrize("constant", [0.0, 1e6, 1e11, 1e12])
def test_bounds_hold_for_kernels_with_constants(constant):
    """No weights have a value below the bound, whoever computes it."""
    problem = dense(0)
    K = problem.K + constant
    solution = learn(K, problem.y, learner="radius", tol=1e-4)
    judged = judge(K, problem.y, solution, C=1.0)
    least = learn(problem.K, problem.y, learner="radius", tol=1e-6).objective
    known = 1e-15 * constant  # how exactly K holds the differences
    assert solution.dual <= least * (1 + 1e-6 + known)
    assert judged.dual <= least * (1 + 1e-6 + known)
    assert solution.primal >= least * (1 - 1e-6 - known)
    assert abs(judged.dual - solution.dual) <= 1e-6 * least
    assert judged.gap <= 2e-4 + 10 * known


def test_predictions_with_a_constant():
    """The bias is that of the kernels as they were given."""
    problem = dense(0)
    K = problem.K + 1e7
    for learner in LEARNERS.values():
        solution = learn(K, problem.y, learner=learner, tol=1e-3)
        f = np.tensordot(solution.weights, K, axes=1) @ solution.coef + solution.bias
        slack = np.maximum(1.0 - problem.y * f, 0.0)
        R2 = solution.extras["radius"] ** 2
        energy = 0.5 * solution.coef @ np.tensordot(solution.weights, K, axes=1) @ solution.coef
        value = R2 * energy + slack.sum() * (R2 if isinstance(learner, RadiusBound) else 1.0)
        assert value == pytest.approx(solution.objective, rel=1e-4)


def test_differences_lost_in_rounding_are_reported():
    problem = dense(0)
    K = problem.K.copy()
    K[0] += 1e14
    with pytest.warns(UserWarning, match=r"K\[0\]: what varies .* lost in rounding"):
        solution = learn(K, problem.y, learner="radius")
    assert solution.weights[0] == 0.0
    with pytest.warns(UserWarning, match="K: what varies"):
        assert enclosing_ball(K[0]).radius2 == 0.0


def test_a_bound_above_the_value_is_not_hidden():
    """A bundle that lies leaves a gap, not a certificate."""
    from kernelweave.papers.gai2010.radius import _Objective
    from kernelweave.problems.problem import make_problem

    problem = dense(0)
    made = make_problem(problem.K, problem.y, 1.0, loss="hinge")
    evaluator, incumbent = opened(made, own=True)
    objective = _Objective(evaluator, incumbent, 1e-3)
    state = objective.evaluate(np.ones(5), 1e-6)
    objective.bundle.value = 2.0 * state.value
    incumbent.best, incumbent.bound = objective.step("newton", state).settled
    assert incumbent.gap == pytest.approx(0.5)


def test_kernels_blind_where_it_matters():
    """A feature that neither the support vectors nor the points on the sphere have."""
    rng = np.random.default_rng(0)
    y = labels(rng, 30)
    X = points(rng, 30, 4, y)
    inner = np.argsort((X**2).sum(axis=1))[:3]
    rare = np.zeros(30)
    rare[inner] = 1.0
    K = np.stack([gaussian(X, 1.0), gram(X), gram(rare[:, None]), gram(1.0 + rare[:, None])])
    for C in (0.1, 10.0):
        for method in ("newton", "gradient"):
            solution = learn(K, y, C=C, learner=Radius(method), tol=1e-4)
            assert solution.status == "optimal"
            assert judge(K, y, solution, C=C).gap <= 1.01e-4


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("method", ["newton", "gradient"])
def test_rare_features(method, C):
    """Both the machine and the ball have many solutions, and most slopes are zero at first."""
    rng = np.random.default_rng(1)
    y = labels(rng, 40)
    K = np.stack([np.outer(b, b) for b in (rng.random((30, 40)) < 0.1).astype(float)])
    solution = learn(K, y, C=C, learner=Radius(method))
    assert solution.status == "optimal"
    assert solution.weights.min() >= 0.0
    judged = judge(K, y, solution, C=C)
    assert judged.gap <= 1.01e-3 and judged.dual <= judged.primal


def test_hard_margin_with_a_constant():
    problem = separable(0)
    K = problem.K + 1e9
    solution = learn(K, problem.y, C=np.inf, learner="radius")
    assert solution.status == "optimal"
    assert judge(K, problem.y, solution, C=np.inf).gap <= 2e-3


# --- points that coincide -----------------------------------------------------------------------

BLIND = {
    "zero": np.zeros((2, 30, 30)),
    "ones": np.ones((2, 30, 30)),
    "tenth": np.full((1, 30, 30), 0.1),
    "several": np.full((3, 30, 30), 0.1) * np.array([1.0, 3.0, 7e-9])[:, None, None],
    "rank one": np.stack([np.outer(x, x) for x in np.full((2, 30), 0.3)]),
}


@pytest.mark.parametrize("name", list(BLIND))
def test_one_message_where_all_points_coincide(name):
    K, y = BLIND[name], dense(0).y
    everything = ", ".join(rf"K\[{k}\]" for k in range(len(K)))
    message = f"^all points coincide under {everything}: (?!.*start)"
    for learner in LEARNERS.values():
        with pytest.raises(ValueError, match=message):
            learn(K, y, learner=learner)
    for criterion in CRITERIA.values():
        with pytest.raises(ValueError, match=message):
            criterion(K, y, np.ones(len(K)))
    with pytest.raises(ValueError, match=message):
        theory.minimize_penalized_radius(K, y, C1=1.0, C2=1.0)
    for matrix in K:
        ball = enclosing_ball(matrix)
        assert ball.radius2 == ball.lower == ball.gap == 0.0


def test_blind_kernels_beside_others():
    problem = dense(0)
    n = len(problem.y)
    K = np.concatenate([np.full((1, n, n), 0.1), problem.K, np.zeros((1, n, n))])
    for method in ("newton", "gradient"):
        solution = learn(K, problem.y, learner=Radius(method), tol=1e-4)
        assert solution.status == "optimal"
        assert solution.weights[0] == solution.weights[-1] == 0.0
    with pytest.raises(ValueError, match=r"coincide under K\[0\], K\[6\]: .*leave them out"):
        learn(K, problem.y, learner="radius_bound")
    theta = np.ones(5)
    for criterion in CRITERIA.values():
        value = criterion(K, problem.y, np.concatenate([[3.0], theta, [2.0]]))
        assert value == pytest.approx(criterion(problem.K, problem.y, theta), rel=1e-6)
    found = theory.minimize_penalized_radius(K, problem.y, C1=1.0, C2=1.0, tol=1e-4)
    assert found[0] == found[-1] == 0.0 and found.any()


def test_blind_kernels_where_the_ball_has_a_ridge():
    """A ridge keeps the objective from falling to zero, so that such kernels may have weights."""
    problem = dense(0)
    K = np.concatenate([problem.K, np.ones((1, 30, 30))])
    options = {"learner": RadiusBound(ridge_in_ball=True), "loss": "squared_hinge", "C": 10.0}
    solution = learn(K, problem.y, **options)
    assert solution.status == "optimal"
    whole = np.tensordot(solution.weights, K, axes=1) + 0.1 * np.eye(30)
    radius2 = enclosing_ball(whole, tol=1e-8).radius2
    assert solution.extras["radius"] ** 2 == pytest.approx(radius2, rel=1e-6)
    with pytest.raises(ValueError, match=r"coincide under K\[0\]: (?!.*start)"):
        learn(K[-1:], problem.y, **options)


def test_weights_on_blind_kernels_alone():
    problem = dense(0)
    K = np.concatenate([problem.K, np.ones((1, 30, 30))])
    only = np.eye(6)[5]
    with pytest.raises(ValueError, match=r"start .* but for K\[5\], where all points coincide"):
        learn(K, problem.y, learner="radius", start=only)
    for criterion in CRITERIA.values():
        with pytest.raises(ValueError, match=r"weights .* but for K\[5\]"):
            criterion(K, problem.y, only)
        with pytest.raises(ValueError, match="weights must be positive for some kernel"):
            criterion(K, problem.y, np.zeros(6))


def test_estimator_on_constant_kernels():
    matrix, y = np.full((30, 30), 0.1), dense(0).y
    rows = np.arange(30)[:, None]
    for learner in ("radius", "radius_bound"):
        with pytest.raises(ValueError, match="all points coincide"):
            MKLClassifier([Precomputed(matrix)], learner=learner).fit(rows, y)


# --- scales -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-30, 1e-14, 1e30, 1e307])
def test_gaps_are_relative_at_every_scale(scale):
    K = gaussian(np.random.default_rng(1).standard_normal((40, 3)), 1.0)
    radius2 = scale * enclosing_ball(K, tol=1e-12).radius2
    for tol in (1e-3, 1e-10):
        ball = enclosing_ball(scale * K, tol=tol)
        assert ball.gap <= tol
        assert ball.gap == pytest.approx((ball.radius2 - ball.lower) / ball.radius2)
        assert ball.radius2 == pytest.approx(radius2, rel=1.1 * tol)
        assert ball.lower == pytest.approx(radius2, rel=1.1 * tol)


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**-47, 2.0**40])  # times K without rounding
def test_radius_bound_at_every_scale(scale):
    """R²J at cost C, scale a is a times that at cost aC: gaps and steps must not notice."""
    problem = dense(0)
    small = learn(scale * problem.K, problem.y, C=1.0 / scale, learner="radius_bound", tol=1e-4)
    plain = learn(problem.K, problem.y, C=1.0, learner="radius_bound", tol=1e-4)
    assert small.status == plain.status == "optimal"
    assert small.n_iter == plain.n_iter > 1
    assert small.objective == pytest.approx(plain.objective, rel=1e-6)
    small = learn(problem.K, problem.y, C=min(scale, 1.0), learner="radius_bound", tol=1e-4)
    assert small.gap == pytest.approx((small.primal - small.dual) / small.primal)
    assert small.gap <= 1e-4


# --- the projected gradient ---------------------------------------------------------------------


@pytest.mark.parametrize("norm", [1, 2, None])
def test_gradient_reaches_the_tolerance(norm):
    """Where kinks stop the projected gradient, cutting planes go on."""
    for problem in awkward():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = learn(
                problem.K, problem.y, C=problem.C, learner=Radius("gradient"), weight_norm=norm
            )
        assert found.status == "optimal", problem


@pytest.mark.parametrize("problem", [dense(0), dense(2, n=41, m=3, C=100.0)], ids=repr)
def test_gradient_does_not_see_a_trace_constraint(problem):
    """The path is the same, so that it ends at the same kernel, not only within the tolerance."""
    traces = np.trace(problem.K, axis1=1, axis2=2)
    plain = learn(problem.K, problem.y, C=problem.C, learner=Radius("gradient"))
    for options in ({"trace": 5.0}, {"trace": 1e4}, {"recenter": True}):
        other = learn(problem.K, problem.y, C=problem.C, learner=Radius("gradient"), **options)
        assert other.n_iter == plain.n_iter
        assert other.objective == pytest.approx(plain.objective, rel=1e-5)
        if "trace" in options:
            assert other.weights @ traces == pytest.approx(options["trace"])


def test_loose_tolerances():
    """However loose the tolerance, machines and balls are solved to a per mille."""
    problem = dense(0)
    for learner in LEARNERS.values():
        for tol in (1.0, 5.0, 200.0):
            found = learn(problem.K, problem.y, learner=learner, tol=tol)
            assert found.dual <= found.primal
            assert found.objective <= 2.0 * learn(problem.K, problem.y, learner=learner).objective


# --- arguments ----------------------------------------------------------------------------------

GOOD = dense(3, n=8, m=2)
ASYMMETRIC = GOOD.K + np.triu(np.ones((8, 8)), 1)
INDEFINITE = GOOD.K - 100.0 * np.eye(8)


@pytest.mark.parametrize(
    ("K", "word"),
    [
        (ASYMMETRIC, "not symmetric"),
        (INDEFINITE, "not positive semidefinite"),
        (np.where(np.eye(8), np.nan, GOOD.K), "NaN"),
        (GOOD.K[:, :, :5], "shape"),
        (GOOD.K[0], "shape"),
    ],
    ids=["asymmetric", "indefinite", "nan", "oblong", "flat"],
)
@pytest.mark.parametrize("name", list(CRITERIA))
def test_criteria_look_at_the_kernels(name, K, word):
    with pytest.raises(ValueError, match=rf"^K.*{word}"):
        CRITERIA[name](K, GOOD.y, np.ones(2))


@pytest.mark.parametrize("name", list(CRITERIA))
def test_criteria_look_at_the_rest(name):
    for weights, word in [
        (np.ones(3), "shape"),
        ([1.0, -1.0], "nonnegative"),
        ([np.nan, 1.0], "finite"),
    ]:
        with pytest.raises(ValueError, match=f"^weights must .*{word}"):
            CRITERIA[name](GOOD.K, GOOD.y, weights)
    with pytest.raises(ValueError, match=r"^y has 3 labels"):
        CRITERIA[name](GOOD.K, GOOD.y[:3], np.ones(2))
    for tol in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match=r"^tol must be positive"):
            CRITERIA[name](GOOD.K, GOOD.y, np.ones(2), tol=tol)


@pytest.mark.parametrize(
    ("K", "word"),
    [
        (ASYMMETRIC[0], "^K is not symmetric"),
        (INDEFINITE[0], "^K is not positive semidefinite"),
        (np.full((2, 2), np.nan), "^K must be finite"),
        (np.zeros((2, 3)), "^K must be a square matrix"),
        (np.zeros((0, 0)), "^K must be a square matrix"),
        (GOOD.K, "^K must be a square matrix"),
    ],
)
def test_balls_look_at_their_kernel(K, word):
    with pytest.raises(ValueError, match=word):
        enclosing_ball(K)


def test_balls_look_at_the_rest():
    for tol in (0.0, -1e-3, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"^tol must be positive"):
            enclosing_ball(GOOD.K[0], tol=tol)
    with pytest.raises(ValueError, match=r"^start must have shape \(8,\)"):
        enclosing_ball(GOOD.K[0], start=np.ones(5))
    with pytest.raises(ValueError, match=r"^start must be finite"):
        enclosing_ball(GOOD.K[0], start=np.full(8, np.nan))
    with pytest.raises(TypeError, match=r"^K must hold real numbers"):
        enclosing_ball(np.array([["a", "b"], ["b", "a"]]))
    with pytest.raises(TypeError, match=r"^K is a masked array"):
        enclosing_ball(np.ma.masked_array(np.eye(3), mask=np.eye(3) > 0))


def test_penalized_radius_looks_at_its_costs():
    for options in ({"C1": 0.0, "C2": 1.0}, {"C1": 1.0, "C2": -1.0}, {"C1": np.nan, "C2": 1.0}):
        with pytest.raises(ValueError, match=r"^C[12] must be positive"):
            theory.penalized_radius(GOOD.K, GOOD.y, np.ones(2), **options)
        with pytest.raises(ValueError, match=r"^C[12] must be positive"):
            theory.minimize_penalized_radius(GOOD.K, GOOD.y, **options)
    for start, word in ((np.ones(3), "shape"), ([1.0, -1.0], "nonnegative")):
        with pytest.raises(ValueError, match=f"^start must .*{word}"):
            theory.minimize_penalized_radius(GOOD.K, GOOD.y, C1=1.0, C2=1.0, start=start)
    with pytest.raises(ValueError, match=r"^C must be positive"):
        theory.margin_and_radius(GOOD.K, GOOD.y, np.ones(2), C=-1.0)
    with pytest.raises(ValueError, match=r"^C must be positive"):
        theory.kl_c(GOOD.K, GOOD.y, np.ones(2), C=0.0, ridge_in_ball=True)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_gap_with_a_ridge(loss):
    problem = dense(0)
    options = {"C": 2.0, "loss": loss, "ridge": 0.3}
    solution = learn(problem.K, problem.y, learner="radius", tol=1e-6, **options)
    judged = judge(problem.K, problem.y, solution, **options)
    assert judged.gap <= 1.1e-6
    assert judged.primal == pytest.approx(solution.primal, rel=1e-6)
    plain = judge(problem.K, problem.y, solution, **{**options, "ridge": 0.0})
    assert plain.gap > 1e-3


def test_gap_looks_at_its_arguments():
    problem = dense(0)
    s = learn(problem.K, problem.y, learner="radius")
    good = {
        "weights": s.weights, "coef": s.coef, "bias": s.bias,
        "dual_alpha": s.dual_alpha, "center": s.extras["center"], "C": 1.0,
    }  # fmt: skip
    for name, bad, word in [
        ("weights", -s.weights, "nonnegative"),
        ("coef", s.coef[:3], "shape"),
        ("bias", np.nan, "finite"),
        ("dual_alpha", np.full(30, np.inf), "finite"),
        ("center", -np.ones(30), "nonnegative"),
        ("center", np.zeros(30), "positive"),
        ("center", np.ones(4), "shape"),
        ("C", 0.0, "positive"),
        ("tol", 0.0, "positive"),
        ("ridge", -1.0, "≥ 0"),
    ]:
        with pytest.raises(ValueError, match=f"^{name} must .*{word}"):
            theory.radius_gap(problem.K, problem.y, **{**good, name: bad})


def test_error_bound_is_what_the_formula_says():
    good = {"n": 10_000, "margin": 0.5, "radius": 1.0, "pseudodimension": 5, "delta": 0.05}
    for name in good:
        for bad in (0, -1.0, math.nan, math.inf):
            with pytest.raises(ValueError, match=f"^{name} must be"):
                theory.estimation_error_bound(**{**good, name: bad})
    with pytest.raises(ValueError, match=r"^delta must be a probability"):
        theory.estimation_error_bound(**{**good, "delta": 2.0})
    with pytest.raises(ValueError, match="too few"):  # the root of a negative number
        theory.estimation_error_bound(**{**good, "n": 10, "margin": 0.01})
    for margin, radius in ((1e-200, 1.0), (1e-200, 1e200)):
        with pytest.raises(ValueError, match="too few"):
            theory.estimation_error_bound(**{**good, "margin": margin, "radius": radius})
    assert theory.estimation_error_bound(**{**good, "n": 1e200}) < 1e-90
    ratio = 4.0
    inside = 2 + 5 * math.log(128 * math.e * 1e12 * ratio / 5) - math.log(0.05)
    inside += 256 * ratio * math.log(math.e * 1e4 / 16) * math.log(128e4 * ratio)
    assert theory.estimation_error_bound(**good) == pytest.approx(math.sqrt(8e-4 * inside))


def test_hard_margin_from_weights_that_do_not_separate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1, -1)
    pair = np.stack([np.outer(X[:, 1], X[:, 1]), gaussian(X, 0.5)])
    for learner in (Radius(), Radius("gradient")):
        found = learn(pair, y, C=np.inf, learner=learner, start=[1, 0])
        plain = learn(pair, y, C=np.inf, learner=learner)
        assert found.status == "optimal"
        assert found.primal == pytest.approx(plain.primal, rel=2e-3)
        assert judge(pair, y, found, C=np.inf).gap <= 1.01e-3


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_value_at_extreme_scales(scale):
    value = theory.rkl(GOOD.K, GOOD.y, np.ones(2), C=1.0)
    assert theory.rkl(scale * GOOD.K, GOOD.y, np.ones(2), C=1.0) == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("seed", range(8))
def test_criteria_at_a_hard_margin(seed):
    """Without slacks (9), (10) and (11) are ½R²‖w‖² and ½‖w‖²; infinite where none separates."""
    problem = separable(seed)
    K, y = problem.K, problem.y
    solution = learn(K, y, C=np.inf, learner="radius", tol=1e-7)
    value = theory.rkl(K, y, solution.weights, C=np.inf)
    assert value == pytest.approx(solution.objective, rel=1e-6)
    for C in (1e6, 1e9, 1e12, 1e15):  # slacks are too dear, even one of rounding
        assert value == pytest.approx(theory.rkl(K, y, solution.weights, C=C), rel=1e-7)
    assert theory.kl_c(K, y, solution.weights, C=np.inf) == pytest.approx(value, rel=1e-7)
    radius2 = enclosing_ball(np.tensordot(solution.weights, K, axes=1), tol=1e-9).radius2
    margin = theory.margin_and_radius(K, y, solution.weights, C=np.inf)
    assert radius2 * margin == pytest.approx(value, rel=1e-7)
    twins = np.kron(K, np.ones((2, 2)))
    assert theory.rkl(twins, np.tile([1.0, -1.0], len(y)), solution.weights, C=np.inf) == np.inf


def test_criteria_reach_their_tolerance():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for problem in awkward():
            rng = np.random.default_rng(0)
            for theta in rng.random((5, len(problem.K))) ** 4:
                value = theory.rkl(problem.K, problem.y, theta, C=problem.C)
                K = np.tensordot(theta, problem.K, axes=1)
                K /= enclosing_ball(K, tol=1e-10).radius2
                best = learn(K[None], problem.y, C=problem.C, tol=1e-8)
                assert best.dual * (1.0 - 1e-7) <= value <= best.primal * (1.0 + 1e-7)


def test_criteria_say_where_they_do_not_reach_their_tolerance():
    """Rank-deficient kernels that do not separate: C takes more digits than there are."""
    problem = coarse(0)
    with pytest.warns(ConvergenceWarning, match=r"duality gap .* not tol=1e-12") as caught:
        theory.rkl(problem.K, problem.y, np.ones(len(problem.K)), C=1e12, tol=1e-12)
    assert caught[0].filename == __file__


def test_problem_is_frozen():
    """The kernels that were given stay as they are."""
    problem = Problem("constant", dense(0).K + 1e9, dense(0).y, 1.0)
    before = problem.K.copy()
    stack = KernelStack(problem.K)
    learn(stack, problem.y, learner="radius")
    np.testing.assert_array_equal(problem.K, before)
    assert stack.combine(np.eye(5)[0])[0, 1] == before[0, 0, 1]


@pytest.mark.parametrize("constant", [False, True])
def test_the_precision_of_kernels_is_told_whether_they_are_centered_or_not(constant):
    """float32 kernels and tol=1e-8: a constant kernel beside them does not hide the warning."""
    problem = dense(0)
    K = problem.K.astype(np.float32)
    K = np.concatenate([K, np.ones_like(K[:1])]) if constant else K
    with pytest.warns(ConvergenceWarning, match="tol=1e-08 is below the rounding of float32"):
        learn(KernelStack(K), problem.y, learner="radius", tol=1e-8)


@pytest.mark.parametrize("learner", ["radius", "radius_bound", RadiusBound(ridge_in_ball=True)])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_no_time_for_one_machine(learner, loss):
    """What is told then is the criterion at f = 0, not J."""
    problem = dense(0)
    K = 50.0 * problem.K
    with pytest.warns(ConvergenceWarning, match="max_time"):
        found = learn(K, problem.y, 10.0, learner, loss, max_time=1e-9)
    assert found.status == "max_time" and found.n_svm_solves == 0
    judged = found.certificate()
    assert found.dual == judged.dual == 0.0
    # no point is further from the mean than 2R
    assert judged.primal <= found.primal * (1.0 + 1e-9)
    assert found.primal <= (1.0 if learner == "radius" else 4.0) * judged.primal * (1.0 + 1e-9)


@pytest.mark.filterwarnings("ignore:the duality gap")
@pytest.mark.parametrize("C", [1e4, np.inf])
@pytest.mark.parametrize("learner", ["radius", "radius_bound"])
def test_what_passes_lose_is_charged(learner, C):
    """A stack that sums in float32: gap and certificate are those of the kernels as blocks give."""
    problem, unit = separable(1), float(np.finfo(np.float32).eps)
    stack = foreign(problem.K, kind=np.float32, sum_eps=unit, entry_eps=2 * unit)
    found = learn(stack, problem.y, C=C, learner=learner, tol=1e-5, max_iter=30)
    exact = learn(problem.K, problem.y, C=C, learner=learner, tol=1e-9, max_iter=200)
    true, told = replace(found, problem=exact.problem).certificate(), found.certificate()
    assert true.gap <= found.gap + 1e-9 and true.gap <= told.gap + 1e-9
    assert told.gap <= max(2.0 * found.gap, 1e-5)
    if learner == "radius":
        assert max(found.dual, told.dual) <= exact.primal and exact.dual <= found.primal


@pytest.mark.parametrize("seed", range(3))
def test_rough_sums_cannot_hide_a_constant(seed):
    """To passes whose sums err by 1e-3 the points of a constant kernel seem to differ."""

    class Rough:
        sum_eps, entry_eps = float(np.finfo(np.float32).eps), 4e-3

        def __init__(self, K):
            self.K, (self.m, self.n) = K, K.shape[:2]

        def block(self, kernel, rows, columns):
            return self.K[kernel][np.ix_(rows, columns)]

        def matvecs(self, v, rows=None, kernels=None):
            found = self.K[slice(None) if kernels is None else kernels] @ v
            found *= 1.0 + 1e-3 * np.random.default_rng(seed).uniform(-1.0, 1.0, found.shape)
            return found if rows is None else found[:, rows]

        def quad_forms(self, v, kernels=None):
            return self.matvecs(v, kernels=kernels) @ v

    problem = separable(1)
    K = np.concatenate([100.0 * np.ones_like(problem.K[:1]), problem.K])
    found = learn(Rough(K), problem.y, learner="radius", tol=1e-2)
    exact = learn(problem.K, problem.y, learner="radius", tol=1e-8)
    assert found.status == "optimal" and found.weights[0] == 0.0
    assert found.dual <= exact.primal and exact.dual <= found.primal


def test_the_sum_of_the_center_is_1_in_exact_arithmetic():
    """Times a constant of 8e12 its rounding was 1e-10 of R², whose bounds changed places."""
    size = 8.4557048217935801e12
    K = size - np.array(
        [[0.0, 6.5871e6, 1.2797e4], [6.5871e6, 0.0, 6.2887e6], [1.2797e4, 6.2887e6, 0.0]]
    )
    found = learn(K[None], np.array([-1.0, 1.0, -1.0]), C=1e-4, learner="radius_bound", tol=1e-2)
    model = found.weights, found.coef, found.bias, found.dual_alpha
    machine = certify_given(found.problem, *model)
    for told in (found, found.certificate()):
        assert told.gap >= machine.gap * (1.0 - 1e-9)


def test_a_kernel_of_noise_alone_proves_nothing():
    """A constant and noise of 1e-10: as seen from the mean, its eigenvalues have either sign."""
    rng, y = np.random.default_rng(0), np.repeat([1.0, -1.0], 5)
    noise = 1e-10 * rng.normal(size=(2, 10, 10))[0]
    X = rng.normal(size=(10, 2)) + y[:, None]
    K = np.array([1.0 + noise + noise.T, X @ X.T])
    with pytest.warns(ConvergenceWarning, match="gap reached is 1, "):
        found = learn(K, y, C=1.0, learner="radius", tol=1e-5)
    assert found.dual == 0.0 and not found.dual_alpha.any()
    assert found.certificate().gap <= found.gap
