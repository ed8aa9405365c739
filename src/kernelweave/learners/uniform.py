"""The baseline: equal weights, one SVM.

e_m = 1/M,  or M^(−1/p) under ‖e‖_p ≤ 1
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kernelweave.learners.base import Learner
from kernelweave.machines.oracle import Oracle


class Uniform(Learner):
    """Solves one SVM at equal weights.

    The weights are not optimised, so the certificate is that of the SVM; ``duality_gap`` tells how
    far equal weights are from the best ones.
    """

    objective = "none"

    def iterate(self, oracle: Oracle, e: NDArray[np.float64], tol: float) -> Iterator[None]:
        """One solve, as tight as asked."""
        if e.size > 1:
            oracle.extras["given_weights"] = True
        oracle.settle(oracle.solve(oracle.weight_set.uniform(), 0.99 * tol))
        yield
