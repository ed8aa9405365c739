"""The support kernel machine: SMO under Moreau-Yosida regularization [bach2004, §4.4].

    min_v  ½ max_j vᵀK_j v/d_j² − cᵀv + ½ρ‖v‖²    over the feasible v         [bach2004, (S), §2.4]

is approached by machines without kinks, regularized by a_j = κd_j/(1 − κ) with κ falling: κ = 1 is
the SVM on the sum of the kernels, κ = 0 the problem itself. The paper's a_j = κ, d_j = 1 − κ are
these in other units: dividing both by 1 − κ is the same as multiplying C by (1 − κ)², and leaves
the problem that is approached in its place. Each machine is solved by SMO from the one before; its
v is a dual point, and its η̃ are kernel weights, at which an SVM gives the primal point.

The weights of the package are the η of the paper, the unit weights e_j = d_j²η_j, and d_j² = 1/s_j:
1 on the simplex, tr K_j/c under lanckriet2004's constraint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_positive
from kernelweave._core.types import Array, Places
from kernelweave._solvers.bundle.cuts import Cuts, descend, inner_tol
from kernelweave.learners.base import Learner, Step, first_point
from kernelweave.machines.evaluator import Evaluator, Incumbent
from kernelweave.papers.bach2004._few import Machines
from kernelweave.papers.bach2004._moreau_yosida import regularize
from kernelweave.papers.bach2004._optimality import check_tolerances, excess, report


@dataclass(eq=False, repr=False)
class Skm(Learner):
    """SMO on a smooth dual, with less and less regularization.

    Parameters
    ----------
    mu : float
        What κ is multiplied by from one machine to the next.
    eps1, eps2 : float
        Tolerances of (ε₁, ε₂)-optimality, ε₁ per sample; ``papers.bach2004.theory`` uses nε₁:
        the kernels in use are within nε₁ of the greatest ½vᵀK_j v/d_j², and no pair violates the
        conditions of their SVM by more than 2ε₂ [bach2004, (OPT_4)].
    stop : "gap" or "optimality"
        What ends it, and makes it "optimal": the relative duality gap, or (ε₁, ε₂)-optimality
        whatever the gap, each machine being solved to ε₂/2 then. Where rounding keeps the machines
        from getting there, the gap is brought to ``tol`` and the status is "stopped".
    a : array (m,), optional
        How much each kernel is regularized: a_j = κ/(1 − κ) times this; d_j by default. Under
        C="learn" there are m + 1: the identity is the last kernel.

    ``Solution.extras`` has the pair (α, η) of the last machine, "alpha" (of the rows with a label)
    and "eta", what it attains, "eps1" (a point) and "eps2", and its "kappa": 1 where the SVM at the
    weights to start from was all it took. Under C="learn" the last of "eta" is the identity's.
    """

    weight_norms = (1,)  # the block 1-norm
    reports = True  # the pair (α, η), for every problem

    mu: float = 0.5
    eps1: float = 5e-4
    eps2: float = 1e-4
    stop: str = "gap"
    a: ArrayLike | None = None

    @property
    def follows(self) -> bool:  # type: ignore[override]
        """Where the gap decides."""
        return self.stop == "gap"

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One regularized machine and one SVM at its weights per step, from weights ``e``."""
        self._check()
        by_gap = self.stop == "gap"
        shape = np.ones(e.size)
        if self.a is not None:  # in units of d_j, which is 1 for the kernels s_j K_j
            root = np.sqrt(evaluator.problem.unit * evaluator.weight_set.scale)
            shape = root * check_positive("a", self.a, e.size)
        path = _KappaPath(evaluator, incumbent, e, tol, shape)
        yield self._step("machine", path)
        missed, stale = np.inf, 0
        kappa = min(self.mu, max(float(np.sqrt(incumbent.gap)), 1e-6))
        while stale < 3 and path.sizes.any():
            gap, last = incumbent.gap, missed
            close = max(0.05 * kappa * kappa, 0.05 * tol)
            path.follow(kappa, close, 0.0 if by_gap else self.eps2 / evaluator.problem.size)
            missed = excess(path.pair, self.eps1, self.eps2)
            yield self._step("skm", path)
            kappa *= self.mu
            nearer = incumbent.gap <= 0.9 * gap if by_gap else missed < last
            stale = 0 if nearer else stale + 1
        for _ in descend(path.cuts):
            yield self._step("bundle", path)
            if incumbent.gap <= tol:
                return

    def _step(self, by: str, path: _KappaPath) -> Step:
        status = "running"
        if self.stop == "optimality":
            met = excess(path.pair, self.eps1, self.eps2) <= 1.0
            status = "rule_met" if met else "rule_unmet"
        return Step(by, status, extras=path.pair)

    def _check(self) -> None:
        check_tolerances(self.mu, self.eps1, self.eps2)
        if self.stop not in ("gap", "optimality"):
            raise ValueError(f"stop must be 'gap' or 'optimality', found {self.stop!r}")


