"""A SimpleMKL of its own, on scikit-learn's SVC (LIBSVM): a reference for ours.

    min_d J(d) = max_α Σα − ½ Σ_m d_m q_m(α),    q_m = (α∘y)ᵀK_m(α∘y),    d on the simplex

Reduced gradient with the largest weight as reference, golden section, weights below 1e-8 dropped,
ended at a relative duality gap of its own iterates. It shares no code with the package but for the
value of a machine, which says when to stop.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness.internals import Hinge
from benchmarks.harness.rival_svc import svc, svc_coef

SVC_TOL = 1e-5  # at 1e-3 and C = 100 LIBSVM leaves a gap of about 1e-2 of its own
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


class Reference:
    """SimpleMKL, with the journal's maximal step and dropping if ``drop``."""

    def __init__(self, K: np.ndarray, y: np.ndarray, C: float, drop: bool) -> None:
        self.K, self.y, self.C, self.drop = K, y, C, drop
        self.machine, self.solves = Hinge(y, C), 0

    def value(self, combined: np.ndarray) -> tuple[float, np.ndarray]:
        """J, by its dual value, and v = y∘α."""
        v = svc_coef(svc(combined, self.y, self.C, SVC_TOL), len(self.y))
        self.solves += 1
        return float(v @ self.y - 0.5 * v @ combined @ v), v

    def run(self, gap: float, max_iter: int) -> dict[str, float]:
        """Iterate from equal weights; what it took."""
        m = len(self.K)
        d, least, best, iterations = np.full(m, 1.0 / m), np.inf, -np.inf, 0
        while iterations < max_iter:
            iterations += 1
            combined = np.tensordot(d, self.K, 1)
            J, v = self.value(combined)
            q = (self.K @ v) @ v
            f = combined @ v
            least = min(least, self.machine.best_value(f, float(v @ f)))
            best = max(best, float(v @ self.y - 0.5 * q.max()))
            reached = (least - best) / least
            if reached <= gap:
                break
            after = self.step(d, combined, J, q)
            if (after == d).all():
                break
            d = after
        return {"iterations": iterations, "solves": self.solves, "gap": reached}

    def step(self, d: np.ndarray, combined: np.ndarray, J: float, q: np.ndarray) -> np.ndarray:
        """The weights after one iteration."""
        largest = int(np.argmax(d))
        while True:
            D = 0.5 * (q - q[largest])
            D[(d <= 0.0) & (D < 0.0)] = 0.0
            D[largest] = -D.sum()
            falling = np.flatnonzero(D < 0.0)
            if D @ q <= 0.0 or not falling.size:
                break
            reach = -d[falling] / D[falling]
            first, longest = falling[np.argmin(reach)], reach.min()
            along = np.tensordot(D, self.K, 1)
            there, _ = self.value(combined + longest * along)
            if self.drop and there < J:
                d, combined, J = d + longest * D, combined + longest * along, there
                d[first] = 0.0
                if first == largest:  # compare with another from here on
                    largest = int(np.argmax(d))
                continue
            d = d + self.golden(combined, along, longest, J, there) * D
            break
        d = np.where(d > 1e-8, d, 0.0)
        return d / d.sum()

    def golden(self, combined, along, longest: float, J: float, there: float) -> float:
        """The step, between 0 and ``longest``, where J is least."""
        seen = {0.0: J, longest: there}

        def at(step: float) -> float:
            seen[step] = self.value(combined + step * along)[0]
            return seen[step]

        low, high = 0.0, longest
        left, right = (1.0 - GOLDEN) * longest, GOLDEN * longest
        one, other = at(left), at(right)
        while high - low > max(0.1 * min(seen, key=seen.get), 1e-9 * longest):
            if one <= other:
                high, right, other = right, left, one
                left = high - GOLDEN * (high - low)
                one = at(left)
            else:
                low, left, one = left, right, other
                right = low + GOLDEN * (high - low)
                other = at(right)
        return min(seen, key=seen.get)
