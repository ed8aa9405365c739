"""EasyMKL: weights from the margin between the classes under the sum of all kernels.

    min_γ  (1−λ) γᵀY(Σ_m K_m)Yγ + λ‖γ‖²    s.t.  γ ≥ 0,  Σ_{y=+1} γ_i = Σ_{y=−1} γ_i = 1
    d_m ∝ γᵀYK_mYγ

[aiolli2015, EasyMKL]. Each γ is a pair of points, one in the hull of each class, and γᵀYK_mYγ is
their squared distance under kernel m: kernels that hold the classes apart get the weight. λ = 0
measures between the nearest points of the hulls, λ = 1 between the means of the classes.

With α = tγ the same program is max_α Σα − ½(1−λ) αᵀY(Σ_m K_m)Yα − ½λ‖α‖², α ≥ 0, yᵀα = 0, the
machine of the squared hinge, since its value over t is 2 over that of γ. Any primal value P of it
therefore proves that no γ has a value below 2/P. A row of weight w counts as w equal rows: λγ_i²/w.

The paper starts from max_{‖d‖₂ ≤ 1} min_γ, and replaces the 2-norm of the
distances, which that leads to, by their sum. ``weight_norm=2, loss="squared_hinge"`` solves the
problem it starts from exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelweave._core.checks import check_number
from kernelweave._core.tolerances import COINCIDE, SQUARED_TOL
from kernelweave._core.types import Array
from kernelweave.learners.base import GivenWeights, Step, given_point, given_step
from kernelweave.machines.evaluator import Evaluator, HardMarginInfeasible, Incumbent
from kernelweave.machines.machine import Machine
from kernelweave.problems.losses import hinge


class EasyMKL(GivenWeights):
    """Weights by the distances between the classes, then one machine at these weights.

    It costs two machines, whatever the number of kernels. The weights know nothing of C and the
    loss, and the certificate is that of the machine; ``duality_gap`` tells how far they are from
    the best ones for it. ``Solution.extras`` has the "distances" γᵀYK_mYγ, the value of the program
    above as "distance" and, as "stationarity", at most by what share of the least one it is larger.

    Several machines, as in one class against the rest, share their weights: distances add up.

    Kernels count as they are. Bring them to the same mean diagonal first, as banks do, lest large
    ones count for more.

    Parameters
    ----------
    lam : float
        λ, from 0 to 1.
    """

    targets = ("labels",)
    why_not = "it measures the distance between two classes"

    def __init__(self, lam: float = 0.1) -> None:
        self.lam = lam

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Weights first, then one solve, as tight as asked; ``e`` does not matter."""
        lam = check_share("lam", self.lam)
        problem, stack = evaluator.problem, evaluator.stack
        scale = problem.unit * problem.weight_set.scale
        unit = max(problem.unit, 1.0)  # so that the machine is never far from standard units
        close = max((0.1 * tol) ** 2, SQUARED_TOL)  # weights err by the root of the gap
        weights = problem.formulation.row_weights
        floor = max(COINCIDE, stack.n * float(np.finfo(stack.precision).eps))  # if kernels are 1
        ridge: float | Array = max(lam / unit, floor) if lam > 0.0 else 0.0
        if weights is not None:
            ridge = ridge / weights[problem.rows]
        qps = [hinge(np.array(y), np.inf, ridge) for y in problem.targets.T]
        machine = Machine(qps, stack, (1.0 - lam) / unit * scale)
        sides, values, excess = nearest(machine, close, evaluator)
        forms = [scale * stack.quad_forms(side) for side in sides]
        distances = np.maximum(np.sum(forms, axis=0), 0.0)  # of a constant kernel, rounding alone
        least = unit * sum(values)
        e = distances if distances.any() else np.ones(stack.m)
        point = given_point(evaluator, e / problem.weight_set.size(e), tol, "the kernel of EasyMKL")
        extras = {"distances": distances, "distance": least, "stationarity": excess}
        yield given_step("easy", evaluator, point, stationarity=excess, extras=extras)


def nearest(
    machine: Machine, tol: float, evaluator: Evaluator
) -> tuple[list[Array], list[float], float]:
    """For each machine Yγ of the least γᵀYKYγ + ρ‖γ‖² and that value, K the sum of its kernels.

    Also by what share, at most, a lesser value misses one of these.
    """
    point = machine.solve(np.ones(machine.stack.m), tol, tick=evaluator.tick)
    if not point.is_bounded:
        raise HardMarginInfeasible(
            "lam=0 needs classes that the sum of all kernels separates, which it does not; use "
            "lam > 0"
        )
    sides, values, excess = [], [], 0.0
    for c, (qp, v) in enumerate(zip(machine.qps, machine.split(point.v), strict=True)):
        half = 0.5 * float(np.abs(v).sum())
        told = half * half > 0.0  # else rounding exceeds the machine: all weights are as good
        values.append((float(point.quads[c]) + qp.bend(v)) / half / half if told else 0.0)
        sides.append(v / half if told else np.zeros_like(v))
        short = 0.5 * float(point.fits[c, 0]) * values[c] - 1.0 if told else np.inf
        excess = max(excess, short)
    return sides, values, excess


def check_share(name: str, value: float) -> float:
    """A number from 0 to 1."""
    share = check_number(name, value, zero=True)
    if share > 1.0:
        raise ValueError(f"{name} must be a number from 0 to 1, found {value!r}")
    return share
