"""Awkward small problems, and what independent solvers say of them.

The references state the problem as it is written on paper and leave it to a conic solver; they
share nothing with the package but the arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from _helpers.remembered import remembered
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.losses import hinge, squared_hinge

TIGHT = {
    **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-8),
    **dict.fromkeys(("reduced_tol_gap_abs", "reduced_tol_gap_rel", "reduced_tol_feas"), 1e-6),
    "max_iter": 500,
}


@dataclass(frozen=True)
class Problem:
    name: str
    K: np.ndarray
    y: np.ndarray
    C: float

    def __repr__(self) -> str:
        return self.name


def gram(X: np.ndarray) -> np.ndarray:
    """X Xᵀ, symmetric to the last bit."""
    K = X @ X.T
    return (K + K.T) / 2


def gaussian(X: np.ndarray, width: float) -> np.ndarray:
    """exp(−‖x − z‖²/(2 width²)) between all rows."""
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return np.exp(-squares / (2.0 * width**2))


def labels(rng: np.random.Generator, n: int, positive: int | None = None) -> np.ndarray:
    """±1 in random order, half of them positive unless said."""
    y = np.where(np.arange(n) < (n // 2 if positive is None else positive), 1.0, -1.0)
    return rng.permutation(y)


def points(rng: np.random.Generator, n: int, features: int, y: np.ndarray) -> np.ndarray:
    """Features of which every other one knows something of y."""
    X = rng.standard_normal((n, features))
    X[:, ::2] += 0.7 * y[:, None]
    return X


def by_feature(X: np.ndarray) -> np.ndarray:
    """One kernel of rank one a feature."""
    return np.stack([gram(x[:, None]) for x in X.T])


def unit_mean_diagonal(K: np.ndarray) -> np.ndarray:
    """Every kernel scaled to tr K = n."""
    return K * (K.shape[1] / np.trace(K, axis1=1, axis2=2))[:, None, None]


def dense(seed: int, n: int = 30, m: int = 5, C: float = 1.0) -> Problem:
    """Gram matrices of random rank, equal mean diagonals."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    K = np.stack([gram(points(rng, n, int(rng.integers(2, n)), y)) for _ in range(m)])
    return Problem(f"dense-{seed}", unit_mean_diagonal(K), y, C)


def rank_one(seed: int, n: int = 30, m: int = 6, C: float = 1.0) -> Problem:
    """One feature a kernel: J has kinks."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    return Problem(f"rank-one-{seed}", unit_mean_diagonal(by_feature(points(rng, n, m, y))), y, C)


def coarse(seed: int, n: int = 60, C: float = 1.0) -> Problem:
    """One feature of few values a kernel: at the best weights the SVM has many solutions."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    X = np.sign(points(rng, n, 6, y))
    X[:, ::3] = np.round(points(rng, n, 2, y))
    return Problem(f"coarse-{seed}", unit_mean_diagonal(by_feature(X)), y, C)


def duplicate(seed: int, n: int = 25, C: float = 1.0) -> Problem:
    """The same kernels twice: the best weights are not unique."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    X = points(rng, n, 3, y)
    K = np.stack([gram(X), gaussian(X, 1.0), gaussian(X, 3.0)])
    return Problem(f"duplicate-{seed}", np.concatenate([K, K[::-1]]), y, C)


def single(seed: int, n: int = 30, C: float = 1.0) -> Problem:
    """One kernel: an ordinary support vector machine."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    return Problem(f"single-{seed}", gaussian(points(rng, n, 4, y), 2.0)[None], y, C)


def nearly_identical(seed: int, n: int = 25, C: float = 1.0) -> Problem:
    """Kernels that differ by one part in a million."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    X = points(rng, n, 3, y)
    K = [gaussian(X + 1e-6 * rng.standard_normal(X.shape), 1.5) for _ in range(4)]
    return Problem(f"nearly-identical-{seed}", np.stack(K), y, C)


def far_scaled(seed: int, n: int = 25, C: float = 1.0) -> Problem:
    """Scales 1e6 apart, in both directions."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    X = points(rng, n, 6, y)
    K = np.stack([gaussian(X, 1.0), gram(X), *by_feature(X[:, :3])])
    scales = rng.permutation([1.0, 1e6, 1e-6, 1e3, 1.0])
    return Problem(f"far-scaled-{seed}", K * scales[:, None, None], y, C)


