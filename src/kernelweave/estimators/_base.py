"""What all estimators share beside the fit: parameters, new rows, and scikit-learn's interface.

How they are fitted is told in ``_fit.py``. A subclass says what its y means (``_targets``), and
what values of new rows mean (``predict``).
"""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
    validate_data,
)

from kernelweave import __version__
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._banks import as_bank, takes_sparse, takes_strings
from kernelweave.estimators._callbacks import Called
from kernelweave.estimators._fit import fit
from kernelweave.estimators._inspected import Inspected
from kernelweave.estimators._matrices import (
    takes_matrices,
    training_labels,
    with_matrices,
)
from kernelweave.estimators._targets import Targets
from kernelweave.estimators._training import refuse_another_order
from kernelweave.learners import make_learner
from kernelweave.learners.base import Learner
from kernelweave.problems.groups import GroupNorm
from kernelweave.solution import Solution
from kernelweave.views.table import Table, check_one_table


class MKLEstimator(Called, Inspected, BaseEstimator):
    """The base class of estimators; not for use by itself."""

    bank_: FittedBank
    solution_: Solution | tuple[Solution, ...]
    weights_: Array
    dual_coef_: Array
    intercept_: Array

    _targets: ClassVar[type[Targets]]  # what y means, by which the estimators differ

    def __init__(
        self,
        *,
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
        """Fit a copy; if anything fails, an earlier fit stays intact."""
        fresh = copy(self)
        try:
            fit(fresh, *data)
        finally:
            fresh._leave_fit()
        self.__dict__ = fresh.__dict__
        return self

    # ---- new rows ------------------------------------------------------------------------------

    def _values(self, X: Any) -> Array:
        """f(x) for every row of X and every machine, (n_new, n_machines)."""
        if not hasattr(self, "bank_"):
            check_is_fitted(self)  # which tells the user
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
        return takes_matrices(self.kernels)

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
        if getattr(X, "ndim", 2) != 2:
            return
        if y and y[0] is None:
            validate_data(self, X, *y, reset=True, skip_check_array=True)
        else:  # the same without tags, for which kernels and learner would have to be made
            _check_feature_names(self, X, reset=bool(y))
            _check_n_features(self, X, reset=bool(y))

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
