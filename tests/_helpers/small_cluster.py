"""Dask clusters for tests: within the process, or of real processes, whose workers may die."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np


@contextmanager
def cluster(processes: bool = False, workers: int = 2) -> Iterator[Any]:
    """A client of some workers with one thread each."""
    from distributed import Client, LocalCluster

    local = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=processes,
        dashboard_address=":0",
        silence_logs=50,
    )
    client = Client(local)
    try:
        yield client
    finally:  # whatever is gone already is not waited for
        with suppress(TimeoutError, OSError):
            client.close(timeout=1)
        with suppress(TimeoutError, OSError):
            local.close(timeout=1)


def labeled(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels and numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) + 3.0
    f = np.sin(X[:, 0]) + 0.3 * X[:, 1] - 0.2 * X[:, 1] ** 2 / 4.0
    y = f + 0.3 * rng.normal(size=n)
    return X, np.where(y > np.median(y), "yes", "no"), y
