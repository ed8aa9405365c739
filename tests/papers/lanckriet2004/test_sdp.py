"""Signed weights: reference optima, certificates, order of the criteria, awkward kernels."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
from _helpers.references import (
    Problem,
    awkward,
    dense,
    duplicate,
    far_scaled,
    gaussian,
    gram,
    hinge_machine,
    labels,
    points,
    sdp_optimum,
    separable,
    single,
    solve,
    unit_mean_diagonal,
)
from sklearn.exceptions import ConvergenceWarning

from kernelweave import KernelStack, duality_gap, learn, regularization_path
from kernelweave._solvers.signed.semidefinite_set import Joint, SemidefiniteSet
from kernelweave._solvers.signed.support import support
from kernelweave._solvers.svm import smo
from kernelweave.machines.evaluator import HardMarginInfeasible
from kernelweave.papers.lanckriet2004._supports import _FewRows, supports
from kernelweave.problems.problem import make_problem

CRITERIA = {
    "hard": {"C": np.inf},
    "hinge": {"C": 1.0},
    "squared_hinge": {"C": 1.0, "loss": "squared_hinge"},
    "learn": {"C": "learn", "loss": "squared_hinge"},
}


def mixed(seed: int, n: int = 18) -> Problem:
    """The paper's three kernels: quadratic, Gaussian and linear."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    X = points(rng, n, 4, y)
    K = np.stack([(gram(X) + 1.0) ** 2, gaussian(X, 1.0), gram(X)])
    return Problem(f"mixed-{seed}", unit_mean_diagonal(K), y, 1.0)


def options_of(problem: Problem, criterion: str) -> dict:
    """A criterion at the problem's own C."""
    options = dict(CRITERIA[criterion])
    if criterion in ("hinge", "squared_hinge"):
        options["C"] = problem.C
    return options


def check(problem: Problem, solution, options: dict, tol: float) -> None:
    """The certificate, recomputed from the data, and all that the weights promise."""
    assert solution.status == "optimal"
    assert solution.gap <= tol
    ridge = 1.0 / solution.C if options["C"] == "learn" else 0.0
    judged = duality_gap(
        problem.K, problem.y, solution.weights, solution.coef, solution.bias,
        dual_alpha=solution.dual_alpha, signed=True, ridge=ridge, **options,
    )  # fmt: skip
    assert judged.primal == pytest.approx(solution.primal, rel=1e-7)
    assert judged.dual >= solution.dual - 1e-7 * abs(solution.dual)
    K = np.tensordot(solution.weights, problem.K, axes=1)
    assert np.linalg.eigvalsh(K)[0] >= -1e-8 * np.trace(K)


# --- optimality ---------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("problem", [mixed(0), mixed(1), dense(0, n=14, m=4)], ids=repr)
def test_reference(problem, criterion):
    options = CRITERIA[criterion]
    solution = learn(problem.K, problem.y, learner="sdp", tol=1e-7, **options)
    check(problem, solution, options, 1e-7)
    assert solution.objective == pytest.approx(
        sdp_optimum(problem.K, problem.y, **options), rel=1e-5
    )


@pytest.mark.parametrize("criterion", ["hinge", "squared_hinge", "learn"])
@pytest.mark.parametrize("problem", awkward(), ids=repr)
def test_certificate_holds_for_awkward_kernels(problem, criterion):
    options = options_of(problem, criterion)
    solution = learn(problem.K, problem.y, learner="sdp", tol=1e-6, **options)
    check(problem, solution, options, 1e-6)


@pytest.mark.parametrize("problem", [separable(0), separable(1, m=2), mixed(2)], ids=repr)
def test_hard_margin(problem):
    options = CRITERIA["hard"]
    solution = learn(problem.K, problem.y, learner="sdp", tol=1e-7, **options)
    check(problem, solution, options, 1e-7)
    K = np.tensordot(solution.weights, problem.K, axes=1)
    f = K @ solution.coef + solution.bias
    assert (problem.y * f).min() >= 1.0 - 1e-8


SOFT = ["hinge", "squared_hinge", "learn"]
NOT_ZERO = [problem for problem in awkward() if problem.K.any(axis=(1, 2)).all()]
COMPARED = [
    *((problem, criterion) for problem in NOT_ZERO for criterion in SOFT),
    *((problem, criterion) for problem in (separable(0), mixed(3)) for criterion in CRITERIA),
]


