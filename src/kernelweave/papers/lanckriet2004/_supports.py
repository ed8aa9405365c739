"""The support function of signed weights for many q at once, to few digits.

    σ(q) = max { q·e :  K(e) ⪰ 0,  Σe = 1 }

Of M(x) ⪰ 0 only a small part binds at any q: with VᵀM(x)V ⪰ 0 for few columns V in its place the
set is larger, and its maximum a bound that holds for the set itself. Eigenvectors that the solution
violates become columns, until it is so near to the set that the bound is close. Columns serve all
later q.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from kernelweave._core.types import Array
from kernelweave._solvers.signed.semidefinite_set import Joint, SemidefiniteSet, nested_sets
from kernelweave._solvers.signed.support import maximize

_ENDS = 2  # eigenvectors of each N_k to begin with, at either end
_TAKEN = 4  # eigenvectors to take at a time


def supports(joint: Joint, Q: Array, tol: float) -> Array:
    """Upper bounds of σ(q) for all rows q of Q, over the weights with K(e) ⪰ 0."""
    rest = np.flatnonzero(Q.any(axis=1))
    most = np.zeros(len(Q))
    most[rest] = np.inf
    for region in nested_sets(joint):
        if not rest.size:
            break
        part = _FewRows(region)
        found = [(*part.maximize(Q[k], tol), k) for k in rest]
        for _, bound, k in found:
            most[k] = min(most[k], bound)
        rest = np.array([k for e, _, k in found if not region.holds(e)], dtype=int)
    return np.maximum(most, Q.max(axis=1))


class _FewRows:
    """A set, and the larger one of which few columns V ask K(e) ⪰ 0."""

    def __init__(self, region: SemidefiniteSet) -> None:
        self.region = region
        self._V = np.zeros((region.size, 0))
        self._larger = region
        if len(region.matrices):
            vectors = np.linalg.eigh(region.matrices)[1]
            ends = np.concatenate([vectors[..., :_ENDS], vectors[..., -_ENDS:]], axis=2)
            self._take(np.hstack(list(ends)))

    def _take(self, columns: Array) -> None:
        self._V = np.linalg.qr(np.hstack([self._V, columns]))[0]
        small = 2 * self._V.shape[1] < self.region.size
        self._larger = self.region.within(self._V) if small else self.region

    def maximize(self, q: Array, tol: float) -> tuple[Array, float]:
        """Weights of the set, and the bound that their q·e is close to."""
        while True:
            e, bound = maximize(self._larger, q, 0.3 * tol)
            x = self.region.coordinates(e)
            few = min(_TAKEN, self.region.size)
            values, vectors = eigh(self.region.matrix(x), subset_by_index=(0, few - 1))
            e = self.region.weights(x / max(1.0, 1.0 - values[0]))  # on the way to the middle, I
            reached = float(q @ e)
            close = bound - reached <= tol * abs(reached)
            if close or values[0] >= 0.0 or self._larger is self.region:
                return e, bound
            self._take(vectors[:, values < 0.0])