def wide(seed: int, n: int = 12, m: int = 40, C: float = 1.0) -> Problem:
    """More kernels than points."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    X = points(rng, n, m, y)
    K = np.concatenate(
        [by_feature(X[:, : m // 2]), [gaussian(X[:, [k]], 1.0) for k in range(m // 2, m)]]
    )
    return Problem(f"wide-{seed}", unit_mean_diagonal(K), y, C)


def imbalanced(seed: int, n: int = 40, C: float = 1.0) -> Problem:
    """Two positive labels among many negative ones."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n, positive=2)
    X = points(rng, n, 5, y)
    K = np.stack([gaussian(X, 1.0), gaussian(X, 4.0), gram(X), gram(X[:, [1]])])
    return Problem(f"imbalanced-{seed}", unit_mean_diagonal(K), y, C)


def with_zero(seed: int, n: int = 25, C: float = 1.0) -> Problem:
    """A kernel that is all zero among good ones."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    X = points(rng, n, 4, y)
    K = np.stack([gaussian(X, 1.0), np.zeros((n, n)), gram(X), gram(X[:, [0]])])
    return Problem(f"with-zero-{seed}", K, y, C)


def separable(seed: int, n: int = 24, m: int = 4) -> Problem:
    """Every kernel separates the classes, so a hard margin exists for all weights."""
    rng = np.random.default_rng(seed)
    y = labels(rng, n)
    K = []
    for _ in range(m):
        X = rng.standard_normal((n, 3))
        X[:, 0] = y * (1.0 + rng.random(n))
        K.append(gram(X))
    return Problem(f"separable-{seed}", unit_mean_diagonal(np.stack(K)), y, np.inf)


def awkward() -> list[Problem]:
    """At least two of each kind, at several C."""
    return [
        dense(0),
        dense(1, n=17, m=9, C=0.01),
        dense(2, n=41, m=3, C=100.0),
        dense(3, n=8, m=2, C=10.0),
        rank_one(0),
        rank_one(1, m=12),
        rank_one(2, n=50, m=4, C=100.0),
        coarse(0),
        coarse(1, n=30, C=100.0),
        duplicate(0),
        duplicate(1, C=100.0),
        single(0),
        single(1, C=1e4),
        nearly_identical(0),
        nearly_identical(1, C=100.0),
        far_scaled(0),
        far_scaled(1),
        far_scaled(2, C=0.1),
        wide(0),
        wide(1, n=10, m=60, C=10.0),
        wide(2, n=9, m=24, C=0.1),
        imbalanced(0),
        imbalanced(1, C=50.0),
        with_zero(0),
        with_zero(1, C=10.0),
    ]


# --- machines: every kind of dual QP ------------------------------------------------------------


def hinge_machine(rng: np.random.Generator, n: int) -> DualQP:
    return hinge(labels(rng, n), 10.0 ** rng.uniform(-1, 2))


def per_sample_machine(rng: np.random.Generator, n: int) -> DualQP:
    return hinge(labels(rng, n), 10.0 ** rng.uniform(-1, 2, n))


def squared_hinge_machine(rng: np.random.Generator, n: int) -> DualQP:
    return squared_hinge(labels(rng, n), 10.0 ** rng.uniform(-1, 2))


def box_and_ridge_machine(rng: np.random.Generator, n: int) -> DualQP:
    return hinge(labels(rng, n), 10.0 ** rng.uniform(-1, 2), ridge=10.0 ** rng.uniform(-2, 1))


def hard_margin_machine(rng: np.random.Generator, n: int) -> DualQP:
    return hinge(labels(rng, n), np.inf)


def epsilon_machine(rng: np.random.Generator, n: int) -> DualQP:
    """Regression, two variables a row: C Σ (|t − f − b| − ε)₊."""
    target, epsilon, C = rng.standard_normal(n), 0.1, 10.0 ** rng.uniform(-1, 2)
    zero, full = np.zeros(n), np.full(n, C)
    return DualQP(
        linear=np.concatenate([target - epsilon, target + epsilon]),
        lower=np.concatenate([zero, -full]),
        upper=np.concatenate([full, zero]),
        n=n,
    )


def squared_loss_machine(rng: np.random.Generator, n: int) -> DualQP:
    """Regression: (C/2) Σ (t − f − b)², no bounds at all."""
    free = np.full(n, np.inf)
    return DualQP(rng.standard_normal(n), -free, free, n, ridge=10.0 ** rng.uniform(-2, 1))


def one_class_machine(rng: np.random.Generator, n: int) -> DualQP:
    """½‖f‖² + Σ (ρ − f)₊/(νn) − ρ with ρ = −b: the bounded simplex."""
    return DualQP(np.zeros(n), np.zeros(n), np.full(n, 1.0 / (0.3 * n)), n, total=1.0)


MACHINES: dict[str, Callable[[np.random.Generator, int], DualQP]] = {
    "hinge": hinge_machine,
    "per_sample": per_sample_machine,
    "squared_hinge": squared_hinge_machine,
    "box_and_ridge": box_and_ridge_machine,
    "hard_margin": hard_margin_machine,
    "epsilon_insensitive": epsilon_machine,
    "squared_loss": squared_loss_machine,
    "one_class": one_class_machine,
}
SOFT = sorted(set(MACHINES) - {"hard_margin"})


def enclosing_ball(K: np.ndarray) -> DualQP:
    """R² = 2 max ½diag(K)ᵀv − ½vᵀKv over the simplex."""
    n = K.shape[0]
    return DualQP(0.5 * np.diagonal(K), np.zeros(n), np.ones(n), n, total=1.0)


# --- references ---------------------------------------------------------------------------------


def factor(K: np.ndarray) -> np.ndarray:
    """F with F Fᵀ = K, as wide as the rank of K."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-13 * max(values[-1], 0.0)
    if not keep.any():
        return np.zeros((K.shape[0], 1))
    return vectors[:, keep] * np.sqrt(values[keep])


