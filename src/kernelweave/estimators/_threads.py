"""One job for many items, in threads; what their fits warn of is told once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from kernelweave._core.warnings import warn_unconverged
from kernelweave.stacks.resources import blas_threads


def in_threads(
    job: Callable[[Any], Any],
    items: Iterable[Any],
    n_jobs: int | None,
    late: Callable[[int], str],
    each: Callable[[int], Any] = lambda done: None,
) -> list[Any]:
    """``job(item)`` of each item, in order, in threads; results do not depend on ``n_jobs``.

    ``each`` hears how many are done. Of all that jobs warn of, only fits that fell short of their
    tolerance are told, in one warning that begins with ``late(how many)``.
    """
    done = list[Any]()
    with (
        blas_threads(None if n_jobs in (None, 1) else 1),  # side by side, each has one
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        jobs = (delayed(job)(item) for item in items)
        for result in Parallel(n_jobs=n_jobs, backend="threading", return_as="generator")(jobs):
            done.append(result)
            each(len(done))
    short = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    if short:
        warn_unconverged(f"{late(len(short))}. The first: {short[0].message}")
    return done
