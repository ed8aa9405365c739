"""Completion of kernel matrices and the maximum-determinant criterion: optimality and proofs."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from kernelweave.papers.lanckriet2004.completion import complete_kernel
from kernelweave.papers.lanckriet2004.max_determinant import gp_criterion, max_determinant
from kernelweave.stacks.dense import KernelStack


def definite(rng, n, rank=None):
    A = rng.normal(size=(n, rank or n + 3))
    return A @ A.T / A.shape[1]


def random_pattern(rng, n, share):
    missing = np.triu(rng.random((n, n)) < share, 1)
    return missing | missing.T


def band(n, width):
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))) > width


def blocks(n, *cuts):
    """Consecutive blocks that overlap in one row: chordal."""
    missing = np.ones((n, n), dtype=bool)
    for start, stop in zip((0, *cuts), (*cuts, n), strict=True):
        missing[start : stop + 1, start : stop + 1] = False
    return missing


def without(K, missing):
    return np.where(missing, np.nan, K)


def cycle(values):
    """Ones on the diagonal, ``values`` along a cycle, nothing else."""
    n = len(values)
    K = np.full((n, n), np.nan)
    np.fill_diagonal(K, 1.0)
    for i, value in enumerate(values):
        K[i, (i + 1) % n] = K[(i + 1) % n, i] = value
    return K


def check(found, K, missing, S=0.0, tol=1e-9):
    """Everything that makes a completion the best one, from the data."""
    assert np.array_equal(found.K[~missing], K[~missing])
    assert np.array_equal(found.K, found.K.T)
    assert np.linalg.eigvalsh(found.K)[0] > 0
    S = np.broadcast_to(S, K.shape)
    assert np.array_equal(found.precision[missing], S[missing])
    assert np.linalg.eigvalsh(found.precision)[0] > 0
    product = found.precision @ found.K
    gap = np.trace(product) - len(K) - np.linalg.slogdet(product)[1]
    assert found.gap <= tol and gap == pytest.approx(found.gap, abs=1e-9)
    inverse = np.linalg.inv(found.K)
    assert np.abs(inverse - S)[missing].max(initial=0.0) < 1e-5 * np.abs(inverse).max()
    value = (S * found.K).sum() - np.linalg.slogdet(found.K)[1]
    assert found.objective == pytest.approx(value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [2, 7, 20])
def test_any_pattern(n, share):
    rng = np.random.default_rng(n)
    K, missing = definite(rng, n), random_pattern(rng, n, share)
    check(complete_kernel(without(K, missing)), K, missing)


@pytest.mark.parametrize(
    "missing", [band(30, 3), blocks(30, 8, 15, 26), np.zeros((30, 30), dtype=bool), band(30, 0)]
)
def test_chordal_patterns_need_no_iterations(missing):
    rng = np.random.default_rng(1)
    K = definite(rng, 30)
    order = rng.permutation(30)
    K, missing = K[np.ix_(order, order)], missing[np.ix_(order, order)]
    found = complete_kernel(without(K, missing))
    assert (found.method, found.n_iter) == ("chordal", 0)
    check(found, K, missing)


def test_closed_form_and_newton_agree():
    rng = np.random.default_rng(2)
    K, missing = definite(rng, 12), band(12, 2)
    chordal = complete_kernel(without(K, missing))
    newton = complete_kernel(without(K, missing), 1e-300 * np.eye(12))
    assert newton.method == "newton" and newton.n_iter > 0
    np.testing.assert_allclose(newton.K, chordal.K, atol=1e-8)


def test_three_rows_by_hand():
    # the missing entry is the product of the two correlations
    found = complete_kernel([[1, 0.6, np.nan], [0.6, 1, 0.5], [np.nan, 0.5, 1]])
    assert found.K[0, 2] == pytest.approx(0.3, abs=1e-15)
    # a cycle of four equal correlations r: both diagonals are x with x² + x − 2r² = 0
    r = 0.7
    found = complete_kernel(cycle([r] * 4))
    x = (-1 + np.sqrt(1 + 8 * r * r)) / 2
    np.testing.assert_allclose([found.K[0, 2], found.K[1, 3]], x, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_against_a_conic_solver(seed):
    rng = np.random.default_rng(seed)
    K, missing = definite(rng, 6), random_pattern(rng, 6, 0.5)
    A = rng.normal(size=(6, 6))
    for S in (np.zeros((6, 6)), 0.1 * (A + A.T)):
        found = complete_kernel(without(K, missing), S)
        X = cp.Variable((6, 6), symmetric=True)
        same = [X[i, j] == K[i, j] for i, j in np.argwhere(np.triu(~missing))]
        problem = cp.Problem(cp.Minimize(cp.trace(S @ X) - cp.log_det(X)), same)
        problem.solve(solver="CLARABEL")
        assert found.objective == pytest.approx(problem.value, abs=1e-5)
        check(found, K, missing, S)


def test_nearest_to_another_kernel_where_whole_rows_are_missing():
    # The relative entropy to B is least where the rows not seen follow those seen as in B.
    rng = np.random.default_rng(3)
    K, B = definite(rng, 10), definite(rng, 10)
    missing = np.ones((10, 10), dtype=bool)
    missing[:6, :6] = False
    S = np.linalg.inv(B)
    S = (S + S.T) / 2
    found = complete_kernel(without(K, missing), S)
    check(found, K, missing, S)
    slope = B[6:, :6] @ np.linalg.inv(B[:6, :6])
    np.testing.assert_allclose(found.K[6:, :6], slope @ K[:6, :6], atol=1e-7)
    rest = B[6:, 6:] - slope @ B[:6, 6:]
    np.testing.assert_allclose(found.K[6:, 6:], rest + slope @ K[:6, :6] @ slope.T, atol=1e-7)


def test_units_and_order_of_rows_do_not_matter():
    rng = np.random.default_rng(4)
    K, missing = definite(rng, 9), random_pattern(rng, 9, 0.6)
    plain = complete_kernel(without(K, missing))
    units = np.outer(size := 10.0 ** rng.uniform(-6, 6, 9), size)
    scaled = complete_kernel(without(K * units, missing))
    np.testing.assert_allclose(scaled.K / units, plain.K, atol=1e-9)
    order = rng.permutation(9)
    turned = complete_kernel(without(K, missing)[np.ix_(order, order)])
    np.testing.assert_allclose(turned.K, plain.K[np.ix_(order, order)], atol=1e-9)


def test_a_completion_that_is_hard_to_start():
    """Zeros for what is missing are not positive definite, but some completion is."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(12, 2))
    K = np.exp(-((X[:, None] - X) ** 2).sum(-1) / 8) + 1e-4 * np.eye(12)
    missing = random_pattern(rng, 12, 0.4)
    assert np.linalg.eigvalsh(np.where(missing, 0.0, K))[0] < 0
    found = complete_kernel(without(K, missing))
    assert found.method == "newton"
    check(found, K, missing)


