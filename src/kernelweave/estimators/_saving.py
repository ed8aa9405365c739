"""Fitted estimators as files."""

from __future__ import annotations

import os

from sklearn.utils.validation import check_is_fitted

from kernelweave.io import model_file


class Saved:
    """An estimator that can be written to a model file."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, ``model.kweave`` say; ``kernelweave.load`` reads it.

        The file holds data and no code: support rows, kernels with a weight, and the parameters.
        See ``kernelweave.io.model_file``.
        """
        check_is_fitted(self)
        model_file.save(self, path)
