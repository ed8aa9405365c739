"""Threads: how many, and how work is shared between them.

Compiled functions release the lock of the interpreter, so that plain threads run them at once. The
work is a list of tasks whose results do not depend on who runs the others: the bits are the same
for every number of threads.

Threads of BLAS wait for each other in loops that take whole cores, thousands of times in a small
fit: beside other work they cost many times what they save. How many there are is one number for
the whole process, which ``blas_threads`` lowers while a fit lasts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

from kernelweave._core.checks import is_whole
from kernelweave._core.settings import SETTINGS


def count_threads(n_jobs: int | None) -> int:
    """Threads meant by ``n_jobs``: None is 1, −1 is one for each core this process may use."""
    if n_jobs is None:
        return 1
    if not is_whole(n_jobs):
        raise TypeError(f"n_jobs must be None or a whole number, found {n_jobs!r}")
    if n_jobs == -1:
        cores = getattr(os, "sched_getaffinity", None)
        return len(cores(0)) if cores else os.cpu_count() or 1
    if n_jobs < 1:
        raise ValueError(f"n_jobs must be None, -1 or at least 1, found {n_jobs}")
    return int(n_jobs)


def run(work: Callable[..., None], tasks: int, reads: int, threads: int, *args: Any) -> None:
    """Call ``work(*args, start, stop)`` so that every task is done once, in threads if it pays."""
    threads = min(threads, tasks)
    if threads <= 1 or reads < SETTINGS.worth_threads:
        work(*args, 0, tasks)
        return
    pieces = min(tasks, 4 * threads)  # more than threads: tasks are not equally long
    cuts = [tasks * p // pieces for p in range(pieces + 1)]
    waiting = _pool(threads, os.getpid()).map(
        lambda start, stop: work(*args, start, stop), cuts[:-1], cuts[1:]
    )
    for _ in waiting:
        pass


@lru_cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads to keep, since starting them takes longer than many a pass; a fork has its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="kernelweave")


# ---- BLAS ----------------------------------------------------------------------------------------


def blas_limit(n: int, n_jobs: int | None) -> int | None:
    """Threads of BLAS for a fit to n rows: one if it is small, else ``n_jobs``; None: as it is."""
    if n <= (SETTINGS.blas_rows if n_jobs is None else SETTINGS.lapack_rows):
        return 1
    return None if n_jobs is None else count_threads(n_jobs)


@contextmanager
def blas_threads(most: int | None) -> Iterator[None]:
    """At most so many threads of BLAS; None leaves it to BLAS. Fits may be nested, and at once."""
    fit = object()
    try:
        if most is not None:
            _BLAS.lower(fit, most)
        yield
    finally:
        if most is not None:
            _BLAS.leave(fit)


class _Blas:
    """The limits of all fits that last: the least holds; the last fit to leave restores."""

    def __init__(self) -> None:
        self._lock, self._limits = threading.Lock(), dict[object, int]()
        self._before: list[tuple[Any, int]] = []  # libraries, and their threads

    def lower(self, fit: object, most: int) -> None:
        """A fit begins."""
        with self._lock:
            if not self._limits:
                self._before = [(library, library.num_threads) for library in _libraries()]
            self._limits[fit] = most
            self._set()

    def leave(self, fit: object) -> None:
        """A fit is over, if it had begun."""
        with self._lock:
            self._limits.pop(fit, None)
            self._set()

    def _set(self) -> None:
        for library, before in self._before:
            library.set_num_threads(min([before, *self._limits.values()]))


_BLAS = _Blas()


@lru_cache
def _libraries() -> list[Any]:
    """Every BLAS of this process; looking for them takes some milliseconds."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
