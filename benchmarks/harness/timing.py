"""How long things take: limits to a fit, and times taken in turns."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import kernelweave as kw


class TimeUp(Exception):
    """A fit took longer than it may."""


@contextlib.contextmanager
def time_limit(seconds: float | None, cpu: bool = False) -> Iterator[None]:
    """Raise ``TimeUp`` in the block after so many seconds, where the system has alarms.

    ``cpu``: seconds of the processor, for what must not depend on who else uses the machine.
    """
    if seconds is None or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeUp(f"more than {seconds:g} s")

    alarm, timer = (
        (signal.SIGPROF, signal.ITIMER_PROF) if cpu else (signal.SIGALRM, signal.ITIMER_REAL)
    )
    before = signal.signal(alarm, ring)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0.0)
        signal.signal(alarm, before)


def race(
    runners: dict[str, Callable[[], Any]], seconds: float = 2.0, least: int = 3, most: int = 30
) -> dict[str, dict[str, float]]:
    """Median, quartiles and least of the times of each runner.

    They take turns, so that all meet the same disturbances, after a round that does not count:
    until each ran ``least`` times and all together ``seconds``, at most ``most`` times.
    """
    times: dict[str, list[float]] = {name: [] for name in runners}
    for runner in runners.values():
        runner()
    began = time.perf_counter()
    while True:
        for name, runner in runners.items():
            start = time.perf_counter()
            runner()
            times[name].append(time.perf_counter() - start)
        rounds = len(next(iter(times.values())))
        if rounds >= most or (rounds >= least and time.perf_counter() - began > seconds):
            break
    return {name: spread(t) for name, t in times.items()}


def spread(times: Iterable[float]) -> dict[str, float]:
    """Median, quartiles and least of repeated times."""
    t = np.array(list(times))
    low, median, high = (float(q) for q in np.quantile(t, (0.25, 0.5, 0.75)))
    return {"median": median, "low": low, "high": high, "min": float(t.min()), "repeats": t.size}


def exponent(
    sizes: Iterable[float], seconds: Iterable[float], least: float
) -> tuple[float | None, int]:
    """Slope of log time over log size, where time is at least ``least``; and the points used."""
    used = [(s, t) for s, t in zip(sizes, seconds, strict=True) if t >= least]
    if len(used) < 3:
        return None, len(used)
    return float(np.polyfit(*np.log(np.array(used)).T, 1)[0]), len(used)


def overhead(learner: str) -> dict[str, float]:
    """Times of a fit on next to nothing."""
    y = np.repeat([-1.0, 1.0], 10)
    X = np.random.default_rng(0).standard_normal((20, 2)) + y[:, None]
    stack = kw.KernelStack(X.T[:, :, None] * X.T[:, None, :])
    return race({"fit": lambda: kw.learn(stack, y, learner=learner)}, 0.5)["fit"]