@pytest.mark.parametrize(("problem", "criterion"), COMPARED, ids=str)
def test_signed_below_nonnegative_below_single(problem, criterion):
    """Each set of weights holds the next one, under the same trace."""
    options = options_of(problem, criterion)
    traces = np.trace(problem.K, axis1=1, axis2=2)
    c = float(traces.mean())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signed = learn(problem.K, problem.y, learner="sdp", trace=c, tol=1e-6, **options)
        plain = learn(problem.K, problem.y, learner="newton", trace=c, tol=1e-6, **options)
        alone = [
            learn(K[None], problem.y, learner="newton", trace=c, tol=1e-6, **options)
            for K in problem.K
        ]
    assert signed.dual <= plain.primal * (1 + 1e-12)
    assert signed.primal <= plain.primal * (1 + 1e-6)
    assert plain.primal <= min(one.primal for one in alone) * (1 + 1e-6)
    assert signed.dual <= plain.dual * (1 + 1e-6)


def test_no_weights_do_better():
    problem = mixed(4)
    solution = learn(problem.K, problem.y, learner="sdp", tol=1e-4)
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(200):
        d = rng.normal(size=3)
        d /= d.sum()
        K = np.tensordot(d, problem.K, axes=1)
        if abs(d).max() < 10.0 and np.linalg.eigvalsh(K)[0] > 0.0:
            found += d.min() < 0.0
            value = learn(K[None], problem.y, tol=1e-8).primal
            assert value >= solution.dual
    assert found > 10


def test_negative_weights_help():
    """On the paper's kernels the gain over nonnegative weights is real."""
    problem = mixed(0)
    signed = learn(problem.K, problem.y, learner="sdp", tol=1e-6)
    plain = learn(problem.K, problem.y, tol=1e-6)
    assert signed.weights.min() < -0.01
    assert signed.primal < plain.dual * 0.99
    assert signed.weights.sum() == pytest.approx(1.0)  # equal traces, c their mean


# --- degenerate sets of kernels -----------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_kernel(criterion):
    problem = single(0)
    options = CRITERIA[criterion]
    signed = learn(problem.K, problem.y, learner="sdp", tol=1e-8, **options)
    plain = learn(problem.K, problem.y, trace=signed_trace(problem, options), tol=1e-8, **options)
    assert signed.objective == pytest.approx(plain.objective, rel=1e-7)


def signed_trace(problem: Problem, options: dict) -> float:
    """The default trace of signed weights."""
    traces = np.trace(problem.K, axis1=1, axis2=2)
    if options["C"] == "learn":
        traces = np.append(traces, problem.y.size)
    return float(traces.mean())


def test_copies_change_nothing():
    problem = duplicate(0)
    twice = learn(problem.K, problem.y, learner="sdp", tol=1e-7)
    once = learn(problem.K[:3], problem.y, learner="sdp", tol=1e-7)
    assert twice.objective == pytest.approx(once.objective, rel=1e-6)
    thrice = learn(np.stack([problem.K[0]] * 3), problem.y, learner="sdp", tol=1e-7)
    alone = learn(problem.K[:1], problem.y, learner="sdp", tol=1e-7)
    assert thrice.objective == pytest.approx(alone.objective, rel=1e-6)
    assert thrice.weights.sum() == pytest.approx(1.0)  # the one kernel there is, whoever has it


def test_kernels_that_cancel():
    """A kernel that is a signed combination of others adds nothing."""
    problem = mixed(5)
    more = np.concatenate([problem.K, [0.5 * (problem.K[0] + problem.K[2])]])
    with_it = learn(more, problem.y, learner="sdp", tol=1e-7)
    without = learn(problem.K, problem.y, learner="sdp", tol=1e-7)
    assert with_it.objective == pytest.approx(without.objective, rel=1e-6)
    assert np.abs(with_it.weights).max() < 100.0


def test_scales_do_not_matter():
    problem = far_scaled(0)
    flat = unit_mean_diagonal(problem.K)
    c = float(np.trace(problem.K, axis1=1, axis2=2).mean())
    one = learn(problem.K, problem.y, learner="sdp", tol=1e-7)
    other = learn(flat, problem.y, learner="sdp", trace=c, tol=1e-7)
    assert one.objective == pytest.approx(other.objective, rel=1e-6)


