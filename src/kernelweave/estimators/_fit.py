"""One fit, from top to bottom: rows, options, targets, problems, kernels, solutions, what is kept.

    read ─► pose ─► fit_kernels ─► solve_all ─► keep

The same functions serve whoever fits again: the folds of a cross-validation pose many options on
one set of kernels, ``kernelweave.inspection`` other targets, weights of rows and kernels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from kernelweave._core.checks import (
    check_nonnegative,
    check_verbose,
    is_number,
    is_on_dask,
    on_host,
    shown,
)
from kernelweave._core.status import tell
from kernelweave._core.types import Array
from kernelweave.banks.fitted import FittedBank
from kernelweave.certificate import dual_under, primal_under
from kernelweave.estimators._base import replace_fitted
from kernelweave.estimators._matrices import ROW_NUMBERS, read_matrices, without_matrices
from kernelweave.estimators._targets import Targets, Training, refuse_another_order
from kernelweave.families.bank import grown, has_range
from kernelweave.kernels.differentiable import DifferentiableKernel
from kernelweave.learners import check_options
from kernelweave.learners.base import Learner
from kernelweave.learners.trail import Trail
from kernelweave.parameters.bank import check_learnable, learn_bank
from kernelweave.problems.dual_qp import relative_gap
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.losses import Loss, check_loss
from kernelweave.problems.problem import Formulation, make_formulation
from kernelweave.solution import Solution
from kernelweave.solving import Progress, solve
from kernelweave.stacks.resources import advised, blas_limit, blas_threads
from kernelweave.views.table import Table

if TYPE_CHECKING:
    from kernelweave.estimators._base import MKLEstimator

_ALL = ("weight_norm", "tol", "max_iter", "max_time", "n_jobs", "verbose", "solver")
_SOME = ("trace", "recenter", "epsilon", "quantile")  # options that only some estimators have


@dataclass(frozen=True)
class FitOptions:
    """What an estimator is asked to do, checked; ``problem`` holds what only some of them have."""

    learner: Learner
    C: float | str
    loss: str | Loss
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
        task = model._targets
        C, loss = getattr(model, "C", 1.0), getattr(model, "loss", task.loss)
        if not is_number(C):
            _check_C(C, task.learns_C)
        check_loss(loss, task.kind, task.also)
        task.check(model)
        generator = check_random_state(model.random_state)
        own = [*filter(partial(hasattr, model), _SOME)]
        check_verbose(model.verbose)
        learner = check_options(
            model.learner,
            C,
            model.weight_norm,
            model.tol,
            model.max_iter,
            model.max_time,
            loss=loss,
            sample_weight=weighted or None,
            solver=model.solver,
        )
        if learner.signed and not task.signed:
            raise ValueError(
                f"{learner!r} learns signed weights: their kernel is positive semidefinite on the "
                "rows given to fit, but maybe not with new rows. Use another learner, or "
                "TransductiveMKLClassifier with the rows to predict among those given to fit."
            )
        return cls(
            learner=learner,
            C=C,
            loss=loss,
            seed=0 if model.random_state is None else int(generator.randint(2**31 - 1)),
            problem=dict(zip(own, map(partial(getattr, model), own), strict=True)),
            **dict(zip(_ALL, attrgetter(*_ALL)(model), strict=True)),
        )


def _check_C(C: Any, learned: bool) -> None:
    """Raise an error unless C, which is no plain number, is one of NumPy, or "learn"."""
    if np.ndim(C):
        raise ValueError(f"C must be one number, found {shown(np.asarray(C))}")
    if C != "learn" and np.asarray(C).dtype.kind not in "iuf":
        raise TypeError(f"C must be a positive number or 'learn', found {C!r}")
    if isinstance(C, str) and not learned:
        raise ValueError(f"C must be a number, found {C!r}: it is learned for classes alone")


@dataclass(frozen=True)
class Posed:
    """What is asked of some rows: the targets, encoded, and one problem for each of their parts."""

    training: Training
    options: FitOptions
    targets: Targets
    problems: tuple[Formulation, ...]


@dataclass(frozen=True)
class Learned:
    """Kernels and machines: one solution for all machines, or one per machine.

    ``coef`` (n_machines, n) and ``bias`` (n_machines,) are in the units of y. ``bounds``: the upper
    and lower bounds that each solution proves for the exact kernels, None where it proves none;
    empty where the kernels are exact.
    """

    posed: Posed
    bank: FittedBank
    solutions: tuple[Solution, ...]
    coef: Array
    bias: Array
    bounds: tuple[tuple[float | None, float | None], ...] = ()


@advised
def fit(
    model: Any,
    X: Any,
    y: Any = None,
    sample_weight: ArrayLike | None = None,
    start: tuple[Solution, ...] | None = None,
) -> Any:
    """Fit an estimator: its fitted attributes change in the end, and not before.

    ``start``: solutions to begin with, one for each problem.
    """
    posed = pose(model, read(model, X, y, sample_weight))
    began = time.perf_counter()
    with model._callbacks(X, y) as step:
        bank = fit_kernels(posed, posed.options.n_jobs)
        keep(model, solve_all(bank, posed, start, step, began))
    return model


def read(
    model: MKLEstimator, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
) -> Training:
    """The rows of X to learn from, and their targets; there must be one for each row, if any."""
    if y is None and model._targets.kind != "nothing":
        raise ValueError(
            f"This {type(model).__name__} estimator requires y to be passed, but the target y is "
            "None."
        )
    if "dask" in sys.modules and any(map(is_on_dask, (X, y, sample_weight))):
        from kernelweave.estimators import _cluster

        return _cluster.read(model, X, y, sample_weight)
    bank, names, advice = model._bank, None, ""
    device = getattr(model, "device", None)  # estimators of users may know none
    if device is not None:
        bank = bank.on_device(device)
    if hasattr(y, "is_cuda") or hasattr(sample_weight, "is_cuda"):  # tensors of PyTorch
        y, sample_weight = on_host(y), on_host(sample_weight)
    matrices = isinstance(bank.kernels, str) and bank.kernels == "precomputed"
    if matrices:
        bank, table, names = read_matrices(bank, X, y)
        advice = f" {ROW_NUMBERS}"
    else:
        table = Table.read(X)
        if hasattr(X, "columns"):
            refuse_another_order(X, y)
            seen = BaseEstimator()  # scikit-learn's own reading of names
            validate_data(seen, X, skip_check_array=True)
            names = getattr(seen, "feature_names_in_", None)
    targets, n = model._targets.read(y, model), len(table)
    if targets is not None and len(targets) != n:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"X has {n} rows, but y has {len(targets)} labels.{advice}"
        )
    training = Training(bank, table, targets, np.arange(n), None, n, names, matrices)
    if sample_weight is None:
        return training
    given = np.full(n, sample_weight) if is_number(sample_weight) else sample_weight
    weights = check_nonnegative("sample_weight", given, n)
    if not weights.any():
        raise ValueError(
            "sample_weight: all weights are zero, and no row is left to learn from; give some "
            "rows a positive weight, or leave sample_weight out."
        )
    return replace(training, weights=weights).take(np.flatnonzero(weights))


def pose(
    model: MKLEstimator,
    training: Training,
    options: FitOptions | None = None,
    targets: Targets | None = None,
) -> Posed:
    """The problems of these rows; no kernel is computed yet, so that errors come at once.

    Options are those of the model, and targets those of the rows, unless they are given.
    """
    weights = training.weights
    if options is None:
        options = FitOptions.of(model, weights is not None)
    if targets is None:
        targets = model._targets.encode(training, model, options.learner)
    make = partial(
        make_formulation,
        C=options.C if targets.factors is None else options.C * targets.factors,
        loss=options.loss,
        weight_norm=options.weight_norm,
        signed=options.learner.signed,
        sample_weight=weights,
        **options.problem,
    )
    return Posed(training, options, targets, tuple(map(make, targets.parts)))


def fit_kernels(posed: Posed, n_jobs: int | None = None, exact: bool = True) -> FittedBank:
    """The kernels of the rows, those with parameters at the best for these problems.

    ``exact``: whether solutions shall prove bounds for the exact kernels of approximate ones.
    """
    began, training, options = time.perf_counter(), posed.training, posed.options
    learns = training.bank.kernels is not None and bool(training.bank.learnable())
    if learns:
        check_learnable(training.bank, options.learner, posed.problems)
    with blas_threads(blas_limit(len(training.table), n_jobs)):
        bank = training.bank.fit(training.table, n_jobs, training.weights, options.verbose)
    if options.verbose:
        n, seconds = len(training.table), time.perf_counter() - began
        tell(f"{bank.m_all} kernels on {n} rows, {seconds:.1f} s")
    if not exact:
        bank = bank.on(bank.stack)
    if not learns:
        return bank
    asked = posed.problems, options.learner, options.tol
    until = np.inf if options.max_time is None else began + options.max_time
    bank = learn_bank(bank, training.bank.normalize, *asked, until)
    if not has_range(bank):
        return bank
    clock = options.verbose, began, options.max_time
    return grown(training.bank, bank, *asked, options.max_iter, clock, n_jobs)


def solve_all(
    bank: FittedBank,
    posed: Posed,
    start: ArrayLike | tuple[Solution, ...] | None = None,
    step: Callable[[], bool] | None = None,
    began: float | None = None,
    trails: Sequence[Trail] | None = None,
) -> Learned:
    """A solution for each problem on the kernels of the bank.

    ``start``: kernel weights to start from, or solutions of the same problems at another C; then
    ``trails`` may have their cuts, one for each problem, and get those of these fits.
    """
    options = posed.options
    stack = bank.stack if options.n_jobs is None else bank.stack.threaded(options.n_jobs)
    posed.targets.check_kernels(stack, posed.training.weights)
    start = bank.hull.solutions if start is None and bank.hull is not None else start
    solutions: list[Solution] = []
    bounds: list[tuple[float | None, float | None]] = []
    for number, formulation in enumerate(posed.problems):
        if isinstance(options.weight_norm, GroupNorm):
            formulation = formulation.on_bank(bank.views, bank.kept)
        problem = formulation.on(stack, options.solver)
        progress = Progress(problem, options.verbose, began, options.max_time, step)
        first = start[number] if isinstance(start, tuple) else start
        limits = options.tol, first, options.max_iter
        trail = None if trails is None else trails[number]
        with blas_threads(blas_limit(stack.n, options.n_jobs)):
            solution = solve(problem, options.learner, *limits, progress, options.seed, trail)
        if bank.approximate:
            dual = dual_under(solution, problem, bank.exact_quads)
            primal: float | None = solution.primal
            if dual is not None and not bank.from_below:
                primal = primal_under(solution, problem, bank.exact_values)
            bounds.append((primal, dual))
        elif bank.hull is not None:
            bounds.append((solution.primal, bank.hull.dual(solution, problem)))
            solves = solution.n_svm_solves + bank.hull.solutions[number].n_svm_solves
            solution = replace(solution, n_svm_solves=solves)
        solutions.append(replace(solution, problem=None))  # which holds all kernel matrices
    coefs, biases = zip(*map(attrgetter("coef", "bias"), solutions), strict=True)
    machines = posed.targets.in_units(np.vstack(coefs), np.hstack(biases))
    return Learned(posed, bank, tuple(solutions), *machines, tuple(bounds))


def values_of(bank: FittedBank, learned: Sequence[Learned], new: Table) -> Array:
    """f(x) of every fit and machine for new rows, (n_fits, n_new, n_machines).

    All fits are on the kernels of the bank; each kernel meets the new rows once.
    """
    weights = [
        np.tile(bank.spread(solution.weights), (len(np.atleast_2d(solution.coef)), 1))
        for one in learned
        for solution in one.solutions
    ]
    biases = np.array([one.bias for one in learned])
    coefs = np.vstack([one.coef for one in learned])
    with blas_threads(blas_limit(coefs.shape[1], None)):
        values = bank.decision(new, np.vstack(weights), coefs.T)
    return values.T.reshape(*biases.shape, len(new)).swapaxes(1, 2) + biases[:, None, :]


def keep(model: MKLEstimator, learned: Learned) -> None:
    """Keep what prediction and reports need as fitted attributes, without the kernel matrices.

    They replace those of an earlier fit all at once, when nothing can fail any more.
    """
    bank, training, solutions = learned.bank, learned.posed.training, learned.solutions
    one = len(solutions) == 1  # else each machine has weights of its own
    told = "weights", "primal", "dual", "n_iter", "n_svm_solves", "history"
    every = zip(*map(attrgetter(*told), solutions), strict=True)
    of_stack, primal, dual, n_iter, n_solves, histories = map(list, every)
    weights = bank.spread(of_stack)
    active = np.flatnonzero(weights.any(axis=0))
    support = np.flatnonzero(learned.coef.any(axis=0))
    coef = learned.coef[:, support]
    names, scales = zip(*map(attrgetter("name", "scale"), bank.members), strict=True)
    learned_kernels: dict[str, DifferentiableKernel] = {}
    for place, history in enumerate(histories):
        histories[place] = {**history, "weights": bank.spread(history["weights"])}
    for member in bank.members:
        if isinstance(member.kernel, DifferentiableKernel):
            learned_kernels[member.name] = member.kernel
    gap = solutions[0].gap if one else relative_gap(sum(primal), sum(dual))
    found: dict[str, Any] = {
        "solution_": solutions[0] if one else solutions,
        "weights_": weights[0] if one else weights,
        "raw_weights_": (weights[0] if one else weights) * np.array(scales),
        "kernel_names_": np.array(names),
        "learned_kernels_": learned_kernels,
        "parameter_search_": dict(bank.parameter_search),
        "support_": training.places[support],
        "dual_coef_": coef,
        "intercept_": learned.bias,
        "duality_gap_": gap,
        "exact_gap_": _gap(learned.bounds) if learned.bounds else gap,
        "objective_": sum(primal),
        "n_iter_": sum(n_iter),
        "n_svm_solves_": sum(n_solves),
        "history_": histories[0] if one else tuple(histories),
        "bank_": bank.compact(active, support, coef.T),
        "_training_bank": bank.compact(active),  # for combined_kernel; not pickled
        "n_features_in_": training.n_given if training.matrices else bank.n_features,
    }
    if training.names is not None:
        found["feature_names_in_"] = training.names
    if "radius" in solutions[0].extras:
        radii = [solution.extras["radius"] for solution in solutions]
        found["radius_"] = radii[0] if one else np.array(radii)
    if training.matrices:
        for name in ("bank_", "_training_bank"):
            found[name] = without_matrices(found[name])
    targets = learned.posed.targets
    replace_fitted(model, {**found, **targets.attributes, **targets.keep(model, learned)})


def _gap(bounds: Sequence[tuple[float | None, float | None]]) -> float | None:
    """The relative gap of all machines together, of the sums of their bounds; None if unknown."""
    primal, dual = zip(*bounds, strict=True)
    return None if None in primal + dual else relative_gap(sum(primal), sum(dual))
