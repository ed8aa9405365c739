"""Learners: certified and right on awkward problems, warm, repeatable, and honest when short."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from _helpers.references import (
    Problem,
    awkward,
    coarse,
    dense,
    duplicate,
    far_scaled,
    gaussian,
    imbalanced,
    labels,
    points,
    primal_optimum,
    qcqp_optimum,
    rank_one,
    separable,
    single,
    wide,
    with_zero,
)
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kernelweave import KernelStack, Solution, duality_gap, learn
from kernelweave._core.settings import SETTINGS
from kernelweave._solvers.svm import smo
from kernelweave.learners import Learner
from kernelweave.learners.alternate import Alternate
from kernelweave.learners.base import Step
from kernelweave.learners.newton import Newton
from kernelweave.learners.uniform import Uniform
from kernelweave.papers.bach2004.skm import Skm
from kernelweave.papers.lanckriet2004.qcqp import Qcqp
from kernelweave.papers.rakoto2007.silp import Silp
from kernelweave.papers.rakoto2007.simple import Simple

STEPWISE = ["simple", "silp", "newton"]  # one SVM an iteration
EXACT = [*STEPWISE, "qcqp", "skm"]


@pytest.fixture(autouse=True)
def no_unexpected_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def check(problem: Problem, found: Solution, best: float, tol: float) -> None:
    """Certified, and where an independent solver says."""
    assert found.status == "optimal"
    assert found.gap <= tol
    assert found.objective == found.primal
    slack = 2e-6 * abs(best)  # the reference's own error
    assert best - slack <= found.primal <= best + found.gap * abs(found.primal) + slack
    assert best - found.gap * abs(found.primal) - slack <= found.dual <= best + slack
    assert found.weights.shape == (len(problem.K),)
    assert found.weights.min() >= 0.0


def feasible(problem: Problem, alpha: np.ndarray, C: Any) -> None:
    assert alpha.min() >= 0.0 and (alpha <= C * (1 + 1e-12)).all()
    assert abs(problem.y @ alpha) <= 1e-10 * max(1.0, alpha.sum())


# --- awkward problems, against a conic solver ---------------------------------------------------


def test_there_are_twenty_awkward_problems_of_every_kind() -> None:
    problems = awkward()
    assert len(problems) >= 20
    kinds = {problem.name.rpartition("-")[0] for problem in problems}
    assert kinds >= {"rank-one", "duplicate", "single", "far-scaled", "wide", "nearly-identical"}
    assert any(len(problem.K) > problem.y.size for problem in problems)


@pytest.fixture(scope="module")
def optima() -> dict[str, float]:
    return {p.name: qcqp_optimum(p.K, p.y, p.C) for p in awkward()}


@pytest.mark.parametrize("learner", EXACT)
@pytest.mark.parametrize("problem", awkward(), ids=repr)
def test_awkward_problems(problem: Problem, learner: str, optima: dict[str, float]) -> None:
    found = learn(problem.K, problem.y, C=problem.C, learner=learner, tol=1e-4)
    check(problem, found, optima[problem.name], 1e-4)
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-9)
    feasible(problem, found.dual_alpha, problem.C)


@pytest.mark.parametrize("learner", EXACT)
@pytest.mark.parametrize(
    ("problem", "loss"),
    [
        (coarse(1028733368, n=9, C=20.8), "hinge"),
        (coarse(1040694746, n=7, C=5.8), "hinge"),
        (coarse(427399700, n=40, C=4416.0), "hinge"),
        (coarse(396959928, n=15, C=4.1), "squared_hinge"),
        (coarse(822911680, n=6, C=24425.0), "squared_hinge"),
        (coarse(663036069, n=12, C=8210.0), "squared_hinge"),
    ],
    ids=repr,
)
def test_kinks(problem: Problem, loss: str, learner: str) -> None:
    """Few values a feature, few points, large C: the best weights sit where faces of J meet."""
    best = qcqp_optimum(problem.K, problem.y, problem.C, loss)
    found = learn(problem.K, problem.y, C=problem.C, loss=loss, learner=learner, tol=1e-4)
    check(problem, found, best, 1e-4)


def test_silp_with_rows_many_orders_apart() -> None:
    """q of a poor point is 1e15 times that of a good one, more than an LP solver takes.

    It need not get there, but what it returns is a solution with honest bounds.
    """
    problem = far_scaled(16431966, n=14, C=69437.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = learn(problem.K, problem.y, C=problem.C, learner="silp", tol=1e-4)
    other = learn(problem.K, problem.y, C=problem.C, learner="newton", tol=1e-4)
    assert one.dual <= other.primal * (1 + 1e-6) and other.dual <= one.primal * (1 + 1e-6)
    assert (one.status == "optimal") == (one.gap <= 1e-4)


def test_silp_is_given_time() -> None:
    """Cutting planes may gain nothing for hundreds of iterations and get there all the same."""
    problem = wide(1058690288, n=55, C=13722.5)
    found = learn(problem.K, problem.y, C=problem.C, learner="silp", trace=55.0, tol=1e-3)
    assert found.status == "optimal" and found.gap <= 1e-3


@pytest.mark.parametrize("learner", EXACT)
@pytest.mark.parametrize(
    "make", [dense, rank_one, coarse, duplicate, imbalanced], ids=lambda f: f.__name__
)
def test_squared_hinge(make: Any, learner: str) -> None:
    problem = make(3)
    for C in (0.1, 10.0):
        best = qcqp_optimum(problem.K, problem.y, C, "squared_hinge")
        found = learn(problem.K, problem.y, C=C, loss="squared_hinge", learner=learner, tol=1e-5)
        check(problem, found, best, 1e-5)
        feasible(problem, found.dual_alpha, np.inf)


@pytest.mark.parametrize("learner", EXACT)
@pytest.mark.parametrize("make", [dense, rank_one, far_scaled, wide], ids=lambda f: f.__name__)
def test_trace_constraint(make: Any, learner: str) -> None:
    problem = make(8)
    traces = np.trace(problem.K, axis1=1, axis2=2)
    assert make is not far_scaled or traces.min() < 1e-12 * traces.max()
    for c in (1.0, float(problem.y.size)):
        best = qcqp_optimum(problem.K, problem.y, 10.0, trace=c)
        found = learn(problem.K, problem.y, C=10.0, trace=c, learner=learner, tol=1e-5)
        check(problem, found, best, 1e-5)
        assert found.weights @ traces == pytest.approx(c, rel=1e-9)


@pytest.mark.parametrize("learner", EXACT)
@pytest.mark.parametrize("make", [dense, rank_one, coarse], ids=lambda f: f.__name__)
def test_ridge(make: Any, learner: str) -> None:
    problem = make(5)
    for loss in ("hinge", "squared_hinge"):
        best = qcqp_optimum(problem.K, problem.y, 1.0, loss, ridge=0.05)
        found = learn(problem.K, problem.y, C=1.0, loss=loss, ridge=0.05, learner=learner, tol=1e-5)
        check(problem, found, best, 1e-5)


@pytest.mark.parametrize("learner", EXACT)
def test_per_sample_costs(learner: str) -> None:
    problem = dense(6, n=24)
    C = np.where(problem.y > 0, 5.0, 0.2) * np.linspace(0.5, 2.0, 24)
    best = qcqp_optimum(problem.K, problem.y, C)
    found = learn(problem.K, problem.y, C=C, learner=learner, tol=1e-5)
    check(problem, found, best, 1e-5)
    feasible(problem, found.dual_alpha, C)


@pytest.mark.parametrize("learner", EXACT)
@pytest.mark.parametrize("seed", range(3))
def test_hard_margin(seed: int, learner: str) -> None:
    problem = separable(seed)
    best = qcqp_optimum(problem.K, problem.y, np.inf)
    found = learn(problem.K, problem.y, C=np.inf, learner=learner, tol=1e-5)
    check(problem, found, best, 1e-5)
    margins = problem.y * found.decision_function(problem.K)
    assert margins.min() >= 1.0 - 1e-9


@pytest.mark.parametrize("learner", [*EXACT, "uniform", "alternate"])
def test_infeasible_hard_margin_is_said(learner: str) -> None:
    rng = np.random.default_rng(0)
    y = labels(rng, 40)
    X = rng.standard_normal((40, 2))
    K = np.stack([np.outer(x, x) for x in X.T])
    with pytest.raises(ValueError, match=r"C=inf asks for a hard margin.*do not separate"):
        learn(K, y, C=np.inf, learner=learner)


def test_hard_margin_where_only_some_kernels_separate() -> None:
    """The learner must find its way from weights that separate, round those that do not."""
    problem = separable(3)
    noise = np.random.default_rng(0).standard_normal((24, 2))
    K = np.concatenate([problem.K[:2], [np.outer(x, x) for x in noise.T]])
    best = qcqp_optimum(K, problem.y, np.inf)
    for learner in EXACT:
        found = learn(K, problem.y, C=np.inf, learner=learner, tol=1e-4)
        check(Problem("mixed", K, problem.y, np.inf), found, best, 1e-4)


@pytest.mark.parametrize("learner", EXACT)
def test_tight_tolerance(learner: str) -> None:
    for problem in (dense(7), coarse(0), rank_one(7), with_zero(7)):
        found = learn(problem.K, problem.y, C=1.0, learner=learner, tol=1e-7)
        check(problem, found, qcqp_optimum(problem.K, problem.y, 1.0), 1e-7)


@pytest.mark.parametrize("norm", [4 / 3, 2, 4, np.inf])
def test_lp_norms(norm: float) -> None:
    for problem in (dense(8, n=20), rank_one(8, n=20), single(8)):
        best = primal_optimum(problem.K, problem.y, 2.0, weight_norm=norm)
        found = learn(problem.K, problem.y, C=2.0, weight_norm=norm, tol=1e-5)
        check(problem, found, best, 1e-5)
        assert np.linalg.norm(found.weights, norm) == pytest.approx(1.0, abs=1e-8)


def test_alternate_on_smooth_problems() -> None:
    """The squared hinge with kernels of full rank: J has no kinks."""
    rng = np.random.default_rng(0)
    y = labels(rng, 30)
    X = points(rng, 30, 4, y)
    K = np.stack([gaussian(X, width) for width in (0.5, 1.0, 2.0)])
    problem = Problem("smooth", K, y, 1.0)
    best = qcqp_optimum(K, y, 1.0, "squared_hinge")
    found = learn(K, y, C=1.0, loss="squared_hinge", learner="alternate", tol=1e-3)
    check(problem, found, best, 1e-3)
    ridged = learn(K, y, C=1.0, ridge=0.1, learner="alternate", tol=1e-3)
    check(problem, ridged, qcqp_optimum(K, y, 1.0, ridge=0.1), 1e-3)


def test_alternate_from_a_vanished_weight() -> None:
    """A weight of zero at the start is no trap."""
    rng = np.random.default_rng(0)
    y = labels(rng, 30)
    X = points(rng, 30, 4, y)
    K = np.stack([gaussian(X, width) for width in (0.5, 2.0)])
    start = np.eye(2)[int(np.argmax(learn(K, y, loss="squared_hinge").weights)) - 1]
    found = learn(K, y, loss="squared_hinge", learner="alternate", start=start, tol=1e-2)
    best = qcqp_optimum(K, y, 1.0, "squared_hinge")
    check(Problem("trap", K, y, 1.0), found, best, 1e-2)


def test_uniform() -> None:
    for problem in (dense(9), rank_one(9), far_scaled(9)):
        m = len(problem.K)
        found = learn(problem.K, problem.y, C=2.0, learner="uniform", tol=1e-6)
        assert (found.weights == 1.0 / m).all()
        assert found.n_svm_solves == 1
        alone = qcqp_optimum(problem.K.mean(axis=0)[None], problem.y, 2.0)
        check(problem, found, alone, 1e-6)
    # how far equal weights are from the best ones
    found = learn(rank_one(9).K, rank_one(9).y, C=2.0, learner="uniform", tol=1e-6)
    full = duality_gap(rank_one(9).K, rank_one(9).y, found.weights, found.coef, found.bias, C=2.0)
    assert full.primal == pytest.approx(found.primal, rel=1e-9)
    assert full.gap > 0.01


def test_learned_C() -> None:
    """C = "learn" is the identity as one kernel more, under a trace constraint."""
    problem = dense(10, n=20)
    K = np.concatenate([problem.K, np.eye(20)[None]])
    best = qcqp_optimum(K, problem.y, np.inf, trace=20.0)
    found = learn(problem.K, problem.y, C="learn", loss="squared_hinge", tol=1e-5)
    check(problem, found, best, 1e-5)
    total = found.weights @ np.trace(problem.K, axis1=1, axis2=2) + 20.0 / found.C
    assert total == pytest.approx(20.0, rel=1e-9)


def test_recentered_trace() -> None:
    problem = dense(11, n=20)
    H = np.eye(20) - 1.0 / 20
    centered = np.array([np.trace(H @ K @ H) for K in problem.K])
    found = learn(problem.K, problem.y, C=1.0, recenter=True, tol=1e-5)
    assert found.weights @ centered == pytest.approx(centered.mean(), rel=1e-9)
    scaled = problem.K * (centered.mean() / centered)[:, None, None]
    check(problem, found, qcqp_optimum(scaled, problem.y, 1.0), 1e-5)


def test_auto_is_certified_too() -> None:
    problem = rank_one(10)
    found = learn(problem.K, problem.y)
    check(problem, found, qcqp_optimum(problem.K, problem.y, 1.0), 1e-3)


# --- what a solution holds ----------------------------------------------------------------------


@pytest.mark.parametrize("learner", [*EXACT, "uniform"])
def test_solution(learner: str) -> None:
    problem = dense(12)
    began = time.perf_counter()
    found = learn(problem.K, problem.y, C=3.0, learner=learner, tol=1e-4)
    assert 0.0 < found.seconds <= time.perf_counter() - began
    assert found.alpha == pytest.approx(problem.y * found.coef, rel=1e-15)
    f = found.decision_function(problem.K[:, :7])
    by_hand = np.einsum("k,kij,j->i", found.weights, problem.K[:, :7], found.coef) + found.bias
    assert f == pytest.approx(by_hand, rel=1e-12)
    assert found.gap == pytest.approx((found.primal - found.dual) / found.primal, rel=1e-9)
    assert found.C == 3.0
    with pytest.raises(FrozenInstanceError):
        found.bias = 1.0  # type: ignore[misc]
    copy = pickle.loads(pickle.dumps(found))
    assert (copy.weights == found.weights).all() and copy.gap == found.gap


def test_decision_function_names_what_it_needs() -> None:
    found = learn(dense(0).K, dense(0).y)
    for wrong in (np.ones((5, 30)), np.ones((4, 3, 30)), np.ones((5, 3, 29))):
        with pytest.raises(ValueError, match=r"K_cross must have shape \(5, n_new, 30\), found"):
            found.decision_function(wrong)


@pytest.mark.parametrize("learner", [*STEPWISE, "alternate"])
def test_history(learner: str) -> None:
    problem = rank_one(1, m=12)
    found = learn(problem.K, problem.y, C=1.0, learner=learner, tol=0.05)
    history = found.history
    assert set(history) == {"weights", "objective", "gap", "seconds", "n_svm_solves", "by"}
    assert found.n_iter >= 2
    assert history["weights"].shape == (found.n_iter, 12)
    for name in ("objective", "gap", "seconds", "n_svm_solves"):
        assert history[name].shape == (found.n_iter,), name
    assert (history["weights"].sum(axis=1) == pytest.approx(1.0, abs=1e-9)) is True
    falls = np.diff(history["objective"])
    assert (falls <= 1e-9 * found.primal).all()  # the best so far; rounding charged to the last
    narrow = history["gap"][history["gap"] <= 1.0]  # above 1 the dual bound is negative still
    assert narrow.size >= 2 and (np.diff(narrow) <= 1e-12).all()
    assert (np.diff(history["seconds"]) >= 0.0).all() and history["seconds"][0] > 0.0
    assert (np.diff(history["n_svm_solves"]) >= 0).all()
    assert history["n_svm_solves"][-1] == found.n_svm_solves
    assert history["seconds"][-1] <= found.seconds
    assert history["objective"][-1] == found.primal
    assert (history["weights"][-1] == found.weights).all()
    assert history["gap"][-1] <= 0.05 < history["gap"][-2]


@pytest.mark.parametrize("learner", [*EXACT, "uniform", "alternate"])
def test_every_solve_is_counted(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    solve = smo.solve

    def counting(*args: Any, **options: Any) -> Any:
        calls.append(None)
        return solve(*args, **options)

    monkeypatch.setattr(smo, "solve", counting)
    found = learn(dense(0).K, dense(0).y, learner=learner, tol=0.05)
    assert found.n_svm_solves == len(calls) > 0


# --- honesty ------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [*EXACT, "alternate"])
def test_warns_exactly_when_tol_is_not_reached(learner: str) -> None:
    problem = rank_one(1, m=12)
    with pytest.warns(ConvergenceWarning) as caught:
        short = learn(problem.K, problem.y, C=10.0, learner=learner, tol=1e-6, max_iter=1)
    assert len(caught) == 1
    assert short.status == "max_iter" and short.n_iter == 1 and short.gap > 1e-6
    message = str(caught[0].message)
    assert f"{short.gap:.2g}" in message and "tol=1e-06" in message and "'max_iter'" in message
    assert caught[0].filename == __file__
    best = qcqp_optimum(problem.K, problem.y, 10.0)
    assert short.dual <= best * (1 + 1e-6) and short.primal >= best * (1 - 1e-6)
    loose = learn(problem.K, problem.y, C=10.0, learner=learner, tol=short.gap * 1.01, max_iter=1)
    assert loose.status == "optimal"  # and no warning, or it would have been an error


def test_a_learner_that_gives_up_says_so() -> None:
    """Without the bundle the reduced gradient stalls at a kink."""
    problem = coarse(1)
    with pytest.warns(ConvergenceWarning, match="'stopped'"):
        found = learn(problem.K, problem.y, C=10.0, learner=Simple(finish=False), tol=1e-6)
    assert found.status == "stopped" and found.gap > 1e-6


def test_history_says_whose_steps_are_whose() -> None:
    """The reduced gradient begins; where it stalls the bundle goes on, and keeps at it."""
    problem = coarse(1)
    found = learn(problem.K, problem.y, C=10.0, learner=Simple(), tol=1e-6)
    by = list(found.history["by"])
    first = by.index("bundle")
    assert found.status == "optimal" and found.history["gap"][first - 1] > 1e-6
    assert first > 0 and set(by[:first]) == {"simple"} and set(by[first:]) == {"bundle"}


@pytest.mark.parametrize("cls", [Simple, Silp])
def test_small_change_stops_as_in_the_paper(cls: Any) -> None:
    """The rule is met by the last two weights, by no earlier ones, and the last are returned."""
    problem = dense(3, n=60, m=8)
    found = learn(problem.K, problem.y, C=10.0, learner=cls(stop="change"), tol=1e-9)
    assert found.status == "rule_met" and found.gap > 1e-9
    moved = np.abs(np.diff(found.history["weights"], axis=0)).max(axis=1)
    assert moved[-1] < 0.01 <= moved[:-1].min()
    assert (found.weights == found.history["weights"][-1]).all()
    with pytest.raises(ValueError, match="stop must be 'gap' or 'change', found 'never'"):
        learn(problem.K, problem.y, learner=cls(stop="never"))


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_simplemkl_alone_gets_there_where_j_is_smooth(seed: int, drop: bool) -> None:
    """Nothing but the steps of the paper; kernels of full rank have no kinks."""
    problem = dense(seed, n=40, m=12)
    K = problem.K + 0.1 * np.eye(40)
    best = qcqp_optimum(K, problem.y, 10.0)
    learner = Simple(drop=drop, finish=False)
    found = learn(K, problem.y, C=10.0, learner=learner, tol=1e-4, max_iter=3000)
    check(problem, found, best, 1e-4)
    assert set(found.history["by"]) == {"simple"}
    assert (np.diff(found.history["objective"]) <= 1e-4 * best).all()  # J falls


def test_simplemkl_takes_the_step_of_the_paper() -> None:
    """e goes along the reduced gradient to where J is least, which a fine grid confirms."""
    problem = dense(4, n=40, m=5)
    learner = Simple(finish=False)
    with pytest.warns(ConvergenceWarning):
        found = learn(problem.K, problem.y, C=10.0, learner=learner, tol=1e-8, max_iter=2)
    e, after = found.history["weights"]

    def value(weights: np.ndarray) -> Solution:
        K = np.tensordot(weights, problem.K, 1)
        return learn(K[None], problem.y, C=10.0, learner="uniform", tol=1e-8)

    v = value(e).coef
    gradient = -0.5 * np.array([v @ K @ v for K in problem.K])
    direction = gradient[0] - gradient  # of five equal weights the first counts as the largest
    direction[0] = -direction.sum()
    step = (after - e) @ direction / (direction @ direction)
    assert after == pytest.approx(e + step * direction, abs=1e-5)
    longest = (-e / direction)[direction < 0.0].min()
    grid = [value(e + t * direction).primal for t in np.linspace(0.0, longest, 50)]
    assert value(after).primal <= min(grid) * (1 + 1e-4)


def test_float32_cannot_reach_every_tolerance() -> None:
    problem = dense(2, n=41, m=3)
    stack = KernelStack(problem.K, dtype=np.float32)
    exact = learn(problem.K, problem.y, C=10.0, tol=1e-4)
    close = learn(stack, problem.y, C=10.0, tol=1e-4)
    assert close.primal == pytest.approx(exact.primal, rel=1e-3)
    with pytest.warns(ConvergenceWarning, match="tol=1e-12"):
        learn(stack, problem.y, C=10.0, tol=1e-12)


@pytest.mark.parametrize("n_jobs", [None, 1])
@pytest.mark.parametrize(
    "given",
    [
        lambda K: K.astype(np.float32),
        lambda K: list(K.astype(np.float32)),
        lambda K: KernelStack(K, dtype=np.float32),
        lambda K: KernelStack(K.astype(np.float32)).restrict(slice(None)).select([0, 2, 1]),
    ],
    ids=["array", "list", "stack", "kept in float64"],
)
def test_the_rounding_of_kernels_is_that_of_the_numbers(given: Any, n_jobs: int | None) -> None:
    """However kernels come and whoever works on them: tol is too small for float32 or it is not."""
    problem = dense(2, n=41, m=3)
    told = "tol=1e-08 is below the rounding of float32 kernels.*, or float64"
    with pytest.warns(ConvergenceWarning, match=told):
        learn(given(problem.K), problem.y, C=10.0, tol=1e-8, n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(given(problem.K), problem.y, C=10.0, tol=1e-6, n_jobs=n_jobs)
        learn(problem.K, problem.y, C=10.0, tol=1e-8, n_jobs=n_jobs)


# --- continuing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", EXACT)
@pytest.mark.parametrize("problem", awkward(), ids=repr)
def test_refit_from_its_own_solution(problem: Problem, learner: str) -> None:
    first = learn(problem.K, problem.y, C=problem.C, learner=learner, tol=1e-4)
    again = learn(problem.K, problem.y, C=problem.C, learner=learner, tol=1e-4, start=first)
    assert again.n_svm_solves <= 2
    assert again.gap <= 1e-4
    assert again.primal <= first.primal * (1 + 1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("options", [{"trace": 5.0}, {"ridge": 0.1}, {"weight_norm": 2}], ids=str)
def test_refit_with_other_options(options: dict[str, Any], loss: str) -> None:
    problem = dense(0)
    options = {"C": 2.0, "loss": loss, "tol": 1e-4, **options}
    first = learn(problem.K, problem.y, **options)
    again = learn(problem.K, problem.y, start=first, **options)
    assert again.n_svm_solves <= 2


@pytest.mark.parametrize("learner", EXACT)
def test_start_from_weights(learner: str) -> None:
    problem = dense(0)
    best = qcqp_optimum(problem.K, problem.y, 1.0)
    good = learn(problem.K, problem.y, learner=learner, tol=1e-4).weights
    for start in (good, 7.0 * good, np.eye(5)[3], [1, 2, 3, 4, 5]):
        found = learn(problem.K, problem.y, learner=learner, tol=1e-4, start=start)
        check(problem, found, best, 1e-4)


def test_start_from_another_C_and_learner() -> None:
    problem = dense(0)
    start = learn(problem.K, problem.y, C=100.0, learner="silp", tol=1e-4)
    for C in (0.01, 1.0, 1e4):
        found = learn(problem.K, problem.y, C=C, learner="simple", tol=1e-5, start=start)
        check(problem, found, qcqp_optimum(problem.K, problem.y, C), 1e-5)


def test_a_bad_start_does_not_forge_the_certificate() -> None:
    """dual_alpha of another problem is repaired before it proves anything."""
    problem, other = dense(0), dense(1, n=30, m=5, C=100.0)
    start = learn(other.K, other.y, C=100.0)
    found = learn(problem.K, problem.y, C=0.5, tol=1e-5, start=start)
    check(problem, found, qcqp_optimum(problem.K, problem.y, 0.5), 1e-5)


def test_silp_from_simple() -> None:
    problem = rank_one(1, m=12)
    found = learn(problem.K, problem.y, learner=Silp(warm_start=True), tol=1e-4)
    check(problem, found, qcqp_optimum(problem.K, problem.y, 1.0), 1e-4)
    by = list(found.history["by"])
    first = by.index("silp")
    assert first > 0 and set(by[:first]) == {"simple"} and set(by[first:]) == {"silp"}
    assert found.history["gap"][first - 1] > 0.3


def test_silp_from_simple_without_staying_near_solves_at_the_weights_of_the_programs() -> None:
    """As the paper proposes it: from the first linear program on, the vertices are those of J."""
    problem = rank_one(1, m=12)
    learners = {near: Silp(warm_start=True, stay_near=near) for near in (None, True, False)}
    found = {
        near: learn(problem.K, problem.y, learner=learner, tol=1e-4)
        for near, learner in learners.items()
    }
    for one in found.values():
        check(problem, one, qcqp_optimum(problem.K, problem.y, 1.0), 1e-4)
    assert found[None].n_iter == found[True].n_iter != found[False].n_iter
    assert set(found[False].history["by"]) == {"simple", "silp"}


def test_starting_silp_from_simple_saves_linear_programs() -> None:
    """A third and more, and machines too; of one, the vertices that HiGHS picks may decide."""
    cold, warm = np.zeros(2), np.zeros(2)
    for problem in map(coarse, range(8)):
        options = {"C": 10.0, "tol": 1e-4}
        for learner, counts in ((Silp(), cold), (Silp(warm_start=True), warm)):
            found = learn(problem.K, problem.y, learner=learner, **options)
            counts += list(found.history["by"]).count("silp"), found.n_svm_solves
    assert warm[0] < 0.67 * cold[0] and warm[1] < cold[1]


# --- repeatable ---------------------------------------------------------------------------------


def same_bits(one: Solution, other: Solution) -> bool:
    arrays = ("weights", "coef", "alpha", "dual_alpha")
    numbers = ("bias", "primal", "dual", "gap", "n_iter", "n_svm_solves", "status")
    return all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays) and all(
        getattr(one, x) == getattr(other, x) for x in numbers
    )


@pytest.mark.parametrize("learner", [*EXACT, "uniform", "alternate"])
def test_same_input_same_bits(learner: str) -> None:
    problem = dense(1, n=40, m=9)
    one, other = (learn(problem.K, problem.y, learner=learner, tol=0.01) for _ in range(2))
    assert same_bits(one, other)
    assert same_bits(one, learn(KernelStack(problem.K), problem.y, learner=learner, tol=0.01))
    assert same_bits(one, learn(np.asfortranarray(problem.K), problem.y, learner=learner, tol=0.01))


@pytest.fixture
def always_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "worth_threads", 0)


@pytest.mark.parametrize("learner", [*EXACT, "alternate"])
def test_same_bits_for_every_n_jobs(learner: str, always_threads: None) -> None:
    problem = dense(1, n=90, m=11)
    one, two = (
        learn(problem.K, problem.y, learner=learner, tol=0.01, n_jobs=n_jobs) for n_jobs in (1, 2)
    )
    assert same_bits(one, two)
    assert same_bits(one, learn(problem.K, problem.y, learner=learner, tol=0.01))


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_under_joblib(backend: str) -> None:
    jobs = [
        delayed(learn)(problem.K, problem.y, learner=learner, tol=1e-4, n_jobs=2)
        for problem in (dense(seed, n=40, m=4) for seed in range(4))
        for learner in EXACT
    ]
    expected = [function(*args, **options) for function, args, options in jobs]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        found = Parallel(n_jobs=2, backend=backend)(jobs)
    assert all(same_bits(one, other) for one, other in zip(expected, found, strict=True))


# --- learner objects ----------------------------------------------------------------------------

OBJECTS = [
    Uniform(),
    Simple(small=1e-3, stop="change", drop=True, finish=False),
    Silp(warm_start=True),
    Alternate(floor=1e-4),
    Newton(warm_up=2),
    Qcqp(form="machine", batch=3),
    Skm(mu=0.25, stop="optimality"),
]


@pytest.mark.parametrize("learner", OBJECTS, ids=repr)
def test_learner_objects_are_their_parameters(learner: Any) -> None:
    params = learner.get_params()
    copy = clone(learner)
    assert copy is not learner and type(copy) is type(learner)
    assert copy.get_params() == params
    assert type(learner)().set_params(**params).get_params() == params
    assert eval(repr(learner)).get_params() == params
    with pytest.raises(
        ValueError, match=f"Invalid parameter 'nonsense' for {type(learner).__name__}"
    ):
        learner.set_params(nonsense=1)
    if params:
        name = sorted(params)[0]
        assert copy.set_params(**{name: 0.5}) is copy
        assert getattr(copy, name) == 0.5 and learner.get_params() == params


@pytest.mark.parametrize(
    ("name", "learner"),
    [
        ("uniform", Uniform()),
        ("simple", Simple()),
        ("silp", Silp()),
        ("alternate", Alternate()),
        ("newton", Newton()),
        ("qcqp", Qcqp()),
        ("skm", Skm()),
    ],
)
def test_names_are_objects_with_defaults(name: str, learner: Any) -> None:
    problem = dense(0)
    assert same_bits(
        learn(problem.K, problem.y, learner=name, tol=0.05),
        learn(problem.K, problem.y, learner=learner, tol=0.05),
    )


def test_learners_keep_nothing_of_a_fit() -> None:
    learner = Simple()
    before = dict(vars(learner))
    learn(dense(0).K, dense(0).y, learner=learner)
    assert vars(learner) == before


def test_small_weights_are_cut() -> None:
    problem = rank_one(1, m=12)
    found = learn(problem.K, problem.y, learner=Simple(small=0.05, stop="change"))
    weights = found.weights[found.weights > 0.0]
    assert weights.min() >= 0.05


def test_a_learner_of_ones_own() -> None:
    class Corners(Learner):
        """Tries every kernel alone."""

        def iterate(self, evaluator, incumbent, e: np.ndarray, tol: float) -> Iterator[Step]:
            for corner in np.eye(e.size):
                point = evaluator.solve(corner, 0.1 * tol)
                incumbent.offer_bound(evaluator.bound(point.v, point.q))
                yield Step("corners")

    problem = dense(0)
    with pytest.warns(ConvergenceWarning, match="'stopped'"):
        found = learn(problem.K, problem.y, learner=Corners(), tol=1e-4)
    best = min(qcqp_optimum(K[None], problem.y, 1.0) for K in problem.K)
    assert found.primal == pytest.approx(best, rel=2e-4)
    assert found.n_svm_solves == 5 and sorted(found.weights) == [0, 0, 0, 0, 1]


def test_silp_says_that_time_ran_out_and_not_before() -> None:
    """HiGHS counts the seconds of all linear programs; thousands would follow."""
    rng = np.random.default_rng(1)
    F = rng.standard_normal((500, 40, 5))
    y = np.where(rng.random(40) > 0.5, 1.0, -1.0)
    learn(F[:2] @ F[:2].swapaxes(1, 2), y, learner="silp")  # compiles
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="max_time"):
        found = learn(F @ F.swapaxes(1, 2) / 5, y, learner="silp", max_time=0.6)
    assert found.status == "max_time"
    assert time.perf_counter() - began >= 0.6


def test_silp_without_highs_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "highspy", None)
    with pytest.raises(ImportError, match="'silp' needs highspy, the extra 'lp': pip install"):
        learn(dense(0).K, dense(0).y, learner="silp")


def test_silp_ends_truthfully_where_highs_finds_no_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = dense(0)
    monkeypatch.setattr("highspy.Highs.getModelStatus", lambda self: None)
    with pytest.warns(ConvergenceWarning, match="gap"):
        found = learn(problem.K, problem.y, C=problem.C, learner="silp", tol=1e-6)
    assert found.status == "stopped" and found.n_svm_solves == 1
    best = qcqp_optimum(problem.K, problem.y, problem.C)
    assert found.dual <= best <= found.primal and found.gap > 1e-6


def test_silp_refuses_other_norms_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smo, "solve", lambda *_: pytest.fail("solved something"))
    with pytest.raises(ValueError, match="needs weight_norm=1, found 2"):
        learn(dense(0).K, dense(0).y, learner="silp", weight_norm=2)


def test_verbose_speaks_once_an_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    found = learn(dense(0).K, dense(0).y, tol=1e-2)
    assert capsys.readouterr() == ("", "")
    found = learn(dense(0).K, dense(0).y, tol=1e-2, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == found.n_iter
    assert lines[-1].startswith(f"[kernelweave] iteration {found.n_iter}: objective ")
    assert f"gap {found.history['gap'][-1]:.2e}" in lines[-1]
