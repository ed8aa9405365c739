"""What all estimators share: from X to kernels, from problems to solutions, and what is kept.

A bank computes kernels from X, a learner weights them, and the estimator keeps what prediction
needs: the kernels with a weight and the support rows. A subclass says which problems there are
(``_pose``) and what their solutions mean (``_settle``, ``predict``). Problems once posed can be
solved on other kernels than those of ``fit``: so ``kernelweave.inspection`` asks what if.
"""

from __future__ import annotations

import time
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from kernelweave import __version__
from kernelweave._core.checks import check_verbose
from kernelweave._core.status import tell
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.certificate import dual_under, primal_under
from kernelweave.estimators._banks import as_bank, takes_sparse, takes_strings
from kernelweave.estimators._callbacks import Called
from kernelweave.estimators._inspected import Inspected
from kernelweave.estimators._matrices import (
    ROW_NUMBERS,
    matrix_bank,
    takes_matrices,
    training_labels,
    with_matrices,
    without_matrices,
)
from kernelweave.estimators._saving import Saved
from kernelweave.estimators._training import (
    Learnt,
    Posed,
    Training,
    refuse_another_order,
    used_rows,
)
from kernelweave.kernels.differentiable import DifferentiableKernel
from kernelweave.learners import make_learner
from kernelweave.learners.base import Learner
from kernelweave.learning import check_options
from kernelweave.parameters.bank import check_learnable, learn_bank
from kernelweave.problems.groups import GroupNorm
from kernelweave.progress import Progress
from kernelweave.solution import Solution
from kernelweave.solving import solve
from kernelweave.views.table import Table, check_one_table


