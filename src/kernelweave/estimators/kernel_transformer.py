"""The learned kernel as features: what takes a precomputed kernel can follow in a pipeline.

transform(X)_ij = Σ_m d_m k_m(x_i, x_j),      x_j the training rows
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from kernelweave._core.types import Array
from kernelweave.estimators._documentation import Documented
from kernelweave.estimators.classifier import MKLClassifier


class MKLKernelTransformer(
    Documented, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Learns kernel weights, and gives the learned kernel against all training rows.

    ``make_pipeline(MKLKernelTransformer(), KernelPCA(kernel="precomputed"))`` is kernel PCA on the
    learned kernel. ``SpectralClustering(affinity="precomputed")`` takes ``fit_transform(X, y)``, if
    no kernel has negative values, as Gaussians have none.

    Parameters
    ----------
    estimator : estimator, default=None
        Learns the weights: ``MKLClassifier()`` by default, or another estimator with
        ``combined_kernel``; ``ConsensusKernel()`` needs no y. It is cloned.
    keep_training : bool, default=True
        Whether pickles and copies keep the training rows. False makes them small and keeps the
        data private, but a fitted transformer that was pickled then cannot transform: the kernel
        is against all training rows.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    weights_ : ndarray (n_kernels,)
        Its kernel weights.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray (n_features_in_,)
        Names of the columns, if X had any.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.decomposition import KernelPCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from kernelweave import MKLKernelTransformer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> steps = make_pipeline(MKLKernelTransformer(), KernelPCA(2, kernel="precomputed"))
    >>> steps.fit(X[:100], y[:100]).transform(X[100:110]).shape
    (10, 2)
    """

    def __init__(self, estimator: Any = None, keep_training: bool = True) -> None:
        self.estimator = estimator
        self.keep_training = keep_training

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> MKLKernelTransformer:
        """Learn the weights; ``fit_params`` go to ``fit`` of the estimator."""
        given = self._given()
        if not hasattr(given, "combined_kernel"):
            raise TypeError(
                f"estimator must have combined_kernel, as MKLClassifier has, found {given!r}"
            )
        fitted = clone(given).fit(X, y, **fit_params)
        if np.ndim(fitted.weights_) != 1:
            raise ValueError(
                f"estimator learned {len(fitted.weights_)} kernels, one per machine; let its "
                "machines share their weights"
            )
        self.estimator_, self.weights_ = fitted, fitted.weights_
        self.n_features_in_ = fitted.n_features_in_
        if hasattr(fitted, "feature_names_in_"):
            self.feature_names_in_ = fitted.feature_names_in_
        elif hasattr(self, "feature_names_in_"):  # from an earlier fit
            del self.feature_names_in_
        self._bank, self._n_rows = fitted._training_bank, fitted._training_bank.n_rows
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """The learned kernel of the training rows, symmetric to the last bit."""
        K = self.fit(X, y, **fit_params).estimator_.combined_kernel(X)
        return np.asarray(0.5 * (K + K.T))

    def transform(self, X: Any) -> Array:
        """Σ_m d_m k_m(x, x_j) for x in X against all training rows, (n_new, n_train)."""
        check_is_fitted(self)
        if not hasattr(self, "_bank"):
            raise ValueError(
                "this MKLKernelTransformer was pickled or copied without its training rows; fit "
                "it again, or set keep_training=True before that"
            )
        return np.asarray(self.estimator_.combined_kernel(X))

    def _given(self) -> Any:
        return MKLClassifier() if self.estimator is None else self.estimator

    @property
    def _n_features_out(self) -> int:
        return int(self._n_rows)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if not self.keep_training:
            state.pop("_bank", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "_bank"):
            self.estimator_._training_bank = self._bank

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = get_tags(self._given())
        tags.input_tags, tags.target_tags = given.input_tags, given.target_tags
        tags.classifier_tags, tags.estimator_type = given.classifier_tags, None
        return tags
