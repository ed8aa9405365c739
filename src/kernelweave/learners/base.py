"""What a learner is: an object that moves kernel weights downhill, one step at a time.

All learners are known by name here, those of the papers too, which load when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernelweave._core.checks import check_choice, check_number
from kernelweave._core.params import Params
from kernelweave._core.types import Array
from kernelweave._solvers.svm.choice import SOLVERS
from kernelweave.machines.certified import certified_given, certified_point
from kernelweave.machines.evaluator import (
    NOT_SEPARABLE,
    Bound,
    Evaluator,
    HardMarginInfeasible,
    Incumbent,
)
from kernelweave.machines.machine import Point
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.losses import Loss, as_loss, load
from kernelweave.problems.problem import Problem

if TYPE_CHECKING:
    from kernelweave.certificate import Certificate
    from kernelweave.solution import Solution


_BY_NAME = {
    "uniform": "learners.uniform.Uniform",
    "simple": "papers.rakoto2007.simple.Simple",
    "silp": "papers.rakoto2007.silp.Silp",
    "alternate": "learners.alternate.Alternate",
    "newton": "learners.newton.Newton",
    "hessian": "papers.chapelle2008.hessian.Hessian",
    "skm": "papers.bach2004.skm.Skm",
    "skm_published": "papers.bach2004.skm_published.SkmPublished",
    "sdp": "papers.lanckriet2004.sdp.Sdp",
    "qcqp": "papers.lanckriet2004.qcqp.Qcqp",
    "alignment": "learners.alignment.Alignment",
    "alignf": "learners.alignment.alignf",
    "easy": "learners.easy.EasyMKL",
    "grouped": "learners.grouped.Grouped",
    "radius": "papers.gai2010.radius.Radius",
    "radius_bound": "papers.gai2010.radius_bound.RadiusBound",
    "margin_and_radius": "papers.gai2010.sum_of_radii.MarginAndRadius",
}
AUTO = "newton"
NAMES = ("auto", *_BY_NAME)
CLASSES = {path.rpartition(".")[2]: path for path in _BY_NAME.values()}  # by their own names


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
        What replaces the best so far: for learners that settle, or where the last point counts.
    stationarity : float
        Must not exceed the tolerance either.
    extras : mapping
        Further results, for ``Solution.extras``.
    certify : function or None
        Point and bound as they hold in exact arithmetic, computed in extended precision if its
        argument says so; None for those of J over the weights of the problem.
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
        What it minimizes: "margin" is J; "given": the weights are not learned with the machine.
        Others have the name of their learner.
    settles : bool
        Whether points and bounds count only as its steps settle them: where weights are given,
        where the objective is its own, or where the evaluator's bounds do not hold.
    scale_free : bool
        Whether the objective does not depend on the size of the weights: ``weight_norm`` may then
        be None.
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
    losses : tuple of str or None
        The losses it can do; None for all of its targets.
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
    follows : bool
        Whether a fit along a path over C begins with Newton steps from the cuts of its neighbor.
    patience : int
        How many iterations may pass without a smaller gap.
    """

    objective: ClassVar[str] = "margin"
    settles: ClassVar[bool] = False
    scale_free: ClassVar[bool] = False
    weight_norms: ClassVar[tuple[float, ...] | None] = None
    groups: ClassVar[bool] = False
    signed: bool = False
    sums: ClassVar[bool] = False
    targets: ClassVar[tuple[str, ...]] = ("labels", "values", "nothing")
    why_not: ClassVar[str] = ""
    losses: ClassVar[tuple[str, ...] | None] = None
    weighted: ClassVar[bool] = True
    needs_dense: bool = False
    reports: ClassVar[bool] = False
    standard_units: ClassVar[bool] = True
    begins_on_sample: ClassVar[bool] = False
    follows: bool = False
    patience: int = 200

    def iterate(
        self, evaluator: Evaluator, incumbent: Incumbent, e: Array, tol: float
    ) -> Iterator[Step]:
        """Descend from unit weights ``e``, one step at a time.

        It asks the evaluator for the machine at weights, offers the incumbent bounds, and returns
        when it can do no more. It changes neither in any other way. Whoever drives it stops on the
        incumbent's gap or on the status of a step.
        """
        raise NotImplementedError(f"{type(self).__name__} has no iterate")

    def start(self, problem: Problem) -> Array | None:
        """Kernel weights to begin with, of any size; None for equal ones."""
        return None

    def unsolved(self, evaluator: Evaluator, e: Array) -> Step:
        """The step of a fit that ends before its first machine: f = 0 at unit weights ``e``."""
        point = evaluator.unsolved(e)
        return Step("start", settled=(point, evaluator.first_bound()))

    def judged(self, solution: Solution) -> Certificate:
        """Both bounds of an objective of its own, from the problem and the model alone."""
        raise NotImplementedError(f"{type(self).__name__} has no certificate of its own")


