"""The kernel that all views have most in common, learned without labels."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike

from kernelweave.estimators._base import store
from kernelweave.estimators.unlabeled import Unlabeled
from kernelweave.learners.consensus import consensus_weights, cosines


class ConsensusKernel(Unlabeled):
    """Kernel weights without labels: views that agree with the others count more [mariette2018].

        max_d  dᵀCd,  ‖d‖ = 1,      C_kl = ⟨K_k, K_l⟩/(‖K_k‖‖K_l‖)

    over centered kernels; the leading eigenvector of their cosines, divided by its sum. For kernel
    PCA, spectral clustering and t-SNE on all views: ``MKLKernelTransformer(ConsensusKernel())``.

    A view of noise agrees with nothing and gets little weight, unless several views share the same
    noise, such as a batch effect: agreement is all that is measured.

    Parameters
    ----------
    kernels : KernelBank, kernel, list of kernels or "precomputed", default=None
        As for ``MKLClassifier``. Kernels of one view agree with each other: give each view as many.
    n_jobs : int, default=None
        Threads that compute kernels.

    Attributes
    ----------
    weights_ : ndarray (n_kernels,)
        ≥ 0, of sum 1.
    cosines_ : ndarray (n_kept, n_kept)
        C, of the kernels that are not dropped.
    raw_weights_, kernel_names_, bank_, n_features_in_, feature_names_in_
        As for ``MKLClassifier``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import KernelPCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from kernelweave import ConsensusKernel, KernelBank, MKLKernelTransformer
    >>> X = np.random.default_rng(0).normal(size=(50, 6))
    >>> bank = KernelBank(views={"a": slice(0, 3), "b": slice(3, 6)})
    >>> learned = MKLKernelTransformer(ConsensusKernel(bank))
    >>> make_pipeline(learned, KernelPCA(2, kernel="precomputed")).fit_transform(X).shape
    (50, 2)
    """

    def __init__(self, kernels: Any = None, n_jobs: int | None = None) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the weights.

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
        training, bank = self._fitted_bank(X, sample_weight)
        C = cosines(bank.stack, training.weights)
        self._keep(training, bank, consensus_weights(C), {"cosines_": C})
        return self
