"""The support kernel machine's algorithm as published: SMO alone, κ halved [bach2004, §4.4].

    min_v  ½ max_j vᵀK_j v/d_j² − cᵀv + ½ρ‖v‖²    over the feasible v         [bach2004, (S), §2.4]

κ = 1 is the SVM on the sum of the kernels. Then κ ← μκ: the machine regularized by a_j = κ and with
d_j = 1 − κ is solved by pair steps from the one before, to (OPT_6) with ε = ε₂/2. Its v and the
weights η̃ that come with it are the answer once they are (ε₁, ε₂)-optimal. There are no Newton
steps, no SVMs at η̃ and no bundle: ``Skm`` has all of these, and this is the baseline beside it.

The problem has d_j = 1 in unit weights. A machine with a_j = κ and d_j = 1 − κ is one with
a_j = κ/(1 − κ), d_j = 1 and C/(1 − κ)² in place of C. We take C itself there: every machine then
has the C of the problem that is approached, and what is optimal is so for the problem itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelweave._core.types import Array, Places
from kernelweave.learners.base import Learner, Step
from kernelweave.machines.evaluator import (
    NOT_SEPARABLE,
    Evaluator,
    HardMarginInfeasible,
    Incumbent,
)
from kernelweave.papers.bach2004._few import Machines
from kernelweave.papers.bach2004._moreau_yosida import regularise
from kernelweave.papers.bach2004._optimality import check_tolerances, excess, report
from kernelweave.papers.bach2004._smo import SkmInner

_IN_VAIN = 3  # machines in a row that come no nearer: rounding ends it


class SkmPublished(Learner):
    """SMO on a smooth dual with less and less regularization, ended by (ε₁, ε₂)-optimality.

    The duality gap is reported and not asked for. ``Solution.extras`` is that of ``Skm``.

    Parameters
    ----------
    mu : float
        What κ is multiplied by from one machine to the next.
    eps1, eps2 : float
        Tolerances of (ε₁, ε₂)-optimality, ε₁ per row; the paper's by default.
    """

    weight_norms = (1,)  # the block 1-norm
    reports = True  # the pair (α, η), for every problem

    def __init__(self, mu: float = 0.5, eps1: float = 5e-4, eps2: float = 1e-4) -> None:
        self.mu = mu
        self.eps1 = eps1
        self.eps2 = eps2

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One machine per step, from κ = 1; the weights ``e`` to start from are not used."""
        check_tolerances(self.mu, self.eps1, self.eps2)
        machines, kappa, least, vain = Machines(evaluator, newton=False), 1.0, np.inf, 0
        while vain < _IN_VAIN:
            inner, kernels = _solved(machines, kappa, self.eps2 / evaluator.problem.size)
            if evaluator.machine.is_hard and not inner.bounded:
                raise HardMarginInfeasible(NOT_SEPARABLE)
            e = np.zeros(e.size)
            e[kernels] = inner.parts.eta_tilde if kappa < 1.0 else 1.0 / e.size
            e = e if e.any() else np.ones(e.size)  # v = 0: no kernel matters
            point = evaluator.judge(e / e.sum(), inner.v)
            bound = evaluator.bound(inner.v, machines.q)
            incumbent.offer_bound(bound)
            f = e[kernels] @ inner.products
            pair = report(evaluator, inner.v, f, machines.q, e, kappa)
            missed = excess(pair, self.eps1, self.eps2)
            status = "rule_met" if missed <= 1.0 else "rule_unmet"
            yield Step("smo", status, settled=(point, incumbent.bound), extras=pair)
            least, vain = (missed, 0) if missed < least else (least, vain + 1)
            kappa *= self.mu


def _solved(machines: Machines, kappa: float, eps2: float) -> tuple[SkmInner, Places]:
    """The machine at κ to ε₂/2, from the last one, and the kernels that took part.

    It begins with the kernels that the last v gives a weight.
    """
    m = machines.q.size
    kernels, d = np.arange(m), np.full(m, float(kappa < 1.0))
    a = np.full(m, kappa / (1.0 - kappa) if kappa < 1.0 else 1.0)
    if kappa < 1.0:
        weighted = np.flatnonzero(regularise(machines.sizes, a, d).eta)
        kernels = weighted if weighted.size else kernels  # none where v = 0 is a solution
    return machines.solve(kernels, a, d, machines.v, 0.0, eps2)
