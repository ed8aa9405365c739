"""Weights under which the kernel looks most like the labels [lanckriet2004, §4.7].

    max_d  ⟨K_tr(d), YYᵀ⟩    s.t.  ‖K(d)‖ ≤ 1,  and  d ≥ 0  or  K(d) ⪰ 0,     K(d) = Σ_m d_m K_m

with ⟨K, L⟩ = tr KᵀL; K_tr is the block of the labeled rows, and Y has a column per machine: the
labels, those of each class, or the centered targets of a regression. Up to the size of d that is

    min_d  ½ dᵀSd    s.t.  d·a = 1,      S_kl = ⟨K_k, K_l⟩,   a_k = tr YᵀK_k Y           (55), (56)

a quadratic program in m variables for d ≥ 0, and for centered kernels and labels the alignf of
[cortes2012]. Of kernels orthogonal to each other, such as those of single eigenvectors, it has the
solution d_k = a_k/S_kk (54). With K(d) ⪰ 0 (53) it is left to the interior point method of signed
weights. A row of weight w counts as w equal rows in both products.

Of one class against the rest, and centered, YYᵀ is up to its scale the kernel of 1 for two rows of
the same class and 0 for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import INSIDE, NOTHING, SUM_ROUNDING
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.master import solve_master
from kernelweave._solvers.signed.interior_point import follow_sets
from kernelweave._solvers.signed.semidefinite_set import Joint, SemidefiniteSet, nested_sets
from kernelweave.learners.base import GivenWeights, Step, given_point, given_step
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.problems.problem import Problem
from kernelweave.stacks.cholesky import triangle
from kernelweave.stacks.protocol import Stack

_CONSTANTS = 1e4  # how much larger than the rest of a signed kernel its constant part may be


class Alignment(GivenWeights):
    """Maximal alignment with the labels, then one SVM at these weights.

    Beside rows without a label the size ‖K‖ is over all rows, and y is 0 there. The weights know
    nothing of C and the loss, and the certificate is that of the SVM;
    ``duality_gap`` tells how far they are from the best ones for it. ``Solution.extras`` has the
    "alignment" reached and, as "stationarity", by what share of it any other weights could be
    better: a bound, as for the gap.

    Parameters
    ----------
    centered : bool
        Whether kernels and labels are centered before they are compared: then neither the share of
        a class nor a constant in a kernel counts. The SVM gets the kernels as they are. Constant
        kernels get no weight where others say something.
    signed : bool
        Whether weights may be negative where K(d) ⪰ 0 on all rows; for transduction. With the same
        ⟨K_tr, yyᵀ⟩ as all kernels alike, they may go to −10⁷ times the weights of these. Centered,
        the constant part of the kernel has a limit, too: some 10⁴ times what varies, or what the
        best weights ≥ 0 have.
    """

    targets = ("labels", "values")
    why_not = "there is no target to align kernels with"

    def __init__(self, centered: bool = False, signed: bool = False) -> None:
        self.centered = centered
        self.signed = signed

    @property
    def weighted(self) -> bool:  # type: ignore[override]
        """Signed weights are judged by matrices that count every row once."""
        return not self.signed

    @property
    def needs_dense(self) -> bool:  # type: ignore[override]
        """Signed weights need a matrix to tell whether it is semidefinite."""
        return self.signed

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Weights first, then one solve, as tight as asked; ``e`` does not matter."""
        problem = evaluator.problem
        scale, kernels = problem.weight_set.scale, problem.whole
        everywhere = problem.formulation.row_weights
        counts = np.ones(problem.stack.n) if everywhere is None else everywhere[problem.rows]
        Y = _ideal(problem, counts, self.centered)
        a = scale * sum(problem.stack.quad_forms(counts * y) for y in Y.T)
        a[a <= NOTHING * scale * kernels.traces() * float(((counts[:, None] * Y) ** 2).sum())] = 0.0
        if self.signed:
            R = frobenius_root(kernels, self.centered) * scale
            told = R.any(axis=0)  # constant kernels could grow without end
            a = np.where(told, a, 0.0)
            used = np.where(told, scale, 0.0) if a.any() else scale
            constants = _CONSTANTS if self.centered else 1.0
            e, excess = most_aligned_signed(kernels, used, R, a, constants, tol)
            e = e / e.sum()
            size = float(np.linalg.norm(R @ e))
        else:
            S = frobenius_products(kernels, self.centered, everywhere) * np.outer(scale, scale)
            e, excess = most_aligned(S, a)
            e = e / problem.weight_set.size(e)
            size = float(np.sqrt(e @ S @ e))
        ideal = float(np.linalg.norm(Y.T @ (counts[:, None] * Y)))
        score = float(a @ e) / (size * ideal) if size > 0.0 and ideal > 0.0 else 0.0
        point = given_point(evaluator, e, tol, "the most aligned kernel")
        extras = {"alignment": score, "stationarity": excess}
        yield given_step("alignment", evaluator, point, stationarity=excess, extras=extras)


