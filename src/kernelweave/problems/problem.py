"""The problem as the solvers see it, built from what a user says; every argument is checked once.

    min_{d ∈ D}  J(d),    J(d) = Σ_c max_v  cᵀv − ½ρ‖v‖² − ½ Σ_m d_m vᵀK_m v

over the feasible v of each dual QP: one, or one per column of y. D is the simplex, an ℓp ball,
Σ d_m tr K_m = c [lanckriet2004, eq. 18], or Σ d_m T(K_m) = c with T(K) = tr K − 1ᵀK1/n
[chapelle2008, eq. 1]. With C = "learn" the identity is one kernel more, and its weight is 1/C
[lanckriet2004, eq. 47].

The machine is over the labeled rows, D over all rows [lanckriet2004, eq. 17–18]. Signed weights
have the trace constraint and Σ_m d_m K_m ⪰ 0. A row of weight w counts as w equal rows: w times in
the loss and in traces.

A ``Formulation`` is a problem but for its kernels: it exists before they are computed, so that a
wrong argument is told at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_number, check_truth, check_vector
from kernelweave._core.tolerances import COINCIDE, TINY
from kernelweave._core.types import Array, Mask, Places
from kernelweave.problems.dual_qp import DualQP
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.losses import Loss, as_loss, check_C, check_costs, far_origin
from kernelweave.problems.weight_sets import WeightSet, check_norm, make_weight_set
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.identity import WithIdentity
from kernelweave.stacks.protocol import Stack

_LEAST_TARGET = 1e-150  # whose square is a number; one over this for the largest


@dataclass(frozen=True)
class Problem:
    """Kernels, dual QPs and weight set.

    ``whole`` are the kernels on all rows, ``stack`` on the ``labeled`` ones; ``learns_C`` says
    that the last kernel is the identity. ``formulation`` is what the user asked for, but for the
    ``unit`` in which kernels are measured and the ``size`` in which f is: dual variables times
    ``unit_of_v`` = size/unit are those of the user, size times that J. ``solver`` is how
    machines are solved, ``asked`` what else ``learn`` was told, such as the learner, for those who
    write the problem down.
    """

    formulation: Formulation
    stack: Stack
    whole: Stack
    weight_set: WeightSet
    unit: float = 1.0
    size: float = 1.0
    unit_of_v: float = 1.0
    solver: str = "auto"
    asked: Mapping[str, Any] = field(default_factory=dict)

    def in_standard_units(self) -> Problem:
        """The same problem with kernels of about unit size, without a copy of any.

        With U a power of two, K/U and u = U·v have the objective U·J and the bounds U·C: U goes
        into the scale of the weight set and into the dual QPs. Kernels in other units, or another
        C, then are the same problem to the last bit where the factor is a power of two. Where Σv is
        given, as in one class, v stays, and f/U has the objective J/U.
        """
        sizes = self.refuse_extremes()
        if not sizes.any():
            return self
        # The nearest power of two: 1 for a mean of 1, whichever way it was rounded, and a single
        # kernel of weight 1 is then used as it is, without a copy.
        size = sizes[sizes > 0.0].mean() * np.sqrt(0.5)
        unit = float(np.ldexp(1.0, int(np.frexp(size)[1])))
        size = unit if all(map(attrgetter("total"), self.qps)) else 1.0
        qps = tuple(map(DualQP.rescaled, self.qps, repeat(size / unit), repeat(size)))
        return replace(
            self,
            formulation=replace(self.formulation, qps=qps),
            weight_set=replace(self.weight_set, scale=self.weight_set.scale / unit),
            unit=self.unit * unit,
            size=self.size * size,
            unit_of_v=self.size * size / (self.unit * unit),
        )

    def refuse_extremes(self) -> Array:
        """The mean diagonals of all kernels; ValueError where numbers of such a size end.

        Under a squared loss the objective has the units of the targets, squared; under every other
        it has where slacks cost more than ‖f‖², as those of small targets do.
        """
        for qp in self.qps:
            far = float(np.abs(qp.linear).max(initial=0.0))
            large = qp.is_unbounded and far > 1.0 / _LEAST_TARGET
            if large or 0.0 < far < _LEAST_TARGET:
                raise ValueError(
                    f"y is too {'small' if far < 1.0 else 'large'} to compute squares of (largest "
                    f"|y| {far:g}): divide it by a number of its size"
                )
        sizes = self.weight_set.scale * self.stack.traces() / self.stack.n
        wrong = ~np.isfinite(sizes) | ((sizes > 0.0) & (sizes < TINY)) | (sizes > 1.0 / TINY)
        if wrong.any():
            kernel = int(np.argmax(wrong))
            raise ValueError(
                f"kernel {kernel} is too {'small' if sizes[kernel] < 1.0 else 'large'} to "
                f"compute with (mean diagonal {sizes[kernel]:g}): divide it by a number of its size"
            )
        return np.asarray(sizes)

    def on_sample(self, rows: Places, full_rank: bool = False) -> Problem:
        """About the same problem on some of the labeled rows.

        Slacks cost more by as much as rows are fewer, so that the optimal weights stay about the
        same: the same f then has as many times the loss. Kernels of full rank have another f for
        more rows; there the same cost gives the nearer weights. Kernels keep their scale in the
        weight set.
        """
        task, part = self.formulation.task, self.stack.restrict(rows)
        same = full_rank and not any(qp.total for qp in self.qps)
        more = 1.0 if same else self.stack.n / len(rows)
        given = replace(
            self.formulation,
            qps=tuple(qp.on_rows(rows).costlier(more) for qp in self.qps),
            labeled=np.ones(len(rows), dtype=bool),
            task=replace(task, targets=task.targets[rows]),
        )
        return replace(self, formulation=given, stack=part, whole=part)

    @property
    def is_sum(self) -> bool:
        """Whether there is a machine per column of y, be it one."""
        return self.formulation.task.targets.ndim == 2

    def at_cost(self, C: float | Array) -> Problem:
        """The same kernels and weight set for another C; for problems in the user's units."""
        return replace(self, formulation=self.formulation.at_cost(C))

    qps = property(attrgetter("formulation.qps"), doc="One dual QP for each machine.")
    learns_C = property(
        attrgetter("formulation.learns_C"), doc="Whether the last kernel is the identity."
    )

    @property
    def qp(self) -> DualQP:
        """The dual QP, where there is one machine only."""
        (qp,) = self.qps
        return qp

    @property
    def targets(self) -> Array:
        """What y holds for the labeled rows, a column per machine."""
        return self.formulation.task.targets.reshape(self.stack.n, -1)

    @property
    def rows(self) -> Places:
        """The labeled rows."""
        return np.flatnonzero(self.formulation.labeled)

    def to_all_rows(self, values: Array) -> Array:
        """One value for every row from one for each labeled row, 0 for the others."""
        everywhere = np.zeros((*values.shape[:-1], self.whole.n))
        everywhere[..., self.formulation.labeled] = values
        return everywhere