def test_orthonormal_rank_one_kernels_need_no_signs():
    """Σ μ_i v_iv_iᵀ ⪰ 0 means μ ≥ 0 [lanckriet2004, eq. 32]."""
    rng = np.random.default_rng(0)
    y = labels(rng, 20)
    V = np.linalg.qr(rng.standard_normal((20, 8)) + 0.4 * y[:, None])[0]
    K = np.stack([gram(v[:, None]) for v in V.T])
    signed = learn(K, y, C=10.0, learner="sdp", trace=20.0, tol=1e-7)
    plain = learn(K, y, C=10.0, trace=20.0, tol=1e-7)
    assert signed.weights.min() >= 0.0
    assert signed.objective == pytest.approx(plain.objective, rel=1e-6)


def test_zero_kernels_get_no_weight():
    problem = mixed(6)
    K = np.concatenate([problem.K, np.zeros((1, *problem.K.shape[1:]))])
    solution = learn(K, problem.y, learner="sdp", tol=1e-6)
    assert solution.weights[-1] == 0.0
    assert solution.objective == pytest.approx(
        learn(problem.K, problem.y, learner="sdp", tol=1e-6).objective, rel=1e-5
    )
    for criterion in ("hinge", "learn"):
        with pytest.raises(ValueError, match="kernels of positive trace"):
            learn(np.zeros((2, 18, 18)), problem.y, learner="sdp", **CRITERIA[criterion])


@pytest.mark.parametrize("noise", [1e-11, 1e-9])
def test_rounding_in_the_kernels_is_no_constraint(noise):
    """Where kernels have no eigenvalues but rounding, its signs mean nothing."""
    rng = np.random.default_rng(0)
    problem = mixed(7, n=30)
    error = rng.standard_normal((3, 30, 30)) * noise
    K = problem.K[[0, 2]]
    rough = (problem.K + error + error.transpose(0, 2, 1))[[0, 2]]
    exact = learn(K, problem.y, learner="sdp", tol=1e-6)
    solution = learn(rough, problem.y, learner="sdp", tol=1e-6)
    assert solution.objective == pytest.approx(exact.objective, rel=1e-5)


def test_large_weights_bring_small_eigenvalues_back():
    """Two kernels that differ by little: what they differ by has eigenvalues of its own."""
    rng = np.random.default_rng(0)
    y = labels(rng, 30)
    X = points(rng, 30, 2, y)
    K = np.stack([gram(X), gram(X) + 1e-6 * gaussian(X, 6.0)])
    solution = learn(K, y, C=100.0, learner="sdp", tol=1e-4)
    check(Problem("close", K, y, 100.0), solution, {"C": 100.0}, 1e-4)
    assert np.abs(solution.weights).max() > 1e3


def test_float32():
    problem = mixed(8, n=30)
    stack = KernelStack(problem.K, dtype=np.float32)
    solution = learn(stack, problem.y, learner="sdp", tol=1e-4)
    exact = learn(problem.K, problem.y, learner="sdp", tol=1e-6)
    assert solution.objective == pytest.approx(exact.objective, rel=1e-3)


# --- as part of learn ---------------------------------------------------------------------------


def test_continues_from_weights_and_solutions():
    problem = mixed(9)
    first = learn(problem.K, problem.y, learner="sdp", tol=1e-6)
    again = learn(problem.K, problem.y, learner="sdp", tol=1e-6, start=first)
    assert again.objective == pytest.approx(first.objective, rel=2e-6)
    given = learn(problem.K, problem.y, learner="sdp", tol=1e-6, start=[-0.02, 0.9, 0.12])
    assert given.objective == pytest.approx(first.objective, rel=2e-6)
    with pytest.raises(ValueError, match=r"start must hold weights ≥ 0, found -"):
        learn(problem.K, problem.y, start=first)
    outside = learn(problem.K, problem.y, learner="sdp", tol=1e-6, start=[-5.0, 1.0, 5.0])
    assert outside.objective == pytest.approx(first.objective, rel=2e-6)
    with pytest.raises(ValueError, match="start holds weights of trace ≤ 0"):
        learn(problem.K, problem.y, learner="sdp", start=[-5.0, 1.0, 1.0])


def test_path_over_C():
    problem = mixed(10)
    path = regularization_path(problem.K, problem.y, [0.1, 10.0], learner="sdp", tol=1e-6)
    for C, solution in zip([0.1, 10.0], path, strict=True):
        check(problem, solution, {"C": C}, 1e-6)


