"""Fitted estimators as tables, reports and files.

The first two are made in ``kernelweave.inspection``, which stands above the estimators and is
reached through the package's front door.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import kernelweave
from kernelweave._core.html import html_table
from kernelweave.io import model_file

if TYPE_CHECKING:
    from pandas import DataFrame


class Inspected:
    """An estimator that can be looked at."""

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
        return str(super()._repr_html_inner()) + self._fitted_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
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
