"""scikit-learn's face of all estimators: parameters, callbacks, tags, pickles, reports; new rows.

How they are fitted is told in ``_fit.py``, what y means to each in its ``Targets``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from inspect import getattr_static
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

import kernelweave
from kernelweave import __version__
from kernelweave._core.checks import is_on_dask, is_one_of, shown
from kernelweave._core.html import html_table
from kernelweave._core.tensors import answering
from kernelweave._core.types import Array
from kernelweave._core.warnings import SeesLittle, warn
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.unseen import BLIND, LITTLE, seen_weight, tell_unseen
from kernelweave.estimators._documentation import Documented
from kernelweave.estimators._matrices import with_matrices
from kernelweave.estimators._targets import Targets
from kernelweave.io import model_file
from kernelweave.io._conform import completed
from kernelweave.kernels.adapters import as_kernel
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.precomputed import Precomputed
from kernelweave.learners import make_learner
from kernelweave.learners.base import Learner
from kernelweave.solution import Solution
from kernelweave.views.table import Table, check_one_table

if TYPE_CHECKING:
    from pandas import DataFrame

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An estimator that nobody can call back."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


_OF_ROWS = (  # methods whose first argument is X: answered where X is
    "predict",
    "decision_function",
    "score_samples",
    "score",
    "predict_time",
    "predict_survival_function",
    "seen_weight",
)


def store(model: Any, arguments: dict[str, Any]) -> None:
    """Keep the arguments of a constructor, its ``locals()``, as they are and by their names."""
    vars(model).update(arguments)
    del vars(model)["self"]


def replace_fitted(model: Any, found: Mapping[str, Any]) -> None:
    """Replace all that an earlier fit has left by these attributes."""
    for name in [*vars(model)]:
        if name.endswith("_") and not name.startswith("_"):
            delattr(model, name)
    vars(model).update(found)


def as_bank(kernels: Any) -> KernelBank:
    """The bank for an estimator's parameter ``kernels``."""
    return kernels if isinstance(kernels, KernelBank) else KernelBank(kernels)


def on_views(kernels: Any, views: Any) -> KernelBank:
    """The bank of these kernels on these views."""
    if isinstance(kernels, KernelBank) or is_one_of(kernels, ("precomputed",)):
        raise ValueError(
            f"views goes with kernels, not beside kernels={shown(kernels)}: give views to the bank "
            "itself, KernelBank(kernels, views=…), or leave them out."
        )
    return KernelBank(kernels, views=views)


def takes_strings(bank: KernelBank) -> bool:
    """Whether some kernel reads strings: as categories, as the default bank does, or unchanged."""
    return bank.kernels is None or any(
        kernel.reads != "numbers" and not isinstance(kernel, Precomputed)
        for kernel in _kernels(bank)
    )


def takes_sparse(bank: KernelBank) -> bool:
    """Whether a sparse X will do for all kernels, and for the scaling of their columns."""
    return is_one_of(bank.scale, ("auto", None)) and all(
        kernel.takes_sparse for kernel in _kernels(bank)
    )


def _kernels(bank: KernelBank) -> Iterator[Kernel]:
    """The kernels named in a bank; items that are none are left out: ``fit`` reports them."""
    for item in bank.kernels if isinstance(bank.kernels, list) else [bank.kernels]:
        with suppress(TypeError, IndexError):
            yield as_kernel(item[1] if isinstance(item, tuple) else item)


