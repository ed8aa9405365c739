"""Predictions for dask arrays and data frames: lazy, partition by partition, where these are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kernelweave._core.dask_cluster import partitions


def mapped(model: Any, method: str, X: Any) -> Any:
    """What a method gives for each partition of X, as a lazy dask array in the same partitions."""
    import dask.array as da
    from dask import delayed

    like = _alone(model, method)
    sent = delayed(model, pure=True)
    frame = not hasattr(X, "chunks") or (hasattr(X, "_meta") and hasattr(X._meta, "columns"))
    if not frame and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if not frame:
        found = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], like.shape[1:])}
        return X.map_blocks(_called, sent, method, like, meta=like, dtype=like.dtype, **found)
    parts = [
        da.from_delayed(
            delayed(_called)(part, sent, method, like), (np.nan, *like.shape[1:]), meta=like
        )
        for part in partitions(X)
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _alone(model: Any, method: str) -> Any:
    """The empty array of what the method gives."""
    names = getattr(model, "feature_names_in_", None)
    zeros = np.zeros((1, model.n_features_in_))
    if names is not None:
        import pandas as pd

        zeros = pd.DataFrame(zeros, columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these rows are nobody's
        return getattr(model, method)(zeros)[:0]


def _called(part: Any, model: Any, method: str, like: Any) -> Any:
    return getattr(model, method)(part) if part.shape[0] else like
