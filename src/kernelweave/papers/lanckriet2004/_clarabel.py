"""The one place that speaks to a conic solver, Clarabel.

    min_x  ½ xᵀPx + qᵀx    s.t.  b − Ax ∈ 𝒦,      𝒦 a product of cones

    "zero"  s = 0        "nonnegative"  s ≥ 0        "second order"  s_0 ≥ ‖(s_1, s_2, …)‖

z is the dual point: Px + q + Aᵀz = 0, z in the dual cone. What the solver says of itself is in
``status``; whoever asks judges x and z by a certificate of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from kernelweave._core.extras import missing
from kernelweave._core.types import Array

Matrix = Any  # dense or sparse


@dataclass(frozen=True)
class ConeSolution:
    """x, its dual z, the solver's word for them, and what they took."""

    x: Array
    z: Array
    status: str
    iterations: int
    seconds: float

    @property
    def found(self) -> bool:
        """Whether x and z are near a solution, rather than proof that there is none."""
        finite = np.isfinite(self.x).all() and np.isfinite(self.z).all()
        return bool(finite) and "Infeasible" not in self.status


def load_clarabel() -> Any:
    """The solver's package, or an error that names the extra it comes with."""
    try:
        import clarabel
    except ImportError:
        raise missing("cone programs need", "clarabel", "conic") from None
    return clarabel


def solve_cone_program(
    P: Matrix,
    q: Array,
    A: Matrix,
    b: Array,
    cones: Sequence[tuple[str, int]],
    tol: float = 1e-8,
    limit: float = np.inf,
) -> ConeSolution:
    """Solve to ``tol``, in the solver's measures of gap and feasibility, or for ``limit`` seconds.

    ``P`` and ``A`` are sparse; ``cones`` are kinds and sizes, in the order of the rows of A.
    """
    clarabel = load_clarabel()
    kinds = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "second order": clarabel.SecondOrderConeT,
    }
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = limit
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    sized = [kinds[kind](size) for kind, size in cones]
    upper = sparse.triu(P, format="csc")
    solver = clarabel.DefaultSolver(upper, q, sparse.csc_matrix(A), b, sized, settings)
    found = solver.solve()
    return ConeSolution(
        np.array(found.x), np.array(found.z), str(found.status), found.iterations, found.solve_time
    )


class ConeProgram:
    """A cone program, written down block by block.

    min  Σ cost·x + ½ bend·x²    s.t.  right + Σ M·x ∈ cone    for every block of rows

    ``variables`` and ``constrain`` return places: of the variables in x, of the rows in z.
    """

    def __init__(self) -> None:
        self._costs: list[Array] = []
        self._bends: list[Array] = []
        self._right: list[Array] = []
        self._cones: list[tuple[str, int]] = []
        self._parts: list[Any] = []  # of −A, each moved to its rows and columns
        self._columns = self._rows = 0

    def variables(self, size: int, cost: ArrayLike = 0.0, bend: ArrayLike = 0.0) -> slice:
        """``size`` more variables, with their linear and quadratic costs."""
        self._costs.append(np.broadcast_to(np.asarray(cost, float), size))
        self._bends.append(np.broadcast_to(np.asarray(bend, float), size))
        self._columns += size
        return slice(self._columns - size, self._columns)

    def constrain(self, cone: str, right: ArrayLike, *parts: tuple[slice, Matrix]) -> slice:
        """Rows: right + Σ M·x ∈ cone, for parts (places of x, M)."""
        b = np.atleast_1d(np.asarray(right, float))
        if b.size:
            self._cones.append((cone, b.size))
        for places, M in parts:
            part = sparse.coo_matrix(M)
            self._parts.append((part.row + self._rows, part.col + places.start, part.data))
        self._right.append(b)
        self._rows += b.size
        return slice(self._rows - b.size, self._rows)

    def arrays(self) -> tuple[Matrix, Array, Matrix, Array, list[tuple[str, int]]]:
        """P, q, A, b and cones."""
        rows, columns, data = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        A = sparse.csc_matrix((-data, (rows, columns)), (self._rows, self._columns))
        P = sparse.diags(np.concatenate(self._bends), format="csc")
        return P, np.concatenate(self._costs), A, np.concatenate(self._right), self._cones

    def solve(self, tol: float = 1e-8, limit: float = np.inf) -> ConeSolution:
        """The solver's answer; see ``solve_cone_program``."""
        return solve_cone_program(*self.arrays(), tol, limit)
