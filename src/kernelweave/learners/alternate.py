"""The two-step scheme: an SVM at the weights, then the best weights for its parts.

    min_{e ∈ Δ} Σ_m ‖f_m‖²/e_m   is reached at   e_m = ‖f_m‖ / Σ_k ‖f_k‖     [rakoto2007, (10)–(11)]

With ‖f_m‖² = e_m² q_m each step multiplies e_m by √q_m and rescales. A weight of zero would stay
there for ever, so weights are kept above a floor while the scheme runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..params import Params
from ..solvers.cuts import inner_tol
from ..solvers.oracle import Oracle


class Alternate(Params):
    """Alternate minimisation over the machine and the weights.

    It needs many more iterations than the other learners to reach a small gap, and where J has a
    kink it may never certify one; it is here because the literature compares with it.

    Parameters
    ----------
    floor : float
        The least weight, relative to the mean weight.
    """

    def __init__(self, floor: float = 1e-6) -> None:
        self.floor = floor

    def iterate(self, oracle: Oracle, e: NDArray[np.float64], tol: float) -> Iterator[None]:
        """Alternate from unit weights ``e``, one SVM an iteration."""
        while True:
            e = np.maximum(e, self.floor / e.size)
            point = oracle.solve(e / e.sum(), inner_tol(oracle.gap, tol))
            oracle.offer_dual(point.v, point.q)
            yield
            e = point.e * np.sqrt(point.q)
            if not e.sum() > 0.0:  # no kernel carries anything: every weight is as good
                return
            e = e / e.sum()