def test_there_is_none():
    with pytest.raises(ValueError, match=r"no positive definite completion.*at most -0\.0\d+"):
        complete_kernel(cycle([0.9, 0.9, 0.9, -0.9]))
    K = np.array([[1, 1.2, np.nan], [1.2, 1, 0.1], [np.nan, 0.1, 1]])
    with pytest.raises(ValueError, match="block of rows 0, 1 is not positive definite"):
        complete_kernel(K)
    edge = np.arccos(0.9)  # angles along the cycle that just add up: semidefinite only
    with pytest.raises(ValueError, match="beyond rounding"):
        complete_kernel(cycle([0.9, 0.9, 0.9, np.cos(3 * edge)]))
    low_rank = definite(np.random.default_rng(6), 8, rank=2)
    with pytest.raises(ValueError, match="low rank"):
        complete_kernel(without(low_rank, band(8, 4)))
    check_me = low_rank + 1e-3 * np.eye(8)
    check(complete_kernel(without(check_me, band(8, 4))), check_me, band(8, 4))


@pytest.mark.parametrize(
    ("K", "S", "message"),
    [
        (np.ones((2, 3)), None, r"square; found shape \(2, 3\)"),
        ([[1, np.inf], [np.inf, 1]], None, "infinite"),
        ([[1, np.nan], [0.5, 1]], None, r"K\[0, 1\] is missing, but K\[1, 0\] is 0.5"),
        ([[1, 0.4], [0.5, 1]], None, "not symmetric"),
        ([[1, 0.4], [0.4, -1]], None, r"K\[1, 1\] is -1"),
        ([[1, 0.4], [0.4, np.nan]], None, r"K\[1, 1\] is missing"),
        ([[1, 0.4], [0.4, np.nan]], -np.eye(2), r"positive definite S"),
        (np.eye(2), np.eye(3), "S must have the shape of K"),
        (np.eye(2), [[1, 2], [3, 4]], "S must be finite and symmetric"),
        (np.eye(2), [[1, np.nan], [np.nan, 4]], "S must be finite and symmetric"),
    ],
)
def test_bad_matrices(K, S, message):
    with pytest.raises(ValueError, match=message):
        complete_kernel(K, S)