@dataclass(frozen=True)
class Task:
    """What the machines shall do, but for C: targets, loss, ridge, and the weights of the rows.

    ``targets`` are those of the labeled rows, shape (n,), or (n, k) for k machines;
    ``row_weights`` multiply C per row. ``asked`` is the loss as it was given, a word or the object.
    """

    targets: Array
    loss: Loss
    asked: str | Loss
    ridge: float = 0.0
    row_weights: Array | None = None

    def qps(self, C: float | Array, labeled: Mask) -> tuple[DualQP, ...]:
        """One dual QP per machine; C is one number or one for every row, labeled or not."""
        costs = C if isinstance(C, float) else C[labeled]
        if self.row_weights is not None:
            costs = check_costs(costs * self.row_weights, "C times sample_weight")
        found = []
        for y in self.targets[None] if self.targets.ndim == 1 else self.targets.T:
            origin = far_origin(y) if self.loss.of_errors else 0.0
            near = y - origin if origin else np.ascontiguousarray(y)
            qp = self.loss.lower(near, costs, self.ridge)
            found.append(replace(qp, origin=origin) if origin else qp)
        return tuple(found)


@dataclass(frozen=True)
class Formulation:
    """A problem but for its kernels, every argument checked.

    ``labeled`` says which rows have a label and a weight; the QPs are over these alone. ``C`` is
    kept as given, ``task`` is what else the QPs were made of. ``row_weights`` are those of all
    rows, or None.
    """

    qps: tuple[DualQP, ...]
    labeled: Mask
    C: Any
    task: Task
    learns_C: bool = False
    weight_norm: float | GroupNorm | None = 1
    trace: float | None = None
    recenter: bool = False
    signed: bool = False
    row_weights: Array | None = None

    loss = property(attrgetter("task.loss"), doc="What slacks cost.")

    def at_cost(self, C: float | Array) -> Formulation:
        """The same for another C, one number or one per row."""
        costs = check_C(C, self.labeled.size, self.task.asked)
        return replace(self, qps=self.task.qps(costs, self.labeled), C=C)

    def on_bank(self, views: Sequence[str], kept: Places) -> Formulation:
        """The same for the kernels ``kept`` of a bank, given the view of each of its kernels."""
        norm = self.weight_norm
        if not isinstance(norm, GroupNorm):
            return self
        return replace(self, weight_norm=norm.on_bank(views, kept))

    def on(self, kernels: Stack, solver: str = "auto", **asked: Any) -> Problem:
        """The problem with these kernels; ``asked``: what else ``learn`` was told."""
        if kernels.n != self.labeled.size:
            given = f"{self.labeled.size} {self._called()}"
            raise ValueError(f"y has {given}, but the kernels have {kernels.n} rows")
        part = kernels if self.labeled.all() else kernels.restrict(np.flatnonzero(self.labeled))
        whole = WithIdentity(kernels) if self.learns_C else kernels
        stack = WithIdentity(part) if self.learns_C else part
        constrained = self.trace is not None or self.recenter or self.learns_C or self.signed
        traces = self._traces(whole) if constrained else None
        empty = self.signed and bool(kernels.traces().any())
        weight_set = make_weight_set(stack.m, self.weight_norm, self.trace, traces, empty)
        return Problem(self, stack, whole, weight_set, solver=solver, asked=asked)

    def _called(self) -> str:
        """What y holds, in an error message."""
        return "labels" if self.loss.target == "labels" else "numbers"

    def _traces(self, whole: Stack) -> Array:
        """What the weight set measures kernels by, where it is not their number alone."""
        w = self.row_weights
        traces = whole.traces() if w is None else whole.diagonals() @ w
        if not self.recenter:
            return traces
        counts = np.ones(whole.n) if w is None else w
        centered = traces - whole.quad_forms(counts) / counts.sum()
        centered[centered <= COINCIDE * traces] = 0.0  # constant kernels, up to rounding
        return centered


