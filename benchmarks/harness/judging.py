"""What an answer is worth: computed from the data, whatever the solver says of itself.

    min_d J(d) = max_α Σα − ½ Σ_m d_m (α∘y)ᵀK_m(α∘y)      0 ≤ α ≤ C, yᵀα = 0, d on the simplex

A model is judged as it was returned. A rival, which may stop at coefficients only, gets the bias
and the scale that serve it best.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import kernelweave as kw
from benchmarks.harness.internals import Hinge
from benchmarks.harness.timing import TimeUp, time_limit


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


def certify(stack: kw.KernelStack, y: np.ndarray, C: float, solution: kw.Solution) -> float:
    """The relative gap of a solution of ours."""
    return judge(stack, y, C, solution)["gap"]


def judge(stack: kw.KernelStack, y: np.ndarray, C: float, solution: kw.Solution) -> dict[str, Any]:
    """Value, relative gap and sparsity of a solution of ours."""
    certificate = kw.duality_gap(
        stack,
        y,
        solution.weights,
        solution.coef,
        solution.bias,
        C=C,
        dual_alpha=solution.dual_alpha,
    )
    return {"value": certificate.primal, "gap": certificate.gap, **sparsity(solution.weights)}


def rival_gap(
    stack: kw.KernelStack,
    y: np.ndarray,
    C: float,
    weights: np.ndarray,
    coef: np.ndarray,
    dual_alpha: np.ndarray | None = None,
    model: tuple[np.ndarray, float] | None = None,
) -> float:
    """The relative gap of weights and v = y∘α, at the best bias and scale.

    ``dual_alpha`` proves the bound where v does not; ``model`` is another f and its squared norm,
    taken where it is better than that of v.
    """
    machine = Hinge(y, C)
    f = stack.combined(weights) @ coef
    dual = kw.duality_gap(
        stack, y, weights, coef, machine.best_bias(f), C=C, dual_alpha=dual_alpha
    ).dual
    models = [(f, float(coef @ f))] + ([model] if model is not None else [])
    primal = min(machine.best_value(*each) for each in models)
    return (primal - dual) / max(abs(primal), 1e-12)


def accuracy(values: np.ndarray, y: np.ndarray) -> float:
    """Per cent of the labels that the signs of f(x) + b meet; zero counts as −1."""
    return 100.0 * float((np.where(values > 0.0, 1.0, -1.0) == y).mean())


def sparsity(weights: np.ndarray) -> dict[str, int]:
    """How many kernels are used: weights above 0, and above the papers' 0.001."""
    return {
        "kernels": int(np.count_nonzero(weights)),
        "kernels_above_1e-3": int(np.count_nonzero(weights > 1e-3)),
    }
