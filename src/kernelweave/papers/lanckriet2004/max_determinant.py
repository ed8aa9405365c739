"""Two maximum-determinant criteria for kernels of Gaussian processes [lanckriet2004, §7].

    D(K) = ½ log det K + ½ yᵀK⁻¹y                       "inverse", the default
    D(K) = ½ log det K + ½ yᵀKy                         "printed"

The text calls D, up to a constant, the relative entropy between a Gaussian process with covariance
K and its approximation to the posterior at the values y. The first is that of a Gaussian at y; the
second is what the paper prints. Both are convex in R = K⁻¹, not in K, and both are problems of
maximum determinant: yᵀR⁻¹y ≤ s is the matrix inequality [[R, y], [yᵀ, s]] ⪰ 0, by its Schur
complement.

The printed one falls without bound as R grows, so that the size of R has to be fixed:

    min_{μ ≥ 0}  ½ yᵀR(μ)⁻¹y − ½ log det R(μ)    s.t.  tr R(μ) = c,       R(μ) = Σ_i μ_i K_i⁻¹

It is convex: at weights with gradient g, D is at most g·μ − min_i g_i c/tr K_i⁻¹ above its minimum.
The other has a minimum of its own:

    min_{μ ≥ 0}  ½ Σ_i μ_i a_i − ½ log det R(μ),    R(μ) = Σ_i μ_i K_i⁻¹,  a_i = yᵀK_i⁻¹y

learns weights for the inverses of given kernels. For any positive definite W with
tr(W K_i⁻¹) ≤ a_i for all i, ½(log det W + n) is a lower bound. W = R⁻¹/s with
s = max_i tr(R⁻¹K_i⁻¹)/a_i is such a matrix. Any weights can be scaled to Σ_i μ_i a_i = n; D then
exceeds its minimum by at most (n/2) log s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, cholesky, solve_triangular

from kernelweave._core.checks import check_floats, check_number, check_vector
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.defaults import matrices
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.validation import check_gram

_MOST = 200  # Newton steps


@dataclass(frozen=True, eq=False)
class MaxDeterminant:
    """Weights of inverse kernels, and their certificate.

    Attributes
    ----------
    weights : array (m,)
        μ ≥ 0, with Σ_i μ_i yᵀK_i⁻¹y = n; of the printed criterion, with tr R = ``trace``.
    K : array (n, n)
        The learned kernel (Σ_i μ_i K_i⁻¹)⁻¹.
    objective : float
        D(K).
    gap : float
        D is at most this much above its minimum over all weights.
    n_iter : int
    """

    weights: Array
    K: Array
    objective: float
    gap: float
    n_iter: int

    def __repr__(self) -> str:
        """A summary; weights and kernel are in the attributes."""
        active = np.count_nonzero(self.weights > 1e-6 * self.weights.max())
        return (
            f"MaxDeterminant({active} of {self.weights.size} kernels on {len(self.K)} rows, "
            f"objective {self.objective:.6g}, gap {self.gap:.2g}, {self.n_iter} iterations)"
        )


def gp_criterion(K: ArrayLike, y: ArrayLike, *, criterion: str = "inverse") -> float:
    """D(K) of either criterion; K must be positive definite and include the noise of y."""
    _check_criterion(criterion)
    matrix = np.asarray(check_gram(check_floats("K", K), "K", psd=False), dtype=np.float64)
    target = check_vector("y", y, len(matrix))
    factor = _factor(matrix, "K")
    if criterion == "printed":
        return float(np.log(factor.diagonal()).sum() + 0.5 * target @ matrix @ target)
    whitened = solve_triangular(factor, target, lower=True)
    return float(np.log(factor.diagonal()).sum() + 0.5 * whitened @ whitened)


def max_determinant(
    K: ArrayLike | Stack,
    y: ArrayLike,
    *,
    criterion: str = "inverse",
    trace: float | None = None,
    noise: float = 0.0,
    tol: float = 1e-6,
) -> MaxDeterminant:
    """Weights μ ≥ 0 that minimize D((Σ_i μ_i (K_i + noise·I)⁻¹)⁻¹).

    Newton's method on tD − Σ_i log μ_i for growing t, with about m·n³ operations per step.

    Parameters
    ----------
    K : array (m, n, n) or KernelStack
    y : array (n,)
        Values of the process, not all zero; labels ±1 are allowed.
    criterion : "inverse" or "printed"
        The second term of D: ½yᵀK⁻¹y, or the paper's ½yᵀKy.
    trace : positive float, optional
        c of the printed criterion, the trace of the learned K⁻¹; n by default.
    noise : non-negative float
        Variance of the noise in y, added to the diagonal of each kernel. Needed if kernels are
        singular.
    tol : positive float
        The gap to reach.
    """
    stack = as_stack(K)
    n, m = stack.n, stack.m
    target = check_vector("y", y, n)
    if not target.any():
        raise ValueError("y must not be all zero: D has no minimum then.")
    check_number("noise", noise, zero=True)
    check_number("tol", tol)
    _check_criterion(criterion)
    if trace is not None and criterion != "printed":
        raise ValueError(f"trace goes with criterion='printed', found criterion={criterion!r}")
    R = np.empty((m, n, n))
    for k, kernel in enumerate(matrices(stack)):
        R[k] = cho_solve((_factor(kernel + noise * np.eye(n), f"K[{k}]"), True), np.eye(n))
    if criterion == "printed":
        size = float(n) if trace is None else check_number("trace", trace)
        units = np.einsum("kii->k", R) / size
        R /= units[:, None, None]  # now all have the trace asked for, and the weights sum to 1
        mu, gap, steps = _newton(partial(_printed, R, target), m, tol, fixed=True)
    else:
        units = np.einsum("i,kij,j->k", target, R, target) / n
        R /= units[:, None, None]  # now all a_i are n, and the best weights sum to 1
        mu, _, steps = _newton(partial(_inverse, R), m, tol, fixed=False)
        mu = mu / mu.sum()
        gap = _inverse(R, mu)[0]
    F = _inverse_factor(R, mu)
    kernel = F.T @ F
    if not gap <= tol:
        warn_unconverged(
            f"The gap is {gap:.1e}, not {tol:.1e}: kernels are nearly singular; give more noise."
        )
    value = gp_criterion(kernel, target, criterion=criterion)
    return MaxDeterminant(mu / units, kernel, value, gap, steps)


def _newton(
    look: Callable[[Array], tuple[float, Array, Array]], m: int, tol: float, fixed: bool
) -> tuple[Array, float, int]:
    """Weights with a gap of at most ``tol``, or the smallest that rounding allows; gap and steps.

    ``look`` gives gap, slope and Hessian of D. ``fixed``: all weights keep the sum 1.
    """
    mu, t = np.full(m, 1.0 / m), 1.0
    best, least = mu, np.inf
    for step in range(_MOST):
        gap, slope, hessian = look(mu)
        if gap < least:
            best, least = mu, gap
        if least <= tol or t > 1e18:
            return best, least, step
        g, H = t * slope - 1.0 / mu, t * hessian + np.diag(mu**-2.0)
        if fixed:
            x, ones = np.linalg.solve(H, np.column_stack([g, np.ones(m)])).T
            x = x.sum() / ones.sum() * ones - x  # Σx = 0
        else:
            x = -np.linalg.solve(H, g)
        decrement = float(np.sqrt(max(0.0, -(g @ x))))
        # the damped step, for D is self-concordant: the whole one may leave its domain
        mu = mu + (x if decrement < 0.25 else x / (1.0 + decrement))
        mu = mu / mu.sum() if fixed else mu
        if decrement < 0.5:
            t *= 10.0
    return best, least, _MOST


def _inverse(R: Array, mu: Array) -> tuple[float, Array, Array]:
    """Gap of μ scaled to sum 1, slope and Hessian of D, times 2 but for the gap."""
    m, n = R.shape[:2]
    F = _inverse_factor(R, mu)
    B = F @ R @ F.T
    traces, flat = np.einsum("kii->k", B), B.reshape(m, -1)
    s = float(traces.max() * mu.sum()) / n
    return max(0.0, 0.5 * n * float(np.log(s))), n - traces, flat @ flat.T


def _printed(R: Array, y: Array, mu: Array) -> tuple[float, Array, Array]:
    """Gap, slope and Hessian of the printed criterion at weights of the simplex."""
    F = _inverse_factor(R, mu)
    B = F @ R @ F.T
    products, flat = B @ (F @ y), B.reshape(len(R), -1)  # F R_i Fᵀ F y
    slope = -0.5 * (np.einsum("kii->k", B) + products @ (F @ y))
    hessian = 0.5 * flat @ flat.T + products @ products.T
    return max(0.0, float(slope @ mu - slope.min())), slope, hessian


def _inverse_factor(R: Array, mu: Array) -> Array:
    """F with FᵀF = R(μ)⁻¹."""
    lower = cholesky(np.tensordot(mu, R, 1), lower=True)
    return np.asarray(solve_triangular(lower, np.eye(len(lower)), lower=True))


def _check_criterion(criterion: str) -> None:
    if criterion not in ("inverse", "printed"):
        raise ValueError(f"criterion must be 'inverse' or 'printed', found {criterion!r}")


def _factor(A: Array, name: str) -> Array:
    try:
        return cholesky(A, lower=True)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"{name} is not positive definite: its inverse does not exist. Add noise to the "
            "diagonal."
        ) from None
