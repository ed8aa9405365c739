"""Newton on the weights: its Hessian, its steps, and the problems only it is asked to solve."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from _helpers.opened import opened
from _helpers.references import (
    awkward,
    by_feature,
    coarse,
    dense,
    gaussian,
    labels,
    points,
    qcqp_optimum,
    rank_one,
    unit_mean_diagonal,
    wide,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from kernelweave import Gaussian, KernelBank, KernelStack, Polynomial, duality_gap, learn
from kernelweave._solvers.svm.curvature import hessian_factor
from kernelweave.learners import newton
from kernelweave.learners.newton import Newton
from kernelweave.problems.problem import make_problem


def smooth(seed: int, n: int = 60, m: int = 6, C: float = 10.0):
    """Gaussians of several widths on several features: free support vectors, full rank."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    X = points(rng, n, m, y)
    return np.array([gaussian(X[:, k : k + 2], 0.7 + 0.3 * k) for k in range(m)]), y, C


class Counting(KernelStack):
    """A stack that counts passes over its kernels, in units of all of them."""

    __slots__ = ("passes",)

    def __init__(self, K):
        super().__init__(K)
        self.passes = 0.0

    def quad_forms(self, v, kernels=None):
        self.passes += 1.0 if kernels is None else len(kernels) / self.m
        return super().quad_forms(v, kernels)

    def matvecs(self, v, rows=None, kernels=None):
        self.passes += 1.0 if kernels is None else len(kernels) / self.m
        return super().matvecs(v, rows, kernels)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_hessian_against_finite_differences(loss):
    K, y, C = smooth(0)
    problem = make_problem(K, y, C, loss=loss)

    def gradient(e):
        evaluator, _ = opened(problem)
        point = evaluator.solve(e, 1e-13)
        look = evaluator.look(point)
        np.testing.assert_allclose(look.q, point.q, rtol=1e-9)
        return -0.5 * point.q, look.curvature(1e-10)

    e = np.full(len(K), 1.0 / len(K))
    _, factor = gradient(e)
    hessian = factor.T @ factor
    step = 1e-5
    for k in range(len(K)):
        shift = step * (np.arange(len(K)) == k)
        numeric = (gradient(e + shift)[0] - gradient(e - shift)[0]) / (2 * step)
        np.testing.assert_allclose(hessian[k], numeric, rtol=2e-3, atol=1e-3 * hessian.max())


def test_no_free_variable_has_no_curvature():
    problem = make_problem(*smooth(1), loss="hinge")
    free, products = np.empty(0, dtype=int), np.empty((6, 0))
    assert hessian_factor(problem.stack.combined(np.ones(6)), problem.qp, free, products) is None


@pytest.mark.parametrize("problem", awkward(), ids=repr)
def test_awkward_problems_to_1e6(problem):
    solution = learn(problem.K, problem.y, C=problem.C, learner="newton", tol=1e-6)
    assert solution.gap <= 1e-6
    certificate = duality_gap(
        problem.K,
        problem.y,
        solution.weights,
        solution.coef,
        solution.bias,
        C=problem.C,
        dual_alpha=solution.dual_alpha,
    )
    assert certificate.gap <= 1.001e-6
    reference = qcqp_optimum(problem.K, problem.y, problem.C)
    assert solution.primal == pytest.approx(reference, rel=1e-4)


def test_smooth_problems_converge_in_few_steps():
    for seed in range(5):
        K, y, C = smooth(seed)
        solution = learn(K, y, C=C, learner="newton", tol=1e-8)
        assert solution.status == "optimal"
        assert solution.n_svm_solves <= 25


def test_fewer_solves_than_simple():
    for seed in range(3):
        K, y, C = smooth(seed, m=12)
        newton = learn(K, y, C=C, learner="newton", tol=1e-4)
        simple = learn(K, y, C=C, learner="simple", tol=1e-4)
        assert newton.n_svm_solves < simple.n_svm_solves


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("screen", [False, True])
def test_every_option_reaches_the_optimum(mixed, screen):
    for problem in (wide(0), coarse(1), rank_one(2, C=10.0), dense(3)):
        learner = Newton(mixed=mixed, screen=screen)
        solution = learn(problem.K, problem.y, C=problem.C, learner=learner, tol=1e-6)
        assert solution.gap <= 1e-6
        plain = learn(problem.K, problem.y, C=problem.C, tol=1e-6)
        assert solution.primal == pytest.approx(plain.primal, rel=2e-6)


def test_at_most_one_pass_a_step_where_j_is_smooth():
    K, y, C = smooth(0, m=20)
    stack = Counting(K)
    solution = learn(stack, y, C=C, learner=Newton(), tol=1e-4)  # before joint steps
    assert solution.status == "optimal"
    assert stack.passes <= solution.n_iter + 1  # and one look at all before stopping
    assert solution.n_svm_solves <= solution.n_iter