class Estimator(CallbackSupportMixin, Documented, BaseEstimator):
    """What all estimators of kernelweave share: callbacks, reports and files."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _OF_ROWS:
            method = getattr_static(cls, name, None)
            if isinstance(method, FunctionType) and not hasattr(method, "__wrapped__"):
                setattr(cls, name, answering(method))

    @contextmanager
    def _callbacks(
        self, X: Any, y: Any, steps: int | None = None
    ) -> Iterator[Callable[[], bool] | None]:
        """The time of a fit, of which scikit-learn's callbacks hear, where there are any.

            fit ─┬─ step 0
                 ├─ step 1
                 └─ …

        A step is one iteration of a learner, or one bank on one fold of an estimator that chooses;
        there will be so many ``steps``, if that is known. Hands out what is to be called after
        each step: it says whether the fit shall end. None if nobody listens.
        """
        if not (hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx")):
            yield None
            return
        try:
            task = self._init_callback_context(max_subtasks=steps)
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)

            def step() -> bool:
                one = task.subcontext(task_name="step")
                one.call_on_fit_task_begin(estimator=self)
                return bool(one.call_on_fit_task_end(estimator=self))

            yield step
            task.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=lambda: vars(self).copy()
            )
        finally:
            self._leave_fit()

    @with_callbacks
    def _leave_fit(self) -> None:
        """The fit is over, whether it was done or failed.

        The decorator has nothing else to run: around the fit itself, it would stand between the
        fit and the line of the user that warnings are to point to.
        """

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not state.keys() >= {*self._get_param_names()}:  # pickled before there were all
            state = completed(type(self), state)
        super().__setstate__(state)

    def weights_frame(self) -> DataFrame:
        """The weights as a data frame, the heaviest first: kernel, view, weight and more."""
        check_is_fitted(self)
        return kernelweave.inspection.weights_frame(self)

    def report(
        self, path: str | os.PathLike[str], X: Any = None, y: Any = None, **options: Any
    ) -> str:
        """Write an HTML file that says what the model is worth, and return the verdict.

        X, y: the rows it was fitted to; without, only what the model knows. Options are those of
        ``kernelweave.inspection.write_report``: cv=5, scoring, groups, row_ids, n_jobs, ….
        """
        check_is_fitted(self)
        return kernelweave.inspection.write_report(self, path, X, y, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, ``model.kweave`` say; ``kernelweave.load`` reads it.

        The file holds data and no code: support rows, kernels with a weight, and the parameters.
        See ``kernelweave.io.model_file``.
        """
        check_is_fitted(self)
        model_file.save(self, path)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._fitted_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._fitted_html()
        return bundle

    def _fitted_html(self) -> str:
        """The heaviest kernels of a fitted model; nothing before."""
        bank, weights = getattr(self, "bank_", None), getattr(self, "weights_", None)
        if bank is None or weights is None:
            return ""
        mean = np.atleast_2d(weights).mean(axis=0)
        order = np.argsort(-np.abs(mean), kind="stable")
        rows = [(bank.names[k], bank.views[k], f"{mean[k]:.3f}") for k in order]
        gap = getattr(self, "duality_gap_", np.nan)
        return html_table(
            f"Kernel weights; duality gap {gap:.1e}", ("kernel", "view", "weight"), rows
        )


