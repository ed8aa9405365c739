"""Many fits: in threads, with a word on their progress, and one warning for all that fell short."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from kernelweave._core.status import Bar, tell
from kernelweave._core.warnings import LacksView, warn_unconverged


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warning that rows lack a view, which the user's own fit has given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LacksView)
        yield


def run(
    what: str, job: Callable[..., Any], items: Sequence[Any], n_jobs: int | None, verbose: int
) -> list[Any]:
    """``job(item)`` of each item, in order; results do not depend on ``n_jobs``."""
    began, bar, done = time.perf_counter(), Bar(verbose), list[Any]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jobs = (delayed(job)(item) for item in items)
        for result in Parallel(n_jobs=n_jobs, backend="threading", return_as="generator")(jobs):
            done.append(result)
            seconds = time.perf_counter() - began
            told = f"{what}: {len(done)} of {len(items)}, {seconds:.1f} s"
            if len(done) < len(items):
                bar.show(len(done) / len(items), told)
    if verbose and done:
        tell(told)
    late = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    if late:
        warn_unconverged(
            f"{what}: {len(late)} fits did not reach their tolerance. The first: {late[0].message}"
        )
    return done
