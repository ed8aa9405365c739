"""Work in a process of its own: for rivals that may take too long, or more memory than there is.

On Linux, whose limits and /proc it uses.
"""

import math
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

TIME, MEMORY = "time is up", "out of memory"
# how a process ends: by the limit of allow(), by a library that gets no memory, by the system
ENDS = {-signal.SIGXCPU: TIME, -signal.SIGABRT: MEMORY, -signal.SIGKILL: MEMORY}


def in_process(work: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """What ``work(*args)`` returns, or ``why`` it did not: time or memory. Its errors are ours.

    It gets nine tenths of the memory that is free now, and the time that it gives itself.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(there, work, args))
    child.start()
    there.close()
    try:
        found = here.recv()
    except EOFError:
        child.join()
        if child.exitcode not in ENDS:
            raise RuntimeError(f"{work.__name__} ended with code {child.exitcode}") from None
        found = {"why": ENDS[child.exitcode]}
    finally:
        child.kill()
    if isinstance(found, Exception):
        raise found
    return found


def allow(seconds: float) -> None:
    """From here on this process has so many processor seconds, and is then ended."""
    last = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (last, last + 5))


def _child(pipe: Connection, work: Callable[..., dict[str, Any]], args: tuple[Any, ...]) -> None:
    with open("/proc/meminfo", encoding="ascii") as lines:
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    most = resource.getrlimit(resource.RLIMIT_AS)[1]  # may be lowered, not raised
    asked = int(0.9 * 1024 * free)
    asked = asked if most == resource.RLIM_INFINITY else min(asked, most)
    resource.setrlimit(resource.RLIMIT_AS, (asked, most))
    try:
        pipe.send(work(*args))
    except MemoryError:
        pipe.send({"why": MEMORY})
    except Exception as error:
        pipe.send(error)