def test_stopped_early_it_says_so_and_the_gap_is_true():
    problem = mixed(11)
    with pytest.warns(ConvergenceWarning, match="not tol=1e-08"):
        solution = learn(problem.K, problem.y, learner="sdp", tol=1e-8, max_iter=4)
    assert solution.status == "max_iter"
    best = sdp_optimum(problem.K, problem.y, C=1.0)
    assert solution.dual <= best * (1 + 1e-7) and best <= solution.primal * (1 + 1e-7)


def test_refusals():
    problem = mixed(12)
    for options, message in (
        ({"weight_norm": 2}, r"Sdp\(\) needs weight_norm=1, found 2"),
        ({"recenter": True}, "leave recenter=False"),
        ({"trace": -1.0}, "trace must be positive"),
        ({"C": "learn"}, "C='learn' needs loss='squared_hinge'"),
    ):
        with pytest.raises(ValueError, match=message):
            learn(problem.K, problem.y, learner="sdp", **options)
    lines = np.stack([gram(np.ones((18, 1))), gram(np.arange(18.0)[:, None])])
    with pytest.raises(HardMarginInfeasible):
        learn(lines, np.tile([1.0, -1.0], 9), C=np.inf, learner="sdp")


# --- the certificate of signed weights ----------------------------------------------------------


def test_judging_weights_from_elsewhere():
    problem = mixed(13)
    plain = learn(problem.K, problem.y, tol=1e-6)
    judged = duality_gap(
        problem.K, problem.y, plain.weights, plain.coef, plain.bias, C=1.0, signed=True
    )
    best = sdp_optimum(problem.K, problem.y, C=1.0)
    assert judged.primal == pytest.approx(plain.primal, rel=1e-9)
    assert judged.dual <= best * (1 + 1e-7)
    for weights, message in (
        ([-0.1, 0.9, 0.3], "give the combined kernel its trace, found 1.1 times"),
        ([-3.0, 3.0, 1.0], "positive semidefinite, found an eigenvalue of -"),
    ):
        with pytest.raises(ValueError, match=message):
            duality_gap(problem.K, problem.y, weights, plain.coef, 0.0, C=1.0, signed=True)


@pytest.mark.parametrize("seed", range(3))
def test_support_function(seed):
    """max q·d over the set, against a conic solver."""
    problem = dense(seed, n=10, m=4)
    q = np.random.default_rng(seed).random(4)
    c = float(np.trace(problem.K, axis1=1, axis2=2).mean())
    made = make_problem(problem.K, problem.y, trace=c, signed=True)
    scale = made.weight_set.scale
    d = cp.Variable(4)
    traces = np.trace(problem.K, axis1=1, axis2=2)
    K = sum(d[k] * problem.K[k] for k in range(4))
    best = solve(cp.Problem(cp.Maximize(q @ d), [K >> 0, traces @ d == c]))
    found = support(Joint(made.whole, scale), scale * q, made.weight_set.uniform())
    assert found == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("problem", [dense(5, n=60), *awkward()[::3]], ids=repr)
def test_many_at_once_are_bounds_as_close_as_asked(problem):
    """Columns taken for one q serve others; what they bound is the whole set."""
    stack = KernelStack(problem.K)
    traces = stack.traces()
    scale = np.divide(1.0, traces, out=np.zeros(stack.m), where=traces > 0.0)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (6, stack.n))
    Q = scale * np.array([[v @ K @ v for K in problem.K] for v in [*signs, 0.0 * signs[0]]])
    found = supports(Joint(stack, scale), Q, 1e-3)
    middle = (scale > 0.0) / np.count_nonzero(scale)
    exact = np.array([support(Joint(stack, scale), q, middle) for q in Q])
    assert found[-1] == exact[-1] == 0.0
    assert np.all(found >= exact * (1 - 1e-9))
    assert np.all(found <= exact * (1 + 1.1e-3))


def test_few_columns_bind():
    """The paper's kernels over 80 rows: a few of the columns of M decide all maxima."""
    problem = mixed(14, n=80)
    stack = KernelStack(problem.K)
    region = SemidefiniteSet(Joint(stack, 1.0 / stack.traces()))
    part = _FewRows(region)
    rng = np.random.default_rng(0)
    for q in rng.random((5, 3)):
        e, bound = part.maximize(q, 1e-4)
        assert np.linalg.eigvalsh(region.matrix(region.coordinates(e)))[0] >= -1e-9
        assert q @ e <= bound <= (q @ e) * (1 + 2e-4)
    assert part._larger is not region and part._larger.size < 30


