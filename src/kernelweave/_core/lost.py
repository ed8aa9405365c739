"""The error of kernels that are elsewhere, when nobody there answers any more."""

from __future__ import annotations

from typing import Any


class ClusterLost(RuntimeError):
    """Nobody is left to answer. ``weights`` and ``gap`` are the best that were known, or None."""

    weights: Any = None
    gap: float | None = None

    def with_best(self, weights: Any, gap: float) -> ClusterLost:
        """The same with what was known, and how to go on from there."""
        told = ClusterLost(
            f"{self}. The best kernel weights so far are in the attribute ``weights`` of this "
            f"error, their relative gap was {gap:.1e}: learn(…, start=error.weights) goes on there"
        )
        told.weights, told.gap = weights, gap
        return told
