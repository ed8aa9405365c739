"""The dual QP without bounds: a linear system, for several machines under one kernel.

    max_v  cᵀv − ½ vᵀKv − ½ Σ ρ_i v_i²,  Σv = r    ⟺    (K + diag ρ)v + b·1 = c,  Σv = r

That is kernel ridge regression with a bias b. With A = K + diag ρ and A u = 1 the solution is
v = A⁻¹c − b·u, b = (1ᵀA⁻¹c − r)/1ᵀu. Where K is an array A is factored, once for all machines with
the same ridge, where it lives; where it is computed on demand conjugate gradients take the place of
the factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kernelweave._core.tolerances import SOFT, SOFT_EXACT
from kernelweave._core.types import Array
from kernelweave._solvers.svm.smo import Inner
from kernelweave._solvers.svm.systems import Conjugate, Lift, landmarks_of
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.stacks.protocol import CombinedKernel

_ROUNDS = 50  # of refinement, at the most
_DIGITS = 1e-3  # what one run of conjugate gradients leaves of its residual

Inverse = Callable[[Array], Array]
Tick = Callable[[], None]


def solve(
    K: CombinedKernel, qps: Sequence[DualQP], tol: float = 1e-3, tick: Tick | None = None
) -> list[Inner | None]:
    """All QPs: exactly where K is an array, else each to the relative gap ``tol``.

    None for those with bounds, where K + diag ρ is not positive definite in floating point, and
    where solutions grow beyond all numbers.
    """
    answers: list[Inner | None] = []
    inverse: Inverse | None = None
    ridge: float | Array = np.nan
    u = np.ones(K.n)
    for qp in qps:
        answers.append(None)
        if not qp.is_unbounded:
            continue
        if not np.array_equal(qp.ridge, ridge):
            ridge = qp.ridge
            inverse = _inverse(K, ridge, tick)
            u = u if inverse is None else inverse(np.ones(K.n))
        if inverse is not None:
            answers[-1] = _refined(K, qp, inverse, u, tol)
        if tick is not None:
            tick()
    return answers


def _refined(K: CombinedKernel, qp: DualQP, inverse: Inverse, u: Array, tol: float) -> Inner | None:
    """The solution, its residual solved for until the gap is closed; ``u`` is A⁻¹1.

    A factor is exact at once but for rounding, which one round more removes. Where the system is
    singular but for rounding, rounds may lead away: the best counts, None if none proves more than
    v = 0 does.
    """
    v, f, bias, closed = np.zeros(qp.n), np.zeros(qp.n), 0.0, 0
    best, least = None, np.inf
    for _ in range(_ROUNDS):
        step = inverse(qp.linear - f - qp.ridge * v - bias)
        more = (float(step.sum()) - (qp.total - float(v.sum()))) / float(u.sum())
        v, bias = v + step - more * u, bias + more
        f = K @ v
        quad = float(v @ f)
        dual = qp.dual_value(v, quad)
        gap = relative_gap(qp.primal_value(f, qp.best_bias(f), quad), dual)
        if not gap < np.inf:
            break
        if gap <= least and dual >= 0.0:
            best, least = Inner(v, f, 0, True), gap
        closed += gap <= tol
        if closed > K.is_dense:
            break
    return best


def _inverse(K: CombinedKernel, ridge: float | Array, tick: Tick | None) -> Inverse | None:
    """What multiplies by (K + diag ρ)⁻¹, exactly or nearly; None where nothing does.

    Where ρ is lost in the rounding of K, a little more stands in its place: refined, the solution
    is as good as numbers allow.
    """
    every, mean = np.arange(K.n), float(K.diagonal().mean())
    for soft in (0.0, SOFT_EXACT, SOFT):
        exact = K.solver(every, np.full(K.n, ridge + soft * mean))
        if exact is not None:
            return exact.solve
    if K.is_dense:
        return None
    if not K.has_landmarks:
        return _iterated(K, ridge, tick)
    system = Conjugate(K, K.landmark_factor(landmarks_of(K.n), 0), Lift(every, K.n))
    system.prepare(np.full(K.n, ridge), _DIGITS)
    return system.solve


def _iterated(K: CombinedKernel, ridge: float | Array, tick: Tick | None) -> Inverse:
    """The same to three digits, by conjugate gradients that the diagonal preconditions."""
    from scipy.sparse.linalg import LinearOperator, cg  # loads slowly

    diagonal = K.diagonal() + ridge

    def product(v: Array) -> Array:
        if tick is not None:
            tick()
        return K @ v + ridge * v

    shape = (diagonal.size, diagonal.size)
    A = LinearOperator(shape, product, dtype=float)
    M = LinearOperator(shape, lambda v: v / diagonal, dtype=float)
    return lambda side: cg(A, side, rtol=_DIGITS, M=M)[0]