def test_cuts_that_prove_a_point_spare_machines(monkeypatch):
    """Single solutions prove little where J has kinks; all together close the gap sooner."""
    stack, y = single_columns(5)
    spared = learn(stack, y, C=100.0, tol=1e-2, learner="newton")
    monkeypatch.setattr(newton._NewtonDescent, "may_be_done", lambda *_: False)
    plain = learn(stack, y, C=100.0, tol=1e-2, learner="newton")
    assert spared.gap <= 1e-2 and plain.gap <= 1e-2
    assert spared.n_svm_solves < plain.n_svm_solves


def test_kernels_left_aside_come_back():
    """The kernel that matters looks useless until the weights have moved."""
    rng = np.random.default_rng(4)
    n = 80
    y = labels(rng, n)
    X = rng.standard_normal((n, 30))
    X[:, 0] += 2.0 * y
    X[:, 1] += 1.5 * y * (X[:, 0] * y < 0.5)
    K = unit_mean_diagonal(by_feature(X))
    screened = learn(K, y, C=1.0, learner=Newton(screen=True), tol=1e-6)
    full = learn(K, y, C=1.0, learner=Newton(screen=False), tol=1e-6)
    assert screened.gap <= 1e-6 and full.gap <= 1e-6
    assert screened.primal == pytest.approx(full.primal, rel=2e-6)


@pytest.mark.parametrize("learner", ["newton", "simple", "alternate"])
@pytest.mark.parametrize("norm", [4 / 3, 2, 4, np.inf])
def test_lp_norms(learner, norm):
    for problem in (dense(0), rank_one(1), wide(2)):
        solution = learn(
            problem.K, problem.y, C=problem.C, learner=learner, weight_norm=norm, tol=1e-6
        )
        assert solution.gap <= 1e-6
        assert np.linalg.norm(solution.weights, norm) == pytest.approx(1.0, rel=1e-9)
        reference = lp_optimum(problem, norm)
        assert solution.primal == pytest.approx(reference, rel=1e-5)


def lp_optimum(problem, norm):
    """max 1ᵀα − ½‖q(α)‖_{p/(p−1)} by a conic solver."""
    import cvxpy as cp
    from _helpers.references import factor, solve

    alpha, q = cp.Variable(problem.y.size, nonneg=True), cp.Variable(len(problem.K))
    v = cp.multiply(problem.y, alpha)
    limits = [cp.sum_squares(factor(K).T @ v) <= q[k] for k, K in enumerate(problem.K)]
    size = cp.norm(q, 1 if np.isinf(norm) else norm / (norm - 1))
    limits += [alpha <= problem.C, problem.y @ alpha == 0]
    return solve(cp.Problem(cp.Maximize(cp.sum(alpha) - 0.5 * size), limits))


def test_silp_needs_the_simplex():
    problem = dense(0)
    with pytest.raises(ValueError, match=r"Silp\(\) needs weight_norm=1, found 2"):
        learn(problem.K, problem.y, learner="silp", weight_norm=2)


@pytest.mark.parametrize("learner", ["newton", "simple", "silp", "qcqp", "skm"])
def test_learning_C(learner):
    """max 2·1ᵀα… with the identity among the kernels [lanckriet2004, eq. 47], on our scale."""
    for seed in range(3):
        problem = dense(seed, n=30, m=4)
        n = problem.y.size
        solution = learn(
            problem.K, problem.y, C="learn", loss="squared_hinge", learner=learner, tol=1e-5
        )
        assert solution.gap <= 1e-5
        traces = np.append(np.einsum("kii->k", problem.K), n)
        tau = 1.0 / solution.C
        assert solution.weights @ traces[:-1] + tau * n == pytest.approx(traces.mean(), rel=1e-9)
        # the same machine at the C that was learned
        fixed = make_problem(problem.K, problem.y, solution.C, loss="squared_hinge")
        evaluator, _ = opened(fixed)
        assert evaluator.solve(solution.weights, 1e-9).primal == pytest.approx(
            solution.primal, rel=2e-5
        )
        certificate = duality_gap(
            problem.K,
            problem.y,
            solution.weights,
            solution.coef,
            solution.bias,
            C="learn",
            loss="squared_hinge",
            ridge=tau,
            dual_alpha=solution.dual_alpha,
        )
        assert certificate.gap == pytest.approx(solution.gap, abs=1e-9)


def test_learned_C_is_better_than_others_under_the_same_trace():
    problem = dense(0, n=30, m=4)
    n, total = problem.y.size, np.append(np.einsum("kii->k", problem.K), problem.y.size).mean()
    learned = learn(problem.K, problem.y, C="learn", loss="squared_hinge", tol=1e-6)
    for C in (0.5 * learned.C, 2.0 * learned.C, 10.0 * learned.C):
        left = total - n / C
        if left > 0.0:
            other = learn(problem.K, problem.y, C=C, loss="squared_hinge", trace=left, tol=1e-6)
            assert learned.primal <= other.primal * (1 + 2e-6)


