"""The baseline: equal weights, one SVM.

e_m = 1/M,  or M^(−1/p) under ‖e‖_p ≤ 1
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelweave._core.types import Array
from kernelweave.learners.base import GivenWeights, Step, first_point, given_step
from kernelweave.machines.evaluator import Evaluator, Incumbent


class Uniform(GivenWeights):
    """Solves one SVM at equal weights.

    The weights are not optimized, so the certificate is that of the SVM; ``duality_gap`` tells how
    far equal weights are from the best ones.
    """

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One solve, as tight as asked."""
        point = first_point(evaluator, evaluator.weight_set.uniform(), 0.99 * tol)
        yield given_step("uniform", evaluator, point)
