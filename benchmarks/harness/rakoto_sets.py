"""The five data sets of rakoto2007 with all their kernels: fits, and paths over C."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import kernelweave as kw
from benchmarks.harness.judging import accuracy, certify, fit
from benchmarks.harness.paper_data import Split, half, rakoto_bank

SETS = ["liver", "pima", "credit", "ionosphere", "sonar"]
C, MAX_ITER = 100.0, 100_000
PATH_TOL = 1e-2  # certified gap at every C of a path


@lru_cache(maxsize=1)
def prepare(name: str, normalize: str, seed: int, data: str | None) -> tuple[Split, kw.FittedBank]:
    """A random half of a set, and its kernels."""
    split = half(name, data, seed)
    return split, rakoto_bank(split.X, normalize)


def measure(
    name: str,
    normalize: str,
    seed: int,
    data: str | None,
    learner: Any,
    tol: float,
    limit: float,
    C: float = C,
    max_iter: int = MAX_ITER,
) -> dict[str, Any]:
    """A fit, its certified gap, and accuracy on the other half."""
    split, bank = prepare(name, normalize, seed, data)
    solution, record = fit(
        bank.stack, split.y, C=C, tol=tol, learner=learner, limit=limit, max_iter=max_iter
    )
    if solution is not None:
        values = bank.decision(split.X_test, bank.spread(solution.weights), solution.coef)
        record["accuracy"] = accuracy(values + solution.bias, split.y_test)
    return record


# ---- paths -------------------------------------------------------------------------------------


def values_of_C(count: int) -> np.ndarray:
    """Half of them evenly in [0.1, 10], half in [10, 100] [rakoto2007, §3.1]."""
    each = count // 2
    return np.concatenate([np.linspace(0.1, 10, each), np.linspace(10, 100, each + 1)[1:]])


def follow(
    stack: kw.KernelStack, y: np.ndarray, Cs: np.ndarray, solve: Callable[[], Sequence[kw.Solution]]
) -> dict[str, Any]:
    """Seconds, certified gaps, solves and kernels of ``solve()``, a solution for every C."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began, worked = time.perf_counter(), time.process_time()
        solutions = solve()
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    gaps = [certify(stack, y, C, s) for C, s in zip(Cs, solutions, strict=True)]
    return {
        "total": seconds,
        "cpu": cpu,
        "worst_gap": max(gaps),
        "solves": sum(s.n_svm_solves for s in solutions),
        "seconds": [s.seconds for s in solutions],
        "kernels": [int(np.count_nonzero(s.weights)) for s in solutions],
    }


def along(stack: kw.KernelStack, y: np.ndarray, Cs: np.ndarray, learner: Any) -> dict[str, Any]:
    """The path, from the largest C down."""
    return follow(
        stack,
        y,
        Cs,
        lambda: kw.regularization_path(
            stack, y, Cs, learner=learner, tol=PATH_TOL, max_iter=MAX_ITER
        ),
    )


def one_by_one(
    stack: kw.KernelStack, y: np.ndarray, Cs: np.ndarray, learner: Any
) -> dict[str, Any]:
    """The same by the learner's own steps alone: each solution starts from the one before."""

    def solve() -> list[kw.Solution]:
        found: dict[int, kw.Solution] = {}
        start = None
        for place in np.argsort(-Cs, kind="stable").tolist():
            options = {"start": start, "tol": PATH_TOL, "max_iter": MAX_ITER}
            start = found[place] = kw.learn(stack, y, C=Cs[place], learner=learner, **options)
        return [found[place] for place in range(len(Cs))]

    return follow(stack, y, Cs, solve)
