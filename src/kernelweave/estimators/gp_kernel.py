"""The learned kernel for Gaussian processes.

    k(x, z) = c Σ_m d_m k_m(x, z)

The weights d were learned by another model; the amplitude c is left to the Gaussian process, which
chooses it by marginal likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from kernelweave._core.checks import shown
from kernelweave._core.types import Array
from kernelweave.banks.evaluation import between, diagonal
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._base import MKLEstimator
from kernelweave.estimators._search import CrossValidated
from kernelweave.views.table import Table


class MKLKernel(Kernel):
    """The kernel that a fitted model has learned, as a kernel of Gaussian processes.

    It holds for any rows, not only for those of the model: all it needs are the kernels with a
    weight and their parameters, so that it can be pickled. Add ``WhiteKernel()`` for noise.

    Parameters
    ----------
    model : fitted MKLClassifier or another estimator of this package
        With ``bank_`` and one vector of ``weights_``.
    amplitude : float
        c, the hyperparameter that a Gaussian process optimizes.
    amplitude_bounds : pair of floats or "fixed"
        Where it is sought.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.gaussian_process import GaussianProcessClassifier
    >>> from kernelweave import MKLClassifier, MKLKernel
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MKLClassifier().fit(X[:100], y[:100])
    >>> process = GaussianProcessClassifier(MKLKernel(model)).fit(X[:100], y[:100])
    >>> bool(process.score(X[100:200], y[100:200]) > 0.85)
    True
    """

    def __init__(
        self, model: Any, amplitude: float = 1.0, amplitude_bounds: Any = (1e-5, 1e5)
    ) -> None:
        self.model = model
        self.amplitude = amplitude
        self.amplitude_bounds = amplitude_bounds

    @property
    def hyperparameter_amplitude(self) -> Hyperparameter:
        """The one hyperparameter, on a logarithmic scale in ``theta``."""
        return Hyperparameter("amplitude", "numeric", self.amplitude_bounds)

    @property
    def requires_vector_input(self) -> bool:
        """Whether X must hold numbers only."""
        return bool(self._bank.table.numeric.all())

    def __sklearn_clone__(self) -> MKLKernel:
        """A copy with the same fitted model: what it learned is what the kernel is."""
        return MKLKernel(self.model, self.amplitude, self.amplitude_bounds)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """k(x, z) for x in X and z in Y (X itself), with the derivative in log c if asked for."""
        A = self._read(X)
        weights, bank = self.model.weights_, self._bank
        if Y is not None:
            if eval_gradient:
                raise ValueError("eval_gradient=True needs Y=None: it is for the training rows")
            B = self._read(Y)
            return self.amplitude * between(bank.members, weights, bank.table, A, B)
        K = self.amplitude * between(bank.members, weights, bank.table, A, A)
        K = 0.5 * (K + K.T)
        if not eval_gradient:
            return K
        free = not self.hyperparameter_amplitude.fixed
        return K, K[:, :, None] if free else np.empty((*K.shape, 0))

    def diag(self, X: Any) -> Array:
        """k(x, x) for x in X."""
        A, bank = self._read(X), self._bank
        return self.amplitude * diagonal(bank.members, self.model.weights_, bank.table, A)

    def is_stationary(self) -> bool:
        """Kernels of any kind may have a weight: no."""
        return False

    @property
    def _bank(self) -> FittedBank:
        """The kernels of the model; raises an error if it has none."""
        if not isinstance(self.model, MKLEstimator | CrossValidated):
            raise TypeError(
                "MKLKernel: model must be a fitted estimator of kernelweave, such as "
                f"MKLClassifier().fit(X, y), found {shown(self.model)}"
            )
        if not hasattr(self.model, "bank_"):
            name = type(self.model).__name__
            raise NotFittedError(
                f"MKLKernel: model is a {name} that has learned no kernel yet: fit it first, with "
                "refit=True if it has that parameter, and pass MKLKernel(model.fit(X, y))."
            )
        return self.model.bank_

    def _read(self, X: Any) -> Table:
        bank = self._bank
        if np.ndim(self.model.weights_) != 1:
            raise ValueError(
                f"model has {len(self.model.weights_)} learned kernels, one per machine; fit it "
                "with shared weights to have one"
            )
        return bank.read(X)

    def __repr__(self) -> str:
        return f"MKLKernel({self.model!r}, amplitude={self.amplitude:.3g})"
