"""MKL as a cone program, for solvers that know nothing of kernels.

    dual      min ½u² − Σα     s.t.  ‖L_mᵀ(y∘α)‖ ≤ u for every m, 0 ≤ α ≤ C, yᵀα = 0
    primal    min ½u² + CΣξ    s.t.  Σ‖w_m‖ ≤ u, y_i(Σ L_m[i]·w_m + b) ≥ 1 − ξ_i, ξ ≥ 0

K_m = L_m L_mᵀ. A cone program needs the factors L_m, a stack does not: the time it takes to find
them belongs to the rival.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import kernelweave as kw
from benchmarks.harness.internals import ConeSolution, cone_program, solve_cone_program
from benchmarks.harness.judging import rival_gap
from benchmarks.harness.skipped import need

LADDER = (10.0, 1.0, 0.1, 1e-2, 1e-4)  # own tolerances to try, relative to the certified gap wanted


@dataclass(frozen=True)
class Cones:
    """P, q, A, b and cones of a program; ``read`` finds weights and v = y∘α in its solution and,
    where the program has it, the model f with its squared norm."""

    arrays: tuple[Any, ...]
    read: Callable[[ConeSolution], tuple[Any, ...]]


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
    arrays, read = cone_program("dual", L, y, C)

    def weights_and_v(found):
        weights, v = read(found)
        return weights, y * np.clip(y * v, 0.0, C), None

    return Cones(arrays, weights_and_v)


def primal_form(L, y, C):
    arrays, read = cone_program("primal", L, y, C)
    ends = np.cumsum([B.shape[1] for B in L])
    stacked = np.hstack(L)

    def weights_v_and_model(found):
        weights, v = read(found)
        parts = np.split(found.x, ends)[:-1]  # the w_m
        size = sum(np.linalg.norm(w) for w in parts)
        return weights, y * np.clip(y * v, 0.0, C), (stacked @ np.concatenate(parts), size**2)

    return Cones(arrays, weights_v_and_model)


FORMS = {"dual": dual_form, "primal": primal_form}


# ---- solvers -----------------------------------------------------------------------------------


def clarabel(arrays, tol, limit):
    need("clarabel")
    return solve_cone_program(*arrays, tol, limit)


def scs(arrays, tol, limit):
    need("scs")
    import scs as package

    P, q, A, b, cones = arrays
    # SCS wants rows by kind of cone
    starts = np.cumsum([0, *(size for _, size in cones)])
    kinds = {"zero": [], "nonnegative": [], "second order": []}
    for (kind, size), start in zip(cones, starts, strict=False):
        kinds[kind].append(np.arange(start, start + size))
    order = np.concatenate([rows for blocks in kinds.values() for rows in blocks])
    sizes = {kind: [len(rows) for rows in blocks] for kind, blocks in kinds.items()}
    data = {"P": P, "c": q, "A": A[order], "b": b[order]}
    shape = {"z": sum(sizes["zero"]), "l": sum(sizes["nonnegative"]), "q": sizes["second order"]}
    options = {"verbose": False, "max_iters": 10**6, "time_limit_secs": limit}
    answer = package.SCS(data, shape, eps_abs=tol, eps_rel=tol, **options).solve()
    z = np.empty(len(b))
    z[order] = answer["y"]
    info = answer["info"]
    return ConeSolution(answer["x"], z, info["status"], info["iter"], info["solve_time"] / 1e3)


SOLVERS = {"Clarabel": clarabel, "SCS": scs}


def solve_cone(cones: Cones, solver: str, tol: float, limit: float) -> ConeSolution:
    """What a solver ends with at its own tolerance, after ``limit`` seconds at the latest."""
    return SOLVERS[solver](cones.arrays, tol, limit)


def certified_cone(
    stack: kw.KernelStack,
    y: np.ndarray,
    C: float,
    cones: Cones,
    solver: str,
    gap: float,
    limit: float = np.inf,
    ladder: Sequence[float] = LADDER,
) -> dict[str, Any]:
    """The loosest setting of a solver whose answer has the certified gap: its times and gap.

    ``limit`` is in seconds and for a setting; the last that was tried is told where none will do.
    """
    for factor in ladder:
        began, worked = time.perf_counter(), time.process_time()
        answer = solve_cone(cones, solver, factor * gap, limit)
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
        found = np.inf
        if answer.found:
            weights, coef, model = cones.read(answer)
            found = rival_gap(stack, y, C, weights, coef, model=model)
        record = {"tol": factor * gap, "status": answer.status, "gap": found}
        record |= {"seconds": seconds, "cpu": cpu}
        if found <= gap or seconds >= limit:
            break
    return record | {"reached": found <= gap}
