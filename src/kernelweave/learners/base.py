"""What a learner is: an object that moves kernel weights downhill, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from kernelweave._core.checks import check_number
from kernelweave._core.params import Params
from kernelweave._core.types import Array
from kernelweave.machines.evaluator import (
    NOT_SEPARABLE,
    Evaluator,
    HardMarginInfeasible,
    Point,
)
from kernelweave.machines.incumbent import Bound, Incumbent
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.losses import LOSSES
from kernelweave.problems.problem import Problem
from kernelweave.stacks.protocol import stack_name


@dataclass(frozen=True)
class Step:
    """One iteration of a learner, as it tells whoever drives it.

    Attributes
    ----------
    by : str
        The method that made it, as ``Solution.history`` shows it.
    status : str
        "running": the duality gap decides whether this is the end. "rule_met" and "rule_unmet": the
        learner's own stopping rule decides, whatever the gap.
    settled : pair of a point and a bound, or None
        What replaces the best so far where weights are given, where the objective is the
        learner's own, or where the last point counts.
    stationarity : float
        Must not exceed the tolerance either.
    extras : mapping
        Further results, for ``Solution.extras``.
    certify : function or None
        Of an objective of the learner's own: point and bound as they hold in exact arithmetic,
        computed in extended precision if its argument says so.
    """

    by: str
    status: str = "running"
    settled: tuple[Point, Bound] | None = None
    stationarity: float = 0.0
    extras: Mapping[str, Any] = field(default_factory=dict)
    certify: Callable[[bool], tuple[Point, Bound]] | None = None


class Learner(Params):
    """Algorithm knobs only; the problem is in the evaluator.

    Attributes
    ----------
    objective : str
        What it minimizes: "margin" is J. Other objectives settle their points with bounds of their
        own. "radius" does not depend on the scale of weights and kernels: it starts from kernels
        of equal trace, and takes ``weight_norm=None``. "none": the weights are given.
    weight_norms : tuple or None
        The norms it can do; None for all.
    groups : bool
        Whether it can do the norms of groups of kernels.
    signed : bool
        Whether weights may be negative, in the set of K ⪰ 0 on all rows under a trace constraint;
        it then brings its own lower bounds, as the evaluator's are for weights ≥ 0.
    sums : bool
        Whether it can learn one set of weights for several machines.
    targets : tuple of str
        What y may hold: "labels", "values" (regression), "nothing" (one class). ``why_not`` says
        why not the others.
    weighted : bool
        Whether rows may have weights.
    needs_dense : bool
        Whether it needs the combined kernel as an n × n array.
    reports : bool
        Whether its steps have extras whatever the problem: it then runs for one kernel, too, and
        from a start that needs no more work.
    standard_units : bool
        Whether the problem is solved with kernels of about unit size.
    begins_on_sample : bool
        Whether good weights to start from save it steps: those of some rows, where there are many.
    """

    objective: ClassVar[str] = "margin"
    weight_norms: ClassVar[tuple[float, ...] | None] = None
    groups: ClassVar[bool] = False
    signed: bool = False
    sums: ClassVar[bool] = False
    targets: ClassVar[tuple[str, ...]] = ("labels", "values", "nothing")
    why_not: ClassVar[str] = ""
    weighted: ClassVar[bool] = True
    needs_dense: bool = False
    reports: ClassVar[bool] = False
    standard_units: ClassVar[bool] = True
    begins_on_sample: ClassVar[bool] = False

    @property
    def patience(self) -> int:
        """How many iterations may pass without a smaller gap."""
        return 200

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Descend from unit weights ``e``, one step at a time.

        It asks the evaluator for the machine at weights, offers the incumbent bounds, and returns
        when it can do no more. It changes neither in any other way. Whoever drives it stops on the
        incumbent's gap or on the status of a step.
        """
        raise NotImplementedError(f"{type(self).__name__} has no iterate")


