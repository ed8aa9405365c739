"""Regularized machines on few of the kernels: those left out are looked at, and taken in again.

A kernel j has no part in a machine, η_j = 0, where θ_j = √(s_j vᵀK_j v) ≤ γd_j [bach2004, app. C].
Most have none. A machine is therefore solved on some kernels, and θ_j of the others tells whether
it is that of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernelweave._core.types import Array, Places
from kernelweave.papers.bach2004 import _smo as smo
from kernelweave.papers.bach2004._pairs import Target

if TYPE_CHECKING:
    from kernelweave.machines.evaluator import Evaluator


class Machines:
    """Machines on the kernels s_j K_j; ``v`` and all s_j vᵀK_j v, ``q``, are those of the last.

    ``newton`` and ``by_brent`` are as for ``_smo.solve``.
    """

    def __init__(self, evaluator: Evaluator, newton: bool = True, by_brent: bool = False) -> None:
        self.evaluator, self.qp = evaluator, evaluator.problem.qp
        self.newton, self.by_brent, self.steps = newton, by_brent, 0
        self.rows = smo.KernelRows(evaluator.stack, scale=evaluator.weight_set.scale)
        self.v: Array | None = None
        self.q = np.zeros(evaluator.stack.m)

    @property
    def sizes(self) -> Array:
        """All θ_j of the last machine."""
        return np.sqrt(self.q)

    @property
    def counts(self) -> dict[str, int]:
        """Pair steps so far, rows of kernels computed, and how often some were not held."""
        rows = self.rows
        return {
            "pair_steps": self.steps,
            "rows_computed": rows.computed,
            "row_misses": rows.misses,
        }

    def keep(self, v: Array, q: Array) -> None:
        """Hear of a machine that was solved."""
        self.v, self.q = v, q

    def solve(
        self, kernels: Places, a: Array, d: Array, start: Array | None, tol: float, kkt_tol: float
    ) -> tuple[smo.SkmInner, Places]:
        """The machine of all kernels, from one on ``kernels``; those that took part in the end.

        It is solved to a relative gap of ``tol``, or to ``kkt_tol`` where that is not 0.
        """
        while True:
            inner = smo.solve(
                self.rows, Target(kernels, a[kernels], d[kernels]), self.qp, start,
                0.0 if kkt_tol else tol, kkt_tol, self.evaluator.tick, newton=self.newton,
                by_brent=self.by_brent,
            )  # fmt: skip
            self.steps += inner.steps
            left = np.setdiff1d(np.arange(a.size), kernels)
            if inner.bounded:
                q = np.empty(a.size)
                q[kernels], q[left] = inner.q, self.evaluator.quads(inner.v, left)
                self.keep(inner.v, q)
                left = left[self.sizes[left] > inner.parts.gamma]
            if not left.size:
                return inner, kernels
            kernels, start = np.union1d(kernels, left), self.v
