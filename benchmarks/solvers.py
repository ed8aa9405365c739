"""Ours and others' ways to the same optimum, the others as good as a few lines can make them.

    min_d J(d) = max_α Σα − ½ max_m αᵀY K_m Y α        0 ≤ α ≤ C, yᵀα = 0, d on the simplex

Rivals return weights, coefficients v = y∘α and what it took, for ``objective`` to certify.
"""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from datasets import Skipped
from objective import judge
from scipy import sparse
from scipy.optimize import linprog
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave.problems.losses import lower


def need(package: str) -> None:
    """Skip the cell where an optional package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise Skipped(f"{package} is not installed")


# ---- ours --------------------------------------------------------------------------------------


class TimeUp(Exception):
    """A fit took longer than it may."""


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise ``TimeUp`` in the block after so many seconds, where the system has alarms."""
    if seconds is None or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def fit(
    stack: kw.KernelStack,
    y: np.ndarray,
    *,
    C: float,
    tol: float,
    limit: float | None = None,
    **options: Any,
) -> tuple[kw.Solution | None, dict[str, Any]]:
    """``learn``, and a record of how it went; no solution where time ran out.

    ``cpu`` seconds are the same as ``seconds`` where nothing else runs: one thread works.
    """
    began, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with time_limit(limit):
                solution = kw.learn(stack, y, C=C, tol=tol, **options)
        except TimeUp:
            return None, {"status": "timeout", "seconds": time.perf_counter() - began, "gap": None}
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    judged = judge(stack, y, C, solution)
    return solution, {
        "status": solution.status,
        "seconds": seconds,
        "cpu": cpu,
        **judged,
        "own_gap": solution.gap,
        "reached": judged["gap"] <= tol,
        "warned": any(issubclass(w.category, ConvergenceWarning) for w in caught),
        "solves": solution.n_svm_solves,
        "iterations": solution.n_iter,
        "m": stack.m,
        "n": stack.n,
    }


# ---- scikit-learn ------------------------------------------------------------------------------


def svc(K: np.ndarray, y: np.ndarray, C: float, tol: float = 1e-3) -> SVC:
    """scikit-learn's machine on a given kernel, spared the look for NaN as a stack is."""
    with config_context(assume_finite=True):
        return SVC(kernel="precomputed", C=C, tol=tol, cache_size=1000).fit(K, y)


def svc_coef(machine: SVC, n: int) -> np.ndarray:
    """v = y∘α over all rows."""
    coef = np.zeros(n)
    coef[machine.support_] = machine.dual_coef_[0]
    return coef


def cutting_planes(K, y, C, tol, svc_tol, patience=np.inf):
    """SVC gives a cut θ ≥ Σα − ½ q·d at the weights of the last linear program.

    Ends when P − θ ≤ tol·P, or after ``patience`` seconds. Weights, α of the best machine, the
    proof Σ λ_k α_k of θ, and the number of SVMs.
    """
    began = time.perf_counter()
    m, n = len(K), len(y)
    qp = lower(y, n, C, "hinge")
    weights, best, cuts, sums, alphas = np.full(m, 1 / m), (np.inf, None, None), [], [], []
    while time.perf_counter() - began < patience or not cuts:
        combined = np.tensordot(weights, K, 1)
        v = svc_coef(svc(combined, y, C, svc_tol), n)
        f = combined @ v
        primal = qp.primal_value(f, qp.best_bias(f), v @ f)
        if primal < best[0]:
            best = primal, weights, v
        cuts.append(0.5 * ((K.reshape(m * n, n) @ v).reshape(m, n) @ v))
        sums.append(v @ y)
        alphas.append(v * y)
        rows = -np.column_stack([np.array(cuts), np.ones(len(cuts))])
        simplex = np.append(np.ones(m), 0.0)[None]
        bounds = [(0, None)] * m + [(None, None)]
        lp = linprog(np.append(np.zeros(m), 1.0), rows, -np.array(sums), simplex, [1.0], bounds)
        weights = np.maximum(lp.x[:m], 0.0) / np.maximum(lp.x[:m], 0.0).sum()
        if best[0] - lp.fun <= tol * best[0]:
            break
    proof = -lp.ineqlin.marginals
    return best[1], best[2], proof / proof.sum() @ np.array(alphas), len(cuts)


# ---- conic solvers -----------------------------------------------------------------------------


def factors(K, relative=1e-11):
    """L_m with K_m = L_m L_mᵀ, of low rank where the kernel is."""
    found = []
    for matrix in K:
        values, vectors = np.linalg.eigh(matrix)
        keep = values > relative * values[-1]
        found.append(vectors[:, keep] * np.sqrt(values[keep]))
    return found


