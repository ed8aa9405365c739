"""The baseline: equal weights, one SVM.

e_m = 1/M,  or M^(−1/p) under ‖e‖_p ≤ 1
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelweave._core.types import Array
from kernelweave.learners.base import Learner, Step, at_given_weights, first_point
from kernelweave.machines.evaluator import Evaluator
from kernelweave.machines.incumbent import Incumbent


class Uniform(Learner):
    """Solves one SVM at equal weights.

    The weights are not optimised, so the certificate is that of the SVM; ``duality_gap`` tells how
    far equal weights are from the best ones.
    """

    objective = "none"
    groups = True
    sums = True

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """One solve, as tight as asked."""
        point = first_point(evaluator, evaluator.weight_set.uniform(), 0.99 * tol)
        yield Step("uniform", settled=(point, at_given_weights(point)))
