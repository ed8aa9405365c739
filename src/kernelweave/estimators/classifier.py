"""Classification: two classes are one machine, more classes a sum of machines."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from kernelweave._core.checks import check_choice, check_truth, is_on_dask
from kernelweave._core.types import Array
from kernelweave.estimators._base import MKLEstimator, store
from kernelweave.estimators._calibration import WhereCalibrated, fit_calibrated
from kernelweave.estimators._fit import Learned, fit
from kernelweave.estimators._probabilities import METHODS, Calibration
from kernelweave.estimators._targets import (
    FORMS,
    Targets,
    Training,
    check_classes,
    class_factors,
    class_scores,
    learned_C,
    machine_labels,
    several_classes,
    takes_several,
)
from kernelweave.learners.base import Learner, versatile
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.losses import Loss


@dataclass(frozen=True)
class Classes(Targets):
    """Labels as −1 and +1 for each machine; ``classes`` are their names."""

    classes: Any = None
    multi_class: str = "ovr"

    learns_C = True

    @classmethod
    def check(cls, model: Any) -> None:
        """Raise an error if parameters of the estimator do not go together."""
        check_choice("multi_class", model.multi_class, FORMS)
        check_truth("shared_weights", model.shared_weights)
        if model.calibration is not None:
            check_choice("calibration", model.calibration, (None, *METHODS))
        if model.class_weight is not None and isinstance(model.C, str):
            raise ValueError(
                "class_weight multiplies C, which C='learn' learns: give C as a number"
            )

    @classmethod
    def read(cls, y: Any, model: Any) -> NDArray[Any]:
        """Labels of one type, none missing."""
        return check_classes(y)

    @classmethod
    def encode(cls, training: Training, model: Any, learner: Learner) -> Classes:
        """The targets of these rows."""
        classes, numbers = several_classes(training.targets)
        if len(classes) > 2 and not takes_several(learner, model.shared_weights):
            raise ValueError(
                f"Only binary classification is supported by {learner!r} with shared_weights=True. "
                f"The type of the target is multiclass: y contains {len(classes)} classes. Set "
                f"shared_weights=False, or use learner={versatile()}."
            )
        labels = machine_labels(numbers, len(classes), model.multi_class)
        parts = (labels,) if model.shared_weights else tuple(np.atleast_2d(labels.T))
        factors, given = None, model.class_weight
        if given is not None:
            factors = class_factors(given, classes, numbers, training.weights)
        return cls(parts, factors, classes, model.multi_class)

    @classmethod
    def known(cls, model: Any) -> Classes:
        """Those of a fitted estimator, to decode with."""
        return cls((), None, model.classes_, model.multi_class)

    @property
    def attributes(self) -> dict[str, Any]:
        """Fitted attributes from which ``known`` makes them again."""
        return {"classes_": self.classes}

    def scores(self, values: Array) -> Array:
        """One score for two classes, else one for each."""
        if len(self.classes) == 2:
            return values[:, 0]
        return class_scores(values, len(self.classes), self.multi_class)

    def decode(self, scores: Array) -> NDArray[Any]:
        """The class of the largest score."""
        best = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes[best]

    def keep(self, model: Any, learned: Learned) -> dict[str, Any]:
        """C as learned."""
        C = model.C
        return {"C_": learned_C(learned.solutions) if isinstance(C, str) else float(C)}


class MKLClassifier(ClassifierMixin, MKLEstimator):
    """Support vector classifier on a learned combination of kernels.

    The decision function is f(x) = Σ_m d_m Σ_i k_m(x, x_i) coef_i + b. The kernel weights d_m ≥ 0,
    Σ_m d_m = 1 (or another norm), and the machine are learned together; the duality gap certifies
    how close both are to the optimum.

    More than two classes are several such machines, one per class or per pair of classes. They
    share the kernel weights, which minimize the sum of their objectives: one set of weights to
    read, and one certificate for all.

    Parameters
    ----------
    kernels : KernelBank, kernel, list of kernels or "precomputed", default=None
        The kernels to weight. None: the default bank, on all columns, without any need to scale X
        (see ``kernelweave.banks.plan``). A kernel or a list of items means
        ``KernelBank(kernels)``. The kernels determine which values X may hold. Kernels with
        parameters, such as ``GaussianWidths``, have these learned with the weights. "precomputed":
        X is a list or dict of kernel matrices, or an array (m, n, n), and in ``predict`` their
        counterparts (m, n_new, n), in the order of ``fit`` or by name; one matrix is ``[K]``.
        ``KernelBank("precomputed", normalize=…)`` chooses their normalization.
        Cross-validation needs the other way to give matrices, ``Precomputed``.
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
        Seeds what is drawn: with very many rows, those on which weights are learned first. None
        draws the same rows every time.
    verbose : int, default=0
        1 prints to standard error: a line for the kernels, and one per iteration.
    max_time : float, default=None
        Seconds that ``fit`` may take, kernels included. It then ends with the best solution so far
        and its certificate; ``solution_.status`` is "max_time", and a warning says so.
    multi_class : {"ovr", "ovo"}, default="ovr"
        With more than two classes: one machine per class, against all other rows, or one per pair
        of classes, on their rows alone.
    shared_weights : bool, default=True
        Whether the machines share one set of kernel weights, or each learns its own. Kernels are
        computed once either way.
    class_weight : None, "balanced" or dict, default=None
        Factors on C by class, for a row of that class: {class: factor}, 1 for classes left out.
        "balanced": n / (n_classes · rows of the class), so that all classes cost the same.
    trace : float, optional
        c of [lanckriet2004]: weights with Σ_m d_m tr K_m = c in place of Σ_m d_m = 1, which needs
        ``weight_norm=1``. The paper's choice is c = Σ_m tr K_m, plus n with C="learn".
    recenter : bool, default=False
        The same with the traces that kernels have once centered [chapelle2008, eq. 1]; without
        ``trace``, their mean is c.
    solver : {"auto", "smo", "interior_point", "chunks"}, default="auto"
        How machines are solved. "auto" takes what is quickest for the kernels as the bank keeps
        them: SMO on matrices, an interior point method on factors, SMO on chunks of rows where
        kernels are computed on demand.
    device : None, "cpu", "auto", "cuda", "cuda:1" or "mps", default=None
        Where kernels are computed and machines are solved, as ``KernelBank(device=…)`` says. None
        follows X. The fitted model predicts on any machine.
    calibration : {None, "sigmoid", "isotonic", "temperature"}, default=None
        What makes probabilities of decision values, for ``predict_proba``: Platt's sigmoid, an
        increasing step function for 1,000 rows and more, or one factor for all machines. It is
        fitted to values of rows held out, in five folds, so that ``fit`` takes three to five times
        as long. None: there is no ``predict_proba``.
    views : dict {name: columns}, "each" or "all+each", default=None
        Views of X, as in ``KernelBank``: ``MKLClassifier(kernels, views=views)`` is
        ``MKLClassifier(KernelBank(kernels, views=views))``. None: all columns are one view.

    Attributes
    ----------
    weights_ : ndarray (n_kernels,)
        Learned weight of every kernel of the bank; 0 for dropped kernels. With
        ``shared_weights=False`` and more than two classes: (n_machines, n_kernels).
    raw_weights_ : ndarray, shaped as ``weights_``
        The weights for the kernels before normalization (but after centering). NaN under
        ``normalize="sphere"``, where no single factor relates the two.
    kernel_names_ : ndarray (n_kernels,) of str
        A readable name per kernel.
    bank_ : FittedBank
        The kernels with a weight, against the support rows; ``bank_.dropped`` says which kernels
        were dropped and why, ``bank_.views`` names the view of every kernel.
    learned_kernels_ : dict of str to kernel
        Kernels with learned parameters by name, such as ``GaussianWidths`` with its ``width``, in
        the units in which kernels see the columns; empty where no kernel has parameters.
    parameter_search_ : dict
        How they were learned: the "method", "newton" or "gradient", the number of steps
        "n_iter", how it ended, "status", and the relative fall that one more step promised,
        "stationarity". Empty where no kernel has parameters.
    support_ : ndarray (n_SV,)
        Numbers of the support rows in X, of any machine, in ascending order.
    dual_coef_ : ndarray (n_machines, n_SV)
        Coefficients of the support rows. Two classes are one machine. More classes are one
        machine per class, or under "ovo" one per pair of classes, in the order (0, 1), (0, 2), …
    intercept_ : ndarray (n_machines,)
        The bias b of each machine.
    duality_gap_ : float
        |primal − dual| / max(|primal|, |dual|): no weights and no machine lower the objective by
        more than this share; under ``learner="uniform"``, ``"alignment"``, ``"alignf"`` and
        ``"easy"``, no machine with their weights. Machines are judged together: primal and dual
        are sums over them.
    exact_gap_ : float or None
        The same for the exact kernels, where ``KernelBank(approximation=…)`` puts others in their
        place (by the support rows where these are few, else by a bound that may be loose); None
        where nothing is known, as with ``RandomFeatures`` on many rows; else equal to
        ``duality_gap_``.
    objective_ : float
        The primal value, summed over machines.
    C_ : float
        C as given or as learned; infinite if the identity got no weight, because the kernels
        separate the training rows without slack. If machines learned their own: one per machine.
    n_iter_ : int
        Iterations of the learner.
    n_svm_solves_ : int
        Number of support vector machines solved.
    history_ : dict of ndarray
        By iteration: "weights" (for every kernel of the bank), "objective", "gap", "seconds",
        "n_svm_solves". If machines learned their own weights: a tuple with one dict per machine.
    radius_ : float
        Under the learners ``radius`` and ``radius_bound``: the radius of the smallest ball around
        the training rows in the feature space of the learned kernel, Σ_m ``weights_``_m k_m; under
        ``RadiusBound(ridge_in_ball=True)``, of that kernel plus its ridge.
    solution_ : Solution
        The result of ``kernelweave.learn``, for the kernels ``bank_.kept`` and all training rows
        of positive weight. If machines learned their own weights: a tuple with one per machine.
    classes_ : ndarray (n_classes,)
        Class labels, sorted.
    calibration_ : Calibration or None
        With ``calibration``: what makes probabilities of decision values; None if there were too
        few rows.
    decision_values_ : ndarray (n,) or (n, n_machines)
        With ``calibration``: the decision value of each row of X by a fit that did not know it;
        NaN for rows of weight 0.
    decision_folds_ : ndarray (n,)
        With ``calibration``: the number of the fold that held the row out; −1 if none did.
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

    Decision values are no probabilities, and making them some takes rows that the machine was not
    fitted on. With ``calibration``, rows are held out in five stratified folds, of whole groups if
    ``groups`` are given; the machine itself is fitted to all rows, as without. ``predict`` goes by
    decision values. The class of the largest probability is another one for a few rows near the
    border: curves have their 1/2 where classes balance in the rows held out, not at 0.
    ``class_weight`` counts in all fits and not in the curves, so that probabilities are those of
    the rows as they are; ``sample_weight`` counts in both.

    Rows of ``sample_weight`` 0 are left out before anything is learned. Whole weights are the same
    as repeated rows: in the costs C·w, and in what kernels learn from the rows (widths, means,
    traces). ``class_weight`` changes the costs alone.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kernelweave import MKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MKLClassifier().fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.9 and model.duality_gap_ <= 1e-3)
    True

    Three classes, one set of kernel weights:

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = MKLClassifier().fit(X[::2], y[::2])
    >>> model.weights_.shape, model.decision_function(X[1::2]).shape
    ((5,), (89, 3))
    """

    classes_: NDArray[Any]
    C_: float | Array
    calibration_: Calibration | None
    _targets = Classes
    _on_cluster = True

    def __init__(
        self,
        kernels: Any = None,
        C: float | str = 1.0,
        learner: str | Learner = "auto",
        loss: str | Loss = "hinge",
        weight_norm: float | GroupNorm | None = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        max_time: float | None = None,
        multi_class: str = "ovr",
        shared_weights: bool = True,
        class_weight: Any = None,
        trace: float | None = None,
        recenter: bool = False,
        solver: str = "auto",
        device: str | None = None,
        calibration: str | None = None,
        views: Any = None,
    ) -> None:
        store(self, locals())

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn kernel weights and machines.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read; kernel matrices if ``kernels="precomputed"``.
        y : array-like (n,)
            Labels, of any type.
        sample_weight : array-like (n,), optional
            How often each row counts, ≥ 0; 1 for all by default.
        groups : array-like (n,), optional
            With ``calibration``: rows of one group, such as the visits of a patient, are held out
            together.

        Returns
        -------
        self
        """
        if self.calibration is None:
            return fit(self, X, y, sample_weight)
        return fit_calibrated(self, X, y, sample_weight, groups)

    def decision_function(self, X: Any) -> Array:
        """How far each row of X is on the side of a class.

        Two classes: f(x), shape (n_new,), positive for ``classes_[1]``. More classes: a score per
        class, (n_new, n_classes); under "ovr" f(x) of its machine, under "ovo" the number of pairs
        that the class wins, with ties broken by margins.
        """
        if "dask" in sys.modules and is_on_dask(X):
            return self._by_partition("decision_function", X)
        values = self._values(X)
        return self._targets.known(self).scores(values)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row of X, shape (n_new,): that of the largest score."""
        if "dask" in sys.modules and is_on_dask(X):
            return self._by_partition("predict", X)
        values, targets = self._values(X), self._targets.known(self)
        return targets.decode(targets.scores(values))

    @WhereCalibrated
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class for every row of X, (n_new, n_classes).

        There with ``calibration`` only.
        """
        if "dask" in sys.modules and is_on_dask(X):
            return self._by_partition("predict_proba", X)
        values = self._values(X)
        assert self.calibration_ is not None
        return self.calibration_(values)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = takes_several(self.learner, self.shared_weights)
        return tags
