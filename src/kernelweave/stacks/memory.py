"""Will it fit? A stack of m kernels on n rows takes m · n² · itemsize bytes.

Asked before the allocation, because a system that promises more memory than it has ends the
process instead of raising an error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

ROOT = Path("/")
GIB = 2.0**30

# How many rows a fit works on at a time where no matrix of all rows fits: known to solvers, and to
# the forecast of what they take.
CHUNK_ROWS = 2000  # of a chunk, whose block then takes 32 MB; more where more variables are free
CHUNK_MOST = 10_000  # whose block takes 800 MB, if memory is left for it
SAMPLE_ROWS = 4000  # of a first fit on a sample, on matrices
SAMPLE_ROWS_OF_FACTORS = 20_000
SAMPLE_TIMES = 4  # times as many rows there must be for a sample to be worth it


def largest_chunk() -> int:
    """Rows of a chunk, at the most: solving it takes a quarter of the memory that is left."""
    available = available_bytes() or 0  # unknown: as if there were none
    fits = math.isqrt(available // (4 * 4 * 8))  # four arrays of float64
    return min(max(CHUNK_ROWS, fits), CHUNK_MOST)


def require_memory(m: int, n: int, dtype: DTypeLike) -> None:
    """Raise ``MemoryError`` when m · n² numbers exceed what is available."""
    dtype = np.dtype(dtype)
    needed = m * n * n * dtype.itemsize
    available = available_bytes()
    if available is None or needed <= available:
        return
    half_fits = dtype.itemsize == 8 and needed / 2 <= available
    smaller = ", or float32: KernelStack(dtype='float32'), KernelBank(dtype='float32')"
    raise MemoryError(
        f"{m} kernels on {n} rows take {needed / GIB:.3g} GiB as {dtype}, but only "
        f"{available / GIB:.3g} GiB is available; use fewer kernels or fewer rows"
        + smaller
        * half_fits
    )


def available_bytes(root: Path = ROOT) -> int | None:
    """Bytes this process can still allocate, None where the system does not say.

    The least of what the machine has (page cache that can be given back included) and what each
    control group around the process leaves it.
    """
    found = [*_machine(root), *_control_groups(root)]
    return max(0, min(found)) if found else None


def _machine(root: Path) -> Iterator[int]:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024
            return
    try:  # not Linux: memory not in use where that is known, else all there is
        known = os.sysconf_names
        pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in known else "SC_PHYS_PAGES"
        yield os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return


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
                stat = dict(x.split() for x in _read(folder / "memory.stat").splitlines())
                yield int(most) - int(used) + int(stat.get(cache, 0))
            if folder == top:
                break


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