def test_bad_tolerance():
    with pytest.raises(ValueError, match="tol must be positive, found -1"):
        complete_kernel(np.eye(2), tol=-1)


# The maximum-determinant criterion


def kernels(rng, m, n):
    return np.stack([definite(rng, n) + 0.1 * np.eye(n) for _ in range(m)])


def test_the_criterion_is_that_of_a_gaussian():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(7)
    K, y = definite(rng, 6), rng.normal(size=6)
    density = multivariate_normal(np.zeros(6), K).logpdf(y)
    assert gp_criterion(K, y) == pytest.approx(-density - 3 * np.log(2 * np.pi))


def test_the_criterion_is_convex_in_the_inverse():
    rng = np.random.default_rng(8)
    y = rng.normal(size=5)
    for _ in range(20):
        P, Q = definite(rng, 5), definite(rng, 5)
        ends = [gp_criterion(np.linalg.inv(M), y) for M in (P, Q, 0.5 * (P + Q))]
        assert ends[2] <= 0.5 * (ends[0] + ends[1])


@pytest.mark.parametrize(("m", "n"), [(1, 5), (3, 8), (10, 6), (40, 4)])
def test_weights_are_optimal(m, n):
    rng = np.random.default_rng(m)
    K, y = kernels(rng, m, n), rng.normal(size=n)
    found = max_determinant(K, y, tol=1e-8)
    R = np.linalg.inv(K)
    a = np.einsum("i,kij,j->k", y, R, y)
    assert (found.weights >= 0).all()
    assert found.weights @ a == pytest.approx(n)
    np.testing.assert_allclose(
        found.K, np.linalg.inv(np.tensordot(found.weights, R, 1)), rtol=1e-8, atol=1e-10
    )
    assert found.objective == pytest.approx(gp_criterion(found.K, y))
    slack = a - np.einsum("ij,kji->k", found.K, R)  # twice the gradient
    assert slack.min() > -1e-6 * a.max() and abs(found.weights @ slack) < 1e-6 * n
    bound = 0.5 * n * np.log(max(np.einsum("ij,kji->k", found.K, R) / a))
    assert found.gap <= 1e-8 and bound == pytest.approx(found.gap, abs=1e-9)
    for _ in range(20):
        other = rng.exponential(size=m) * found.weights.sum() / m
        value = gp_criterion(np.linalg.inv(np.tensordot(other, R, 1)), y)
        assert value >= found.objective - found.gap - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_weights_against_a_conic_solver(seed):
    rng = np.random.default_rng(seed)
    K, y = kernels(rng, 4, 6), np.sign(rng.normal(size=6))
    R = np.linalg.inv(K)
    mu = cp.Variable(4, nonneg=True)
    total = sum(mu[k] * R[k] for k in range(4))
    a = np.einsum("i,kij,j->k", y, R, y)
    problem = cp.Problem(cp.Minimize(0.5 * a @ mu - 0.5 * cp.log_det(total)))
    problem.solve(solver="CLARABEL")
    assert max_determinant(K, y).objective == pytest.approx(problem.value, abs=1e-5)


def test_one_kernel_is_only_scaled():
    rng = np.random.default_rng(9)
    K, y = kernels(rng, 1, 7), rng.normal(size=7)
    found = max_determinant(K, y)
    fit = float(y @ np.linalg.solve(K[0], y)) / 7
    np.testing.assert_allclose(found.K, K[0] * fit, rtol=1e-9)


def test_kernels_alike_singular_and_of_any_scale():
    rng = np.random.default_rng(10)
    low = definite(rng, 10, rank=3)
    K = np.stack([low, low, 1e6 * low, definite(rng, 10), np.eye(10)])
    y = rng.normal(size=10)
    with pytest.raises(ValueError, match=r"K\[0\] is not positive definite.*Add noise"):
        max_determinant(K, y)
    found = max_determinant(K, y, noise=0.1)
    assert found.gap <= 1e-6
    alone = [gp_criterion(max_determinant(K[[k]], y, noise=0.1).K, y) for k in range(5)]
    assert found.objective <= min(alone) + found.gap
    stack = max_determinant(KernelStack(K), y, noise=0.1)
    assert np.array_equal(stack.weights, found.weights)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0.0, 0.0], {}, "y must not be all zero"),
        ([1.0, np.nan], {}, "y must be finite"),
        ([1.0], {}, r"y must have shape \(2,\)"),
        ([1.0, 2.0], {"noise": -1.0}, "noise must be"),
        ([1.0, 2.0], {"tol": np.nan}, "tol must be"),
    ],
)
def test_bad_input(y, options, message):
    with pytest.raises(ValueError, match=message):
        max_determinant(np.eye(2)[None], y, **options)


