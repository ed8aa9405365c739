"""The support kernel machine's algorithm as published: SMO alone, κ halved [bach2004, §4.4].

    min_v  ½ max_j vᵀK_j v/d_j² − cᵀv + ½ρ‖v‖²    over the feasible v         [bach2004, (S), §2.4]

κ = 1 is the SVM on the sum of the kernels. Then κ ← μκ: the machine regularized by a_j = κ and with
d_j = 1 − κ is solved by pair steps from the one before, to (OPT_6) with ε = ε₂/2. Its v and the
weights η̃ that come with it are the answer once they are (ε₁, ε₂)-optimal. There are no Newton
steps, no SVMs at η̃ and no bundle: ``Skm`` has all of these, and this is the baseline beside it.

The problem has d_j = 1 in unit weights. A machine with a_j = κ and d_j = 1 − κ is one with
a_j = κ/(1 − κ), d_j = 1 and C/(1 − κ)² in place of C. We take C itself there: every machine then
has the C of the problem that is approached, and what is optimal is so for the problem itself.

Each machine begins with the v of the last and the kernels that had a weight there. What a smaller κ
makes of the same v is no guide: θ_j² differ by O(a²) at that v, so that under the new a the largest
alone may keep a weight, and v would leave for the machine of one kernel before the others return.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelweave._core.checks import check_choice, check_truth
from kernelweave._core.types import Array, Places
from kernelweave.learners.base import Learner, Step
from kernelweave.machines.evaluator import (
    NOT_SEPARABLE,
    Evaluator,
    HardMarginInfeasible,
    Incumbent,
)
from kernelweave.papers.bach2004._few import Machines
from kernelweave.papers.bach2004._moreau_yosida import regularize
from kernelweave.papers.bach2004._optimality import check_tolerances, excess, report
from kernelweave.papers.bach2004._smo import SkmInner

_IN_VAIN = 3  # machines in a row that come no nearer: rounding ends it


@dataclass(eq=False, repr=False)
class SkmPublished(Learner):
    """SMO on a smooth dual with less and less regularization, ended by (ε₁, ε₂)-optimality.

    The duality gap is reported and not asked for. ``Solution.extras`` is that of ``Skm``, and
    counts what it took: "pair_steps", "rows_computed" of kernels, between points in play, and
    "row_misses", how often such rows were wanted and not held.

    Parameters
    ----------
    mu : float
        What κ is multiplied by from one machine to the next.
    eps1, eps2 : float
        Tolerances of (ε₁, ε₂)-optimality, ε₁ per row; the paper's by default.
    search : "newton" or "brent"
        How the minimum along a pair is found: by Newton's method in a bracket, or by the method of
        Brent that the paper suggests.
    keeps_C : bool
        Whether every machine has the C of the problem. False takes a_j = κ and d_j = 1 − κ as
        printed: the machine at κ then approaches the problem with C/(1 − κ)², and the pair (α, η)
        that ends it, Σ(1 − κ)²η_j = 1, is optimal for that one. Bounds and gap are always those of
        the problem itself.
    """

    weight_norms = (1,)  # the block 1-norm
    reports = True  # the pair (α, η), for every problem

    mu: float = 0.5
    eps1: float = 5e-4
    eps2: float = 1e-4
    search: str = "newton"
    keeps_C: bool = True

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One machine per step, from κ = 1; the weights ``e`` to start from are not used."""
        check_tolerances(self.mu, self.eps1, self.eps2)
        check_choice("search", self.search, ("newton", "brent"))
        check_truth("keeps_C", self.keeps_C)
        machines = Machines(evaluator, newton=False, by_brent=self.search == "brent")
        kappa, least, vain, weighted = 1.0, np.inf, 0, np.empty(0, dtype=np.intp)
        while vain < _IN_VAIN:
            a, d = self._parameters(kappa)
            inner, kernels = _solved(machines, weighted, a, d, self.eps2 / evaluator.problem.size)
            if evaluator.machine.is_hard and not inner.bounded:
                raise HardMarginInfeasible(NOT_SEPARABLE)
            weighted = kernels[inner.parts.eta > 0.0] if d > 0.0 else weighted
            d = d if d > 0.0 else 1.0
            eta = np.zeros(e.size)
            eta[kernels] = inner.parts.eta_tilde if kappa < 1.0 else 1.0 / e.size
            eta = eta if eta.any() else np.ones(e.size)  # v = 0: no kernel matters
            point = evaluator.judge(eta / eta.sum(), inner.v)
            bound = evaluator.bound(inner.v, machines.q)
            incumbent.offer_bound(bound)
            f = eta[kernels] @ inner.products
            pair = report(evaluator, inner.v, f, machines.q, eta, kappa, d)
            missed = excess(pair, self.eps1, self.eps2)
            status = "rule_met" if missed <= 1.0 else "rule_unmet"
            yield Step(
                "smo", status, settled=(point, incumbent.bound), extras=pair | machines.counts
            )
            least, vain = (missed, 0) if missed < least else (least, vain + 1)
            kappa *= self.mu

    def _parameters(self, kappa: float) -> tuple[float, float]:
        """All a_j and all d_j, in the units of d_j = 1 where C stays."""
        if kappa == 1.0:
            return 1.0, 0.0
        return (kappa / (1.0 - kappa), 1.0) if self.keeps_C else (kappa, 1.0 - kappa)


def _solved(
    machines: Machines, weighted: Places, a: float, d: float, eps2: float
) -> tuple[SkmInner, Places]:
    """The machine to ε₂/2, from the last one, and the kernels that took part.

    It begins with the kernels ``weighted`` there; after that of κ = 1, which knows no weights, with
    those that its v gives one.
    """
    m = machines.q.size
    kernels, each_a, each_d = np.arange(m), np.full(m, a), np.full(m, d)
    if d > 0.0:
        likely = np.flatnonzero(regularize(machines.sizes, each_a, each_d).eta)
        begin = weighted if weighted.size else likely
        kernels = begin if begin.size else kernels  # none where v = 0 is a solution
    return machines.solve(kernels, each_a, each_d, machines.v, 0.0, eps2)
