"""Threads: how many, and how work is shared between them.

Compiled functions release the lock of the interpreter, so that plain threads run them at once. The
work is a list of tasks whose results do not depend on who runs the others: the bits are the same
for every number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

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
