"""The support kernel machine: the learner, its optimality conditions, its bounds, its forms."""

from __future__ import annotations

import pickle
import warnings

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import (
    Problem,
    coarse,
    dense,
    duplicate,
    factor,
    far_scaled,
    nearly_identical,
    qcqp_optimum,
    rank_one,
    separable,
    solve,
    wide,
)
from sklearn.exceptions import ConvergenceWarning

from kernelweave import KernelStack, duality_gap, learn
from kernelweave.papers.bach2004 import _smo as skm_smo
from kernelweave.papers.bach2004 import theory
from kernelweave.papers.bach2004._moreau_yosida import regularize
from kernelweave.papers.bach2004._pairs import Target
from kernelweave.papers.bach2004.general import support_kernel_machine
from kernelweave.papers.bach2004.skm import Skm
from kernelweave.problems.losses import hinge
from kernelweave.problems.problem import make_problem

PROBLEMS = [dense(0), dense(2, n=41, m=3, C=100.0), rank_one(0), duplicate(0), wide(0)]


def pair(found):
    """α and η of the last regularized machine."""
    return found.extras["alpha"], found.extras["eta"]


# --- the learner --------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.1, 0.5, 0.8])
def test_any_schedule_gets_there(mu: float) -> None:
    problem = dense(0)
    found = learn(problem.K, problem.y, learner=Skm(mu=mu), tol=1e-5)
    assert found.status == "optimal" and found.gap <= 1e-5
    best = qcqp_optimum(problem.K, problem.y, 1.0)
    assert found.primal == pytest.approx(best, rel=2e-5)


def test_kappa_falls_as_the_paper_says() -> None:
    problem = dense(2, n=41, m=3, C=100.0)
    found = learn(problem.K, problem.y, C=100.0, learner=Skm(mu=0.5), tol=1e-5)
    assert found.extras["kappa"] == 0.5 ** (found.n_iter - 1)


@pytest.mark.parametrize("tol", [0.5, 1e-3, 1e-12])
@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_optimality_of_the_paper_stops_it(problem: Problem, tol: float) -> None:
    """With the paper's tolerances, whatever the gap; what was attained is said, and true."""
    K, y, C, n = problem.K, problem.y, problem.C, problem.y.size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = learn(K, y, C=C, learner=Skm(stop="optimality"), tol=tol)
    assert found.status == "rule_met"
    assert found.extras["eps1"] <= 5e-4 and found.extras["eps2"] <= 1e-4
    attained = theory.attained_optimality(
        make_problem(K, y, C=C), found.extras["alpha"], found.extras["eta"]
    )
    assert attained[0] <= 5e-4 * n and attained[1] <= 1e-4 * (1 + 1e-6)
    assert found.n_iter < 20
    judged = duality_gap(
        K, y, found.weights, found.coef, found.bias, C=C, dual_alpha=found.dual_alpha
    )
    assert found.gap == pytest.approx(judged.gap, rel=1e-6, abs=1e-12)
    best = qcqp_optimum(K, y, C)
    # (ε₁, ε₂)-optimality bounds the objective: ε₁ + 2ε₂ Σα at the most [by convexity]
    slack = 5e-4 * n + 2e-4 * min(n * C, 2.0 * best)
    assert found.dual >= best - slack - 1e-6 * abs(best)


def test_optimality_stops_it_no_later_than_it_holds() -> None:
    """Every machine before the last misses a tolerance."""
    problem, seen = dense(0), []
    for rounds in range(1, 20):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            learner = Skm(stop="optimality")
            found = learn(problem.K, problem.y, learner=learner, max_iter=rounds)
        seen.append(found.extras["eps1"] <= 5e-4 and found.extras["eps2"] <= 1e-4)
        assert (found.status == "rule_met") == seen[-1]
        if found.n_iter < rounds:
            break
    assert seen[-2:] == [True, True] and not any(seen[:-2])


def test_optimality_out_of_reach_is_said() -> None:
    """Rounding ends the machines; the gap reached is tol all the same."""
    problem, learner = dense(0), Skm(eps1=1e-30, eps2=1e-30, stop="optimality")
    with pytest.warns(ConvergenceWarning, match=r"stopping rule of Skm\(eps1.*not met.*'stopped'"):
        found = learn(problem.K, problem.y, learner=learner)
    assert found.status == "stopped" and found.gap <= 1e-3


