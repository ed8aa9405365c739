"""Times to an event, some of them censored: intervals of log times, and what is made of risks."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from kernelweave._core.checks import check_floats, check_number
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave.estimators._base import MKLEstimator, store
from kernelweave.estimators._candidates import Choice, as_folds
from kernelweave.estimators._fit import Posed, fit_kernels, keep, pose, read, solve_all
from kernelweave.estimators._search import Search, Trial, share_rows
from kernelweave.estimators._targets import Training
from kernelweave.estimators._times import baseline, concordance, read_times, survival
from kernelweave.estimators.regressor import Intervals
from kernelweave.learners.base import Learner
from kernelweave.problems.groups import GroupNorm
from kernelweave.problems.interval import ENDS
from kernelweave.stacks.resources import advised


@dataclass(frozen=True)
class Times(Intervals):
    """Logarithms of times to an event, or of those at which rows were last seen without it."""

    loss = "interval"
    metric = "C-index"
    most = 1.0
    constant = "the same risk for all rows"

    @classmethod
    def check(cls, model: Any) -> None:
        """Raise an error if parameters of the estimator do not go together."""
        if model.folds is not None and check_number("folds", model.folds, int) < 2:
            raise ValueError(f"folds must be 2 or more, or None for no curves; found {model.folds}")

    @classmethod
    def read(cls, y: Any, model: Any) -> Any:
        """Times above 0 and events, (n,)."""
        found = read_times(y)
        none = found["time"] == 0.0
        if none.all():
            raise ValueError("y holds no time above 0: there is nothing to learn from.")
        if none.any():
            least = 0.5 * found["time"][~none].min()
            found["time"][none] = least
            warn(
                f"{np.count_nonzero(none)} times in y are 0, which have no logarithm: they count "
                f"as {least:g}, half of the smallest above 0."
            )
        return found

    @classmethod
    def encode(cls, training: Training, model: Any, learner: Learner) -> Times:
        """The targets of these rows."""
        if not training.targets["event"].any():
            raise ValueError(
                "y holds no event: all rows are censored, and there is nothing to learn from (rows "
                "of sample_weight 0 do not count)."
            )
        ends = log_ends(training.targets)
        return super().encode(replace(training, targets=ends), model, learner)  # type: ignore[return-value]

    def decode(self, scores: Array) -> Array:
        """Risks: the earlier, the higher."""
        return -scores

    @classmethod
    def strata(cls, targets: Any) -> Any:
        """Folds have equal shares of events."""
        return targets["event"]

    @classmethod
    def numbers(cls, targets: Any) -> Array:
        """The logarithm of each time, censored or not."""
        return np.log(targets["time"])

    @classmethod
    def distance(cls, targets: Any, said: Array) -> Array:
        """How far predicted logarithms of times are off, (n,)."""
        return super().distance(log_ends(targets), -said)


def log_ends(targets: Any) -> Any:
    """Between which ends the logarithm of each time to the event lies."""
    ends = np.empty(len(targets), ENDS)
    ends["lower"] = np.log(targets["time"])
    ends["upper"] = np.where(targets["event"], ends["lower"], np.inf)
    return ends


class Curves:
    """What both estimators make of risks: times, survival curves, the C-index."""

    event_times_: Array
    baseline_hazard_: Array
    risk_slope_: float
    risk_origin_: float
    intercept_: Array

    def predict_time(self, X: Any) -> Array:
        """The time at which the event is expected for every row of X, (n_new,).

        It is in the units of y. Of all that is predicted it needs most care: censored rows say
        that times are longer, but not by how much.
        """
        return np.exp(-self.predict(X))  # type: ignore[attr-defined]

    def predict_survival_function(self, X: Any, times: ArrayLike | None = None) -> Array:
        """The share without the event at some times among rows like each of X, (n_new, n_times).

        S(t | x) = exp(−H(t) exp(−β f(x))), without the bias of f: Cox's model of the risk alone,
        fitted to rows that were held out.

        Parameters
        ----------
        X : as in ``predict``
        times : array-like (n_times,), optional
            By default ``event_times_``. After the last time in y the curves are flat: nothing is
            known there.
        """
        check_is_fitted(self)
        if not hasattr(self, "event_times_"):
            raise AttributeError(
                f"This {type(self).__name__} has no survival curves: they need folds=5, or "
                "another number, and two events or more in y when it is fitted."
            )
        at = self.event_times_ if times is None else np.atleast_1d(check_floats("times", times))
        if at.ndim != 1 or not (at >= 0.0).all():
            raise ValueError(f"times must be a list of numbers ≥ 0, found {times!r}.")
        curve = self.risk_slope_, self.risk_origin_, self.event_times_, self.baseline_hazard_
        risk = self.predict(X) + self.intercept_[0]  # type: ignore[attr-defined]
        return survival(*curve, risk, at)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Harrell's C of the risks: of pairs of rows, how often the earlier event had the higher.

        0.5 is chance, 1 the right order of all pairs of which it is known whose event came first.
        """
        known = read_times(y)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        risk = self.predict(X)  # type: ignore[attr-defined]
        found = concordance(known["time"], known["event"], risk, weights)
        if np.isnan(found):
            warn(
                "The C-index is not defined: of no two rows is it known whose event came first.",
                UndefinedMetricWarning,
            )
        return found