class _KappaPath(Machines):
    """The machines along κ; of the last two, ``used`` kernels with a weight, ``track`` κ and v."""

    def __init__(
        self,
        evaluator: Evaluator,
        incumbent: Incumbent,
        e: Array,
        tol: float,
        shape: Array,
    ) -> None:
        super().__init__(evaluator)
        self.shape, self.ones = shape, np.ones(e.size)
        self.pair: dict[str, Any] = {}
        self.used: list[Places] = []
        self.track: list[tuple[float, Array]] = []
        self.cuts = Cuts(tol, evaluator=evaluator, incumbent=incumbent)
        point = incumbent.best if incumbent.gap <= tol else None  # the start was good enough
        if point is None:  # of one kernel there is no other machine to come
            close = inner_tol(1.0, tol) if e.size > 1 else 0.99 * tol
            point = first_point(evaluator, e, close)
        self.keep(point.v, point.q)
        f = point.K @ self.qp.fold(point.v)
        self.pair = report(evaluator, point.v, f, self.q, point.e, 1.0)

    def follow(self, kappa: float, close: float, kkt_tol: float) -> None:
        """The machine at κ, and the SVM at its weights; ``pair`` is what the two attain.

        The machine is solved to a relative gap of ``close``, or to ``kkt_tol`` where that is given.
        Kernels that had no weight at the last two κ are left out, and looked at afterwards.
        """
        a = kappa / (1.0 - kappa) * self.shape
        likely = np.flatnonzero(regularize(self.sizes, a, self.ones).eta)
        kernels = np.unique(np.concatenate([likely, *self.used]))
        start = self._extrapolate(kappa)
        inner, kernels = self.solve(kernels, a, self.ones, start, close, kkt_tol)
        self.track = [*self.track[-1:], (kappa, inner.v)]
        e = np.zeros(self.ones.size)
        e[kernels] = inner.parts.eta_tilde
        if not e.any():  # no kernel tells points apart: all weights are as good
            e[kernels] = 1.0
        self.used = [*self.used[-1:], np.flatnonzero(e)]
        e /= e.sum()  # which is 1 up to how well the machine is solved
        self.evaluator.solve(e, close, start=inner.v)
        f = e[kernels] @ inner.products
        self.pair = report(self.evaluator, inner.v, f, self.q, e, kappa)

    def _extrapolate(self, kappa: float) -> Array | None:
        """Where to start the machine at κ: v is nearly linear in a² along the path."""
        if len(self.track) < 2:
            return self.v
        squares = [(k / (1.0 - k)) ** 2 for k in (self.track[0][0], self.track[1][0], kappa)]
        (_, before), (_, last) = self.track
        return last + (squares[1] - squares[2]) / (squares[0] - squares[1]) * (last - before)

    def keep(self, v: Array, q: Array) -> None:
        """Offer the machine as a dual point, too."""
        super().keep(v, q)
        self.cuts.keep(v, self.qp.dual_linear(v), q)
