"""Multiple kernel learning as a textbook has it, for a conic solver: apart from the library.

    min_{W, b}  ½(Σ_m ‖W_m‖)² + Σ_c Σ_i C_i ℓ(y_ic, f_c(x_i) + b_c),     f = Σ_m F_m W_m

K_m = F_m F_mᵀ; W_m holds the part of kernel m of all machines, a column each. With d_m ∝ ‖W_m‖ on
the simplex that is min_d Σ_c J_c(d).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from _helpers.remembered import remembered

TIGHT = {
    **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-8),
    **dict.fromkeys(("reduced_tol_gap_abs", "reduced_tol_gap_rel", "reduced_tol_feas"), 1e-6),
    "max_iter": 500,
}


@remembered
def loss_optimum(
    K: Any,
    y: Any,
    C: Any,
    loss: str,
    epsilon: float = 0.1,
    quantile: float = 0.5,
    delta: float = 1.0,
) -> float:
    """The optimum, in whichever of some units the conic solver manages.

    A label 0 says that the row takes no part; y is None for one class, and has two columns of ends
    for intervals.
    """
    import cvxpy as cp

    value, limits = _program(K, y, C, loss, epsilon, quantile, delta)
    for unit in (1.0, 0.1, 10.0, 0.01, 100.0, 1e3):
        problem = cp.Problem(cp.Minimize(value / unit), limits)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            try:
                problem.solve(solver=cp.CLARABEL, **TIGHT)
            except cp.SolverError:
                continue
        if problem.status in ("optimal", "optimal_inaccurate"):
            return unit * float(problem.value)
    raise ArithmeticError("the conic solver fails on this problem")


def _program(
    K: Any, y: Any, C: Any, loss: str, epsilon: float, quantile: float, delta: float
) -> tuple[Any, list[Any]]:
    """Objective and constraints; factors in units of their own size: W_m is then as large as f."""
    import cvxpy as cp

    y = np.zeros((K.shape[1], 1)) if y is None else y.reshape(len(y), -1)
    ends = y.T[:, :, None]
    y = y[:, :1] if loss == "interval" else y
    costs = np.broadcast_to(np.asarray(C, float), len(y))[:, None]
    factors = [factor(matrix) for matrix in K if matrix.any()]
    sizes = [np.sqrt((F * F).sum() / len(F)) for F in factors]
    parts = [cp.Variable((F.shape[1], y.shape[1])) for F in factors]
    b, u = cp.Variable((1, y.shape[1])), cp.Variable(nonneg=True)
    f = sum(F / size @ W for F, size, W in zip(factors, sizes, parts, strict=True))
    f = f + np.ones((len(y), 1)) @ b
    squares = loss in ("squared", "squared_hinge")
    over = cp.Variable(y.shape) if squares else cp.Variable(y.shape, nonneg=True)
    if loss in ("hinge", "squared_hinge"):
        limits, costs = [cp.multiply(y, f) >= np.abs(y) - over], costs * np.abs(y)
    elif loss == "one_class":
        limits = [f >= -over]
    elif loss == "squared":
        limits = [over == y - f]
    elif loss == "huber":
        limits = [over >= cp.abs(y - f)]
    elif loss == "quantile":
        limits = [over >= quantile * (y - f), over >= (quantile - 1.0) * (y - f)]
    elif loss == "interval":
        at = [np.flatnonzero(np.isfinite(side)) for side in ends]
        signs = zip(at, ends, (1.0, -1.0), strict=True)
        limits = [over[k] >= s * (end[k] - f[k]) - epsilon for k, end, s in signs if k.size]
    else:
        limits = [over >= y - f - epsilon, over >= f - y - epsilon]
    if loss == "huber":
        paid = cp.sum(cp.multiply(0.5 * costs, cp.huber(over, delta)))
    elif squares:
        paid = cp.sum_squares(cp.multiply(np.sqrt(0.5 * costs), over))
    else:
        paid = cp.sum(cp.multiply(costs, over))
    norms = sum(cp.norm(W, "fro") / size for W, size in zip(parts, sizes, strict=True))
    value = 0.5 * cp.square(u) + paid + (cp.sum(b) if loss == "one_class" else 0.0)
    return value, [*limits, norms <= u]


def factor(K: Any) -> Any:
    """F with F Fᵀ = K, as wide as the rank of K."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-13 * values[-1]
    return vectors[:, keep] * np.sqrt(values[keep])
