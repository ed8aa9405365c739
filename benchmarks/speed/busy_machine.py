"""Processor seconds of a fit on a quiet machine, and beside one busy process for each core

    search    MKLRegressorCV on 309 rows of ten columns
    fit       MKLClassifier on 5,000 rows of 20 columns

As users start Python: nothing limits the threads of BLAS. Threads that wait for each other in loops
take whole cores, and beside other work many times as much. Each in a process that has compiled
everything, the least of so many turns.
"""

import multiprocessing
import os
import time

import numpy as np
from sklearn.datasets import load_diabetes
from threadpoolctl import threadpool_limits

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.child_process import in_process

MOST = 1.5  # times the processor seconds of a quiet machine


def searched(n):
    X, y = load_diabetes(return_X_y=True)
    kw.MKLRegressorCV().fit(X[:n], y[:n])


def fitted(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    kw.MKLClassifier().fit(X, np.sign(y))


WORK = {"search": searched, "fit": fitted}


def busy():
    while True:
        pass


def seconds(name, n):
    began, started = time.process_time(), time.perf_counter()
    WORK[name](n)
    return time.process_time() - began, time.perf_counter() - started


def measure(name, n, turns):
    """Quiet and beside busy processes by turns."""
    threadpool_limits(os.cpu_count(), "blas")  # experiments have one otherwise
    WORK[name](n)
    context, found = multiprocessing.get_context("spawn"), {"quiet": [], "busy": []}
    for _ in range(turns):
        found["quiet"].append(seconds(name, n))
        others = [context.Process(target=busy, daemon=True) for _ in range(os.cpu_count())]
        try:
            for one in others:
                one.start()
            time.sleep(1.0)  # until they have started
            found["busy"].append(seconds(name, n))
        finally:
            for one in others:
                one.kill()
                one.join()
    cell = {which: min(times) for which, times in found.items()}
    return cell | {"ratio": cell["busy"][0] / cell["quiet"][0]}


def main():
    args = common.arguments(__doc__)
    sizes = {"search": 60, "fit": 600} if args.quick else {"search": 309, "fit": 5000}
    turns = 1 if args.quick else 3
    results = common.Results("busy_machine", args)
    results.fill([((name, n), in_process, measure, name, n, turns) for name, n in sizes.items()])
    lines = []
    for name, n in sizes.items():
        cell = results.get(name, n) or {}
        quiet, beside = cell.get("quiet", (None, None)), cell.get("busy", (None, None))
        lines.append([f"{name}, {n} rows", quiet[0], beside[0], cell.get("ratio"), beside[1]])
    header = ["", "quiet, processor s", "busy, processor s", "ratio", "busy, s by the clock"]
    common.table(header, lines)
    for name, n in sizes.items():
        ratio = (results.get(name, n) or {}).get("ratio")
        met = None if ratio is None else ratio <= MOST
        results.bar(f"{name}: beside others at most {MOST:g} times the seconds", ratio, met)


if __name__ == "__main__":
    main()
