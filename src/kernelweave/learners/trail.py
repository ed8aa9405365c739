"""Cuts that one fit leaves for the next along a path over C.

    J(e) ≥ l(v) − ½ q(v)·e  for every feasible v;      t·v is feasible where all costs are t times

q does not depend on C, and q(t·v) = t² q(v): a neighbor's cut takes no pass over the kernels. With
ρ in proportion to 1/C also l(t·v) = t·l(v), for hinge, squared hinge, squared, ε-insensitive and
quantile loss; l is computed anew, so that a ridge of its own does no harm. The nearer t is to 1,
the more the cut says. v itself is tried, too: where no variable is at its bound it is as good at
any C, and where Σv is given, as in one class, no other multiple is feasible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from kernelweave._core.tolerances import COINCIDE
from kernelweave._core.types import Array
from kernelweave._solvers.bundle.cuts import Cuts
from kernelweave.learners.base import Learner, Step
from kernelweave.learners.newton import Newton
from kernelweave.machines.evaluator import Bound, Evaluator, Incumbent
from kernelweave.machines.machine import Machine

_NEAR = 2.0  # times the cost, up to which a solution is judged before another is looked for


@dataclass(eq=False)
class Trail:
    """Pairs (v, q) of the last fit, the newest at the end, and the size of its costs."""

    cost: float = 1.0
    pairs: list[tuple[Array, Array]] = field(default_factory=list)

    def is_near(self, machine: Machine) -> bool:
        """Whether costs differ so little that the last solution may be one here."""
        t = _cost(machine) / self.cost
        return not self.pairs or 1.0 / _NEAR <= t <= _NEAR

    def offer(self, evaluator: Evaluator, incumbent: Incumbent) -> None:
        """Offer each as a dual point; q is known up to rounding only, since v was made feasible."""
        for v, q in self._at(evaluator.machine):
            found = evaluator.bound(v, q, "start", exact=False)
            incumbent.offer_bound(found)

    def followed(
        self, learner: Learner, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Newton steps that begin with these cuts; the learner tells what it has to in the end."""
        cuts = Cuts(tol, evaluator=evaluator, incumbent=incumbent)
        self._onto(cuts)
        if cuts.v:
            if incumbent.best is not None:
                cuts.bound()
                yield Step("newton")
            if incumbent.gap > tol:
                evaluator.inherited = self._onto
                for step in Newton(warm_up=0).iterate(evaluator, incumbent, e, tol):
                    yield step
                    if incumbent.gap <= tol:
                        break
                evaluator.inherited = None
        best = incumbent.best
        yield from learner.iterate(evaluator, incumbent, e if best is None else best.e, tol)

    def _onto(self, cuts: Cuts) -> None:
        """Add all to the cuts of this fit."""
        for v, q in self._at(cuts.evaluator.machine):
            cuts.add(v, cuts.evaluator.machine.dual_linear(v), q)

    def leave(self, evaluator: Evaluator, proof: Bound) -> None:
        """Take up those of a fit that has ended, and the v of its bound."""
        self.pairs = [*evaluator.recent]
        if not any(np.array_equal(v, proof.v) for v, _ in self.pairs):
            q = evaluator.quads(proof.v) if proof.q is None else proof.q
            self.pairs.append((proof.v, q))
        self.cost = _cost(evaluator.machine)

    def _at(self, machine: Machine) -> Iterator[tuple[Array, Array]]:
        """Those that are feasible at the costs of the machine: t·v, and v itself."""
        scales = {_cost(machine) / self.cost, 1.0}
        for t, (v, q) in product(scales, self.pairs):
            near = machine.feasible(t * v)
            if np.abs(near - t * v).max() <= COINCIDE * np.abs(near).max():
                yield near, t * t * q


def _cost(machine: Machine) -> float:
    """The size of all costs: that of the largest bound, or of one over the ridge."""
    qp = machine.qps[0]
    bounds, ridge = np.maximum(qp.upper, -qp.lower), float(np.max(qp.ridge))
    finite = bounds[np.isfinite(bounds) & (bounds > 0.0)]  # variables at 0 take no part
    if finite.size:
        return float(finite.max())
    return 1.0 / ridge if ridge > 0.0 else 1.0