def test_learning_C_asks_for_the_squared_hinge():
    problem = dense(0)
    with pytest.raises(ValueError, match="C='learn' needs loss='squared_hinge', found 'hinge'"):
        learn(problem.K, problem.y, C="learn")
    with pytest.raises(ValueError, match="learns the ridge"):
        learn(problem.K, problem.y, C="learn", loss="squared_hinge", ridge=0.1)
    with pytest.raises(TypeError, match=r"C must be a positive number.* found .best."):
        learn(problem.K, problem.y, C="best")


def test_recentered_trace_is_the_trace_of_centered_kernels():
    """[chapelle2008, eq. 1]: the same weights as for kernels centered and scaled beforehand."""
    K, y, C = smooth(3)
    n = y.size
    solution = learn(K, y, C=C, recenter=True, trace=1.0, tol=1e-8)
    center = np.eye(n) - 1.0 / n
    centered = np.array([center @ k @ center for k in K])
    recentered = np.einsum("kii->k", centered)
    assert solution.weights @ recentered == pytest.approx(1.0, rel=1e-9)
    unit = centered / recentered[:, None, None]
    beforehand = learn((unit + unit.transpose(0, 2, 1)) / 2, y, C=C, tol=1e-8)
    # a centered kernel gives the same SVM: only the bias differs
    assert solution.primal == pytest.approx(beforehand.primal, rel=1e-7)


def test_box_and_ridge_together():
    for problem in (dense(0, C=5.0), rank_one(1, C=5.0)):
        solution = learn(problem.K, problem.y, C=problem.C, ridge=0.3, tol=1e-6)
        reference = qcqp_optimum(problem.K, problem.y, problem.C, ridge=0.3)
        assert solution.gap <= 1e-6
        assert solution.primal == pytest.approx(reference, rel=1e-5)


def test_float32_stacks():
    K, y, C = smooth(2)
    stack = KernelStack(K, dtype=np.float32)
    solution = learn(stack, y, C=C, tol=1e-4)
    assert solution.gap <= 1e-4
    assert solution.primal == pytest.approx(learn(K, y, C=C, tol=1e-4).primal, rel=1e-3)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_random_problems(seed):
    """Sizes, ranks, scales to 1e6, C from 1e-3 to 1e6, few positive labels: certified."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(8, 60)), int(rng.integers(1, 25))
    y = labels(rng, n, positive=int(rng.integers(1, n // 2 + 1)))
    K = np.empty((m, n, n))
    for k in range(m):
        X = rng.standard_normal((n, int(rng.integers(1, 6))))
        X[:, 0] += rng.choice([0.0, 1.0]) * y
        K[k] = gaussian(X, 1.5) if rng.random() < 0.3 else X @ X.T
        if k and rng.random() < 0.2:
            K[k] = K[rng.integers(k)]
    K = unit_mean_diagonal((K + K.transpose(0, 2, 1)) / 2)
    K *= 10.0 ** rng.uniform(-3, 3, (m, 1, 1)) if rng.random() < 0.5 else 1.0
    C = 10.0 ** rng.uniform(-3, 6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = learn(KernelStack(K, check=False), y, C=C, learner="newton", tol=1e-6)
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert solution.gap <= 1e-4
    assert warned == (solution.gap > 1e-6)


def single_columns(seed):
    """More than a hundred kernels, each on one column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 40))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=80) > 0.0, 1.0, -1.0)
    kernels = [Gaussian(1.0), Gaussian(3.0), Polynomial(2)]
    return KernelBank(kernels, views="each", normalize="unit_trace").fit(X).stack, y


def test_where_nothing_bends_newton_is_as_quick_as_cuts_alone() -> None:
    """At a small C nearly all variables are at their bounds: the first step may be a long one."""
    stack, y = single_columns(3)
    newton, silp = (learn(stack, y, C=3.0, tol=1e-2, learner=name) for name in ("newton", "silp"))
    assert stack.m > 100 and silp.n_svm_solves > 1
    assert newton.n_svm_solves <= silp.n_svm_solves + 1


def test_dual_variables_that_see_no_kernel_leave_weights_as_they_are() -> None:
    """Rounding may leave q = 0 of every kernel: nothing says which should have more weight."""
    rng = np.random.default_rng(55)
    x, y, one = rng.standard_normal(10), rng.standard_normal(10), np.ones((10, 10))
    K = 1e10 * np.array([np.outer(x, x), one, one * (1.0 + 1e-9), one])
    asked = {"loss": "epsilon_insensitive", "epsilon": 0.6 * np.abs(y).max(), "tol": 1e-7}
    with pytest.warns(ConvergenceWarning):
        found = learn(K, y, C=1e10, learner="newton", max_time=1.0, **asked)
    assert np.isfinite(found.weights).all() and found.certificate().gap <= found.gap
