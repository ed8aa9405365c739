"""Multiple kernel learning as a cone program, in two forms, each the dual of the other.

    machine form   max_v  cᵀv − ½ρ‖v‖² − ½u²      s.t.  ‖F_mᵀv‖ ≤ u,  Σv = r,  lo ≤ v ≤ hi
    group form     min_w  ½u² + Σ ℓ_i(c_i − Σ_m (F_m w_m)_i − b) + r·b    s.t.  Σ_m ‖w_m‖ ≤ u

K_m = F_m F_mᵀ, weights e on the simplex. The first is, times ½ and with t = u², the QCQP of
[lanckriet2004, th. 17]: eq. (33) for the hard margin, (38) 1-norm, (43) 2-norm, (47) with C
learned. The weights are the multipliers of its cones; in the group form e_m ∝ ‖w_m‖, and v are
multipliers. A kernel of rank one needs no cone but two bounds, |f_mᵀv| ≤ u: eq. (32), (37) and
(42) become quadratic programs, and (46) has one cone left, that of the identity.

With u = 1 the machine form is the dual of min_w Σ_m ‖w_m‖ + Σ ℓ_i + r·b: the norm of all blocks,
not squared [bach2004, §2.4]. The multipliers are then weights of any sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from kernelweave._core.types import Array
from kernelweave.papers.lanckriet2004._clarabel import ConeProgram, ConeSolution, Matrix
from kernelweave.problems.dual_qp import DualQP

Reader = Callable[[ConeSolution], tuple[Array, Array]]


def machine_form(
    factors: list[Array], qp: DualQP, squared: bool = True
) -> tuple[ConeProgram, Reader]:
    """The program, and what reads e and v off its solution. Every factor has a column at least.

    Not ``squared``: with u = 1, and e of any sum.
    """
    n = qp.linear.size
    program = ConeProgram()
    v = program.variables(n, cost=-qp.linear, bend=qp.ridge)
    u = program.variables(1, bend=float(squared))
    program.constrain("zero", -qp.total, (v, np.ones((1, n))))
    if not squared:
        program.constrain("zero", -1.0, (u, [[1.0]]))
    identity = sparse.identity(n, format="csr")
    for bound, sign in ((qp.upper, 1.0), (qp.lower, -1.0)):
        at = np.isfinite(bound)
        program.constrain("nonnegative", sign * bound[at], (v, -sign * identity[at]))
    cones = [_norm_below(program, u, v, _rows(F, qp).T) for F in factors]
    # two bounds of one kernel share its weight; of a cone, only the head is a weight
    heads = [slice(k.start, k.start + (1 if k.stop - k.start > 2 else 2)) for k in cones]

    def read(found: ConeSolution) -> tuple[Array, Array]:
        e = np.array([found.z[head].sum() for head in heads])
        return _shares(e) if squared else e, found.x[v]

    return program, read


def group_form(factors: list[Array], qp: DualQP) -> tuple[ConeProgram, Reader]:
    """The program, and what reads e and v off its solution; the first variables are the w_m.

    ℓ_i(h) = min hi_i·a − lo_i·s + ½ρp² over a, s ≥ 0 and p with h = a − s + ρp: no a where hi_i is
    infinite, no s where lo_i is, no p without a ridge. A part that costs nothing turns the
    equation into an inequality: where lo_i = 0 it is f_i + b + a + ρp ≥ c_i.
    """
    n = qp.linear.size
    positive = qp.lower == 0.0
    negative = (qp.upper == 0.0) & ~positive
    over = np.isfinite(qp.upper) & ~negative
    under = np.isfinite(qp.lower) & ~positive
    program = ConeProgram()
    w = [program.variables(F.shape[1]) for F in factors]
    norms = [program.variables(1) for _ in factors]
    u = program.variables(1, bend=1.0)
    b = program.variables(1, cost=qp.total)
    a = program.variables(int(over.sum()), cost=qp.upper[over])
    s = program.variables(int(under.sum()), cost=-qp.lower[under])
    p = program.variables(n if qp.is_smooth else 0, bend=qp.ridges if qp.is_smooth else 0.0)
    identity = sparse.identity(n, format="csr")
    parts = [(place, _rows(F, qp)) for place, F in zip(w, factors, strict=True)]
    parts += [(b, np.ones((n, 1))), (a, identity[:, over]), (s, -identity[:, under])]
    parts += [(p, sparse.diags(qp.ridges, format="csr"))] if qp.is_smooth else []
    kinds = [(positive, 1.0, "nonnegative"), (negative, -1.0, "nonnegative")]
    kinds += [(~(positive | negative), 1.0, "zero")]
    rows = [
        program.constrain(cone, -sign * qp.linear[at], *((x, sign * M[at]) for x, M in parts))
        for at, sign, cone in kinds
    ]
    for x in (a, s):
        size = x.stop - x.start
        program.constrain("nonnegative", np.zeros(size), (x, sparse.identity(size)))
    program.constrain("nonnegative", 0.0, (u, [[1.0]]), *((norm, [[-1.0]]) for norm in norms))
    for norm, x, F in zip(norms, w, factors, strict=True):
        _norm_below(program, norm, x, np.eye(F.shape[1]))

    def read(found: ConeSolution) -> tuple[Array, Array]:
        v = np.empty(n)
        for (at, sign, _), place in zip(kinds, rows, strict=True):
            v[at] = sign * found.z[place]
        return _shares(np.array([found.x[norm.start] for norm in norms])), v

    return program, read


FORMS = {"machine": machine_form, "group": group_form}


def in_units(factors: list[Array], qp: DualQP, unit: float) -> tuple[list[Array], DualQP]:
    """The same program for v/unit: conic solvers judge feasibility and gap at the scale of 1."""
    return [np.sqrt(unit) * F for F in factors], qp.rescaled(unit)


def _norm_below(program: ConeProgram, bound: slice, x: slice, M: Matrix) -> slice:
    """‖Mx‖ ≤ bound: two linear rows where M has one, a cone otherwise."""
    rank = M.shape[0]
    if rank == 1:
        sides = (bound, np.ones((2, 1))), (x, np.vstack([M, -M]))
        return program.constrain("nonnegative", np.zeros(2), *sides)
    head = (bound, np.eye(rank + 1, 1))
    padded = (x, np.vstack([np.zeros((1, M.shape[1])), M]))
    return program.constrain("second order", np.zeros(rank + 1), head, padded)


def _rows(F: Array, qp: DualQP) -> Array:
    """F at the kernel row of every variable."""
    return np.tile(F, (qp.linear.size // qp.n, 1))


def _shares(e: Array) -> Array:
    e = np.maximum(e, 0.0)
    return e / e.sum() if e.any() else np.full(e.size, 1.0 / e.size)