def test_bad_input_to_the_criterion():
    with pytest.raises(ValueError, match="square"):
        gp_criterion(np.ones((2, 3)), [1, 2])
    with pytest.raises(ValueError, match="not positive definite"):
        gp_criterion([[1, 1], [1, 1]], [1, 2])
    with pytest.raises(ValueError, match="K has 2 NaN"):
        gp_criterion([[1, np.nan], [np.nan, 1]], [1, 2])
    with pytest.raises(ValueError, match="K is not symmetric"):
        gp_criterion([[2, 1], [0, 2]], [1, 2])
    for K in ("kernel", KernelStack(np.eye(2)[None]), 1j * np.eye(2)):
        with pytest.raises(TypeError, match=r"K must hold (real )?numbers, found"):
            gp_criterion(K, [1, 2])


def test_completion_reads_no_masked_and_no_complex_entries():
    """What is under a mask is not given."""
    K = np.ma.masked_array([[1.0, 0.9], [0.9, 1.0]], mask=[[0, 1], [1, 0]])
    with pytest.raises(TypeError, match=r"K is a masked array; .* K\.filled\(np\.nan\)"):
        complete_kernel(K)
    assert np.array_equal(complete_kernel(K.filled(np.nan)).K, np.eye(2))
    for wrong in ("kernel", 1j * np.eye(2)):
        with pytest.raises(TypeError, match=r"K must hold (real )?numbers, found"):
            complete_kernel(wrong)
        with pytest.raises(TypeError, match=r"S must hold (real )?numbers, found"):
            complete_kernel(np.eye(2), wrong)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_completion_at_any_scale(scale):
    rng = np.random.default_rng(3)
    K, missing = definite(rng, 8), random_pattern(rng, 8, 0.4)
    plain = complete_kernel(without(K, missing))
    found = complete_kernel(scale * without(K, missing))
    np.testing.assert_allclose(found.K, scale * plain.K, rtol=1e-6)
    assert found.gap <= 1e-9


# --- the criterion that the paper prints --------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("trace", [None, 2.0])
def test_the_printed_criterion_against_a_conic_solver(seed, trace):
    """Its conic form by the Schur complement, where R⁻¹ appears in no term."""
    rng = np.random.default_rng(seed)
    n, m = 7, 4
    K, y = np.stack([definite(rng, n) for _ in range(m)]), rng.normal(size=n)
    found = max_determinant(K, y, criterion="printed", trace=trace, tol=1e-7)
    size = n if trace is None else trace
    inverses = np.linalg.inv(K)
    mu, s = cp.Variable(m, nonneg=True), cp.Variable()
    R = sum(mu[k] * inverses[k] for k in range(m))
    block = cp.bmat([[R, y[:, None]], [y[None], cp.reshape(s, (1, 1), order="C")]])
    problem = cp.Problem(
        cp.Minimize(0.5 * s - 0.5 * cp.log_det(R)), [block >> 0, cp.trace(R) == size]
    )
    best = problem.solve(solver="CLARABEL")
    assert found.objective == pytest.approx(best, abs=1e-5) and found.gap <= 1e-7
    assert found.weights.min() >= 0.0
    assert np.trace(np.linalg.inv(found.K)) == pytest.approx(size)
    assert found.objective == pytest.approx(gp_criterion(found.K, y, criterion="printed"))
    for _ in range(20):  # no other weights do better than the gap allows
        other = rng.dirichlet(np.ones(m)) * size / np.trace(inverses, axis1=1, axis2=2)
        kernel = np.linalg.inv(np.tensordot(other, inverses, 1))
        value = 0.5 * np.linalg.slogdet(kernel)[1] + 0.5 * y @ kernel @ y
        assert value >= found.objective - found.gap - 1e-9


def test_the_printed_criterion_has_no_minimum_of_its_own():
    """It falls as R grows, whatever the kernels: hence the trace."""
    rng = np.random.default_rng(0)
    K, y = definite(rng, 6), rng.normal(size=6)
    values = [gp_criterion(K / size, y, criterion="printed") for size in (1.0, 1e2, 1e4, 1e6)]
    assert (np.diff(values) < -10.0).all()
    with pytest.raises(ValueError, match="criterion must be 'inverse' or 'printed', found 'x'"):
        gp_criterion(K, y, criterion="x")
    with pytest.raises(ValueError, match="trace goes with criterion='printed'"):
        max_determinant(K[None], y, trace=1.0)
