"""Completes a kernel matrix of which only some entries are known.

    min  tr(SK) − log det K    over positive definite K that agree with the given entries

[lanckriet2004, §7; Vandenberghe, Boyd and Wu 1998]. With S = 0 this is the completion of largest
determinant: it adds no information to the given entries, and the inverse of K is zero at the
missing ones. With S the inverse of another kernel on the same rows, K is the completion nearest to
that kernel in relative entropy. The problem is convex in the missing entries, and at its solution

    (K⁻¹)_ij = S_ij    wherever K_ij was missing.

For any positive definite Ω with Ω_ij = S_ij there, log det Ω + n + tr((S − Ω)K) is a lower bound of
the minimum that depends on the given entries only. Its distance from the objective is the gap
tr(ΩK) − n − log det ΩK: a certificate that is easy to compute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve, cholesky, eigh, solve_triangular

from kernelweave._core.checks import check_floats, check_number, some
from kernelweave._core.tolerances import TINY
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn_unconverged
from kernelweave._solvers.signed.semidefinite_set import factored
from kernelweave.stacks.resources import require_memory

_MOST = 100  # Newton steps for one problem; a dozen is usual


@dataclass(frozen=True, eq=False)
class Completion:
    """A completed kernel matrix and its certificate.

    Attributes
    ----------
    K : array (n, n)
        Positive definite, with the given entries unchanged.
    precision : array (n, n)
        Ω: the inverse of K, with the missing entries set to exactly those of S.
    objective : float
        tr(SK) − log det K.
    gap : float
        tr(ΩK) − n − log det ΩK ≥ 0: the objective is at most this much above the minimum.
    missing : array (n, n) of bool
    method : "chordal" or "newton"
    n_iter : int
        Newton steps; 0 for the closed form.
    """

    K: Array
    precision: Array
    objective: float
    gap: float
    missing: NDArray[np.bool_]
    method: str
    n_iter: int

    def __repr__(self) -> str:
        """A summary; the matrices are in the attributes."""
        n, missing = len(self.K), int(np.count_nonzero(self.missing))
        return (
            f"Completion({n}×{n}, {missing} entries filled in, objective {self.objective:.6g}, "
            f"gap {self.gap:.2g}, method {self.method!r}, {self.n_iter} iterations)"
        )


def complete_kernel(K: ArrayLike, S: ArrayLike | None = None, *, tol: float = 1e-9) -> Completion:
    """The positive definite completion of a kernel matrix whose missing entries are NaN.

    If S is None and the pattern of given entries is chordal (blocks, bands, trees of blocks, fully
    known rows), the solution has a closed form. Otherwise it is found by Newton's method on the
    missing entries, which stores p² numbers for p of them.

    Parameters
    ----------
    K : array (n, n)
        NaN, on both sides of the diagonal, where an entry is missing. The given entries must be
        symmetric. The diagonal must be given, unless S is positive definite.
    S : array (n, n), optional
        Symmetric; zero if None. For the completion nearest to another kernel on the same rows, pass
        its inverse, ``np.linalg.inv(other)``.
    tol : positive float
        The gap to reach.

    Raises
    ------
    ValueError
        If no positive definite matrix has these entries. The proof is a given block that is not
        positive definite, or a positive definite Ω, zero at missing entries, with tr(ΩK) ≤ 0.
    """
    given, missing, target = _check(K, S)
    check_number("tol", tol)
    size = np.sqrt(given.diagonal())
    alone = missing.diagonal()
    size[alone] = 1.0 / np.sqrt(target.diagonal()[alone])
    unit = np.outer(size, size)  # work with a diagonal of 1, so that units do not matter
    order = None if target.any() else _elimination_order(~missing)
    if order is not None:
        done, steps = _closed_form(given / unit, missing, order), 0
    else:
        done, steps = _newton(missing, _start(given / unit, missing), target * unit, tol)
    done = np.where(missing, done * unit, given)
    omega, gap = _certificate(done, missing, target)
    objective = float((target * done).sum()) - _log_det(done)
    if not gap <= tol:
        warn_unconverged(
            f"The gap of the completion is {gap:.1e}, not {tol:.1e}: the given entries are nearly "
            "singular. Add a small number to the diagonal."
        )
    method = "newton" if order is None else "chordal"
    return Completion(done, omega, objective, gap, missing, method, steps)


# ---- closed form -------------------------------------------------------------------------------


def _elimination_order(given: NDArray[np.bool_]) -> list[int] | None:
    """An order of the rows for the closed form; None if the pattern is not chordal.

    In this order, the earlier rows to which a row has given entries all have given entries to each
    other. Maximum cardinality search: the next row is the one with most given entries to rows
    already taken. It finds such an order if there is one [Tarjan and Yannakakis 1984].
    """
    n = len(given)
    count, left = np.zeros(n), np.ones(n, dtype=bool)
    order: list[int] = []
    for _ in range(n):
        row = int(np.argmax(np.where(left, count, -1.0)))
        earlier = [other for other in order if given[row, other]]
        if not given[np.ix_(earlier, earlier)].all():
            return None
        left[row] = False
        count += given[row]
        order.append(row)
    return order


def _closed_form(given: Array, missing: NDArray[np.bool_], order: list[int]) -> Array:
    """Row by row: predict the missing entries of a row from its given ones."""
    K = given.copy()
    for place, row in enumerate(order):
        earlier = np.array(order[:place], dtype=int)
        known = earlier[~missing[row, earlier]]
        unknown = earlier[missing[row, earlier]]
        try:
            factor = cholesky(K[np.ix_([*known, row], [*known, row])], lower=True)
        except np.linalg.LinAlgError:
            rows = sorted([*map(int, known), row])
            raise ValueError(
                "K has no positive definite completion: the given block of rows "
                f"{some(rows)} is not positive definite. If that is due to rounding or low rank, "
                "add a small number to the diagonal."
            ) from None
        block = cho_solve((factor[:-1, :-1], True), K[known, row])
        K[unknown, row] = K[row, unknown] = K[np.ix_(unknown, known)] @ block
    return K


# ---- Newton ------------------------------------------------------------------------------------


class _Entries:
    """The missing entries on and above the diagonal, as variables."""

    def __init__(self, missing: NDArray[np.bool_]) -> None:
        self.i, self.j = np.nonzero(np.triu(missing))
        require_memory(3, len(self.i), np.float64)
        self.half = np.where(self.i == self.j, 0.5, 1.0)  # E = half (e_i e_jᵀ + e_j e_iᵀ)

    def put(self, K: Array, x: Array) -> Array:
        """K with x added to these entries."""
        K = K.copy()
        K[self.i, self.j] += x
        K[self.j, self.i] = K[self.i, self.j]
        return K

    def traces(self, A: Array) -> Array:
        """tr(E A) for each variable's E."""
        return 2.0 * self.half * A[self.i, self.j]

    def hessian(self, omega: Array) -> Array:
        """tr(Ω E Ω E′) for each pair of variables."""
        i, j = self.i, self.j
        H = omega[np.ix_(i, i)] * omega[np.ix_(j, j)] + omega[np.ix_(i, j)] * omega[np.ix_(j, i)]
        return 2.0 * H * np.outer(self.half, self.half)