class GivenWeights(Learner):
    """Weights by a rule of its own, then one machine, as tight as asked.

    The certificate is that of the machine; ``duality_gap`` tells how far the weights are from the
    best ones.
    """

    objective = "given"
    settles = True
    groups = True
    sums = True

    def unsolved(self, evaluator: Evaluator, e: Array) -> Step:
        """The machine of f = 0."""
        point = evaluator.unsolved(e)
        return given_step("start", evaluator, point)


def given_step(by: str, evaluator: Evaluator, point: Point, **told: Any) -> Step:
    """The machine at weights that are given, and the bound that its own dual value is."""
    bound = Bound(point.value, point.v, "machine")

    def certify(fine: bool) -> tuple[Point, Bound]:
        proven = certified_given(evaluator, point, fine)
        return certified_point(evaluator.machine, point, fine), proven

    return Step(by, settled=(point, bound), certify=certify, **told)


def first_point(evaluator: Evaluator, e: Array, tol: float) -> Point:
    """The machine at weights to start from; at equal ones where these do not separate classes."""
    point = evaluator.solve(e, tol)
    if not point.is_bounded and not (e > 0.0).all():
        point = evaluator.solve(evaluator.weight_set.uniform(), tol)
    if not point.is_bounded:
        raise HardMarginInfeasible(NOT_SEPARABLE)
    return point


def given_point(evaluator: Evaluator, e: Array, tol: float, kernel: str) -> Point:
    """The machine at weights that its learner gives, as tight as asked; errors name ``kernel``."""
    point = evaluator.solve(e, 0.99 * tol)
    if not point.is_bounded:
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


def make_learner(learner: str | Learner) -> Learner:
    """The learner of that name, or the object itself."""
    if isinstance(learner, str):
        name = AUTO if learner == "auto" else learner
        if name not in _BY_NAME:
            raise ValueError(
                f"learner must be one of {list(NAMES)} or an object, found {learner!r}; 'sdp' is "
                "for learn and TransductiveMKLClassifier alone"
            )
        made: Learner = load(_BY_NAME[name])()
        return made
    if not isinstance(learner, Learner):
        raise TypeError(
            f"learner must be one of {list(NAMES)} or a learner object, found {learner!r}"
        )
    return learner


def check_options(
    learner: str | Learner,
    C: object,
    weight_norm: float | GroupNorm | None,
    tol: float,
    max_iter: int,
    max_time: float | None = None,
    *,
    loss: str | Loss = "hinge",
    sample_weight: object = None,
    solver: str = "auto",
) -> Learner:
    """Complain, before any work, about what needs no kernels to be judged; returns the learner."""
    made = make_learner(learner)
    check_supported(made, C, weight_norm, loss, sample_weight is not None)
    check_choice("solver", solver, SOLVERS)
    check_number("tol", tol)
    check_number("max_iter", max_iter, int)
    if max_time is not None:
        check_number("max_time", max_time)
    return made


def check_supported(
    learner: Learner,
    C: Any,
    weight_norm: float | GroupNorm | None,
    loss: str | Loss = "hinge",
    weighted: bool = False,
) -> None:
    """Complain, before any work, about a problem that ``learner`` does not solve."""
    if weight_norm is None and not learner.scale_free:
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
    takes_all = learner.targets == Learner.targets
    if not takes_all and as_loss(loss).target not in learner.targets:
        raise ValueError(
            f"{learner!r} does not go with loss={loss!r}, since {learner.why_not}; use "
            f"{versatile()}"
        )
    if learner.losses is not None and type(as_loss(loss)) not in map(
        type, map(as_loss, learner.losses)
    ):
        told = " or ".join(map(repr, learner.losses))
        raise ValueError(f"{learner!r} needs loss={told}, found {loss!r}")
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
            f"{stack.name} does not hold: use a KernelStack, or another learner"
        )


def versatile() -> str:
    """For an error message: the learners that take every norm, loss and number of machines."""

    def takes_all(name: str) -> bool:
        one = make_learner(name)
        every = one.weight_norms is None and one.targets == Learner.targets
        return every and one.sums and one.weighted

    *most, last = sorted(filter(takes_all, NAMES[1:]), key=lambda name: name != AUTO)
    return f"{', '.join(map(repr, most))} or {last!r}"