def make_formulation(
    y: ArrayLike | None,
    C: ArrayLike | str = 1.0,
    loss: str | Loss = "hinge",
    weight_norm: float | GroupNorm | None = 1,
    trace: float | None = None,
    recenter: bool = False,
    ridge: float = 0.0,
    signed: bool = False,
    *,
    sample_weight: ArrayLike | None = None,
    **parameters: float,
) -> Formulation:
    """Check every argument, as ``learn`` documents it, and lower the loss to dual QPs.

    A loss that was given as a word takes what it reads of the ``parameters``.
    Here, and nowhere else, y = 0 is read as "no label" and a weight of 0 as "no such row".
    """
    check_truth("recenter", recenter)
    if signed and recenter:
        raise ValueError("signed weights go with the trace itself: leave recenter=False")
    check_norm(weight_norm, trace is not None or recenter or signed)
    if trace is not None:
        trace = check_number("trace", trace)
    asked, loss = loss, as_loss(loss, **parameters)
    targets, labeled = loss.read(y)
    weights = None if sample_weight is None else check_sample_weight(sample_weight, len(targets))
    if weights is not None and not weights.all():
        labeled = labeled & (weights > 0.0)
        loss.check_left(targets[labeled])
    task = Task(
        targets[labeled],
        loss,
        asked,
        check_number("ridge", ridge, zero=True),
        None if weights is None else weights[labeled],
    )
    learns_C = isinstance(C, str) and C == "learn"
    if learns_C:
        _check_learned_C(task, weight_norm, ridge, weights)
        costs: float | Array = np.inf
    else:
        costs = check_C(C, len(targets), asked)
    qps = task.qps(costs, labeled)
    return Formulation(
        qps, labeled, C, task, learns_C, weight_norm, trace, recenter, signed, weights
    )


def make_problem(
    K: Any,
    y: ArrayLike | None,
    C: ArrayLike | str = 1.0,
    loss: str | Loss = "hinge",
    n_jobs: int | None = None,
    **options: Any,
) -> Problem:
    """The problem of kernels, labels and the ``options`` of ``make_formulation``.

    Where the loss has no target, y may be None.
    """
    formulation = make_formulation(target_of(y, loss, K), C, loss, **options)
    stack = as_stack(K)
    return formulation.on(stack if n_jobs is None else stack.threaded(n_jobs))


def target_of(y: ArrayLike | None, loss: str | Loss, K: Any) -> ArrayLike | None:
    """``y``; for None, where the loss has no target, a number for each row of the kernels."""
    if y is not None or as_loss(loss).target != "nothing":
        return y
    return np.zeros(K.n if hasattr(K, "n") else np.shape(K)[-1])


def check_sample_weight(sample_weight: ArrayLike, n: int) -> Array:
    """Weights of n rows: finite, none negative, not all zero."""
    weights = check_vector("sample_weight", sample_weight, n)
    if weights.min() < 0.0:
        raise ValueError(f"sample_weight must hold numbers ≥ 0, found {weights.min():g}")
    if not weights.any():
        raise ValueError("sample_weight is 0 for every row: no row is left")
    return weights


def refuse_learned_C(C: ArrayLike | str) -> None:
    """Complain about C = "learn" where the identity is no kernel."""
    if isinstance(C, str):
        raise ValueError(
            f"C must be a number, or one per row, found {C!r}: only learn has C='learn', and what "
            "it learns is the machine of one more kernel, the identity"
        )


def _check_learned_C(
    task: Task, weight_norm: float | GroupNorm | None, ridge: float, row_weights: Array | None
) -> None:
    if not task.loss.learns_C:
        raise ValueError(f"C='learn' needs loss='squared_hinge', found {task.asked!r}")
    if weight_norm != 1:
        raise ValueError(f"C='learn' needs weight_norm=1, found {weight_norm!r}")
    if ridge != 0.0:
        raise ValueError(f"C='learn' learns the ridge; leave ridge=0, found {ridge!r}")
    if row_weights is not None:
        raise ValueError(
            "C='learn' learns one C for all rows, and takes no sample_weight: give C as a number"
        )