def test_coordinates_and_weights():
    problem = dense(4, n=12, m=5)
    made = make_problem(problem.K, problem.y, trace=12.0, signed=True)
    region = SemidefiniteSet(Joint(made.whole, made.weight_set.scale))
    x = np.array([0.1, -0.2, 0.05, 0.1])
    e = region.weights(x)
    assert e.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(region.coordinates(e), x)
    L = region.factor(x)
    A = region.whitened(L)
    inverse = np.linalg.inv(L)
    np.testing.assert_allclose(A[2], inverse @ region.matrices[2] @ inverse.T, atol=1e-12)
    flat = region.matrices.reshape(4, -1)
    np.testing.assert_allclose(flat @ flat.T, np.eye(4), atol=1e-12)


def test_an_exact_machine():
    """The gradient is the same at all free variables, to rounding rather than to the gap's root."""
    rng = np.random.default_rng(0)
    K, qp = gaussian(rng.standard_normal((60, 3)), 1.5), hinge_machine(rng, 60)
    rough, exact = (smo.solve(K, qp, tol=1e-4, exact=how) for how in (False, True))
    spread = []
    for inner in (rough, exact):
        free = (inner.v > qp.lower) & (inner.v < qp.upper)
        spread.append(np.ptp((qp.linear - inner.f)[free]))
    assert spread[0] > 1e-6
    assert spread[1] < 1e-12


def test_a_bound_that_starts_too_low_recovers():
    """Two rows, four kernels: the multiplier was too small to fit the slope, and stayed so."""
    K = np.array(
        [[[0.063, 0.024], [0.024, 0.042]], [[1.28, 1.1], [1.1, 1.18]], np.ones((2, 2)),
         np.diag([1.0, 0.0])]
    )  # fmt: skip
    y = np.array([-1.0, 1.0])
    found = learn(K, y, C=0.01, learner="sdp", tol=1e-6)
    judged = duality_gap(
        K, y, found.weights, found.coef, found.bias,
        C=0.01, dual_alpha=found.dual_alpha, signed=True,
    )  # fmt: skip
    assert judged.gap <= 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_support_of_two_points(seed):
    """With two rows M is 2×2, and a multiplier that starts too small has to grow soon."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3, 2, 2))
    K = A @ A.transpose(0, 2, 1)
    K[1] = K[0] + 1e-3 * K[1]
    stack = KernelStack(K)
    traces, q = stack.traces(), rng.random(3)
    d = cp.Variable(3)
    whole = sum(d[k] * K[k] / traces[k] for k in range(3))
    best = solve(cp.Problem(cp.Maximize(q @ d), [whole >> 0, cp.sum(d) == 1]))
    found = support(Joint(stack, 1.0 / traces), q, np.full(3, 1 / 3))
    assert found == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("seed", [2, 5])
def test_negative_quadratic_forms_count_as_they_are(seed: int) -> None:
    """A constant kernel has −1e-10 for one; taken for 0, weights of −1e14 raise the bound."""
    rng = np.random.default_rng(seed)
    X, sides = rng.standard_normal((8, 3)), np.where(np.arange(8) % 2 == 0, 1.0, -1.0)
    noise = rng.standard_normal((8, 8))
    far = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 2) + 1e8
    K = np.array([far, far + 0.1 * X @ X.T, 1.0 + 1e-10 * (noise + noise.T), np.eye(8)])
    with pytest.warns(ConvergenceWarning):
        solution = learn(K, sides, C=50.0, learner="sdp", tol=1e-9)
    certificate = solution.certificate()
    assert solution.dual <= solution.primal and certificate.dual <= certificate.primal


def test_out_of_time_its_weights_are_of_the_set() -> None:
    """A kernel that is zero has no part in the trace."""
    K = np.array([np.eye(6), np.ones((6, 6)), np.zeros((6, 6))])
    with pytest.warns(ConvergenceWarning):
        solution = learn(K, np.tile([1.0, -1.0], 3), learner="sdp", max_time=1e-9)
    assert solution.n_svm_solves == 0 and solution.certificate().dual == 0.0
