"""The quadratically constrained program over machine and weights [lanckriet2004, th. 17].

    max_{v, t}  cᵀv − ½ρ‖v‖² − ½t     s.t.  t ≥ s_m vᵀK_m v  for every m,  Σv = r,  lo ≤ v ≤ hi

Eq. (33) with a hard margin, (38) with the hinge, (43) with the squared hinge, (47) with C learned.
The paper's ω is 2J, and its r_m = tr K_m is in the scale s. The weights are the multipliers of the
constraints. A conic solver takes all of it at once, on low-rank factors of the kernels
(``_programs.py``); constraints that v does not come near are left out until it does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelweave._core.checks import check_number
from kernelweave._core.tolerances import CONE_ACCURACY, SUM_ROUNDING, TINY
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Cuts, descend, inner_tol
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.machines.machine import Point
from kernelweave.papers.lanckriet2004._clarabel import load_clarabel
from kernelweave.papers.lanckriet2004._programs import FORMS, in_units
from kernelweave.stacks.cholesky import factor


class Qcqp(Learner):
    """A conic solver on the whole problem, and cuts where its accuracy falls short of the gap.

    Its time grows with n² times the sum of the ranks in play: for small n, and as a reference.

    Parameters
    ----------
    form : "group" or "machine"
        Which of two programs, each the dual of the other, the solver gets: "machine" is that of
        the paper, "group" takes about half the time.
    batch : int
        Kernels that enter the program at a time, those with the largest vᵀK_m v first.
    """

    weight_norms = (1,)  # multipliers, on the simplex

    def __init__(self, form: str = "group", batch: int = 10) -> None:
        self.form = form
        self.batch = batch

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One program and one SVM per step; unit weights ``e`` are for the first SVM alone."""
        if self.form not in FORMS:
            raise ValueError(f"form must be one of {sorted(FORMS)}, found {self.form!r}")
        check_number("batch", self.batch, int)
        load_clarabel()
        cuts = Cuts(tol, evaluator=evaluator, incumbent=incumbent)
        point = first_point(evaluator, e, inner_tol(1.0, tol))
        cuts.keep(point.v, point.linear, point.q)
        yield Step("machine")
        program = _ConePart(evaluator, point, tol, self.form)
        q, top = point.q, -1.0
        while program.enter(q, top, self.batch):
            e, v = program.solve()
            if v is None:  # a hard margin that these kernels alone do not have
                continue
            q = evaluator.quads(v)
            top = float(q[program.kernels].max())
            cuts.keep(v, program.qp.dual_linear(v), q)
            point = evaluator.solve(_clean(e, q, top), 0.1 * tol, start=v)
            cuts.keep(point.v, point.linear, point.q)
            yield Step("qcqp")
            top *= 1.0 + 0.1 * tol
        for _ in descend(cuts):
            yield Step("bundle")


class _ConePart:
    """The program of some of the kernels, in units that a first machine suggests."""

    def __init__(self, evaluator: Evaluator, first: Point, tol: float, form: str) -> None:
        self.evaluator, self.stack = evaluator, evaluator.stack
        self.scale = evaluator.weight_set.scale
        self.qp, self.tol, self.form = evaluator.problem.qp, tol, FORMS[form]
        self.kernels: list[int] = []
        self.factors: list[Array] = []
        n = self.stack.n
        sizes = self.scale * self.stack.traces() / n
        self.outside = sizes > 0.0
        largest = float(np.abs(first.v).max()) or np.inf
        self.unit = min(largest, 1.0 / max(float(sizes.max()), TINY))
        # what the factors leave out may change ½vᵀKv by a hundredth of tol, at the first v
        whole = n * max(float(first.v @ first.v), TINY)
        self.least = 0.02 * tol * abs(first.primal) / whole

    def enter(self, q: Array, top: float, batch: int) -> bool:
        """Take in the kernels with the largest q above ``top``; whether there were any."""
        price = np.where(self.outside, q, -np.inf)
        largest = np.argsort(-price, kind="stable")[:batch]
        entering = largest[price[largest] > top]
        for k in entering:
            every = np.arange(self.stack.n)
            K = self.scale[k] * self.stack.block(int(k), every, every)
            size = float(np.diagonal(K).max())
            drop = np.clip(self.least, SUM_ROUNDING * len(K) * size, 1e-5 * size)
            self.kernels.append(int(k))
            self.factors.append(factor(K, drop))
        self.outside[entering] = False
        return entering.size > 0

    def solve(self) -> tuple[Array, Array | None]:
        """Unit weights of all kernels, and a feasible v; none where the program has no solution."""
        qp = self.qp
        accuracy = float(np.clip(1e-3 * self.tol, *CONE_ACCURACY))
        program, read = self.form(*in_units(self.factors, qp, self.unit))
        found = program.solve(accuracy, self.evaluator.time_left())
        shares, v = read(found)
        e = np.zeros(self.outside.size)
        e[self.kernels] = shares
        return e, qp.feasible(self.unit * v) if found.found else None


def _clean(e: Array, q: Array, top: float) -> Array:
    """Without what an interior point leaves of weights whose constraint, q_m ≤ top, is slack."""
    e = np.where(e * top < 1e-3 * (top - q), 0.0, e)
    return e / e.sum()
