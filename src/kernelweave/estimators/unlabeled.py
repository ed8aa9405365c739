"""What estimators without labels share: a bank fitted to rows, and weights by a rule of their own.

They have no machine: no coefficients, no decision values, no certificate.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kernelweave._core.types import Array
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._base import MKLEstimator, replace_fitted
from kernelweave.estimators._fit import read
from kernelweave.estimators._matrices import without_matrices
from kernelweave.estimators._targets import Targets, Training


class NoTargets(Targets):
    """There is nothing to predict."""

    kind = "nothing"

    @classmethod
    def read(cls, y: Any, model: Any) -> None:
        """There are none."""


class Unlabeled(MKLEstimator):
    """The base class of estimators that learn kernel weights without labels."""

    _targets = NoTargets
    _kept: ClassVar[tuple[str, ...]] = ("bank_", "weights_")
    learner = "uniform"  # as estimators with machines have it; there are none
    device: Any = None  # banks have storages

    n_jobs: int | None

    def _fitted_bank(
        self, X: Any, sample_weight: Any = None, least: int = 1, what: str = ""
    ) -> tuple[Training, FittedBank]:
        """The rows, at least so many, for ``what``; and their kernels."""
        training = read(self, X, None, sample_weight)
        n = len(training.table)
        if n < least:
            raise ValueError(f"{what} needs {least} rows or more, found n_samples = {n}")
        return training, training.bank.fit(training.table, self.n_jobs, training.weights)

    def _keep(
        self, training: Training, bank: FittedBank, weights: Array, found: dict[str, Any]
    ) -> None:
        """Keep the weights, which are given by kernel of the stack, and what new rows need."""
        whole = bank.spread(weights)
        active = np.flatnonzero(whole)
        kept = {"bank_": bank.compact(active, []), "_training_bank": bank.compact(active)}
        if training.matrices:
            kept = {name: without_matrices(one) for name, one in kept.items()}
        if training.names is not None:
            found = {**found, "feature_names_in_": training.names}
        replace_fitted(
            self,
            {
                "weights_": whole,
                "raw_weights_": whole * bank.scales,
                "kernel_names_": np.array(bank.names),
                "n_features_in_": training.n_given if training.matrices else bank.n_features,
                **kept,
                **found,
            },
        )

    def report(self, path: Any, X: Any = None, y: Any = None, **options: Any) -> str:
        """Not available: there is nothing to predict, and so nothing to report on."""
        raise TypeError(f"{type(self).__name__} predicts no targets: there is nothing to report on")

    @property
    def _expansion(self) -> tuple[FittedBank, Array, Array]:
        """No values of new rows."""
        return self.bank_, np.zeros((0, self.bank_.n_rows)), np.zeros(0)