class MKLSurvival(Curves, MKLEstimator):
    """Times to an event, some of them censored, from a learned combination of kernels.

        min_{d ∈ D}  min_{f, b}  ½‖f‖² + C Σ_i ℓ_i(log t_i − f(x_i) − b)

        ℓ_i(h) = (|h| − ε)₊ if the event came at time t_i,  (h − ε)₊ if row i was censored then

    f is from the space of the kernel Σ_m d_m k_m. A censored row asks for a time later than t_i,
    whatever it is [shivaswamy2007]. The kernel weights d_m ≥ 0, Σ_m d_m = 1 (or another norm), and
    the machine are learned together; the duality gap certifies how close they are to the optimum.
    Logarithms of times are standardized inside, so that C and epsilon mean the same in any units.

    Censoring is taken to tell nothing of the event beside x. Competing events and rows that enter
    late are not handled: leave such rows out, or use a package for them.

    Parameters
    ----------
    kernels : KernelBank, kernel, list of kernels or "precomputed", default=None
        As for ``MKLClassifier``.
    C : float, default=0.1
        Cost of errors beside ‖f‖². Times are noisy: a small C orders new rows better.
    learner, weight_norm, tol, max_iter, n_jobs, random_state, verbose, max_time, solver, device
        As for ``MKLRegressor``.
    epsilon : float, default=0.1
        Errors up to this cost nothing, in standard deviations of the logarithms of times.
    folds : int or None, default=5
        Folds of the risks that ``predict_survival_function`` is made from; as many more fits. None:
        no curves.

    Attributes
    ----------
    weights_, raw_weights_, kernel_names_, bank_, support_, dual_coef_, intercept_, duality_gap_, …
        As for ``MKLRegressor`` with one target, the logarithm of the time.
    target_mean_, target_scale_ : ndarray (1,)
        Mean and deviation of the logarithms of all times.
    held_out_risks_ : ndarray (n,)
        The risk of each row of X by a fit to other rows, without the bias of that fit; NaN for rows
        of weight 0.
    event_times_ : ndarray (n_times,)
        Times of events, each once.
    baseline_hazard_ : ndarray (n_times,)
        The cumulative hazard at these times for a risk of ``risk_origin_``.
    risk_slope_, risk_origin_ : float
        By how much the log hazard rises per unit of risk, and the mean of the risks held out.

    Notes
    -----
    y is a structured array as scikit-survival makes it (a field of truth values, one of times), two
    columns (time, event) as an array or a frame, or times alone where all events were seen. Times
    of 0 count as half of the smallest positive one, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import MKLSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> time = np.exp(X[:, 0] + 0.5 * rng.normal(size=200))
    >>> seen = rng.exponential(3.0, 200)
    >>> y = np.column_stack([np.minimum(time, seen), time <= seen])
    >>> model = MKLSurvival().fit(X[:150], y[:150])
    >>> bool(model.score(X[150:], y[150:]) > 0.75)
    True
    >>> model.predict_survival_function(X[150:], [0.5, 1.0, 2.0]).shape
    (50, 3)
    """

    _targets = Times

    def __init__(
        self,
        kernels: Any = None,
        C: float = 0.1,
        learner: str | Learner = "auto",
        epsilon: float = 0.1,
        weight_norm: float | GroupNorm | None = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        max_time: float | None = None,
        solver: str = "auto",
        folds: int | None = 5,
        device: str | None = None,
    ) -> None:
        store(self, locals())

    @advised
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn kernel weights and the machine, then survival curves from risks of rows held out.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read; kernel matrices if ``kernels="precomputed"``.
        y : structured array (n,), array-like or frame (n, 2), or array-like (n,)
            Times, and whether the event came then; see Notes.
        sample_weight : array-like (n,), optional
            How often each row counts, ≥ 0; 1 for all by default.
        groups : array-like (n,), optional
            Rows of one group are held out together, for the curves.

        Returns
        -------
        self
        """
        posed = pose(self, read(self, X, y, sample_weight))
        began = time.perf_counter()
        with self._callbacks(X, y) as step:
            learned = solve_all(fit_kernels(posed, posed.options.n_jobs), posed, None, step, began)
            curves = _cross_fitted(self, posed, groups)
            keep(self, learned)
            self.__dict__.update(curves)
        return self

    def predict(self, X: Any) -> Array:
        """The risk of every row of X, (n_new,): the higher, the earlier the event.

        It is minus the logarithm of ``predict_time``.
        """
        values, targets = self._values(X), self._targets.known(self)
        return targets.decode(targets.scores(values))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.positive_only = True
        return tags


def _cross_fitted(model: MKLSurvival, posed: Posed, groups: Any) -> dict[str, Any]:
    """Curves from the risks of rows held out; nothing where folds cannot be learned."""
    training, options = posed.training, posed.options
    event = training.targets["event"]
    count = min(model.folds or 0, int(np.count_nonzero(event)))
    if count < 2:
        return {}
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    own = None if groups is None else np.asarray(groups)[training.places]
    with warnings.catch_warnings():  # few rows may be censored
        warnings.simplefilter("ignore", UserWarning)
        splitter = kind(count, shuffle=True, random_state=options.seed)
        splits = list(splitter.split(np.empty((len(event), 1)), event, own))
    folds = as_folds(splits, len(event), np.arange(len(event)))
    choices = [Choice("bank", training.bank, ["own"])]
    shared = replace(training, table=share_rows(training.table), matrices=False)
    task = Search(model, shared, {"own": options}, [float(options.C)], choices, folds)
    try:
        return curves_of(training, task.run(options.n_jobs, None), 0)
    except ValueError as error:
        warn(f"There are no survival curves: they need fits to some of the rows. {error}")
        return {}


def curves_of(training: Training, trials: list[Trial], place: int) -> dict[str, Any]:
    """Fitted attributes from what one candidate said of the rows held out, on average.

    Without its bias, which censored rows leave open to one side: it differs from fold to fold by
    more than risks do, where C is small.
    """
    total, times = np.zeros((2, len(training.places)))
    for trial in trials:
        total[trial.fold.test] += trial.targets.scores(trial.values[place] - trial.biases[place])
        times[trial.fold.test] += 1.0
    some, weights = times > 0.0, training.weights
    risk, known = -total[some] / times[some], training.targets[some]
    risks = np.full(training.n_given, np.nan)
    risks[training.places[some]] = risk
    count = None if weights is None else weights[some]
    found = baseline(known["time"], known["event"], risk, count)
    names = "risk_slope_", "risk_origin_", "event_times_", "baseline_hazard_"
    return {"held_out_risks_": risks, **dict(zip(names, found, strict=True))}