class MKLEstimator(Estimator):
    """The base class of estimators that fit once; not for use by itself."""

    kernels: Any
    learner: str | Learner

    bank_: FittedBank
    solution_: Solution | tuple[Solution, ...]
    weights_: Array
    dual_coef_: Array
    intercept_: Array

    _targets: ClassVar[type[Targets]]  # what y means, by which the estimators differ
    _kept: ClassVar[tuple[str, ...]] = ("bank_", "weights_", "dual_coef_", "intercept_")  # in files
    _on_cluster: ClassVar[bool] = False  # whether X may be a dask array or data frame
    _as_bank = staticmethod(as_bank)  # the bank for the parameter ``kernels``

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Nested names such as ``kernels__normalize`` first turn ``kernels`` into a bank; names such
        as ``learner__small`` first turn the name of a learner into an object.
        """
        kernels = params.get("kernels", self.kernels)
        nested = {name.split("__")[1] for name in params if name.startswith("kernels__")}
        own = kernels.get_params() if hasattr(kernels, "get_params") else {}
        if not nested <= own.keys():
            views = params.get("views", getattr(self, "views", None))
            params["kernels"] = self._as_bank(kernels)
            if views is not None:
                params |= {"kernels": on_views(kernels, views), "views": None}
        learner = params.get("learner", self.learner)
        if isinstance(learner, str) and any(name.startswith("learner__") for name in params):
            params["learner"] = make_learner(learner)
        return super().set_params(**params)

    @property
    def _given_matrices(self) -> bool:
        """Whether X holds kernel matrices instead of rows, by the parameter ``kernels``."""
        named = self.kernels.kernels if isinstance(self.kernels, KernelBank) else self.kernels
        return isinstance(named, str) and named == "precomputed"

    @property
    def _bank(self) -> KernelBank:
        """The bank that the parameters ``kernels`` and, where there are some, ``views`` make."""
        views = getattr(self, "views", None)
        return self._as_bank(self.kernels) if views is None else on_views(self.kernels, views)

    # ---- new rows ------------------------------------------------------------------------------

    def _values(self, X: Any) -> Array:
        """f(x) for every row of X and every machine, (n_new, n_machines)."""
        if not hasattr(self, "bank_"):
            check_is_fitted(self)  # which tells the user
        bank, table = read_new(self, X, self.bank_)
        if not all(map(attrgetter("numeric"), bank.members)):
            tell_unseen(table, bank.members)
        blind = seen_weight(table, bank.members, self.weights_) < LITTLE
        if blind.any():
            warn(
                f"{np.count_nonzero(blind)} of {len(table)} rows of X have {BLIND}, the first is "
                f"row {np.argmax(blind)}: they get about the value of an average row. "
                "seen_weight(X) has the share of each row.",
                SeesLittle,
            )
        return bank.decision(table, self.weights_, self.dual_coef_.T) + self.intercept_

    def _by_partition(self, method: str, X: Any) -> Any:
        """What a method gives for dask rows: lazy, in their partitions."""
        from kernelweave.estimators._partitions import mapped

        check_is_fitted(self)
        return mapped(self, method, X)

    def seen_weight(self, X: Any) -> Array:
        """The share of the kernel weights whose views each row of X has, (n_new,).

        1 for a row with all views. A row that lacks a view stands at its mean, so that a
        prediction says little where this is near 0. If machines have weights of their own, it is
        the mean of their shares.
        """
        if "dask" in sys.modules and is_on_dask(X):
            return self._by_partition("seen_weight", X)
        check_is_fitted(self)
        bank, table = read_new(self, X, self.bank_)
        return seen_weight(table, bank.members, self.weights_)

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
        bank, table = read_new(self, X, self._training_bank)
        if self.weights_.ndim == 1:
            return bank.cross(table, self.weights_)
        return np.array([bank.cross(table, weights) for weights in self.weights_])

    # ---- scikit-learn --------------------------------------------------------------------------

    @property
    def _expansion(self) -> tuple[FittedBank, Array, Array]:
        """Of what values of new rows are made: kernels, coefficients and constants by machine."""
        return self.bank_, self.dual_coef_, self.intercept_

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
        if not self._given_matrices:
            bank = self._bank
            tags.input_tags.string = tags.input_tags.categorical = takes_strings(bank)
            tags.input_tags.allow_nan = bank.allows_gaps()
            tags.input_tags.sparse = takes_sparse(bank)
        return tags


def read_new(model: MKLEstimator, X: Any, bank: FittedBank) -> tuple[FittedBank, Table]:
    """New rows for a fitted estimator, and the kernels for them; the bank checks them."""
    names = getattr(model, "feature_names_in_", None)
    if model._given_matrices:
        return with_matrices(bank, X, model.n_features_in_, names)
    unnamed = names is None and not hasattr(X, "columns")
    if not unnamed or getattr(X, "shape", ())[1:] != (model.n_features_in_,):
        check_one_table(X)
        if getattr(X, "ndim", 2) == 2:
            validate_data(model, X, reset=False, skip_check_array=True)
    return bank, bank.read(X)


def recalled(model: Any, values: Array, targets: Targets | None = None) -> Any:
    """An estimator that has these values, (n, n_machines), whatever X it is asked about.

    ``targets``: what the values mean; by default what they mean to the model, which is fitted.
    """
    known = copy(model)
    vars(known).update({} if targets is None else targets.attributes, _values=lambda X: values)
    return known