def test_optimality_is_asked_of_a_start_too() -> None:
    problem = dense(0)
    first = learn(problem.K, problem.y, learner="skm", tol=1e-3)
    found = learn(problem.K, problem.y, learner=Skm(stop="optimality"), start=first, tol=1e-3)
    assert found.status == "rule_met"
    assert found.extras["eps1"] <= 5e-4 and found.extras["eps2"] <= 1e-4


@pytest.mark.parametrize("stop", ["gap", "optimality"])
@pytest.mark.parametrize("kind", ["one kernel", "one zero kernel", "one SVM", "start"])
def test_the_pair_is_there_for_every_problem(kind: str, stop: str) -> None:
    problem, start = dense(0), None
    K = problem.K[:1] if kind.startswith("one k") else problem.K
    K = np.zeros((1, 30, 30)) if kind == "one zero kernel" else K
    K = np.repeat(K[:1], 3, axis=0) if kind == "one SVM" else K
    if kind == "start":
        start = learn(K, problem.y, learner="newton", tol=1e-6)
    found = learn(K, problem.y, learner=Skm(stop=stop), start=start, tol=1e-3)
    assert found.status == ("optimal" if stop == "gap" else "rule_met") and found.gap <= 2e-2
    assert set(found.extras) == {"alpha", "eta", "eps1", "eps2", "kappa"}
    eps1, eps2 = theory.attained_optimality(
        make_problem(K, problem.y, C=1.0), found.extras["alpha"], found.extras["eta"]
    )
    assert eps1 == pytest.approx(30 * found.extras["eps1"], abs=1e-12)
    assert eps2 == pytest.approx(found.extras["eps2"], abs=1e-9)
    if stop == "gap" and kind != "one SVM":
        assert found.n_iter == 1 and found.n_svm_solves == (start is None)


def test_the_pair_of_the_paper_and_what_it_attains() -> None:
    problem = dense(0)
    found = learn(problem.K, problem.y, learner="skm", tol=1e-5)
    alpha, eta = found.extras["alpha"], found.extras["eta"]
    eps1, eps2 = theory.attained_optimality(make_problem(problem.K, problem.y, C=1.0), alpha, eta)
    assert eps1 / 30 == pytest.approx(found.extras["eps1"], rel=1e-9)
    assert eps2 == pytest.approx(found.extras["eps2"], rel=1e-6)
    assert duality_gap(problem.K, problem.y, eta, problem.y * alpha, found.bias, C=1.0).gap < 1e-3


def test_a_kernel_left_out_comes_back() -> None:
    """The start gives weight to one poor kernel only; what it hides is found."""
    problem = dense(0)
    best = qcqp_optimum(problem.K, problem.y, 1.0)
    for start in np.eye(5):
        found = learn(problem.K, problem.y, learner="skm", start=start, tol=1e-4)
        assert found.status == "optimal"
        assert found.primal == pytest.approx(best, rel=2e-4)


def test_the_bundle_takes_over_where_the_path_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were regularization never to fall, the cuts of the machines so far would have to do."""
    solve_at = skm_smo.solve

    def regularized(rows, target, qp, *rest, **options):  # type: ignore[no-untyped-def]
        return solve_at(rows, target._replace(a=target.d.copy()), qp, *rest, **options)

    monkeypatch.setattr(skm_smo, "solve", regularized)
    problem = coarse(0)
    found = learn(problem.K, problem.y, learner="skm", tol=1e-4)
    assert found.status == "optimal" and found.n_iter > 5
    assert found.primal == pytest.approx(qcqp_optimum(problem.K, problem.y, 1.0), rel=1e-4)


@pytest.mark.parametrize(
    ("problem", "loss"), [(rank_one(200), "hinge"), (coarse(302), "squared_hinge")], ids=repr
)
def test_no_path_where_machines_cannot_be_solved(
    problem: Problem, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left soon for the bundle; it took millions of pair steps."""
    solve_at, steps = skm_smo.solve, []

    def counted(*args, **options):  # type: ignore[no-untyped-def]
        inner = solve_at(*args, **options)
        steps.append(inner.steps)
        return inner

    monkeypatch.setattr(skm_smo, "solve", counted)
    found = learn(problem.K, problem.y, C=1e6, learner="skm", tol=1e-4, loss=loss)
    assert found.status == "optimal" and sum(steps) < 200_000


