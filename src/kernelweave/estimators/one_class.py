"""One class: what most rows have in common, and which rows are unlike them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from kernelweave._core.checks import check_choice, is_number
from kernelweave._core.tolerances import COINCIDE
from kernelweave._core.types import Array
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.normalize import ASKED
from kernelweave.banks.plan import WIDTHS
from kernelweave.estimators._base import MKLEstimator, as_bank, store
from kernelweave.estimators._fit import Learned, Training, fit
from kernelweave.estimators._targets import Targets
from kernelweave.kernels.numeric import Gaussian
from kernelweave.learners.base import Learner
from kernelweave.problems.groups import GroupNorm


@dataclass(frozen=True)
class Nothing(Targets):
    """No targets: all rows are of one class, and C is 1/(νn)."""

    rounding: float = 0.0

    kind = "nothing"
    loss = "one_class"

    @classmethod
    def check(cls, model: Any) -> None:
        """Raise an error if parameters of the estimator do not go together."""
        if not is_number(model.nu):
            raise TypeError(f"nu must be a number above 0 and at most 1, found {model.nu!r}")
        if not 0.0 < model.nu <= 1.0:
            raise ValueError(
                f"nu must be above 0 and at most 1, as a share of the rows, found {model.nu!r}"
            )

    @classmethod
    def read(cls, y: Any, model: Any) -> None:
        """There are none."""

    @classmethod
    def encode(cls, training: Training, model: Any, learner: Learner) -> Nothing:
        """The targets of these rows."""
        check_choice("normalize", training.bank.normalize, ASKED)
        if ASKED[training.bank.normalize][0]:
            raise ValueError(
                f"normalize={training.bank.normalize!r} centers the kernels, which puts the mean "
                "of the rows at the origin: no machine tells them from it. Use normalize='trace'."
            )
        n = len(training.table)
        rows = n if training.weights is None else training.weights.sum()
        rounding = n * float(np.finfo(np.float64).eps)
        C = (1.0 + rounding) / (model.nu * rows)  # for ν = 1 the costs must add up to 1
        return cls((np.zeros(n),), C, rounding)

    def check_kernels(self, stack: Any, weights: Array | None) -> None:
        """Raise ValueError if the mean of the rows is the origin: the optimum is then 0."""
        shares = np.full(stack.n, 1.0 / stack.n) if weights is None else weights / weights.sum()
        nothing = max(COINCIDE, float(np.finfo(stack.precision).eps))
        if (stack.quad_forms(shares) <= nothing * stack.traces() / stack.n).all():
            raise ValueError(
                "All kernels put the mean of the rows at the origin: no machine tells them from "
                "it. So do linear kernels of columns that the bank scales to mean 0. Use Gaussian "
                "kernels; or KernelBank([Linear()], scale=None), if 0 has a meaning in your "
                "columns and rows are to be told from it."
            )

    def in_units(self, coef: Array, bias: Array) -> tuple[Array, Array]:
        """Rows with f(x) = ρ are inside, whatever rounding does."""
        return coef, bias + self.rounding * np.abs(bias)

    def decode(self, scores: Array) -> NDArray[np.intp]:
        """+1 inside, −1 outside."""
        return np.where(scores >= 0.0, 1, -1)

    def keep(self, model: Any, learned: Learned) -> dict[str, Any]:
        """ρ."""
        return {"offset_": -float(learned.bias[0])}


class MKLOneClass(OutlierMixin, MKLEstimator):
    """One-class support vector machine on a combination of kernels [rakoto2007, §2.3].

        min_{d ∈ D}  min_{f, ρ}  ½‖f‖² − ρ + 1/(νn) Σ_i (ρ − f(x_i))₊

    f is from the space of the kernel Σ_m d_m k_m. A row is an outlier if f(x) < ρ; at most a
    share ν of the training rows is.

    The kernels have equal weights unless ``learner`` says otherwise. Without labels the objective
    only asks how large f can be on all rows at a given norm, which is easiest for the kernel under
    which all rows look alike: learning favors the widest Gaussian, whether or not it tells
    outliers apart. Learn weights if kernels are comparable, such as one per view at the same
    relative width; otherwise keep equal weights, or choose kernels by rows known to be outliers.

    Parameters
    ----------
    kernels : KernelBank, kernel, list of kernels or "precomputed", default=None
        As for ``MKLClassifier``, but the default kernels are Gaussians alone, of ½, 1 and 2 times
        the median distance: under a linear or polynomial kernel rows far away have large f(x), and
        count as inliers. Centered kernels are refused, and linear ones of centered columns: the
        mean of the rows is then the origin, from which nothing is to be told apart.
    nu : float, default=0.5
        ν in (0, 1]: an upper bound on the share of training rows that are outliers, and a lower
        bound on the share of support rows.
    learner : str or learner object, default="uniform"
        "uniform": equal weights. Others learn them, see above; some are for labels alone.
    weight_norm, tol, max_iter, n_jobs, random_state, verbose, max_time, solver, device
        As for ``MKLClassifier``.

    Attributes
    ----------
    offset_ : float
        ρ: ``decision_function`` is ``score_samples`` minus this.
    weights_, raw_weights_, kernel_names_, bank_, support_, dual_coef_, intercept_, duality_gap_, …
        As for ``MKLClassifier`` with one machine; ``intercept_`` is −ρ.

    Notes
    -----
    Coefficients sum to 1, whatever the number of rows; in ``OneClassSVM`` they sum to νn, and its
    scores are as many times larger.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import MKLOneClass
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = MKLOneClass(nu=0.1).fit(X)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]]).tolist()
    [1, -1]
    """

    _targets = Nothing

    def __init__(
        self,
        kernels: Any = None,
        nu: float = 0.5,
        learner: str | Learner = "uniform",
        weight_norm: float | GroupNorm | None = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        max_time: float | None = None,
        solver: str = "auto",
        device: str | None = None,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn where most rows are.

        Parameters
        ----------
        X : array, list of rows, data frame or sparse matrix (n, n_features)
            Columns that the kernels read; kernel matrices if ``kernels="precomputed"``.
        y : ignored
        sample_weight : array-like (n,), optional
            How often each row counts, ≥ 0; 1 for all by default.

        Returns
        -------
        self
        """
        return fit(self, X, None, sample_weight)

    @property
    def _bank(self) -> KernelBank:
        return self._as_bank(self.kernels)

    @staticmethod
    def _as_bank(kernels: Any) -> KernelBank:
        """The bank for the parameter ``kernels``; Gaussians where it names none."""
        bank = as_bank(kernels)
        if bank.kernels is not None:
            return bank
        scale = "standard" if bank.scale == "auto" else bank.scale
        widths = [Gaussian(width, relative=True) for width in WIDTHS]
        return KernelBank(**{**bank.get_params(deep=False), "kernels": widths, "scale": scale})

    def score_samples(self, X: Any) -> Array:
        """f(x) of every row of X, (n_new,): the larger, the more it is like the training rows."""
        return self.decision_function(X) + self.offset_

    def decision_function(self, X: Any) -> Array:
        """f(x) − ρ of every row of X, (n_new,): negative for outliers."""
        values = self._values(X)
        return self._targets.known(self).scores(values)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """+1 for rows like those of ``fit``, −1 for outliers, (n_new,)."""
        values, targets = self._values(X), self._targets.known(self)
        return targets.decode(targets.scores(values))
