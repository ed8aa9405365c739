"""The kernels of a bank together with all widths of its ranges: a family, and growth by it.

A bank with ``GaussianRange`` is fitted at some widths; those that the targets call for enter until
the certificate holds for all widths between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelweave._core.types import Array
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.member import Member
from kernelweave.certificate import proof_of, proven_at_best
from kernelweave.families.family import Largest, learn_over_hull, moved
from kernelweave.families.widths import largest_gaussian
from kernelweave.kernels.numeric import Gaussian
from kernelweave.kernels.ranges import WidthOfRange
from kernelweave.learners.base import Learner
from kernelweave.problems.problem import Formulation, Problem
from kernelweave.solution import Solution
from kernelweave.stacks.protocol import Stack
from kernelweave.stacks.rounding import quad_bounds
from kernelweave.views.rows import Rows

_Width = tuple[tuple[int, ...], float]  # columns of a view, and a width on it


def has_range(bank: FittedBank) -> bool:
    """Whether some kernel is one of a continuum."""
    return any(isinstance(member.kernel, WidthOfRange) for member in bank.members)


@dataclass
class BankHull:
    """A family over the rows of a fitted bank; its kernels are names, or widths on columns."""

    spec: KernelBank
    bank: FittedBank
    n_jobs: int | None = None
    solutions: tuple[Solution, ...] = ()

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.bank.table)

    def begin(self) -> Sequence[Any]:
        """Those of the bank as it is."""
        return [_described(self.bank.members[number]) for number in self.bank.kept]

    def stack(self, kernels: Sequence[Any]) -> tuple[Stack, Sequence[Any]]:
        """The bank fitted at these widths."""
        if any(kernel not in self.begin() for kernel in kernels):
            chosen: dict[tuple[int, ...], list[float]] = {}
            for kernel in kernels:
                if not isinstance(kernel, str):
                    chosen.setdefault(kernel[0], []).append(kernel[1])
            bank = self.bank
            self.bank = self.spec.at_widths(chosen).fit(bank.table, self.n_jobs, bank.weights)
        return self.bank.stack, self.begin()

    def largest(self, V: Array) -> Largest:
        """The best widths of each range; all kernels of the bank are within the bound, too."""
        stack, parts = self.bank.stack, list(np.ascontiguousarray(V))
        q = np.sum([stack.quad_forms(v) for v in parts], axis=0)
        q = quad_bounds(stack, np.ones(stack.m), parts, q, fine=True, largest=True)
        found, bound = list[tuple[float, _Width]](), max(float(q.max()), 0.0)
        ranges = {}
        for number in self.bank.kept:
            member = self.bank.members[number]
            if isinstance(member.kernel, WidthOfRange):
                ranges[tuple(member.view.columns), member.kernel.low, member.kernel.high] = member
        for (columns, low, high), member in ranges.items():
            if member.centered:
                raise ValueError(
                    f"Kernel {member.name!r} is centered, by normalize= or since rows lack its "
                    "view, and its range of widths cannot be learned then: give kernels of fixed "
                    "widths, or normalize='trace'"
                )
            scale = 1.0 if np.isnan(member.scale) else member.scale
            one = largest_gaussian(Rows(self.bank.table, member.view).values, V, low, high)
            bound = max(bound, scale * one.bound)
            found += [(scale * one.bound, (columns, width)) for width in one.kernels]
        found.sort(key=lambda pair: -pair[0])
        return Largest([kernel for _, kernel in found], bound)

    def dual(self, solution: Solution, problem: Problem) -> float:
        """The lower bound that a solution proves for all kernels of the family."""
        machine, v = proof_of(solution, problem)
        V = problem.to_all_rows(np.array(machine.coefficients(v)))
        return proven_at_best(problem, machine, v, self.largest(V).bound)


def grown(
    spec: KernelBank,
    bank: FittedBank,
    formulations: Sequence[Formulation],
    learner: Learner,
    tol: float,
    max_iter: int,
    clock: tuple[int, float, float | None],
    n_jobs: int | None = None,
) -> FittedBank:
    """The bank with the widths that these problems call for, and the proof that no other helps."""
    hull = BankHull(spec, bank, n_jobs)
    solutions = [
        learn_over_hull(one, hull, learner, tol, max_iter, None, clock) for one in formulations
    ]
    hull.solutions = tuple(moved(solution, hull.begin()) for solution in solutions)
    members = [
        replace(member, kernel=Gaussian(member.kernel.width))
        if isinstance(member.kernel, WidthOfRange)
        else member
        for member in hull.bank.members
    ]
    return replace(hull.bank, members=tuple(members), hull=hull)


def _described(member: Member) -> Any:
    """What names a kernel of the family: its width on its columns, or the name that it has."""
    if isinstance(member.kernel, WidthOfRange):
        return tuple(member.view.columns), member.kernel.width
    return member.name