def alignf() -> Alignment:
    """Maximal centered alignment with the labels [cortes2012]."""
    return Alignment(centered=True)


def _ideal(problem: Problem, counts: Array, centered: bool) -> Array:
    """Y: the targets of the labeled rows, a column per machine, centered where that is asked for.

    Those of a regression always are: a constant is the business of the bias.
    """
    Y = problem.targets
    if centered or problem.formulation.loss.target == "values":
        Y = Y - counts @ Y / counts.sum()
    return Y


def frobenius_products(
    kernels: Stack, centered: bool = False, counts: Array | None = None
) -> Array:
    """All ⟨K_k, K_l⟩, shape (m, m); ``centered``: of HK_kH and HK_lH, H = I − 11ᵀ/n.

    ``counts`` say how many rows each row stands for.
    """
    products = np.zeros((kernels.m, kernels.m))
    for flat in _chunks(kernels, centered, counts):
        products += flat @ flat.T
    if centered:
        traces = kernels.traces() if counts is None else kernels.diagonals() @ counts
        nothing = np.diagonal(products) <= (NOTHING * traces) ** 2
        products[nothing], products[:, nothing] = 0.0, 0.0
    return products


def frobenius_root(kernels: Stack, centered: bool = False) -> Array:
    """R with RᵀR the products: ‖Re‖ keeps digits that eᵀSe loses where kernels cancel."""
    R = np.zeros((0, kernels.m))
    for flat in _chunks(kernels, centered):
        R = triangle(np.vstack([R, flat.T]))
    if centered:
        R[:, np.linalg.norm(R, axis=0) <= NOTHING * kernels.traces()] = 0.0
    return R