def test_nothing_to_choose_from() -> None:
    """Kernels that say the same of every point."""
    y = np.repeat([-1.0, 1.0], 6)
    found = learn(np.ones((2, 12, 12)), y, learner="skm", tol=1e-6)
    assert found.status == "optimal" and found.primal == pytest.approx(12.0)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (Skm(mu=1.0), "mu must lie between 0 and 1, found 1.0"),
        (Skm(mu=0.0), "mu must be positive, found 0.0"),
        (Skm(eps1=0.0), "eps1 must be positive, found 0.0"),
        (Skm(eps2="small"), "eps2 must be a positive float, found 'small'"),
        (Skm(stop="never"), "stop must be 'gap' or 'optimality', found 'never'"),
        (Skm(a=[1.0, 2.0]), r"a must have shape \(5,\), found \(2,\)"),
        (Skm(a=np.zeros(5)), "a must hold positive numbers, found 0"),
    ],
)
def test_bad_knobs(learner: Skm, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        learn(dense(0).K, dense(0).y, learner=learner)
    if learner.a is None:
        with pytest.raises((TypeError, ValueError), match=message):
            learn(dense(0).K[:1], dense(0).y, learner=learner)


def test_other_norms_are_refused_before_any_work() -> None:
    with pytest.raises(ValueError, match=r"Skm\(\) needs weight_norm=1, found 2"):
        learn(dense(0).K, dense(0).y, learner="skm", weight_norm=2)


# --- any a and d ----------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_any_regularization_leads_to_the_same_machine(problem: Problem) -> None:
    a = np.random.default_rng(0).uniform(0.3, 3.0, len(problem.K))
    found = learn(problem.K, problem.y, C=problem.C, learner=Skm(a=a), tol=1e-5)
    assert found.status == "optimal"
    best = qcqp_optimum(problem.K, problem.y, problem.C)
    assert found.primal == pytest.approx(best, rel=2e-5)


def test_regularization_is_that_asked_for() -> None:
    """The last machine's (α, η̃) is the one that a = κ/(1 − κ)·shape gives."""
    problem, shape = dense(0), np.linspace(0.5, 2.0, 5)
    found = learn(problem.K, problem.y, learner=Skm(a=shape), tol=1e-3)
    kappa = found.extras["kappa"]
    v = problem.y * found.extras["alpha"]
    sizes = np.sqrt(np.einsum("i,kij,j->k", v, problem.K, v))
    expected = regularize(sizes, kappa / (1.0 - kappa) * shape, np.ones(5)).eta_tilde
    assert found.extras["eta"] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("a", [None, np.linspace(2.0, 0.3, 5)])
def test_any_d(a: np.ndarray | None) -> None:
    """(D_K) as the paper writes it, by a conic solver; η has Σ d_j²η_j = 1 and certifies it."""
    problem, d = dense(0), np.linspace(0.5, 2.0, 5)
    alpha, gamma = cp.Variable(30, nonneg=True), cp.Variable()
    limits = [problem.y @ alpha == 0, alpha <= 2.0]
    for K, unit in zip(problem.K, d, strict=True):
        limits.append(cp.norm((factor(K) * problem.y[:, None]).T @ alpha) <= gamma * unit)
    best = solve(cp.Problem(cp.Minimize(0.5 * cp.square(gamma) - cp.sum(alpha)), limits))
    form, found = support_kernel_machine(problem.K, problem.y, d=d, a=a, C=2.0, tol=1e-7)
    assert found.status == "optimal" and found.primal == pytest.approx(-best, rel=1e-5)
    assert form.d**2 @ form.eta == pytest.approx(1.0, rel=1e-9)
    assert 0.5 * form.gamma**2 - form.alpha.sum() == pytest.approx(best, rel=1e-5)
    f = np.tensordot(form.eta, problem.K, 1) @ (problem.y * form.alpha)
    slack = np.maximum(1.0 - problem.y * (f + found.bias), 0.0)
    primal = 0.5 * f @ (problem.y * form.alpha) + 2.0 * slack.sum()
    assert primal == pytest.approx(-best, rel=1e-5)


def test_regularized_machine_minimizes_its_primal() -> None:
    """Problem (R), by a conic solver; and what comes with it is consistent."""
    problem, C = dense(2, n=16, m=4), 1.5
    y, F = problem.y, [factor(K) for K in problem.K]
    a, d = np.linspace(0.8, 0.3, 4), np.linspace(1.2, 0.7, 4)
    w = [cp.Variable(part.shape[1]) for part in F]
    b, xi, t = cp.Variable(), cp.Variable(16, nonneg=True), cp.Variable(4)
    f = sum(part @ x for part, x in zip(F, w, strict=True))
    limits = [cp.multiply(y, f + b) >= 1 - xi, *(cp.norm(x) <= t[k] for k, x in enumerate(w))]
    cost = 0.5 * cp.square(d @ t) + 0.5 * cp.sum_squares(cp.multiply(a, t)) + C * cp.sum(xi)
    best = solve(cp.Problem(cp.Minimize(cost), limits))
    found = theory.regularized_machine(make_problem(problem.K, y, C=C), a, d)
    assert -found.value == pytest.approx(best, rel=1e-5) and found.gap <= 1e-6
    assert d**2 @ found.eta_tilde == pytest.approx(1.0, rel=1e-9)
    spread = 0.5 * (((found.mu - found.gamma * d) / a) ** 2).sum()
    value = 0.5 * found.gamma**2 + spread - found.alpha.sum()
    assert found.value == pytest.approx(value, rel=1e-9)
    v = y * found.alpha
    g = np.tensordot(found.eta, problem.K, 1) @ v - y
    top, bottom = g[(v > np.minimum(C * y, 0.0))].max(), g[(v < np.maximum(C * y, 0.0))].min()
    assert found.eps == pytest.approx(0.5 * (top - bottom), rel=1e-6, abs=1e-9)


def test_regularized_machine_at_kappa_1_is_the_svm_on_the_sum() -> None:
    problem = dense(5, C=3.0)
    found = theory.regularized_machine(
        make_problem(problem.K, problem.y, C=3.0), np.ones(5), np.zeros(5)
    )
    svm = learn(problem.K.sum(axis=0)[None], problem.y, C=3.0, tol=1e-8)
    assert -found.value == pytest.approx(svm.primal, rel=1e-5)
    assert found.gamma == 0.0 and (found.eta == 1.0).all() and not found.eta_tilde.any()


def test_regularized_machine_needs_separation_for_a_hard_margin() -> None:
    rng = np.random.default_rng(0)
    K = np.stack([np.outer(x, x) for x in rng.standard_normal((2, 40))])
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    with pytest.raises(ValueError, match="C=inf asks for a hard margin"):
        theory.regularized_machine(make_problem(K, y, C=np.inf), np.ones(2), np.ones(2))


@pytest.mark.parametrize("seed", range(3))
def test_regularized_machine_never_takes_overlapping_classes_for_separable(seed: int) -> None:
    """Two rows alike in all kernels, of both labels: no f separates them, however far α grows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 3))
    X[1] = X[0]
    y = np.where(np.arange(12) % 2, 1.0, -1.0)
    K = np.stack([X @ X.T, (1.0 + X @ X.T) ** 2, np.exp(-((X[:, None] - X) ** 2).sum(axis=2))])
    for a in (0.1, 1.0):
        with pytest.raises(ValueError, match="C=inf asks for a hard margin"):
            theory.regularized_machine(make_problem(K, y, C=np.inf), np.full(3, a), np.ones(3))


def test_regularized_machine_with_some_d_zero() -> None:
    """Those kernels are regularized only: η_j = 1/a_j², and no η̃_j."""
    problem, a, d = dense(2), np.linspace(0.5, 1.5, 5), np.array([0.0, 1.0, 0.0, 2.0, 1.0])
    found = theory.regularized_machine(make_problem(problem.K, problem.y), a, d)
    assert found.eta[[0, 2]] == pytest.approx(1.0 / a[[0, 2]] ** 2, rel=1e-12)
    assert not found.eta_tilde[[0, 2]].any()
    assert d**2 @ found.eta_tilde == pytest.approx(1.0, rel=1e-9)


def test_regularized_machine_says_when_its_gap_is_missed() -> None:
    problem = dense(0)
    with pytest.warns(ConvergenceWarning, match="duality gap reached is .*, not tol=1e-25") as told:
        found = theory.regularized_machine(
            make_problem(problem.K, problem.y), np.ones(5), np.ones(5), tol=1e-25
        )
    assert f"{found.gap:.2g}" in str(told[0].message) and told[0].filename == __file__


def test_regularized_machine_with_a_hard_margin_is_certified() -> None:
    """min_w ½(Σ d_j‖w_j‖)² + ½ Σ a_j²‖w_j‖² without slack."""
    problem = separable(0)
    m = len(problem.K)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = theory.regularized_machine(
            make_problem(problem.K, problem.y, C=np.inf), np.ones(m), np.ones(m)
        )
    assert found.gap <= 1e-6
    soft = theory.regularized_machine(
        make_problem(problem.K, problem.y, C=10000.0), np.ones(m), np.ones(m)
    )
    assert found.value == pytest.approx(soft.value, rel=1e-5)


# --- related machines [bach2004, §2.4] -----------------------------------------------------------


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_two_norm_soft_margin(C: float) -> None:
    """min ½γ² + ‖α‖²/(2C) − Σα s.t. √(αᵀDK_jDα) ≤ γd_j; the paper's constraint lacks the γ."""
    problem = dense(3)
    d = np.sqrt(np.trace(problem.K, axis1=1, axis2=2) / 5.0)
    alpha, gamma = cp.Variable(problem.y.size, nonneg=True), cp.Variable()
    limits = [problem.y @ alpha == 0]
    for K, unit in zip(problem.K, d, strict=True):
        limits.append(cp.norm((factor(K) * problem.y[:, None]).T @ alpha) <= gamma * unit)
    value = 0.5 * cp.square(gamma) + cp.sum_squares(alpha) / (2 * C) - cp.sum(alpha)
    best = -solve(cp.Problem(cp.Minimize(value), limits))
    found = learn(
        problem.K, problem.y, C=C, loss="squared_hinge", trace=5.0, learner="skm", tol=1e-6
    )
    assert found.primal == pytest.approx(best, rel=1e-5)


def test_learning_C_is_the_identity_as_one_more_kernel() -> None:
    problem = rank_one(10, n=20)
    K = np.concatenate([problem.K, np.eye(20)[None]])
    learned = learn(problem.K, problem.y, C="learn", loss="squared_hinge", learner="skm", tol=1e-6)
    whole = learn(K, problem.y, C=np.inf, trace=20.0, learner="skm", tol=1e-6)
    assert learned.primal == pytest.approx(whole.primal, rel=3e-6)
    assert learned.primal == pytest.approx(qcqp_optimum(K, problem.y, np.inf, trace=20.0), rel=5e-6)
    assert 0.0 < 1.0 / learned.C < 1.0


@pytest.mark.parametrize("a", [None, np.linspace(0.5, 2.0, 7)])
def test_learning_C_reports_the_pair_with_the_identity(a: np.ndarray | None) -> None:
    problem = rank_one(10, n=20)
    learner = Skm(a=a)
    found = learn(problem.K, problem.y, C="learn", loss="squared_hinge", learner=learner, tol=1e-5)
    K = np.concatenate([problem.K, np.eye(20)[None]])
    traces = np.trace(K, axis1=1, axis2=2)
    eta = found.extras["eta"]
    assert eta.size == 7 and traces @ eta == pytest.approx(traces.mean(), rel=1e-9)
    eps1, eps2 = theory.attained_optimality(
        make_problem(K, problem.y, C=np.inf, trace=float(traces.mean())), found.extras["alpha"], eta
    )
    assert eps1 == pytest.approx(20 * found.extras["eps1"], rel=1e-6, abs=1e-9)
    assert eps2 == pytest.approx(found.extras["eps2"], rel=1e-6, abs=1e-9)


def test_learned_C_is_refused_by_the_theory() -> None:
    K, y = dense(0).K, dense(0).y
    alpha, eta, ones = np.zeros(30), np.full(5, 0.2), np.ones(5)
    options = {"C": "learn", "loss": "squared_hinge"}
    for call in [
        lambda: theory.regularized_machine(make_problem(K, y, **options), ones, ones),
        lambda: theory.attained_optimality(make_problem(K, y, **options), alpha, eta),
        lambda: theory.optimal_weights(make_problem(K, y, **options), alpha, eps1=0.1),
        lambda: theory.sparser_weights(make_problem(K, y, **options), alpha, eta, eps2=0.1),
        lambda: support_kernel_machine(K, y, d=ones, **options),
    ]:
        with pytest.raises(ValueError, match="C must be a number, or one per row, found 'learn'"):
            call()


# --- both forms ----------------------------------------------------------------------------------


@pytest.mark.parametrize("trace", [None, 7.0])
def test_paper_form(trace: float | None) -> None:
    problem = far_scaled(0) if trace else dense(4)
    found = learn(problem.K, problem.y, C=2.0, trace=trace, learner="skm", tol=1e-7)
    form = theory.paper_form(found)
    assert form.d**2 @ form.eta == pytest.approx(1.0, rel=1e-9)
    if trace:  # lanckriet2004's constraint
        traces = np.trace(problem.K, axis1=1, axis2=2)
        assert form.d**2 == pytest.approx(traces / trace, rel=1e-12)
        assert form.eta @ traces == pytest.approx(trace, rel=1e-9)
    # the same machine: the kernel, its coefficients, the objective of (D_K) and of (L)
    coef = problem.y * form.alpha
    assert (coef == found.coef).all() and (form.eta == found.weights).all()
    assert (form.support_kernels == np.flatnonzero(found.weights)).all()
    value = form.alpha.sum() - 0.5 * form.gamma**2
    assert value == pytest.approx(found.primal, rel=1e-5)
    best = qcqp_optimum(problem.K, problem.y, 2.0, trace=trace)
    assert 2.0 * form.alpha.sum() - form.gamma**2 == pytest.approx(2.0 * best, rel=1e-5)


def test_what_has_no_paper_form_is_refused() -> None:
    problem = dense(4)
    found = learn(problem.K, problem.y, weight_norm=2)
    with pytest.raises(ValueError, match=r"solution.weights must be .* Σ d_j² η_j = 1, found"):
        theory.paper_form(found)
    learns = rank_one(10, n=20)
    found = learn(learns.K, learns.y, C="learn", loss="squared_hinge", trace=20.0)
    with pytest.raises(ValueError, match="C must be a number, or one per row, found 'learn'"):
        theory.paper_form(found)
    with pytest.raises(ValueError, match="needs the kernels"):
        theory.paper_form(pickle.loads(pickle.dumps(learn(problem.K, problem.y))))


# --- approximate optimality ----------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_optimality_of_alpha_alone(problem: Problem) -> None:
    """The linear program finds weights at least as good as those that came with α."""
    K, y, C = problem.K, problem.y, problem.C
    found = learn(K, y, C=C, learner="skm", tol=1e-6)
    eps1, eps2 = theory.attained_optimality(
        make_problem(K, y, C=C), found.dual_alpha, found.weights
    )
    eta, best = theory.optimal_weights(
        make_problem(K, y, C=C), found.dual_alpha, eps1=eps1 * (1 + 1e-09)
    )
    assert best <= eps2 + 1e-7
    again = theory.attained_optimality(make_problem(K, y, C=C), found.dual_alpha, eta)
    assert again[0] <= eps1 * (1 + 1e-9) and again[1] == pytest.approx(best, abs=1e-6)


def test_optimality_is_not_found_where_it_is_not() -> None:
    problem = dense(0)
    alpha = learn(problem.K, problem.y, C=0.05, tol=1e-6).dual_alpha
    _, eps2 = theory.optimal_weights(make_problem(problem.K, problem.y, C=1.0), alpha, eps1=np.inf)
    assert eps2 > 0.1


def test_linear_program_against_a_conic_solver() -> None:
    """(OPT_3) as the paper writes it, with ν and b, for a v that is not optimal."""
    problem = dense(1, n=17, m=9, C=1.0)
    y = problem.y
    alpha = learn(problem.K, y, C=0.3, tol=1e-4).dual_alpha
    eta, nu, b, eps = cp.Variable(9, nonneg=True), cp.Variable(17), cp.Variable(), cp.Variable()
    g = sum(eta[j] * (y * (problem.K[j] @ (y * alpha))) for j in range(9)) - 1.0
    inside = (alpha > 0) & (alpha < 1.0)
    up = inside | ((alpha == 0) & (y > 0)) | ((alpha == 1.0) & (y < 0))
    down = inside | ((alpha == 0) & (y < 0)) | ((alpha == 1.0) & (y > 0))
    limits = [cp.sum(eta) == 1, cp.norm(nu - b - cp.multiply(y, g), "inf") <= eps]
    limits += [nu[np.flatnonzero(up)] >= 0, nu[np.flatnonzero(down)] <= 0]
    expected = solve(cp.Problem(cp.Minimize(eps), limits))
    _, eps2 = theory.optimal_weights(make_problem(problem.K, y, C=1.0), alpha, eps1=np.inf)
    assert eps2 == pytest.approx(expected, abs=1e-6)


def test_sparser_weights_drop_what_is_not_needed() -> None:
    """Equal kernels: one is enough. The certificate agrees."""
    for problem in (duplicate(0), nearly_identical(0)):
        K, y = problem.K, problem.y
        found = learn(K, y, learner="skm", tol=1e-6)
        _, eps2 = theory.attained_optimality(
            make_problem(K, y, C=1.0), found.dual_alpha, found.weights
        )
        allowed = eps2 + 1e-4
        fewer = theory.sparser_weights(
            make_problem(K, y, C=1.0), found.dual_alpha, found.weights, eps2=allowed
        )
        assert np.count_nonzero(fewer) <= np.count_nonzero(found.weights) / 2
        assert fewer.sum() == pytest.approx(1.0, rel=1e-9)
        _, reached = theory.attained_optimality(make_problem(K, y, C=1.0), found.dual_alpha, fewer)
        assert reached <= allowed + 1e-6
        judged = duality_gap(K, y, fewer, found.coef, found.bias, C=1.0)
        assert judged.gap <= 1e-2


def test_sparser_weights_keep_what_is_needed() -> None:
    problem = rank_one(0)
    found = learn(problem.K, problem.y, learner="skm", tol=1e-7)
    allowed = 1e-3
    alpha, weights = found.dual_alpha, found.weights
    same = theory.sparser_weights(make_problem(problem.K, problem.y), alpha, weights, eps2=allowed)
    support = np.flatnonzero(same)
    assert support.size >= 2
    for j in support:  # none of them could have been left out
        fewer = problem.K[np.setdiff1d(support, j)]
        _, eps2 = theory.optimal_weights(make_problem(fewer, problem.y, C=1.0), alpha, eps1=np.inf)
        assert eps2 > 1e-3


def test_weights_off_the_simplex_are_named() -> None:
    problem = dense(0)
    with pytest.raises(ValueError, match=r"eta must be nonnegative with Σ d_j² η_j = 1, found"):
        theory.attained_optimality(
            make_problem(problem.K, problem.y, C=1.0), np.zeros(30), np.ones(5)
        )


def test_alpha_has_to_be_feasible() -> None:
    problem = dense(0)
    K, y, eta = problem.K, problem.y, np.full(5, 0.2)
    alpha = learn(K, y, tol=1e-6).dual_alpha
    rounded = np.where(alpha == 1.0, 1.0 + 1e-12, alpha)
    exact = theory.attained_optimality(make_problem(K, y, C=1.0), alpha, eta)
    assert theory.attained_optimality(make_problem(K, y, C=1.0), rounded, eta) == pytest.approx(
        exact, rel=1e-9
    )
    for bad in (-alpha, 3.0 * alpha, alpha + 0.1 * (y > 0) * (alpha < 0.9)):
        for call in [
            lambda bad: theory.attained_optimality(make_problem(K, y, C=1.0), bad, eta),
            lambda bad: theory.optimal_weights(make_problem(K, y, C=1.0), bad, eps1=1.0),
            lambda bad: theory.sparser_weights(make_problem(K, y, C=1.0), bad, eta, eps2=1.0),
        ]:
            with pytest.raises(ValueError, match=r"alpha must be feasible, 0 ≤ α ≤ C with yᵀα = 0"):
                call(bad)


def test_bad_input_is_named() -> None:
    K, y = dense(0).K, dense(0).y
    alpha, eta, ones = np.zeros(30), np.full(5, 0.2), np.ones(5)
    made = make_problem(K, y, C=1.0)
    for message, call in [
        (r"eps1 must be a number ≥ 0.*found -1", lambda:
            theory.optimal_weights(made, alpha, eps1=-1)),
        (r"eta must be nonnegative", lambda:
            theory.sparser_weights(made, alpha, -eta, eps2=0.1)),
        (r"eta must .* Σ d_j² η_j = 1, found a smallest weight of 0 and a sum of 0", lambda:
            theory.sparser_weights(make_problem(K, y, C=1.0), alpha, 0 * eta, eps2=0.1)),
        (r"eta must .* Σ d_j² η_j = 1, found a smallest weight of 2 and a sum of 10", lambda:
            theory.sparser_weights(make_problem(K, y, C=1.0), alpha, 10 * eta, eps2=0.1)),
        (r"alpha must have shape \(30,\)", lambda:
            theory.attained_optimality(made, ones, eta)),
        (r"eps must be less than 1, as in theorem 1, found 1", lambda: theory.regularization_bounds(
            np.eye(4)[None], [1.0], [1.0], C=1.0, eps=1.0)),
        (r"d must hold positive numbers, found 0", lambda: theory.regularization_bounds(
            K, ones, 0 * ones, C=1.0, eps=0.1)),
        (r"C must be positive, found inf", lambda: theory.largest_regularization(
            K, ones, C=np.inf, eps1=0.1, eps2=0.1)),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()


def test_rows_without_a_label() -> None:
    """The machine is over the others; α has a zero for each row that has none."""
    problem = dense(0)
    y = np.where(np.arange(30) % 5 == 0, 0.0, problem.y)
    found = learn(problem.K, y, learner="skm", trace=3.0, tol=1e-8)
    form = theory.paper_form(found)
    assert (form.alpha[y == 0.0] == 0.0).all() and form.alpha.sum() > 0.0
    assert form.alpha.sum() - 0.5 * form.gamma**2 == pytest.approx(found.primal, rel=1e-4)
    eps1, eps2 = theory.attained_optimality(
        make_problem(problem.K, y, C=1.0, trace=3.0), form.alpha, form.eta
    )
    assert eps1 < 1e-3 and eps2 < 1e-2


# --- theorem 1 and corollary 2 -------------------------------------------------------------------


def regularized(problem: Problem, a: np.ndarray, d: np.ndarray, eps: float) -> skm_smo.SkmInner:
    """The ε-optimal solution of the regularized machine, reached by way of larger a."""
    rows, every = skm_smo.KernelRows(KernelStack(problem.K)), np.arange(len(problem.K))
    qp, v = hinge(problem.y, problem.C), None
    for times in (64.0, 16.0, 4.0, 1.0):
        target = Target(every, times * a, d)
        found = skm_smo.solve(rows, target, qp, v, gap_tol=0.0, kkt_tol=2.0 * eps)
        v = found.v
    assert found.violation <= 2.0 * eps
    return found


@pytest.mark.parametrize("size", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_theorem_1(problem: Problem, size: float) -> None:
    rng = np.random.default_rng(0)
    n, m = problem.y.size, len(problem.K)
    traces = np.trace(problem.K, axis1=1, axis2=2)
    d = np.sqrt(traces / n)  # trace = n, so that every d_j is its own
    a, eps = size * d * rng.uniform(0.5, 1.0, m), 1e-3
    found = regularized(problem, a, d, eps)
    assert found.parts.value <= np.abs(found.v).sum()  # G(α) ≤ 0, as the proof needs
    eps1, eps2 = theory.attained_optimality(
        make_problem(problem.K, problem.y, C=problem.C, trace=float(n)),
        np.abs(found.v),
        found.parts.eta_tilde,
    )
    bound1, bound2 = theory.regularization_bounds(problem.K, a, d, C=problem.C, eps=eps)
    assert eps1 <= bound1 and eps2 <= bound2
    # as written out
    sums = np.abs(problem.K).sum(axis=2).max(axis=1)
    ratio = (a**2 / d**2).max()
    assert bound1 == pytest.approx(n * problem.C * ratio * (2 + ratio), rel=1e-12)
    assert bound2 == pytest.approx(eps + problem.C * (a**2 * sums / d**4).max(), rel=1e-12)


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_corollary_2(problem: Problem) -> None:
    n, m = problem.y.size, len(problem.K)
    goal1, goal2 = 5e-4 * n, 1e-2
    d = np.ones(m)
    limit = theory.largest_regularization(problem.K, d, C=problem.C, eps1=goal1, eps2=goal2)
    a = np.full(m, limit)
    granted = theory.regularization_bounds(problem.K, a, d, C=problem.C, eps=0.5 * goal2)
    assert granted[0] <= goal1 * (1 + 1e-9) and granted[1] <= goal2 * (1 + 1e-9)
    assert max(granted[0] / goal1, granted[1] / goal2) == pytest.approx(1.0, rel=1e-9)
    found = regularized(problem, a, d, 0.5 * goal2)
    eps1, eps2 = theory.attained_optimality(
        make_problem(problem.K, problem.y, C=problem.C), np.abs(found.v), found.parts.eta_tilde
    )
    assert eps1 <= goal1 and eps2 <= goal2


def test_corollary_2_with_kernels_of_zero() -> None:
    """They cost no ε₂: what ε₁ allows is all."""
    limit = theory.largest_regularization(
        np.zeros((2, 9, 9)), np.ones(2), C=1.0, eps1=0.1, eps2=1.0
    )
    granted = theory.regularization_bounds(
        np.zeros((2, 9, 9)), np.full(2, limit), np.ones(2), C=1.0, eps=0.5
    )
    assert granted == pytest.approx((0.1, 0.5), rel=1e-9)