def dual_cone_program(L, y, C, tol):
    """min ½u² − Σα  s.t.  ‖L_mᵀ(y∘α)‖ ≤ u for every m, 0 ≤ α ≤ C, yᵀα = 0."""
    need("clarabel")
    import clarabel

    n, m = len(y), len(L)
    signed = sparse.csc_matrix(np.vstack([block(B, y) for B in L]))
    heads = np.concatenate([np.eye(1, B.shape[1] + 1)[0] for B in L])
    A = sparse.vstack(
        [
            sparse.hstack([sparse.csc_matrix(y[None]), sparse.csc_matrix((1, 1))]),
            sparse.hstack([-sparse.identity(n), sparse.csc_matrix((n, 1))]),
            sparse.hstack([sparse.identity(n), sparse.csc_matrix((n, 1))]),
            sparse.hstack([signed, sparse.csc_matrix(-heads[:, None])]),
        ],
        format="csc",
    )
    b = np.concatenate([np.zeros(1 + n), np.full(n, C), np.zeros(len(heads))])
    P = sparse.csc_matrix(([1.0], ([n], [n])), (n + 1, n + 1))
    sizes = [B.shape[1] + 1 for B in L]
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    answer = _clarabel(P, np.append(-np.ones(n), 0.0), A, b, cones, sizes, tol)
    starts = 1 + 2 * n + np.cumsum([0, *sizes[:-1]])
    weights = np.maximum(np.array(answer.z)[starts], 0.0)
    alpha = np.clip(np.array(answer.x)[:n], 0.0, C)
    assert len(weights) == m
    return weights / weights.sum(), y * alpha, None, answer


def block(B, y):
    """Rows (0; −L_mᵀ Y) of the cone (u; L_mᵀ(y∘α)) in the form b − A x."""
    return np.vstack([np.zeros((1, len(y))), -(B * y[:, None]).T])


def primal_cone_program(L, y, C, tol):
    """min ½u² + CΣξ  s.t.  Σ‖w_m‖ ≤ u, y_i(Σ L_m[i]·w_m + b) ≥ 1 − ξ_i, ξ ≥ 0."""
    need("clarabel")
    import clarabel

    n, m = len(y), len(L)
    ranks = np.array([B.shape[1] for B in L])
    R = int(ranks.sum())
    # columns: w (R), norms (m), u, b, ξ (n)
    total = np.zeros((1, R + m + 2 + n))
    total[0, R : R + m], total[0, R + m] = 1.0, -1.0
    margins = sparse.hstack(
        [
            sparse.csc_matrix(-np.hstack(L) * y[:, None]),
            sparse.csc_matrix((n, m + 1)),
            sparse.csc_matrix(-y[:, None]),
            -sparse.identity(n),
        ]
    )
    slacks = sparse.hstack([sparse.csc_matrix((n, R + m + 2)), -sparse.identity(n)])
    ends = np.cumsum(ranks)
    order = np.concatenate(
        [[R + k, *range(ends[k] - ranks[k], ends[k])] for k in range(m)]
    )  # the cone of kernel k holds its norm, then its w
    norms = sparse.csc_matrix((-np.ones(R + m), (np.arange(R + m), order)), (R + m, R + m + 2 + n))
    A = sparse.vstack([sparse.csc_matrix(total), margins, slacks, norms], format="csc")
    b = np.concatenate([[0.0], -np.ones(n), np.zeros(n + R + m)])
    P = sparse.csc_matrix(([1.0], ([R + m], [R + m])), (A.shape[1], A.shape[1]))
    q = np.concatenate([np.zeros(R + m + 2), np.full(n, C)])
    cones = [clarabel.NonnegativeConeT(1 + 2 * n)]
    answer = _clarabel(P, q, A, b, cones, [rank + 1 for rank in ranks], tol)
    w = np.array(answer.x)[:R]
    sizes = np.array(
        [np.linalg.norm(w[end - rank : end]) for end, rank in zip(ends, ranks, strict=True)]
    )
    alpha = np.clip(np.array(answer.z)[1 : 1 + n], 0.0, C)
    f = np.hstack(L) @ w
    return sizes / sizes.sum(), y * alpha, (f, sizes.sum() ** 2), answer


def _clarabel(P, q, A, b, cones, sizes, tol):
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    cones = cones + [clarabel.SecondOrderConeT(int(size)) for size in sizes]
    return clarabel.DefaultSolver(P, q, A, b, cones, settings).solve()
