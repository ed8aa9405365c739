"""One fit, from top to bottom: rows, options, targets, problems, kernels, solutions, what is kept.

The same steps serve whoever fits the same kernels again: ``kernelweave.inspection`` poses other
targets or options (``pose``), and solves them on kernels that it has (``solve_all``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from kernelweave._core.checks import check_verbose
from kernelweave._core.status import tell
from kernelweave.banks.fitted import FittedBank
from kernelweave.certificate import dual_under, primal_under
from kernelweave.estimators._matrices import (
    ROW_NUMBERS,
    matrix_bank,
    takes_matrices,
    without_matrices,
)
from kernelweave.estimators._targets import Targets
from kernelweave.estimators._training import Learnt, Training, used_rows
from kernelweave.kernels.differentiable import DifferentiableKernel
from kernelweave.learners.base import Learner
from kernelweave.learning import check_options
from kernelweave.parameters.bank import check_learnable, learn_bank
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.problem import Formulation, make_formulation
from kernelweave.progress import Progress
from kernelweave.solution import Solution
from kernelweave.solving import solve
from kernelweave.views.table import Table

if TYPE_CHECKING:
    from kernelweave.estimators._base import MKLEstimator

_OF_PROBLEMS = ("trace", "recenter", "epsilon", "quantile")  # options that some estimators have


@dataclass(frozen=True)
class FitOptions:
    """What an estimator is asked to do, checked; ``problem`` holds what only some of them have."""

    learner: Learner
    C: float | str
    loss: str
    weight_norm: float | GroupNorm | None
    tol: float
    max_iter: int
    max_time: float | None
    n_jobs: int | None
    verbose: int
    solver: str
    seed: int
    problem: Mapping[str, Any]

    @classmethod
    def of(cls, model: MKLEstimator, weighted: bool = False) -> FitOptions:
        """Those of an estimator; raises an error for what needs neither rows nor kernels to see."""
        model._targets.check(model)
        generator = check_random_state(model.random_state)
        check_verbose(model.verbose)
        C = getattr(model, "C", 1.0)
        loss = getattr(model, "loss", model._targets.loss)
        limits = model.tol, model.max_iter, model.max_time
        learner = check_options(
            model.learner,
            C,
            model.weight_norm,
            *limits,
            loss=loss,
            sample_weight=weighted or None,
            solver=model.solver,
        )
        if learner.signed and not model._targets.signed:
            raise ValueError(
                f"{learner!r} learns signed weights: their kernel is positive semidefinite on the "
                "rows given to fit, but maybe not with new rows. Use another learner, or "
                "TransductiveMKLClassifier with the rows to predict among those given to fit."
            )
        seed = 0 if model.random_state is None else int(generator.randint(2**31 - 1))
        more = {name: getattr(model, name) for name in _OF_PROBLEMS if hasattr(model, name)}
        return cls(
            learner, C, loss, model.weight_norm, *limits, model.n_jobs, model.verbose,
            model.solver, seed, more,
        )  # fmt: skip


@dataclass(frozen=True)
class Posed:
    """What is asked of some rows: the targets, encoded, and one problem for each of their parts."""

    options: FitOptions
    targets: Targets
    problems: tuple[Formulation, ...]


def fit(model: MKLEstimator, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> None:
    """Fit an estimator: its fitted attributes are set in the end, and not before."""
    training = read(model, X, y, sample_weight)
    posed = pose(model, training)
    began = time.perf_counter()
    model._begin_fit(X, y)
    bank = fit_kernels(training, posed, posed.options.n_jobs)
    learnt = solve_all(bank, training, posed, step=model._step, began=began)
    keep(model, learnt)
    posed.targets.keep(model, learnt)
    model._end_fit(X, y)


def read(
    model: MKLEstimator, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
) -> Training:
    """The rows of X to learn from, and their targets; there must be one for each row, if any."""
    model._check_columns(X, y)
    targets = model._targets.read(y, model)
    bank, advice = model._as_bank(model.kernels), ""
    if takes_matrices(bank):
        (bank, table), advice = matrix_bank(bank, X), f" {ROW_NUMBERS}"
    else:
        table = Table.read(X)
    n = len(table)
    if targets is not None and len(targets) != n:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"X has {n} rows, but y has {len(targets)} labels.{advice}"
        )
    places, weights = used_rows(sample_weight, n)
    if weights is not None:
        table, targets = table.take(places), None if targets is None else targets[places]
    return Training(bank, table, targets, places, weights, n)


def pose(model: MKLEstimator, training: Training, targets: Targets | None = None) -> Posed:
    """The problems of these rows; no kernel is computed yet, so that errors come at once.

    ``targets``: encoded already; by default they are those of the rows.
    """
    weights = training.weights
    options = FitOptions.of(model, weights is not None)
    if targets is None:
        targets = model._targets.of(training.targets, training, model, options.learner)
    problems = tuple(
        make_formulation(
            part,
            options.C if targets.factors is None else options.C * targets.factors,
            options.loss,
            options.weight_norm,
            signed=options.learner.signed,
            sample_weight=weights,
            **options.problem,
        )
        for part in targets.parts
    )
    return Posed(options, targets, problems)


def fit_kernels(training: Training, posed: Posed, n_jobs: int | None) -> FittedBank:
    """The kernels of the rows, those with parameters at the best for these problems."""
    began, options = time.perf_counter(), posed.options
    named = training.bank.kernels is not None  # the default kernels have no parameters to learn
    if named:
        check_learnable(training.bank, options.learner, posed.problems)
    bank = training.bank.fit(training.table, n_jobs, training.weights, options.verbose)
    if options.verbose:
        n, seconds = len(training.table), time.perf_counter() - began
        tell(f"{bank.m_all} kernels on {n} rows, {seconds:.1f} s")
    if not named:
        return bank
    return learn_bank(
        bank,
        training.bank.normalize,
        posed.problems,
        options.learner,
        options.tol,
        np.inf if options.max_time is None else began + options.max_time,
    )


def solve_all(
    bank: FittedBank,
    training: Training,
    posed: Posed,
    start: ArrayLike | None = None,
    step: Callable[[], bool] | None = None,
    began: float | None = None,
) -> Learnt:
    """A solution for each problem on the kernels of the bank.

    Starts from the kernel weights ``start`` if there are as many kernels.
    """
    options = posed.options
    stack = bank.stack if options.n_jobs is None else bank.stack.threaded(options.n_jobs)
    posed.targets.check_kernels(stack, training.weights)
    first = start if start is not None and np.size(start) == stack.m else None
    solutions: list[Solution] = []
    bounds: list[tuple[float | None, float | None]] = []
    for formulation in posed.problems:
        problem = formulation.on_bank(bank.views, bank.kept).on(stack)
        problem = replace(problem, solver=options.solver)
        progress = Progress(problem, options.verbose, began, options.max_time, step)
        limits = options.tol, first, options.max_iter
        solution = solve(problem, options.learner, *limits, progress, options.seed)
        if bank.approximate:
            dual = dual_under(solution, problem, bank.exact_quads)
            primal: float | None = solution.primal
            if dual is not None and not bank.from_below:
                primal = primal_under(solution, problem, bank.exact_values)
            bounds.append((primal, dual))
        solutions.append(replace(solution, problem=None))  # which holds all kernel matrices
    return Learnt(bank, tuple(solutions), training, tuple(bounds))


def keep(model: MKLEstimator, learnt: Learnt) -> None:
    """Keep what prediction and reports need as fitted attributes, without the kernel matrices."""
    bank, solutions, coef = learnt.bank, learnt.solutions, learnt.coef
    support = np.flatnonzero(coef.any(axis=0))
    model.solution_ = solutions[0] if len(solutions) == 1 else solutions
    model.weights_ = learnt.weights
    model.raw_weights_ = model.weights_ * bank.scales
    model.kernel_names_ = np.array(bank.names)
    model.support_ = learnt.training.places[support]
    model.dual_coef_ = coef[:, support]
    model.intercept_ = learnt.bias
    model.duality_gap_ = learnt.gap
    model.exact_gap_ = learnt.exact_gap
    model.objective_ = learnt.total("objective")
    model.n_iter_ = learnt.total("n_iter")
    model.n_svm_solves_ = learnt.total("n_svm_solves")
    model.history_ = learnt.history
    radii = [solution.extras.get("radius") for solution in solutions]
    if radii[0] is not None:
        model.radius_ = learnt.one_or_each(radii)
    elif hasattr(model, "radius_"):  # from an earlier fit with another learner
        del model.radius_
    active = np.flatnonzero(model.weights_.reshape(-1, bank.m_all).any(axis=0))
    model.learned_kernels_ = {
        member.name: member.kernel
        for member in bank.members
        if isinstance(member.kernel, DifferentiableKernel)
    }
    model.bank_ = bank.compact(active, support)
    model._training_bank = bank.compact(active)  # for combined_kernel; not pickled
    model.n_features_in_ = bank.n_features
    if takes_matrices(model.kernels):
        model.n_features_in_ = learnt.training.n_given
        model.bank_ = without_matrices(model.bank_)
        model._training_bank = without_matrices(model._training_bank)
