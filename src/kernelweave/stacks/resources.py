"""What the machine has for a fit: memory, and threads.

A stack of m kernels on n rows takes m · n² · itemsize bytes. Whether they fit is asked before the
allocation, because a system that promises more memory than it has ends the process instead of
raising an error.

Compiled functions release the lock of the interpreter, so that plain threads run them at once. The
work is a list of tasks whose results do not depend on who runs the others: the bits are the same
for every number of threads.

Threads of BLAS wait for each other in loops that take whole cores, thousands of times in a small
fit: beside other work they cost many times what they save. How many there are is one number for
the whole process, which ``blas_threads`` lowers while a fit lasts.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, wraps
from operator import attrgetter
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import DTypeLike
from threadpoolctl import ThreadpoolController

from kernelweave._core.checks import is_whole
from kernelweave._core.settings import SETTINGS

ROOT = Path("/")
GIB = 2.0**30
LESS = (
    "what takes less: KernelBank(approximation=Nystroem(300)), KernelBank(storage='lazy'), slower, "
    "fewer rows, fewer kernels, or float32: KernelStack(dtype='float32'), KernelBank(dtype=…)"
)
# addresses that a fit takes beside arrays: buffers of BLAS, stacks of threads, code
_MAPPED = 2**28

Given = ParamSpec("Given")
Found = TypeVar("Found")


class OutOfMemory(MemoryError):
    """There is less memory than a fit takes; it says what takes less."""


def advised(fit: Callable[Given, Found]) -> Callable[Given, Found]:
    """A function whose every ``MemoryError`` has advice."""

    @wraps(fit)
    def call(*args: Given.args, **more: Given.kwargs) -> Found:
        try:
            return fit(*args, **more)
        except OutOfMemory:
            raise
        except MemoryError as error:
            told = str(error) or "no more memory is left"
            raise OutOfMemory(f"the fit ran out of memory: {told}; {LESS}") from error

    return call


def largest_chunk() -> int:
    """Rows of a chunk, at the most: solving it takes a quarter of the memory that is left."""
    available = available_bytes() or 0  # unknown: as if there were none
    fits = math.isqrt(available // (4 * 4 * 8))  # four arrays of float64
    return min(max(SETTINGS.chunk_rows, fits), SETTINGS.chunk_most)


def fits(m: int, n: int, dtype: DTypeLike) -> bool:
    """Whether m · n² numbers do not exceed what is available."""
    available = available_bytes()
    return available is None or m * n * n * np.dtype(dtype).itemsize <= available


def require_memory(m: int, n: int, dtype: DTypeLike) -> None:
    """Raise ``MemoryError`` when m · n² numbers exceed what is available."""
    dtype = np.dtype(dtype)
    needed = m * n * n * dtype.itemsize
    available = None if needed <= SETTINGS.tiny else available_bytes()
    if available is None or needed <= available:
        return
    half_fits = dtype.itemsize == 8 and needed / 2 <= available
    smaller = ", or float32: KernelStack(dtype='float32'), KernelBank(dtype='float32')"
    raise OutOfMemory(
        f"{m} kernels on {n} rows take {needed / GIB:.3g} GiB as {dtype}, but only "
        f"{available / GIB:.3g} GiB is available; use fewer kernels or fewer rows"
        + smaller
        * half_fits
    )


def available_bytes(root: Path = ROOT) -> int | None:
    """Bytes this process can still allocate, None where the system does not say.

    The least of what the machine has (page cache that can be given back included), what each
    control group around the process leaves it, and of the addresses it may have (``ulimit -v``),
    what is not mapped yet.
    """
    found = [*_control_groups(root)]
    known = _read(root / "proc/meminfo").split()
    if "MemAvailable:" in known:
        found.append(int(known[known.index("MemAvailable:") + 1]) * 1024)
    else:
        found += _elsewhere()
    if mapped := _read(root / "proc/self/statm").split():
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            found.append(most - int(mapped[0]) * resource.getpagesize() - _MAPPED)
    return max(0, min(found)) if found else None


def _elsewhere() -> list[int]:
    """Not on Linux: memory not in use where that is known, else all there is."""
    try:
        known = os.sysconf_names
        pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in known else "SC_PHYS_PAGES"
        return [os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return []


def _control_groups(root: Path) -> Iterator[int]:
    """Limit − usage + page cache that can be given back, for the group and all above it."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top = root / "sys/fs/cgroup"
            limit, usage, cache = "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        group = top / path.lstrip("/")
        for folder in [group, *group.parents]:
            most = _read(folder / limit).strip()
            used = _read(folder / usage).strip() if most.isdigit() else ""
            if used.isdigit():
                stat = _read(folder / "memory.stat").split()
                kept = int(stat[stat.index(cache) + 1]) if cache in stat else 0
                yield int(most) - int(used) + kept
            if folder == top:
                break


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


# ---- threads -------------------------------------------------------------------------------------


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
            _BLAS.hold(fit, most)
        yield
    finally:
        if most is not None:
            _BLAS.hold(fit, None)


class _Blas:
    """The limits of all fits that last: the least holds; the last fit to leave restores."""

    def __init__(self) -> None:
        self._lock, self._limits = threading.Lock(), dict[object, int]()
        self._before: list[tuple[Any, int]] = []  # libraries, and their threads

    def reset(self) -> None:
        """In the child of a fork no fit lasts, and nobody holds the lock."""
        self._lock, self._limits = threading.Lock(), {}

    def hold(self, fit: object, most: int | None) -> None:
        """A fit begins; None: it is over, if it had begun."""
        with self._lock:
            if not self._limits:
                libraries = _libraries()
                counts = map(attrgetter("num_threads"), libraries)
                self._before = list(zip(libraries, counts, strict=True))
            self._limits.pop(fit, None)
            if most is not None:
                self._limits[fit] = most
            for library, before in self._before:
                library.set_num_threads(min([before, *self._limits.values()]))


_BLAS = _Blas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_BLAS.reset)


@lru_cache
def _libraries() -> list[Any]:
    """Every BLAS there is at the first fit; looking for them takes some milliseconds."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
