"""What an answer is worth: computed from the data, whatever the solver says of itself.

    min_d J(d) = max_α Σα − ½ Σ_m d_m (α∘y)ᵀK_m(α∘y)      0 ≤ α ≤ C, yᵀα = 0, d on the simplex

A model is judged as it was returned. A rival, which may stop at coefficients only, gets the bias
and the scale that serve it best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelweave as kw
from kernelweave.problems.losses import lower


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
    qp = lower(y, stack.n, C, "hinge")
    f = stack.combine(weights) @ coef
    dual = kw.duality_gap(stack, y, weights, coef, qp.best_bias(f), C=C, dual_alpha=dual_alpha).dual
    models = [(f, float(coef @ f))] + ([model] if model is not None else [])
    primal = min(qp.improve(*each)[2] for each in models)
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