def _newton(missing: NDArray[np.bool_], K: Array, S: Array, tol: float) -> tuple[Array, int]:
    """Newton steps from a positive definite K until the gap is small and stops falling."""
    entries = _Entries(missing)
    best, least = K, np.inf
    for step in range(_MOST):
        gap = _certificate(K, missing, S)[1]
        falls = gap < 0.5 * least
        if gap < least:
            best, least = K, gap
        if least == 0.0 or (least <= tol and not falls):
            return best, step
        omega = _inverse(K)
        x, _ = _newton_step(entries.hessian(omega), entries.traces(S - omega))
        K = entries.put(K, x)
        if factored(K) is None:  # due to rounding: exact steps stay positive definite
            return best, step
    return best, _MOST


def _newton_step(H: Array, g: Array) -> tuple[Array, float]:
    """The damped Newton step for a self-concordant function, and its decrement."""
    try:
        x = -cho_solve((cholesky(H, lower=True), True), g)
    except np.linalg.LinAlgError:  # singular due to rounding
        x = -np.linalg.lstsq(H, g, rcond=None)[0]
    decrement = float(np.sqrt(max(0.0, -(g @ x))))
    return (x if decrement < 0.25 else x / (1.0 + decrement)), decrement


def _start(given: Array, missing: NDArray[np.bool_]) -> Array:
    """A positive definite completion: first the rows with a given diagonal, then row by row."""
    K = np.where(missing, 0.0, given)
    taken = [int(row) for row in np.flatnonzero(~missing.diagonal())]
    if taken:
        K[np.ix_(taken, taken)] = _feasible(K[np.ix_(taken, taken)], missing[np.ix_(taken, taken)])
    for row in np.flatnonzero(missing.diagonal()):
        column = K[taken, row]
        scale = float(np.mean(K[taken, taken])) if taken else 1.0
        reach = column @ np.linalg.solve(K[np.ix_(taken, taken)], column) if taken else 0.0
        K[row, row] = 2.0 * reach + scale
        taken.append(int(row))
    return K