def first_point(evaluator: Evaluator, e: Array, tol: float) -> Point:
    """The machine at weights to start from; at equal ones where these do not separate classes."""
    point = evaluator.solve(e, tol)
    if not point.answer.bounded and not (e > 0.0).all():
        point = evaluator.solve(evaluator.weight_set.uniform(), tol)
    if not point.answer.bounded:
        raise HardMarginInfeasible(NOT_SEPARABLE)
    return point


def at_given_weights(point: Point) -> Bound:
    """What a machine proves where its weights are taken as given: its own dual value."""
    return Bound(point.value, point.v, "machine")


def given_point(evaluator: Evaluator, e: Array, tol: float, kernel: str) -> Point:
    """The machine at weights that its learner gives, as tight as asked; errors name ``kernel``."""
    point = evaluator.solve(e, 0.99 * tol)
    if not point.answer.bounded:
        raise HardMarginInfeasible(
            f"C=inf asks for a hard margin, but {kernel} does not separate the two classes; use a "
            "finite C"
        )
    return point


def check_stop(stop: str, change: float) -> None:
    """Complain about a stopping rule that is neither "gap" nor "change"."""
    check_number("change", change)
    if stop not in ("gap", "change"):
        raise ValueError(f"stop must be 'gap' or 'change', found {stop!r}")


def status_by_change(stop: str, change: float, moved: float) -> str:
    """The status of a step in which no weight moved by more than ``moved``."""
    if stop == "gap":
        return "running"
    return "rule_met" if moved < change else "rule_unmet"


def check_supported(
    learner: Learner,
    C: Any,
    weight_norm: float | GroupNorm | None,
    loss: str = "hinge",
    weighted: bool = False,
) -> None:
    """Complain, before any work, about a problem that ``learner`` does not solve."""
    if weight_norm is None and learner.objective != "radius":
        raise ValueError(
            "weight_norm=None needs learner='radius': other objectives are not invariant to the "
            "size of the weights"
        )
    norms = learner.weight_norms
    if norms is not None and weight_norm not in norms:
        told = " or ".join(map(str, norms))
        raise ValueError(f"{learner!r} needs weight_norm={told}, found {weight_norm!r}")
    if isinstance(weight_norm, GroupNorm) and not learner.groups:
        raise ValueError(
            f"{learner!r} does not take groups of kernels, found weight_norm={weight_norm!r}; use "
            "learner='newton'"
        )
    if isinstance(C, str) and C == "learn" and learner.objective != "margin":
        raise ValueError(
            f"C={C!r} goes with the margin criterion, not with {learner!r}: give C as a number"
        )
    known = LOSSES.get(loss) if isinstance(loss, str) else None  # others: make_formulation
    if known is not None and known.target not in learner.targets:
        raise ValueError(
            f"{learner!r} does not go with loss={loss!r}, since {learner.why_not}; use "
            f"{versatile()}"
        )
    if weighted and not learner.weighted:
        raise ValueError(
            f"{learner!r} takes no sample_weight: it would have to count rows in more than the "
            f"loss; use {versatile()}"
        )


def check_able(learner: Learner, problem: Problem) -> None:
    """The same about what only the problem shows: how many machines, how kernels are kept."""
    if problem.is_sum and not learner.sums:
        raise ValueError(
            f"{learner!r} learns the weights of one machine, found {len(problem.qps)}; use "
            f"{versatile()}"
        )
    stack = problem.whole
    if learner.needs_dense and not stack.combined(np.zeros(stack.m)).is_dense:
        raise ValueError(
            f"{learner!r} needs the combined kernel as an n × n matrix, which "
            f"{stack_name(stack)} does not hold: use a KernelStack, or another learner"
        )


def versatile() -> str:
    """For an error message: the learners that take every norm, loss and number of machines."""
    from kernelweave.learners import AUTO, NAMES, make_learner  # which knows them all

    def takes_all(name: str) -> bool:
        one = make_learner(name)
        every = one.weight_norms is None and one.targets == Learner.targets
        return every and one.sums and one.weighted

    *most, last = sorted(filter(takes_all, NAMES[1:]), key=lambda name: name != AUTO)
    return f"{', '.join(map(repr, most))} or {last!r}"
