"""Multiple kernel learning as scikit-learn estimators.

A bank computes kernels from X, ``learn`` weights them, and the estimator keeps what prediction
needs: the kernels with a weight and the support rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from kernelweave import __version__
from kernelweave._core.checks import shown, some
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._banks import as_bank, takes_sparse, takes_strings
from kernelweave.estimators._labels import two_classes
from kernelweave.learners import make_learner
from kernelweave.learners.base import Learner
from kernelweave.learning import check_options
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.problem import Formulation, make_formulation
from kernelweave.progress import Progress
from kernelweave.solution import Solution
from kernelweave.solving import solve
from kernelweave.views.table import Table


class MKLClassifier(ClassifierMixin, BaseEstimator):
    """Support vector classifier on a learned combination of kernels.

    The decision function is f(x) = Σ_m d_m Σ_i k_m(x, x_i) coef_i + b. The kernel weights d_m ≥ 0,
    Σ_m d_m = 1 (or another norm), and the machine are learned together; the duality gap certifies
    how close both are to the optimum. Binary classification only.

    Parameters
    ----------
    kernels : KernelBank, kernel or list of kernels, default=None
        The kernels to weight. None: the default bank, on all columns, without any need to scale X
        (see ``kernelweave.banks.default``). A kernel or a list of items means
        ``KernelBank(kernels)``. The kernels determine which values X may hold.
    C : float or "learn", default=1.0
        Cost of a slack, which is how far a row falls short of its side of the margin; ``inf``
        allows none, the hard margin. With the bank's default normalization, C has the same scale
        as in ``SVC``. "learn", with ``loss="squared_hinge"`` and ``weight_norm=1``: 1/C is
        learned as the weight of one more kernel, the identity (a ridge: a number added to the
        diagonal of the kernel matrix). ``weights_`` then sum to less than 1, because the identity
        has the rest; see ``C_``.
    learner : str or learner object, default="auto"
        How the weights are learned: a name in ``kernelweave.learners.NAMES``, or an object with
        its own options, such as ``kernelweave.learners.simple.Simple(small=1e-3)``. Signed
        weights ("sdp") need ``TransductiveMKLClassifier``: their combination is a kernel only on
        the rows given to ``fit``.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        C Σξ or (C/2) Σξ².
    weight_norm : float, GroupNorm or None, default=1
        p ≥ 1, ``inf`` included: weights with Σ_m d_m^p ≤ 1. 1 makes most of them zero; the
        larger p, the more even they are. ``GroupNorm("views")``: views compete for the weight, and
        the kernels of a view share it. None, with ``learner="radius"`` only: d ≥ 0 is the only
        constraint.
    tol : float, default=1e-3
        Relative duality gap to reach.
    max_iter : int, default=1000
        Iterations of the learner.
    n_jobs : int, default=None
        Number of threads; None is one, -1 is one per core. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Checked but not used: no learner draws random numbers.
    verbose : int, default=0
        1 prints to standard error: a line for the kernels, and one per iteration.
    max_time : float, default=None
        Seconds that ``fit`` may take, kernels included. It then ends with the best solution so far
        and its certificate; ``solution_.status`` is "max_time", and a warning says so.

    Attributes
    ----------
    weights_ : ndarray (n_kernels,)
        Learned weight of every kernel of the bank; 0 for dropped kernels.
    raw_weights_ : ndarray (n_kernels,)
        The weights for the kernels before normalization (but after centering). NaN under
        ``normalize="sphere"``, where no single factor relates the two.
    kernel_names_ : ndarray (n_kernels,) of str
        A readable name per kernel.
    bank_ : FittedBank
        The kernels with a weight, against the support rows; ``bank_.dropped`` says which kernels
        were dropped and why, ``bank_.views`` names the view of every kernel.
    support_ : ndarray (n_SV,)
        Numbers of the support rows in X.
    dual_coef_ : ndarray (1, n_SV)
        Coefficients of the support rows.
    intercept_ : ndarray (1,)
        The bias b.
    duality_gap_ : float
        |primal − dual| / max(|primal|, |dual|): no weights and no machine lower the objective by
        more than this share; under ``learner="uniform"``, ``"alignment"``, ``"alignf"`` and
        ``"easy"``, no machine with their weights.
    objective_ : float
        The primal value.
    C_ : float
        C as given or as learned; infinite if the identity got no weight, because the kernels
        separate the training rows without slack.
    n_iter_ : int
        Iterations of the learner.
    n_svm_solves_ : int
        Number of support vector machines solved.
    history_ : dict of ndarray
        By iteration: "weights" (for every kernel of the bank), "objective", "gap", "seconds",
        "n_svm_solves".
    radius_ : float
        Under the learners ``radius`` and ``radius_bound``: the radius of the smallest ball around
        the training rows in the feature space of the learned kernel, Σ_m ``weights_``_m k_m; under
        ``RadiusBound(ridge_in_ball=True)``, of that kernel plus its ridge.
    solution_ : Solution
        The result of ``kernelweave.learn``, for the kernels ``bank_.kept`` and all training rows.
    classes_ : ndarray (2,)
        Class labels; a positive decision value means the second class.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray (n_features_in_,)
        Names of the columns, if X had any.

    Notes
    -----
    A pickle (or a copy) holds the support rows and the kernels with a weight, neither the other
    training rows nor any kernel matrix. ``combined_kernel`` therefore works on the fitted object
    only. Two kinds of kernels need more to predict: ``Precomputed`` keeps its matrix, and centered
    kernels keep all training rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kernelweave import MKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MKLClassifier().fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.9 and model.duality_gap_ <= 1e-3)
    True
    """

    bank_: FittedBank
    solution_: Solution
    weights_: Array
    dual_coef_: Array
    intercept_: Array
    classes_: NDArray[Any]

    _transductive = False  # whether signed weights are allowed

    def __init__(
        self,
        kernels: Any = None,
        C: float | str = 1.0,
        learner: str | Learner = "auto",
        loss: str = "hinge",
        weight_norm: float | GroupNorm | None = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        max_time: float | None = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.learner = learner
        self.loss = loss
        self.weight_norm = weight_norm
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.max_time = max_time

    def fit(self, X: Any, y: ArrayLike) -> MKLClassifier:
        """Learn kernel weights and machine.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read.
        y : array-like (n,)
            Labels, of any type, of two classes.

        Returns
        -------
        self
        """
        fresh = copy(self)  # if anything fails, an earlier fit stays intact
        fresh._fit(X, y)
        self.__dict__ = fresh.__dict__
        return self

    def _fit(self, X: Any, y: ArrayLike) -> None:
        self._check_columns(X, y)
        self.classes_, signs = two_classes(y)
        self._keep(*self._learn(X, signs))

    def _learn(
        self, X: Any, signs: Array, start: Solution | None = None
    ) -> tuple[FittedBank, Solution]:
        """Kernels and solution for labels −1 and +1, with 0 for rows without a label.

        Starts from the weights of ``start``, a solution for nearly the same rows.
        """
        n = len(Table.read(X))
        if n != len(signs):
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"X has {n} rows, but y has {len(signs)} labels."
            )
        learner, formulation = self._check_parameters(signs)
        began = time.perf_counter()
        bank = as_bank(self.kernels).fit(X, n_jobs=self.n_jobs)
        if self.verbose:
            seconds = time.perf_counter() - began
            sys.stderr.write(f"[kernelweave] {bank.m_all} kernels on {n} rows, {seconds:.1f} s\n")
        stack = bank.stack if self.n_jobs is None else bank.stack.threaded(self.n_jobs)
        problem = formulation.on_bank(bank.views, bank.kept).on(stack)
        first = start.weights if start and start.weights.size == stack.m else None
        progress = Progress(problem, self.verbose, began, self.max_time)
        solution = solve(problem, learner, self.tol, first, self.max_iter, progress)
        if not solution.weights.any():
            warn(
                "No kernel has a weight: C='learn' gave all of it to the identity. No kernel helps "
                "to tell the classes apart, and all rows are predicted as one class. Try other "
                "kernels or columns, or set C yourself.",
            )
        elif self.C == "learn" and np.isinf(solution.C):
            warn(
                "C='learn' gave the identity no weight: C_ is infinite, a hard margin. The kernels "
                "separate the training rows perfectly, which may be overfitting; consider choosing "
                "C by cross-validation.",
            )
        return bank, solution

    def _check_parameters(self, signs: Array) -> tuple[Learner, Formulation]:
        """Validate before kernels are computed; returns learner and problem without kernels."""
        if np.ndim(self.C):
            raise ValueError(f"C must be one number, found {shown(np.asarray(self.C))}")
        if self.C != "learn" and np.asarray(self.C).dtype.kind not in "iuf":
            raise TypeError(f"C must be a positive number or 'learn', found {self.C!r}")
        check_random_state(self.random_state)
        learner = check_options(
            self.learner, self.C, self.weight_norm, self.tol, self.max_iter, self.max_time
        )
        if learner.signed and not self._transductive:
            raise ValueError(
                f"{learner!r} learns signed weights: their kernel is positive semidefinite on the "
                "rows given to fit, but maybe not with new rows. Use another learner, or "
                "TransductiveMKLClassifier with the rows to predict among those given to fit."
            )
        formulation = make_formulation(
            signs, self.C, self.loss, self.weight_norm, signed=learner.signed
        )
        return learner, formulation

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Nested names such as ``kernels__normalize`` first turn ``kernels`` into a bank; names such
        as ``learner__small`` first turn the name of a learner into an object.
        """
        kernels = params.get("kernels", self.kernels)
        nested = {name.split("__")[1] for name in params if name.startswith("kernels__")}
        own = kernels.get_params() if hasattr(kernels, "get_params") else {}
        if not nested <= own.keys():
            params["kernels"] = as_bank(kernels)
        learner = params.get("learner", self.learner)
        if isinstance(learner, str) and any(name.startswith("learner__") for name in params):
            params["learner"] = make_learner(learner)
        return super().set_params(**params)

    def _keep(self, bank: FittedBank, solution: Solution) -> None:
        """Keep what prediction and reports need, without the kernel matrices."""
        self.solution_ = replace(solution, problem=None)  # ``problem`` holds all kernel matrices
        self.n_features_in_ = bank.n_features
        self.weights_ = bank.spread(solution.weights)
        self.raw_weights_ = self.weights_ * bank.scales
        self.kernel_names_ = np.array(bank.names)
        self.support_ = np.flatnonzero(solution.coef)
        self.dual_coef_ = solution.coef[None, self.support_]
        self.intercept_ = np.array([solution.bias])
        self.duality_gap_ = solution.gap
        self.objective_ = solution.objective
        self.C_ = float(solution.C)
        self.n_iter_ = solution.n_iter
        self.n_svm_solves_ = solution.n_svm_solves
        if "radius" in solution.extras:
            self.radius_ = solution.extras["radius"]
        elif hasattr(self, "radius_"):  # from an earlier fit with another learner
            del self.radius_
        spread = [bank.spread(weights) for weights in solution.history["weights"]]
        self.history_ = {**solution.history, "weights": np.array(spread)}
        active = np.flatnonzero(self.weights_)
        self.bank_ = bank.compact(active, self.support_)
        self._training_bank = bank.compact(active)  # for combined_kernel; not pickled

    def decision_function(self, X: Any) -> Array:
        """f(x) for every row of X, shape (n_new,); positive for ``classes_[1]``."""
        table = self._read(X)
        values = self.bank_.decision(table, self.weights_, self.dual_coef_[0])
        return values + self.intercept_[0]

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row of X, shape (n_new,)."""
        return self._classes(self.decision_function(X))

    def _classes(self, values: Array) -> NDArray[Any]:
        """The class of each decision value."""
        return self.classes_[(values > 0.0).astype(int)]

    def combined_kernel(self, X: Any) -> Array:
        """The learned kernel Σ_m d_m k_m(x, x_i) against all training rows, (n_new, n_train).

        Not available after unpickling: a pickle holds only the support rows.
        """
        check_is_fitted(self)
        if not hasattr(self, "_training_bank"):
            raise ValueError(
                "combined_kernel needs the kernels on all training rows, which pickles and copies "
                "of a fitted model leave out; bank_.cross(X, weights_) is the kernel against the "
                "support rows."
            )
        return self._training_bank.cross(self._read(X), self.weights_)

    def _read(self, X: Any) -> Table:
        """New rows, checked by the bank."""
        check_is_fitted(self)
        self._check_columns(X)
        return self.bank_.read(X)

    def _check_columns(self, X: Any, *y: Any) -> None:
        """Check the number and names of columns and the presence of y; the bank checks the rest."""
        if isinstance(X, Mapping):
            raise TypeError(
                f"X must be one table, found {type(X).__name__} with {some(map(repr, X))}. Join "
                "tables of the same rows, pandas.concat(frames, axis=1), and name the columns of "
                "each view in KernelBank(views={name: columns})."
            )
        if getattr(X, "ndim", 2) == 2:
            validate_data(self, X, *y, reset=bool(y), skip_check_array=True)

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
        tags.classifier_tags.multi_class = False
        tags.input_tags.string = takes_strings(self.kernels)
        tags.input_tags.allow_nan = as_bank(self.kernels).allows_gaps()
        tags.input_tags.sparse = takes_sparse(self.kernels)
        return tags