@remembered
def qcqp_optimum(
    K: np.ndarray,
    y: np.ndarray,
    C: float | np.ndarray,
    loss: str = "hinge",
    trace: float | None = None,
    ridge: float = 0.0,
) -> float:
    """min_d J(d) as max 1ᵀα − ½ρ‖α‖² − ½t,  s_m ‖F_mᵀ(y∘α)‖² ≤ t [lanckriet2004, th. 17].

    Posed in units u of the objective, α = uβ, of which the conic solver manages some better than
    others.
    """
    rho, upper = ridge, C
    if loss == "squared_hinge":
        rho, upper = ridge + 1.0 / float(C), np.inf
    scale = np.ones(len(K)) if trace is None else trace / np.trace(K, axis1=1, axis2=2)
    sizes = scale * np.trace(K, axis1=1, axis2=2) / y.size
    for unit in np.array([1.0, 0.3, 3.0, 0.1, 10.0, 0.03]) / sizes.max():
        beta, t = cp.Variable(y.size, nonneg=True), cp.Variable(nonneg=True)
        limits = [y @ beta == 0]
        if np.all(np.isfinite(upper)):
            limits.append(beta <= upper / unit)
        for s, matrix in zip(scale * unit, K, strict=True):
            if matrix.any():  # 0 ≤ t is there already
                F = np.sqrt(s) * factor(matrix) * y[:, None]
                limits.append(cp.sum_squares(F.T @ beta) <= t)
        value = cp.sum(beta) - 0.5 * t
        if rho > 0.0:
            value = value - 0.5 * rho * unit * cp.sum_squares(beta)
        try:
            return unit * solve(cp.Problem(cp.Maximize(value), limits))
        except cp.SolverError:
            continue
    raise AssertionError("the conic solver fails on this problem")


@remembered
def primal_optimum(
    K: np.ndarray, y: np.ndarray, C: float, loss: str = "hinge", weight_norm: float = 1
) -> float:
    """min ½ Σ ‖w_m‖²/d_m + loss over w, b, ξ and ‖d‖_p ≤ 1: weights are variables here."""
    factors = [factor(matrix) for matrix in K]
    w = [cp.Variable(F.shape[1]) for F in factors]
    d, b, xi = cp.Variable(len(K), nonneg=True), cp.Variable(), cp.Variable(y.size, nonneg=True)
    f = sum(F @ part for F, part in zip(factors, w, strict=True))
    energy = sum(cp.quad_over_lin(part, d[k]) for k, part in enumerate(w))
    cost = C * cp.sum(xi) if loss == "hinge" else 0.5 * C * cp.sum_squares(xi)
    limits = [cp.multiply(y, f + b) >= 1 - xi, cp.norm(d, weight_norm) <= 1]
    return solve(cp.Problem(cp.Minimize(0.5 * energy + cost), limits))