class MKLEstimator(Called, Inspected, Saved, BaseEstimator):
    """The base class of estimators; not for use by itself."""

    bank_: FittedBank
    solution_: Solution | tuple[Solution, ...]
    weights_: Array
    dual_coef_: Array
    intercept_: Array

    _transductive = False  # whether signed weights are allowed

    def __init__(
        self,
        kernels: Any,
        learner: str | Learner,
        weight_norm: float | GroupNorm | None,
        tol: float,
        max_iter: int,
        n_jobs: int | None,
        random_state: Any,
        verbose: int,
        max_time: float | None,
        solver: str = "auto",
    ) -> None:
        self.kernels = kernels
        self.learner = learner
        self.weight_norm = weight_norm
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.max_time = max_time
        self.solver = solver

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Nested names such as ``kernels__normalize`` first turn ``kernels`` into a bank; names such
        as ``learner__small`` first turn the name of a learner into an object.
        """
        kernels = params.get("kernels", self.kernels)
        nested = {name.split("__")[1] for name in params if name.startswith("kernels__")}
        own = kernels.get_params() if hasattr(kernels, "get_params") else {}
        if not nested <= own.keys():
            params["kernels"] = self._as_bank(kernels)
        learner = params.get("learner", self.learner)
        if isinstance(learner, str) and any(name.startswith("learner__") for name in params):
            params["learner"] = make_learner(learner)
        return super().set_params(**params)

    def _as_bank(self, kernels: Any) -> KernelBank:
        """The bank for the parameter ``kernels``."""
        return as_bank(kernels)

    # ---- learning ------------------------------------------------------------------------------

    def _fit_anew(self, *data: Any) -> Self:
        """Call ``_fit``; if anything fails, an earlier fit stays intact."""
        fresh = copy(self)
        try:
            fresh._fit(*data)
        finally:
            fresh._leave_fit()
        self.__dict__ = fresh.__dict__
        return self

    def _fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> None:
        self._check_columns(X, y)
        targets = self._read_targets(y)
        given = None if targets is None else len(targets)
        training = self._training(X, given, sample_weight)
        posed = self._pose(targets, training)
        self._begin_fit(X, y)
        self._settle(posed, self._learn(training, posed))
        self._end_fit(X, y)

    def _read_targets(self, y: Any) -> Any:
        """What y holds, checked: one target per row of X, or None where there are none."""
        raise NotImplementedError

    def _pose(self, targets: Any, training: Training) -> Posed:
        """The problems of these rows; ``targets`` are those of all rows of X."""
        raise NotImplementedError

    def _settle(self, posed: Posed, learnt: Learnt) -> None:
        """Keep the solutions of problems as fitted attributes."""
        raise NotImplementedError

    def _training(
        self, X: Any, n_targets: int | None = None, sample_weight: ArrayLike | None = None
    ) -> Training:
        """The rows of X to learn from; there must be one target for each row of X, if any."""
        bank, advice = self._as_bank(self.kernels), ""
        if takes_matrices(bank):
            (bank, table), advice = matrix_bank(bank, X), f" {ROW_NUMBERS}"
        else:
            table = Table.read(X)
        if n_targets not in (None, len(table)):
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"X has {len(table)} rows, but y has {n_targets} labels.{advice}"
            )
        places, weights = used_rows(sample_weight, len(table))
        used = table if weights is None else table.take(places)
        return Training(bank, used, places, weights, len(table))

    def _make_learner(
        self, C: float | str, loss: str, sample_weight: Array | None = None
    ) -> Learner:
        """The learner; raises an error if it cannot do what the parameters ask."""
        check_random_state(self.random_state)
        check_verbose(self.verbose)
        learner = check_options(
            self.learner,
            C,
            self.weight_norm,
            self.tol,
            self.max_iter,
            self.max_time,
            loss=loss,
            sample_weight=sample_weight,
            solver=self.solver,
        )
        if learner.signed and not self._transductive:
            raise ValueError(
                f"{learner!r} learns signed weights: their kernel is positive semidefinite on the "
                "rows given to fit, but maybe not with new rows. Use another learner, or "
                "TransductiveMKLClassifier with the rows to predict among those given to fit."
            )
        return learner

    def _learn(self, training: Training, posed: Posed, start: ArrayLike | None = None) -> Learnt:
        """Kernels, computed once, and a solution for each of the problems."""
        began = time.perf_counter()
        bank = self._kernels(training, posed, self.n_jobs)
        return self._solve(bank, training, posed, start, began)

    def _kernels(self, training: Training, posed: Posed, n_jobs: int | None) -> FittedBank:
        """The kernels of the rows, those with parameters at the best for these problems."""
        began = time.perf_counter()
        check_learnable(training.bank, posed.learner, posed.formulations)
        bank = training.bank.fit(training.table, n_jobs, training.weights, self.verbose)
        if self.verbose:
            n, seconds = len(training.table), time.perf_counter() - began
            tell(f"{bank.m_all} kernels on {n} rows, {seconds:.1f} s")
        return learn_bank(
            bank,
            training.bank.normalize,
            posed.formulations,
            posed.learner,
            self.tol,
            np.inf if self.max_time is None else began + self.max_time,
        )

    def _solve(
        self,
        bank: FittedBank,
        training: Training,
        posed: Posed,
        start: ArrayLike | None = None,
        began: float | None = None,
    ) -> Learnt:
        """A solution for each problem on the kernels of the bank.

        Starts from the kernel weights ``start`` if there are as many kernels.
        """
        stack = bank.stack if self.n_jobs is None else bank.stack.threaded(self.n_jobs)
        first = start if start is not None and np.size(start) == stack.m else None
        solutions: list[Solution] = []
        bounds: list[tuple[float | None, float | None]] = []
        for formulation in posed.formulations:
            problem = formulation.on_bank(bank.views, bank.kept).on(stack)
            problem = replace(problem, solver=self.solver)
            progress = Progress(problem, self.verbose, began, self.max_time, self._step)
            solution = solve(problem, posed.learner, self.tol, first, self.max_iter, progress)
            if bank.approximate:
                dual = dual_under(solution, problem, bank.exact_quads)
                primal: float | None = solution.primal
                if dual is not None and not bank.from_below:
                    primal = primal_under(solution, problem, bank.exact_values)
                bounds.append((primal, dual))
            solutions.append(replace(solution, problem=None))  # which holds all kernel matrices
        return Learnt(bank, tuple(solutions), training, tuple(bounds))

    def _keep(self, learnt: Learnt) -> None:
        """Keep what prediction and reports need, without the kernel matrices."""
        bank, solutions, coef = learnt.bank, learnt.solutions, learnt.coef
        support = np.flatnonzero(coef.any(axis=0))
        self.solution_ = solutions[0] if len(solutions) == 1 else solutions
        self.weights_ = learnt.weights
        self.raw_weights_ = self.weights_ * bank.scales
        self.kernel_names_ = np.array(bank.names)
        self.support_ = learnt.training.places[support]
        self.dual_coef_ = coef[:, support]
        self.intercept_ = learnt.bias
        self.duality_gap_ = learnt.gap
        self.exact_gap_ = learnt.exact_gap
        self.objective_ = learnt.total("objective")
        self.n_iter_ = learnt.total("n_iter")
        self.n_svm_solves_ = learnt.total("n_svm_solves")
        self.history_ = learnt.history
        radii = [solution.extras.get("radius") for solution in solutions]
        if radii[0] is not None:
            self.radius_ = learnt.one_or_each(radii)
        elif hasattr(self, "radius_"):  # from an earlier fit with another learner
            del self.radius_
        active = np.flatnonzero(self.weights_.reshape(-1, bank.m_all).any(axis=0))
        self.learned_kernels_ = {
            member.name: member.kernel
            for member in bank.members
            if isinstance(member.kernel, DifferentiableKernel)
        }
        self.bank_ = bank.compact(active, support)
        self._training_bank = bank.compact(active)  # for combined_kernel; not pickled
        if self._given_matrices:
            self.n_features_in_ = learnt.training.n_given
            self.bank_ = without_matrices(self.bank_)
            self._training_bank = without_matrices(self._training_bank)
        else:
            self.n_features_in_ = bank.n_features

    # ---- new rows ------------------------------------------------------------------------------

    def _values(self, X: Any) -> Array:
        """f(x) for every row of X and every machine, (n_new, n_machines)."""
        check_is_fitted(self)
        bank, table = self._read(X, self.bank_)
        return bank.decision(table, self.weights_, self.dual_coef_.T) + self.intercept_

    def combined_kernel(self, X: Any) -> Array:
        """The learned kernel Σ_m d_m k_m(x, x_i) against all training rows, (n_new, n_train).

        If every machine has its own weights: (n_machines, n_new, n_train). Not available after
        unpickling: a pickle holds only the support rows.
        """
        check_is_fitted(self)
        if not hasattr(self, "_training_bank"):
            raise ValueError(
                "combined_kernel needs the kernels on all training rows, which pickles and copies "
                "of a fitted model leave out; bank_.cross(X, weights_) is the kernel against the "
                "support rows."
            )
        bank, table = self._read(X, self._training_bank)
        if self.weights_.ndim == 1:
            return bank.cross(table, self.weights_)
        return np.array([bank.cross(table, weights) for weights in self.weights_])

    @property
    def _given_matrices(self) -> bool:
        return takes_matrices(self._as_bank(self.kernels))

    def _read(self, X: Any, bank: FittedBank) -> tuple[FittedBank, Table]:
        """New rows and the kernels for them; the bank checks them."""
        if self._given_matrices:
            labels = getattr(self, "feature_names_in_", None)
            return with_matrices(bank, X, self.n_features_in_, labels)
        self._check_columns(X)
        return bank, bank.read(X)

    def _check_columns(self, X: Any, *y: Any) -> None:
        """Check the number and names of columns and the presence of y; the bank checks the rest."""
        if self._given_matrices:
            if y and y[0] is None and get_tags(self).target_tags.required:
                validate_data(self, y=None, skip_check_array=True)  # which tells the user
            if y:
                self._name_rows(training_labels(X, y[0]))
            return
        check_one_table(X)
        if y:
            refuse_another_order(X, y[0])
        if getattr(X, "ndim", 2) == 2:
            validate_data(self, X, *y, reset=bool(y), skip_check_array=True)

    def _name_rows(self, labels: Array | None) -> None:
        """Keep the names of the training rows, which are the columns of matrices to predict."""
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if labels is not None:
            self.feature_names_in_ = labels

    # ---- scikit-learn --------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__(), "_kernelweave_version": __version__}
        state.pop("_training_bank", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        version = state.pop("_kernelweave_version", None)
        if version != __version__:
            saved = f"kernelweave {version}" if version else "an unknown version of kernelweave"
            warn(
                f"This {type(self).__name__} was saved by {saved}, but this is kernelweave "
                f"{__version__}: it may fail or predict otherwise. Fit it again, or load it with "
                "the version that saved it.",
            )
        super().__setstate__(state)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bank_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        bank = self._as_bank(self.kernels)
        if not takes_matrices(bank):
            tags.input_tags.string = tags.input_tags.categorical = takes_strings(bank)
            tags.input_tags.allow_nan = bank.allows_gaps()
            tags.input_tags.sparse = takes_sparse(bank)
        return tags