def _chunks(kernels: Stack, centered: bool, counts: Array | None = None) -> Iterator[Array]:
    """Some rows of all kernels at a time, (m, numbers); ``centered``: of HK_kH."""
    m, n = kernels.m, kernels.n
    shares = np.full(n, 1.0 / n) if counts is None else counts / counts.sum()
    means = kernels.matvecs(shares) if centered else np.zeros((m, n))
    height = max(1, SETTINGS.computed // (m * n))
    for start in range(0, n, height):
        index = np.arange(start, min(start + height, n))
        part = np.stack([kernels.block(k, index, np.arange(n)) for k in range(m)])
        if centered:
            part -= means[:, None, :]
            part -= (means[:, index] - (means @ shares)[:, None])[:, :, None]
        if counts is not None:
            part *= np.sqrt(counts[index])[:, None] * np.sqrt(counts)
        yield part.reshape(m, -1)


def most_aligned(S: Array, a: Array) -> tuple[Array, float]:
    """A d ≥ 0 of the largest a·d/√(dᵀSd), and by what share of it another could be better.

    For S ⪰ 0 without negative entries, and 0 ≤ a in its range. With x_k = d_k a_k it is
    min ½ xᵀ(S/aaᵀ)x on the simplex, for the interior point method of the other learners. A kernel
    with a_k = 0 only adds to ‖K‖ and is left out.
    """
    size = np.sqrt(np.maximum(np.diagonal(S), 0.0))
    cosine = np.divide(a, size, out=np.zeros_like(a), where=size > 0.0)
    if not cosine.any():
        return np.ones_like(a), 0.0
    used = np.flatnonzero(cosine > 1e-9 * cosine.max())
    sides = cosine[used] / cosine.max()
    between = S[np.ix_(used, used)] / np.outer(size[used], size[used])
    if np.abs(between - np.eye(used.size)).max() <= SUM_ROUNDING:
        x = sides**2
    else:
        none = np.zeros(used.size)
        x, _ = solve_master(np.ones(1), none[None], none, 0.0, _root(between) / sides)
        x[x < INSIDE] = 0.0
    d = np.zeros_like(a)
    d[used] = x / (sides * size[used])
    return d, _excess(S, a, d)


def _excess(S: Array, a: Array, d: Array) -> float:
    """By what share the alignment of ``d`` could grow, at most.

    Scaled to dᵀSd = d·a, a ≤ Sd + r with r = (a − Sd)₊. Since S has no negative entries, any d' ≥ 0
    has Σ d'_k² S_kk ≤ d'ᵀSd', and so

        a·d' ≤ dᵀSd' + r·d' ≤ (√(dᵀSd) + ‖r/√diag S‖) √(d'ᵀSd').
    """
    d = d * float(a @ d) / float(d @ S @ d)
    short, size = np.maximum(a - S @ d, 0.0), np.sqrt(np.diagonal(S))
    missing = np.divide(short, size, out=np.zeros_like(a), where=size > 0.0)
    return float(np.linalg.norm(missing) / np.sqrt(d @ S @ d))


def most_aligned_signed(
    kernels: Stack, scale: Array, R: Array, a: Array, constants: float, tol: float
) -> tuple[Array, float]:
    """The same over all e with K(e) = Σ_m e_m s_m K_m ⪰ 0, S = RᵀR, as closely as ``tol`` asks.

    With a·e = 1 the alignment is 1/‖Re‖, and a lower bound of ½‖Re‖² bounds that of all others. As
    ‖K‖ ≥ tr K/√n, none is better whose trace is more than 2√n times that of all kernels alike, but
    for constants that do not count: the trace may be ``constants`` times as large again, or what
    the best weights ≥ 0 have.
    """
    if not a.any():
        return (scale > 0.0).astype(float), 0.0
    e = most_aligned(R.T @ R, a)[0]
    e /= float(a @ e)
    traces = scale * kernels.traces()
    constants = max(constants, float(traces @ e) / float(traces.sum() / a.sum()))
    joint = Joint(kernels, scale, a, 2.0 * np.sqrt(kernels.n) * constants)
    best: _HalfSquare | None = _HalfSquare(e, R)
    bound, seen = 0.0, None
    path = follow_sets(nested_sets(joint), lambda e, _: _HalfSquare(e, R), _middle, tol)
    for region, center in islice(path, 200):
        if region is not seen:
            seen, bound = region, 0.0 if region.lenient else bound
            if best is not None and not region.contains(best.e):
                best = None
        if best is None or center.look.value < best.value:
            best = center.look
        bound = max(bound, center.bound)
        if best.value <= bound * (1.0 + 0.1 * tol):
            break
    assert best is not None
    excess = np.sqrt(best.value / bound) - 1.0 if bound > 0.0 else np.inf
    return best.e, max(float(excess), 0.0)


def _middle(region: SemidefiniteSet) -> list[Array]:
    return [np.zeros(len(region.directions))]


@dataclass(frozen=True)
class _HalfSquare:
    """½‖Re‖²."""

    e: Array
    R: Array

    @property
    def value(self) -> float:
        return 0.5 * float(np.sum((self.R @ self.e) ** 2))

    def expand(self) -> tuple[float, Array, Array]:
        return -self.value, self.R.T @ (self.R @ self.e), self.R


def _root(S: Array) -> Array:
    """R with RᵀR = S ⪰ 0."""
    values, vectors = np.linalg.eigh(S)
    return np.ascontiguousarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