@remembered
def sdp_optimum(
    K: np.ndarray,
    y: np.ndarray,
    C: float | str,
    loss: str = "hinge",
    trace: float | None = None,
) -> float:
    """min_d J(d) over signed d with Σ d_m K_m ⪰ 0 and the trace, as [lanckriet2004, eq. 26 or 45].

    Rows with y = 0 have no label. In units of the trace, as the conic solver likes them.
    """
    m, n = K.shape[:2]
    seen = np.flatnonzero(y)
    sides, traces = y[seen], np.trace(K, axis1=1, axis2=2)
    learns = isinstance(C, str)
    if trace is None:
        trace = float(np.append(traces, n).mean() if learns else traces[traces > 0.0].mean())
    unit = trace / n  # K = unit · Σ d_m K_m, ω = t / unit
    d, bias, t = cp.Variable(m), cp.Variable(), cp.Variable()
    slack, over = cp.Variable(seen.size, nonneg=True), cp.Variable(seen.size, nonneg=True)
    whole = sum(d[k] * K[k] for k in range(m))
    G = sum(d[k] * (K[k][np.ix_(seen, seen)] * np.outer(sides, sides)) for k in range(m))
    total, ridge, cost, right = traces @ d, 0.0, t, 1.0 + slack + bias * sides
    limits = []
    if learns:
        ridge = cp.Variable(nonneg=True)
        total = total + n * ridge
    elif loss == "squared_hinge":
        ridge = 1.0 / (float(C) * unit)
    elif np.isfinite(C):
        cost, right = t + 2.0 * float(C) * unit * cp.sum(over), right - over
    if learns or loss == "squared_hinge" or seen.size < n:
        limits.append(whole >> 0)
    column = cp.reshape(right, (seen.size, 1), order="C")
    corner = cp.reshape(t, (1, 1), order="C")
    block = cp.bmat([[G + ridge * np.eye(seen.size), column], [column.T, corner]])
    limits += [total == n, block >> 0]
    return 0.5 * solve(cp.Problem(cp.Minimize(cost), limits)) / unit


@remembered
def qp_optimum(K: np.ndarray, qp: DualQP) -> float:
    """The dual QP as the package states it: max cᵀv − ½ρ‖v‖² − ½‖Fᵀ fold(v)‖²."""
    v = cp.Variable(qp.linear.size)
    rows = sum(v[k : k + qp.n] for k in range(0, qp.linear.size, qp.n))
    limits = [cp.sum(v) == qp.total]
    for bound, sign in ((qp.upper, 1.0), (qp.lower, -1.0)):
        at = np.flatnonzero(np.isfinite(bound))
        if at.size:
            limits.append(sign * v[at] <= sign * bound[at])
    value = qp.linear @ v - 0.5 * cp.sum_squares(factor(K).T @ rows)
    if qp.ridge > 0.0:
        value = value - 0.5 * qp.ridge * cp.sum_squares(v)
    return solve(cp.Problem(cp.Maximize(value), limits))


def solve(problem: cp.Problem) -> float:
    """The optimal value by Clarabel, to 1e-8 where it can, to 1e-6 at least."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        try:
            problem.solve(solver=cp.CLARABEL, **TIGHT)
        except cp.SolverError:  # numbers end before these digits on some processors
            problem.solve(solver=cp.CLARABEL)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise cp.SolverError(f"the conic solver says {problem.status}")
    return float(problem.value)


@remembered
def group_optimum(
    K: np.ndarray, y: np.ndarray, C: float, groups: list[int], inner: float, loss: str = "hinge"
) -> float:
    """min ½ Σ ‖w_m‖²/d_m + loss over w, b, ξ and Σ_g ‖d_g‖_p ≤ 1: weights are variables here."""
    factors = [factor(matrix) for matrix in K]
    w = [cp.Variable(F.shape[1]) for F in factors]
    d, b, xi = cp.Variable(len(K), nonneg=True), cp.Variable(), cp.Variable(y.size, nonneg=True)
    f = sum(F @ part for F, part in zip(factors, w, strict=True))
    energy = sum(cp.quad_over_lin(part, d[k]) for k, part in enumerate(w))
    cost = C * cp.sum(xi) if loss == "hinge" else 0.5 * C * cp.sum_squares(xi)
    label = np.array(groups)
    sizes = [cp.norm(d[np.flatnonzero(label == g)], inner) for g in np.unique(label)]
    limits = [cp.multiply(y, f + b) >= 1 - xi, sum(sizes) <= 1]
    return solve(cp.Problem(cp.Minimize(0.5 * energy + cost), limits))
