"""MKL as a cone program, for solvers that know nothing of kernels.

    dual      min ½u² − Σα     s.t.  ‖L_mᵀ(y∘α)‖ ≤ u for every m, 0 ≤ α ≤ C, yᵀα = 0
    primal    min ½u² + CΣξ    s.t.  Σ‖w_m‖ ≤ u, y_i(Σ L_m[i]·w_m + b) ≥ 1 − ξ_i, ξ ≥ 0

K_m = L_m L_mᵀ. A cone program needs the factors L_m, a stack does not: the time it takes to find
them belongs to the rival.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from objective import rival_gap
from scipy import sparse
from solvers import need

import kernelweave as kw

LADDER = (10.0, 1.0, 0.1, 1e-2, 1e-4)  # own tolerances to try, relative to the certified gap wanted


@dataclass(frozen=True)
class ConeProgram:
    """min ½xᵀPx + qᵀx s.t. b − Ax in zeros × nonnegative numbers × second-order cones.

    ``read(x, z)`` gives weights, coefficients v = y∘α and, where the program has it, the model f
    with its squared norm.
    """

    P: sparse.csc_matrix
    q: np.ndarray
    A: sparse.csc_matrix
    b: np.ndarray
    zeros: int
    nonnegative: int
    cones: list[int]
    read: Callable[[np.ndarray, np.ndarray], tuple[Any, ...]]


def factors(K, relative=1e-11):
    """L_m with K_m = L_m L_mᵀ, of low rank where the kernel is."""
    found = []
    for matrix in K:
        values, vectors = np.linalg.eigh(matrix)
        keep = values > relative * values[-1]
        found.append(vectors[:, keep] * np.sqrt(values[keep]))
    return found


# ---- forms -------------------------------------------------------------------------------------


def dual_form(L, y, C):
    n, sizes = len(y), [B.shape[1] + 1 for B in L]
    # a block (0; −L_mᵀ Y) a kernel, so that b − A x = (u; L_mᵀ(y∘α))
    signed = np.vstack([np.vstack([np.zeros((1, n)), -(B * y[:, None]).T]) for B in L])
    heads = np.concatenate([np.eye(1, size)[0] for size in sizes])
    nothing = sparse.csc_matrix((n, 1))
    A = sparse.vstack(
        [
            sparse.hstack([sparse.csc_matrix(y[None]), sparse.csc_matrix((1, 1))]),
            sparse.hstack([-sparse.identity(n), nothing]),
            sparse.hstack([sparse.identity(n), nothing]),
            sparse.hstack([sparse.csc_matrix(signed), sparse.csc_matrix(-heads[:, None])]),
        ],
        format="csc",
    )
    b = np.concatenate([np.zeros(1 + n), np.full(n, C), np.zeros(len(heads))])
    P = sparse.csc_matrix(([1.0], ([n], [n])), (n + 1, n + 1))
    starts = 1 + 2 * n + np.cumsum([0, *sizes[:-1]])

    def read(x, z):
        weights = np.maximum(z[starts], 0.0)
        return weights / weights.sum(), y * np.clip(x[:n], 0.0, C), None

    return ConeProgram(P, np.append(-np.ones(n), 0.0), A, b, 1, 2 * n, sizes, read)


def primal_form(L, y, C):
    n, m = len(y), len(L)
    ranks = np.array([B.shape[1] for B in L])
    ends, R = np.cumsum(ranks), int(ranks.sum())
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
    order = np.concatenate(
        [[R + k, *range(ends[k] - ranks[k], ends[k])] for k in range(m)]
    )  # the cone of kernel k holds its norm, then its w
    norms = sparse.csc_matrix((-np.ones(R + m), (np.arange(R + m), order)), (R + m, R + m + 2 + n))
    A = sparse.vstack([sparse.csc_matrix(total), margins, slacks, norms], format="csc")
    b = np.concatenate([[0.0], -np.ones(n), np.zeros(n + R + m)])
    P = sparse.csc_matrix(([1.0], ([R + m], [R + m])), (A.shape[1], A.shape[1]))
    q = np.concatenate([np.zeros(R + m + 2), np.full(n, C)])
    stacked = np.hstack(L)

    def read(x, z):
        w = x[:R]
        lengths = np.sqrt(np.add.reduceat(w**2, ends - ranks))
        alpha = np.clip(z[1 : 1 + n], 0.0, C)
        return lengths / lengths.sum(), y * alpha, (stacked @ w, lengths.sum() ** 2)

    return ConeProgram(P, q, A, b, 0, 1 + 2 * n, [int(rank) + 1 for rank in ranks], read)


FORMS = {"dual": dual_form, "primal": primal_form}


# ---- solvers -----------------------------------------------------------------------------------


def clarabel(program, tol, limit):
    need("clarabel")
    import clarabel as package

    settings = package.DefaultSettings()
    settings.verbose, settings.max_threads, settings.time_limit = False, 1, limit
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    cones = [package.ZeroConeT(program.zeros)] if program.zeros else []
    cones += [package.NonnegativeConeT(program.nonnegative)]
    cones += [package.SecondOrderConeT(int(size)) for size in program.cones]
    answer = package.DefaultSolver(
        program.P, program.q, program.A, program.b, cones, settings
    ).solve()
    return np.array(answer.x), np.array(answer.z), str(answer.status)


def scs(program, tol, limit):
    need("scs")
    import scs as package

    data = {"P": program.P, "c": program.q, "A": program.A, "b": program.b}
    cones = {"z": program.zeros, "l": program.nonnegative, "q": program.cones}
    options = {"verbose": False, "max_iters": 10**6, "time_limit_secs": limit}
    answer = package.SCS(data, cones, eps_abs=tol, eps_rel=tol, **options).solve()
    return answer["x"], answer["y"], answer["info"]["status"]


SOLVERS = {"Clarabel": clarabel, "SCS": scs}


def solve_cone(program: ConeProgram, solver: str, tol: float, limit: float) -> tuple[Any, ...]:
    """x, z and status that a solver ends with at its own tolerance, after ``limit`` seconds."""
    return SOLVERS[solver](program, tol, limit)


def certified_cone(
    stack: kw.KernelStack,
    y: np.ndarray,
    C: float,
    program: ConeProgram,
    solver: str,
    gap: float,
    limit: float = np.inf,
) -> dict[str, Any]:
    """The loosest setting of a solver whose answer has the certified gap: its time and gap.

    ``limit`` is in seconds and for a setting; the last that was tried is told where none will do.
    """
    for factor in LADDER:
        began = time.perf_counter()
        x, z, status = solve_cone(program, solver, factor * gap, limit)
        seconds = time.perf_counter() - began
        found = np.inf
        if np.isfinite(x).all() and np.isfinite(z).all():
            weights, coef, model = program.read(x, z)
            found = rival_gap(stack, y, C, weights, coef, model=model)
        record = {"tol": factor * gap, "status": status, "seconds": seconds, "gap": found}
        if found <= gap or seconds >= limit:
            break
    return record | {"reached": found <= gap}
