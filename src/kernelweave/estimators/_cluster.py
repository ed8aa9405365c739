"""Fits on dask arrays and data frames: rows are read where they are.

The driver has y and the weights of the rows, vectors of n numbers. They must be in the same
partitions as X, or on this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from kernelweave._core.checks import check_nonnegative, is_on_dask
from kernelweave._core.dask_cluster import partitions
from kernelweave._core.warnings import warn
from kernelweave.estimators._targets import Training
from kernelweave.views.dask_table import DaskTable

if TYPE_CHECKING:
    from kernelweave.estimators._base import MKLEstimator


def read(model: MKLEstimator, X: Any, y: Any, sample_weight: Any) -> Training:
    """The rows of X on the cluster to learn from, and their targets, here."""
    if not is_on_dask(X):
        raise TypeError(
            "y or sample_weight is on Dask, but X is not: give all of them on Dask, or compute() "
            "them first"
        )
    if not model._on_cluster or model._given_matrices:
        refuse(model)
    bank = model._bank
    if bank.learnable():
        raise ValueError(
            "kernels with parameters to learn are for rows on one machine: on a cluster give widths"
        )
    if model.device is not None or bank.device is not None:
        raise ValueError("device= is for rows on this machine: on a cluster leave it out")
    alone(model.n_jobs)
    table: Any = bank.read(X)
    names = None
    if table.names is not None:
        seen = BaseEstimator()
        validate_data(seen, X._meta, skip_check_array=True)
        names = getattr(seen, "feature_names_in_", None)
    targets = model._targets.read(_fetched("y", y, table), model)
    n, places, weights = len(table), np.arange(len(table)), None
    if len(targets) != n:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"X has {n} rows, but y has {len(targets)} labels."
        )
    if sample_weight is not None:
        given = _fetched("sample_weight", sample_weight, table)
        weights = check_nonnegative("sample_weight", given, n)
        if not weights.any():
            raise ValueError("sample_weight: all weights are zero, and no row is left.")
        places = np.flatnonzero(weights)
        table, targets, weights = table.take(places), targets[places], weights[places]
    return Training(bank, table, targets, places, weights, n, names)


def alone(n_jobs: int | None) -> int | None:
    """None: one thread asks the cluster at a time; warns where there shall be others."""
    if n_jobs is not None:
        warn("n_jobs is ignored on a cluster: workers have the threads they were started with.")
    return None


def refuse(model: Any) -> None:
    """Raise TypeError: this estimator, or its kernels, are for rows on one machine."""
    raise TypeError(
        f"{type(model).__name__} does not take dask arrays, as MKLClassifier and MKLRegressor "
        "with kernels on rows do: X.compute() brings the rows to this machine"
    )


def _fetched(name: str, values: Any, table: DaskTable) -> Any:
    """A vector on Dask, brought here; it must be in the partitions of X."""
    if not is_on_dask(values):
        return values
    cluster = table.cluster
    arrays = cluster.get(cluster.map(_as_array, cluster.compute(partitions(values))))
    sizes = tuple(map(len, arrays))
    if sizes != table.sizes:
        raise ValueError(
            f"X and {name} must be partitioned alike: X has partitions of {list(table.sizes)} "
            f"rows, {name} of {list(sizes)}. {name}.rechunk(X.chunks[0]) or "
            f"{name}.repartition(divisions=X.divisions) does it"
        )
    return np.concatenate(arrays)


def _as_array(values: Any) -> Any:
    return np.asarray(values)