def _feasible(K: Array, missing: NDArray[np.bool_]) -> Array:
    """A positive definite completion, or a proof that there is none.

    Minimizes τt − log det(K + tI) over the missing entries and t, for growing τ. At the minimum,
    Ω = (K + tI)⁻¹ is zero at missing entries and has trace τ, so that tr(ΩK) = n − τt. If t falls
    below 0, K is a positive definite completion. If τt reaches n, Ω proves that there is none,
    because tr(ΩK) would have to be positive. The diagonal of K is 1.
    """
    n = len(K)
    if factored(K) is not None:
        return K
    entries = _Entries(missing)
    t = -2.0 * float(eigh(K, eigvals_only=True, subset_by_index=[0, 0])[0]) + 1e-3
    tau = n / t
    for _ in range(40):
        K, t = _center(entries, K, t, tau)
        if t < 0.0:
            return K
        omega = _inverse(K + t * np.eye(n))
        omega[missing] = 0.0
        if factored(omega) is not None and float((omega * K).sum()) <= 0.0:
            raise ValueError(
                "K has no positive definite completion: there is a positive definite matrix, zero "
                "where entries are missing, whose inner product with K is not positive. Scaled to "
                "a diagonal of 1, the smallest eigenvalue of any completion is at most "
                f"{float((omega * K).sum() / np.trace(omega)):.3g}."
            )
        tau *= 4.0
        if tau > 1e13 * n:
            break
    raise ValueError(
        "K has no completion that is positive definite beyond rounding: scaled to a diagonal of 1, "
        f"the smallest eigenvalue is at most about {-t:.1e}. Add a small number to the diagonal."
    )


def _center(entries: _Entries, K: Array, t: float, tau: float) -> tuple[Array, float]:
    """An approximate minimum of τt − log det(K + tI) over the missing entries and t."""
    n, p = len(K), len(entries.i)
    for _ in range(_MOST):
        omega = _inverse(K + t * np.eye(n))
        square = omega @ omega
        g = np.append(-entries.traces(omega), tau - np.trace(omega))
        H = np.empty((p + 1, p + 1))
        H[:p, :p] = entries.hessian(omega)
        H[:p, p] = H[p, :p] = entries.traces(square)
        H[p, p] = np.trace(square)
        x, decrement = _newton_step(H, g)
        K, t = entries.put(K, x[:p]), t + float(x[p])
        if decrement < 1e-6 or t < 0.0:
            break
    return K, t


# ---- certificate, linear algebra and validation ------------------------------------------------


def _certificate(K: Array, missing: NDArray[np.bool_], S: Array) -> tuple[Array, float]:
    """Ω, and the gap it proves; infinite if Ω is not positive definite."""
    factor = cholesky(K, lower=True)
    omega = cho_solve((factor, True), np.eye(len(K)))
    omega = 0.5 * (omega + omega.T)
    omega[missing] = S[missing]
    product = factor.T @ omega @ factor  # has the eigenvalues of ΩK, all 1 at the solution
    away = eigh(0.5 * (product + product.T), eigvals_only=True) - 1.0
    if not away[0] > -1.0:
        return omega, np.inf
    return omega, float((away - np.log1p(away)).sum())


def _inverse(K: Array) -> Array:
    inverse = solve_triangular(cholesky(K, lower=True), np.eye(len(K)), lower=True)
    return inverse.T @ inverse


def _log_det(K: Array) -> float:
    return 2.0 * float(np.log(cholesky(K, lower=True).diagonal()).sum())


def _check(K: ArrayLike, S: ArrayLike | None) -> tuple[Array, NDArray[np.bool_], Array]:
    matrix = check_floats("K", K, "mark missing entries with NaN: K.filled(np.nan)")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"K: a kernel matrix is square; found shape {matrix.shape}.")
    missing = np.isnan(matrix)
    if np.isinf(matrix).any():
        raise ValueError("K has infinite entries; mark missing ones with NaN.")
    if not np.array_equal(missing, missing.T):
        i, j = (int(k) for k in np.argwhere(missing & ~missing.T)[0])
        raise ValueError(f"K[{i}, {j}] is missing, but K[{j}, {i}] is {matrix[j, i]:g}; give both.")
    known = np.where(missing, 0.0, matrix)
    gap = np.abs(known - known.T)
    if gap.max() > 1e-8 * np.abs(known).max(initial=0.0):
        i, j = (int(k) for k in np.unravel_index(gap.argmax(), gap.shape))
        raise ValueError(
            f"K is not symmetric: [{i}, {j}] is {known[i, j]:g}, [{j}, {i}] is {known[j, i]:g}."
        )
    known = 0.5 * (known + known.T)
    if (known.diagonal()[~missing.diagonal()] <= 0).any():
        row = int(np.argmax(~missing.diagonal() & (known.diagonal() <= 0)))
        raise ValueError(f"K[{row}, {row}] is {known[row, row]:g}; no such K is positive definite.")
    target = np.zeros_like(known) if S is None else check_floats("S", S)
    if target.shape != known.shape:
        raise ValueError(f"S must have the shape of K, {known.shape}; found {target.shape}.")
    if not np.isfinite(target).all() or np.abs(target - target.T).max() > 1e-8 * max(
        TINY, np.abs(target).max()
    ):
        raise ValueError("S must be finite and symmetric.")
    target = 0.5 * (target + target.T)
    if missing.diagonal().any() and factored(target) is None:
        row = int(np.argmax(missing.diagonal()))
        raise ValueError(
            f"K[{row}, {row}] is missing: without it the determinant is unbounded. Give the "
            "diagonal, or a positive definite S."
        )
    return known, missing, target
